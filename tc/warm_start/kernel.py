"""Kernels that run from their cards, and become whole kernels where that is not enough."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tc import _native
from tc.errors import Source, warn
from tc.runtime.symbols import address
from tc.support import locks
from tc.warm_start.card import SavedCall
from tc.warm_start.warnings import SavedWarning

Whole = Callable[[], Any]  # compiles the kernel, with what the card was made of

_SET_CLASS = vars(object)["__class__"].__set__
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}  # as DLPack numbers them


class ServedCall:
    """A call of a card with its machine code in memory: what the entries of `tc._native` keep."""

    def __init__(self, call: SavedCall) -> None:
        """Raises ValueError and KeyError where `tc._native` does not load the code."""
        self.call = call
        self.code = _native.MachineCode(call.code, address)

    def entry(self) -> _native.Entry:
        """What `tc._native` runs."""
        c = self.call
        at = self.code.address(c.function)
        return c.spec.entry(at, c.workspace, c.release_gil, self, c.dynamic)


class CardCalls:
    """The calls of a card, which are loaded when they are made first."""

    def __init__(self, name: str, source: str, calls: Sequence[SavedCall]) -> None:
        self.name = name
        self.source = Source(source)
        self.rest = list(calls)
        self._said: set[SavedWarning] = set()

    def load(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], into: _native.Dispatcher) -> bool:
        """Load what is not loaded yet of calls with such arguments; whether there was any.  Issues their
        warnings."""
        found = [c for c in self.rest if _matches(c, args, kwargs)]
        loaded: list[SavedCall] = []
        for call in found:
            self.rest.remove(call)
            try:
                into._add(ServedCall(call).entry())
            except (ValueError, KeyError, MemoryError):
                continue
            loaded.append(call)
            log(f"{self.name} for {_at(call)} on cpu: from its card, nothing was compiled")
        for w in (w for c in loaded for w in c.warnings):
            if w not in self._said:
                self._said.add(w)
                warn(w.warning(self.source), stacklevel=None)
        return bool(loaded)


class WarmKernel(_native.Dispatcher):
    """Runs calls whose arguments have the types and shapes of one of its card.  Any other call, and whatever
    else is asked of it, turns it into the `tc.kernel.Kernel` that it stands for."""

    def __init__(self, source: str, calls: Sequence[SavedCall], whole: Whole) -> None:
        self.name = calls[0].spec.name
        self.source = source
        self._card_calls = CardCalls(self.name, source, calls)
        self._whole = whole
        self._lock = locks.lock()

    # ---- calling

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            done = not _is_warm(self) or self._card_calls.load(args, kwargs, self)
        if not done:
            self._become()
        return self(*args, **kwargs)

    def _failed(self, owner: ServedCall, error: _native.ErrorRecord) -> Any:
        """The whole kernel says what the error record means."""
        self._become()
        return self._failed(owner, error)

    def _become(self) -> None:
        """Turn into the whole kernel; what is loaded stays."""
        with self._lock:
            if not _is_warm(self):
                return
            whole: Any = self._whole()
            self._keep(whole._capacity)
            self.__dict__.update(whole.__dict__)
            _SET_CLASS(self, type(whole))

    # ---- whatever else is asked

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._become()
        return getattr(self, name)

    def __repr__(self) -> str:
        self._become()
        return repr(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._become()
        return copyreg.dispatch_table[type(self)](self)

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What `isinstance` asks where the type does not answer.  Nobody has the class of kernels before its
        module is imported."""
        return getattr(sys.modules.get("tc.kernel"), "Kernel", WarmKernel)

    @property
    def __doc__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._become()
        return self.__doc__

    @property
    def __signature__(self) -> Any:
        self._become()
        return self.__signature__


def _is_warm(kernel: object) -> bool:
    return type(kernel) is WarmKernel


def _matches(call: SavedCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the arguments are as many as those of a call, its arrays have such types and shapes, and its
    specialised scalars such values; all else is left to `tc._native`."""
    given = dict(zip(call.spec.parameters, args, strict=False)) | dict(kwargs)
    for name, (kind, code, bits, wanted) in zip(call.spec.parameters, call.spec.inputs, strict=True):
        if name not in given:
            return False
        if kind == "tensor" and not _is_array(given[name], wanted, _type_name(code, bits)):
            return False
        if kind == "scalar" and wanted is not None and given[name] != wanted:
            return False
    return True


def _is_array(value: Any, shape: tuple[int, ...], dtype: str) -> bool:
    """Of any library whose types have NumPy's names, PyTorch's with a prefix."""
    named = str(getattr(value, "dtype", "")).removeprefix("torch.")
    return named == dtype and tuple(getattr(value, "shape", ())) == shape


def _type_name(code: int, bits: int) -> str:
    kind = _KINDS.get(code, "")
    return kind if kind == "bool" else f"{kind}{bits}"


def _at(call: SavedCall) -> str:
    return ", ".join(f"{n} = {v}" for n, v in {**call.sizes, **call.scalars}.items()) or "no sizes"


def log(message: str) -> None:
    """Nobody listens where nothing has imported `logging`, which takes its time."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("tc").debug(message)

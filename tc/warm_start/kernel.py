"""A kernel that runs from its card, and becomes the whole kernel where that is not enough."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tc import _native
from tc.runtime.symbols import address
from tc.support import locks
from tc.warm_start.card import SavedCall

Whole = Callable[[], Any]  # compiles the kernel, with what the card was made of

_SET_CLASS = vars(object)["__class__"].__set__


class ServedCall:
    """A call of a card with its machine code in memory: what the entries of `tc._native` keep."""

    def __init__(self, call: SavedCall) -> None:
        """Raises ValueError and KeyError where `tc._native` does not load the code."""
        self.call = call
        self.code = _native.MachineCode(call.code, address)

    def entry(self) -> _native.Entry:
        """What `tc._native` runs."""
        c = self.call
        return c.spec.entry(self.code.address(c.function), c.workspace, c.release_gil, self)


class WarmKernel(_native.Dispatcher):
    """Runs calls whose arguments have the types and shapes of one of its card.  Any other call, and whatever
    else is asked of it, turns it into the `tc.kernel.Kernel` that it stands for."""

    def __init__(self, name: str, source: str, calls: Sequence[SavedCall], whole: Whole) -> None:
        self.name = name
        self.source = source
        self._calls = list(calls)
        self._whole = whole
        self._lock = locks.lock()

    # ---- calling

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._loaded(args, kwargs):
            self._become()
        return self(*args, **kwargs)

    def _loaded(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether the card has calls with arrays of these shapes that were not loaded yet; they are now."""
        found = False
        with self._lock:
            if not _is_warm(self):
                return True
            for call in list(self._calls):
                if not _shaped(call, args, kwargs):
                    continue
                self._calls.remove(call)
                try:
                    self._add(ServedCall(call).entry())
                except (ValueError, KeyError, MemoryError):
                    continue
                found = True
                _log(f"{self.name} for {_at(call)} on cpu: from its card, nothing was compiled")
        return found

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


def _shaped(call: SavedCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the arguments are as many, and have the shapes, of a call; types are left to `tc._native`."""
    given = dict(zip(call.spec.parameters, args, strict=False)) | dict(kwargs)
    for name, (kind, _, _, shape) in zip(call.spec.parameters, call.spec.inputs, strict=True):
        if name not in given:
            return False
        if kind == "tensor" and tuple(getattr(given[name], "shape", ())) != shape:
            return False
    return True


def _at(call: SavedCall) -> str:
    return ", ".join(f"{n} = {v}" for n, v in {**call.sizes, **call.scalars}.items()) or "no sizes"


def _log(message: str) -> None:
    """Nobody listens where nothing has imported `logging`, which takes its time."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("tc").debug(message)

"""Kernels that leave element types or ranks open, from their cards."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any

from tc import _native
from tc.support import locks
from tc.warm_start.card import SavedCall
from tc.warm_start.kernel import CardCalls, ServedCall, Whole


class WarmOpenKernel:
    """Runs calls whose arguments have the types and shapes of one of its card, whichever instances these are
    of.  Any other call, and whatever else is asked of it, turns it into the
    `tc.open_kernels.open_kernel.OpenKernel` that it stands for."""

    def __init__(self, source: str, calls: Sequence[SavedCall], whole: Whole) -> None:
        self.name = calls[0].spec.name
        self.source = source
        self._instances = _Instances(self, CardCalls(self.name, source, calls))
        self._whole = whole
        self._lock = locks.lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._instances(*args, **kwargs)

    def become(self) -> Any:
        """Turn into the whole kernel, which makes its instances anew."""
        with self._lock:
            if type(self) is WarmOpenKernel:
                whole: Any = self._whole()
                self.__dict__.clear()
                self.__dict__.update(whole.__dict__)
                self.__class__ = type(whole)
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.become(), name)

    def __repr__(self) -> str:
        return repr(self.become())

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.become()
        return copyreg.dispatch_table[type(self)](self)


class _Instances(_native.Dispatcher):
    """The calls of all instances of an open kernel."""

    def __init__(self, kernel: WarmOpenKernel, calls: CardCalls) -> None:
        self._kernel = kernel
        self._calls = calls
        self._lock = locks.lock()

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            done = self._calls.load(args, kwargs, self)
        return self(*args, **kwargs) if done else self._kernel.become()(*args, **kwargs)

    def _failed(self, owner: ServedCall, error: _native.ErrorRecord) -> Any:
        """The whole instance says what the error record means."""
        return self._kernel.become().named(owner.call.known)._failed(owner, error)

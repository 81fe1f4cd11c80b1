"""The floating-point mode in which `tc` computes, whatever mode the caller's thread is in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from tc import _native

P = ParamSpec("P")
R = TypeVar("R")


def standard(call: Callable[P, R]) -> Callable[P, R]:
    """A function in whose calls Python and NumPy, too, round to nearest and keep denormals."""

    @wraps(call)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with _native.StandardMode():
            return call(*args, **kwargs)

    return wrapped

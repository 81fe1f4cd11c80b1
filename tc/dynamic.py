"""Dynamic sizes: those that one kernel serves all values of, and the values that it is tuned for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from tc.errors import ArgumentError, did_you_mean

# Names of sizes, or names with typical values (None: the first call decides).
Dynamic = Iterable[str] | Mapping[str, int] | Mapping[str, int | None]

_LEAST = 64  # a first call with one row is no reason to make a kernel for single rows


def read(dynamic: Dynamic, known: Iterable[str], entry: str) -> dict[str, int | None]:
    """{size: typical value, None where the first call decides}, in the order given.

    Raises ArgumentError: TC0511 for what names no sizes or is no value of one, TC0513 for a name that the
    def does not have.
    """
    sizes = tuple(known)
    help = "dynamic is a tuple of sizes, or a mapping from sizes to typical values"
    if isinstance(dynamic, str):
        raise ArgumentError(
            f"dynamic={dynamic!r} is not valid", code="TC0511", help=f"dynamic=({dynamic!r},)"
        )
    values = cast("Mapping[object, object]", dynamic) if isinstance(dynamic, Mapping) else None
    try:
        names = list(cast("Iterable[object]", dynamic))
    except TypeError:
        raise ArgumentError(f"dynamic={dynamic!r} is not valid", code="TC0511", help=help) from None
    out: dict[str, int | None] = {}
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"dynamic={dynamic!r} is not valid", code="TC0511", help=help)
        if name not in sizes:
            raise ArgumentError(
                f"{entry} has no size '{name}'",
                code="TC0513",
                help=did_you_mean(name, sizes) or f"it has {', '.join(sizes) or 'none'}",
            )
        value = None if values is None else values[name]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ArgumentError(
                f"{entry}: {name} = {value!r} is not a typical size",
                code="TC0511",
                help="typical sizes are integers from 1 on",
            )
        out[name] = value
    return out


def typical(size: int) -> int:
    """What a dynamic size is taken to be about, after a first call with this value."""
    return max(_LEAST, 1 << max(0, size - 1).bit_length())

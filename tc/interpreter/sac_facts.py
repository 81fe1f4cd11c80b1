"""What conditions tell the SaC oracle: integers that are not negative where one holds or does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tc.interpreter.sac_shapes import Abstract, Lin, When

T = TypeVar("T")
U = TypeVar("U")
NOTHING: When = ((), ())
_ONE = Lin((), 1)


def compared(op: str, x: Lin, y: Lin) -> When:
    """Of a relation of two integers."""
    less, more = y + x.times(-1), x + y.times(-1)
    match op:
        case "<":
            return (less + _ONE.times(-1),), (more,)
        case "<=":
            return (less,), (more + _ONE.times(-1),)
        case ">" | ">=":
            true, false = compared("<=" if op == ">" else "<", x, y)
            return false, true
        case "==":
            return (less, more), ()
        case _:
            return (), (less, more)


def joined(op: str, a: When, b: When) -> When:
    """Of `a && b` or `a || b`."""
    return (a[0] + b[0], ()) if op == "&&" else ((), a[1] + b[1])


def reduced(name: str, whens: Sequence[When]) -> When:
    """Of `all` or `any` of a vector of conditions."""
    out = whens[0] if whens else NOTHING
    for w in whens[1:]:
        out = joined("&&" if name == "all" else "||", out, w)
    return out


def protected(index: Lin, extent: Lin, facts: Sequence[Lin]) -> bool:
    """Whether facts alone keep a subscript in bounds, for all values of index variables."""
    last = extent + index.times(-1) + _ONE.times(-1)
    return bool(facts) and all(
        _natural(x) or any(_natural(x + f.times(-1)) for f in facts) for x in (index, last)
    )


def _natural(e: Lin) -> bool:
    return e.constant >= 0 and all(c > 0 and not n.startswith("?") for n, c in e.terms)


def paired(
    f: Callable[[T, T], U], a: Abstract, left: tuple[T, ...] | None, b: Abstract, right: tuple[T, ...] | None
) -> tuple[U, ...] | None:
    """`f` of the elements of two operands, of which a scalar goes with every element of the other."""
    if left is None or right is None:
        return None
    if not a.rank:
        left = left * (len(right) if b.rank else 1)
    elif not b.rank:
        right = right * len(left)
    return tuple(f(x, y) for x, y in zip(left, right, strict=True))

"""Which overload fits, and how often a name is used."""

from __future__ import annotations

from typing import Any

from tc.dtypes import DType, fits_without_cast
from tc.lang import resolved as r
from tc.lang.sac import syntax as s
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, Type


def takes(found: Type, wanted: DType) -> bool:
    """Whether a value becomes one of a declared type by itself."""
    if found == "int":
        return not wanted.is_bool
    if found == "float":
        return wanted.is_float
    return not isinstance(found, str) and fits_without_cast(found, wanted)


def fits(f: s.Function, args: list[Array]) -> bool:
    if len(f.params) != len(args):
        return False
    for p, a in zip(f.params, args, strict=True):
        rank = p.type.rank
        if (rank is not None and rank != a.rank) or (p.type.dims == "+" and not a.rank):
            return False
        if p.type.base != "_T" and not takes(a.dtype, p.type.dtype):
            return False
        if isinstance(p.type.dims, tuple):
            for n, x in zip(p.type.dims, a.shape, strict=True):
                known = t.number(x)
                if n is not None and known is not None and n != known:
                    return False
    return True


def generality(f: s.Function, args: list[Array]) -> tuple[int, int]:
    ranks = types = 0
    for p, a in zip(f.params, args, strict=True):
        dims = p.type.dims
        ranks += 3000 if dims == "*" else 2000 if dims == "+" else 0
        if isinstance(dims, tuple):
            ranks += sum(n is None for n in dims)
        types += 0 if a.dtype == p.type.dtype else 1 + p.type.dtype.bits
    return ranks, types


def weight_of(f: s.Function, name: str, start: int) -> int:
    """How often a name is used from statement `start` on; in a comprehension that is often."""
    total = 0
    for a in f.body[start:]:
        total += uses(a.value, name)
        if a.name == name:
            return total
    return total + sum(uses(e, name) for e in f.results)


def uses(e: s.Exp, name: str, inside: bool = False) -> int:
    match e:
        case s.Name():
            return (2 if inside else 1) * (e.id == name)
        case s.Call(name="shape" | "dim"):
            return 0
        case s.Comprehension():
            return sum(uses(p.body, name, True) for p in e.partitions)
        case s.WithLoop():
            bodies = [g.body for g in e.generators if g.body is not None]
            return sum(uses(b, name, True) for b in bodies) + sum(uses(a, name, inside) for a in e.args)
        case _:
            return sum(uses(c, name, inside) for c in s.children(e))


def heavy(body: Any) -> bool:
    for nodes, x in enumerate(t.walk(body)):
        costly = isinstance(x, (t.Reduce, t.Pick)) or (
            isinstance(x, r.Apply) and x.function not in ("min", "max", "abs")
        )
        if costly or nodes >= 12:
            return True
    return False

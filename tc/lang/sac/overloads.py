"""Which overload fits, and how often a name is used."""

from __future__ import annotations

from collections import Counter
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


def weights(f: s.Function) -> tuple[dict[str, int], tuple[int, ...]]:
    """How often each parameter and each assigned value is used; in a comprehension that is often."""
    after: Counter[str] = Counter()
    for e in f.results:
        _count(e, 1, after)
    assigned: list[int] = []
    for a in reversed(f.body):
        assigned.append(after.pop(a.name, 0))
        _count(a.value, 1, after)
    return dict(after), tuple(reversed(assigned))


def _count(e: s.Exp, weight: int, out: Counter[str]) -> None:
    match e:
        case s.Name():
            out[e.id] += weight
        case s.Call(name="shape" | "dim"):
            pass
        case s.Comprehension():
            for p in e.partitions:
                _count(p.body, 2, out)
        case s.WithLoop():
            for g in e.generators:
                if g.body is not None:
                    _count(g.body, 2, out)
            for a in e.args:
                _count(a, weight, out)
        case _:
            for c in s.children(e):
                _count(c, weight, out)


def heavy(body: Any) -> bool:
    for nodes, x in enumerate(t.walk(body)):
        costly = isinstance(x, (t.Reduce, t.Pick)) or (
            isinstance(x, r.Apply) and x.function not in ("min", "max", "abs")
        )
        if costly or nodes >= 12:
            return True
    return False

"""Keys of programs for records of measurements: equal for programs that differ in names alone.

A program is written down with numbers in place of the names of tensors, sizes, scalars and indices, in the
order in which they appear; the key is a digest of that.  Element types, ranges that are written, boundary
modes and declared extents are part of it, blanks and comments are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from tc.cache.disk import digest
from tc.dtypes import DType
from tc.lang import resolved as r
from tc.pipeline.front import Front

# Fields that hold a name, and what it names.
_NAMES: dict[tuple[type, str], str] = {
    (r.Index, "name"): "index",
    (r.IndexRange, "name"): "index",
    (r.Subscript, "index"): "index",
    (r.Let, "name"): "let",
    (r.LetBinding, "name"): "let",
    (r.Size, "name"): "size",
    (r.Scalar, "name"): "scalar",
    (r.ScalarParam, "name"): "scalar",
}
# Fields of statements that hold names of indices.
_INDEX_LISTS = ("reductions", "auxiliary", "needs")
_LOCAL = ("index", "let")  # names that mean something in one statement only
_SKIPPED = frozenset(["span", "dtype", "site", "index_spans", "warnings", "specialized"])


@dataclass(frozen=True, slots=True)
class ProgramKey:
    """The digest of a program; `sizes` and `scalars` are its names of sizes and specialised scalars in the
    order of the digest, so that values in that order mean the same for every program of this key."""

    digest: str
    sizes: tuple[str, ...]
    scalars: tuple[str, ...]

    def extents(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The values of the sizes in the order of the key."""
        return tuple(int(sizes[n]) for n in self.sizes)

    def values(self, scalars: Mapping[str, int]) -> tuple[int, ...]:
        """The values of the specialised scalars in the order of the key."""
        return tuple(int(scalars[n]) for n in self.scalars)


def program_key(front: Front) -> ProgramKey:
    """The key of a checked program."""
    writer = _Writer(front)
    checked = front.typed.checked
    form = writer.form(
        (checked.params, checked.statements, checked.returns, checked.equalities, checked.arguments)
    )
    sizes = writer.known["size"]
    for name in checked.sizes:
        writer.number("size", name)
    scalars = writer.known["scalar"]
    specialized = sorted(front.specialized, key=lambda n: scalars.get(n, len(scalars)))
    ordered = tuple(sorted(sizes, key=sizes.__getitem__))
    return ProgramKey(digest("program", form), ordered, tuple(specialized))


class _Writer:
    """Writes trees as nested tuples without names."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.known: dict[str, dict[str, int]] = {k: {} for k in ("index", "let", "size", "scalar")}
        self.tensors: dict[r.Tensor, int] = {}
        self.loops: dict[r.Loop, int] = {}

    def number(self, kind: str, name: str) -> int:
        return self.known[kind].setdefault(name, len(self.known[kind]))

    def form(self, x: object) -> object:
        if isinstance(x, r.Tensor):
            return self.tensor(x)
        if isinstance(x, r.Loop):
            return self.loop(x)
        if isinstance(x, DType):
            return x.name
        if isinstance(x, tuple):
            return tuple(map(self.form, cast("tuple[object, ...]", x)))
        if isinstance(x, r.Statement):
            for kind in _LOCAL:
                self.known[kind] = {}
        if is_dataclass(x) and not isinstance(x, type):
            return (type(x).__name__, *self.fields(x))
        return x

    def fields(self, x: Any) -> list[object]:
        out: list[object] = []
        for f in fields(x):
            value = getattr(x, f.name)
            if f.name in _SKIPPED:
                continue
            if (kind := _NAMES.get((cast("type", type(x)), f.name))) is not None:
                out.append(self.number(kind, value))
            elif isinstance(x, r.Statement) and f.name in _INDEX_LISTS:
                out.append(tuple(self.number("index", n) for n in value))
            elif isinstance(x, (r.Returned, r.Argument)) and f.name == "name":
                continue
            else:
                out.append(self.form(value))
        return out

    def tensor(self, t: r.Tensor) -> object:
        """A tensor's number; at its first appearance with all that a kernel depends on."""
        own = t.storage
        if own in self.tensors:
            return ("t", self.tensors[own])
        number = self.tensors[own] = len(self.tensors)
        dtype = self.front.typed.dtype(own).name
        return ("t", number, own.rank, own.role, dtype, self.form(own.dims), own.kept)

    def loop(self, x: r.Loop) -> object:
        if x in self.loops:
            return ("loop", self.loops[x])
        number = self.loops[x] = len(self.loops)
        return ("loop", number, self.form(x.first), self.form(x.last), x.down)

"""The boxes of tensors and of statements' variables, as range inference found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import Box, Precondition, Range
from tc.lang import resolved as r


@dataclass(frozen=True, slots=True)
class Boxes:
    """The results of range inference in terms of the IR: the box of each tensor's storage, the ranges of each
    statement's variables, and those of the counters of sequential loops.

    `cut`: statements, and the dimensions in which only their conditions keep their writes inside the tensor.
    """

    tensors: Mapping[r.Tensor, Box]
    variables: tuple[Mapping[str, Range], ...]
    preconditions: tuple[Precondition, ...] = ()
    counters: Mapping[str, Range] = field(default_factory=dict[str, Range])
    cut: frozenset[tuple[int, int]] = frozenset()

    def box(self, t: r.Tensor) -> Box:
        """The range of a tensor as it is seen: a view starts at 0."""
        if t.base is None:
            return self.tensors[t]
        return tuple(Range(x.ZERO, b.extent) for b in self.box(t.base))

    def shift(self, t: r.Tensor) -> list[Expr | None]:
        """The amount to add to a view's subscripts to address its storage."""
        out: list[Expr | None] = [None] * t.rank
        while t.base is not None:
            t = t.base
            for d, b in enumerate(self.box(t)):
                if b.min != x.ZERO:
                    before = out[d]
                    out[d] = b.min if before is None else x.Add(before, b.min)
        return out

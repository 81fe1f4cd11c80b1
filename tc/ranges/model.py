"""What range inference returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.errors import InternalError, Span
from tc.halide.terms import expr_of
from tc.ir.boxes import Boxes
from tc.ir.expr import Expr
from tc.ir.program import Precondition, Range
from tc.lang import resolved as r


@dataclass(frozen=True, slots=True)
class Depends:
    """A range that is known only once these scalars are."""

    scalars: frozenset[str]

    def __str__(self) -> str:
        return "depends on " + ", ".join(sorted(self.scalars))


Bound = Range | Depends


@dataclass(frozen=True, slots=True)
class Obligation:
    """An access dimension that is not in bounds by construction.

    `condition`: over sizes, sufficient for the access to be in bounds (None: none is known); `shown`: the
    same where no range is empty; `necessary`: a call that breaks it reads what is not there.
    """

    statement: int
    site: int
    dim: int
    tensor: str
    condition: Expr | None
    shown: Expr | None
    guarded: bool
    data_dependent: bool
    necessary: bool
    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the derivation: in `round`, `access` allowed `variable` the range `lo..hi`."""

    statement: int
    round: int
    variable: str
    access: str
    condition: str
    lo: str
    hi: str


@dataclass(frozen=True, slots=True)
class Narrowing:
    """An access in a branch of a ternary that makes the range of a variable smaller than the other accesses
    would: `narrow` and `wide`, as text."""

    variable: str
    access: str
    narrow: str
    wide: str
    span: Span = field(compare=False, repr=False)


@dataclass(slots=True)
class Derivation:
    """What happened while a statement was solved."""

    steps: list[Step] = field(default_factory=list[Step])
    narrowings: list[Narrowing] = field(default_factory=list[Narrowing])


@dataclass(frozen=True, slots=True)
class Ranges:
    """`variables[k]`: the ranges of statement k's variables; `boxes`: those of the tensors' dimensions;
    `counters`: the values of sequential loops' variables, which the former, and inner loops, may name;
    `cut`: statements, and dimensions that they write within the tensor only because of their conditions."""

    variables: tuple[Mapping[str, Bound], ...]
    boxes: Mapping[r.Tensor, tuple[Bound, ...]]
    obligations: tuple[Obligation, ...]
    preconditions: tuple[Precondition, ...]
    steps: tuple[Step, ...]
    narrowings: tuple[Narrowing, ...] = ()
    counters: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    cut: frozenset[tuple[int, int]] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether every range is known (else scalars must be specialised first)."""
        known = (*self.variables, self.counters)
        return not any(isinstance(b, Depends) for m in known for b in m.values())

    def box(self, t: r.Tensor) -> tuple[Bound, ...]:
        """The range of a tensor as it is seen here: a view starts at 0."""
        if t.base is None:
            return self.boxes[t]
        zero = expr_of(0)
        return tuple(Range(zero, b.extent) if isinstance(b, Range) else b for b in self.box(t.base))

    def known_boxes(self) -> Boxes:
        """These ranges in terms of the IR; they are complete."""
        return Boxes(
            {t: tuple(map(_known, box)) for t, box in self.boxes.items()},
            tuple({v: _known(b) for v, b in m.items()} for m in self.variables),
            self.preconditions,
            {n: _known(b) for n, b in self.counters.items()},
            self.cut,
        )


def _known(b: Bound) -> Range:
    if isinstance(b, Depends):
        raise InternalError(f"a range still {b}")
    return b

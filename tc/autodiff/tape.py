"""A program as a tape: versions of tensors, whose elements are never revised once they have been read.

Reverse-mode differentiation goes over the tape from its end.  In a program a statement may redefine elements
that others have read; on the tape it defines another version.  A version is defined by `=` statements, of
which the later ones win, and then by sums onto them.  A product or an extreme is one reduction from its
neutral element, and what combines it with older elements is a statement of its own.

A version that is made in an iteration of sequential loops has the counters of these as its first dimensions,
so that it is another in each iteration.  Two kinds of versions have definitions in several iterations.  One
that is `in_place` is written piece by piece, as `h` by `h(t+1,i) = … h(t,j) …`.  One that is carried has the
values at the start of each iteration of the loop `carrier` and, one further, at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tc.autodiff.loops import Loop
from tc.dtypes import DType
from tc.errors import Span
from tc.ir.expr import EQ, Call, Expr, Variable, walk
from tc.ir.program import Box, Domain, Op, Stage


@dataclass(frozen=True, slots=True)
class Version:
    """A state of a tensor.  `role`: `input` what the caller passes, `output` what a program returns,
    `temporary` all others.

    `loops` are those in an iteration of which it is made, whose counters are its first `lead` dimensions; of
    one that is carried the next dimension, which counts in `lead`, has the iterations of `carrier`.
    `once`: no `=` writes an element that had been written.
    """

    name: str
    tensor: str
    dtype: DType
    box: Box
    role: Literal["input", "output", "temporary"]
    loops: tuple[Loop, ...] = ()
    carrier: Loop | None = None
    in_place: bool = False
    once: bool = True

    @property
    def lead(self) -> int:
        return len(self.loops) + (self.carrier is not None)

    @property
    def own(self) -> Box:
        """The box without iterations."""
        return self.box[self.lead :]


@dataclass(frozen=True, slots=True)
class Definition:
    """`target(args) op= value` for all points of the domain, whose pure variables are those of `args`."""

    target: str
    args: tuple[Expr, ...]
    op: Op | None
    value: Expr
    domain: Domain
    neutral: bool = False  # the neutral element, from which the next definition reduces
    arg: Literal["argmin", "argmax"] | None = None  # in place of `op`: where the extreme is
    span: Span | None = field(default=None, compare=False, repr=False)
    loops: tuple[Loop, ...] = ()

    @property
    def scatters(self) -> bool:
        """Whether data choose the elements that it writes."""
        return any(isinstance(e, Call) and e.kind != "intrinsic" for a in self.args for e in walk(a))


@dataclass(frozen=True, slots=True)
class Tape:
    """Versions by name, and their definitions in order.  `facts` are the names of extents: what each
    equals."""

    versions: Mapping[str, Version]
    definitions: tuple[Definition, ...]
    outputs: tuple[str, ...]  # of the program, in order
    sizes: tuple[str, ...]
    facts: tuple[EQ, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        """The sizes that are no names of extents."""
        named = {x.name for fact in self.facts for x in walk(fact.a) if isinstance(x, Variable)}
        return tuple(s for s in self.sizes if s not in named)

    def of(self, version: str) -> tuple[Definition, ...]:
        return tuple(d for d in self.definitions if d.target == version)

    def is_final(self, d: Definition) -> bool:
        """Whether an element keeps the value that a definition gives it, in the type of the version."""
        v, others = self.versions[d.target], self.of(d.target)
        alone = len(others) == 1 or (v.in_place and all(e.op is None for e in others))
        return d.op is None and v.once and alone and v.dtype == d.value.dtype


def mapped(d: Definition, f: Callable[[Expr], Expr]) -> Definition:
    """A definition with `f` of its subscripts, its value and its conditions."""
    domain = replace(d.domain, conditions=tuple(map(f, d.domain.conditions)))
    return replace(d, args=tuple(map(f, d.args)), value=f(d.value), domain=domain)


def depends_on(definitions: Iterable[Definition], wanted: Iterable[str]) -> frozenset[str]:
    """The versions on which those that are wanted depend, these among them."""
    latest_first = tuple(definitions)[::-1]
    found, before = set(wanted), -1
    while len(found) != before:  # once, but for loops
        before = len(found)
        for d in latest_first:
            if d.target in found:
                found |= {c.name for c in reads(d)}
    return frozenset(found)


def reads(d: Definition | Stage) -> Iterator[Call]:
    """The reads of tensors in a definition, or in a stage of a program."""
    for root in (*d.args, d.value, *d.domain.conditions):
        for e in walk(root):
            if isinstance(e, Call) and e.kind != "intrinsic":
                yield e

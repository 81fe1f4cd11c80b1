"""Sums of products in parts, by the distributive law: what the path of an einsum is.

    D(i,l) += A(i,j) * B(j,k) * C(k,l)

multiplies and adds for each `i`, `j`, `k` and `l`.  Factors that do not depend on `j` leave the sum over it:

    t(i,k) += A(i,j) * B(j,k)        D(i,l) += t(i,k) * C(k,l)

A temporary has the coordinates of the factors that it sums (`tc.transforms.program.coordinates`), so
`y(i,j) += g(p) * g(q) * x(i+p,j+q)` becomes the two passes of a separable filter:

    t(i,s) += g(p) * x(i+p,s)        y(i,j) += g(q) * t(i,j+q)

The same holds of the extremes of one operand, such as `y(i,j) max= x(i+p,j+q)`.

The order in which variables are summed is found by trying all (variable elimination; for einsum: Smith and
Gray, "opt_einsum", 2018).  The language permits the rewrite as it permits another order of a sum; integers
that wrap and extremes give the same results to the bit.  A partial sum may overflow where no term does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from tc.dtypes import accumulator
from tc.ir.evaluate import bytes_of, evaluate
from tc.ir.expr import Call, Expr, IntImm, Mul, Variable, variables
from tc.ir.lower import neutral
from tc.ir.program import Domain, Program, Stage, fresh
from tc.transforms.program.coordinates import (
    Form,
    coordinates_of,
    domain_of,
    is_dense,
    movable,
    moved,
    points_of,
    sided,
    sum_of,
)
from tc.transforms.program.stages import tensor_names, with_stages_before, with_temporary

_MOST_VARIABLES = 6  # of a reduction whose orders are all tried
_SPARE = 1 << 28  # bytes of temporaries that are no trouble, however small the caller's arrays are
_ROUND_TRIP = 4  # instances that take as long as an element of a temporary is written and read


@dataclass(frozen=True, slots=True)
class PartialSums:
    """A reduction in parts: it has `instances` as it is, `after` in parts, whose temporaries have `points`
    elements."""

    stage: Stage
    instances: int
    after: int
    points: int

    @property
    def total(self) -> int:
        """The instances of the parts, and those that take as long as their temporaries."""
        return self.after + _ROUND_TRIP * self.points

    @property
    def pays(self) -> bool:
        """Whether the parts take three fifths of the time or less."""
        return 5 * self.total <= 3 * self.instances


@dataclass(frozen=True, slots=True)
class _Part:
    """A temporary `name`, as a function of coordinates: the factors `of` it, summed over `over`."""

    name: str
    of: tuple[Expr, ...]
    over: frozenset[str]
    coordinates: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class _Path:
    """Parts in their order, and the factors whose product is summed at last, over `left`."""

    parts: tuple[_Part, ...]
    factors: tuple[Expr, ...]
    left: frozenset[str]
    cost: PartialSums


def sum_in_parts(
    program: Program, worth: Callable[[PartialSums], bool], typical: Mapping[str, int], constant: bool
) -> tuple[Program, tuple[str, ...]]:
    """`program` with the reductions in parts that are `worth` it at the `typical` sizes, and the tensors that
    these define; with `constant` only temporaries of constant size.

    Temporaries that take more memory than the caller's arrays and than 256 MiB are not made.
    """
    names: list[str] = []
    most = max(_SPARE, sum(bytes_of(b, typical) for b in program.buffers if b.role != "temporary"))
    for s in program.stages:
        if not _may_change(program, s, constant):
            continue
        path = _Search(program, s, typical).best()
        if path is None or path.cost.points * s.value.dtype.itemsize > most:
            continue
        if worth(path.cost):
            program = _rewritten(program, s, path)
            names.append(program.func_buffers[s.func])
    return program, tuple(names)


def _may_change(program: Program, s: Stage, constant: bool) -> bool:
    reductions = [v for v in s.domain.vars if v.kind == "reduction"]
    if s.op not in ("+", "max", "min") or s.scatters or s.loops:
        return False
    if not 2 <= len(reductions) <= _MOST_VARIABLES or (constant and not s.domain.constant):
        return False
    t = s.value.dtype
    if t != program.func(s.func).dtype or accumulator(t, t) != t:
        return False
    return all(movable(program, s, f) for f in _factors(s))


def _factors(s: Stage) -> tuple[Expr, ...]:
    """The factors of a product; of extremes, the value."""

    def of(e: Expr) -> tuple[Expr, ...]:
        return (*of(e.a), *of(e.b)) if isinstance(e, Mul) else (e,)

    return of(s.value) if s.op == "+" else (s.value,)


class _Search:
    """The order of least instances in which a stage's reduction variables are summed."""

    def __init__(self, program: Program, stage: Stage, typical: Mapping[str, int]) -> None:
        self.stage = stage
        self.ranges = {v.name: v.range for v in stage.domain.vars}
        self.extents = {n: max(0, evaluate(r.extent, typical)) for n, r in self.ranges.items()}
        self.taken = tensor_names(program)
        self.pure = frozenset(v.name for v in stage.domain.vars if v.kind == "pure")
        self.forms: dict[tuple[Expr, ...], tuple[Form, ...]] = {}
        self.conditions = [variables(c) & self.ranges.keys() for c in stage.domain.conditions]
        self.conditioned = frozenset(n for names in self.conditions for n in names)

    def best(self) -> _Path | None:
        """The best path with a part; None if none has fewer instances."""
        factors = _factors(self.stage)
        left = frozenset(self.ranges) - self.pure
        cost = PartialSums(self.stage, self.size(frozenset(self.ranges)), 0, 0)
        found = self.follow(_Path((), factors, left, cost))
        return found if found.parts else None

    def size(self, names: frozenset[str]) -> int:
        return math.prod(self.extents[n] for n in names)

    def follow(self, path: _Path) -> _Path:
        """The best path that begins so."""
        rest = self.size(self.pure | path.left)
        best = replace(path, cost=replace(path.cost, after=path.cost.after + rest))
        for name in sorted(path.left):
            for part in self.parts(path, name):
                following = self.step(path, part)
                if following.cost.total < best.cost.total:
                    found = self.follow(following)
                    best = found if found.cost.total < best.cost.total else best
        return best

    def parts(self, path: _Path, name: str) -> list[_Part]:
        """What may be summed over a variable now: the factors that depend on it, over all variables on which
        no other factor depends, or over this one alone; and on which no condition depends."""
        of = tuple(f for f in path.factors if name in variables(f))
        if not of or name in self.conditioned:
            return []  # without factors, it multiplies
        others = frozenset(n for f in path.factors if f not in of for n in variables(f)) | self.conditioned
        own = frozenset(n for f in of for n in variables(f) if n in path.left and n not in others)
        out: list[_Part] = []
        for over in dict.fromkeys((own, frozenset((name,)))):
            where = self.coordinates(of, over)
            names = {n for form in where for n, _ in form}
            # Reads are within their tensors where the conditions hold.
            if over < path.left and all(c <= names or c.isdisjoint(names) for c in self.conditions):
                temporary = fresh(f"{self.stage.func}_part", self.taken | {p.name for p in path.parts})
                out.append(_Part(temporary, of, over, where))
        return out

    def coordinates(self, of: tuple[Expr, ...], over: frozenset[str]) -> tuple[Form, ...]:
        """The coordinates of factors that are summed over these variables: sums of variables only where none
        is summed over or in a condition, their length is known, and all values between the ends occur."""
        if of not in self.forms:
            self.forms[of] = coordinates_of(self.stage, reduce(Mul, of))
        out: list[Form] = []
        for form in self.forms[of]:
            names = [n for n, _ in form]
            known = all(isinstance(self.ranges[n].extent, IntImm) for n in names)
            apart = (over | self.conditioned).isdisjoint(names)
            if apart and known and is_dense(form, self.extents):
                out.append(form)
            else:
                out += [((n, 1),) for n in names if n not in over]
        return tuple(dict.fromkeys(out))

    def step(self, path: _Path, part: _Part) -> _Path:
        points = points_of(part.coordinates, self.extents)
        cost = replace(
            path.cost,
            after=path.cost.after + points * self.size(part.over),
            points=path.cost.points + points,
        )
        read = Call(part.name, tuple(map(sum_of, part.coordinates)), self.stage.value.dtype, "func")
        first = path.factors.index(part.of[0])
        others = [f for f in path.factors[first:] if f not in part.of]
        factors = [*path.factors[:first], read, *others]
        return _Path((*path.parts, part), tuple(factors), path.left - part.over, cost)


def _rewritten(program: Program, stage: Stage, path: _Path) -> Program:
    """The program with stages for the parts of a reduction, and the reduction over what is left."""
    t = stage.value.dtype
    assert stage.op is not None
    made: list[Stage] = []
    names = {s.name for s in program.stages}
    for part in path.parts:
        domain = domain_of(program, stage, part.coordinates)
        args = tuple(Variable(v.name) for v in domain.vars)
        inner = [v for v in stage.domain.vars if v.name in part.over]
        kept = [n for n in stage.domain.names if n not in part.over]
        value = moved(sided(stage, reduce(Mul, part.of)), part.coordinates, domain.names, kept)
        conditions = tuple(c for c in stage.domain.conditions if not variables(c).isdisjoint(domain.names))
        start, sums = fresh(f"{stage.name}pi", names), fresh(f"{stage.name}p", names)
        names |= {start, sums}
        new = replace(stage, func=part.name, args=args)
        made += (
            replace(new, name=start, op=None, value=neutral(stage.op, t), domain=domain, init=True),
            replace(new, name=sums, value=value, domain=Domain((*domain.vars, *inner), conditions)),
        )
        box = tuple(v.range for v in domain.vars)
        program = with_temporary(program, part.name, t, box, stage.func)
    rest = tuple(v for v in stage.domain.vars if v.kind == "pure" or v.name in path.left)
    last = replace(stage, value=reduce(Mul, path.factors), domain=replace(stage.domain, vars=rest))
    return with_stages_before(program, stage, made, last)

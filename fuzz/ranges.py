"""Ranges of a tree's indices, recomputed: by trying all values at given sizes, and by isl for all sizes.

What the compiler reports is compared with both.  A value of an index is allowed if every access of its round
is in bounds for all values of the indices that are known by then.  The reported range must be all allowed
values where subscripts are affine; where others (`/ % max`) constrain the index, too, or a range is empty,
only a part of them, which the compiler chooses.  That nothing is read out of bounds, `fuzz.evaluate` sees.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import islpy as isl
import numpy as np

from fuzz.evaluate import Box, Ranges
from fuzz.tree import (
    Access,
    Binary,
    Call,
    Cast,
    Choice,
    Condition,
    Def,
    Exp,
    Index,
    Invocation,
    Let,
    Local,
    Number,
    Scalar,
    Size,
    Statement,
    Tree,
    Unary,
    Within,
    children,
    rebuilt,
    walk,
)

_WINDOW = 200  # values of an index on both sides of 0 that are tried


class WrongRange(AssertionError):
    """The compiler reports another range than there is."""


@dataclass(frozen=True)
class Bounded:
    """A subscript that must lie in `low <= … < high`.  `excused`: the conditions of its branch may keep it
    there, and then it constrains nothing; `guards` are those conditions that compare integers, and whether
    they must hold."""

    subscript: Exp
    low: int
    high: int
    guarded: bool
    tensor: str
    excused: bool = False
    guards: tuple[tuple[Binary, bool], ...] = ()

    @property
    def indices(self) -> frozenset[str]:
        return frozenset(x.name for x in walk(self.subscript) if isinstance(x, Index))


def integer(e: Exp, env: Mapping[str, int | np.ndarray]) -> int | np.ndarray:
    """An integer expression over indices, sizes and scalars."""
    match e:
        case Number():
            return int(e.text)
        case Index() | Size() | Scalar():
            return env[e.name]
        case Unary(op="-"):
            return -integer(e.a, env)
        case Binary():
            a, b = integer(e.a, env), integer(e.b, env)
            match e.op:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "/":
                    return a // b
                case "%":
                    return a % b
                case _:
                    raise ValueError(e.op)
        case Call(name="min"):
            return np.minimum(*(integer(a, env) for a in e.args))
        case Call(name="max"):
            return np.maximum(*(integer(a, env) for a in e.args))
        case Call(name="abs"):
            return np.abs(integer(e.args[0], env))
        case _:
            raise ValueError(type(e).__name__)


def affine(e: Exp) -> bool:
    """Whether an expression is a sum of multiples of names."""
    match e:
        case Number() | Index() | Size() | Scalar():
            return True
        case Unary():
            return affine(e.a)
        case Binary(op="+" | "-"):
            return affine(e.a) and affine(e.b)
        case Binary(op="*"):
            return (affine(e.a) and affine(e.b)) and not (_moves(e.a) and _moves(e.b))
        case _:
            return False


def _moves(e: Exp) -> bool:
    return any(isinstance(x, Index) for x in walk(e))


def _plain(e: Exp) -> bool:
    """Whether an integer expression reads no data."""
    return not any(isinstance(x, Access | Choice | Cast) for x in walk(e))


def _relates_indices(e: Binary) -> bool:
    """Whether this is a relation between integers that no data decide."""
    return e.op in ("==", "!=", "<", "<=", ">", ">=") and _plain(e) and _moves(e)


def _inlined(e: Exp, lets: Mapping[str, Exp]) -> Exp:
    if isinstance(e, Local):
        return _inlined(lets[e.name], lets)
    return rebuilt(e, tuple(_inlined(c, lets) for c in children(e)))


def bounded(s: Statement, boxes: Mapping[str, Sequence[tuple[int, int] | None]]) -> list[Bounded]:
    """The subscripts of a statement that constrain its indices."""
    lets = {c.name: c.value for c in s.clauses if isinstance(c, Let)}
    out: list[Bounded] = []

    def visit(e: Exp, guarded: bool, excused: bool, guards: tuple[tuple[Binary, bool], ...] = ()) -> None:
        match e:
            case Choice(lazy=True):
                visit(e.c, guarded, excused, guards)
                of_indices = any(isinstance(x, Binary) and _relates_indices(x) for x in walk(e.c))
                simple = isinstance(e.c, Binary) and _relates_indices(e.c)
                for branch, holds in ((e.a, True), (e.b, False)):
                    more = ((e.c, holds),) if isinstance(e.c, Binary) and simple else ()
                    visit(branch, True, excused or of_indices, (*guards, *more))
                return
            case Access() if e.tensor in boxes:
                for d, (sub, box) in enumerate(zip(e.subscripts, boxes[e.tensor], strict=True)):
                    if box is not None and _plain(sub) and e.mode(d) == "none":
                        out.append(Bounded(sub, *box, guarded, e.tensor, excused, guards))
            case _:
                pass
        for c in children(e):
            visit(c, guarded, excused, guards)

    for e in (s.value, *(c.value for c in s.clauses if not isinstance(c, Let | Within))):
        visit(_inlined(e, lets), False, False)
    return out


def infer(
    s: Statement,
    boxes: Mapping[str, Sequence[tuple[int, int] | None]],
    values: Mapping[str, int],
    reported: Ranges,
) -> dict[str, tuple[int, int]]:
    """The ranges of a statement's indices as far as its own accesses and clauses give them.  Raises
    WrongRange where the reported ones are others; those are returned."""
    known: dict[str, tuple[int, int]] = {}
    # Those that only what is not affine bounds may be open for the compiler, and bound no others.
    sure: set[str] = set()
    for c in s.clauses:
        if isinstance(c, Within):
            sure.add(c.index)
            low, high = int(integer(c.low, values)), int(integer(c.high, values))
            if reported[c.index] != (low, high):
                raise WrongRange(f"{c.index} in {low}:{high}, reported {reported[c.index]}")
            known[c.index] = (low, high)
    found = bounded(s, boxes)
    passes = [[b for b in found if not b.guarded], found]
    if any(b.guarded and b.tensor == s.tensor for b in found):
        passes.pop()  # the order in which statements of one tensor are settled decides what these constrain
    for some in passes:
        while True:
            ready: dict[str, list[Bounded]] = {}
            for b in some:
                open_ = b.indices - known.keys()
                if len(open_) == 1:
                    ready.setdefault(next(iter(open_)), []).append(b)
            if not ready:
                break
            new: dict[str, tuple[int, int]] = {}
            for v, bs in ready.items():
                certain = [b for b in bs if affine(b.subscript) and b.indices - {v} <= sure and not b.excused]
                exact = len(certain) == len(bs)
                excluded = _excluded(v, found, values)
                new[v] = _checked(v, certain, known, values, reported[v], exact, excluded)
                if certain:
                    sure.add(v)
            known |= new
    return known


def _checked(
    v: str,
    constraints: Sequence[Bounded],
    known: Ranges,
    values: Mapping[str, int],
    reported: tuple[int, int],
    exact: bool,
    excluded: np.ndarray,
) -> tuple[int, int]:
    """The reported range of an index, if these constraints allow it and, where there are no others
    (`exact`), no larger one; but for values that are `excluded`."""
    tried = np.arange(-_WINDOW, _WINDOW)
    allowed = np.ones(tried.shape, bool)
    vacuous = False
    for b in constraints:
        others = sorted(b.indices - {v})
        spans = [range(*known[n]) for n in others]
        vacuous |= any(len(x) == 0 for x in spans)
        for at in itertools.product(*spans):
            x = integer(b.subscript, {**values, **dict(zip(others, at, strict=True)), v: tried})
            allowed &= (b.low <= x) & (x < b.high)
    low, high = reported
    inside = (tried >= low) & (tried < high)
    where = f"{v} in {low}:{high} reported"
    if (inside & ~allowed).any():
        raise WrongRange(f"{where}, but {tried[inside & ~allowed][:3]} are out of bounds")
    if vacuous or not exact or (allowed & excluded & ~inside).any():
        return reported
    if (allowed & ~inside).any():
        raise WrongRange(f"{where}, but {tried[allowed & ~inside][:3]} are in bounds")
    by_isl = _by_isl(v, constraints, known, values)
    if by_isl != ((low, high) if low < high else None):
        raise WrongRange(f"{where}, {by_isl} by isl")
    return reported


def _excluded(v: str, found: Sequence[Bounded], values: Mapping[str, int]) -> np.ndarray:
    """The values of an index for which some access is out of bounds though it is guarded."""
    tried = np.arange(-_WINDOW, _WINDOW)
    env = {**values, v: tried}
    out = np.zeros(tried.shape, bool)
    for b in found:
        indices = b.indices.union(*(_indices(g) for g, _ in b.guards))
        if not b.excused or indices != {v}:
            continue
        x = integer(b.subscript, env)
        bad = (x < b.low) | (x >= b.high)
        for g, holds in b.guards:
            bad &= _RELATIONS[g.op](integer(g.a, env), integer(g.b, env)) == holds
        out |= bad
    return out


def _indices(e: Exp) -> frozenset[str]:
    return frozenset(x.name for x in walk(e) if isinstance(x, Index))


def _by_isl(
    v: str, constraints: Sequence[Bounded], known: Ranges, values: Mapping[str, int]
) -> tuple[int, int] | None:
    """All values of an index such that no values of the others lead out of bounds; None if there are none."""
    context = isl.DEFAULT_CONTEXT
    names = sorted({v}.union(*(b.indices for b in constraints)))
    others = [n for n in names if n != v]
    space = isl.Space.create_from_names(context, set=[*others, v])
    bad = isl.Set.empty(space)
    place = {n: i for i, n in enumerate([*others, v])}
    domain = isl.Set.universe(space)
    for n in others:
        domain = domain.lower_bound_val(isl.dim_type.set, place[n], isl.Val(known[n][0]))
        domain = domain.upper_bound_val(isl.dim_type.set, place[n], isl.Val(known[n][1] - 1))
    for b in constraints:
        form = _form(b.subscript, space, place, values)
        low = form.add_constant_val(isl.Val(-b.low))
        high = form.neg().add_constant_val(isl.Val(b.high - 1))
        inside = low.ge_set(_zero(space)).intersect(high.ge_set(_zero(space)))
        bad = bad.union(domain.subtract(inside))
    good = bad.project_out(isl.dim_type.set, 0, len(others)).complement()
    if good.is_empty():
        return None
    return good.dim_min_val(0).to_python(), good.dim_max_val(0).to_python() + 1


def _zero(space: isl.Space) -> isl.Aff:
    return isl.Aff.zero_on_domain_space(space)


def _form(e: Exp, space: isl.Space, place: Mapping[str, int], values: Mapping[str, int]) -> isl.Aff:
    match e:
        case Index():
            return isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), isl.dim_type.set, place[e.name])
        case Number() | Size() | Scalar():
            return isl.Aff.val_on_domain_space(space, isl.Val(int(integer(e, values))))
        case Unary():
            return _form(e.a, space, place, values).neg()
        case Binary():
            a, b = _form(e.a, space, place, values), _form(e.b, space, place, values)
            return {"+": a.add, "-": a.sub, "*": a.mul}[e.op](b)
        case _:
            raise ValueError(type(e).__name__)


def check(
    tree: Tree,
    sizes: Mapping[str, int],
    scalars: Mapping[str, int],
    reported: Sequence[Ranges],
    written: Mapping[str, Box],
) -> list[tuple[Ranges, Box]]:
    """The ranges of all statements in the order in which they run, and the boxes of their tensors.

    `reported`: what the compiler says of each, by the names of the tree; `written`: the boxes of the results.
    Raises WrongRange.
    """
    found = iter(reported)

    def definition(d: Def, sizes: Mapping[str, int], top: bool) -> tuple[list[tuple[Ranges, Box]], list[Box]]:
        boxes: dict[str, list[tuple[int, int] | None]] = {
            p.name: [(0, sizes[n]) for n in p.dims] for p in d.params if p.dims is not None
        }
        own: list[tuple[Statement, Ranges] | list[tuple[Ranges, Box]]] = []
        pieces: set[str] = set()  # tensors that assignments alone have touched so far
        values = {**sizes, **(scalars if top else {})}
        for s in d.body:
            if isinstance(s, Invocation):
                pieces -= {*s.args, *s.tensors}
                callee = next(x for x in tree.defs if x.name == s.name)
                inner: dict[str, int] = {}
                for p, a in zip(callee.params, s.args, strict=True):
                    inner |= {
                        n: high - low for n, (low, high) in zip(p.dims or (), _closed(boxes[a]), strict=True)
                    }
                done, results = definition(callee, inner, False)
                own.append(done)
                for t, box in zip(s.tensors, results, strict=True):
                    boxes[t] = [(0, high - low) for low, high in box]
                continue
            ranges = next(found)
            known = infer(s, boxes, values, ranges)
            dims = [_shifted(known.get(x.index), x.offset) for x in s.targets]
            read = {x.tensor for e in _read_in(s) for x in walk(e) if isinstance(x, Access)}
            pieces -= read
            if s.op != "=":
                pieces.discard(s.tensor)
            elif s.tensor not in boxes and s.tensor not in read:
                pieces.add(s.tensor)
            before = boxes.setdefault(s.tensor, dims)
            if s.tensor in pieces:
                boxes[s.tensor] = [_hull(b, x) for b, x in zip(before, dims, strict=True)]
            else:
                boxes[s.tensor] = [b or x for b, x in zip(before, dims, strict=True)]
            own.append((s, ranges))
        out: list[tuple[Ranges, Box]] = []
        for x in own:
            if isinstance(x, list):
                out += x
            else:
                s, ranges = x
                # What no access gives, another statement of the tensor does.
                if any(low >= high for low, high in ranges.values()):
                    out.append((ranges, _closed(boxes[s.tensor])))
                    continue
                for t, box in zip(s.targets, boxes[s.tensor], strict=True):
                    at = ranges[t.index]
                    if box is None or (box[0] <= at[0] + t.offset and at[1] + t.offset <= max(box)):
                        continue
                    written = [k + t.offset for k in _reached(s, t.index, ranges, values)]
                    if any(not box[0] <= k < max(box) for k in written):
                        raise WrongRange(
                            f"{s.tensor} from {box[0]} to {box[1]} is written at {t.index} in {at}"
                        )
                out.append((ranges, _closed(boxes[s.tensor])))
        return out, [_closed(boxes[r]) for r in d.returns]

    out, results = definition(tree.entry, sizes, True)
    for name, box in zip(tree.entry.returns, results, strict=True):
        if name in written and written[name] != box:
            raise WrongRange(f"{name} has {box}, reported {written[name]}")
    return out


_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


def _reached(s: Statement, index: str, ranges: Ranges, values: Mapping[str, int]) -> set[int]:
    """The values of an index at the points for which the conditions of a statement hold; conditions that are
    no relations of indices hold everywhere."""
    related: list[Binary] = []
    for c in s.clauses:
        if isinstance(c, Condition) and isinstance(c.value, Binary) and c.value.op in _RELATIONS:
            with suppress(ValueError, KeyError):
                for side in (c.value.a, c.value.b):
                    integer(side, {**values, **dict.fromkeys(ranges, 0)})
                related.append(c.value)
    names = {index}.union(x.name for r in related for x in walk(r) if isinstance(x, Index))
    out: set[int] = set()
    for at in itertools.product(*(range(*ranges[n]) for n in sorted(names))):
        env = {**values, **dict(zip(sorted(names), at, strict=True))}
        if all(_RELATIONS[r.op](integer(r.a, env), integer(r.b, env)) for r in related):
            out.add(env[index])
    return out


def _read_in(s: Statement) -> list[Exp]:
    """The expressions of a statement that may read tensors."""
    return [s.value, *(c.value for c in s.clauses if not isinstance(c, Within))]


def _hull(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    """The range of two pieces."""
    return (min(a[0], b[0]), max(a[1], b[1])) if a and b else a or b


def _shifted(at: tuple[int, int] | None, by: int) -> tuple[int, int] | None:
    return None if at is None else (at[0] + by, at[1] + by)


def _closed(box: Iterable[tuple[int, int] | None]) -> Box:
    return tuple(b if b is not None else (0, 0) for b in box)

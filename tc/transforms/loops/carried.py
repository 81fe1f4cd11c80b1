"""Scalar replacement across iterations: a register holds the element that one iteration of a loop stores and
the next one reads.

    for d                               carried = y[d0]
      y[d + 1] = y[d] + x[d]      →     for d
                                          carried = carried + x[d]
                                          y[d + 1] = carried

Without the register each iteration waits for the store of the iteration before it and for a load, besides
its own arithmetic (Callahan, Carr and Kennedy, "Improving register allocation for subscripted variables",
1990).

A read qualifies if the element exists in every iteration, which is known where the read is executed in every
iteration; if the statement that stores the element for the next iteration reads it, or an earlier one; and if
no other statement of the loop may store it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from tc.ir.expr import (
    LT,
    ONE,
    ZERO,
    And,
    Expr,
    IfThenElse,
    IntImm,
    Load,
    Or,
    Sub,
    Variable,
    children,
    constant,
    rebuild,
    substitute,
    variables,
    walk,
)
from tc.ir.loops import Array, Block, Compute, For, If, LoopKind, LoopNest, Promote, Stmt, flattened
from tc.ir.simplify import linear_terms, simplify
from tc.transforms.loops.substituted import substituted


def carry(nest: LoopNest) -> LoopNest:
    """A loop nest with such elements in registers.  Only innermost serial loops change."""
    arrays = {a.name: a for a in nest.arrays}
    carrier = _Carrier(arrays)
    body = carrier.visit(nest.body)
    return nest if not carrier.added else replace(nest, body=body, arrays=(*nest.arrays, *carrier.added))


def recurrences(loop: For) -> tuple[Compute, ...]:
    """The statements of a loop that store an element which the next iteration reads."""
    body = straight(loop)
    return tuple(s for i, s in enumerate(body) if _reads_carried(loop, body, i))


def straight(loop: For) -> tuple[Compute, ...]:
    """The statements of a serial loop without branches and loops inside, other than vector and unrolled loops
    around all of the statements; () for other loops."""
    if loop.kind is not LoopKind.SERIAL or loop.step != 1:
        return ()
    found = tuple(flattened(_inside(loop)))
    return tuple(s for s in found if isinstance(s, Compute)) if all(map(_is_plain, found)) else ()


def _layers(loop: For) -> tuple[For | Promote, ...]:
    """The loops and promotions between a loop and its statements: vector and unrolled loops of constant
    length, promotions."""
    out: list[For | Promote] = []
    s = single(loop.body)
    while isinstance(s, Promote) or (isinstance(s, For) and _is_lanes(s)):
        out.append(s)
        s = single(s.body)
    return tuple(out)


def _is_lanes(s: For) -> bool:
    constants = isinstance(s.lower, IntImm) and isinstance(s.upper, IntImm)
    return s.kind in (LoopKind.VECTOR, LoopKind.UNROLLED) and constants and s.step == 1


def _lanes(loop: For) -> tuple[For, ...]:
    return tuple(x for x in _layers(loop) if isinstance(x, For))


def single(s: Stmt) -> Stmt:
    """The only statement of a block, if the block has just one; else the statement itself."""
    while isinstance(s, Block) and len(s.body) == 1:
        s = s.body[0]
    return s


def _inside(loop: For) -> Stmt:
    layers = _layers(loop)
    return layers[-1].body if layers else loop.body


def _around(layers: Sequence[For | Promote], s: Stmt) -> Stmt:
    for x in reversed(layers):
        s = replace(x, body=s)
    return s


def _is_plain(s: Stmt) -> bool:
    return isinstance(s, Compute) and not s.asynchronous and not s.atomic and s.width == 1


def _reads_carried(loop: For, body: Sequence[Compute], at: int) -> tuple[Load, ...]:
    """The reads of the element that statement `at` stored in the iteration before; () if it is not known
    which element that is."""
    s = body[at]
    if s.op is not None or any(isinstance(e, Load) for x in s.subscripts for e in walk(x)):
        return ()
    lanes = {x.var for x in _lanes(loop)}
    if not all(any(_tells_apart(x, v, {loop.var, *lanes} - {v}) for x in s.subscripts) for v in lanes):
        return ()
    if not all(o is s or o.buffer != s.buffer or _never_meet(loop, o, s) for o in body):
        return ()
    before: dict[str, Expr] = {loop.var: Sub(Variable(loop.var), ONE)}
    stored = tuple(simplify(substitute(x, before), exact=True) for x in s.subscripts)
    return tuple(
        e
        for o in body[: at + 1]
        for e in walk(o.value)
        if isinstance(e, Load) and e.buffer == s.buffer and not e.checked and same(e.subscripts, stored)
        if e.inside or any(e is x for x in always(o.value))
    )


def _tells_apart(subscript: Expr, var: str, others: AbstractSet[str]) -> bool:
    """Whether a subscript has a different value for each value of a variable, whatever the values of the
    others are."""
    terms, _ = linear_terms(subscript)
    moving = [t for t in terms if var in variables(t)]
    return moving == [Variable(var)] and not any(variables(t) & others for t in terms)


def same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return all(constant(simplify(Sub(x, y), exact=True)) == 0 for x, y in zip(a, b, strict=True))


def _never_meet(loop: For, a: Compute, b: Compute) -> bool:
    """Whether the subscripts of two stores differ by a nonzero constant in a dimension that the loop does not
    move."""
    return any(
        loop.var not in variables(x) | variables(y)
        and constant(simplify(Sub(x, y), exact=True)) not in (None, 0)
        for x, y in zip(a.subscripts, b.subscripts, strict=True)
    )


def always(e: Expr) -> Iterator[Expr]:
    """The parts of an expression that are evaluated whether or not its conditions hold."""
    yield e
    match e:
        case IfThenElse():
            parts: tuple[Expr, ...] = (e.condition,)
        case And() | Or():
            parts = (e.a,)
        case _:
            parts = children(e)
    for c in parts:
        yield from always(c)


@dataclass(slots=True)
class _Carrier:
    """`arrays` are those of the nest; `added` the registers."""

    arrays: Mapping[str, Array]
    added: list[Array] = field(default_factory=list[Array])

    def visit(self, s: Stmt) -> Stmt:
        match s:
            case Block():
                return replace(s, body=tuple(map(self.visit, s.body)))
            case If():
                otherwise = None if s.otherwise is None else self.visit(s.otherwise)
                return replace(s, then=self.visit(s.then), otherwise=otherwise)
            case For():
                return self.loop(s) or replace(s, body=self.visit(s.body))
            case Promote():
                return replace(s, body=self.visit(s.body))
            case _:
                return s

    def loop(self, loop: For) -> Stmt | None:
        """A loop with its carried elements in registers; None if there are none."""
        body = straight(loop)
        reads = {i: found for i in range(len(body)) if (found := self.reads(loop, body, i))}
        if not reads:
            return None
        lanes = _lanes(loop)
        registers = {i: self.register(body[i], lanes) for i in reads}
        first: list[Stmt] = []
        inside: list[Stmt] = []
        for i, register in registers.items():
            start = tuple(
                simplify(substitute(x, {loop.var: loop.lower}), exact=True) for x in reads[i][0].subscripts
            )
            origin = replace(body[i], value=replace(reads[i][0], subscripts=start))
            at_start = substituted(origin, {loop.var: loop.lower})
            assert isinstance(at_start, Compute)
            first.append(_around(lanes, _assigned(at_start, "first", register, at_start.value)))
        for i, s in enumerate(body):
            known = {
                load: _element(registers[k], load) for k, found in reads.items() if k >= i for load in found
            }
            # Statements behind the store find what this iteration stored in the register.
            known |= {
                e: _element(registers[k], e)
                for k in reads
                if k < i
                for e in walk(s.value)
                if isinstance(e, Load) and e.buffer == body[k].buffer and not e.checked
                if same(e.subscripts, body[k].subscripts)
            }
            changed = replace(s, value=in_registers(s.value, known))
            if i in registers:
                inside.append(_assigned(changed, "", registers[i], changed.value))
                inside.append(replace(s, stage=f"{s.stage}.store", value=_element(registers[i], reads[i][0])))
            else:
                inside.append(changed)
        names = frozenset(r.name for r in registers.values())
        body_again = _around(_layers(loop), Block(tuple(inside)))
        whole = Promote(names, names, Block((*first, replace(loop, body=body_again))))
        some = simplify(LT(loop.lower, loop.upper), exact=True)
        return whole if constant(some) else If(some, whole)

    def reads(self, loop: For, body: Sequence[Compute], at: int) -> tuple[Load, ...]:
        array = self.arrays[body[at].buffer]
        if array.role not in ("output", "temporary") or array.dtype.is_half or array.dtype.is_bool:
            return ()
        return _reads_carried(loop, body, at)

    def register(self, s: Compute, lanes: Sequence[For]) -> _Register:
        name = f"{s.buffer}.carried{len(self.added)}"
        shape = tuple(simplify(Sub(x.upper, x.lower), exact=True) for x in lanes)
        self.added.append(Array(name, self.arrays[s.buffer].dtype, shape, "register", ZERO))
        return _Register(name, tuple(simplify(Sub(Variable(x.var), x.lower), exact=True) for x in lanes))


@dataclass(frozen=True, slots=True)
class _Register:
    """The element of a register array in a lane."""

    name: str
    subscripts: tuple[Expr, ...]


def _element(register: _Register, load: Load) -> Load:
    return Load(register.name, register.subscripts, load.dtype)


def _assigned(s: Compute, kind: str, register: _Register, value: Expr) -> Compute:
    stage = f"{s.stage}.{kind}" if kind else s.stage
    return replace(s, stage=stage, buffer=register.name, subscripts=register.subscripts, value=value)


def in_registers(e: Expr, known: Mapping[Load, Load]) -> Expr:
    if isinstance(e, Load) and e in known:
        return known[e]
    return rebuild(e, lambda c: in_registers(c, known))

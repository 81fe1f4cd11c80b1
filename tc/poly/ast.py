"""Schedule trees to loop nests, through isl's AST generation (Grosser, Verdoolaege and Cohen,
"Polyhedral AST generation is more than scanning polyhedra", 2015)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import islpy as isl

from tc.dtypes import BOOL, DType, accumulator
from tc.errors import InternalError
from tc.ir.divisions import remainder, shorter
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
    inline_lets,
    rebuild,
    substitute,
    walk,
)
from tc.ir.loops import Block, Compute, For, If, LoopKind, Stmt
from tc.ir.program import Box, Stage, combined
from tc.ir.simplify import conjunction, simplify
from tc.poly.bodies import zero_based
from tc.poly.context import Callbacks, identifier, isl_context
from tc.poly.scop import Scop, Statement

UNROLLED, AT_ONCE = "unrolled", "at_once"  # of marks
_OP = isl.ast_expr_op_type
_NODE = isl.ast_node_type
# The stubs of islpy lack members that are named after keywords.
_AND, _OR = _OP["and_"], _OP["or_"]
_FOR, _IF = _NODE["for_"], _NODE["if_"]

_FOLDED: dict[isl.ast_expr_op_type, Callable[[Expr, Expr], Expr]] = {
    _OP.add: Add,
    _OP.sub: Sub,
    _OP.mul: Mul,
    _OP.min: Min,
    _OP.max: Max,
    _AND: And,
    _OP.and_then: And,
    _OR: Or,
    _OP.or_else: Or,
    _OP.eq: EQ,
    _OP.le: LE,
    _OP.lt: LT,
    _OP.ge: GE,
    _OP.gt: GT,
    # isl's divisions are exact, of non-negative operands, or floor; zdiv_r is only compared with 0.
    _OP.div: FloorDiv,
    _OP.pdiv_q: FloorDiv,
    _OP.fdiv_q: FloorDiv,
    _OP.pdiv_r: FloorMod,
    _OP.zdiv_r: FloorMod,
}


_LOGICAL: tuple[isl.ast_expr_op_type, ...] = (_AND, _OP.and_then, _OR, _OP.or_else)


def _truth(e: Expr) -> Expr:
    """A condition; isl writes one that always or never holds as 1 or 0."""
    return UIntImm(int(e.value != 0), BOOL) if isinstance(e, IntImm) else e


def convert(e: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """An isl AST expression in our IR, exact integers; `names` gives the meaning of its identifiers."""
    kind = e.get_type()
    if kind == isl.ast_expr_type.int:
        return IntImm(int(e.get_val().to_python()))
    if kind == isl.ast_expr_type.id:
        name = e.get_id().get_name()
        return names[name] if name in names else Variable(name)
    op = _OP(e.get_op_type())  # the stubs of islpy say int
    args = [convert(e.get_op_arg(i), names) for i in range(e.get_op_n_arg())]
    if op == _OP.minus:
        return Sub(IntImm(0), args[0])
    if op == _OP.cond:
        return IfThenElse(_truth(args[0]), *args[1:])
    if op == _OP.select:
        return Select(_truth(args[0]), *args[1:])
    if op in _FOLDED:
        return reduce(_FOLDED[op], map(_truth, args) if op in _LOGICAL else args)
    raise InternalError(f"isl made an expression of an unknown kind: {e.to_C_str()}")


def condition(scop: Scop, where: isl.Set, given: isl.Set | None = None) -> Expr:
    """A set of parameters as a condition on sizes, `given` what is known (by default the scop's context)."""
    known = scop.context if given is None else given
    build = isl.AstBuild.from_context(known)
    text = build.expr_from_set(where.gist(known))
    return simplify(convert(text, scop.parameters.values), exact=True)


def loops(
    scop: Scop,
    schedule: isl.Schedule,
    inserted: Mapping[str, Inserted] | None = None,
    views: Mapping[str, Sequence[View]] | None = None,
    reserved: Iterable[str] = (),
) -> Stmt:
    """The loops of a schedule.  `inserted`: the statements of its extension nodes; `views`: the redirected
    accesses of statements; `reserved`: names of its parameters, which no loop may have.

    A mark `unrolled_N` is above a band of one member that runs over [0, N) at most and is unrolled fully,
    `at_once_N` above one that the compiler is to unroll N times.
    """
    with isl_context():
        if schedule.get_domain().is_empty():
            return Block(())
        places = _Places(views or {})
        calls = Callbacks()
        build = isl.AstBuild.from_context(scop.context)
        if views:
            build = calls.keep(build.set_at_each_domain(calls.wrap(places.note, _unchanged)))
        try:
            tree = build.node_from_schedule(schedule)
        finally:
            calls.check()  # raises a callback's own exception instead of isl's
        return _Converter(scop, inserted or {}, places, reserved).top(tree)


def _unchanged(node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
    return node


@dataclass(frozen=True, slots=True)
class View:
    """An access of a statement that is redirected to an element of `array`; `place` maps instances to it.

    `read` is the number of the access among the statement's reads, in order of evaluation (None: the element
    that the statement writes).  `dtype`: the type of the elements there if they are already converted, as the
    statement converts what it reads (None: they are not)."""

    read: int | None
    array: str
    place: isl.PwMultiAff
    dtype: DType | None = None


# Array, subscripts of the element, type of the element if it is converted.
Place = tuple[str, tuple[Expr, ...], DType | None]
Inserted = Callable[[tuple[Expr, ...], Sequence[tuple[Expr, ...]]], Stmt]


@dataclass(slots=True)
class _Places:
    """The elements of views for each occurrence of a statement in the tree, known while isl builds the
    AST."""

    views: Mapping[str, Sequence[View]]
    found: dict[str, list[tuple[View, isl.AstExpr]]] = field(
        default_factory=dict[str, "list[tuple[View, isl.AstExpr]]"]
    )

    def note(self, node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
        views = self.views.get(_called(node.user_get_expr()), ())
        if not views:
            return node
        instances = isl.Map.from_union_map(build.get_schedule()).reverse().as_pw_multi_aff()
        key = f"views_{len(self.found)}"
        self.found[key] = [
            (v, build.access_from_pw_multi_aff(v.place.pullback_pw_multi_aff(instances))) for v in views
        ]
        return node.set_annotation(identifier(key))

    def of(self, node: isl.AstNode) -> Sequence[tuple[View, isl.AstExpr]]:
        call = _called(node.user_get_expr())
        return self.found[node.get_annotation().get_name()] if self.views.get(call) else ()


class _Converter:
    def __init__(
        self, scop: Scop, inserted: Mapping[str, Inserted], places: _Places, reserved: Iterable[str]
    ) -> None:
        self.scop = scop
        self.places = places
        self.inserted = inserted
        self.program = scop.program
        self.bodies = scop.bodies
        self.boxes = {b.name: b.box for b in scop.program.buffers}
        self.func_buffers = scop.program.func_buffers
        # Names that no loop may have, as one would shadow the other.
        self.reserved = {*scop.program.sizes, *(s.name for s in scop.program.scalars), *reserved}
        self.ranges: dict[str, tuple[int, int]] = {}  # of the variables of loops around
        self.lets = {
            s.name: {x.name for x in walk(s.value) if isinstance(x, Let)} for s in scop.program.stages
        }

    def top(self, node: isl.AstNode) -> Stmt:
        return self.node(node, dict(self.scop.parameters.values), frozenset(self.reserved))

    def node(self, node: isl.AstNode, env: Mapping[str, Expr], taken: frozenset[str]) -> Stmt:
        kind = node.get_type()
        if kind == _NODE.block:
            parts = node.block_get_children()
            return block(self.node(parts.get_at(i), env, taken) for i in range(parts.n_ast_node()))
        if kind == _FOR:
            return self.loop(node, env, taken)
        if kind == _IF:
            test = simplify(convert(node.if_get_cond(), env), exact=True)
            then = self.node(node.if_get_then(), env, taken)
            other = self.node(node.if_get_else(), env, taken) if node.if_has_else() else None
            return If(test, then, other)
        if kind == _NODE.mark:
            below = node.mark_get_node()
            found = self.node(below, env, taken)
            is_loop = below.get_type() == _FOR and not below.for_is_degenerate()
            return _marked(found, node.mark_get_id().get_name()) if is_loop else found
        if kind == _NODE.user:
            call = node.user_get_expr()
            views = self.places.of(node)
            if _called(call) not in self.inserted:
                return self.compute(call, env, views)
            at = [self.subscripts(e, env) for _, e in views]
            return self.inserted[_called(call)](self.subscripts(call, env), at)
        raise InternalError(f"isl made an AST node of an unknown kind: {node.to_C_str()}")

    def loop(self, node: isl.AstNode, env: Mapping[str, Expr], taken: frozenset[str]) -> Stmt:
        iterator = node.for_get_iterator().get_id().get_name()
        lower = simplify(convert(node.for_get_init(), env), exact=True)
        body = node.for_get_body()
        if node.for_is_degenerate():
            return self.node(body, {**env, iterator: lower}, taken)
        name = self.loop_name(iterator, body, taken)
        inner = {**env, iterator: Variable(name)}
        test = node.for_get_cond()
        bound = convert(test.get_op_arg(1), env)
        if test.get_op_type() == _OP.le:
            bound = _next(bound)
        elif test.get_op_type() != _OP.lt:
            raise InternalError(f"isl made a loop with the condition {test.to_C_str()}")
        step = int(node.for_get_inc().get_val().to_python())
        upper = simplify(bound, exact=True)
        low, high = _constants(lower, Max), _constants(upper, Min)
        if low and high:
            self.ranges[name] = max(low), min(high) - 1
        below = self.node(body, inner, taken | {name})
        self.ranges.pop(name, None)
        return For(name, lower, upper, step, LoopKind.SERIAL, below)

    def loop_name(self, iterator: str, body: isl.AstNode, taken: frozenset[str]) -> str:
        """The name of the stages' own index if the loop runs over exactly that, else isl's iterator."""
        avoid = set(taken)
        candidates: list[str] = []
        for call in _calls(body):
            if _called(call) in self.inserted:
                continue
            statement = self.statement_of(call)
            avoid |= self.lets[statement.stage.name]
            for position, v in enumerate(statement.stage.domain.vars):
                arg = call.get_op_arg(position + 1)
                is_id = arg.get_type() == isl.ast_expr_type.id
                if is_id and arg.get_id().get_name() == iterator and v.name not in candidates:
                    candidates.append(v.name)
        for name in candidates:
            if name not in avoid:
                return name
        name = iterator
        while name in avoid:
            name += "_"
        return name

    def statement_of(self, call: isl.AstExpr) -> Statement:
        return self.scop.statement(_called(call))

    def compute(
        self, call: isl.AstExpr, env: Mapping[str, Expr], views: Sequence[tuple[View, isl.AstExpr]]
    ) -> Stmt:
        statement = self.statement_of(call)
        moved = {v.read: (v.array, self.subscripts(e, env), v.dtype) for v, e in views}
        point = self.subscripts(call, env)
        return instance(statement, point, self.bodies, self.boxes, self.func_buffers, moved)

    def subscripts(self, call: isl.AstExpr, env: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """The arguments of a call or the subscripts of an access."""
        found = (convert(call.get_op_arg(i), env) for i in range(1, call.get_op_n_arg()))
        return tuple(self.divided(simplify(e, exact=True)) for e in found)

    def divided(self, e: Expr) -> Expr:
        """The expression with remainders and quotients simplified by the ranges of the loops' variables."""
        if not any(isinstance(x, FloorDiv) for x in walk(e)):
            return e

        def span(x: Expr) -> tuple[int, int] | None:
            return self.ranges.get(x.name) if isinstance(x, Variable) else None

        found: Expr | None = None
        if isinstance(e, Sub):
            found = remainder(e, span)
        elif isinstance(e, FloorDiv):
            found = shorter(e, span)
        return self.divided(found) if found is not None else rebuild(e, self.divided)


def instance(
    statement: Statement,
    point: tuple[Expr, ...],
    bodies: Mapping[str, Expr],
    boxes: Mapping[str, Box],
    func_buffers: Mapping[str, str],
    moved: Mapping[int | None, Place] | None = None,
) -> Stmt:
    """The instance of a statement at `point`, under the conditions that isl could not express.  `moved`: the
    redirected accesses (see `View`) and their elements."""
    stage = statement.stage
    at = dict(zip(stage.domain.names, point, strict=True))
    buffer = func_buffers[stage.func]
    subscripts = zero_based((substitute(a, at) for a in stage.args), boxes[buffer])
    value = substitute(bodies[stage.name], at)
    if moved:
        value = _moved(value, moved, itertools.count())
        buffer, subscripts, _ = moved.get(None, (buffer, subscripts, None))
    value = simplify(value)
    op = stage.op
    if stage.scatters:
        subscripts = tuple(_loads(e, boxes, func_buffers) for e in subscripts)
        value, op = _updated(stage, buffer, subscripts, value), None
    body: Stmt = Compute(stage.name, buffer, subscripts, op, value, point, stage.text)
    if statement.residual:
        tests = [simplify(substitute(inline_lets(c), at), exact=True) for c in statement.residual]
        body = If(conjunction(tests), body)
    return body


def _loads(e: Expr, boxes: Mapping[str, Box], func_buffers: Mapping[str, str]) -> Expr:
    """A subscript with reads of Funcs and images turned into loads at zero-based positions."""
    e = rebuild(e, lambda c: _loads(c, boxes, func_buffers))
    if not isinstance(e, Call) or e.kind == "intrinsic":
        return e
    buffer = func_buffers.get(e.name, e.name)
    return Load(buffer, zero_based(e.args, boxes[buffer]), e.dtype, e.checked, e.site)


def _updated(stage: Stage, buffer: str, subscripts: tuple[Expr, ...], value: Expr) -> Expr:
    """What an instance of a scatter stores: its old value is read with the checks of its subscripts."""
    assert stage.op is not None
    t = value.dtype
    site = stage.checked[0][1] if stage.checked else -1
    old = Load(buffer, subscripts, t, tuple(d for d, _ in stage.checked), site)
    wide = accumulator(t, t)
    if wide == t:
        return combined(stage.op, old, value)
    return Cast(t, combined(stage.op, Cast(wide, old), Cast(wide, value)))


def _moved(e: Expr, moved: Mapping[int | None, Place], numbers: Iterator[int]) -> Expr:
    """A value with redirected reads, which are numbered in the order of evaluation."""
    e = rebuild(e, lambda c: _moved(c, moved, numbers))
    if isinstance(e, Load) and (found := moved.get(next(numbers))) is not None:
        array, subscripts, dtype = found
        return Load(array, subscripts, dtype or e.dtype, (), e.site)
    return e


def _constants(e: Expr, extremum: type[Min] | type[Max]) -> list[int]:
    """The constants among the operands of a minimum or maximum."""
    if isinstance(e, extremum):
        return [*_constants(e.a, extremum), *_constants(e.b, extremum)]
    return [e.value] if isinstance(e, IntImm) else []


def _marked(s: Stmt, mark: str) -> Stmt:
    """The loop below a mark; one to be unrolled gets a constant trip count."""
    kind, _, number = mark.rpartition("_")
    count = int(number)
    assert isinstance(s, For)
    if kind == AT_ONCE:
        return replace(s, unroll=count)
    v, tests = Variable(s.var), list[Expr]()
    if s.lower != IntImm(0):
        tests.append(GE(v, s.lower))
    if s.upper != IntImm(count):
        tests.append(LT(v, s.upper))
    if s.step != 1:
        tests.append(EQ(FloorMod(Sub(v, s.lower), IntImm(s.step)), IntImm(0)))
    body = If(simplify(conjunction(tests), exact=True), s.body) if tests else s.body
    return For(s.var, IntImm(0), IntImm(count), 1, LoopKind.UNROLLED, body)


def _next(e: Expr) -> Expr:
    """`e + 1`, with the 1 moved into minima and maxima, where it folds."""
    return type(e)(_next(e.a), _next(e.b)) if isinstance(e, (Min, Max)) else Add(e, IntImm(1))


def _called(call: isl.AstExpr) -> str:
    return call.get_op_arg(0).get_id().get_name()


def _calls(node: isl.AstNode) -> list[isl.AstExpr]:
    """The statement calls below a node."""
    kind = node.get_type()
    if kind == _NODE.user:
        return [node.user_get_expr()]
    if kind == _NODE.block:
        parts = node.block_get_children()
        return [c for i in range(parts.n_ast_node()) for c in _calls(parts.get_at(i))]
    if kind == _FOR:
        return _calls(node.for_get_body())
    if kind == _NODE.mark:
        return _calls(node.mark_get_node())
    calls = _calls(node.if_get_then())
    return calls + _calls(node.if_get_else()) if node.if_has_else() else calls


def block(parts: Iterable[Stmt]) -> Stmt:
    """Statements in order, without nested blocks."""
    flat: list[Stmt] = []
    for p in parts:
        flat += p.body if isinstance(p, Block) else (p,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))

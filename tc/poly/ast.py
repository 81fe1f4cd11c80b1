# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false, reportUnnecessaryContains=false
"""Schedule trees to loop nests, through isl's AST generation (Grosser, Verdoolaege and Cohen,
"Polyhedral AST generation is more than scanning polyhedra", 2015)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

import islpy as isl

from tc.errors import InternalError
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Call,
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
    Variable,
    inline_lets,
    rebuild,
    substitute,
    walk,
)
from tc.ir.loops import Block, Compute, For, If, LoopKind, Stmt
from tc.ir.program import Box, Program
from tc.ir.simplify import conjunction, simplify
from tc.poly.context import isl_context
from tc.poly.scop import Scop, Statement

_OP = isl.ast_expr_op_type
_NODE = isl.ast_node_type

_FOLDED: dict[isl.ast_expr_op_type, Callable[[Expr, Expr], Expr]] = {
    _OP.add: Add,
    _OP.sub: Sub,
    _OP.mul: Mul,
    _OP.min: Min,
    _OP.max: Max,
    _OP.and_: And,
    _OP.and_then: And,
    _OP.or_: Or,
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


def convert(e: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """An isl AST expression in our IR, exact integers; `names` gives the meaning of its identifiers."""
    kind = e.get_type()
    if kind == isl.ast_expr_type.int:
        return IntImm(int(e.get_val().to_python()))
    if kind == isl.ast_expr_type.id:
        name = e.get_id().get_name()
        return names[name] if name in names else Variable(name)
    op = e.get_op_type()
    args = [convert(e.get_op_arg(i), names) for i in range(e.get_op_n_arg())]
    if op == _OP.minus:
        return Sub(IntImm(0), args[0])
    if op == _OP.cond:
        return IfThenElse(*args)
    if op == _OP.select:
        return Select(*args)
    if op in _FOLDED:
        return reduce(_FOLDED[op], args)
    raise InternalError(f"isl made an expression of an unknown kind: {e.to_C_str()}")


def condition(scop: Scop, where: isl.Set, given: isl.Set | None = None) -> Expr:
    """A set of parameters as a condition on sizes, `given` what is known (by default the scop's context)."""
    known = scop.context if given is None else given
    build = isl.AstBuild.from_context(known)
    text = build.expr_from_set(where.gist(known))
    return simplify(convert(text, scop.parameters.values), exact=True)


def loops(scop: Scop, schedule: isl.Schedule) -> Stmt:
    """The loops that run a schedule."""
    with isl_context():
        if all(s.domain.is_empty() for s in scop.statements):
            return Block(())
        build = isl.AstBuild.from_context(scop.context)
        tree = build.node_from_schedule(schedule)
        return _Converter(scop).top(tree)


def stage_bodies(program: Program) -> Mapping[str, Expr]:
    """Each stage's value with `Call`s of Funcs and images turned into zero-based `Load`s."""
    buffers = {b.name: b for b in program.buffers}
    func_buffers = program.func_buffers

    def lower(e: Expr) -> Expr:
        e = rebuild(e, lower)
        if isinstance(e, Call) and e.kind != "intrinsic":
            buffer = buffers[func_buffers.get(e.name, e.name)]
            return Load(buffer.name, zero_based(e.args, buffer.box), e.dtype, e.checked, e.site)
        return e

    return {s.name: lower(s.value) for s in program.stages}


def zero_based(subscripts: Iterable[Expr], box: Box) -> tuple[Expr, ...]:
    """Logical coordinates as positions in dense storage."""
    return tuple(simplify(Sub(e, r.min), exact=True) for e, r in zip(subscripts, box, strict=True))


class _Converter:
    def __init__(self, scop: Scop) -> None:
        self.scop = scop
        self.program = scop.program
        self.bodies = stage_bodies(scop.program)
        self.boxes = {b.name: b.box for b in scop.program.buffers}
        self.func_buffers = scop.program.func_buffers
        # Names that a loop may not take: it would hide them, or they it.
        self.reserved = {*scop.program.sizes, *(s.name for s in scop.program.scalars)}
        self.lets = {
            s.name: {x.name for x in walk(s.value) if isinstance(x, Let)} for s in scop.program.stages
        }

    def top(self, node: isl.AstNode) -> Stmt:
        return self.node(node, dict(self.scop.parameters.values), frozenset(self.reserved))

    def node(self, node: isl.AstNode, env: Mapping[str, Expr], taken: frozenset[str]) -> Stmt:
        kind = node.get_type()
        if kind == _NODE.block:
            parts = node.block_get_children()
            return _block(self.node(parts.get_at(i), env, taken) for i in range(parts.n_ast_node()))
        if kind == _NODE.for_:
            return self.loop(node, env, taken)
        if kind == _NODE.if_:
            test = simplify(convert(node.if_get_cond(), env), exact=True)
            then = self.node(node.if_get_then(), env, taken)
            other = self.node(node.if_get_else(), env, taken) if node.if_has_else() else None
            return If(test, then, other)
        if kind == _NODE.mark:
            return self.node(node.mark_get_node(), env, taken)
        if kind == _NODE.user:
            return self.compute(node.user_get_expr(), env)
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
        below = self.node(body, inner, taken | {name})
        return For(name, lower, simplify(bound, exact=True), step, LoopKind.SERIAL, below)

    def loop_name(self, iterator: str, body: isl.AstNode, taken: frozenset[str]) -> str:
        """The stages' own index where the loop runs over just that, else the iterator's name."""
        avoid = set(taken)
        candidates: list[str] = []
        for call in _calls(body):
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
        return self.scop.statement(call.get_op_arg(0).get_id().get_name())

    def compute(self, call: isl.AstExpr, env: Mapping[str, Expr]) -> Stmt:
        statement = self.statement_of(call)
        point = tuple(
            simplify(convert(call.get_op_arg(i), env), exact=True) for i in range(1, call.get_op_n_arg())
        )
        return instance(statement, point, self.bodies, self.boxes, self.func_buffers)


def instance(
    statement: Statement,
    point: tuple[Expr, ...],
    bodies: Mapping[str, Expr],
    boxes: Mapping[str, Box],
    func_buffers: Mapping[str, str],
) -> Stmt:
    """The instance of a statement at `point`, under the conditions that isl could not express."""
    stage = statement.stage
    at = dict(zip(stage.domain.names, point, strict=True))
    buffer = func_buffers[stage.func]
    subscripts = zero_based((substitute(a, at) for a in stage.args), boxes[buffer])
    value = simplify(substitute(bodies[stage.name], at))
    body: Stmt = Compute(stage.name, buffer, subscripts, stage.op, value, point, stage.text)
    if statement.residual:
        tests = [simplify(substitute(inline_lets(c), at), exact=True) for c in statement.residual]
        body = If(conjunction(tests), body)
    return body


def _next(e: Expr) -> Expr:
    """`e + 1`, with the 1 inside of minima and maxima, where it folds."""
    return type(e)(_next(e.a), _next(e.b)) if isinstance(e, (Min, Max)) else Add(e, IntImm(1))


def _calls(node: isl.AstNode) -> list[isl.AstExpr]:
    """The statement calls below a node."""
    kind = node.get_type()
    if kind == _NODE.user:
        return [node.user_get_expr()]
    if kind == _NODE.block:
        parts = node.block_get_children()
        return [c for i in range(parts.n_ast_node()) for c in _calls(parts.get_at(i))]
    if kind == _NODE.for_:
        return _calls(node.for_get_body())
    if kind == _NODE.mark:
        return _calls(node.mark_get_node())
    calls = _calls(node.if_get_then())
    return calls + _calls(node.if_get_else()) if node.if_has_else() else calls


def _block(parts: Iterable[Stmt]) -> Stmt:
    flat: list[Stmt] = []
    for p in parts:
        flat += p.body if isinstance(p, Block) else (p,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))

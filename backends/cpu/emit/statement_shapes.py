"""Properties of statements: which elements their loops update, whether they are long dependence chains, what
they write."""

from __future__ import annotations

from tc.errors import InternalError
from tc.ir.expr import Call, Expr, IntImm, Load, variables, walk
from tc.ir.loops import (
    Block,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Promote,
    Stmt,
    expressions,
    statements,
)

from .affine import Affine
from .branches import CHEAP_FUNCTIONS


def constant_trips(trips: Affine, s: For) -> int:
    if trips.terms:
        raise InternalError(f"the {s.kind.value} loop {s.var} has no constant length")
    return trips.constant


def updates_same_elements(s: For) -> bool:
    """Whether all iterations of a loop update the same elements."""
    inside = list(statements(s.body))
    written = [c for c in inside if isinstance(c, Compute)]
    places = [x for c in written for x in c.subscripts]
    places += [x for f in inside if isinstance(f, For) for x in (f.lower, f.upper)]
    return all(c.op is not None for c in written) and all(s.var not in variables(x) for x in places)


def has_long_chain(body: Stmt) -> bool:
    """Whether the body of an unrolled loop is a long dependence chain or several: it calls functions, and has
    no loop but vector loops."""
    inside = list(statements(body))
    return not any(isinstance(s, For) and s.kind is not LoopKind.VECTOR for s in inside) and any(
        isinstance(x, Call) and x.kind == "intrinsic" and x.name not in CHEAP_FUNCTIONS
        for s in inside
        if isinstance(s, Compute)
        for x in walk(s.value)
    )


_LONG = 1 << 20  # instances that take a millisecond, about
_SOME, _MANY = 16, 1024  # assumed trip counts of loops whose bounds depend on outer loops, or on sizes


def takes_long(s: For, nest: LoopNest) -> bool:
    """Whether an iteration of a loop takes so long that a test for signals costs nothing beside it.

    An iteration of a sequential loop does if it has loops of its own, other than vector and unrolled ones, or
    calls functions.
    """
    inside = list(statements(s.body))
    if s.var not in nest.counters:
        # The innermost such loop is enough.
        loops = [x for x in inside if isinstance(x, For) and x.kind is LoopKind.SERIAL]
        return _instances(s.body, nest) >= _LONG > max((_instances(x.body, nest) for x in loops), default=0)
    return any(isinstance(x, For) and x.kind in (LoopKind.SERIAL, LoopKind.PARALLEL) for x in inside) or any(
        isinstance(x, Call) and x.kind == "intrinsic" and x.name not in CHEAP_FUNCTIONS
        for c in inside
        if isinstance(c, Compute)
        for x in walk(c.value)
    )


def _instances(s: Stmt, nest: LoopNest) -> int:
    """The approximate number of instances of the statements."""
    match s:
        case Block():
            return sum(_instances(c, nest) for c in s.body)
        case For():
            trips = _MANY if variables(s.upper) & set(nest.sizes) else _SOME
            if isinstance(s.lower, IntImm) and isinstance(s.upper, IntImm):
                trips = -(-(s.upper.value - s.lower.value) // s.step)
            return trips * _instances(s.body, nest)
        case Promote() | Launch():
            return _instances(s.body, nest)
        case If():
            return _instances(s.then, nest)
        case _:
            return 1


def reads_buffer(e: Expr, buffer: str) -> bool:
    return any(isinstance(x, Load) and x.buffer == buffer for x in walk(e))


def loop_label(s: For) -> str:
    """The label of a loop, which names its statements; `spills` reads it in assembly."""
    return "-".join(["loop", *dict.fromkeys(c.stage for c in statements(s) if isinstance(c, Compute)), ""])


def updated_in(body: Stmt) -> frozenset[str]:
    """The arrays whose elements a nest both reads and writes."""
    inside = list(statements(body))
    read = {x.buffer for s in inside for e in expressions(s) for x in walk(e) if isinstance(x, Load)}
    combined = {c.buffer for c in inside if isinstance(c, Compute) and c.op is not None}
    return written_by(body) & (read | combined)


def written_by(s: Stmt) -> frozenset[str]:
    return frozenset(c.buffer for c in statements(s) if isinstance(c, Compute))

"""Launches of statements that update elements which data choose.

Several instances may update one element, and the result is to be the same in every run.  So a launch has
threads only over a loop of which no two iterations meet an element: its variable alone decides a subscript.
All other loops run in their order within a thread.
"""

from __future__ import annotations

from dataclasses import replace

from tc.ir.expr import ONE, Add, Expr, FloorDiv, IntImm, Load, Min, Mul, Sub, Variable, variables, walk
from tc.ir.loops import Block, Compute, For, Launch, Stmt, statements
from tc.ir.simplify import linear_terms, simplify

_THREADS = 64


def launches(name: str, body: Stmt) -> Stmt:
    """Each statement of the identity schedule as a launch."""
    statements = body.body if isinstance(body, Block) else (body,)
    return Block(tuple(_launch(name if k == 0 else f"{name}_{k}", s) for k, s in enumerate(statements)))


def _launch(name: str, s: Stmt) -> Stmt:
    """The outermost loop, and where it is, over threads."""
    if not isinstance(s, For) or s.step != 1 or not _separate(s):
        return Launch(name, (), (), s)
    count = simplify(Sub(s.upper, s.lower), exact=True)
    blocks = simplify(FloorDiv(Add(count, IntImm(_THREADS - 1)), IntImm(_THREADS)), exact=True)
    block, thread = f"{s.var}_b", f"{s.var}_t"
    at = Add(Add(Mul(Variable(block), IntImm(_THREADS)), Variable(thread)), s.lower)
    one = replace(s, lower=at, upper=Min(Add(at, ONE), s.upper))  # none behind the end
    return Launch(name, ((block, blocks),), ((thread, _THREADS),), one)


def _separate(loop: For) -> bool:
    """Whether iterations of a loop update different elements: in every statement some subscript is the
    loop's variable, or a multiple of it, plus what other loops and data do not change."""
    inner = list(statements(loop.body))
    own = {s.var for s in inner if isinstance(s, For)}
    found = [s for s in inner if isinstance(s, Compute)]
    return bool(found) and all(any(_decides(e, loop.var, own) for e in c.subscripts) for c in found)


def _decides(e: Expr, var: str, others: set[str]) -> bool:
    if any(isinstance(x, Load) for x in walk(e)) or variables(e) & others:
        return False
    terms, _ = linear_terms(e)
    mine = [c for t, c in terms.items() if t == Variable(var)]
    rest = [t for t in terms if t != Variable(var) and var in variables(t)]
    return len(mine) == 1 and mine[0] != 0 and not rest

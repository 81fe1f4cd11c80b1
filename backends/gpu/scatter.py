"""Launches of scatters: statements that update elements at data-dependent subscripts.

Several instances may update one element, and the result is to be the same in every run.  So a launch has
threads only over a loop of which no two iterations meet an element: its variable alone decides a subscript.
All other loops run in their order within a thread.
"""

from __future__ import annotations

from dataclasses import replace

from tc.ir.expr import ONE, Add, FloorDiv, IntImm, Min, Mul, Sub, Variable
from tc.ir.loops import Block, For, Launch, Stmt
from tc.ir.simplify import simplify
from tc.transforms.loops.scatters import separate

_THREADS = 64


def launches(name: str, body: Stmt) -> Stmt:
    """Each statement of the identity schedule as a launch."""
    statements = body.body if isinstance(body, Block) else (body,)
    return Block(tuple(_launch(name if k == 0 else f"{name}_{k}", s) for k, s in enumerate(statements)))


def _launch(name: str, s: Stmt) -> Stmt:
    """The outermost loop, distributed over threads where its iterations share no elements."""
    if not isinstance(s, For) or s.step != 1 or not separate(s):
        return Launch(name, (), (), s)
    count = simplify(Sub(s.upper, s.lower), exact=True)
    blocks = simplify(FloorDiv(Add(count, IntImm(_THREADS - 1)), IntImm(_THREADS)), exact=True)
    block, thread = f"{s.var}_b", f"{s.var}_t"
    at = Add(Add(Mul(Variable(block), IntImm(_THREADS)), Variable(thread)), s.lower)
    one = replace(s, lower=at, upper=Min(Add(at, ONE), s.upper))  # none beyond the end
    return Launch(name, ((block, blocks),), ((thread, _THREADS),), one)

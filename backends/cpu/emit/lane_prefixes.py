"""Prefixes of a vector in log2(lanes) steps (`tc.transforms.loops.lane_prefixes`).

After the step of distance s, lane i holds the combination of up to 2 s elements that end with its own: those
of lanes i - s and i before the step (Kogge and Stone 1973).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.dtypes import accumulator
from tc.errors import InternalError
from tc.ir.expr import LT
from tc.ir.loops import Compute, For, If
from tc.ir.lower import neutral

from .affine import LANE, Affine
from .index_forms import Env
from .values import Value, type_text

if TYPE_CHECKING:
    from .kernel import NestEmitter


def prefixes(e: NestEmitter, s: For, env: Env) -> None:
    """Emit the updates of one vector: lane i combines the elements 0 to i, or to i - 1 under a strict
    condition."""
    branch = s.body
    c = branch.then if isinstance(branch, If) else None
    if not (isinstance(branch, If) and isinstance(c, Compute) and c.op is not None and e.lanes):
        raise InternalError(f"the loop {s.var} is no prefix of a vector")
    array = e.arrays[c.buffer]
    address = e.address(array, c.subscripts, env)
    if address is None:
        raise InternalError(f"'{c.buffer}' is written where data says")
    e.point = c.point
    t, lanes = accumulator(array.dtype, c.value.dtype), e.lanes
    nothing = e.widen(e.value(neutral(c.op, t), Env({}, {})), lanes)
    if isinstance(branch.condition, LT):
        later = e.mask_of(range(1, lanes))  # lane 0 has no element
        with e.where(later):
            v = e.widen(e.cast(e.value(c.value, env.bind(s.var, Affine.of(LANE) + -1)), t), lanes)
        v = e.select(later, v, nothing)
    else:
        v = e.widen(e.cast(e.value(c.value, env.bind(s.var, Affine.of(LANE))), t), lanes)
    distance = 1
    while distance < lanes:
        # Not combined with the neutral element in the first lanes: LLVM would make slow expansions of zeros.
        order = [None if i < distance else i - distance for i in range(lanes)]
        before = Value(e.shuffled(type_text(t, lanes), v.text, "poison", order), t, lanes)
        v = e.select(e.mask_of(range(distance, lanes)), e.binary(c.op, before, v), v)
        distance *= 2
    old = e.cast(e.load(array, address), t)
    e.store(array, address, e.cast(e.binary(c.op, old, v), array.dtype))

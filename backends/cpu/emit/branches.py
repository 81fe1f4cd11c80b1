"""Whether a choice between two values is a branch, or computes both and selects one."""

from __future__ import annotations

from collections.abc import Mapping

from tc.ir.expr import Call, Expr, FloatImm, IfThenElse, IntImm, Load, Variable, walk
from tc.ir.loops import Array

# Functions of few instructions.
CHEAP_FUNCTIONS = frozenset(
    ["fabs", "abs", "fmin", "fmax", "copysign", "floor", "ceil", "trunc", "fma", "sqrt"]
)
_FEW = 12  # operations and reads that take less time than a mispredicted branch


def is_expensive(e: Expr) -> bool:
    """Whether a value reads memory, or is expensive enough to be skipped by a branch."""
    return any(
        isinstance(x, Load) or (isinstance(x, Call) and x.name not in CHEAP_FUNCTIONS) for x in walk(e)
    )


def costs_more_than_both(e: IfThenElse, arrays: Mapping[str, Array]) -> bool:
    """Whether both values of a choice that data decide can be computed, and cost less than a branch that the
    processor mispredicts."""
    parts = [x for v in (e.then_value, e.else_value) for x in walk(v)]
    return (
        any(isinstance(x, Load) for x in walk(e.condition))
        and all(_exists(x, arrays) for x in parts if isinstance(x, Load))
        and all(x.name in CHEAP_FUNCTIONS for x in parts if isinstance(x, Call))
        and sum(not isinstance(x, IntImm | FloatImm | Variable) for x in parts) <= _FEW
    )


def _exists(e: Load, arrays: Mapping[str, Array]) -> bool:
    """Whether the element of a load exists whatever conditions say."""
    return arrays[e.buffer].role == "register" or (e.inside and not e.checked)

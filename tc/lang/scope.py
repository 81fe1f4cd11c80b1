"""What a statement sees: the sizes, scalars and current tensors of the def that it stands in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.dtypes import SPELLINGS
from tc.errors import SemanticError, Span
from tc.lang import resolved as r
from tc.lang import syntax as s
from tc.lang.builtins import BUILTINS, find

CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}  # whatever else has the name hides it


@dataclass(slots=True)
class Scope:
    """The names of one def while its statements are resolved in order."""

    owner: s.Def
    sizes: dict[str, r.Exp] = field(default_factory=dict[str, r.Exp])
    scalars: dict[str, r.Exp] = field(default_factory=dict[str, r.Exp])
    tensors: dict[str, r.Tensor] = field(default_factory=dict[str, r.Tensor])  # defined so far
    later: dict[str, Span] = field(default_factory=dict[str, Span])  # assigned somewhere in the def
    returns: dict[str, s.Return] = field(default_factory=dict[str, s.Return])
    predeclared: dict[str, r.Tensor] = field(default_factory=dict[str, r.Tensor])  # returns with sizes
    inout: set[str] = field(default_factory=set[str])  # returns that are read before they are defined
    # Of these, those that only the loop reads which is the first to define them.
    iterated: set[str] = field(default_factory=set[str])
    defs: Mapping[str, s.Def] = field(default_factory=dict[str, s.Def])
    read: set[str] = field(default_factory=set[str])
    counters: dict[str, r.Counter] = field(default_factory=dict[str, r.Counter])  # of the loops around
    # Assigned first in the loop in hand: an earlier statement reads what earlier iterations have defined.
    recurrent: dict[str, r.Tensor] = field(default_factory=dict[str, r.Tensor])

    def value_names(self) -> set[str]:
        return {*self.sizes, *self.scalars, *self.tensors, *self.later, *self.counters}

    def callable_names(self) -> set[str]:
        return {*self.tensors, *self.later, *self.defs, *BUILTINS}


def size_from_parameter(name: str) -> str:
    """Help for a size that no parameter has."""
    return f"sizes are those of the parameters: pass it, int {name}, and give the range, where v in 0:{name}"


def reject_builtin(name: str, span: Span, what: str) -> None:
    """A name that a def introduces must not be a built-in's or a type's."""
    kind = "a built-in function" if find(name) is not None else "a type" if name in SPELLINGS else None
    if kind:
        raise SemanticError(
            f"'{name}' is {kind} and cannot name {what}", span, code="TC0202", help="rename it"
        )

"""Type variables of defs: what they may stand for, and their types by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tc.dtypes import (
    ALL,
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    SPELLINGS,
    DType,
)
from tc.errors import ArgumentError, DTypeError, SemanticError, did_you_mean
from tc.lang import syntax as s

_FLOATING = (FLOAT32, FLOAT64, FLOAT16, BFLOAT16)
_INTEGRAL = (INT32, INT64, INT16, INT8, *(t for t in ALL if t.kind == "uint"))
_COMPLEX = (COMPLEX64, COMPLEX128)
# The types that a variable of a bound may be, the one first that stands for all.
BOUNDS: Mapping[str, tuple[DType, ...]] = {
    "number": (*_FLOATING, *_COMPLEX, *_INTEGRAL),
    "floating": _FLOATING,
    "integral": _INTEGRAL,
    "complex": _COMPLEX,
}
Binding = Mapping[str, DType]
# What a source leaves open: parameters of SaC with rank and element type, type variables with 0 and theirs.
Known = tuple[tuple[str, int, Any], ...]
_HEADER = re.compile(r"\bdef\s+[_a-zA-Z0-9]+\s*<")


def generic(program: s.Program) -> bool:
    """Whether a def of a program has type variables."""
    return any(d.variables for d in program.defs)


def mentions_variables(text: str) -> bool:
    """Whether a def of a text has type variables, without parsing it.  The language has no strings, so that
    each # starts a comment."""
    return "<" in text and _HEADER.search(re.sub(r"#[^\n]*", "", text)) is not None


def entry_of(program: s.Program, entry: str | None) -> s.Def:
    """The def of a name, by default the last one.  Raises SemanticError."""
    defs = {d.name: d for d in program.defs}
    if entry is None:
        return program.defs[-1]
    if entry not in defs:
        raise SemanticError(
            f"there is no def '{entry}'",
            program.span,
            code="TC0216",
            help=did_you_mean(entry, defs) or "the defs are " + ", ".join(defs),
        )
    return defs[entry]


def check_bound(v: s.TypeVariable, dtype: DType, by: str) -> None:
    """Refuse a type that a variable may not be: DTypeError, code TC0409."""
    if dtype not in BOUNDS[v.bound]:
        raise DTypeError(
            f"the type variable {v.name} is {dtype} by {by}, and must be {_said(v)}",
            v.span,
            code="TC0409",
            help=f"types are {', '.join(t.name for t in BOUNDS[v.bound])}",
        )


def _said(v: s.TypeVariable) -> str:
    return {"number": "a number", "floating": "floating", "integral": "integral", "complex": "complex"}[
        v.bound
    ]


def binding_from(d: s.Def, types: Mapping[str, Any]) -> Known:
    """The types of a def's variables from their names.

    Raises ArgumentError (TC0511) for a name that is no variable or no type, DTypeError (TC0409) for a type
    that a variable may not be, and (TC0410) for a variable that is not given.
    """
    names = [v.name for v in d.variables]
    for name, value in types.items():
        if name not in names:
            raise ArgumentError(
                f"'{d.name}' has no type variable '{name}'",
                code="TC0511",
                help=did_you_mean(name, names) or f"it has {', '.join(names) or 'none'}",
            )
        if not isinstance(value, str) or value not in SPELLINGS:
            raise ArgumentError(
                f"{value!r} is no element type",
                code="TC0511",
                help=did_you_mean(str(value), SPELLINGS) or 'types are "float", "double", "int", …',
            )
    out: list[tuple[str, int, DType]] = []
    for v in d.variables:
        if v.name not in types:
            raise unbound(d, v)
        dtype = SPELLINGS[types[v.name]]
        check_bound(v, dtype, "its name")
        out.append((v.name, 0, dtype))
    return tuple(out)


def unbound(d: s.Def, v: s.TypeVariable) -> DTypeError:
    return DTypeError(
        f"nothing says what the type variable {v.name} of '{d.name}' is",
        v.span,
        code="TC0410",
        help=f'pass the arrays of its parameters, or types={{"{v.name}": "float"}}',
    )


def representative(variables: Sequence[s.TypeVariable]) -> Binding:
    """Types that stand for all that the variables may be."""
    return {v.name: BOUNDS[v.bound][0] for v in variables}

"""Which integer expressions are exact arithmetic on indices and sizes.

Subscripts, bounds and conditions are computed in exact integers, without the wrap-around of a type, as far
as they are sums, products, quotients, minima, ... of indices, sizes and integer scalars. What the language
types as float is computed in that type, and a cast to an integer type that may lose a value (of a float, to
16 bits or fewer, to an unsigned type) gives what the cast gives: such terms are opaque to range inference
and to the polyhedral layer, as elements of tensors are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from tc.dtypes import INT32, DType, promote
from tc.lang import resolved as r
from tc.lang.builtins import BUILTINS

_RELATIONS = frozenset(["&&", "||", "==", "!=", "<", "<=", ">", ">="])


def is_float(e: r.Exp) -> bool:
    """Whether an expression without lets is of a floating or complex type, as far as that is known before
    types are: elements of temporaries count as integers."""
    match e:
        case r.Const():
            return isinstance(e.value, float) or e.single
        case r.Imaginary():
            return True
        case r.Scalar():
            return e.declared.is_float or e.declared.is_complex
        case r.Access():
            declared = e.tensor.storage.declared
            return declared is not None and (declared.is_float or declared.is_complex)
        case r.Cast():
            return e.target.is_float or e.target.is_complex
        case r.Apply():
            kind = BUILTINS[e.function].kind
            values = e.args[1:] if kind == "select" else e.args
            return kind in ("math", "complex") or any(map(is_float, values))
        case r.Unary():
            return e.op != "!" and is_float(e.operand)
        case r.Binary():
            return e.op not in _RELATIONS and (is_float(e.left) or is_float(e.right))
        case r.If():
            return is_float(e.then) or is_float(e.otherwise)
        case _:
            return False


def holds_exact(target: DType) -> bool:
    """Whether exact index arithmetic may be taken to fit a type: a cast to it is the arithmetic itself."""
    return target.is_int and target.is_signed and target.bits >= 32


def is_inexact(e: r.Exp) -> bool:
    """Whether an integer expression without lets holds a term that is opaque: then all of it is computed in
    its own type, which may wrap."""
    return any(
        isinstance(x, r.Access)
        or (
            isinstance(x, r.Cast)
            and x.target.is_int
            and not (holds_exact(x.target) and not is_float(x.operand))
        )
        for x in r.walk(e)
    )


def integer_type(e: r.Exp, types: Mapping[str, DType]) -> DType | None:
    """The type of an integer expression without lets, before types are known; None for literals, which adapt.

    `types` are those of parameters that came in another type than declared.  Elements of temporaries count
    as int32.
    """
    match e:
        case r.Const():
            return None
        case r.Scalar():
            return e.declared
        case r.Access():
            declared = e.tensor.storage.declared or INT32
            return promote(declared, types.get(e.tensor.storage.name, declared))
        case r.Cast():
            return e.target
        case r.Apply() | r.If() | r.Binary() | r.Unary():
            values = r.children(e)
            if isinstance(e, r.If) or (isinstance(e, r.Apply) and e.function == "select"):
                values = tuple(values)[1:]
            found = [t for t in (integer_type(v, types) for v in values) if t is not None]
            return reduce(promote, found) if found else None
        case _:
            return INT32


def compares_floats(e: r.Binary) -> bool:
    """Whether a relation is between floating values, which range inference does not see through."""
    return is_float(e.left) or is_float(e.right)

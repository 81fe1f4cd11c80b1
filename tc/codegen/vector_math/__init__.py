"""Vector math: the built-in functions on vectors of float32 and float64, as LLVM IR text.

`vector_function` gives a function to call, `paste` appends the same instructions to the caller's.  A lane's
result does not depend on the number of lanes: one lane is a plain scalar, with the same operations in the
same order (only which of two NaN operands' payloads comes through is left to the code generator).  Error
bounds: docs/numerics.md.

Besides the language's functions there are `minimum` and `maximum`, the language's `min` and `max`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tc.codegen.vector_math import (
    convert,
    elementary,
    exponential,
    inverse,
    logarithm,
    power,
    special,
    trigonometric,
)
from tc.codegen.vector_math.builder import Body, Lines, Sink, Value
from tc.codegen.vector_math.formats import Format, Target, format_of
from tc.dtypes import FLOAT32, FLOAT64, DType

_Unary = Callable[[Body, Format, Value], Value]
_Binary = Callable[[Body, Format, Value, Value], Value]

_UNARY: dict[str, _Unary] = {
    "exp": exponential.exp,
    "exp_nonpositive": exponential.exp_nonpositive,
    "exp2": exponential.exp2,
    "exp10": exponential.exp10,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
    "asinh": inverse.asinh,
    "acosh": inverse.acosh,
    "atanh": inverse.atanh,
    "cbrt": power.cbrt,
    "rcbrt": power.rcbrt,
    "rsqrt": elementary.rsqrt,
    "erf": special.erf,
    "erfc": special.erfc,
    "normcdf": special.normcdf,
}
_BINARY: dict[str, _Binary] = {
    "atan2": inverse.atan2,
    "fdim": elementary.fdim,
    "hypot": power.hypot,
    "minimum": elementary.minimum,
    "maximum": elementary.maximum,
}
_BINARY32: dict[str, _Binary] = {**_BINARY, "pow": power.pow32}
_BINARY64: dict[str, _Binary] = {**_BINARY, "pow": power.pow64}
_TABLE32 = {*_UNARY, *_BINARY32}
_TABLE64 = {*_UNARY, *_BINARY64}
_CONVERSIONS: dict[str, tuple[str, str, Callable[[Body, Value, bool], Value]]] = {
    "half_to_float": ("i16", "float", convert.half_to_float),
    "float_to_half": ("float", "i16", convert.float_to_half),
    "bfloat_to_float": ("i16", "float", convert.bfloat_to_float),
    "float_to_bfloat": ("float", "i16", convert.float_to_bfloat),
}


@dataclass(frozen=True, slots=True)
class VectorFunction:
    """`text` defines `symbol`; a module needs it, the texts of `functions` (by name: several functions may
    share one) and the declarations."""

    symbol: str
    text: str
    declarations: frozenset[str]
    functions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Pasted:
    """The operand that holds the result, and what the module has to have: texts of functions by name."""

    operand: str
    declarations: frozenset[str]
    functions: dict[str, str]


def supported(name: str, dtype: DType) -> bool:
    """Whether there is a vector form."""
    return name in (_TABLE32 if dtype == FLOAT32 else _TABLE64 if dtype == FLOAT64 else ())


def arity(name: str) -> int:
    return 2 if name in _BINARY32 or name in _BINARY64 else 1


def _apply(name: str, dtype: DType, body: Body, args: Sequence[Value]) -> Value:
    f = format_of(dtype)
    if len(args) == 2:
        return (_BINARY32 if dtype == FLOAT32 else _BINARY64)[name](body, f, *args)
    return _UNARY[name](body, f, *args)


def vector_function(
    name: str, dtype: DType, lanes: int, *, fma: bool, fast: bool = False, avx512: bool = False
) -> VectorFunction | None:
    """The function of a built-in, or None where there is no vector form.

    `fma`: the target has fused multiply-add.  `avx512`: it has AVX-512 F, DQ and VL.  The results of targets
    differ within the bounds.  `fast` is reserved for cheaper variants.
    """
    if not supported(name, dtype):
        return None
    element = format_of(dtype).element
    lines = Lines()
    body = Body(lanes, Target(fma, avx512), lines)
    names = [f"%x{i}" for i in range(arity(name))]
    result = _apply(name, dtype, body, [Value(body, element, n) for n in names])
    symbol = f"tc_{name}_{'' if lanes == 1 else f'v{lanes}'}{'f32' if dtype == FLOAT32 else 'f64'}"
    return _function(symbol, body, lines, [(element, n) for n in names], result)


def conversion(name: str, lanes: int, *, native: bool = False) -> VectorFunction:
    """`half_to_float`, `float_to_half`, `bfloat_to_float` or `float_to_bfloat` on `<N x i16>` and
    `<N x float>`; `native`: the target has F16C."""
    source, _, function = _CONVERSIONS[name]
    lines = Lines()
    body = Body(lanes, Target(False), lines)
    result = function(body, Value(body, source, "%x0"), native)
    return _function(f"tc_{name}_v{lanes}", body, lines, [(source, "%x0")], result)


def _function(
    symbol: str, body: Body, lines: Lines, args: Sequence[tuple[str, str]], result: Value
) -> VectorFunction:
    parameters = ", ".join(f"{body.type(t)} {n}" for t, n in args)
    pure = "" if body.functions or (len(lines.lines) > 1 and lines.block != "entry") else " memory(none)"
    text = (
        f"define internal {result.type} @{symbol}({parameters}) alwaysinline nounwind{pure} {{\n"
        + "\n".join(lines.lines)
        + f"\n  ret {result.type} {result.operand}\n}}\n"
    )
    return VectorFunction(symbol, text, frozenset(body.declarations), dict(body.functions))


def paste(
    name: str,
    dtype: DType,
    lanes: int,
    args: Sequence[str],
    sink: Sink,
    *,
    fma: bool,
    fast: bool = False,
    avx512: bool = False,
) -> Pasted | None:
    """The same instructions, appended to the caller's; a rare path may start blocks there."""
    if not supported(name, dtype):
        return None
    element = format_of(dtype).element
    body = Body(lanes, Target(fma, avx512), sink)
    result = _apply(name, dtype, body, [Value(body, element, a) for a in args])
    return Pasted(result.operand, frozenset(body.declarations), dict(body.functions))


def paste_conversion(name: str, lanes: int, arg: str, sink: Sink, *, native: bool = False) -> Pasted:
    """The same for `conversion`."""
    source, _, function = _CONVERSIONS[name]
    body = Body(lanes, Target(False), sink)
    result = function(body, Value(body, source, arg), native)
    return Pasted(result.operand, frozenset(body.declarations), {})

"""Instructions of a warp for an expression, by the pipe that executes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tc.codegen.dialect import CUDA
from tc.dtypes import BOOL, DType
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import Op

# PTX instructions, without moves, that NVRTC 12.9 emits for a function on sm_90, in float32 and in float64.
# Of functions with a slow path for huge arguments (sin, cos, tan) the fast path is counted.  In float32 these
# are of our own implementation; `tan` computes in float64.
_FUNCTIONS: Mapping[str, tuple[int, int]] = {
    "acos": (30, 68), "acosh": (63, 148), "asin": (27, 57), "asinh": (45, 151), "atan": (22, 36),
    "atan2": (47, 58), "atanh": (40, 82), "cbrt": (15, 40), "ceil": (1, 1), "copysign": (1, 2),
    "cos": (26, 45), "cosh": (19, 32), "cospi": (27, 37), "cyl_bessel_i0": (60, 91), "erf": (26, 56),
    "erfc": (52, 98), "erfinv": (28, 118), "exp": (10, 34), "exp10": (10, 39), "exp2": (1, 38),
    "expm1": (29, 43), "fabs": (1, 1), "abs": (1, 1), "fdim": (3, 4), "floor": (1, 1), "fma": (1, 1),
    "fmax": (1, 2), "fmin": (1, 2), "fmod": (72, 181), "hypot": (18, 26), "j0": (149, 281),
    "lgamma": (214, 323), "log": (26, 52), "log10": (27, 54), "log1p": (27, 75), "log2": (28, 54),
    "normcdf": (69, 123), "pow": (107, 212), "round": (4, 4), "rsqrt": (3, 12), "sigmoid": (20, 55),
    "sin": (25, 45), "sinh": (32, 53), "sinpi": (26, 36), "sqrt": (10, 20), "tan": (43, 60),
    "tanh": (18, 53), "tgamma": (164, 489), "trunc": (1, 1), "y0": (355, 533),
}  # fmt: skip
_OTHER_FUNCTION = (60, 120)  # of a function that is not listed
_SPECIAL_UNIT_FUNCTIONS = frozenset(
    ["exp", "exp2", "exp10", "expm1", "sqrt", "rsqrt", "tanh", "sinh", "cosh", "sigmoid", "pow", "erf", "tan"]
)
_DIVISION = {"float32": 10, "float64": 20}  # correctly rounded: an approximation, Newton steps, a check
_DOUBLE_EXTREMUM = 4  # with tests for NaN and for the sign of zero (tc/codegen/c_helpers.py)
_CONSTANT_DIVISION = 4  # of integers: the high part of a product, shifts, the sign
_VARIABLE_DIVISION = 20  # of integers, by a variable
CHECK = 3  # of a subscript: a comparison, a note that it failed, a choice of the subscript or 0
DOT_PRODUCT_LENGTH = 4  # products of bytes that one instruction (IDP) sums

MULTIPLY_ADD = "multiply-add"  # also counted in the pipe that executes it


def pipe(t: DType) -> str:
    """The pipe that executes arithmetic on a type; 16-bit floating-point types compute in float32."""
    if t.is_float:
        return "float64" if t.bits == 64 else "float32"
    return "integer"


def _extremum(t: DType) -> int:
    """Of a minimum or maximum; PTX has one instruction for float32, which 16-bit types are computed in."""
    return _DOUBLE_EXTREMUM if t.is_float and t.bits == 64 else 1


def arithmetic(value: Expr, op: Op | None, t: DType) -> Counter[str]:
    """Instructions for `value`, and for the update of an element of type `t` with it by `op`; without loads
    and addresses.  A product and the sum that uses it are one instruction."""
    out: Counter[str] = Counter()

    def visit(e: Expr, fused: bool = False) -> None:
        if not _depends_on_data(e):
            return  # constant folding
        match e:
            case x.Load() | x.Variable() | x.IntImm() | x.UIntImm() | x.FloatImm():
                return
            case x.Call() if e.kind != "intrinsic":
                return
            case x.Add() | x.Sub():
                product = next((c for c in (e.b, e.a) if _is_product(c)), None)
                count(pipe(e.dtype), product is not None)
                visit(e.a, e.a is product)
                visit(e.b, e.b is product)
                return
            case x.Mul():
                if not fused:
                    count(pipe(e.dtype))
            case x.Div():
                out[pipe(e.dtype)] += _DIVISION[pipe(e.dtype)]
                out["special"] += 1
            case x.FloorDiv() | x.FloorMod():
                out["integer"] += _CONSTANT_DIVISION if isinstance(e.b, x.IntImm) else _VARIABLE_DIVISION
            case x.Min() | x.Max():
                out[pipe(e.dtype)] += _extremum(e.dtype)
            case x.Cast() if is_half_conversion(e):  # counted with the load
                return
            case x.Cast():
                out["integer"] += e.dtype != e.value.dtype and BOOL not in (e.dtype, e.value.dtype)
            case x.Call():
                single, double = _FUNCTIONS.get(e.name, _OTHER_FUNCTION)
                doubled = e.dtype.bits == 64 or e.name in CUDA.doubled
                wide = doubled or e.name == "tan"
                out["float64" if wide else pipe(e.dtype)] += double if doubled else single
                out["special"] += e.name in _SPECIAL_UNIT_FUNCTIONS and not doubled
            case x.Let():
                pass
            case _:  # comparisons, selects, logical operations
                out["integer"] += 1
        for c in x.children(e):
            visit(c)

    def count(unit: str, fused: bool = False) -> None:
        out[unit] += 1
        out[MULTIPLY_ADD] += fused and unit != "integer"

    fused = op == "+" and _is_product(value)
    visit(value, fused)
    if op in ("+", "*"):
        count(pipe(t), fused)
    elif op is not None:
        out[pipe(t)] += _extremum(t)
    return out


def is_dot_product(value: Expr, op: Op | None, t: DType) -> bool:
    """Whether a 32-bit sum is of products of 8-bit integers that are loaded.

    ptxas combines four iterations to one instruction (IDP).  Each factor that is not loaded as part of a
    vector takes another one to be packed.
    """
    return op == "+" and t.bits == 32 and isinstance(value, x.Mul) and _is_byte(value.a) and _is_byte(value.b)


def _is_byte(e: Expr) -> bool:
    t = e.value.dtype if isinstance(e, x.Cast) and isinstance(e.value, x.Load) else None
    return t is not None and t.is_int and t.bits == 8


def is_half_conversion(e: Expr) -> bool:
    """Whether it converts a half that it loads to float32: one instruction for each load, not for each
    use."""
    return isinstance(e, x.Cast) and isinstance(e.value, x.Load) and e.value.dtype.is_half


def _is_product(e: Expr) -> bool:
    return isinstance(e, x.Mul) and (e.dtype.is_float or e.dtype.bits == 32)


def _depends_on_data(e: Expr) -> bool:
    return any(
        isinstance(s, (x.Load, x.Variable)) or (isinstance(s, x.Call) and s.kind != "intrinsic")
        for s in x.walk(e)
    )


def divisions(subscripts: Sequence[Expr]) -> Counter[Expr]:
    """Instructions for the divisions and remainders in subscripts.  Common quotients, also those of
    remainders, are computed once."""
    out: Counter[Expr] = Counter()
    for e in {s for subscript in subscripts for s in x.walk(subscript)}:
        if isinstance(e, (x.FloorDiv, x.FloorMod)):
            out[x.FloorDiv(e.a, e.b)] = (
                _CONSTANT_DIVISION if isinstance(e.b, x.IntImm) else _VARIABLE_DIVISION
            )
        if isinstance(e, x.FloorMod):
            out[e] = 2
    return out

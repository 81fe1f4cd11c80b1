"""Instructions of a warp for an expression, by the pipe that runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tc.codegen.dialect import CUDA
from tc.dtypes import BOOL, DType
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import Op

# PTX that NVRTC 12.9 makes of a function for sm_90, without moves, of float32 and of float64; of those with a
# path for huge arguments (sin, cos, tan) about what the other path takes.  These of float32 are ours; `tan`
# computes in float64.
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
_OTHER = (60, 120)  # of a function that is not listed
_ONE_SPECIAL = frozenset(
    ["exp", "exp2", "exp10", "expm1", "sqrt", "rsqrt", "tanh", "sinh", "cosh", "sigmoid", "pow", "erf", "tan"]
)
_DIVISION = {"float32": 10, "float64": 20}  # correctly rounded: an approximation, steps of Newton, a check
_EXTREMUM = 4  # NaN and the sign of zero are looked at (tc/codegen/c_helpers.py)
_INTEGER_DIVISION = 4  # by a constant: the high part of a product, shifts; with a sign
_ANY_DIVISION = 20  # of integers, by what is not known
BYTES = 4  # products of bytes that one instruction sums

MULTIPLY_ADD = "multiply-add"  # counted in its own pipe as well


def pipe(t: DType) -> str:
    """Where arithmetic on a type runs; 16-bit floating types compute in float32."""
    if t.is_float:
        return "float64" if t.bits == 64 else "float32"
    return "integer"


def arithmetic(value: Expr, op: Op | None, t: DType) -> Counter[str]:
    """Instructions for `value`, and for what an update with `op` does with it in the type `t`; without those
    for loads and addresses.  A product that goes into a sum is one instruction with it."""
    out: Counter[str] = Counter()

    def visit(e: Expr, fused: bool = False) -> None:
        if not _changes(e):
            return  # computed by the compiler
        match e:
            case x.Load() | x.Variable() | x.IntImm() | x.UIntImm() | x.FloatImm():
                return
            case x.Call() if e.kind != "intrinsic":
                return
            case x.Add() | x.Sub():
                product = next((c for c in (e.b, e.a) if _product(c)), None)
                one(pipe(e.dtype), product is not None)
                visit(e.a, e.a is product)
                visit(e.b, e.b is product)
                return
            case x.Mul():
                if not fused:
                    one(pipe(e.dtype))
            case x.Div():
                out[pipe(e.dtype)] += _DIVISION[pipe(e.dtype)]
                out["special"] += 1
            case x.FloorDiv() | x.FloorMod():
                out["integer"] += _INTEGER_DIVISION if isinstance(e.b, x.IntImm) else _ANY_DIVISION
            case x.Min() | x.Max():
                out[pipe(e.dtype)] += _EXTREMUM if e.dtype.is_float else 1
            case x.Cast() if converts(e):  # where it is read
                return
            case x.Cast():
                out["integer"] += e.dtype != e.value.dtype and BOOL not in (e.dtype, e.value.dtype)
            case x.Call():
                single, double = _FUNCTIONS.get(e.name, _OTHER)
                doubled = e.dtype.bits == 64 or e.name in CUDA.doubled
                wide = doubled or e.name == "tan"
                out["float64" if wide else pipe(e.dtype)] += double if doubled else single
                out["special"] += e.name in _ONE_SPECIAL and not doubled
            case x.Let():
                pass
            case _:  # comparisons, choices, truth values
                out["integer"] += 1
        for c in x.children(e):
            visit(c)

    def one(where: str, fused: bool = False) -> None:
        out[where] += 1
        out[MULTIPLY_ADD] += fused and where != "integer"

    fused = op == "+" and _product(value)
    visit(value, fused)
    if op in ("+", "*"):
        one(pipe(t), fused)
    elif op is not None:
        out[pipe(t)] += _EXTREMUM if t.is_float else 1
    return out


def of_bytes(value: Expr, op: Op | None, t: DType) -> bool:
    """Whether a sum of 32 bits gets products of 8-bit integers that are read.  Of four iterations ptxas makes
    one instruction (IDP), and one more for each factor to pack that is not read as a part of a vector."""
    return op == "+" and t.bits == 32 and isinstance(value, x.Mul) and _byte(value.a) and _byte(value.b)


def _byte(e: Expr) -> bool:
    t = e.value.dtype if isinstance(e, x.Cast) and isinstance(e.value, x.Load) else None
    return t is not None and t.is_int and t.bits == 8


def converts(e: Expr) -> bool:
    """Whether it makes a float32 of a half that it reads: an instruction where that is read, and no other."""
    return isinstance(e, x.Cast) and isinstance(e.value, x.Load) and e.value.dtype.is_half


def _product(e: Expr) -> bool:
    return isinstance(e, x.Mul) and (e.dtype.is_float or e.dtype.bits == 32)


def _changes(e: Expr) -> bool:
    return any(
        isinstance(s, (x.Load, x.Variable)) or (isinstance(s, x.Call) and s.kind != "intrinsic")
        for s in x.walk(e)
    )


def divisions(subscripts: Sequence[Expr]) -> Counter[Expr]:
    """Instructions for the divisions and remainders in subscripts; a quotient that is needed twice, also for
    a remainder, is computed once."""
    out: Counter[Expr] = Counter()
    for e in {s for subscript in subscripts for s in x.walk(subscript)}:
        if isinstance(e, (x.FloorDiv, x.FloorMod)):
            out[x.FloorDiv(e.a, e.b)] = _INTEGER_DIVISION if isinstance(e.b, x.IntImm) else _ANY_DIVISION
        if isinstance(e, x.FloorMod):
            out[e] = 2
    return out

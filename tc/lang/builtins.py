"""The built-in functions: one table of arity, meaning class and spelling per target.

`kind`
    `"math"`: arguments are matched with each other and with float32, the result has that type.
    `"same"`: the arguments' common type is the result's (`min max abs`).
    `"complex"`: of complex numbers (`conj real imag arg`), or makes one of two real ones (`polar`).
    `"select"`: strict choice, the first argument is bool.
    `"concat"`: only as the whole right-hand side of a statement.

Spelling columns hold the *double* name; `f32()` gives the float32 one.  `c` is a libm function, or a
`tc_…` function of `tc/native/math.h` where libm has none.  `cuda` knows every `math` name itself, but for
those in `tc.codegen.dialect`.
`opencl` and `halide` are None where the target has no such function (its `tc_…` twin is pasted, or
the program is excluded by name).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Builtin:
    name: str
    arity: int  # the least number of arguments; `variadic` allows more
    kind: Literal["math", "same", "complex", "select", "concat"] = "math"
    c: str = ""
    opencl: str | None = None
    halide: str | None = None
    variadic: bool = False

    @property
    def own(self) -> bool:
        """Whether the C spelling is one of `tc/native/math.h`."""
        return self.c.startswith("tc_")

    def f32(self) -> str:
        """The float32 spelling in C and CUDA."""
        return self.c + "f"


def _table() -> dict[str, Builtin]:
    out: dict[str, Builtin] = {}

    def add(names: str, arity: int, *, own: bool = False, opencl: bool = True, halide: str = "") -> None:
        in_halide = set(halide.split())
        for n in names.split():
            out[n] = Builtin(
                n,
                arity,
                c=f"tc_{n}" if own else n,
                opencl=n if opencl else None,
                halide=n if n in in_halide else None,
            )

    add(
        "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor log log10 "
        "log1p log2 logb round sin sinh sqrt tan tanh tgamma lgamma trunc",
        1,
        halide="acos acosh asin asinh atan atanh ceil cos cosh exp floor log sin sinh sqrt tan tanh trunc",
    )
    add("exp10 rsqrt cospi sinpi", 1, own=True)
    add("j0 j1 y0 y1", 1, opencl=False)
    add(
        "cyl_bessel_i0 cyl_bessel_i1 digamma erfcinv erfcx erfinv normcdf normcdfinv rcbrt sigmoid trigamma",
        1,
        own=True,
        opencl=False,
    )
    add("atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder", 2, halide="atan2 pow")
    add("fdivide rhypot", 2, own=True, opencl=False)
    add("fma", 3)
    add("norm3d rnorm3d", 3, own=True, opencl=False)
    add("norm4d rnorm4d", 4, own=True, opencl=False)
    out["abs"] = Builtin("abs", 1, "same", opencl="abs", halide="abs")
    out["min"] = Builtin("min", 2, "same", opencl="min", variadic=True)
    out["max"] = Builtin("max", 2, "same", opencl="max", variadic=True)
    for name in ("conj", "real", "imag", "arg"):
        out[name] = Builtin(name, 1, "complex")
    out["polar"] = Builtin("polar", 2, "complex")
    out["select"] = Builtin("select", 3, "select", opencl="select", halide="select")
    out["concat"] = Builtin("concat", 1, "concat", variadic=True)
    return out


BUILTINS: dict[str, Builtin] = _table()
# Those of kind "math" that complex numbers have.
OF_COMPLEX = frozenset(["exp", "sqrt"])
# The C spellings with the suffix f are accepted: fmaxf is fmax.
SUFFIXED: dict[str, str] = {b.name + "f": b.name for b in BUILTINS.values() if b.kind == "math"}


def find(name: str) -> Builtin | None:
    """The built-in of a name in either spelling, or None."""
    return BUILTINS.get(SUFFIXED.get(name, name))

"""Programs, data and comparison with the interpreter for the tests of the cpu backend."""
# ruff: noqa: E501 - a table of programs

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tc
from fuzz.isas import available_isas
from tc import registry
from tc.codegen import llvm_jit
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64)
isas = available_isas


@functools.cache
def compiled(source: str, entry: str | None = None, **options: Any) -> tc.Kernel:
    """A kernel of the cpu backend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, "cpu", entry, options=tc.Options(**options))


class CpuModules:
    """What tests use of the cpu backend; it is imported at the first use."""

    def __getattr__(self, name: str) -> Any:
        registry.load("cpu")
        for module in ("passes", "target"):
            found = getattr(sys.modules[f"tc_backends.cpu.{module}"], name, None)
            if found is not None:
                return found
        raise AttributeError(name)


backend = CpuModules()


def code_of(program: Any, options: tc.Options | None = None, isa: str = "avx512", **more: Any) -> Any:
    """What the backend makes of a program for a processor that need not be this one, with these instructions
    and the caches of a Golden Cove."""
    registry.load("cpu")
    machine = backend.Machine(
        sys.modules["tc_backends.cpu.isa"].ISAS[isa], 2, 48 << 10, 2 << 20, 105 << 20, 12, 16
    )
    return backend.code_of(program, machine, options or tc.Options(), **more)


def assembly_of(program: Any, isa: str) -> str:
    """The assembly of a program for an instruction set that this processor need not have."""
    text, target = code_of(program, isa=isa).text, sys.modules["tc_backends.cpu.isa"].ISAS[isa]
    return llvm_jit.assembly_of(text, cpu=target.cpu, features=target.features)


def interpreted(source: str, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return results(tc.interpret(source, *args, **kwargs))


def results(value: Any) -> tuple[Array, ...]:
    return tuple(map(np.asarray, value)) if isinstance(value, tuple) else (np.asarray(value),)


@dataclass(frozen=True)
class Case:
    """A program and its data.

    `fixed` sizes are not drawn.  `limits`: parameters that are subscripts, with the size that their values
    stay below. `high`: data are integers of at most this magnitude.  `ulps`: 0 where small integers give
    exact results.
    """

    name: str
    source: str
    fixed: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    scalars: Mapping[str, int | float] = field(default_factory=dict)
    high: int = 3
    ulps: float = 0
    points: int = 30_000

    @functools.cached_property
    def kernel(self) -> tc.Kernel:
        """The kernel, for what the front end knows of the program."""
        return compiled(self.source)

    def sizes(self, drawn: Sequence[int]) -> dict[str, int]:
        """Sizes from a list; the largest are made smaller until the product is at most `points`."""
        free = [n for n in self.kernel.front.checked.sizes if n not in self.fixed]
        out = dict(zip(free, [*drawn, *[3] * len(free)]))
        while math.prod(max(1, v) for v in out.values()) > self.points:
            n = max(out, key=out.__getitem__)
            out[n] = max(s for s in SIZES if s < out[n])
        return {**out, **self.fixed}

    def arguments(self, sizes: Mapping[str, int], seed: int) -> tuple[dict[str, Any], dict[str, Array]]:
        """Small integers for the parameters, and for results that start from the caller."""
        rng = np.random.default_rng(seed)
        front = self.kernel.front

        def array(shape: Sequence[int], t: np.dtype[Any], limit: int | None) -> Array:
            if limit is not None:
                return rng.integers(0, max(1, limit), shape).astype(t)
            if t.kind == "b":
                return rng.integers(0, 2, shape).astype(t)
            low = 0 if t.kind == "u" else -self.high
            return rng.integers(low, self.high + 1, shape).astype(t)

        given: dict[str, Any] = {}
        for p in front.checked.params:
            if isinstance(p, r.ScalarParam):
                given[p.name] = self.scalars[p.name]
                continue
            shape = [sizes[d.name] if isinstance(d, r.Size) else d.value for d in p.dims]  # type: ignore[union-attr]
            limit = sizes[self.limits[p.name]] if p.name in self.limits else None
            given[p.name] = array(shape, numpy_dtype(front.typed.dtype(p)), limit)
        shapes = self.kernel.output_shapes(
            **{n: sizes[n] for n in front.checked.sizes},
            **{n: int(self.scalars[n]) for n in front.specialized},
        )
        out = {
            x.name: array(shapes[x.name], numpy_dtype(front.typed.dtype(x.tensor)), None)
            for x in front.checked.returns
            if x.mode != "fresh"
        }
        return given, out


def check(case: Case, sizes: Mapping[str, int], seed: int, options: Mapping[str, Any]) -> None:
    """The cpu backend gives what the interpreter gives, or the same error."""
    given, out = case.arguments(sizes, seed)

    def attempt(run: Any) -> tuple[Array, ...] | str:
        try:
            return results(run(**given, out={k: v.copy() for k, v in out.items()} or None))
        except tc.InternalError:
            raise
        except tc.Error as e:
            return e.code

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        want = attempt(functools.partial(tc.interpret, case.source))
        got = attempt(compiled(case.source, **options))
    if isinstance(want, str) or isinstance(got, str):
        assert isinstance(want, str) and isinstance(got, str) and got == want, (got, want)
        return
    assert len(want) == len(got)
    for w, g in zip(want, got):
        same(w, g, case.ulps)


def same(want: Array, got: Array, ulps: float = 0) -> None:
    """Equality to the bit but for the sign of zero and the payload of NaN; or within units of the type,
    relative to max(1, |want|)."""
    assert got.dtype == want.dtype and got.shape == want.shape
    if not ulps or got.dtype.kind in "iub":
        if got.dtype.kind == "V":  # bfloat16
            got, want = got.astype(np.float32), want.astype(np.float32)
        np.testing.assert_array_equal(got, want)
        return
    bound = ulps * float(np.finfo(got.dtype).eps) * np.maximum(1, np.abs(want.astype(np.float64)))
    gap = np.abs(got.astype(np.float64) - want.astype(np.float64))
    equal = (got == want) | (np.isnan(got) & np.isnan(want))
    assert np.all(equal | (gap <= bound)), f"off by {np.nanmax(gap / bound) * ulps:.3g} ulps"


def _typed(t: str) -> Case:
    """Conversions, a sum, extrema and an elementwise statement over one type."""
    return Case(
        t,
        f"""def f({t}(N,M) A, {t}(M) B) -> (S, P, Q, E) {{
          S(i) +=! A(i,j) * B(j)
          P(j) max=! A(i,j)
          Q(j) min=! A(i,j)
          E(i,j) = A(i,j) < B(j) ? A(i,j) : max(B(j), A(i,j))
        }}""",
        high=1 if t in ("half", "bfloat16", "int8") else 3,
    )


GEMM = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
BIAS = """def f(float(B,N) I, float(O,N) W, float(O) V) -> (R) {
  R(b,o) = V(o)
  R(b,o) += I(b,n) * W(o,n)
  R(b,o) = fmax(R(b,o), 0)
}"""
SOFTMAX = """def f(float(N,D) I) -> (O) {
  t(n) max=! I(n,d)
  O(n,d) = exp(I(n,d) - t(n))
  t(n) +=! O(n,d)
  O(n,d) = O(n,d) / t(n)
}"""
MOMENTS = """def f(float(N,K) I) -> (mean, var) {
  mean(n) +=! I(n,k)
  var(n) +=! I(n,k) * I(n,k)
  mean(n) = mean(n) / K
  var(n) = var(n) / K - mean(n) * mean(n)
}"""
LAYERNORM = """def f(float(N,D) I, float(D) G) -> (O) {
  m(n) +=! I(n,d)
  m(n) = m(n) / D
  v(n) +=! (I(n,d) - m(n)) * (I(n,d) - m(n))
  r(n) = rsqrt(v(n) / D + 0.5)
  O(n,d) = (I(n,d) - m(n)) * r(n) * G(d)
}"""
MLP = """def f(float(B,N) I, float(O,N) W2, float(O) B2, float(P,O) W3, float(P) B3) -> (O2, O3) {
  O2(b,o) = B2(o)
  O2(b,o) += I(b,n) * W2(o,n)
  O2(b,o) = fmax(O2(b,o), 0)
  O3(b,p) = B3(p)
  O3(b,p) += O2(b,o) * W3(p,o)
  O3(b,p) = fmax(O3(b,p), 0)
}"""
CONV = """def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * K(f,c,kh,kw)
}"""
STRIDED = """def f(float(C,H,W) I, float(F,C,KH,KW) K, float(F) B) -> (O) {
  O(f,h,w) = B(f)
  O(f,h,w) += I(c,2*h+kh,3*w+kw) * K(f,c,kh,kw)
}"""
LUT = """def f(float(E,D) T, int(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }"""

CORPUS = [
    *map(_typed, ("float", "double", "half", "bfloat16", "int8", "uint8", "int16", "int", "int64", "uint64")),
    Case(
        "bool",
        """def f(bool(N,M) A, bool(M) B) -> (O, P, E, C) {
          O(i) max=! A(i,j)
          P(i) min=! A(i,j)
          E(i,j) = A(i,j) && !B(j) || (i < 2)
          C(j) +=! int(A(i,j))
        }""",
    ),
    Case("gemm", GEMM),
    Case("gemm of transposed", "def f(float(K,M) A, float(N,K) B) -> (C) { C(j,i) +=! A(k,i) * B(j,k) }"),
    Case("gemm in half", "def f(half(M,K) A, half(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }", high=1),
    Case("gemm in bytes", "def f(int8(M,K) A, int8(K,N) B) -> (C) { C(i,j) +=! int(A(i,k)) * int(B(k,j)) }"),
    Case("gemm, mixed", "def f(float(M,K) A, double(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"),
    Case(
        "gemm into", "def f(float s, float(M,K) A, float(K,N) B) -> (C) { C(i,j) = s * C(i,j)\n"
        "C(i,j) += A(i,k) * B(k,j) }", scalars={"s": 2.0},
    ),
    Case("batched", "def f(float(B,M,K) A, float(B,K,N) C) -> (O) { O(b,i,j) +=! A(b,i,k) * C(b,k,j) }"),
    Case("bias and relu", BIAS),
    Case("softmax", SOFTMAX, ulps=32),
    Case("moments", MOMENTS, ulps=8),
    Case("layer norm", LAYERNORM, ulps=64),
    Case("mlp", MLP, high=2),
    Case("convolution", CONV, {"KH": 3, "KW": 2, "N": 2}),
    Case("strided", STRIDED, {"KH": 2, "KW": 3}),
    Case("pooling", "def f(float(C,H,W) I) -> (O) { O(c,h,w) max=! I(c,2*h+i,2*w+j) where i in 0:2, j in 0:2 }"),
    Case("every second", "def f(float(N) A) -> (O) { O(i) = A(2*i) + A(2*i+1) where i in 0:N/2 }"),
    Case("every third byte", "def f(int8(N) A) -> (O) { O(i) = A(3*i) - A(3*i+2) where i in 0:N/3 }"),
    Case("every fourth", "def f(double(M,N) A) -> (O) { O(j,i) = A(j,4*i+3) where i in 0:N/4 }"),
    Case("every fifth", "def f(half(N) A) -> (O) { O(i) = A(5*i+4) where i in 0:N/5 }"),
    Case("every second, as data say", "def f(float(N) A, bool(N) B) -> (O) { O(i) = B(2*i) ? A(2*i) : 3 where i in 0:N/2 }"),
    Case("columns", "def f(float(N,M) A) -> (O) { O(i) +=! A(i,j) * A(i,0) }"),
    Case("dilated", "def f(float(N) I, float(K) W) -> (O) { O(x) +=! I(x+3*k) * W(k) }", {"K": 3}),
    Case("lookup", LUT, {"E": 7}, {"I": "E"}),
    Case("lookup of a column", "def f(float(N,E) T, int(D) I) -> (O) { O(i,j) = T(i,I(j)) }", {"E": 5}, {"I": "E"}),
    Case("clamped", "def f(float(N) T, int(M) I) -> (O) { O(i) = T(max(min(I(i) - 1, N - 1), 0)) }", {"N": 6}),
    Case("triangle", "def f(float(N,N) A) -> (O) { O(i) +=! A(i,j) where j <= i }"),
    Case("band", "def f(float(N,M) A) -> (O) { O(i) +=! A(i,j) where j <= i + 1, i <= j + 1 }"),
    Case("padding", "def f(float(N) A) -> (O) { O(i) = i >= 2 && i < N + 2 ? A(i-2) : 7 where i in 0:N+5 }"),
    Case(
        "padded convolution",
        "def f(float(N) A, float(K) W) -> (O) { O(i) +=! (i + k >= 1 && i + k < N + 1 ? A(i+k-1) : 0) * W(k) "
        "where i in 0:N }",
        {"K": 3},
    ),
    Case("ternary on data", "def f(float(N,M) A, float(N) B) -> (O) { O(i,j) = A(i,j) > 0 ? A(i,j) * B(i) : B(i) }"),
    Case("existence", "def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) where exists B(i) }"),
    Case(
        "lets",
        "def f(float(N,M) A, float(M) B) -> (O) { O(i,j) = x * y - x where x = A(i,j) + B(j), y = x * 2 }",
    ),
    Case("extrema of many", "def f(float(N,M) A, float(M) B) -> (O) { O(i) max=! min(A(i,j), B(j), 2 - A(i,j)) }"),
    Case("products", "def f(float(N,M) A) -> (O) { O(j) *=! A(i,j) * 0.5 + 0.5 }", {"N": 6}),
    Case("several reductions", "def f(float(A,B,C,D) X) -> (O, P) { O(a,c) +=! X(a,b,c,d) P +=! X(a,b,c,d) }"),
    Case("six loops to one", "def f(float(A,B,C,D,E,F,G) X, float(B,C,D,E,F,G) W) -> (S) { S(a) +=! X(a,b,c,d,e,f,g) * "
         "W(b,c,d,e,f,g) }", {"B": 2, "C": 3, "D": 2, "E": 3, "F": 2, "G": 5}),
    Case("six reductions", "def f(float(A,B,C,D,E,F,G) X, float(C,B,E,D,G,F) W) -> (S) { S(a) +=! X(a,b,c,d,e,f,g) * "
         "W(c,b,e,d,g,f) }", {"B": 2, "C": 3, "D": 2, "E": 3, "F": 2, "G": 5}),
    Case("scalar result", "def f(float(N) A, float(N) B) -> (S, T) { S +=! A(i) * B(i) T max=! A(i) }"),
    Case("scalars", "def f(float a, int s, float(N) A) -> (O) { O(i) = a * A(i) + s + S\nS = a + 1 }".replace(
        "{ O(i) = a * A(i) + s + S\nS = a + 1 }", "{ S = a + 1\nO(i) = a * A(i) + s + S }"),
        scalars={"a": 3.0, "s": -2}),
    Case("specialised", "def f(int sh, float(N) A) -> (O) { O(i) +=! A(sh * i + k) where k in 0:2 }", {}, {}, {"sh": 3}),
    Case("in place", "def f(float(N,M) A) -> (O) { O(i,j) += A(i,j)\nO(i,j) = O(i,j) * 2 }"),
    Case(
        "overlapping update",
        "def f(float(N) A) -> (O) { O(i) = A(i) where i in 0:20\nO(i) = O(i+10) where i in 0:10 }",
        {"N": 20},
    ),
    Case(
        "stencils",
        "def f(float(N) A) -> (B, C) { B(i) = A(i-1) + A(i) + A(i+1)\nC(i) = B(i-1) + B(i+1) }",
        {}, points=64,
    ),
    Case("redefinition", "def f(float(N,M) A) -> (O, P) { t(i) +=! A(i,j)\nO(i) = t(i)\nt(i) max=! A(i,j)\nP(i) = t(i) }"),
    Case("concatenation", "def f(float(B,M) X, float(B,N) Y) -> (Z, S) { Z = concat(X, Y)\nS(b) +=! Z(b,i) }"),
    Case("outer product", "def f(float(N) A, float(M) B, float(K) C) -> (O) { O(i,j,k) = A(i) * B(j) + C(k) }"),
    Case("transposition", "def f(float(N,M,K) A) -> (O) { O(k,j,i) = A(i,j,k) }"),
    Case("transposition of bytes", "def f(uint8(N,M) A) -> (O) { O(j,i) = A(i,j) }"),
    Case("lower bounds", "def f(float(N) A) -> (O, P) { O(i) = A(i-3)\nP(j) +=! O(i) * (i - j) where j in 2:6 }"),
    Case("halves", "def f(float(N) A) -> (O) { O(i) = A(i/2) + A(i%3) where i in 0:2*N-1 }"),
    Case("scaled up by three", "def f(int8(C,H,W) A) -> (O) { O(c,i,j) = A(c,i/3,j/3) where i in 0:3*H-1, j in 0:3*W }"),
    Case("pixels of channels", "def f(double(C,D,E,H,W) A) -> (O) { O(c,i,j) = A(c,i%2,j%2,i/2,j/2) where i in 0:2*H, j in 0:2*W-1 }", {"D": 2, "E": 2}),
    Case("rolled", "def f(half(N,M) A) -> (O) { O(i,j) = A((i+3)%N,(j+5)%M) where i in 0:N, j in 0:M }"),
    Case("mirrored at an edge", "def f(float(N,M) A) -> (O) { O(i,j) = A(i,abs(j-2)) - A(i,max(min(j-1,M-1),0)) where j in 0:M }", {}, {}),
    Case("in turn", "def f(float(N) A, float(K) W) -> (O) { O(i) = A(i) * W(i%5) + W((i+2)%20) where i in 0:N }", {"K": 20}),
    Case("a sum of every pixel twice", "def f(float(N) A, float(M) B) -> (O) { O(i) +=! A(k/2) * B(i+k) where k in 0:2*N, i in 0:3 }"),
    Case("reversal", "def f(float(N) A, float(N,M) B) -> (O) { O(i,j) = A(N-1-i) * B(i,M-1-j) }"),
    Case("indices as values", "def f(float(N,M) A) -> (O, Q) { O(i,j) = A(i,j) + i - 2 * j\nQ(i) max=! i * j % 7 "
         "where i in 0:N, j in 0:M }"),
    Case("division", "def f(int(N,M) A, int(M) B) -> (Q, R) { Q(i,j) = A(i,j) / B(j)\nR(i,j) = A(i,j) % B(j) }", high=9),
    Case("casts", "def f(float(N) A, int(N) B) -> (O, P, Q) { O(i) = int8(A(i) * 100)\nP(i) = half(B(i))\n"
         "Q(i) = uint16(B(i)) + uint16(i) }"),
    Case("strict choice", "def f(float(N,M) A, bool(N) B) -> (O) { O(i,j) = select(B(i), A(i,j), -A(i,j)) }"),
    Case("kronecker", "def f(float(A,B) X, float(C,D) Y, float(B,D) Z) -> (O) { O(a,c) +=! X(a,b) * Y(c,d) * Z(b,d) }"),
    Case("calls", "def g(float(N,K) A, float(K) B) -> (R) { R(i) +=! A(i,k) * B(k) }\n"
         "def f(float(N,K) A, float(K) B) -> (R, S) { R = g(A, B)\nS(i) = R(i) + 1 }"),
]  # fmt: skip
BY_NAME = {c.name: c for c in CORPUS}

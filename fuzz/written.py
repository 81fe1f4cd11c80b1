"""Programs that somebody wrote for the battery: what random ones hardly ever are.

Every built-in function, conversions between all types, dot products of bytes, and kernels at sizes that have
main loops, unrolled parts, remainders, packs and chunks, with options that ask for each of them.  Sums are of
small integers, which are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.isas import available_isas
from fuzz.numbers import TYPES
from fuzz.strategies import Program
from fuzz.trials import Case
from tc import registry
from tc.lang.builtins import BUILTINS

Options = Mapping[str, Any]


def available(*names: str) -> tuple[str, ...]:
    """Those backends of these that can run here."""
    return tuple(n for n in names if registry.availability(n).ok)


def _isas() -> tuple[str | None, ...]:
    """Ours with all that it has, and the others."""
    return None, *available_isas()[1:]


# Arguments of built-ins of which some others are beyond what can be compared: results that are hardly ever
# numbers, signs of zero, zeros of functions.  And those of which Halide takes no others than usual ones.
_INSIDE = {
    "tgamma": "fmax(A0(i), -30) * 0.1",
    **dict.fromkeys(("cyl_bessel_i0", "cyl_bessel_i1"), "A0(i) * 0.5"),
    **dict.fromkeys(("j0", "j1", "y0", "y1"), "fmin(fabs(A0(i)), 0.7)"),
}
_USUAL_IN_HALIDE = ("exp", "log", "pow")
_EXACT = (
    *("fabs", "floor", "ceil", "trunc", "round", "sqrt", "copysign", "fmin", "fmax", "fdim", "fmod"),
    *("remainder", "nextafter", "logb"),
)
_ULPS = 8  # of the other functions


def functions() -> Iterator[Case]:
    """Each built-in function in vectors, a remainder and a scalar, of float on all backends and of double."""
    isas, others = _isas(), available("opencl", "halide")
    for number, b in enumerate(b for b in BUILTINS.values() if b.kind == "math"):
        names = [f"A{k}" for k in range(b.arity)]
        called = f"{b.name}({_INSIDE.get(b.name) or ', '.join(f'{n}(i)' for n in names)})"
        for t in ("float", "double"):
            source = f"def f({', '.join(f'{t}(N) {n}' for n in names)}) -> (B) {{ B(i) = {called} }}"
            p = Program(source, {"N": 299}, "wide", number, type=t)
            ulps = 0 if b.name in _EXACT else _ULPS
            isa = isas[(number + (t == "double")) % len(isas)]
            yield Case(p, "cpu", {} if isa is None else {"isa": isa}, ulps=ulps)
            if t == "float":
                yield Case(Program(source, {"N": 1}, "small", number), "cpu", {}, ulps=ulps)
            usual = b.name in _USUAL_IN_HALIDE
            for other in others if usual else others[(number + (t == "double")) % 2 :][:1]:
                q = replace(p, data="small") if usual and other == "halide" else p
                yield Case(q, other, {}, ulps=ulps)


def conversions() -> Iterator[Case]:
    """Each type to all types, of ends and specials and of all magnitudes."""
    isas, others = _isas(), available("opencl", "halide")
    for number, (t, first) in enumerate(itertools.product(TYPES, range(4))):
        into = {f"B{k}": u for k, u in enumerate(u for u in TYPES[first::4] if u != t)}
        body = " ".join(f"{n}(i) = {u}(A(i))" for n, u in into.items())
        source = f"def f({t}(N) A) -> ({', '.join(into)}) {{ {body} }}"
        hard, wide = (Program(source, {"N": 77}, data, number) for data in ("hard", "wide"))
        for turn, p in enumerate((hard, wide)):
            isa = isas[(number + turn) % len(isas)]
            yield Case(p, "cpu", {} if isa is None else {"isa": isa})
        turned = (hard, wide) if number % 8 < 4 else (wide, hard)
        yield from (Case(p, b, {}) for p, b in zip(turned, others))


_FORMS = {"nn": ("M,K", "K,N"), "nt": ("M,K", "N,K"), "tn": ("K,M", "K,N"), "tt": ("K,M", "N,K")}
_TURNS: Sequence[Options] = (
    {"vector": -1},
    {"register_tile": (4, 32)},
    {"vector": -1, "isa": "avx2"},
    {"tile": (8, 32), "pack": True},
)
_SHAPES = ((13, 75, 37), (3, 18, 64), (17, 6, 16), (3, 300, 5), (32, 64, 48))


def products() -> Iterator[Case]:
    """Matrix products of narrow integers, which dot-product instructions sum."""
    narrow = ("int8", "uint8", "int16")
    for number, (a, b) in enumerate(itertools.product(narrow, narrow)):
        for form, (m, k, n) in itertools.islice(
            zip(itertools.cycle(_FORMS), itertools.cycle(_SHAPES)), number, number + 3
        ):
            x, y = _FORMS[form]
            source = (
                f"def f({a}({x}) A, {b}({y}) B) -> (C) "
                f"{{ C(m,n) +=! int32(A({x.lower()})) * int32(B({y.lower()})) }}"
            )
            p = Program(source, {"M": m, "K": k, "N": n}, "hard", number)
            yield Case(p, "cpu", {})
            yield from (Case(p, "cpu", dict(_TURNS[n % len(_TURNS)])) for n in (number, number + 1))


# Sources, sizes that have remainders, and others at which the same kernel of dynamic sizes is run.
KERNELS: Sequence[tuple[str, Mapping[str, int], Mapping[str, int]]] = (
    ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
     {"M": 23, "K": 29, "N": 71}, {"M": 2, "K": 64, "N": 33}),
    ("def f(double(M,K) A, double(N,K) B, double(N) V) -> (C) {"
     " C(m,n) +=! A(m,k) * B(n,k) C(m,n) = fmax(C(m,n) + V(n), 0) }",
     {"M": 9, "K": 37, "N": 30}, {"M": 65, "K": 5, "N": 3}),
    ("def f(half(M,K) A, half(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
     {"M": 7, "K": 21, "N": 50}, {"M": 1, "K": 40, "N": 17}),
    ("def f(float(B,K,M) A, float(B,K,N) C) -> (O) { O(b,m,n) +=! A(b,k,m) * C(b,k,n) }",
     {"B": 3, "M": 10, "K": 12, "N": 19}, {"B": 1, "M": 33, "K": 2, "N": 8}),
    ("def f(float(N,C,H,W) I, float(F,C,P,Q) K) -> (O) { O(n,f,h,w) +=! I(n,c,h+p,w+q) * K(f,c,p,q) }",
     {"N": 2, "C": 3, "H": 9, "W": 21, "F": 5, "P": 3, "Q": 2},
     {"N": 1, "C": 2, "H": 5, "W": 40, "F": 9, "P": 1, "Q": 3}),
    ("def f(float(C,H,W) I, float(C,P,Q) K) -> (O) { O(c,h,w) +=! I(c,2*h+p,3*w+q) * K(c,p,q) }",
     {"C": 4, "H": 13, "W": 50, "P": 2, "Q": 3}, {"C": 17, "H": 6, "W": 9, "P": 3, "Q": 1}),
    ("def f(float(N,D) I) -> (O) { t(n) max=! I(n,d) O(n,d) = exp(I(n,d) - t(n)) s(n) +=! O(n,d)"
     " O(n,d) = O(n,d) / s(n) }",
     {"N": 11, "D": 83}, {"N": 40, "D": 7}),
    ("def f(float(N,K) I) -> (O, S) { m(n) +=! I(n,k) O(n,k) = I(n,k) * K - m(n) S +=! O(n,k) }",
     {"N": 19, "K": 45}, {"N": 3, "K": 200}),
    ("def f(float(N) A, float(N) B) -> (S, T) { S +=! A(i) * B(i) T max=! A(i) - B(i) }",
     {"N": 140001}, {"N": 77}),
    ("def f(int(N,M) A) -> (R, C, P) { R(i) +=! A(i,j) C(j) +=! A(i,j) P(j) min=! A(i,j) }",
     {"N": 45, "M": 39}, {"N": 130, "M": 5}),
    ("def f(uint8(N,M,K) A) -> (O) { O(k,j,i) = A(i,j,k) }",
     {"N": 18, "M": 5, "K": 35}, {"N": 64, "M": 2, "K": 16}),
    ("def f(float(E,D) T, int(B,L) X) -> (O) { O(i,j) +=! T(X(i,l),j) where l in 0:L }",
     {"E": 5, "D": 37, "B": 6, "L": 11}, {"E": 4, "D": 8, "B": 33, "L": 3}),
    ("def f(float(N,N) A) -> (O, B) { O(i) +=! A(i,j) where j <= i"
     " B(i,j) = i >= 2 && j < N - 2 ? A(i-2,j+2) : 7 where i in 0:N, j in 0:N }",
     {"N": 33}, {"N": 6}),
    ("def f(int16(N,M) A, uint16(N) B) -> (O, Q) { T(i,j) = A(N-1-i,j) - A(i,M-1-j)"
     " O(i,j) = T(i,j) * 3 + i Q(i) max=! T(i,j) + int(B(i)) % (j + 1) }",
     {"N": 21, "M": 70}, {"N": 4, "M": 16}),
    ("def f(bfloat16(N,M) A, bfloat16(M) B) -> (S, E) { S(i) +=! A(i,j) * B(j)"
     " E(i,j) = A(i,j) < B(j) ? A(i,j) : max(B(j), A(i,j)) }",
     {"N": 9, "M": 53}, {"N": 30, "M": 8}),
    ("def f(bool(N,M) A, bool(M) B) -> (O, P, E, C) { O(i) max=! A(i,j) P(i) min=! A(i,j)"
     " E(i,j) = A(i,j) && !B(j) || (i < 2) C(j) +=! int(A(i,j)) }",
     {"N": 20, "M": 67}, {"N": 3, "M": 16}),
    ("def f(float(N) A) -> (B, C) { B(i) = A(i-1) + A(i) + A(i+1) C(i) = B(i-1) * 2 + B(i+1) }",
     {"N": 150}, {"N": 9}),
    ("def f(float(M,N) A, float(N) B) -> (O) { O(i) = 2 * O(i) + B(i) O(i) += A(j,i) * B(i) }",
     {"M": 31, "N": 47}, {"M": 4, "N": 160}),
)  # fmt: skip

_CACHES = (("l1", 2048), ("l2", 8192), ("l3", 65536))
ON_CPU: Sequence[Options] = (
    {},
    {"machine": _CACHES},
    {"register_tile": (4, 16), "unroll": 4},
    {"register_tile": (3, 32, 2), "tile": (8, 64), "pack": True},
    {"tile": (5, 24, 16), "pack": True, "parallel": True, "machine": (("cores", 4),)},
    {"vector": -1, "unroll": 3},
    {"vector": 0, "register_tile": (16, 2)},
    {"fusion": "min", "tile": (16, 16)},
    {"fusion": "max", "pack": False, "unroll": 8},
    {"isa": "avx2", "register_tile": (2, 24)},
    {"isa": "sse4.2", "machine": _CACHES},
    {"fast_math": True, "vector": 1},
    {"strict": True, "register_tile": (1, 64), "parallel": False},
)
ON_GPU: Sequence[Options] = (
    {},
    {"use_shared_memory": True, "use_private_memory": True, "tile": (16, 32, 8), "threads": (16, 4)},
    {"use_shared_memory": True, "tile": (8, 16), "threads": (32,), "blocks": (2, 2)},
    {"use_shared_memory": True, "max_shared_memory": 1 << 12, "tile": (24, 24, 24)},
    {"use_shared_memory": False, "use_private_memory": True, "tile": (4, 64), "threads": (32, 4)},
    {"use_private_memory": False, "threads": (7, 3), "blocks": (3,)},
    {"fusion": "min", "threads": (64,)},
    {"intra_tile_fusion": "min", "tile": (16, 16), "threads": (8, 8)},
)


def sized() -> Iterator[Case]:
    """Kernels with options for each part of a loop nest, some with dynamic sizes, at two values of them."""
    isas = available_isas()
    for number, (source, *sizes) in enumerate(KERNELS):
        programs = [Program(source, s, "small", number) for s in sizes]
        for turn, options in enumerate(ON_CPU):
            if options.get("isa", isas[0]) not in isas:
                continue
            if (number + turn) % 2:
                yield Case(programs[0], "cpu", dict(options), ulps=_ULPS)
            if (number + turn) % 4 == 0:
                yield from (Case(p, "cpu", dict(options), 1 + turn % 2, ulps=_ULPS) for p in programs)


def mapped() -> Iterator[Case]:
    """Kernels on GPUs, with what options ask for."""
    for backend in available("opencl"):
        for number, (source, *sizes) in enumerate(KERNELS):
            programs = [Program(source, s, "small", number) for s in sizes]
            for turn, options in enumerate(ON_GPU):
                if (number + turn) % 2:
                    yield Case(programs[0], backend, dict(options), ulps=_ULPS)
                if (number + turn) % len(ON_GPU) == 0:
                    yield from (Case(p, backend, dict(options), 1, ulps=_ULPS) for p in programs)


def scheduled() -> Iterator[Case]:
    """Kernels as Halide's autoschedulers have them."""
    for backend in available("halide"):
        for number, (source, sizes, _) in enumerate(KERNELS):
            for name in (None, "Mullapudi2016", "Adams2019", "Li2018"):
                options = {} if name is None else {"autoschedule": name}
                yield Case(Program(source, sizes, "small", number), backend, options, ulps=_ULPS)


SOURCES = (functions, conversions, products, sized, mapped, scheduled)

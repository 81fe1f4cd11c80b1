"""Miscompilations of the passes over programs: a fault in each, which running the program before and after
the pass shows (`tc.pipeline.equivalence`), or the form of the program (`tc.ir.verify`)."""
# ruff: noqa: E501 - a table of programs

from __future__ import annotations

from typing import Any

from fuzz.judging import Miscompilation, on

# Caches so small that a temporary of a few kilobytes is worth computing again.
SMALL: dict[str, Any] = {"machine": {"l2": 1024, "l3": 4096}}
# One block of one thread updates results atomically with another one.
ATOMIC: dict[str, Any] = {"atomics": True, "threads": (32,), "blocks": (4,)}
STENCIL = """def f(float(N,M) A) -> (C) {
  t(i,j) = A(i,j) * A(i,j+1) where i in 0:N, j in 0:M-1
  C(i,j) = t(i,j) + t(i+1,j) + t(i,j+2)
}"""
PADDED = """def f(float(N,C,H) I, float(F,C,K) W) -> (O) {
  O(n,f,h) +=! (h + k >= 1 && h + k <= H ? I(n,c,h+k-1) : 0) * W(f,c,k) where h in 0:H
}"""

WRONG_PROGRAMS = (
    Miscompilation(
        "a negated condition goes to the iteration domain as it is",
        "guards._conjuncts",
        "return [_NEGATED[type(c)](c.a, c.b)]",
        "return [c]",
        (
            on(
                "equivalence",
                "def f(float(N,M) A) -> (s) { s(i) +=! j < 3 ? 0 : A(i,j) }",
                N=5,
                M=9,
            ),
        ),
    ),
    Miscompilation(
        "a temporary that is computed where it is read has its coordinates the wrong way round",
        "inline._inlined",
        "dict(zip(names, c.args, strict=True))",
        "dict(zip(reversed(names), c.args, strict=True))",
        (on("equivalence", STENCIL, SMALL, N=40, M=40),),
    ),
    Miscompilation(
        "an operand that is computed once is read at coordinates without their constants",
        "materialize._moved",
        "rest = substitute(x, nothing)",
        "rest = substitute(x, nothing) if x.dtype != INDEX else ZERO",
        (on("equivalence", PADDED, N=4, C=8, H=40, F=64, K=3),),
    ),
    Miscompilation(
        "dimensions are merged though a statement runs over a part of them",
        "collapse._merge",
        "if (ranges[i], ranges[j]) != buffers[a.buffer].box[d : d + 2]:",
        "if False:",
        (
            on(
                "equivalence",
                "def f(float(N,M) A) -> (B) {\n  B(i,j) = 1 where i in 0:N, j in 0:M\n  B(i,j) = A(i,j) where i in 0:N, j in 0:M-2\n}",
                N=5,
                M=9,
            ),
        ),
    ),
    Miscompilation(
        "a loop of a reduction is lost where loops change places",
        "interchange._ordered",
        "Domain((*pure, *out), stage.domain.conditions)",
        "Domain((*pure, *out[1:]), stage.domain.conditions)",
        (
            on(
                "structure",
                "def f(float(N,M,K) A, float(K) W) -> (s) { s(n) +=! W(i) * A(n,j,i) }",
                N=5,
                M=9,
                K=7,
            ),
        ),
    ),
    Miscompilation(
        "the last part of a long reduction is missing",
        "rfactor._parts",
        "FloorDiv(Add(extent, IntImm(size - 1)), IntImm(size))",
        "FloorDiv(extent, IntImm(size))",
        (on("equivalence", "def f(float(N) A) -> (S) { S +=! A(i) }", N=140_003),),
    ),
    Miscompilation(
        "chunks that blocks update atomically all begin where the first does",
        "rfactor.chunked_reductions",
        "value=substitute(stage.value, dict(cut.at))",
        "value=substitute(stage.value, {n: simplify(substitute(e, {v.name: IntImm(0) for v in cut.outer}), exact=True) for n, e in cut.at.items()})",
        (on("equivalence", "def f(float(N) A) -> (S) { S +=! A(i) }", ATOMIC, backend="opencl", N=5_003),),
    ),
)

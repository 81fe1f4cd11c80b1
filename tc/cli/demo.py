"""The demo: programs with their ranges and the verdict of the oracle, a photo that a program draws, and
programs beside NumPy and PyTorch as a table and a bar chart."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tc.cli.commands import compare, timed
from tc.errors import Source, Warning
from tc.tuner.data import make_arguments

PARTS = ("programs", "photo", "peers")

DEMOS: tuple[tuple[str, str, dict[str, int]], ...] = (
    (
        "matrix multiply",
        "def mm(float(M,K) A, float(K,N) B) -> (C) {\n  C(i,j) +=! A(i,k) * B(k,j)\n}\n",
        {"M": 64, "K": 48, "N": 32},
    ),
    (
        "the report's Figure 1: C comes from the caller",
        "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {\n"
        "  C(i,j) = b * C(i,j)               # initialization\n"
        "  C(i,j) += a * A(i,k) * B(k,j)     # accumulation\n}\n",
        {"N": 32, "M": 48, "K": 16},
    ),
    (
        "a convolution whose output extents are inferred",
        "def conv(float(N,C,H,W) I, float(F,C,KH,KW) W1) -> (O) {\n"
        "  O(n,f,h,w) +=! I(n,c,2*h+kh,2*w+kw) * W1(f,c,kh,kw)\n}\n",
        {"N": 2, "C": 3, "H": 17, "W": 17, "F": 4, "KH": 3, "KW": 3},
    ),
    (
        "soft-max, one temporary used twice",
        "def softmax(float(N,D) I) -> (O) {\n"
        "  tmp(n) max=! I(n,d)\n"
        "  O(n,d) = exp(I(n,d) - tmp(n))\n"
        "  tmp(n) +=! O(n,d)\n"
        "  O(n,d) = O(n,d) / tmp(n)\n}\n",
        {"N": 8, "D": 100},
    ),
    (
        "a look-up table: indices are checked when it runs",
        "def 1LUT(float(E,D) LUT, int(B,L) I) -> (O) {\n  O(b,d) +=! LUT(I(b,l), d)\n}\n",
        {"E": 1000, "D": 16, "B": 8, "L": 10},
    ),
    (
        "a recurrent network: a sequential loop",
        "def rnn(float(T,B,D) x, float(H,D) U, float(H,H) W, float(B,H) h0) -> (h) {\n"
        "  h(0,b,j) = h0(b,j)\n"
        "  for t in 0:T {\n"
        "    a(b,j) +=! U(j,d) * x(t,b,d)\n"
        "    a(b,j) += W(j,k) * h(t,b,k)\n"
        "    h(t+1,b,j) = tanh(a(b,j) / H)\n"
        "  }\n}\n",
        {"T": 20, "B": 4, "D": 16, "H": 32},
    ),
    (
        "an LU factorisation: each iteration updates what is left",
        "def lu(double(N,N) A) -> (F) {\n"
        "  F(i,j) = A(i,j) + (i == j ? 100 : 0)   # so that no pivots are needed\n"
        "  for k in 0:N {\n"
        "    F(i,k) = F(i,k) / F(k,k) where i in k+1:N\n"
        "    F(i,j) += -F(i,k) * F(k,j) where i in k+1:N, j in k+1:N\n"
        "  }\n}\n",
        {"N": 40},
    ),
    (
        "a histogram: a scatter",
        "def histogram(int(N) bin, float(N) weight, float(K) start) -> (h) {\n"
        "  h(k) = start(k)\n"
        "  h(bin(i)) += weight(i)\n}\n",
        {"N": 1000, "K": 10},
    ),
)


def demo(backend: str | None, parts: Sequence[str], folder: Path) -> bool:
    """Show the parts that are named, by default all, with pictures in the folder; whether all agree."""
    from tc.cli.demo_peers import peers
    from tc.cli.demo_photo import photo

    good = True
    for part in parts or PARTS:
        if part == "programs":
            good &= programs(backend)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            good &= photo(backend, folder) if part == "photo" else peers(backend, folder)
    return good


def programs(backend: str | None) -> bool:
    """Compile and run five programs, showing ranges and the oracle's verdict; whether all agree."""
    from tc.api import compile_source

    out = sys.stdout
    good = True
    for n, (title, source, sizes) in enumerate(DEMOS, 1):
        out.write(f"\n=== {n}. {title}\n\n{source}\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Warning)
            kernel = compile_source(Source(source, "<demo>"), backend)
        out.write("ranges\n")
        for name, dims in kernel.ranges.items():
            out.write(f"  {name}: {', '.join(str(d) for d in dims)}\n")
        for w in kernel.warnings:
            out.write(f"  note: {w.message}\n")
        arguments, buffers = make_arguments(kernel, sizes, {}, {})
        timed(kernel, arguments, buffers)
        values, spent = timed(kernel, arguments, buffers)
        verdict = compare(kernel, arguments, buffers, values)
        good &= verdict["agrees"]
        shapes = ", ".join(f"{k}{tuple(np.shape(v))}" for k, v in values.items())
        out.write(
            f"\nresult {shapes} in {1e6 * spent:.0f} us on '{kernel.backend}'; the oracle "
            f"{'agrees' if verdict['agrees'] else 'DISAGREES'} ({verdict['difference']})\n"
        )
        out.flush()
    return good

"""Families without names: contractions, reductions, permutations, maps and normalisations of any indices,
convolutions and stencils of any window.

What is said in words, such as `abc,cd->abd`, comes before the sizes, which are those of the indices in the
order of the alphabet; spellings take it as their first arguments (`Workload.constants`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from benchmarks.workloads.model import Array, Workload


@dataclass(frozen=True, slots=True)
class _Equation:
    """Indices of the operands and of the result, and the extent of each."""

    inputs: tuple[str, ...]
    output: str
    extents: dict[str, int]

    @property
    def operands(self) -> tuple[Array, ...]:
        return tuple(Array(f"X{i}", tuple(self.extents[c] for c in x)) for i, x in enumerate(self.inputs))

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(_at(f"X{i}", x) for i, x in enumerate(self.inputs))

    @property
    def points(self) -> int:
        return math.prod(self.extents.values())

    @property
    def terms(self) -> int:
        """Points of what the result lacks."""
        return math.prod(n for c, n in self.extents.items() if c not in self.output)

    def bytes(self, indices: str) -> int:
        return 4 * math.prod(self.extents[c] for c in indices)

    def program(self, name: str, body: str) -> str:
        params = ", ".join(
            f"float({','.join(x.upper())}) {a.name}" for x, a in zip(self.inputs, self.operands, strict=True)
        )
        return f"def {name}({params}) -> (Y) {{{body}}}"


def _equation(text: str, sizes: tuple[int, ...]) -> _Equation:
    letters = sorted(set(text) - set(",->"))
    if len(letters) != len(sizes):
        raise ValueError(f"{text} has {len(letters)} indices, not {len(sizes)}")
    inputs, _, output = text.partition("->")
    return _Equation(tuple(inputs.split(",")), output, dict(zip(letters, sizes, strict=True)))


def _at(name: str, indices: str) -> str:
    return f"{name}({','.join(indices)})"


def _lacking(indices: str, kept: str) -> tuple[int, ...]:
    """The places of the indices that are not kept."""
    return tuple(i for i, c in enumerate(indices) if c not in kept)


def contraction(equation: str, *sizes: int) -> Workload:
    """A sum of products of two operands or more."""
    e = _equation(equation, sizes)
    return Workload(
        "contraction",
        e.program("contraction", f" {_at('Y', e.output)} +=! {' * '.join(e.reads)} "),
        e.operands,
        flops=float(len(e.inputs) * e.points),
        kind="compute",
        terms=e.terms,
        constants=(equation,),
        result_bytes=e.bytes(e.output),
    )


def reduction(operation: str, equation: str, *sizes: int) -> Workload:
    """The sum (`sum`) or the largest (`max`) over some indices."""
    e = _equation(equation, sizes)
    assignment = {"sum": "+=!", "max": "max=!"}[operation]
    return Workload(
        "reduction",
        e.program("reduction", f" {_at('Y', e.output)} {assignment} {e.reads[0]} "),
        e.operands,
        flops=float(e.points),
        kind="memory",
        terms=e.terms,
        constants=(operation, _lacking(e.inputs[0], e.output)),
        result_bytes=e.bytes(e.output),
    )


def permutation(equation: str, *sizes: int) -> Workload:
    """A copy with its indices in another order."""
    e = _equation(equation, sizes)
    return Workload(
        "permutation",
        e.program("permutation", f" {_at('Y', e.output)} = {e.reads[0]} "),
        e.operands,
        flops=0.0,
        kind="memory",
        constants=(tuple(e.inputs[0].index(c) for c in e.output),),
        result_bytes=e.bytes(e.output),
    )


def broadcast(equation: str, *sizes: int) -> Workload:
    """What three operands, each with some of the result's indices, give point by point."""
    e = _equation(equation, sizes)
    if any(x != "".join(c for c in e.output if c in x) for x in e.inputs):
        raise ValueError(f"{equation}: operands have their indices in the result's order")
    a, b, c = e.reads
    return Workload(
        "broadcast",
        e.program("broadcast", f" {_at('Y', e.output)} = fmax({a} * {b} + {c}, 0) "),
        e.operands,
        flops=3.0 * e.points,
        kind="memory",
        # How spellings subscript each operand, so that its dimensions are the result's.
        constants=(tuple(tuple(slice(None) if c in x else None for c in e.output) for x in e.inputs),),
        result_bytes=e.bytes(e.output),
    )


def normalisation(kind: str, equation: str, *sizes: int) -> Workload:
    """Soft-max (`softmax`), or less the mean and by the deviation (`standard`), over the indices that the
    right-hand side lacks; the result has all of them."""
    e = _equation(equation, sizes)
    (indices,) = e.inputs
    x, y, m, v = e.reads[0], _at("Y", indices), _at("M", e.output), _at("V", e.output)
    count = " * ".join(indices[i].upper() for i in _lacking(indices, e.output))
    body = {
        "softmax": f"""
          {m} max=! {x}
          {y} = exp({x} - {m})
          {v} +=! {y}
          {y} = {y} / {v}
        """,
        "standard": f"""
          {m} +=! {x}
          {m} = {m} / ({count})
          {v} +=! ({x} - {m}) * ({x} - {m})
          {y} = ({x} - {m}) * rsqrt({v} / ({count}) + 1e-5)
        """,
    }[kind]
    return Workload(
        "normalisation",
        e.program("normalisation", body),
        e.operands,
        flops=5.0 * e.points,
        kind="memory",
        terms=e.terms,
        constants=(kind, _lacking(indices, e.output)),
        result_bytes=e.bytes(indices),
    )


def convolution(
    N: int, G: int, C: int, F: int, H: int, W: int, KH: int, KW: int, stride: int, dilation: int
) -> Workload:
    """Of N images of H x W points in G groups of C channels into F each; the window has KH x KW points."""
    h, w = ((n - dilation * (k - 1) - 1) // stride + 1 for n, k in ((H, KH), (W, KW)))

    def along(outer: str, inner: str) -> str:
        return (
            f"{f'{stride} * ' if stride > 1 else ''}{outer}+{f'{dilation} * ' if dilation > 1 else ''}{inner}"
        )

    grouped = G > 1
    g = "g," if grouped else ""
    return Workload(
        "convolution",
        f"def convolution(float(N,{g.upper()}C,H,W) I, float({g.upper()}F,C,KH,KW) K) -> (O) {{"
        f" O(n,{g}f,y,x) +=! I(n,{g}c,{along('y', 'ky')},{along('x', 'kx')}) * K({g}f,c,ky,kx) }}",
        (
            Array("I", (N, G, C, H, W) if grouped else (N, C, H, W)),
            Array("K", (G, F, C, KH, KW) if grouped else (F, C, KH, KW)),
        ),
        flops=2.0 * N * G * F * C * h * w * KH * KW,
        kind="compute",
        terms=C * KH * KW,
        constants=(stride, dilation),
        result_bytes=4 * N * G * F * h * w,
    )


def stencil(shape: str, radius: int, *sizes: int) -> Workload:
    """A weighted sum of a point's neighbours: those on its axes (`star`) or all (`box`) up to a radius."""
    names = "ijk"[: len(sizes)]
    window = itertools.product(range(2 * radius + 1), repeat=len(sizes))
    offsets = tuple(o for o in window if {"box": True, "star": sum(x != radius for x in o) <= 1}[shape])
    weights = tuple(round(0.5 + 0.5 * math.cos(t), 3) / 8 for t in range(len(offsets)))
    terms = " + ".join(
        f"{w!r} * X({','.join(f'{n}+{o}' if o else n for n, o in zip(names, offset, strict=True))})"
        for w, offset in zip(weights, offsets, strict=True)
    )
    shape_of_result = tuple(n - 2 * radius for n in sizes)
    windows = tuple(
        tuple(slice(o, o + n) for o, n in zip(offset, shape_of_result, strict=True)) for offset in offsets
    )
    points = math.prod(shape_of_result)
    return Workload(
        "stencil",
        f"def stencil(float({','.join(names.upper())}) X) -> (Y) {{ Y({','.join(names)}) = {terms} }}",
        (Array("X", sizes),),
        flops=2.0 * len(offsets) * points,
        kind="memory",
        terms=len(offsets),
        constants=(windows, weights),
        result_bytes=4 * points,
    )


GENERAL = (contraction, reduction, permutation, broadcast, normalisation, convolution, stencil)

"""Families without names: contractions, reductions, permutations, maps and normalisations of any indices,
convolutions and stencils of any window.

What is said in words, such as `abc,cd->abd`, comes before the sizes, which are those of the indices in the
order of the alphabet; spellings take it as their first arguments (`Workload.constants`).
"""

from __future__ import annotations

import itertools
import math

from benchmarks.workloads.model import Array, Workload


def _parts(equation: str) -> tuple[list[str], str]:
    """Indices of the operands, and of the result."""
    inputs, _, output = equation.partition("->")
    return inputs.split(","), output


def _sizes(equation: str, sizes: tuple[int, ...]) -> dict[str, int]:
    letters = sorted(set(equation) - set(",->"))
    if len(letters) != len(sizes):
        raise ValueError(f"{equation} has {len(letters)} indices, not {len(sizes)}")
    return dict(zip(letters, sizes, strict=True))


def _bytes(indices: str, extents: dict[str, int]) -> int:
    return 4 * math.prod(extents[c] for c in indices)


def _operands(inputs: list[str], extents: dict[str, int]) -> tuple[Array, ...]:
    return tuple(Array(f"X{i}", tuple(extents[c] for c in x)) for i, x in enumerate(inputs))


def _header(name: str, inputs: list[str], outputs: str = "Y") -> str:
    params = ", ".join(f"float({','.join(x.upper())}) X{i}" for i, x in enumerate(inputs))
    return f"def {name}({params}) -> ({outputs})"


def _read(number: int, indices: str) -> str:
    return f"X{number}({','.join(indices)})"


def contraction(equation: str, *sizes: int) -> Workload:
    """A sum of products of two operands or more."""
    (inputs, output), extents = _parts(equation), _sizes(equation, sizes)
    product = " * ".join(_read(i, x) for i, x in enumerate(inputs))
    return Workload(
        "contraction",
        f"{_header('contraction', inputs)} {{ Y({','.join(output)}) +=! {product} }}",
        _operands(inputs, extents),
        flops=float(len(inputs) * math.prod(extents.values())),
        kind="compute",
        terms=math.prod(n for c, n in extents.items() if c not in output),
        constants=(equation,),
        result_bytes=_bytes(output, extents),
    )


def reduction(operation: str, equation: str, *sizes: int) -> Workload:
    """The sum (`sum`) or the largest (`max`) over some indices."""
    (inputs, output), extents = _parts(equation), _sizes(equation, sizes)
    assignment = {"sum": "+=!", "max": "max=!"}[operation]
    return Workload(
        "reduction",
        f"{_header('reduction', inputs)} {{ Y({','.join(output)}) {assignment} {_read(0, inputs[0])} }}",
        _operands(inputs, extents),
        flops=float(math.prod(extents.values())),
        kind="memory",
        terms=math.prod(n for c, n in extents.items() if c not in output),
        constants=(operation, equation),
        result_bytes=_bytes(output, extents),
    )


def permutation(equation: str, *sizes: int) -> Workload:
    """A copy with its indices in another order."""
    (inputs, output), extents = _parts(equation), _sizes(equation, sizes)
    return Workload(
        "permutation",
        f"{_header('permutation', inputs)} {{ Y({','.join(output)}) = {_read(0, inputs[0])} }}",
        _operands(inputs, extents),
        flops=0.0,
        kind="memory",
        constants=(equation,),
        result_bytes=_bytes(output, extents),
    )


def broadcast(equation: str, *sizes: int) -> Workload:
    """What three operands, each with some of the result's indices, give point by point."""
    (inputs, output), extents = _parts(equation), _sizes(equation, sizes)
    if any(x != "".join(c for c in output if c in x) for x in inputs):
        raise ValueError(f"{equation}: operands have their indices in the result's order")
    a, b, c = (_read(i, x) for i, x in enumerate(inputs))
    return Workload(
        "broadcast",
        f"{_header('broadcast', inputs)} {{ Y({','.join(output)}) = fmax({a} * {b} + {c}, 0) }}",
        _operands(inputs, extents),
        flops=3.0 * math.prod(extents.values()),
        kind="memory",
        constants=(equation,),
        result_bytes=_bytes(output, extents),
    )


def normalisation(kind: str, equation: str, *sizes: int) -> Workload:
    """Soft-max (`softmax`), or less the mean and by the deviation (`standard`), over the indices that the
    right-hand side lacks; the result has all of them."""
    (inputs, kept), extents = _parts(equation), _sizes(equation, sizes)
    indices = inputs[0]
    x, y, m, v = (
        f"{t}({','.join(i)})" for t, i in (("X0", indices), ("Y", indices), ("M", kept), ("V", kept))
    )
    over = [c for c in indices if c not in kept]
    count = " * ".join(c.upper() for c in over)
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
        f"{_header('normalisation', inputs)} {{{body}}}",
        _operands(inputs, extents),
        flops=5.0 * math.prod(extents.values()),
        kind="memory",
        terms=math.prod(extents[c] for c in over),
        constants=(kind, tuple(indices.index(c) for c in over)),
        result_bytes=_bytes(indices, extents),
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

    g, grouped = ("g,", True) if G > 1 else ("", False)
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
    points = math.prod(n - 2 * radius for n in sizes)
    return Workload(
        "stencil",
        f"def stencil(float({','.join(names.upper())}) X) -> (Y) {{ Y({','.join(names)}) = {terms} }}",
        (Array("X", sizes),),
        flops=2.0 * len(offsets) * points,
        kind="memory",
        terms=len(offsets),
        constants=(radius, offsets, weights),
        result_bytes=4 * points,
    )


GENERAL = (contraction, reduction, permutation, broadcast, normalisation, convolution, stencil)

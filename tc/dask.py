"""`tc.dask.map`: a kernel over arrays of Dask, which may be larger than any one machine's memory.

The split follows the program (`tc.split`): an index on the left splits results, a reduction gives partial
results that are combined in a tree, a stencil gets its halo, and what does not split is passed whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tc.errors import ArgumentError, BackendError
from tc.kernel import Kernel
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype
from tc.split import Split, splits

_OPERATORS = {"+=!": np.add, "*=!": np.multiply, "max=!": np.maximum, "min=!": np.minimum}
_TREE = 8  # partial results that are combined at a time


def _dask() -> tuple[Any, Any]:
    try:
        import dask  # pyright: ignore[reportMissingImports]
        import dask.array as da  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BackendError(
            "tc.dask.map needs dask, which is not installed",
            code="TC0822",
            help="pip install 'tensor-comprehensions[distributed]'",
        ) from None
    return dask, da


def map(kernel: Kernel, *arrays: Any, **named: Any) -> Any:
    """The results of a kernel as arrays of Dask, computed when they are asked for.

    Inputs are arrays of Dask or NumPy and scalars, in the order of the kernel or by name.  The chunks of
    results follow from those of the inputs.
    """
    dask, da = _dask()
    checked = kernel.front.checked
    names = [p.name for p in checked.params]
    given = dict(zip(names, arrays)) | named
    if len(arrays) > len(names) or set(given) != set(names) or set(names[: len(arrays)]) & set(named):
        raise ArgumentError(
            f"{kernel.name}: expected inputs ({', '.join(names)})", code="TC0501", help="pass each once"
        )
    if any(x.mode == "inout" for x in checked.returns):
        raise ArgumentError(
            f"{kernel.name} starts from the caller's values, which tc.dask.map does not pass",
            code="TC0506",
            help="write the result to a tensor of its own",
        )
    plan = _plan(kernel, given, da)
    task = dask.delayed(_run, pure=False)
    made: dict[tuple[int, ...], Any] = {}
    for at in itertools.product(*(range(len(p.parts)) for p in plan.pieces)):
        made[at] = task(kernel, names, *plan.arguments(given, at))
    results = [_assembled(plan, x.name, made, da, dask) for x in checked.returns]
    return results[0] if len(results) == 1 else tuple(results)


def _run(kernel: Kernel, names: Sequence[str], *arguments: Any) -> tuple[Any, ...]:
    value: Any = kernel(**dict(zip(names, arguments)))
    return tuple(value) if len(kernel.front.checked.returns) > 1 else (value,)


@dataclass(frozen=True)
class _Piece:
    """A split and its parts: positions in the results, or in what is reduced; `origin` is the first index."""

    split: Split
    parts: tuple[tuple[int, int], ...]
    origin: int

    def slice(self, key: tuple[str, int], part: int) -> slice:
        first, last = self.parts[part]
        return slice(self.origin + first + self.split.first, self.origin + last + self.split.inputs[key])


@dataclass(frozen=True)
class _Plan:
    kernel: Kernel
    pieces: tuple[_Piece, ...]
    shapes: Mapping[str, tuple[int, ...]]

    def arguments(self, given: Mapping[str, Any], at: Sequence[int]) -> list[Any]:
        """The inputs of a part."""
        out: list[Any] = []
        for p in self.kernel.front.checked.params:
            x = given[p.name]
            if isinstance(p, r.Tensor):
                where = [slice(None)] * p.rank
                for piece, part in zip(self.pieces, at):
                    for name, d in piece.split.inputs:
                        if name == p.name:
                            where[d] = piece.slice((name, d), part)
                x = x[tuple(where)]
            out.append(x)
        return out


def _plan(kernel: Kernel, given: Mapping[str, Any], da: Any) -> _Plan:
    checked = kernel.front.checked
    sizes: dict[str, int] = {}
    for p in checked.params:
        if isinstance(p, r.Tensor):
            shape = tuple(given[p.name].shape)
            if len(shape) != p.rank:
                raise ArgumentError(
                    f"{p.name}: expected {p.rank} dimensions, got shape {shape}", code="TC0503"
                )
            for dim, n in zip(p.dims or (), shape):
                if isinstance(dim, r.Size) and sizes.setdefault(dim.name, int(n)) != n:
                    raise ArgumentError(f"size {dim.name} is {sizes[dim.name]} and {n}", code="TC0504")
    scalars = {n: int(given[n]) for n in kernel.front.specialized}
    shapes = kernel.output_shapes(**sizes, **scalars)
    pieces: list[_Piece] = []
    for split in splits(kernel.front) if kernel.front.ranges.complete and not scalars else ():
        piece = _piece(kernel, split, given, sizes, shapes, da)
        if piece is not None and len(piece.parts) > 1:
            pieces.append(piece)
    return _Plan(kernel, tuple(pieces), shapes)


def _piece(
    kernel: Kernel,
    split: Split,
    given: Mapping[str, Any],
    sizes: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    da: Any,
) -> _Piece | None:
    """The parts of a split by the chunks of its first input that has some; None where a part of the program
    is not the program at a part, as other things bound its ranges."""
    order = [p.name for p in kernel.front.checked.params]
    inputs = sorted(split.inputs, key=lambda place: order.index(place[0]))
    chunked = next(((n, d) for n, d in inputs if isinstance(given[n], da.Array)), None)
    if chunked is None:
        return None
    cuts = [0, *itertools.accumulate(given[chunked[0]].chunks[chunked[1]])]
    if split.parallel:
        lengths = {shapes[n][d] for n, d in split.outputs.items()}
        if len(lengths) != 1:
            return None
        (length,) = lengths
    else:
        length = cuts[-1]
    ends = sorted({min(max(c, 0), length) for c in cuts} | {0, length})
    piece = _Piece(split, tuple(itertools.pairwise(ends)), -split.first)
    tensors = {p.name: p for p in kernel.front.checked.params if isinstance(p, r.Tensor)}
    for first, last in {(0, length), *piece.parts}:
        if split.parallel:
            halos = {_size(tensors[n], d): high - split.first for (n, d), high in split.inputs.items()}
            changed = {n: last - first + halo for n, halo in halos.items()}
            if (first, last) == (0, length) and any(sizes[n] != v for n, v in changed.items()):
                return None
            found = kernel.output_shapes(**{**sizes, **changed})
            if any(found[n][d] != last - first for n, d in split.outputs.items()):
                return None
    return piece


def _size(p: r.Tensor, d: int) -> str:
    dim = (p.dims or ())[d]
    assert isinstance(dim, r.Size)
    return dim.name


def _assembled(plan: _Plan, name: str, made: Mapping[tuple[int, ...], Any], da: Any, dask: Any) -> Any:
    """A result from its parts."""
    checked = plan.kernel.front.checked
    number = [x.name for x in checked.returns].index(name)
    dtype = numpy_dtype(plan.kernel.front.typed.dtype(checked.returns[number].tensor))
    shape = plan.shapes[name]
    dims = {d: i for i, p in enumerate(plan.pieces) for n, d in p.split.outputs.items() if n == name}
    inner = [i for i, p in enumerate(plan.pieces) if name in p.split.combine]

    def part(at: tuple[int, ...]) -> Any:
        pieces: list[Any] = []
        for rest in itertools.product(*(range(len(plan.pieces[i].parts)) for i in inner)):
            whole = list(at)
            for i, n in zip(inner, rest):
                whole[i] = n
            pieces.append(made[tuple(whole)][number])
        if len(pieces) > 1:
            pieces = [_tree(pieces, plan.pieces[inner[0]].split.combine[name], dask)]
        extent = list(shape)
        for d, i in dims.items():
            first, last = plan.pieces[i].parts[at[i]]
            extent[d] = last - first
        return da.from_delayed(pieces[0], tuple(extent), dtype=dtype, meta=np.empty((0,) * len(shape), dtype))

    def blocks(d: int, at: tuple[int, ...]) -> Any:
        if d == len(shape):
            return part(at)
        if d not in dims:
            return blocks(d + 1, at)
        i = dims[d]
        found = [blocks(d + 1, (*at[:i], n, *at[i + 1 :])) for n in range(len(plan.pieces[i].parts))]
        return da.concatenate(found, axis=d)

    return blocks(0, (0,) * len(plan.pieces))


def _tree(pieces: list[Any], op: str, dask: Any) -> Any:
    """Partial results, combined some at a time."""
    combine = dask.delayed(_combined, pure=False)
    while len(pieces) > 1:
        pieces = [combine(op, pieces[i : i + _TREE]) for i in range(0, len(pieces), _TREE)]
    return pieces[0]


def _combined(op: str, pieces: Sequence[Any]) -> Any:
    return reduce(_OPERATORS[op], pieces)

"""The loop nests of a program are the same in both notations."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import tc
from tests.sac.pairs import PAIRS, Pair

SAME = [p for p in PAIRS if p.name != "inner elements"]


def canonical(loops: str) -> str:
    """Names by their order of occurrence; each loop has a variable of its own."""
    names: dict[str, str] = {}
    count = itertools.count()
    lines: list[str] = []
    for line in loops.splitlines():
        if found := re.search(r"for (\S+) in", line):
            names[found[1]] = f"n{next(count)}"
        for name in re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", line):
            if name not in names:
                names[name] = f"n{next(count)}"
        lines.append(re.sub(r"[A-Za-z_]\w*(\.\w+)*", lambda m: names[m[0]], line))
    return "\n".join(lines)


def kernels(p: Pair, backend: str) -> tuple[Any, Any, list[Any]]:
    args = [np.zeros(shape, p.dtype) for shape in p.shapes]
    made: Any = tc.compile(p.sac, lang="sac", backend=backend)
    return tc.compile(p.tc, backend), made.kernel_for(*args) if hasattr(made, "kernel_for") else made, args


@pytest.mark.share(6)
@pytest.mark.parametrize("pair", SAME, ids=[p.name for p in SAME])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_loops(pair: Pair, backend: str) -> None:
    one, other, args = kernels(pair, backend)
    mine = other.inspect("loops", **other.sizes_of(*args))
    assert canonical(mine) == canonical(one.inspect("loops", **pair.sizes))


@pytest.mark.share(8)
def test_same_results() -> None:
    rng = np.random.default_rng(1)
    for p in PAIRS:
        one, other, _ = kernels(p, "cpu")
        shapes = [tuple(min(n, 12) for n in s) for s in p.shapes]
        args = [rng.integers(0, 2, s).astype(p.dtype) for s in shapes]
        np.testing.assert_array_equal(one(*args), other(*args), err_msg=p.name)


def test_inner_elements_are_written_once() -> None:
    """A part of the frame belongs to one partition: nothing is copied that another writes."""
    (pair,) = (p for p in PAIRS if p.name == "inner elements")
    _, kernel, args = kernels(pair, "reference")
    loops = kernel.inspect("loops", **kernel.sizes_of(*args))
    written = sum(int(a) * int(b) for a, b in _extents(loops))
    assert written == 1024 * 1024


def _extents(loops: str) -> list[tuple[str, str]]:
    """The trips of each nest of two loops, or of one and a single row."""
    out: list[tuple[str, str]] = []
    open_loops: list[int] = []
    for line in loops.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        found = re.search(r"for \S+ in \[(\d+), (\d+)\)", line)
        if found:
            del open_loops[depth - 1 :]
            open_loops.append(int(found[2]) - int(found[1]))
        elif re.match(r"\s*S\d+:", line):
            trips = open_loops[: depth - 1]
            out.append((str(trips[0] if trips else 1), str(trips[1] if len(trips) > 1 else 1)))
    return out


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_in_place(backend: str) -> None:
    """modarray whose result is its array: what no generator has stays as it is."""
    kernel: Any = tc.compile(
        "with { ([1,1] <= [i,j] < shape(A)-1) : A[i,j] + 1; } : modarray(A)", lang="sac", backend=backend
    )
    a = np.arange(30.0).reshape(5, 6)
    wanted = kernel(a)
    assert kernel(a, out=a) is a
    np.testing.assert_array_equal(a, wanted)

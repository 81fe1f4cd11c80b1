"""Long reductions in parts: which stages there are then, and in which order."""

from __future__ import annotations

import pytest

import tc
from tc.ir.program import Program
from tc.transforms.program.rfactor import (
    around_rows,
    chunked_reductions,
    part_sizes,
    split_reductions,
)


def program(source: str, **sizes: int) -> Program:
    return tc.compile(source, "reference").specialize(**sizes).program


def stages(source: str, **sizes: int) -> list[tuple[str, str | None]]:
    """The Func and the operator of each stage, with at most 8 chunks of reductions of 1000 instances."""
    return [(s.func, s.op) for s in split_reductions(program(source, **sizes), 8, 1000).stages]


@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
def test_results_are_initialized_where_parts_are_combined(op: str) -> None:
    """So that they can stay in registers from their first value on."""
    want = [("s_part", None), ("s_part", op), ("s", None), ("s", op)]
    assert stages(f"def f(float(N) A) -> (s) {{ s {op}=! A(i) }}", N=4096) == want


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_results_that_the_reduction_reads_are_initialized_before_it() -> None:
    """The sums need elements of the same tensor, which are not among their results."""
    source = """def f(float(N) A) -> (O) {
      O(i) = 1 where i in 0:10
      O(i) += A(j) * O(k) where i in 0:5, k in 5:10
    }"""
    found = stages(source, N=4096)
    assert found == [("O", None), ("O_part", None), ("O_part", "+"), ("O", "+")]


def test_short_reductions_stay() -> None:
    assert stages("def f(float(N) A) -> (s) { s +=! A(i) }", N=999) == [("s", None), ("s", "+")]
    assert stages("def f(float(N,M) A) -> (s) { s(n) +=! A(n,m) }", N=8, M=999) == [("s", None), ("s", "+")]


@pytest.mark.parametrize("backend", ["opencl"])
def test_two_kernels_sum_to_one_result(backend: str) -> None:
    """Of chunks, and of their sums: none only writes zeros."""
    text = tc.compile("def f(float(N) A) -> (s) { s +=! A(i) }", backend).inspect("code", N=1 << 20)
    assert text.count("__kernel") == 2


def sizes(source: str, parts: int, fewest: int = 1000, **values: int) -> dict[str, int]:
    """The points of a part along each variable of which there are several."""
    (stage,) = (s for s in program(source, **values).stages if s.op is not None)
    return dict(part_sizes(stage, parts, fewest, {}))


FOUR = "def f(float(N,C,H,W) X, float(C) y) -> (s) { s +=! X(n,c,h,w) * y(c) }"


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    ("shape", "parts", "expected"),
    [
        ((64, 8, 8, 8), 64, {"n": 1}),
        ((64, 8, 8, 8), 16, {"n": 4}),
        ((60, 60, 9, 9), 264, {"n": 1, "c": 15}),
        ((60, 60, 9, 9), 1056, {"n": 1, "c": 4}),
        ((6, 5, 90, 90), 1056, {"n": 1, "c": 1, "h": 3}),
        ((1, 5, 90, 90), 1056, {"c": 1, "h": 1}),  # and no more parts than have points for threads
        ((2, 3, 4, 1000), 100, {"n": 1, "c": 1, "h": 1, "w": 256}),
        ((2, 3, 4, 129), 1056, {"n": 1, "c": 1, "h": 1}),
        ((3, 1, 1, 7000), 8, {"n": 1, "w": 2368}),
        ((1, 1, 1, 4096), 8, {"w": 512}),
        ((1, 1, 1, 999), 8, {}),
    ],
)
def test_outer_loops_are_parts_and_the_last_one_in_chunks(
    shape: tuple[int, ...], parts: int, expected: dict[str, int]
) -> None:
    assert sizes(FOUR, parts, **dict(zip("NCHW", shape, strict=True))) == expected


@pytest.mark.parametrize(
    ("extent", "parts", "size"),
    [
        (129, 9, 65),
        (130, 9, 65),
        (257, 2, 136),
        (1025, 2, 544),
        (1003, 16, 64),
        (1 << 20, 1056, 1024),
        (65, 9, None),
    ],
)
def test_parts_are_even_and_whole_cache_lines_where_that_costs_nothing(
    extent: int, parts: int, size: int | None
) -> None:
    """The last one is never a point next to a hundred."""
    found = sizes("def f(float(N) X) -> (s) { s +=! X(n) }", parts, 1, N=extent)
    assert found == ({} if size is None else {"n": size})


@pytest.mark.parametrize(
    ("extent", "size"), [(40_000, 5000), (24_000, 3000), (1008, 126), (1010, 101), (1009, 127)]
)
def test_parts_of_strided_dimensions_are_equal(extent: int, size: int) -> None:
    """Where there are as many parts or up to half as many more; of a prime number there are not."""
    source = "def f(float(N,K) X) -> (s) { s(k) +=! X(n,k) }"
    assert sizes(source, 8 * 16, 1, N=extent, K=16) == {"n": size}


def test_neighbours_in_memory_stay_together() -> None:
    """Whatever the order in which the source has the variables."""
    source = "def f(float(C,N) X, float(N) y, float(C) z) -> (s) { s +=! y(n) * X(c,n) * z(c) }"
    assert sizes(source, 32, C=40, N=512) == {"c": 2}


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_chunks_of_several_variables() -> None:
    p = program(FOUR, N=6, C=5, H=90, W=90)
    found, chunks = chunked_reductions(p, 1056, 1000, 4)
    (update,) = (s for s in found.stages if s.op is not None)
    assert chunks == {update.name: ("n", "c", "h_chunk")}
    assert update.domain.names == ("n", "c", "h_chunk", "h_in", "w")


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(float(I,J,K) x) -> (y) { y(j) +=! x(i,j,k) }", {"i"}),
        ("def f(float(H,I,J,K) x) -> (y) { y(j) +=! x(h,i,j,k) }", {"h", "i"}),
        ("def f(float(I,J,K) x) -> (y) { y(i) +=! x(i,j,k) }", set[str]()),  # each result has rows of its own
        ("def f(float(I,J) x) -> (y) { y(j) +=! x(i,j) }", set[str]()),  # columns
        ("def f(float(I,J,K) x, float(J,K) z) -> (y) { y(j) +=! x(i,j,k) * z(j,k) }", set[str]()),
    ],
)
def test_variables_around_rows(source: str, found: set[str]) -> None:
    p = program(source, **{n: 8 for n in "HIJK" if f"{n}," in source or f"{n})" in source})
    (stage,) = (s for s in p.stages if s.op is not None)
    assert around_rows(stage) == found

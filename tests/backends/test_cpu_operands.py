"""Operands that become temporaries, packs of whole rows, and odd numbers of tasks, on a given machine."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import compiled, interpreted, isas
from tests.ir.images import SAME

ZEN4 = (
    ("cores", 2), ("l1", 32 << 10), ("l2", 1 << 20), ("l3", 32 << 20), ("l1_ways", 8), ("l2_ways", 8),
    ("fma_units", 1), ("loads", 1), ("broadcasts", 2), ("issue_width", 3.0), ("latency", 4),
    ("l2_bandwidth", 32.0), ("l3_bandwidth", 12.0), ("bandwidth", 6.0), ("scattered_store_penalty", 0.0),
    ("unprefetched_row_penalty", 0.0), ("page_stride_penalty", 0.0), ("conflict_miss_factor", 4.0),
)  # fmt: skip
PLAIN = """
def plain(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n,f,y,x) +=! I(n,c,y+ky,x+kx) * K(f,c,ky,kx)
}"""
DEPTHWISE = """
def depthwise(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {
  O(n,c,y,x) +=! (y+ky >= 1 && y+ky <= H && x+kx >= 1 && x+kx <= W ? I(n,c,y+ky-1,x+kx-1) : 0) * K(c,ky,kx)
    where y in 0:H, x in 0:W
}"""
KERNEL = (
    "def kernel(float(M) A, float(N) B, float(N,P) V) -> (O) { O(i,d) +=! exp(0-fabs(A(i)-B(j))) * V(j,d) }"
)
ONCE = "computed once, before they are read: O_operand"


def choice(source: str, sizes: dict[str, int], **options: Any) -> str:
    return compiled(source, machine=ZEN4, **options).inspect("choice", **sizes)


IMAGES = {"N": 4, "C": 64, "H": 28, "W": 28, "F": 64, "KH": 3, "KW": 3}


def test_an_operand_of_many_results_becomes_a_temporary() -> None:
    assert ONCE in choice(SAME, IMAGES)
    assert ONCE in choice(KERNEL, {"M": 512, "N": 512, "P": 512})


def test_an_operand_of_few_results_is_computed_for_each() -> None:
    assert ONCE not in choice(SAME, {**IMAGES, "F": 2})
    assert ONCE not in choice(DEPTHWISE, {n: v for n, v in IMAGES.items() if n != "F"})
    assert ONCE not in choice(KERNEL, {"M": 512, "N": 512, "P": 2})


@pytest.mark.parametrize(
    ("body", "rows", "once"),
    [
        ("O(i,j) = A(i,j) * (0.5 - 0.5 * cos(6.2831853 * float(j) / float(N)))", 500, True),
        ("O(i,j) = A(i,j) * (0.5 - 0.5 * cos(6.2831853 * float(j) / float(N)))", 3, False),
        ("O(i,j) = (A(i,j) - B(j)) * rsqrt(B(j) * B(j) + 1e-5)", 500, True),
        ("O(i,j) = A(i,j) * (B(j) + 1)", 500, False),  # as cheap as a load
        ("O(i,j) = A(i,j) * exp(B(i))", 500, False),  # once a row
    ],
)
def test_an_operand_that_all_rows_share_becomes_a_temporary_where_it_is_expensive(
    body: str, rows: int, once: bool
) -> None:
    width = "M" if "B(i)" in body else "N"
    source = f"def f(float(M,N) A, float({width}) B) -> (O) {{ {body} }}"
    text = choice(source, {"M": rows, "N": 500})
    assert (ONCE in text) == once
    # Tiles do not transpose rows in registers either to compute each column's part once.
    assert re.search(r"\n  \* .* lanes j_\d x\d+", text)


def test_no_temporary_is_larger_than_the_arguments() -> None:
    assert ONCE not in choice(KERNEL, {"M": 4096, "N": 4096, "P": 64})


def test_statements_stay_as_they_are_without_fusion() -> None:
    assert ONCE not in choice(SAME, IMAGES, fusion="min")


@pytest.mark.share(12)
@pytest.mark.parametrize(("images", "fused"), [(1, False), (3, False), (4, True), (5, False), (16, True)])
def test_an_odd_number_of_images_is_not_one_task_each(images: int, fused: bool) -> None:
    """Two cores would wait for each other a quarter of the time, or a tenth."""
    text = choice(SAME, {**IMAGES, "N": images})
    assert ("region 0, nest 1" in text) == fused


@pytest.mark.parametrize(("images", "first"), [(3, "f_1"), (4, "n_0"), (5, "f_1"), (7, "f_1"), (16, "n_0")])
def test_an_odd_number_of_images_is_divided_by_channels(images: int, first: str) -> None:
    text = choice(PLAIN, {**IMAGES, "N": images, "H": 16, "W": 16})
    assert f"  order {first} parallel" in text


def packs(source: str, sizes: dict[str, int], **options: Any) -> list[str]:
    text = compiled(source, machine=ZEN4, pack=True, **options).inspect("loops", **sizes)
    return [line.strip() for line in text.splitlines() if "transposed for" in line]


def test_packs_transpose_whole_rows() -> None:
    """Weights of all channels and points of a window are contiguous, in the source as in the pack: blocks of
    sixteen, not of three."""
    found = packs(PLAIN, {**IMAGES, "H": 16, "W": 16}, vector=1, register_tile=(1, 32, 1, 7))
    assert found and all("16 * " in line or "] " in line for line in found)
    assert not any("[0, 3)" in line for line in found)


def test_packed_rows_end_with_the_contiguous_part() -> None:
    """Only two of three points of the window are read, so that rows have two elements."""
    source = PLAIN.replace("K(f,c,ky,kx)\n", "K(f,c,ky,kx) where kx in 0:2\n")
    found = packs(source, {**IMAGES, "H": 16, "W": 16}, vector=1, register_tile=(1, 32, 1, 7))
    assert found and all("[0, 2)" in line for line in found)


@pytest.mark.share(36)
@pytest.mark.parametrize("channels", [1, 5, 16, 37, 200])
@pytest.mark.parametrize("window", [(1, 3), (3, 3), (2, 5)])
def test_results_over_packs_of_whole_rows(channels: int, window: tuple[int, int]) -> None:
    rng = np.random.default_rng(channels)
    x = rng.integers(-2, 3, (2, channels, 7, 9)).astype("float32")
    k = rng.integers(-2, 3, (37, channels, *window)).astype("float32")
    for tile in ((1, 32, 1, 5), (1, 16, 2, 3), (1, 48, 1, 4)):
        kernel = compiled(PLAIN, vector=1, register_tile=tile, pack=True)
        np.testing.assert_array_equal(kernel(x, k), interpreted(PLAIN, x, k)[0])


def test_a_long_row_goes_through_the_first_cache_in_parts() -> None:
    """The lanes of a line of the pack are written soon after each other: 64 columns of a pack of 64 lanes."""
    source = "def f(float(M,K) A, float(N,K) B) -> (O) { O(i,j) +=! A(i,k) * B(j,k) }"
    text = compiled(source, machine=ZEN4, vector=1, register_tile=(4, 64), pack=True).inspect(
        "loops", M=64, K=1000, N=256
    )
    lines = [line.strip() for line in text.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("transposed for"))
    assert "min(4 * " in lines[at - 1] and lines[at - 2].startswith("for j_1"), "\n".join(lines[:at])


COLUMNS = {
    "root": "def f(float(N,C) x, float(C) v) -> (y) { y(n,c) = x(n,c) * rsqrt(v(c) + 1e-5) }",
    "norm": """def f(float(N,C) x, float(C) v) -> (y) {
      m(c) +=! x(n,c)
      s(c) +=! (x(n,c) - m(c) / float(N)) * (x(n,c) - m(c) / float(N))
      y(n,c) = (x(n,c) - m(c) / float(N)) * rsqrt(s(c) / float(N) + 1e-5) * v(c) }""",
    "table": """def f(float(N,C) x, float(C) v) -> (y) {
      y(n,c) = x(n,c) + sin(float(n % 3) / pow(100.0, float(c) / float(C))) * v(c) }""",
    "choice": """def f(float(N,C) x, float(C) v) -> (y) {
      y(n,c) = x(n,c) * (c % 3 == 0 ? exp(v(c)) : 1 / v(c)) }""",
    "twice": """def f(float(N,C) x, float(C) v) -> (y) {
      y(n,c) = x(n,c) / (1 + exp(v(c)))
      y(n,c) += log(1 + v(c) * v(c)) * x(n,C-1-c) }""",
}


@pytest.mark.share(72)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("source", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (40, 37), (333, 64), (5, 1000)])
def test_results_with_columns_computed_once(source: str, rows: int, columns: int, isa: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((rows, columns), np.float32)
    v = rng.random(columns, np.float32) + np.float32(0.5)
    (want,) = interpreted(source, x, v)
    for kernel in (compiled(source, isa=isa), tc.compile(source, "cpu", dynamic=("N",))):
        np.testing.assert_allclose(kernel(x, v), want, rtol=2e-4, atol=2e-5)

"""Sums of columns on the cpu backend: in parts of the rows, each read sequentially."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import backend, code_of, compiled, interpreted, isas

compiled("def f(float(N) A) -> (B) { B(i) = A(i) }")  # imports the backend
isa = sys.modules["tc_backends.cpu.isa"]
# The caches of a Zen 4.
WIDE = backend.Machine(
    isa.AVX512, 2, 32 << 10, 1 << 20, 32 << 20, fma_units=1, loads=1, conflict_reload_penalty=3.0
)

SUM = "def f({t}(N,K) x) -> (y) {{ y(k) {op}! x(n,k) }}"
MOMENTS = """def f(float(N,K) x) -> (m, v) {
  m(k) +=! x(n,k)
  m(k) = m(k) / float(N)
  v(k) +=! (x(n,k) - m(k)) * (x(n,k) - m(k))
}"""
IN_PARTS = """def f(float(P,R,K) x) -> (y) {
  p(c,k) +=! x(c,r,k)
  y(k) +=! p(c,k)
}"""
BATCHED = "def f(float(B,N,K) x) -> (y) { y(b,k) +=! x(b,n,k) }"
CONDITIONAL = "def f(float(N,K) x) -> (y) { y(k) +=! x(n,k) where n % 2 == 0 }"


def choice(source: str, **sizes: int) -> str:
    program = tc.compile(source, "cpu").program(sizes)
    return backend.code_of(program, WIDE, tc.Options()).choice


@pytest.mark.parametrize(
    ("rows", "columns", "lanes"),
    [
        (524_288, 16, "x1"),
        (131_072, 64, "x4"),
        (40_000, 200, "x13"),
        (24_000, 352, "x22"),
        (30_011, 350, "x22"),  # a prime number of rows
        (20_000, 460, "x29"),
        (20_000, 500, "x16, 8 rows at a time"),  # more than there are registers
        (16_384, 512, "x4, 8 rows at a time"),
        (4096, 4096, "x4, 8 rows at a time"),
        (9318, 1635, "x4, 8 rows at a time"),  # parts of 1165 rows, the last one shorter
        (9319, 1635, "x4, 8 rows at a time"),
    ],
)
def test_parts_of_rows_are_read_sequentially(rows: int, columns: int, lanes: str) -> None:
    text = choice(SUM.format(t="float", op="+="), N=rows, K=columns)
    best = [line for line in text.splitlines() if line.startswith("  *")]
    assert len(best) == 2 and best[0].endswith(f"lanes k_1 {lanes}"), text
    assert "order n_chunk_0 parallel" in text


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (SUM.format(t="float", op="+="), {"N": 2000, "K": 256}),  # the second caches hold it
        (SUM.format(t="float", op="+="), {"N": 2000, "K": 16_384}),  # pieces of rows are pages
        (
            SUM.format(t="float", op="+="),
            {"N": 400, "K": 4096},
        ),  # a part would have as many sums as rows
        (BATCHED, {"B": 64, "N": 512, "K": 256}),  # there are other loops to share
        (CONDITIONAL, {"N": 40_000, "K": 256}),
        (MOMENTS, {"N": 1000, "K": 1024}),  # a core keeps its columns near for both
    ],
)
def test_sums_of_other_columns_are_not_split(source: str, sizes: dict[str, int]) -> None:
    assert "chunk" not in choice(source, **sizes)


def test_statements_that_would_reread_columns_from_memory_are_split() -> None:
    text = choice(MOMENTS, N=8192, K=256)
    assert text.count("order n_chunk_0 parallel by 1/1, k_1 parallel by 256/256") == 2, text


def test_a_vector_that_all_columns_share_does_not_prevent_splitting() -> None:
    """A vector times a matrix: `w` is near."""
    text = choice("def f(float(N,K) x, float(N) w) -> (y) { y(k) +=! x(n,k) * w(n) }", N=40_000, K=200)
    assert "lanes k_1 x13" in text and "order n_chunk_0 parallel" in text


@pytest.mark.parametrize("columns", [16, 64, 200, 512])
def test_the_loop_along_rows_is_not_fused_with_the_sum_of_the_parts(columns: int) -> None:
    """Each task would read a few columns of all rows: 20 to 40 times as slow."""
    text = choice(IN_PARTS, P=8, R=8_388_608 // (8 * columns), K=columns)
    assert "rows of x would be read in pieces, and nothing large common to both would stay" in text
    assert "inside tiles" not in text


SOFTMAX = """def f(float(N,K) x) -> (y) {
  m(k) max=! x(n,k)
  y(n,k) = exp(x(n,k) - m(k))
  s(k) +=! y(n,k)
  y(n,k) = y(n,k) / s(k)
}"""


@pytest.mark.parametrize(("rows", "columns"), [(355_600, 10), (100_000, 64)])
def test_loops_over_columns_with_more_lines_than_the_cache_are_not_fused(rows: int, columns: int) -> None:
    """Although its statements have `y` in common: a column of it has as many lines as all of it."""
    text = choice(SOFTMAX, N=rows, K=columns)
    assert "S5 apart from S3, S4: they could share k: rows of y would be read in pieces" in text
    assert all("lanes" in line for line in text.splitlines() if line.startswith("  *")), text


def test_loops_over_columns_that_stay_in_the_cache_are_fused() -> None:
    assert "region 0, nest 0: statements S0, S1, S3, S2, S4, S5" in choice(SOFTMAX, N=1000, K=4096)


def test_streams_take_no_room_in_the_tile_of_a_fused_loop() -> None:
    """`x` is read once, 64 KB for each `k`; little is passed on."""
    program = tc.compile(IN_PARTS, "cpu").program({"P": 8, "R": 2048, "K": 512})
    text = backend.code_of(program, WIDE, tc.Options(fusion="max")).choice
    assert re.findall(r"inside tiles k_\d by (\d+)", text) == ["64", "64"], text


def test_an_array_that_a_fused_loop_does_not_move_takes_room_once() -> None:
    """An image of 16 x 66 x 66 pixels is read for every filter; a filter passes on 16 KB.  With one filter at
    a time, each load would serve one multiply-add."""
    source = """def f(float(N,C,H,W) x, float(O,C,KH,KW) w) -> (y) {
      t(n,o,i,j) +=! x(n,c,i+kh,j+kw) * w(o,c,kh,kw)
      t(n,o,i,j) = fmax(t(n,o,i,j), 0)
      y(n,o,i,j) max=! t(n,o,2*i+p,2*j+q) where p in 0:2, q in 0:2
    }"""
    sizes = {"N": 8, "C": 16, "O": 32, "KH": 3, "KW": 3}
    text = choice(source, **sizes, H=66, W=66)
    assert re.findall(r"inside tiles n_\d by 1, o_\d by (\d+)", text) == ["8", "8"], text
    text = choice(source, **sizes, H=300, W=300)  # the image streams in any case: all filters with each pixel
    assert "S3, S4 apart from S0, S1, S2" in text and "inside tiles" not in text, text


@pytest.mark.share(54)
@pytest.mark.parametrize("name", isas())
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(1024, 16), (1000, 37), (1009, 61), (640, 130), (515, 513), (2048, 3), (1031, 1), (1319, 700)],
)
@pytest.mark.parametrize(("t", "op"), [("float", "+="), ("double", "max="), ("int32", "+="), ("half", "+=")])
def test_results_of_column_sums(rows: int, columns: int, t: str, op: str, name: str) -> None:
    source = SUM.format(t=t, op=op)
    dtype = {"float": "float32", "double": "float64", "half": "float16"}.get(t, t)
    x = np.random.default_rng(rows).integers(-3, 4, (rows, columns)).astype(dtype)
    small: dict[str, Any] = {"isa": name, "machine": (("l2", 2048), ("l3", 8192), ("cores", 2))}
    kernel = compiled(source, **small)
    assert np.array_equal(np.asarray(kernel(x)), interpreted(source, x)[0])


@pytest.mark.parametrize("rows", [1, 7, 600, 1024, 3000])
def test_results_of_column_sums_of_any_number_of_rows(rows: int) -> None:
    source = SUM.format(t="float", op="+=")
    machine = (("l2", 2048), ("l3", 8192), ("cores", 2))
    kernel = tc.compile(source, "cpu", dynamic=("N",), options=tc.Options(machine=machine))
    x = np.random.default_rng(rows).integers(-3, 4, (rows, 130)).astype(np.float32)
    assert np.array_equal(kernel(x), interpreted(source, x)[0])


ROWS = "def f(float(I,J,K) x) -> (y) { y(j) +=! x(i,j,k) }"
MIDDLE = "def f(float(I,J,K) x) -> (y) { y(i,k) +=! x(i,j,k) }"


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ({"I": 16, "J": 1024, "K": 512}, True),
        ({"I": 64, "J": 64, "K": 2000}, True),
        ({"I": 200, "J": 200, "K": 200}, False),  # the sums of so short rows take longer than to read them
        ({"I": 32, "J": 64, "K": 3136}, False),  # the hardware prefetcher follows rows of pages
        ({"I": 4, "J": 256, "K": 512}, False),  # the second caches hold it
    ],
)
def test_rows_of_distant_results_are_summed_in_the_order_of_memory(
    sizes: dict[str, int], parts: bool
) -> None:
    text = choice(ROWS, **sizes)
    assert ("S1p" in text) == parts, text


def test_blocks_of_rows_are_nested_inside_their_results() -> None:
    """All of `j` for one `i`, eight rows at a time."""
    text = choice(MIDDLE, I=1024, J=16, K=512)
    assert "lanes k_1 x4, 8 rows at a time" in text and "order i_0 parallel by 1/1, k_1 by 512/64" in text


@pytest.mark.parametrize("source", [ROWS, MIDDLE])
@pytest.mark.parametrize("shape", [(5, 7, 300), (16, 33, 257), (17, 16, 1024)])
def test_results_of_row_sums(source: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(-3, 4, shape).astype(np.float32)
    kernel = compiled(source, machine=(("l2", 2048), ("l3", 8192), ("cores", 2)))
    assert np.array_equal(np.asarray(kernel(x)), interpreted(source, x)[0])


TRANSPOSED = "def f({t}(M,N) A, {t}(M) x) -> (y) {{ y(j) +=! A(i,j) * x(i) }}"
BOTH_WAYS = """def f({t}(N,N) A, {t}(N) p, {t}(N) q) -> (x, y) {{
  x(i) +=! A(i,j) * p(j)
  y(j) +=! A(i,j) * q(i) }}"""


@pytest.mark.share(6)
@pytest.mark.parametrize("name", ["avx512", "avx2"])
@pytest.mark.parametrize(("m", "n"), [(3000, 3500), (1900, 2100), (1000, 8000), (500, 40_000), (9000, 700)])
@pytest.mark.parametrize("t", ["float", "double", "int"])
def test_lanes_go_along_rows(t: str, m: int, n: int, name: str) -> None:
    """Lanes along a column take a line, and most often a page, for each element."""
    program = tc.compile(TRANSPOSED.format(t=t), "cpu").program({"M": m, "N": n})
    text = code_of(program, isa=name).choice
    best = [line for line in text.splitlines() if line.startswith("  *")]
    assert best and all("lanes j" in line for line in best), text


@pytest.mark.parametrize("t", ["float", "double"])
@pytest.mark.parametrize("name", ["avx512", "avx2"])
def test_lanes_go_along_rows_though_more_is_contiguous_along_columns(t: str, name: str) -> None:
    """Four vectors and one matrix: the lines of a column are 4 or 8 KB apart."""
    source = f"""def f({t}(N,C) x, {t}(N) a, {t}(N) b, {t}(N) g, {t}(N) d) -> (y) {{
      y +=! fmax(exp(x(n,c) - a(n)) * b(n), g(n)) * d(n) where c in 0:C }}"""
    program = tc.compile(source, "cpu").program({"N": 1024, "C": 1024})
    text = code_of(program, isa=name).choice
    best = next(line for line in text.splitlines() if line.startswith("  *"))
    assert "lanes c" in best, text


@pytest.mark.parametrize("t", ["float", "double"])
def test_rows_and_columns_of_one_matrix(t: str) -> None:
    """Sums of rows do not keep processors from parts of the columns' sums: they could share no loop."""
    program = tc.compile(BOTH_WAYS.format(t=t), "cpu").program({"N": 1800})
    arrays = {a.name for a in backend.code_of(program, WIDE, tc.Options()).nest.arrays}
    assert "y_part" in arrays, arrays

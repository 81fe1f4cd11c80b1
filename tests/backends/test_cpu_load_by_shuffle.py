"""Lanes at quotients and remainders of an index, and at non-affine subscripts: loads and shuffles."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import GEMM, code_of, compiled, interpreted, isas

UP = "def f({t}(N,H,W) x) -> (y) {{ y(n,i,j) = x(n,i/{k},j/{k}) where i in 0:{k}*H, j in 0:{k}*W }}"
PIXELS = "def f(float(N,C,H,W) x) -> (y) { y(n,i,j) = x(n,2*(i%2)+j%2,i/2,j/2) where i in 0:2*H, j in 0:2*W }"
TURNS = "def f(float(N) x, float(K) w) -> (y) {{ y(i) = x(i) * w(i%{k}) where i in 0:N }}"
ROLL = "def f(float(N,M) x) -> (y) { y(i,j) = x(i,(j+37)%M) where j in 0:M }"
EDGE = "def f(float(N,M) x) -> (y) { y(i,j) = x(i,max(min(j-3,M-1),0)) where j in 0:M+6 }"
MIRROR = "def f(float(N,M) x) -> (y) { y(i,j) = x(i,abs(j-3)) where j in 0:M }"


def text_of(source: str, **sizes: int) -> str:
    return str(code_of(tc.compile(source, "cpu").program(sizes)).text)


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (UP.format(t="float", k=2), {"N": 9, "H": 64, "W": 64}),
        (UP.format(t="float", k=3), {"N": 9, "H": 64, "W": 64}),  # the pattern repeats after three vectors
        (UP.format(t="float", k=4), {"N": 9, "H": 64, "W": 50}),
        (UP.format(t="float", k=5), {"N": 9, "H": 64, "W": 64}),
        (PIXELS, {"N": 9, "C": 4, "H": 64, "W": 64}),
        (TURNS.format(k=8), {"N": 100_000, "K": 8}),
        (TURNS.format(k=20), {"N": 100_000, "K": 20}),
    ],
)
def test_elements_are_loaded_as_vectors_and_shuffled(source: str, sizes: dict[str, int]) -> None:
    assert_loaded_and_shuffled(text_of(source, **sizes))


def test_breaks_of_a_row_are_constant_if_a_tile_has_all_of_it() -> None:
    program = tc.compile(MIRROR, "cpu").program({"N": 1000, "M": 64})
    assert_loaded_and_shuffled(str(code_of(program, tc.Options(vector=1, register_tile=(1, 64))).text))


def assert_loaded_and_shuffled(text: str) -> None:
    assert "shufflevector" in text
    assert "masked.gather" not in text
    assert not re.findall(r"insertelement <16 x float> %", text), "one element at a time"


@pytest.mark.parametrize(("source", "sizes"), [(ROLL, {"N": 500, "M": 1000}), (EDGE, {"N": 500, "M": 1000})])
def test_contiguous_lanes_are_loaded_as_one_vector_where_there_is_no_break(
    source: str, sizes: dict[str, int]
) -> None:
    text = text_of(source, **sizes)
    assert re.search(r"neighbours\d+:\n(?:.*\n)*?.*load <16 x float>", text)
    assert re.search(r"apart\d+:\n(?:.*\n)*?.*masked.load", text)


def test_a_remainder_of_a_nonnegative_index_is_unsigned() -> None:
    text = text_of(ROLL, N=500, M=1000)
    assert "urem" in text and "srem" not in text
    assert not re.search(r"(u|s)(rem|div) <16 x i64>", text), "lanes of 64 bits are divided one by one"


def test_lanes_run_along_rows_where_others_would_be_in_many_rows() -> None:
    """Along `i` each two lanes have a row of their own."""
    choice = code_of(compiled(UP.format(t="float", k=2)).program({"N": 64, "H": 64, "W": 64})).choice
    best = next(line for line in choice.splitlines() if line.startswith("  *"))
    assert "lanes j_2" in best, best


@pytest.mark.share(72)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("t", ["float32", "float64", "float16", "int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_results_of_scaling_up(k: int, t: str, isa: str) -> None:
    kernel = compiled(UP.format(t=t, k=k), isa=isa)
    for n, h, w in ((2, 3, 37), (1, 2, 16), (3, 1, 1), (1, 1, 130)):
        x = np.random.default_rng(w).integers(0, 2 if t == "bool" else 100, (n, h, w)).astype(t)
        (y,) = (np.asarray(kernel(x)),)
        assert np.array_equal(y, x.repeat(k, 1).repeat(k, 2))


@pytest.mark.share(54)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("source", [PIXELS, ROLL, EDGE, MIRROR], ids=["pixels", "roll", "edge", "mirror"])
@pytest.mark.parametrize("tile", [None, (1, 1, 16), (1, 2, 64)])
def test_results_of_nonaffine_subscripts(source: str, tile: tuple[int, ...] | None, isa: str) -> None:
    for m in (38, 40, 64, 100, 129, 300):
        shape = (2, 4, 3, m) if source is PIXELS else (3, m)
        x = np.random.default_rng(m).standard_normal(shape).astype(np.float32)
        tiled: dict[str, Any] = {} if tile is None else {"register_tile": tile[-len(shape) :]}
        assert np.array_equal(np.asarray(compiled(source, isa=isa, **tiled)(x)), interpreted(source, x)[0])


@pytest.mark.share(18)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("k", [3, 8, 20, 31, 32, 33, 70])
def test_results_of_remainders(k: int, isa: str) -> None:
    source = TURNS.format(k=k)
    for n in (1, 15, 64, 333, 1000):
        x, w = np.arange(n, dtype=np.float32), np.arange(1, k + 1, dtype=np.float32)
        assert np.array_equal(np.asarray(compiled(source, isa=isa)(x, w)), interpreted(source, x, w)[0])


@pytest.mark.parametrize("columns", [1, 20, 33, 257])
def test_results_of_nonaffine_subscripts_of_any_length(columns: int) -> None:
    """The elements that lanes take are not constant."""
    kernel = tc.compile(UP.format(t="float", k=3), "cpu", dynamic=("W",))
    x = np.random.default_rng(columns).standard_normal((2, 5, columns)).astype(np.float32)
    assert np.array_equal(kernel(x), x.repeat(3, 1).repeat(3, 2))


def test_results_of_shuffled_loads_of_elements_just_written() -> None:
    source = """def f(float(N,W) x) -> (y) {
      t(n,j) = x(n,j) * 2
      y(n,j) = t(n,j/2) + t(n,(j+3)%W) where j in 0:2*W
    }"""
    x = np.random.default_rng(1).standard_normal((40, 70)).astype(np.float32)
    for fusion in ("max", "min", None):
        kernel = tc.compile(source, "cpu", options=tc.Options(fusion=fusion))
        assert np.array_equal(kernel(x), interpreted(source, x)[0])


def test_lanes_with_descending_subscripts_are_not_contiguous() -> None:
    source = "def f(float(N,M) x) -> (y) { y(i,j) = x(i,(2*M-1-j)%M) + x(i,max(M-5-j,0)) where j in 0:M }"
    x = np.random.default_rng(1).standard_normal((3, 100)).astype(np.float32)
    for tile in (None, (1, 16)):
        kernel = tc.compile(source, "cpu", options=tc.Options(register_tile=tile))
        assert np.array_equal(kernel(x), interpreted(source, x)[0])


def test_subscripts_that_break_only_between_vectors_are_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pack(i/64, k, i%64)`: to examine it lane by lane took half of the time to compile an odd product."""
    kernel = compiled(GEMM, register_tile=(64, 5), vector=0, pack=True, isa="sse4.2")
    sizes = {"M": 127, "K": 100, "N": 103}
    monkeypatch.setattr(sys.modules["tc_backends.cpu.emit.load_by_shuffle"], "load_by_shuffle", None)
    loops = kernel.inspect("loops", **sizes)
    assert "/64, " in loops and " % 64]" in loops and kernel.inspect("llvm", **sizes)

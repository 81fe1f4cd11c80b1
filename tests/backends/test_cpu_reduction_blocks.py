"""Blocks of reductions: of packs, and of rows read in place; and which of the two a product has."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.loops import Prefetch
from tc.ir.printer import nest_text
from tests.backends.cpu_cases import GEMM, backend, compiled, interpreted, isas
from tests.backends.test_cpu_prefetch import prefetches

compiled("def f(float(N) A) -> (B) { B(i) = A(i) }")  # imports the backend
isa = sys.modules["tc_backends.cpu.isa"]
MACHINE = backend.Machine(
    isa.AVX512, 2, 48 << 10, 2 << 20, 105 << 20, 12, 16, l2_bandwidth=26.0, page_stride_penalty=4.0
)


def lowered(sizes: dict[str, int], machine: object = MACHINE, source: str = GEMM, **options: object):  # type: ignore[no-untyped-def]
    program = tc.compile(source, "cpu").program(sizes)
    return backend.code_of(program, machine, tc.Options(**options))


def rows_at_a_time(text: str) -> int | None:
    """The rows in a block of the chosen candidate."""
    best = next(line for line in text.splitlines() if line.startswith("  *"))
    found = re.search(r"(\d+) rows at a time", best)
    assert found is None or "packed" not in best
    return int(found[1]) if found else None


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"M": 16, "K": 1024, "N": 1024}, 64),
        ({"M": 16, "K": 900, "N": 1000}, 60),  # 64 would leave a remainder
        ({"M": 16, "K": 1000, "N": 1000}, 64),
        ({"M": 512, "K": 1024, "N": 1024}, None),  # many rows pay for a pack
        ({"M": 16, "K": 96, "N": 1024}, None),  # at most a block and a half
        ({"M": 1, "K": 1024, "N": 4096}, 8),  # no arithmetic that prefetches could overlap
    ],
)
def test_products_of_few_rows_read_the_other_factor_in_place(
    sizes: dict[str, int], expected: int | None
) -> None:
    assert rows_at_a_time(lowered(sizes).choice) == expected


@pytest.mark.parametrize(
    ("options", "expected"), [({"pack": True}, None), ({"pack": False}, 64), ({"pack": None}, None)]
)
def test_the_option_pack_decides_between_packs_and_rows(
    options: dict[str, bool | None], expected: int | None
) -> None:
    assert rows_at_a_time(lowered({"M": 256, "K": 1024, "N": 1024}, vector=1, **options).choice) == expected


def test_a_smaller_cache_holds_fewer_rows() -> None:
    """Those that are read and the next: three vectors of each row, and part of a line."""
    sizes = {"M": 16, "K": 1024, "N": 1024}
    given = {"register_tile": (8, 48), "vector": 1}
    assert rows_at_a_time(lowered(sizes, replace(MACHINE, l1=32 << 10, l1_ways=8), **given).choice) == 48
    assert rows_at_a_time(lowered(sizes, replace(MACHINE, l1=16 << 10, l1_ways=4), **given).choice) == 24


def test_a_block_has_no_more_rows_than_the_second_cache_has_ways() -> None:
    """Rows of 128 KiB share all sets."""
    given = {"register_tile": (8, 48), "vector": 1, "pack": False}
    assert rows_at_a_time(lowered({"M": 16, "K": 512, "N": 32768}, **given).choice) == 16


def test_the_next_vectors_of_each_row_are_prefetched_once() -> None:
    """Two prefetches would find them: with the next register tile, and with the next block."""
    found = [h for h in prefetches(lowered({"M": 16, "K": 1024, "N": 1040}).nest) if isinstance(h, Prefetch)]
    assert found and {h.buffer for h in found} == {"B"}
    text = nest_text(lowered({"M": 16, "K": 1024, "N": 1040}).nest)
    body = text[text.index("prefetch") :].splitlines()
    assert sum("prefetch B" in line for line in body[: next(i for i, x in enumerate(body) if "S1" in x)]) == 3


def test_arrays_in_the_second_cache_are_not_prefetched() -> None:
    assert not prefetches(lowered({"M": 24, "K": 256, "N": 1024}, pack=False, vector=1).nest)


def test_results_stay_in_the_second_cache_from_block_to_block() -> None:
    """Of 96 rows of 40,000 results, 15 MB, a tile has as many columns as half of it holds."""
    order = lowered({"M": 96, "K": 256, "N": 40_000}, pack=False, vector=1).choice.splitlines()[-1]
    cache, register = map(int, re.findall(r"j_1 parallel by (\d+)/(\d+)", order)[0])
    assert cache % register == 0 and 96 * cache * 4 <= 1.1 * (1 << 20)


CONV1X1 = "def f(float(N,C,H,W) I, float(F,C) K) -> (O) { O(n,f,y,x) +=! I(n,c,y,x) * K(f,c) }"
TWO = "def f(float(M,A,B) X, float(B,A,N) Y) -> (Z) { Z(m,n) +=! X(m,a,b) * Y(b,a,n) }"
EPILOGUE = """def f(float(M,K) A, float(K,N) B, float(N) c) -> (C) {
  C(m,n) max=! A(m,k) * B(k,n)
  C(m,n) = fmax(C(m,n) + c(n), 0) }"""
DOUBLE = "def f(double(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


@pytest.mark.share(36)
@pytest.mark.parametrize("name", isas())
@pytest.mark.parametrize(
    ("source", "shapes"),
    [
        (GEMM, [(16, 200), (200, 301)]),
        (GEMM, [(9, 333), (333, 100)]),
        (GEMM, [(3, 129), (129, 700)]),
        (CONV1X1, [(2, 160, 7, 13), (17, 160)]),
        (TWO, [(8, 21, 11), (11, 21, 150)]),
        (EPILOGUE, [(12, 260), (260, 99), (99,)]),
        (DOUBLE, [(8, 140), (140, 203)]),
    ],
)
def test_results_of_blocked_reductions_are_those_of_numpy(
    name: str, source: str, shapes: list[tuple[int, ...]]
) -> None:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    data = [rng.integers(-3, 4, s).astype(np.float32) for s in shapes]
    if source == DOUBLE:
        data[0] = data[0].astype(np.float64)
    for options in ({}, {"prefetch": True}):
        kernel = compiled(source, isa=name, pack=False, **options)
        np.testing.assert_array_equal(kernel(*data), interpreted(source, *data)[0])


def test_blocks_of_several_loops_hold_as_many_rows() -> None:
    """Eleven points of b for each point of a."""
    text = lowered({"M": 8, "A": 21, "B": 11, "N": 4000}, source=TWO).choice
    assert rows_at_a_time(text) == 5


def test_one_kernel_serves_any_number_of_rows() -> None:
    """A batch of dynamic length, which typically has few rows."""
    rng = np.random.default_rng(5)
    b = rng.integers(-3, 4, (300, 210)).astype(np.float32)
    kernel = tc.compile(GEMM, "cpu", dynamic=("M",))
    for m in (0, 1, 7, 8, 16, 45, 200):
        a = rng.integers(-3, 4, (m, 300)).astype(np.float32)
        np.testing.assert_array_equal(kernel(a, b), a @ b)


HALVES = "def f({t}(M,K) A, {t}({b}) B) -> (C) {{ C(i,j) +=! A(i,k) * B({at}) }}"


@pytest.mark.share(18)
@pytest.mark.parametrize("name", isas())
@pytest.mark.parametrize("t", ["half", "bfloat16"])
@pytest.mark.parametrize(("b", "at"), [("K,N", "k,j"), ("N,K", "j,k")])
def test_packs_hold_halves_converted(name: str, t: str, b: str, at: str) -> None:
    """Converted once, whether they are contiguous along the lanes or transposed."""
    torch = pytest.importorskip("torch")
    source = HALVES.format(t=t, b=b, at=at)
    sizes = {"M": 37, "K": 90, "N": 70}
    kernel = compiled(source, isa=name, vector=1, pack=True, fusion="min")
    text = kernel.inspect("loops", **sizes)
    assert re.search(r"private float32 B\.", text), text
    assert not re.search(r" \+= .*float32\(B", text)
    rng = torch.Generator().manual_seed(4)
    dtype = torch.float16 if t == "half" else torch.bfloat16
    x = torch.randint(-3, 4, (37, 90), generator=rng).to(dtype)
    w = torch.randint(-3, 4, (90, 70) if b == "K,N" else (70, 90), generator=rng).to(dtype)
    expected = x.float() @ (w.float() if b == "K,N" else w.float().T)
    assert torch.equal(kernel(x, w), expected.to(dtype))


def test_conversions_that_rows_of_a_tile_share_are_counted_once() -> None:
    """A conversion of B's elements for eight rows of results is an eighth of one for each.  So lanes run
    along them, though along those of A, whose factor is converted before, none would be left."""
    source = HALVES.format(t="half", b="K,N", at="k,j")
    best = [
        x for x in lowered({"M": 16, "K": 1024, "N": 1024}, source=source).choice.splitlines() if "*" in x
    ]
    assert "lanes j_1" in best[-1] and "i_0 x8" in best[-1], best


def test_loops_in_which_halves_are_converted_again_are_not_shared() -> None:
    """Rows of A become float32 first, in loops of their own: in those of the product all of B would be
    converted again for each few of them."""
    source = HALVES.format(t="half", b="K,N", at="k,j")
    unfused = [
        n for n in (150, 160) if "region 1" in lowered({"M": 64, "K": n, "N": n}, source=source).choice
    ]
    assert unfused == [160]  # more than the first cache holds


TRANSPOSED = {
    "plain": ("def f({t}(K,M) A, {t}(K,N) B) -> (C) {{ C(m,n) +=! A(k,m) * B(k,n) }}", "KM KN"),
    "batched": ("def f({t}(B,K,M) A, {t}(B,K,N) X) -> (C) {{ C(b,m,n) +=! A(b,k,m) * X(b,k,n) }}", "BKM BKN"),
    "an epilogue": (
        "def f({t}(K,M) A, {t}(K,N) B, {t}(N) c) -> (C) {{\n"
        "  C(m,n) +=! A(k,m) * B(k,n)\n  C(m,n) = fmax(C(m,n) + c(n), 0) }}",
        "KM KN N",
    ),
}  # fmt: skip


@pytest.mark.share(60)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("t", ["float", "double", "float16"])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_results_with_both_factors_packed(
    name: str, t: str, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the model prefers another: caches small enough for several blocks, parts and columns, with
    remainders of each."""
    rank = sys.modules["tc_backends.cpu.search.rank"]
    ranked = rank._rank

    def both(*given: Any) -> Any:
        found = ranked(*given)
        return [x for x in found if "2 packed" in x.label] or found

    monkeypatch.setattr(rank, "_rank", both)
    source, shapes = TRANSPOSED[name]
    source = source.format(t=t)
    machine = tuple({"l1": 16 << 10, "l2": 48 << 10, "l3": 1 << 20, "cores": 2}.items())
    kernel = compiled(source, isa=isa, machine=machine)
    rng = np.random.default_rng(11)
    for m, n, k in ((96, 384, 320), (127, 259, 257), (200, 275, 1000)):
        sizes = {"B": 3, "M": m, "N": n, "K": k}
        dtype = {"float": "f4", "double": "f8", "float16": "f2"}[t]
        args = [rng.integers(-2, 3, [sizes[x] for x in s]).astype(dtype) for s in shapes.split()]
        choice = kernel.inspect("choice", **kernel.sizes_of(*args)).splitlines()
        assert any(x.startswith("  *") and ", 2 packed" in x for x in choice)
        a, b = (x.astype("f8") for x in args[:2])
        want = np.swapaxes(a, -1, -2) @ b
        if name == "an epilogue":
            want = np.maximum(want + args[2].astype("f8"), 0)
        np.testing.assert_array_equal(np.asarray(kernel(*args)), want.astype(dtype))


def test_which_products_have_both_factors_packed() -> None:
    """Those with rows that map to few sets of the first cache; not those of few results, nor factors that are
    contiguous along the sum."""

    def best(machine: object, source: str = TRANSPOSED["plain"][0].format(t="float"), **sizes: int) -> str:
        text = lowered(sizes, machine, source).choice
        return next(x for x in text.splitlines() if x.startswith("  *"))

    zen = replace(
        MACHINE,
        isa=isa.AVX2,
        l1=32 << 10,
        l1_ways=8,
        l2=512 << 10,
        l2_ways=8,
        latency=5,
        page_stride_penalty=0.0,
    )
    for n in (512, 1024, 2048):
        assert "2 packed" in best(zen, M=n, K=512, N=n)
    assert "2 packed" not in best(zen, M=8, K=512, N=512)
    assert "2 packed" not in best(zen, GEMM, M=512, K=512, N=512)


@pytest.mark.parametrize(("where", "parallel"), [("", 1), (" where j <= i", 2), (" where i <= j", 2)])
def test_a_triangle_is_divided_among_more_tasks(where: str, parallel: int) -> None:
    """Four tasks of 128 columns are equal for two cores; of a triangle one core would have most of it."""
    source = f"def f(float(N,K) A) -> (C) {{ C(i,j) +=! A(i,k) * A(j,k){where} }}"
    machine = replace(
        MACHINE, l1=32 << 10, l1_ways=8, l2=1 << 20, l2_ways=8, fma_units=1, loads=1, page_stride_penalty=0.0
    )
    text = lowered({"N": 512, "K": 512}, machine, source).choice
    order = next(x for x in text.splitlines() if x.startswith("  order"))
    assert order.count("parallel") == parallel, text

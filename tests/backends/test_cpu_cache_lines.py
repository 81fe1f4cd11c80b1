"""Cache lines: which conflict, and the consequences for the order of loops, packs and prefetches."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

import tc
from tc.ir.expr import IntImm
from tc.ir.loops import Prefetch
from tc.ir.printer import nest_text
from tests.backends.cpu_cases import CONV, GEMM, backend, code_of, compiled
from tests.backends.test_cpu_prefetch import lowered, prefetches

compiled("def f(float(N) A) -> (B) { B(i) = A(i) }")  # imports the backend
lines, isa = (sys.modules[f"tc_backends.cpu.{name}"] for name in ("cost.cache_lines", "isa"))

TMM = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


def best_on(machine: object, source: str, **sizes: int) -> str:
    """The candidate that the model chooses on a machine."""
    text = backend.code_of(tc.compile(source, "cpu").program(sizes), machine, tc.Options()).choice
    return next(line for line in text.splitlines() if line.startswith("  *"))


@pytest.mark.parametrize(
    ("stride", "rows", "expected"),
    [
        (1024, 16, 16),  # 4096 bytes: all map to one set
        (512, 16, 8),
        (16, 64, 1),  # adjacent lines map to adjacent sets
        (16, 128, 2),
        (1040, 64, 1),  # one line more than a power of two
        (1000, 64, 1),  # rows that start within a line: spread
        (1024, 1, 1),
        (0, 8, 1),
    ],
)
def test_rows_per_set(stride: int, rows: int, expected: float) -> None:
    assert lines.rows_per_set(stride, 4, rows, 32 << 10, 8) == expected
    assert lines.rows_per_set(stride, 4, rows, 48 << 10, 12) == expected  # as many sets


def contraction(spec: str) -> str:
    x, y, z = spec.replace("->", ",").split(",")
    shapes = (",".join(s.upper()) for s in (x, y))
    at = [",".join(s) for s in (x, y, z)]
    a, b = shapes
    return f"def f(float({a}) X, float({b}) Y) -> (Z) {{ Z({at[2]}) +=! X({at[0]}) * Y({at[1]}) }}"


def chosen(spec: str, **sizes: int) -> tuple[str, str]:
    """The best candidate and the order of the loops over cache tiles."""
    text = compiled(contraction(spec), isa="avx512" if "avx512" in ISAS else None).inspect("choice", **sizes)
    best = next(line for line in text.splitlines() if line.startswith("  *"))
    order = next(line for line in text.splitlines() if line.startswith("  order"))
    return best.split(")  ")[1], order


ISAS = compiled("def f(float(N) A) -> (B) { B(i) = A(i) }").inspect("choice", N=8).split("isa ")[1][:6]


def test_loops_follow_the_order_of_the_largest_read_array() -> None:
    """Y is 67 MB and the result 1 MB: each part of Y is read once, though results are contiguous along f."""
    _, order = chosen("fdae,fcdbe->acbf", A=17, B=32, C=32, D=32, E=32, F=16)
    assert re.findall(r"([a-f])_\d", order.split("prefetches")[0]) == ["f", "c", "b", "a"]


def test_loops_follow_the_order_of_a_result_that_is_as_large() -> None:
    _, order = chosen("ab,bc->ac", A=3000, B=16, C=3000)
    assert re.findall(r"([a-c])_\d", order.split("prefetches")[0])[0] == "a"


def test_packs_that_each_tile_would_refill_are_not_made() -> None:
    """Lanes along f would pack both factors, each of them again for every tile of the other."""
    best, _ = chosen("dfabe,edcf->cabf", A=11, B=27, C=64, D=4, E=128, F=8)
    assert "2 packed" not in best


@pytest.mark.parametrize(("cycles", "lanes"), [(0.0, "f_1"), (3.0, "y_x_2")])
def test_scattered_store_penalty_moves_lanes_along_contiguous_results(cycles: float, lanes: str) -> None:
    """Lanes along f store ten pixels to each of 32 rows; lanes along pixels store whole vectors."""
    source = "def f(float(N,C,Y,X) I, float(F,C) K) -> (O) { O(n,f,y,x) +=! I(n,c,y,x) * K(f,c) }"
    machine = backend.Machine(
        isa.AVX512, 2, 48 << 10, 2 << 20, 105 << 20, 12, 16, scattered_store_penalty=cycles
    )
    assert f"lanes {lanes} " in best_on(machine, source, N=8, C=128, Y=28, X=28, F=128)


@pytest.mark.parametrize(("cycles", "lanes"), [(0.0, "i_0"), (4.0, "j_1")])
def test_page_stride_penalty_moves_lanes_along_the_rows(cycles: float, lanes: str) -> None:
    """Lanes along i read five elements of each of 1000 rows of B; lanes along j copy whole rows."""
    machine = backend.Machine(
        isa.AVX512,
        2,
        48 << 10,
        2 << 20,
        105 << 20,
        12,
        16,
        scattered_store_penalty=3.0,
        page_stride_penalty=cycles,
    )
    assert f"lanes {lanes} " in best_on(machine, GEMM, M=127, K=1000, N=1003)


@pytest.mark.parametrize(
    ("source", "sizes", "lanes"),
    [
        (GEMM, {"M": 1000, "K": 1200, "N": 1100}, "j_1"),
        # 20 rows stay translated: lanes along the results store whole lines.
        (
            "def f(float(A,B,E) x, float(E,C,D) y) -> (o) { o(a,b,c,d) +=! x(a,b,e) * y(e,c,d) }",
            {"A": 56, "B": 16, "E": 20, "C": 100, "D": 48},
            "c_d_1",
        ),
        # Four rows of 1200 bytes lie on a page.
        (
            "def f(float(A,C) x, float(A,C,B) y) -> (o) { o(b,a) +=! x(a,c) * y(a,c,b) }",
            {"A": 768, "C": 50, "B": 300},
            "b_0",
        ),
    ],
    ids=["a product", "few rows", "short rows"],
)
def test_rows_stall_that_are_many_and_on_pages_of_their_own(
    source: str, sizes: dict[str, int], lanes: str
) -> None:
    """On a Zen 3, with doubles; docs/experiments/zen-3.md has the times."""
    machine = backend.Machine(
        isa.AVX2, 2, l2=512 << 10, conflict_reload_penalty=3.0, page_stride_penalty=4.0, prefetch_blocks=8192
    )
    assert f"lanes {lanes} " in best_on(machine, source.replace("float(", "double("), **sizes)


def test_partial_line_penalty_counts_for_rows_that_share_sets() -> None:
    """Eight elements of each of 32 rows 64 KB apart, which map to two sets; rows 65 KB apart do not."""

    def compute(n: int, cycles: float) -> int:
        program = tc.compile(TMM, "cpu").program({"M": 128, "K": 4096, "N": n})
        machine = backend.Machine(
            isa.AVX512, 2, fma_units=1, loads=1, conflict_reload_penalty=3.0, partial_line_penalty=cycles
        )
        text = backend.code_of(program, machine, tc.Options(vector=0, register_tile=(32, 8))).choice
        return int(re.findall(r"\* +\d+ cycles \(compute (\d+)", text)[0])

    tiles = 4 * 16384 // 8
    # Again where lines are revisited.
    assert compute(16384, 30.0) - compute(16384, 0.0) >= 30 * 32 * tiles
    assert compute(16640, 30.0) == compute(16640, 0.0)


@pytest.mark.parametrize(("cycles", "lanes"), [(0.0, "m_0"), (30.0, "n_1")])
def test_partial_line_penalty_moves_lanes_along_contiguous_results(cycles: float, lanes: str) -> None:
    """Lanes along m store six elements of a line at a time to rows 128 KB apart, of which the second cache
    keeps 16; lanes along n store whole lines."""
    machine = backend.Machine(
        isa.AVX512, 2, 48 << 10, 2 << 20, 32 << 20, 12, 16, l2_bandwidth=26.0, partial_line_penalty=cycles
    )
    assert f"lanes {lanes} " in best_on(machine, TMM, M=128, K=512, N=32768)


@pytest.mark.parametrize(("pixels", "rows"), [(64, 0), (96, 0), (60, 32), (72, 32)])
def test_set_conflict_store_penalty_moves_lanes_along_the_pixels(pixels: int, rows: int) -> None:
    """Of 64 x 64 or 96 x 96 pixels the rows of 32 filters map to one set of the first cache: lanes run along
    pixels. With other sizes they run along filters."""
    machine = backend.Machine(
        isa.AVX512,
        2,
        fma_units=1,
        loads=1,
        conflict_reload_penalty=3.0,
        set_conflict_store_penalty=1.7,
        many_pages_penalty=6.0,
    )
    best = best_on(machine, CONV, N=4, C=16, H=pixels + 2, W=pixels + 2, F=32, KH=3, KW=3)
    assert ("lanes f_1 x2" in best) == bool(rows), best
    assert "n_0 x2" not in best, "the hardware follows no 64 pages"


def test_store_conflicts_behind_a_long_reduction_cost_nothing() -> None:
    program = tc.compile(GEMM, "cpu").program({"M": 128, "K": 4096, "N": 1024})

    def compute(cycles: float) -> str:
        machine = backend.Machine(isa.AVX512, 2, fma_units=1, loads=1, set_conflict_store_penalty=cycles)
        text = backend.code_of(program, machine, tc.Options(vector=0, register_tile=(32, 8))).choice
        return re.findall(r"\* +\d+ cycles \(compute (\d+)", text)[0]

    assert compute(1.7) == compute(0.0)


@pytest.mark.parametrize(("cycles", "rows"), [(0.0, 3), (20.0, 1)])
def test_unprefetched_row_penalty_prefers_one_row_of_results(cycles: float, rows: int) -> None:
    """Of a result of 64 filters: three rows of 888 bytes at a time, or one that is as long as they are."""
    machine = backend.Machine(
        isa.AVX512,
        2,
        48 << 10,
        2 << 20,
        105 << 20,
        12,
        16,
        issue_width=6.0,
        unprefetched_row_penalty=cycles,
        scattered_store_penalty=3.0,
    )
    best = best_on(machine, CONV, N=1, C=3, H=224, W=224, F=64, KH=3, KW=3)
    assert ("h_2 x3" in best) == (rows == 3)
    assert rows == 3 or "h_2" not in best


@pytest.mark.parametrize(("times", "tile"), [(4.0, "n_1 x1, m_0 x16"), (2.0, "n_1 x2, m_0 x10")])
def test_conflict_miss_factor_changes_the_register_tile(
    times: float, tile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 2 KB map to two sets of the first cache: a line is fetched again for each part of it where the
    rows are read in place."""
    monkeypatch.setattr(
        sys.modules["tc_backends.cpu.search.reduction_blocks"], "_with_both_packed", lambda *_: None
    )
    source = "def f(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }"
    machine = backend.Machine(
        isa.AVX512,
        2,
        48 << 10,
        2 << 20,
        105 << 20,
        12,
        16,
        l2_bandwidth=26.0,
        scattered_store_penalty=3.0,
        conflict_miss_factor=times,
    )
    assert f"lanes {tile}" in best_on(machine, source, M=512, K=512, N=512)


@pytest.mark.parametrize(("tile", "bound"), [((8, 32), True), ((6, 64), False)])
def test_issue_width_bounds_operations_of_all_kinds(tile: tuple[int, int], bound: bool) -> None:
    """16 multiply-adds with ten loads at three operations a cycle take longer than at two multiply-adds a
    cycle; 24 with ten loads do not."""
    program = tc.compile(GEMM, "cpu").program({"M": 240, "K": 256, "N": 256})

    def cycles(width: float) -> float:
        machine = backend.Machine(isa.AVX512, 2, 48 << 10, 2 << 20, 105 << 20, 12, 16, issue_width=width)
        text = backend.code_of(
            program, replace(machine, l2_bandwidth=64.0), tc.Options(register_tile=tile, vector=1)
        )
        return float(re.findall(r"\* +\d+ cycles \(compute (\d+)", text.choice)[0])

    assert (cycles(3.0) > cycles(6.0)) == bound


def test_packs_of_a_deep_reduction_hold_blocks_of_it() -> None:
    """Of 16 x 26 x 26 points of G for each of 64 filters, two images at a time."""
    source = """def f(float(N,C,H,W) I, float(N,F,A,B) G) -> (O) {
      O(f,c,i,j) +=! I(n,c,y+i,x+j) * G(n,f,y,x) where y in 0:A, x in 0:B, i in 0:3, j in 0:3 }"""
    program = tc.compile(source, "cpu").program(
        {"N": 16, "C": 64, "H": 28, "W": 28, "F": 64, "A": 26, "B": 26}
    )
    loops = code_of(program, tc.Options(vector=0, register_tile=(64, 2, 3))).nest
    (pack,) = (a for a in loops.arrays if a.role == "private")
    assert pack.shape == tuple(map(IntImm, (1, 2, 26, 26, 64)))


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ({"M": 128, "K": 32, "N": 256}, "i_0"),
        ({"M": 128, "K": 256, "N": 256}, "j_1"),  # filling the packs twice would cost more
        ({"M": 6, "K": 128, "N": 2048}, "j_1"),  # fewer rows than two register tiles
        ({"M": 2048, "K": 128, "N": 2048}, "j_1"),  # lines of 16 MiB are evicted before the next call
    ],
)
def test_cores_have_rows_of_their_own_of_small_results(sizes: dict[str, int], first: str) -> None:
    program = tc.compile(GEMM, "cpu").program(sizes)
    order = code_of(program, tc.Options(vector=1, pack=True)).choice.splitlines()[-1]
    assert order.split()[1:3] == [first, "parallel"], order
    serial = code_of(program, tc.Options(vector=1, pack=True, parallel=False)).choice
    # No core takes another's lines, and packs are filled once.
    assert serial.splitlines()[-1].split()[1] == "j_1"


def test_rows_are_packed_across_blocks_of_lanes() -> None:
    """A row is read to its end before the next row, though its parts go to different blocks."""
    program = tc.compile(GEMM, "cpu").program({"M": 128, "K": 512, "N": 4096})
    text = nest_text(code_of(program, tc.Options(vector=1, register_tile=(8, 48))).nest)
    fill = text[: text.index("S1.pack")].splitlines()
    loops = [line.split()[1].split("_")[0] for line in fill if line.strip().startswith("for")]
    assert loops[-2:] == ["k", "j"], text


def test_rows_of_a_large_result_are_prefetched() -> None:
    """Short rows on pages of their own, each of the next register tile along a."""
    found = prefetches(lowered(contraction("deba,ecd->caeb"), 64 << 10, A=12, B=16, C=32, D=32, E=40).nest)
    written = [h for h in found if isinstance(h, Prefetch) and h.write]
    assert written and {h.buffer for h in written} == {"Z"}


def test_a_contiguous_result_is_not_prefetched() -> None:
    found = prefetches(lowered(contraction("ab,bc->ac"), 64 << 10, A=512, B=32, C=512).nest)
    assert not [h for h in found if h.write]


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ({"M": 64, "K": 1024, "N": 32}, 8),  # rows of 4096 bytes share a set of the first cache
        ({"M": 64, "K": 1040, "N": 32}, 16),
        (
            {"M": 1024, "K": 1040, "N": 1024},
            8,
        ),  # beyond the second cache: more streams than the prefetcher follows
    ],
)
@pytest.mark.skipif("avx512" not in ISAS, reason="this processor has no AVX-512")
def test_rows_that_are_transposed_together(sizes: dict[str, int], together: int) -> None:
    source = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    kernel = compiled(source, isa="avx512", machine=(("l1", 32 << 10), ("l1_ways", 8), ("l2", 1 << 20)))
    transposed = re.search(
        r"transposed for .*\n\s+vector for \S+ in \[(.*), (.*)\)\n", kernel.inspect("loops", **sizes)
    )
    assert transposed is not None
    assert f"+ {together}" in transposed[2] or transposed[2] == str(together)

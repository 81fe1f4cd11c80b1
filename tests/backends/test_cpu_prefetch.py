"""Software prefetches: which rows are prefetched, and that the addresses are the right ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

import tc
from tc.codegen import llvm_jit
from tc.ir.evaluate import evaluate
from tc.ir.expr import variables
from tests.backends.cpu_cases import GEMM, backend
from tests.backends.prefetch_cases import ADD, AVX512, MACHINE, events, lowered, prefetches

GROUPED = """
def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {
  O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * K(g,f,c,kh,kw)
}
"""
SIZES = {"N": 12, "G": 2, "C": 8, "F": 8, "H": 6, "W": 8, "KH": 3, "KW": 3}


@pytest.mark.slow
def test_rows_of_the_next_image_are_prefetched_while_this_one_is_computed() -> None:
    loops = lowered(GROUPED, 32 << 10, **SIZES).nest
    prefetched: dict[tuple[int, ...], set[int]] = {}
    read: dict[tuple[int, ...], set[int]] = {}
    place = SIZES["W"] * 4
    for is_prefetch, buffer, (*outer, row, column) in events(loops.body, {}):
        if buffer == "I":
            first = ((outer[2] * SIZES["H"] + row) * place + 4 * column) // 64
            (prefetched if is_prefetch else read).setdefault((outer[0], outer[1]), set()).add(first)
    assert prefetched, "nothing is prefetched"
    for image in range(1, SIZES["N"]):
        for group in range(SIZES["G"]):
            assert prefetched[image, group] >= read[image, group]


@pytest.mark.slow
def test_continued_rows_are_prefetched_to_their_ends() -> None:
    """A tile reads seven elements of each row and the next tile five more, the first of which are in a line
    that has been fetched."""
    source = "def conv(float(C,X) I, float(F,C,K) W) -> (O) { O(f,x) +=! I(c,x+k) * W(f,c,k) }"
    program = tc.compile(source, "cpu").program({"C": 32, "X": 200, "F": 16, "K": 3})
    machine = replace(backend.host(), l2=16 << 10, **MACHINE)
    nest = backend.code_of(program, machine, tc.Options(vector=0, register_tile=(16, 5))).nest
    prefetched: set[tuple[int, int]] = set()
    read: set[tuple[int, int]] = set()
    for is_prefetch, buffer, place in events(nest.body, {}):
        if buffer == "I":
            row, column = place
            line = row, (200 * row + column) // 16
            if not is_prefetch and column >= 7:
                assert line in prefetched | read
            (prefetched if is_prefetch else read).add(line)
    assert len(prefetched) > 32 * 10


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (GEMM, {"M": 64, "N": 64, "K": 512}),  # long rows: streams that the hardware prefetcher follows
        (ADD, {"M": 64, "N": 512}),
        (GROUPED, {**SIZES, "N": 1, "G": 1}),  # all of it stays in the second cache
    ],
)
def test_streams_and_cached_arrays_are_not_prefetched(source: str, sizes: dict[str, int]) -> None:
    assert not prefetches(lowered(source, **sizes).nest)


@pytest.mark.parametrize("prefetch_level", [1, 2])
def test_rows_that_conflict_in_their_sets_are_not_prefetched(prefetch_level: int) -> None:
    """Five rows of a product 16 KB apart, and the next five, are ten lines in sets of eight ways of the first
    cache."""
    source = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    program = tc.compile(source, "cpu")

    def prefetched(depth: int) -> set[str]:
        machine = replace(backend.host(), l2=512 << 10, prefetch_level=prefetch_level, **MACHINE)
        options = tc.Options(vector=0, register_tile=(16, 5))
        nest = backend.code_of(program.program({"M": 128, "N": 4000, "K": depth}), machine, options).nest
        return {s.buffer for s in prefetches(nest)}

    assert "B" in prefetched(4080)
    assert ("B" in prefetched(4096)) == (prefetch_level == 2)


NORM = """
def norm(float(N,D) X, float(D) g) -> (O) {
  s(n) +=! X(n,d) * X(n,d)
  O(n,d) = X(n,d) * rsqrt(s(n)) * g(d)
}
"""
SOFTMAX = """
def softmax(float(N,D) X) -> (O) {
  m(n) max=! X(n,d)
  O(n,d) = exp(X(n,d) - m(n))
  s(n) +=! O(n,d)
  O(n,d) = O(n,d) / s(n)
}
"""


@pytest.mark.share(18)
@pytest.mark.parametrize("source", [NORM, SOFTMAX])
@pytest.mark.parametrize("columns", [64, 100, 1000, 1024, 4097])
def test_reread_rows_are_prefetched_16_kib_ahead(source: str, columns: int) -> None:
    """Of arrays that come from memory: the hardware prefetcher stops while a row is read again."""
    rows = (12 << 20) // (4 * columns) + 1  # three eighths of the last cache
    loops = lowered(source, 1 << 20, N=rows, D=columns).nest
    prefetched: set[tuple[int, int]] = set()
    read = 0
    ahead = -(-(16 << 10) // (columns * 4))
    for is_prefetch, buffer, (*row, column) in events(loops.body, {}):
        if buffer != "X":
            continue
        if is_prefetch:
            prefetched.add((row[0], column // 16))
            continue
        if row[0] > 2 * ahead + 16:
            break
        if row[0] >= ahead + 8:
            assert (row[0], column // 16) in prefetched
            read += 1
    assert read and all(r >= ahead for r, _ in prefetched)


LAYER_NORM = """
def norm(float(N,D) X, float(D) g, float(D) b) -> (O) {
  m(n) +=! X(n,d)
  m(n) = m(n) / D
  v(n) +=! (X(n,d) - m(n)) * (X(n,d) - m(n))
  O(n,d) = (X(n,d) - m(n)) * rsqrt(v(n) / D + 1e-5) * g(d) + b(d)
}
"""


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize(("source", "reads"), [(NORM, 2), (LAYER_NORM, 3)])
def test_an_element_read_twice_in_a_loop_is_prefetched_once_in_it(source: str, reads: int) -> None:
    """Squares read an element twice; each loop over a row prefetches the next row."""
    loops = lowered(source, 1 << 20, N=4096, D=1024).nest
    some = (
        at
        for is_prefetch, buffer, at in islice(events(loops.body, {}), 400_000)
        if is_prefetch and buffer == "X"
    )
    prefetched = Counter((row, column // 16) for row, column in some)
    assert set(list(prefetched.values())[:4096]) == {reads}


@pytest.mark.parametrize("source", [SOFTMAX, LAYER_NORM])
def test_rows_that_are_not_prefetched_are_read_one_after_the_other(source: str) -> None:
    """Reading several side by side pays only where they are prefetched."""
    program = tc.compile(source, "cpu").program({"N": 20000, "D": 300})
    wide = {
        **MACHINE,
        "l2": 2 << 20,
        "fma_units": 2,
        "loads": 2,
        "page_stride_penalty": 4.0,
        "conflict_miss_factor": 2.0,
    }
    rows: dict[int, set[int]] = {}
    for rereads in (0, 1):
        machine = replace(backend.host(), isa=AVX512, **{**wide, "prefetch_rereads": rereads})
        loops = backend.code_of(program, machine, tc.Options()).nest
        some = [
            (is_prefetch, at[0])
            for is_prefetch, buffer, at in islice(events(loops.body, {}), 64)
            if buffer == "X"
        ]
        rows[rereads] = {row for is_prefetch, row in some if not is_prefetch}
        assert any(is_prefetch for is_prefetch, _ in some) == bool(rereads)
    assert len(rows[0]) == 1 <= len(rows[1])


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize(("source", "rows", "columns"), [(SOFTMAX, 600, 186), (LAYER_NORM, 3035, 200)])
def test_short_rows_side_by_side_are_prefetched_from_any_level(source: str, rows: int, columns: int) -> None:
    """Several at a time, and read three times; the caches may hold all of the 450 KB or 2 MB."""
    loops = lowered(source, 1 << 20, N=rows, D=columns).nest
    some = [
        (is_prefetch, at[0])
        for is_prefetch, buffer, at in islice(events(loops.body, {}), 100_000)
        if buffer == "X"
    ]
    prefetched, read = ({row for is_prefetch, row in some if is_prefetch == kind} for kind in (True, False))
    assert len(read) > 100 and read - prefetched <= set(range(30))  # no earlier row prefetches the first ones


ATTENTION = """
def weights(float(B,N,K) Q, float(B,M,K) P) -> (O) {
  S(b,i,j) +=! Q(b,i,k) * P(b,j,k)
  m(b,i) max=! S(b,i,j)
  O(b,i,j) = exp(S(b,i,j) - m(b,i))
  s(b,i) +=! O(b,i,j)
  O(b,i,j) = O(b,i,j) / s(b,i)
}
"""


def test_rows_that_another_nest_has_just_written_are_not_prefetched() -> None:
    loops = lowered(ATTENTION, 1 << 20, B=16, N=256, M=256, K=64).nest
    assert all(h.buffer != "S" for h in prefetches(loops))


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (NORM, 3000),  # it stays in the last cache
        ("def sums(float(N,D) X) -> (s) { s(n) +=! X(n,d) * X(n,d) }", 16384),  # a stream
    ],
)
def test_rows_in_the_last_cache_and_streams_are_not_prefetched(source: str, rows: int) -> None:
    assert not prefetches(lowered(source, 1 << 20, N=rows, D=1024).nest)


SUM = "def add(double(N) A, double(N) B) -> (C) { C(i) = A(i) + B(i) }"


def streamed(source: str, isa: Any = AVX512, **sizes: int) -> Any:
    """A program lowered for a machine that prefetches streams 2 KB ahead."""
    program = tc.compile(source, "cpu").program(sizes)
    machine = replace(backend.host(), isa=isa, **{**MACHINE, "l2": 1 << 20, "stream_prefetch": 2048})
    return backend.code_of(program, machine, tc.Options())


@pytest.mark.parametrize(("element", "bytes_"), [("double", 8), ("float", 4), ("uint8", 1)])
def test_streams_are_prefetched_as_far_ahead_as_the_machine_says(element: str, bytes_: int) -> None:
    """Each line of all three arrays once, and 2 KB ahead of the loads and stores of its tile."""
    loops = streamed(SUM.replace("double", element), N=800_000 // bytes_).nest
    found = prefetches(loops)
    assert {x.buffer for x in found} == {"A", "B", "C"}
    assert all(x.level == 1 and x.write == (x.buffer == "C") for x in found)
    tile = max(at[0] for is_prefetch, _, at in islice(events(loops.body, {}), 30) if not is_prefetch) + 1
    ahead = [at[0] * bytes_ for is_prefetch, _, at in islice(events(loops.body, {}), 30) if is_prefetch]
    assert min(ahead) >= 2048 and max(ahead) <= 2048 + 2 * max(tile * bytes_, 2048)
    lines = Counter(
        at[0] * bytes_ // 64 for is_prefetch, b, at in events(loops.body, {}) if is_prefetch and b == "C"
    )
    assert set(lines.values()) == {1} and len(lines) >= 800_000 // 64 - 2


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (SUM, {"N": 20_000}),  # half of the second cache holds all
        ("def f(float(N,M) A) -> (C) { C(i,j) = A(j,i) }", {"N": 1000, "M": 1000}),  # lanes are not a stream
        ("def f(float(N,K) A, float(K,M) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
         {"N": 500, "M": 1000, "K": 64}),  # arithmetic
        ("def f(float(N,M) A) -> (C) { C(i,j) = A(i,j) + A(i,j+1) + A(i+1,j) + A(i+1,j+1) + A(i+2,j) }",
         {"N": 1000, "M": 1000}),  # a stencil
    ],
)  # fmt: skip
def test_only_streams_beyond_the_cache_are_prefetched_for_writing(source: str, sizes: dict[str, int]) -> None:
    assert not any(x.level == 1 for x in prefetches(streamed(source, **sizes).nest))


def test_results_stored_past_the_caches_are_not_prefetched() -> None:
    found = prefetches(streamed(SUM, N=8_000_000).nest)
    assert {x.buffer for x in found} == {"A", "B"}


def test_a_prefetch_for_writing_is_that_instruction() -> None:
    code = streamed(SUM, N=100_000)
    assembly = llvm_jit.assembly_of(code.text, cpu=AVX512.cpu, features=AVX512.features)
    assert "prefetchw" in assembly and "prefetcht0" in assembly


JACOBI = "def jacobi(float(N,M) A) -> (B) { B(i,j) = A(i,j) + A(i-1,j) + A(i+1,j) + A(i,j-1) + A(i,j+1) }"
POINTS = "def points(float(N,M) A) -> (B) { B(i,j) = A(i,j) + A(i,j+1) * A(i,j+40) }"
HALVES = (
    "def halves(uint8(N,M) A) -> (B) { B(y,x) = A(2*y,2*x) + A(2*y,2*x+1) + A(2*y+1,2*x) + A(2*y+1,2*x+1) }"
)
DEPTHWISE = """
def depthwise(float(N,C,H,W) I, float(C,KH,KW) K) -> (O) {
  O(n,c,y,x) +=! I(n,c,y+ky,x+kx) * K(c,ky,kx)
}
"""
CUBE = """
def cube(float(N,M,L) A) -> (B) {
  B(i,j,k) = A(i,j,k) + A(i-1,j,k) + A(i+1,j,k) + A(i,j-1,k) + A(i,j+1,k) + A(i,j,k-1) + A(i,j,k+1)
}
"""


@pytest.mark.parametrize(
    ("source", "sizes", "ahead", "rows"),
    [
        (JACOBI, {"N": 2000, "M": 2000}, 2, {2}),  # of three rows the one that no other read fetched
        (JACOBI, {"N": 800, "M": 5000}, 1, {2}),
        (HALVES, {"N": 4000, "M": 4000}, 2, {0, 1}),
        (CUBE, {"N": 200, "M": 200, "L": 200}, 20, {1}),  # in the next plane: 20 rows and the one below
    ],
)
def test_stencil_rows_that_no_other_read_fetched_are_prefetched(
    source: str, sizes: dict[str, int], ahead: int, rows: set[int]
) -> None:
    nest = lowered(source, 1 << 20, **sizes).nest
    found = prefetches(nest)
    offsets = {
        evaluate(h.subscripts[-2], dict.fromkeys((v for e in h.subscripts for v in variables(e)), 0))
        for h in found
    }
    assert offsets == {ahead * (2 if source == HALVES else 1) + r for r in rows}


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (JACOBI, {"N": 1000, "M": 1000}),  # it stays in the last cache
        (POINTS, {"N": 4000, "M": 2000}),  # one row
        (ADD, {"M": 4000, "N": 4000}),
        # A few rows of an image, and then those below: of both images, to their ends.
        (DEPTHWISE, {"N": 16, "C": 128, "H": 56, "W": 56, "KH": 3, "KW": 3}),
    ],
)
def test_rows_that_the_hardware_prefetcher_follows_are_not_prefetched(
    source: str, sizes: dict[str, int]
) -> None:
    assert not prefetches(lowered(source, 1 << 20, **sizes).nest)


@pytest.mark.parametrize("channels", [5, 40])
def test_prefetches_of_the_next_results_are_spread_over_the_channels(channels: int) -> None:
    """32 filters, each on a page of its own, are prefetched while the 32 before them are computed, a share of
    them for each channel, as a core stalls on so many lines at a time."""
    source = """def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
      O(n,f,y,x) +=! I(n,c,2*y+ky,2*x+kx) * K(f,c,ky,kx) }"""
    sizes = {"N": 8, "C": channels, "F": 64, "H": 65, "W": 65, "KH": 3, "KW": 3}
    machine = replace(backend.host(), l2=1 << 20, **{**MACHINE, "fma_units": 2, "loads": 2}, isa=AVX512)
    program = tc.compile(source, "cpu").program(sizes)
    loops = backend.code_of(program, machine, tc.Options(vector=1, register_tile=(1, 32, 1, 8))).nest
    counts = [0]
    prefetched: list[tuple[int, ...]] = []
    for is_prefetch, buffer, at in events(loops.body, {}):
        if is_prefetch and buffer == "O":
            if prefetched and at[2:] != prefetched[0][2:]:
                break
            prefetched.append(at)
            counts[-1] += 1
        elif buffer == "I" and not is_prefetch and counts[-1]:
            counts.append(0)
    first = prefetched[: channels * max(counts)]
    assert {(n, f) for n, f, _, _ in first} == {(0, f) for f in range(32, 64)}
    assert max(counts) == -(-32 // channels)


def test_the_next_block_of_rows_read_side_by_side_is_prefetched() -> None:
    source = "def sums(float(M,N) A) -> (y) { y(j) +=! A(i,j) }"
    loops = lowered(source, 64 << 10, M=64, N=1024).nest
    prefetched: set[tuple[int, int]] = set()
    block = 0
    for is_prefetch, buffer, (row, column) in events(loops.body, {}):
        if buffer != "A":
            continue
        if is_prefetch:
            prefetched.add((row, column // 16))
        elif row >= (block or row + 1):
            assert (row, column // 16) in prefetched
        block = block or min((r for r, _ in prefetched), default=0)
    assert block == 8


def test_a_machine_whose_hardware_prefetches_blocks_has_no_prefetches_of_the_next_one() -> None:
    source = "def sums(float(M,N) A) -> (y) { y(j) +=! A(i,j) }"
    program = tc.compile(source, "reference").program({"M": 64, "N": 1024})
    for blocks in (0, 1, 4096, 4097):  # a row has 4096 bytes
        machine = {**MACHINE, "l2": 64 << 10, "prefetch_blocks": blocks}
        nest = backend.code_of(program, replace(backend.host(), isa=AVX512, **machine), tc.Options()).nest
        assert any(is_prefetch for is_prefetch, _, _ in events(nest.body, {})) == (blocks in (1, 4097))


def test_a_prefetch_may_be_outside_of_its_array() -> None:
    """The last tile prefetches a next one that does not exist: no address arithmetic may assume
    that it does."""
    text = lowered(GROUPED, 32 << 10, **SIZES).text
    lines = text.splitlines()
    gather_indices = [
        line.split("ptr ")[1].split(",")[0] for line in lines if "call void @llvm.prefetch" in line
    ]
    assert gather_indices
    for p in gather_indices:
        (definition,) = [line for line in lines if line.strip().startswith(f"{p} = getelementptr")]
        assert "inbounds" not in definition

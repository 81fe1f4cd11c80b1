"""Dynamic sizes of the cpu backend: one kernel gives the interpreter's results for every size."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import tc
from fuzz.strategies import fitting
from tc import _native, kernel, registry
from tests.backends.cpu_cases import (
    BY_NAME,
    CONV,
    CORPUS,
    GEMM,
    LUT,
    MLP,
    MOMENTS,
    SOFTMAX,
    Array,
    Case,
    code_of,
    isas,
    results,
    same,
)

SIZES = (5, 0, 1, 2, 3, 16, 17, 63, 64, 65, 130)  # the first one is the typical one
ADD = "def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
COLUMNS = """def f(float(N,C,H) I) -> (m, v, O) {
  m(c) +=! I(n,c,h)
  v(c) max=! I(n,c,h) - m(c)
  O(n,c,h) = (I(n,c,h) - m(c)) * v(c)
}"""
TURNED = "def f(float(N,M) A) -> (O) { O(j,i) = A(i,j) }"
PRODUCT_OF_TURNED = "def f(float(K,M) A, float(N,K) B) -> (C) { C(j,i) +=! A(k,i) * B(j,k) }"


def quiet(source: str, dynamic: Any, backend: str = "cpu", **options: Any) -> tc.Kernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, backend, dynamic=dynamic, options=tc.Options(**options))


def attempt(run: Callable[..., Any], given: Mapping[str, Any], out: Mapping[str, Array]) -> Any:
    try:
        return results(run(**given, out={k: v.copy() for k, v in out.items()} or None))
    except tc.InternalError:
        raise
    except tc.Error as e:
        return e.code


def agrees(case: Case, run: tc.Kernel, sizes: Mapping[str, int], seed: int) -> None:
    given, out = case.arguments(sizes, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        want = attempt(functools.partial(tc.interpret, case.source), given, out)
    got = attempt(run, given, out)
    if isinstance(want, str) or isinstance(got, str):
        assert isinstance(want, str) and isinstance(got, str) and got == want, (sizes, got, want)
        return
    for w, g in zip(want, got, strict=True):
        same(w, g, case.ulps)


def possible(case: Case, sizes: Mapping[str, int]) -> bool:
    with contextlib.suppress(tc.Error, ValueError):
        case.arguments(sizes, 0)
        return True
    return False


DYNAMIC = [c for c in CORPUS if set(c.kernel.front.checked.sizes) - c.fixed.keys()]


@pytest.mark.share(108)
@pytest.mark.parametrize("which", ["first", "all"])
@pytest.mark.parametrize("case", DYNAMIC, ids=lambda c: c.name)
def test_results_of_a_program_with_dynamic_sizes(case: Case, which: str) -> None:
    free = [n for n in case.kernel.front.checked.sizes if n not in case.fixed]
    dynamic = free[:1] if which == "first" else free
    k = quiet(case.source, dynamic)
    misses = kernel.CACHE.misses
    for seed, value in enumerate(SIZES):
        sizes = {n: 5 + 2 * i for i, n in enumerate(free)}
        sizes |= {n: max(0, value - 3 * i) for i, n in enumerate(dynamic)}
        sizes |= case.fixed
        if math.prod(max(1, v) for v in sizes.values()) <= case.points and possible(case, sizes):
            agrees(case, k, sizes, seed)
    assert kernel.CACHE.misses - misses <= 1  # none where the other parameter had the same sizes


LARGER: dict[str, tuple[Case, tuple[str, ...], dict[str, int]]] = {
    "rows": (Case("", GEMM), ("M",), {"K": 70, "N": 130}),
    "few rows or many": (Case("", GEMM, high=2), ("M",), {"K": 256, "N": 512}),
    "columns": (Case("", GEMM), ("N",), {"K": 70, "M": 130}),
    "sums": (Case("", GEMM), ("K",), {"M": 70, "N": 130}),
    "two": (Case("", GEMM), ("M", "N"), {"K": 70}),
    "turned": (Case("", PRODUCT_OF_TURNED), ("M",), {"K": 70, "N": 130}),
    "turned rows": (Case("", PRODUCT_OF_TURNED), ("K", "N"), {"M": 70}),
    "layers": (Case("", MLP, high=1), ("B",), {"N": 60, "O": 70, "P": 33}),
    "inner layer": (Case("", MLP, high=1), ("O",), {"B": 40, "N": 60, "P": 33}),
    "images": (Case("", CONV, high=2), ("N",), {"C": 3, "H": 9, "W": 11, "F": 20, "KH": 3, "KW": 3}),
    "pixels": (Case("", CONV, high=2), ("H", "W"), {"N": 2, "C": 3, "F": 5, "KH": 3, "KW": 3}),
    "softmax of rows": (Case("", SOFTMAX, ulps=32), ("N",), {"D": 75}),
    "softmax of columns": (Case("", SOFTMAX, ulps=32), ("D",), {"N": 75}),
    "sums over the size": (Case("", COLUMNS), ("N",), {"C": 20, "H": 7}),
    "moments": (Case("", MOMENTS, ulps=8), ("K",), {"N": 37}),
    "elementwise": (Case("", ADD), ("N",), {}),
    "copy that turns": (Case("", TURNED), ("N",), {"M": 70}),
    "copy that turns, columns": (Case("", TURNED), ("M",), {"N": 70}),
    "copy that turns, both": (Case("", TURNED), ("N", "M"), {}),
    "lookups": (Case("", LUT, {}, {"I": "E"}), ("B",), {"E": 90, "D": 40, "L": 9}),
    "lookups of any length": (Case("", LUT, {}, {"I": "E"}), ("L", "D"), {"E": 90, "B": 12}),
    "halves": (BY_NAME["gemm in half"], ("M",), {"K": 40, "N": 70}),
    "halves of columns": (BY_NAME["gemm in half"], ("N",), {"K": 40, "M": 70}),
    "bytes": (BY_NAME["gemm in bytes"], ("M", "K"), {"N": 70}),
    "triangle": (BY_NAME["triangle"], ("N",), {}),
    "diagonal": (Case("", "def f(float(N,N) A, float(N) B) -> (O) { O(i) +=! A(i,i) + B(j) }"), ("N",), {}),
    "in place": (BY_NAME["gemm into"], ("M",), {"K": 40, "N": 70}),
}


@pytest.mark.share(24)
@pytest.mark.parametrize("name", LARGER)
def test_results_of_a_dynamic_size_among_larger_ones(name: str) -> None:
    """Packed copies, cache tiles, tasks."""
    case, dynamic, fixed = LARGER[name]
    k = quiet(case.source, dynamic)
    misses = kernel.CACHE.misses
    for seed, value in enumerate(SIZES):
        agrees(case, k, {**fixed, **{n: max(0, value + 3 - 3 * i) for i, n in enumerate(dynamic)}}, seed)
    assert kernel.CACHE.misses - misses <= 1
    assert len({e.address for e in k._entries()}) == 1


@pytest.mark.share(18)
@pytest.mark.parametrize("seed", range(24))
def test_results_of_random_sizes_typical_values_and_options(seed: int) -> None:
    rng = random.Random(seed)
    case = rng.choice(DYNAMIC)
    free = [n for n in case.kernel.front.checked.sizes if n not in case.fixed]
    dynamic = {n: rng.choice([1, 4, 20, 64, 1000]) for n in free if rng.random() < 0.5} or {free[0]: 64}
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["vector"] = rng.choice([-1, 0, 1, 2])
    if rng.random() < 0.3:
        options["register_tile"] = tuple(rng.choice([1, 2, 3, 5, 6, 16, 48]) for _ in range(2))
    if rng.random() < 0.3:
        options["tile"] = tuple(rng.choice([1, 4, 7, 16, 64]) for _ in range(2))
    if rng.random() < 0.3:
        options["isa"] = rng.choice(isas())
    options = fitting(options, case.kernel.front)
    k = quiet(case.source, dynamic, **options)
    for i in range(4):
        sizes = {n: rng.choice([1, 3, 8, 17]) for n in free} | dict(case.fixed)
        k = quiet(case.source, dynamic, **options)
        for n in dynamic:
            sizes[n] = rng.choice([0, 1, 2, 3, 5, 15, 16, 17, 31, 33, 47, 48, 49, 65])
        if math.prod(max(1, v) for v in sizes.values()) <= case.points and possible(case, sizes):
            agrees(case, k, sizes, i)


def test_packs_beside_lanes_of_dynamic_length_end_with_their_axis() -> None:
    """Rows are transposed for the remainder of the lanes; `TC_VERIFY` follows each access."""
    source = "def f(float(B,K,M) A, float(B,K,N) C) -> (O) { O(b,m,n) +=! A(b,k,m) * C(b,k,n) }"
    kernel = quiet(source, ["B"], vector=0, register_tile=(16, 2))
    agrees(Case("batched", source), kernel, {"B": 1, "K": 2, "M": 33, "N": 8}, 0)


# Typical sizes.


def product(m: int, k: int = 30, n: int = 40) -> tuple[Array, Array]:
    return np.ones((m, k), np.float32), np.ones((k, n), np.float32)


@pytest.mark.parametrize(("first", "expected"), [(1, 64), (64, 64), (65, 128), (1000, 1024)])
def test_the_first_call_sets_the_typical_size(first: int, expected: int) -> None:
    k = quiet(GEMM, ("M",))
    k(*product(first))
    k(*product(3))
    specialized = k.specialize(M=3, K=30, N=40)
    assert specialized.typical == {"M": expected} and specialized.sizes == {"M": 3, "K": 30, "N": 40}


def test_typical_values_are_part_of_the_key_and_dynamic_sizes_are_not() -> None:
    misses = kernel.CACHE.misses
    kernels = [quiet(GEMM, {"M": t}).specialize(M=m, K=30, N=41) for t in (7, 300) for m in (1, 2)]
    assert kernel.CACHE.misses - misses == 2
    assert len({c.compiled.address for c in kernels}) == 2


def test_machine_code_is_shown_before_any_size_is_known() -> None:
    k = tc.compile(GEMM, "cpu", dynamic=("M",), sizes={"K": 30, "N": 42})
    misses = kernel.CACHE.misses
    assert np.array_equal(k(*product(5, 30, 42)), np.full((5, 42), 30))
    assert kernel.CACHE.misses == misses


# Three dynamic axes, strided lanes, and a condition around each instance: with five points of two axes
# in a register tile this was 118000 lines of LLVM's text, which took 50 seconds.
MULTIPLIED = """def f(uint8(N,M,P) A0, int s) -> (T0, T1, T3, T4) {
  T0(i,j) min= A0(j + j, j, j) + A0(i, i, i) + A0(j, j, j);
  T1(i,j) min= 2 + A0(i, i, i) + T0(j, j) + A0(k, k, k) + A0(l, l, l);
  T2(i,j,k) *=! T1(l + 1, 4 - k) + A0(i, i, i) + A0(j, j, j) where i <= j;
  T3 +=! T2(i / 4, i, i) * T1(i % 4, i) * uint8(s) + T1(i, i);
  T4 +=! abs(uint8(uint64(T3))) + T2(i, i, i) + T0(k, k) + T0(l, l) where j = [1, 5 + s[;
}"""


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize(("isa", "most"), [("avx512", 12_000), ("avx2", 15_000), ("sse4.2", 12_000)])
def test_the_code_of_several_dynamic_axes_is_bounded(isa: str, most: int) -> None:
    """Of each nest, by code_size.MAX_LINES; two of the four nests here are short."""
    specialized = quiet(MULTIPLIED, ("N", "P")).specialize(N=5, M=5, P=5, s=2)
    assert code_of(specialized.program, isa=isa, typical=specialized.typical).text.count("\n") < most


def test_a_tail_of_gathered_lanes_takes_no_branches() -> None:
    """LLVM makes a branch for each lane of a masked gather where gathers are slow."""
    source = "def f(float(N,M) A, float(M) B) -> (O) { O(i) +=! A(i,j) * B(j) where i in 0:N }"
    text = quiet(source, ("N", "M"), vector=0).specialize(N=9, M=5).inspect("llvm")
    gathers = re.findall(r"call .*@llvm\.masked\.gather.*", text)
    assert gathers and all("i1 true, i1 true" in g for g in gathers)


@pytest.mark.filterwarnings("ignore::tc.PerformanceNotice")  # of lanes that would take too much code
def test_the_candidate_with_the_least_code_is_taken_where_all_exceed_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry.get("cpu")
    monkeypatch.setattr(sys.modules["tc_backends.cpu.search.rank"], "MAX_LINES", 0)
    kernel = quiet(GEMM.replace("def f", "def least"), ("M", "K", "N"))
    a, b = np.ones((9, 5), np.float32), np.ones((5, 40), np.float32)
    np.testing.assert_array_equal(kernel(a, b), a @ b)
    assert kernel.specialize(M=9, K=5, N=40).inspect("llvm").count("\n") < 500


def test_loops_and_choice_show_the_size() -> None:
    k = quiet(GEMM, ("M",))
    text = k.inspect("loops", K=30, N=256)
    assert "sizes M\n" in text and "input float32 A[M, 30]" in text
    few = k.inspect("choice", K=256, N=512)
    assert few.startswith("M <= ")  # loops of their own for few rows
    assert k.inspect("schedule", M=3, K=256, N=512).startswith("M <= ")


def test_shapes_of_results_follow_the_sizes() -> None:
    k = quiet(GEMM, ("M",))
    assert k.output_shapes(M=3, K=4, N=5) == {"C": (3, 5)}
    assert k.sizes_of(*product(3)) == {"M": 3, "K": 30, "N": 40}


# Errors.


def test_preconditions_hold_for_each_size() -> None:
    source = "def f(float(N) A) -> (B) { B(i) = A(i+3) where i in 0:5 }"
    k, fixed = quiet(source, ("N",)), quiet(source, ())
    for n in (8, 9):
        assert k(np.arange(n, dtype=np.float32)).tolist() == [3, 4, 5, 6, 7]
    for n in (0, 7):
        with pytest.raises(tc.PreconditionError) as caught:
            k(np.zeros(n, np.float32))
        with pytest.raises(tc.PreconditionError) as expected:
            fixed(np.zeros(n, np.float32))
        assert str(caught.value) == str(expected.value)


def test_an_index_out_of_range_is_reported_with_the_sizes_of_the_call() -> None:
    k = quiet("def f(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }", ("N", "M"))
    for n in (5, 9):
        data = np.arange(n, dtype=np.float32)
        assert k(data, np.array([n - 1], np.int32)).tolist() == [n - 1]
        for _ in range(2):  # the slow and the fast way
            with pytest.raises(tc.BoundsError, match=rf"index {n} is out of range .* \(0 to {n - 1}\)"):
                k(data, np.array([0, n], np.int32))


def test_names_and_values_are_checked() -> None:
    for dynamic, code in (
        (("Q",), "TC0513"),
        (("m",), "TC0513"),
        ("M", "TC0511"),
        (3, "TC0511"),
        ((3,), "TC0511"),
        ({"M": 0}, "TC0511"),
        ({"M": 2.5}, "TC0511"),
    ):
        with pytest.raises(tc.ArgumentError) as caught:
            quiet(GEMM, dynamic)
        assert caught.value.code == code
    with pytest.raises(tc.ArgumentError, match="no size 'm'"):
        quiet(GEMM, ("m",))


def test_a_backend_without_dynamic_sizes_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(registry.get("cpu")), "dynamic_sizes", False)
    with pytest.raises(tc.errors.BackendError) as caught:
        quiet(GEMM, ("M",))
    assert caught.value.code == "TC0813"


def test_the_reference_backend_has_dynamic_sizes() -> None:
    k = quiet(SOFTMAX, ("N",), "reference")
    for n in (3, 0, 65):
        data = np.random.default_rng(n).standard_normal((n, 9)).astype(np.float32)
        same(np.asarray(tc.interpret(SOFTMAX, data)), k(data), 32)


# Calls.


def test_many_sizes_keep_a_bounded_number_of_entries() -> None:
    k = quiet(ADD, ("N",))
    for n in range(1100):
        data = np.full(n, n, np.float32)
        assert np.array_equal(k(data, data), data + data)
    assert len(k._entries()) == 1024
    assert {e.address for e in k._entries()} == {k._entries()[0].address}


def test_workspace_follows_the_size() -> None:
    k = quiet(MLP, ("B",))
    sizes: dict[int, int] = {}
    for b in (1, 100, 1000):
        k(*(np.ones(s, np.float32) for s in ((b, 40), (50, 40), (50,), (30, 50), (30,))))
        k(*(np.ones(s, np.float32) for s in ((b, 40), (50, 40), (50,), (30, 50), (30,))))
        sizes[b] = k._entries()[0].workspace
    t = quiet(COLUMNS.replace("(m, v, O)", "(O)"), ("C",))
    for c in (3, 3000):
        t(np.ones((2, c, 2), np.float32))
        sizes[c] = t._entries()[0].workspace
    assert sizes[3000] - sizes[3] >= 2 * 4 * (3000 - 64)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = _native.get_num_threads()
    yield _native.set_num_threads
    _native.set_num_threads(before)


@pytest.mark.share(18)
@pytest.mark.parametrize(
    "name", ["rows", "columns", "sums", "layers", "images", "softmax of rows", "moments"]
)
def test_any_number_of_threads_gives_the_same_bits(name: str, threads: Callable[[int], None]) -> None:
    case, dynamic, fixed = LARGER[name]
    k = quiet(case.source, dynamic)
    rng = np.random.default_rng(0)
    for value in (3, 65, 130):
        given, _ = case.arguments({**fixed, **dict.fromkeys(dynamic, value)}, 0)
        given = {n: rng.standard_normal(a.shape).astype(np.float32) for n, a in given.items()}
        found: list[tuple[Array, ...]] = []
        for count in (1, 2, 5):
            threads(count)
            found.append(results(k(**given)))
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                assert np.array_equal(a, b, equal_nan=True)


def test_a_kernel_outlives_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TC_VERIFY", "0")
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path))
    source = COLUMNS.replace("(m, v, O)", "(O)")
    for restored in (False, True):
        kernel.CACHE.clear()
        k = quiet(source, ("C",))
        specialized = k.specialize(N=3, H=2)
        assert specialized.restored is restored
        for c in (0, 1, 70, 700):
            data = np.ones((3, c, 2), np.float32)
            assert np.array_equal(k(data), tc.interpret(source, data))
        assert "sizes C\n" in k.inspect("loops", N=3, H=2)


LONG = {
    "sum": ("def f(float(N) A) -> (S) { S +=! A(i) }", ("N",), {}),
    "greatest and sum": ("def f(int32(N) A) -> (S, m) { m max=! A(i)\n S +=! A(i) - m }", ("N",), {}),
    "few columns": ("def f(float(N,M) A) -> (S) { S(j) +=! A(i,j) }", ("N",), {"M": 3}),
    "rows of dynamic length": ("def f(float(M,N) A) -> (S) { S(i) +=! A(i,j) }", ("N", "M"), {"M": 2}),
}


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("name", LONG)
def test_long_reductions_of_dynamic_length_are_done_in_parts(name: str, backend: str) -> None:
    source, dynamic, fixed = LONG[name]
    k = tc.compile(source, backend, dynamic={n: fixed.get(n, 1 << 19) for n in dynamic})
    kind = np.int32 if "int32" in source else np.float32
    rng = np.random.default_rng(0)
    for n in (1 << 19, 0, 1, 7, 8191, 8192, 8193, 100003):
        if n == 0 and "max" in source:
            continue
        (p,) = k.front.checked.params
        a = rng.integers(-3, 4, [{"N": n, **fixed}[d.name] for d in p.dims]).astype(kind)
        got, want = results(k(a)), results(tc.interpret(source, a))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w, f"{n}")
    loops = k.inspect("loops", N=1 << 19, **fixed)
    assert "S_part" in loops and ("parallel" in loops or "launch" in loops)

"""Threads of the cpu backend: the same bits from any number of them, concurrent callers, forks, errors."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tc
from tc import _native
from tests.backends.cpu_cases import (
    CONV,
    GEMM,
    LAYERNORM,
    LUT,
    MLP,
    MOMENTS,
    SOFTMAX,
    Array,
    compiled,
    interpreted,
    isas,
    results,
)


@pytest.fixture(autouse=True)
def threads() -> Iterator[Callable[[int], None]]:
    before = _native.get_num_threads()
    yield _native.set_num_threads
    _native.set_num_threads(before)


SUM = "def f(float(N) A, float(N) B) -> (S, M) { S +=! A(i) * B(i)\nM max=! A(i) }"
ROWS = "def f(float(N,M) A) -> (S, P) { S(i) +=! A(i,j)\nP(j) min=! A(i,j) }"

LARGE: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "gemm": (GEMM, [(150, 131), (131, 203)]),
    "conv": (CONV, [(3, 16, 21, 19), (17, 16, 3, 3)]),
    "softmax": (SOFTMAX, [(123, 301)]),
    "moments": (MOMENTS, [(97, 1003)]),
    "layer norm": (LAYERNORM, [(65, 510), (510,)]),
    "mlp": (MLP, [(64, 130), (77, 130), (77,), (50, 77), (50,)]),
    "long sums": (SUM, [(300_007,), (300_007,)]),
    "sums of rows": (ROWS, [(3, 100_003)]),
    "sums of columns": (ROWS, [(50_021, 3)]),
}


def reals(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


@pytest.mark.share(18)
@pytest.mark.parametrize("name", LARGE)
def test_any_number_of_threads_gives_the_same_bits(name: str, threads: Callable[[int], None]) -> None:
    source, shapes = LARGE[name]
    args = reals(*shapes)
    kernel = compiled(source)
    sizes = {
        d.name: n
        for p, s in zip(kernel.front.checked.params, shapes)
        for d, n in zip(p.dims, s)  # type: ignore[union-attr]
    }
    assert "parallel for" in kernel.inspect("loops", **sizes), "nothing runs in parallel here"
    threads(1)
    want = results(kernel(*args))
    for count in (2, 3, 5):
        threads(count)
        for _ in range(3):
            for w, g in zip(want, results(kernel(*args))):
                assert w.tobytes() == g.tobytes(), f"{count} threads"


def enclosing_loops(loops: str, statement: str) -> list[list[str]]:
    """The loops around each instance of a statement, outermost first, as `inspect("loops")` shows them."""
    found: list[list[str]] = []
    around: list[tuple[int, str]] = []
    for line in loops.splitlines():
        text = line.strip()
        depth = len(line) - len(text)
        while around and around[-1][0] >= depth:
            around.pop()
        if re.search(r"\bfor \S+ in ", text):
            around.append((depth, text))
        elif text.startswith(f"{statement}:"):
            found.append([loop for _, loop in around])
    return found


def test_one_long_row_runs_on_all_threads(threads: Callable[[int], None]) -> None:
    """Each of the four passes over the row is a parallel loop, the sums and the maxima in parts."""
    (row,) = reals((1, 300_007))
    kernel = compiled(SOFTMAX, machine=(("cores", 3),))
    loops = kernel.inspect("loops", N=1, D=row.size)
    for statement in ("S1p", "S2", "S4p", "S5"):
        around = enclosing_loops(loops, statement)
        assert around, statement
        for found in around:
            assert found[0].startswith("parallel for"), f"{statement}\n{loops}"
            assert not any(x.startswith("parallel for") for x in found[1:])
    threads(1)
    (want,) = results(kernel(row))
    wide = np.exp(row.astype(np.float64) - row.max())
    np.testing.assert_allclose(want, wide / wide.sum(), rtol=2e-6)
    for count in (2, 3):
        threads(count)
        for _ in range(3):
            assert results(kernel(row))[0].tobytes() == want.tobytes(), f"{count} threads"


@pytest.mark.parametrize("name", ["gemm", "softmax", "long sums", "sums of rows"])
def test_results_without_threads(name: str, threads: Callable[[int], None]) -> None:
    """`parallel=False` gives the same to a tolerance: sums may be in other parts."""
    source, shapes = LARGE[name]
    args = reals(*shapes)
    threads(3)
    for p, q in zip(results(compiled(source)(*args)), results(compiled(source, parallel=False)(*args))):
        np.testing.assert_allclose(p, q, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("isa", isas())
def test_results_of_exact_data_in_parallel(isa: str, threads: Callable[[int], None]) -> None:
    threads(3)
    rng = np.random.default_rng(1)
    for source, shapes in (LARGE["gemm"], LARGE["long sums"], LARGE["sums of columns"], LARGE["conv"]):
        args = [rng.integers(-3, 4, s).astype(np.float32) for s in shapes]
        for w, g in zip(interpreted(source, *args), results(compiled(source, isa=isa)(*args))):
            np.testing.assert_array_equal(g, w)


TYPES = ["int8", "uint8", "int", "int64", "half", "double"]
OPERATORS = ["+=!", "*=!", "min=!", "max=!", "+="]


@pytest.mark.share(18)
@pytest.mark.parametrize(
    ("dtype", "op"), [*((t, o) for t in TYPES for o in OPERATORS), ("bool", "min=!"), ("bool", "max=!")]
)
def test_results_of_long_reductions_in_parts(dtype: str, op: str) -> None:
    """Of every type and operator; exact, or wrapped; `+=` continues from the caller's values."""
    source = f"def f({dtype}(N,M) A) -> (O) {{ O(i) {op} A(i,j) }}"
    rng = np.random.default_rng(2)
    t = {"half": "float16", "double": "float64", "int": "int32"}.get(dtype, dtype)
    low, high = (0, 2) if dtype in ("bool", "uint8") else (-1, 2)
    a = rng.integers(low, high, (2, 40_009)).astype(t)
    if op == "*=!":
        a = np.where(a == 0, np.ones((), t), a)
    out = {"out": np.array([5, 7]).astype(t)} if op == "+=" else {}
    (want,) = interpreted(source, a, **{k: v.copy() for k, v in out.items()})
    kernel = compiled(source)
    (got,) = results(kernel(a, **{k: v.copy() for k, v in out.items()}))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_concurrent_callers_get_their_own_results(threads: Callable[[int], None]) -> None:
    """One kernel, several Python threads, each with its own data and workspace."""
    threads(2)
    source, shapes = LARGE["mlp"]
    kernel = compiled(source)
    data = [reals(*shapes, seed=k) for k in range(6)]
    want = [[w.tobytes() for w in results(kernel(*args))] for args in data]

    def call(k: int) -> bool:
        return [g.tobytes() for g in results(kernel(*data[k % 6]))] == want[k % 6]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(48)))


FORK = """
import os, sys, warnings
import numpy as np
import tc
from tc import _native
_native.set_num_threads(3)
kernel = tc.compile(sys.argv[1], "cpu")
rng = np.random.default_rng(0)
a, b = rng.standard_normal((150, 131)).astype("f"), rng.standard_normal((131, 203)).astype("f")
want = kernel(a, b).tobytes()
for _ in range(3):
    child = os.fork()
    if child == 0:
        good = kernel(a, b).tobytes() == want  # compiled before the fork
        other = tc.compile(sys.argv[1], "cpu")(a[:99], b)  # and after
        os._exit(0 if good and other.shape == (99, 203) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
assert kernel(a, b).tobytes() == want
"""


def test_a_kernel_runs_in_a_fork_after_its_use() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, GEMM], check=True, timeout=120)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("count", [1, 3])
def test_an_index_out_of_range_in_a_parallel_loop_is_reported(
    isa: str, count: int, threads: Callable[[int], None]
) -> None:
    threads(count)
    rng = np.random.default_rng(0)
    table = rng.integers(-3, 4, (50, 40)).astype(np.float32)
    good = rng.integers(0, 50, (200, 7)).astype(np.int32)
    kernel = compiled(LUT, isa=isa, tile=(16, 64))
    (want,) = interpreted(LUT, table, good)
    np.testing.assert_array_equal(results(kernel(table, good))[0], want)
    for value in (50, -1, 2**31 - 1, -(2**31)):
        bad = good.copy()
        bad[123, 4] = value
        with pytest.raises(tc.BoundsError) as caught:
            kernel(table, bad)
        assert isinstance(caught.value, IndexError)
        text = str(caught.value)
        assert str(value) in text and "T" in text and "i = 123" in text and "k = 4" in text
        np.testing.assert_array_equal(results(kernel(table, good))[0], want)


def test_many_bad_indices_in_many_threads_are_one_error(threads: Callable[[int], None]) -> None:
    threads(3)
    table = np.ones((5, 40), np.float32)
    bad = np.full((300, 6), 77, np.int32)
    kernel = compiled(LUT, tile=(8, 64))
    for _ in range(20):
        with pytest.raises(tc.BoundsError, match="77"):
            kernel(table, bad)


SCALED = "def f(float(N,M) A, float(M) B) -> (S, P) { S(i) +=! A(i,j) * B(j)\nP(i,j) = A(i,j) * 0.5 }"


def _denormals(kernel: tc.Kernel) -> None:
    a = np.full((64, 1200), 1e-40, np.float32)
    b = np.ones(1200, np.float32)
    s, p = results(kernel(a, b))
    exact = np.float32(1e-40).astype(np.float64)
    np.testing.assert_allclose(s.astype(np.float64), exact * 1200, rtol=1e-6)
    assert (p == np.float32(exact / 2)).all() and (p > 0).all()


@pytest.mark.parametrize("count", [1, 3])
def test_denormals_are_kept_on_every_thread(count: int, threads: Callable[[int], None]) -> None:
    threads(count)
    kernel = compiled(SCALED, tile=(4,))
    assert "parallel for" in kernel.inspect("loops", N=64, M=1200)
    _denormals(kernel)


FLUSHED = """
import sys, numpy as np, torch, tc
from tc import _native
_native.set_num_threads(3)
kernel = tc.compile(sys.argv[1], "cpu", options={"tile": (4,)})
a, b = np.full((64, 1200), 1e-40, np.float32), np.ones(1200, np.float32)
if sys.argv[2] == "before":
    kernel(a, b)
assert torch.set_flush_denormal(True)
s, p = kernel(a, b)
torch.set_flush_denormal(False)  # to look at what is there
expected = float(np.float32(1e-40)) * 1200
assert abs(s.astype(np.float64) - expected).max() < 1e-6 * expected, s[:4]
assert (p.view(np.uint32) == np.float32(1e-40).view(np.uint32) // 2).all(), p[0, :4]
"""


@pytest.mark.share(4)
@pytest.mark.parametrize("when", ["before", "after"])
def test_denormals_are_kept_where_the_caller_flushes_them(when: str) -> None:
    """Workers that exist before the caller sets the flag, and workers that inherit it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FLUSHED, SCALED, when],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr

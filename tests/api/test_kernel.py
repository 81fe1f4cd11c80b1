"""Kernels as users hold them: sizes, libraries, threads, caches."""

from __future__ import annotations

import copy
import gc
import pickle
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import tc
from tc.kernel import CACHE
from tests.api.kernels import ADD1, LUT, MM, F, compile, ones

# ---- shapes and sizes


def test_empty_extents_give_empty_arrays_or_the_neutral_element() -> None:
    mm = compile(MM)
    np.testing.assert_array_equal(mm(ones(2, 0), ones(0, 3)), np.zeros((2, 3)))
    assert mm(ones(0, 2), ones(2, 3)).shape == (0, 3)
    k = compile("def f(int8(M,K) A, float(M,K) B) -> (P,Q) { P(i) min=! A(i,k) Q(i) max=! B(i,k) }")
    p, q = k(np.ones((2, 0), np.int8), ones(2, 0))
    np.testing.assert_array_equal(p, [127, 127])
    np.testing.assert_array_equal(q, [-np.inf, -np.inf])


def test_a_negative_extent_is_refused_with_the_sizes() -> None:
    k = compile("def f(float(H) A, float(K) B) -> (C) { C(i) +=! A(i+k) * B(k) }")
    with pytest.raises(tc.PreconditionError, match=r"H = 2, K = 5") as e:
        k(ones(2), ones(5))
    assert e.value.code == "TC0601"
    with pytest.warns(tc.EmptyRange):
        assert k(ones(4), ones(5)).shape == (0,)


def test_ranges_shapes_notes_and_preconditions_are_known_without_data() -> None:
    k = compile("def f(float(H) A, float(K) B) -> (C, D) { C(i) +=! A(i+k) * B(k) D(i) = A(i-2) }")
    assert repr(k.ranges["C"]) == "([0, H - K + 1),)"
    assert repr(k.ranges["D"]) == "([2, H + 2),)"
    assert k.ranges.at(H=7, K=3)["D"] == (tc.Range(2, 7),)
    assert k.output_shapes(H=7, K=3) == {"C": (5,), "D": (7,)}
    assert any("'D' starts at 2" in n for n in k.notes) and len(k.notes) == 1
    assert len(k.preconditions) == 1
    with pytest.raises(tc.ArgumentError, match="no value for the size K"):
        k.output_shapes(H=7)
    with pytest.raises(tc.ArgumentError, match="did you mean 'H'"):
        k.output_shapes(h=7, K=3)
    with pytest.raises(tc.ArgumentError, match="H = -7 is not a size"):
        k.output_shapes(H=-7, K=3)


def test_sizes_beyond_32_bits_are_exact() -> None:
    k = compile("def f(float(N,M) A) -> (B) { B(i) +=! A(i+1,j) }")
    assert k.output_shapes(N=2**40, M=3) == {"B": (2**40,)}
    assert k.ranges.at(N=2**40, M=3)["B"][0].min == -1


def test_indices_are_64_bits_where_an_extent_is() -> None:
    many = 2**31 + 5
    k = compile("def f(int8(N) A) -> (B) { B(i) = i where exists A(i) }")
    with pytest.raises(tc.DTypeError, match="int64"):
        k.specialize(N=many)
    declared = compile("def f(int8(N) A) -> (int64(N) B) { B(i) = i where exists A(i) }")
    assert "int64_t (*" not in declared.inspect("code", N=5) and "(int32_t)" in declared.inspect("code", N=5)
    assert "(int32_t)" not in declared.inspect("code", N=many)
    np.testing.assert_array_equal(declared(np.zeros(3, np.int8)), [0, 1, 2])


def test_specialised_scalars_are_part_of_the_key() -> None:
    k = compile("def f(int s, float(N) A) -> (B) { B(i) = A(s*i) }")
    assert k.ranges["B"] == ("depends on s",)
    a = np.arange(7, dtype=F)
    np.testing.assert_array_equal(k(2, a), a[::2])
    np.testing.assert_array_equal(k(3, a), a[::3])
    np.testing.assert_array_equal(k(2, a), a[::2])
    assert k.output_shapes(s=3, N=7) == {"B": (3,)}
    with pytest.raises(tc.Error):
        k(0, a)


def test_specialize_compiles_now_and_shows_what_it_made() -> None:
    k = compile(MM)
    one = k.specialize(M=2, K=3, N=4)
    assert one.sizes == {"M": 2, "K": 3, "N": 4} and one.backend == "reference"
    assert "C[i][j] += A[i][k] * B[k][j];" in one.source
    assert "sequence" in one.schedule and "for k in [0, 3)" in one.inspect("loops")
    np.testing.assert_array_equal(one(ones(2, 3), ones(3, 4)), np.full((2, 4), 3))


# ---- other libraries


def test_torch_arrays_in_and_out() -> None:
    k = compile(MM)
    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4)
    c = k(a, b)
    assert isinstance(c, torch.Tensor) and torch.equal(c, a @ b)
    out = torch.zeros(2, 4)
    assert k(a, b, out=out) is out and torch.equal(out, a @ b)
    assert torch.equal(k(b.t(), a.t()), b.t() @ a.t())
    grad = a.clone().requires_grad_()
    with pytest.raises(tc.ArgumentError) as e:
        k(grad, b)
    assert e.value.code == "TC0509"
    with torch.no_grad():
        assert torch.equal(k(grad, b), a @ b)


def test_jax_arrays_in_and_out() -> None:
    k = compile(MM)
    a, b = jnp.arange(6.0, dtype=F).reshape(2, 3), jnp.arange(12.0, dtype=F).reshape(3, 4)
    c = k(a, b)
    assert type(c) is type(a)
    np.testing.assert_array_equal(np.asarray(c), np.asarray(a) @ np.asarray(b))


def test_bfloat16_and_half_accumulate_in_float32() -> None:
    k = compile("def f(half(N) A) -> (B) { B +=! A(i) }")
    assert k(np.full(5000, 1, np.float16)) == 5000  # in float16, 2048 + 1 is 2048
    b = compile("def f(bfloat16(N) A) -> (B) { B +=! A(i) }")(torch.ones(3000, dtype=torch.bfloat16))
    assert b.dtype == torch.bfloat16 and b == torch.tensor(3000.0).to(torch.bfloat16)


def test_strict_rounds_half_values_between_statements() -> None:
    source = "def f(half(N) A) -> (B) { t(i) = A(i) * A(i) B(i) = t(i) - 1 }"
    x = np.array([1.0 + 3 * 2**-10], np.float16)
    square = float(x[0]) ** 2
    loose = compile(source)(x)
    tight = compile(source, options=tc.Options(strict=True))(x)
    assert loose[0] == np.float16(square - 1)
    assert tight[0] == np.float16(float(np.float16(square)) - 1) != loose[0]


# ---- threads, memory, caches


def test_kernels_are_reentrant() -> None:
    k = compile("def f(float(N,D) I) -> (O) { t(n) max=! I(n,d) O(n,d) = I(n,d) - t(n) }")
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((50 + n % 3, 40)).astype(F) for n in range(24)]
    with ThreadPoolExecutor(6) as pool:
        for x, y in zip(data, pool.map(k, data), strict=True):
            np.testing.assert_array_equal(y, x - x.max(1, keepdims=True))


def test_one_compile_however_many_threads_ask() -> None:
    source = "def once(float(N) A) -> (B) { B(i) = A(i) * 17 + 3 }"
    before = CACHE.misses
    barrier = threading.Barrier(6)

    def call(_: int) -> None:
        barrier.wait()
        tc.compile(source, "reference")(ones(5))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(6)))
    assert CACHE.misses == before + 1


def test_calls_leak_nothing() -> None:
    k = compile(MM)
    a, b, out = ones(8, 8), ones(8, 8), ones(8, 8)
    k(a, b)
    gc.collect()
    tracemalloc.start()
    for _ in range(200):
        k(a, b)
        k(a, b, out=out)
        with pytest.raises(tc.Error):
            k(a, ones(7, 8))
    gc.collect()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 200_000


def test_machine_code_outlives_the_cache() -> None:
    k = compile("def f(float(N) A) -> (B) { B(i) = A(i) * 5 }")
    np.testing.assert_array_equal(k(ones(3)), [5, 5, 5])
    CACHE.clear()
    gc.collect()
    np.testing.assert_array_equal(k(ones(3)), [5, 5, 5])


def test_forked_children_compile_and_run() -> None:
    code = f"""
import os, numpy as np, tc
one = lambda *s: np.ones(s, 'f4')
k = tc.compile({ADD1!r}, 'reference')
k(one(3))
child = os.fork()
if child == 0:
    product = tc.compile({MM!r}, 'reference')(one(2, 2), one(2, 2))
    good = k(one(3)).tolist() == [2] * 3 and product.tolist() == [[2] * 2] * 2
    os._exit(0 if good else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- compile, define, interpret


def test_an_invalid_source_fails_at_once() -> None:
    for source in ("def f(", "def f(float(N) A) -> (B) { B(i) = C(i) }", "def f() -> (B) { B(i) = 1 }",
                   "def f(float(N) A) -> (B) { B(i) = A(i) % 2 }"):  # fmt: skip
        with pytest.raises(tc.Error):
            tc.compile(source, "reference")


def test_arguments_of_compile_are_checked() -> None:
    for kwargs in ({"checks": "maybe"}, {"lang": "sac"}, {"options": {"tiles": 3}}, {"options": tc.Options}):
        with pytest.raises((tc.Error, TypeError)):
            tc.compile(ADD1, "reference", **kwargs)  # type: ignore[arg-type]
    with pytest.raises(tc.ArgumentError, match="not text"):
        tc.compile(b"def", "reference")  # type: ignore[arg-type]
    with pytest.raises(tc.BackendError, match="there is no backend 'refrence'"):
        tc.compile(ADD1, "refrence")
    with pytest.raises(tc.SemanticError, match="no def 'g'"):
        tc.compile(ADD1, "reference", entry="g")


def test_define_gives_every_def() -> None:
    ns = tc.define(
        "def one(float(N) A) -> (B) { B(i) = A(i) } def 2x(float(N) A) -> (B) { B(i) = 2 * A(i) }",
        "reference",
    )
    np.testing.assert_array_equal(ns.one(ones(2)), [1, 1])
    np.testing.assert_array_equal(ns["2x"](ones(2)), [2, 2])
    assert dir(ns) == ["2x", "one"]
    with pytest.raises(AttributeError, match="did you mean 'one'"):
        ns.on  # noqa: B018


def test_the_default_backend_says_when_it_is_the_naive_one() -> None:
    # Where the cpu backend cannot run (here: it is hidden), the naive one stands in, and says so once.
    code = (
        "import tc, numpy as np\nfrom tc import registry\n"
        "registry.names = lambda: tuple(n for n in ('reference', 'halide'))\n"
        f"k = tc.compile({ADD1!r})\nk(np.ones(2, 'f4')); k(np.ones(3, 'f4'))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("running on the backend 'reference'") == 1


def test_interpret_walks_large_spaces_in_chunks() -> None:
    a, b = np.ones((20, 3000), F), np.ones((3000, 500), F)
    tracemalloc.start()
    c = tc.interpret(MM, a, b)  # 3 * 10^7 points: 240 MB at once in float64
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.all(c == 3000) and peak < 100e6


def test_interpret_rounds_to_bfloat16_once() -> None:
    """By way of float32 the first two would become ties, and go to the even neighbour."""
    source = "def f(double(N) A) -> (B) { B(i) = bfloat16(A(i)) }"
    tie = 1 + 2.0**-8
    values = [tie + 2.0**-40, tie - 2.0**-40, tie, tie + 2.0**-7, 1e39, -1e-300, 3.4e38, 0.0, -0.0, 1.5, -3.0]
    bits = [0x3F81, 0x3F80, 0x3F80, 0x3F82, 0x7F80, 0x8000, 0x7F80, 0, 0x8000, 0x3FC0, 0xC040]
    for a in (np.array(values), -np.array(values)):
        wanted = np.array(bits, np.uint16) ^ (0x8000 if a[0] < 0 else 0)
        for found in (tc.interpret(source, A=a), tc.compile(source, "reference")(A=a)):
            assert found.dtype.name == "bfloat16"
            np.testing.assert_array_equal(found.view(np.uint16), wanted)
    special = tc.interpret(source, A=np.array([np.nan, np.inf, -np.inf])).astype(np.float32)
    np.testing.assert_array_equal(special, [np.nan, np.inf, -np.inf])
    assert tc.interpret("def f(double(N) A) -> (B) { B +=! bfloat16(A(i)) }", A=np.ones(3)) == 3


def test_interpret_at_points_of_a_problem_too_large_to_run() -> None:
    source = """def mlp(float(B,M) X, float(N,M) W, float(N) c, float(P,N) V) -> (H, O) {
      H(b,n) +=! X(b,m) * W(n,m)
      H(b,n) = fmax(H(b,n) + c(n), 0)
      O(b,p) +=! H(b,n) * V(p,n) }"""
    rng = np.random.default_rng(1)
    x, w, c, v = (rng.integers(-2, 3, s).astype(F) for s in ((4000, 300), (500, 300), (500,), (2000, 500)))
    at = np.array([[0, 0], [3999, 1999], [17, 4]])
    got = tc.interpret(source, x, w, c, v, points={"O": at})["O"]
    h = np.maximum(x[at[:, 0]].astype(float) @ w.T + c, 0)
    np.testing.assert_array_equal(got, (h * v[at[:, 1]]).sum(1))


@pytest.mark.parametrize("body", ["s +=! a(i) * a(i)", "s = 0.0 for i in 0:N { s = s + a(i) * a(i) }"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_interpret_at_points_of_a_result_without_dimensions(count: int, body: str) -> None:
    a = np.arange(4, dtype=F)
    found = tc.interpret(f"def f(float(N) a) -> (s) {{ {body} }}", a, points={"s": np.zeros((count, 0), int)})
    np.testing.assert_array_equal(found["s"] if isinstance(found, dict) else found, [14] * count)


def test_interpret_checks_what_a_kernel_checks() -> None:
    source = "def f(float(H) A, float(K) B) -> (C) { C(i) +=! A(i+k) * B(k) }"
    with pytest.raises(tc.PreconditionError):
        tc.interpret(source, ones(2), ones(5))
    with pytest.raises(tc.ArgumentError):
        tc.interpret(source, ones(2))


def test_errors_of_calls_pickle() -> None:
    k = compile(MM)
    with pytest.raises(tc.Error) as e:
        k(ones(2, 3), ones(4, 4))
    again = pickle.loads(pickle.dumps(e.value))
    assert str(again) == str(e.value) and type(again) is type(e.value)


def test_a_bug_becomes_an_internal_error_with_a_reproducer(monkeypatch: pytest.MonkeyPatch) -> None:
    import json
    import re

    from tc.registry import get

    backend = get("reference")
    monkeypatch.setattr(type(backend), "compile", lambda *_: 1 // 0)
    with pytest.raises(tc.InternalError) as e:
        compile("def f(float(N) A) -> (B) { B(i) = A(i) * 99 }").specialize(N=3)
    path = re.search(r"reproducer (\S+)", e.value.help or "")
    assert path is not None
    content = json.loads(Path(path.group(1)).read_text(encoding="utf-8"))
    assert (
        content["sizes"] == {"N": 3}
        and "A(i) * 99" in content["source"]
        and "ZeroDivisionError" in content["error"]
    )


def test_nothing_is_printed_by_the_libraries_below() -> None:
    code = f"""
import numpy as np, tc
one = lambda *s: np.ones(s, 'f4')
for backend in ('reference', 'halide'):
    for source, args in (
        ('def f(float(N) A) -> (B) {{ B(i) = A(i) B(i) = B(i+1) where i in 0:N-1 }}', (one(3),)),
        ('def f(float(H) A, float(K) B) -> (C) {{ C(i) +=! A(i+k) * B(k) }}', (one(2), one(5))),
        ({LUT!r}, (one(3, 2), np.full((2, 2), 7, 'i4'))),
        ('def f(float(N) A) -> (B) {{ B(i) = A(i*i*i) where i in 0:2000000 }}', (one(3),)),
        ('def f(int(N) A) -> (B) {{ B(i) = A(i) / (A(i) - A(i)) }}', (np.array([-2**31], 'i4'),)),
    ):
        try:
            tc.compile(source, backend)(*args)
        except tc.Error:
            pass
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


DIVIDED = "def f(float(N,K) a, float(N) z) -> (y, s) { y(i) +=! a(i,k) / z(i) s +=! a(i,k) }"


@pytest.mark.parametrize("backend", ["cpu", "opencl", "reference"])
def test_notes_say_which_sums_are_divided_afterwards(backend: str) -> None:
    # First from a compile, then from what it left on disk, where there is any.
    for _ in range(2):
        kernel = tc.compile(DIVIDED, backend)
        assert kernel.notes == ()
        made = kernel.specialize(N=50, K=30)
        said = () if backend == "reference" else ("y is divided after its sum, which rounds once",)
        assert kernel.notes == getattr(made.compiled, "notes", ()) == said
        CACHE.clear()


@pytest.mark.parametrize("name", ["stats", "2LUT"])
def test_several_results_travel_between_processes(name: str) -> None:
    kernel = tc.compile(
        f"def {name}(float(N) x) -> (low, high) {{ low min=! x(i) high max=! x(i) }}", "reference"
    )
    x = np.array([3, -1, 2], np.float32)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.submit(kernel, x).result()
    assert (found.low, found.high) == (-1, 3) and type(found) is type(kernel(x))
    again = pickle.loads(pickle.dumps(kernel(x)))
    assert again == kernel(x) and copy.deepcopy(again).high == 3


@pytest.mark.parametrize("n", [3, 9])
def test_interpret_compares_the_shape_of_a_buffer(n: int) -> None:
    source = "def f(float a, float(N) x) -> (y) { y(i) = a*y(i) + x(i) }"
    with pytest.raises(tc.ArgumentError, match="has shape") as caught:
        tc.interpret(source, 2, np.zeros(5, np.float32), out=np.ones(n, np.float32))
    assert caught.value.code == "TC0504"


@pytest.mark.parametrize(
    ("points", "code"),
    [
        ([[5]], "TC0504"),
        ([[-1]], "TC0504"),
        ([[1, 1]], "TC0503"),
        ([[[1]]], "TC0503"),
        ([[1.5]], "TC0505"),
        ({"z": [[1]]}, "TC0502"),
    ],
)
def test_interpret_refuses_points_that_are_no_elements(points: Any, code: str) -> None:
    with pytest.raises(tc.ArgumentError) as caught:
        tc.interpret("def f(float(N) x) -> (y) { y(i) = x(i) }", np.zeros(5, np.float32), points=points)
    assert caught.value.code == code


def test_what_a_signal_handler_raises_passes_through_a_compile() -> None:
    """A time limit that is set so is no bug of the compiler."""

    def stop(*_: object) -> None:
        raise TimeoutError("enough")

    many = " ".join(f"def f{i}(float(N,M) x) -> (y) {{ y(i,j) = x(i,j) * {i} }}" for i in range(400))
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(TimeoutError, match="enough"):
            while True:
                tc.compile(f"{many} # {time.perf_counter()}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""The halide backend against the interpreter: programs, errors, memory, threads, autoschedulers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tc
from tc import registry
from tc.errors import BackendError, BoundsError, InternalError, Source
from tc.pipeline import front as pipeline
from tests.backends.halide_cases import CONV, LUT, MATMUL, SOFTMAX, TRIANGLE, close, same, small

SCHEDULERS = ("Mullapudi2016", "Adams2019", "Li2018")

pytestmark = pytest.mark.filterwarnings("ignore::tc.Warning")


# ---- programs


def test_matmul() -> None:
    same(MATMUL, small(5, 7), small(7, 6))


def test_sgemm_updates_the_caller_s_buffer() -> None:
    source = (
        "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) "
        "{ C(i,j) = b * C(i,j)  C(i,j) += a * A(i,k) * B(k,j) }"
    )
    same(source, 2.0, 3.0, small(5, 7), small(7, 6), out=small(5, 6))
    c = small(5, 6)
    result = tc.compile(source, backend="halide")(2.0, 3.0, small(5, 7), small(7, 6), out=c)
    assert result is c


def test_strided_convolution() -> None:
    same(CONV, small(2, 3, 9, 11), small(4, 3, 3, 2))


def test_soft_max() -> None:
    close(SOFTMAX, small(4, 9), rtol=1e-6)


def test_a_triangular_condition_cuts_the_domain() -> None:
    same(TRIANGLE, small(6, 6))
    same(
        "def f(float(N,N) A) -> (O) { O(i,j) = -1.0 where i in 0:N, j in 0:N  O(i,j) = A(i,j) where j <= i }",
        small(6, 6),
    )
    same("def f(float(N,N) A) -> (O) { O(i) +=! A(i,j) where j <= i, i < 4, 1 < j }", small(6, 6))


def test_lower_bounds_other_than_zero() -> None:
    same("def f(float(I) B) -> (A) { A(i) = B(10-i) }", small(4))
    same("def f(float(I) B) -> (A, C) { A(i) = B(i-3)  C(i) = A(i+1) + A(i) }", small(7))


def test_redefinition_keeps_what_was_read_before() -> None:
    same(
        "def f(float(N,M) A) -> (O, P) { T(i) +=! A(i,j) O(i) = T(i) T(i) max=! A(i,j) P(i) = T(i) + O(i) }",
        small(5, 6),
    )


def test_a_result_is_read_from_the_caller_before_it_is_written() -> None:
    source = (
        "def f(float(N) A) -> (float(N) C) { T(i) = C(i) + A(i)  C(i) = A(i) * 2  "
        "C(i) += T(i) + T(N-1-i) where i in 0:N }"
    )
    same(source, small(6), out=small(6, seed=1))


def test_a_part_of_the_own_tensor_is_moved() -> None:
    same("def f(float(N) A) -> (a) { a(i) = A(i) a(i) = a(i+10) * A(i) where i in 0:10 }", small(20))
    same(
        "def f(float(N,M) A) -> (a) { a(i,j) = A(i,j) a(i,j) = a(i,j+3) + 1 where i in 0:2, j in 0:3 }",
        small(4, 6),
    )


def test_concat() -> None:
    same("def f(float(N,A) X, float(N,B) Y) -> (Z) { Z = concat(X, Y) }", small(3, 4), small(3, 2))


PRODUCTION = """
def 2LUT(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1, O2) {
  O1(i,j) +=! LUT1(I1(i,k),j)
  O2(i,j) +=! LUT2(I2(i,k),j)
}
def MLP1(float(B,M) I, float(O,N) W1, float(O) B1) -> (O1) {
  O1(b,n) = B1(n)
  O1(b,n) += I(b,m) * W1(n,m)
  O1(b,n) = fmaxf(O1(b,n), 0)
}
def prodModel(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2, float(B,WX) I3, float(WY,WX) W,
              float(N,M) W1, float(N) B1) -> (C1, C2, C3, I, O1) {
  (C1, C2) = 2LUT(LUT1, I1, LUT2, I2)
  C3(b,wy) +=! I3(b,wxx) * W(wy,wxx)
  I        = concat(C1, C2, C3)
  O1       = MLP1(I, W1, B1)
}
"""


def test_calls_between_defs() -> None:
    i1, i2 = small(4, 3, dtype="uint8").astype("i4"), small(4, 5, dtype="uint8").astype("i4")
    same(
        PRODUCTION,
        small(10, 8), i1, small(6, 8), i2, small(4, 6), small(7, 6), small(9, 23), small(9),
    )  # fmt: skip


def test_guarded_and_clamped_reads() -> None:
    same("def f(float(N) A) -> (O) { O(i) = (i-2 >= 0) ? A(i-2) : 0.0 where i in 0:N }", small(6))
    same("def f(float(N) A) -> (O) { O(i) = A(max(min(i-2, N-1), 0)) where i in 0:9 }", small(6))
    same("def f(float(N) A) -> (O) { O(i) = A(i%N) + A(i/2) where i in 0:N }", small(7))
    same(
        "def f(float(N) A, int(N) J) -> (O) { O(i) = (J(i) >= 0) ? A(J(i)) : -1.0 }",
        small(5),
        np.array([4, -7, 0, -1, 2], "i4"),
    )


@pytest.mark.parametrize("shapes", [((3, 0), (0, 4)), ((0, 3), (3, 4)), ((3, 2), (2, 0))])
def test_zero_extents(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    same(MATMUL, small(*shapes[0]), small(*shapes[1]))


def test_zero_extents_of_every_kind() -> None:
    same("def f(float(N) A) -> (O, P, Q) { O max=! A(i) P *=! A(i) Q +=! A(i) }", small(0))
    same(LUT, small(5, 3), small(2, 0, dtype="int32"), small(5, 3), small(2, 1, dtype="uint8").astype("i4"))
    same("def f(float(N) A, int(M) J) -> (O) { O(i) = A(J(i)) }", small(0), small(0, dtype="int32"))


def test_no_dimensions() -> None:
    same("def f(float(N) A) -> (s, t) { s +=! A(i) t = s * 2 }", small(20))
    same("def f(float A) -> (s) { s = A * 2 }", 3.0)


def test_eight_dimensions() -> None:
    letters = "a,b,c,d,e,f,g,h"
    a = small(2, 1, 3, 2, 1, 2, 2, 3)
    same(
        f"def t(float({letters.upper()}) X) -> (Y, S) "
        f"{{ Y(h,g,f,e,d,c,b,a) = X({letters}) S +=! X({letters}) }}",
        a,
    )


def test_long_index_arithmetic_does_not_overflow() -> None:
    a = small(70_000)
    same("def f(float(N) A) -> (O) { O(i) = A(i * i / 70000) where i in 0:N }", a)


# ---- errors


def test_a_subscript_out_of_range_raises_and_reads_nothing() -> None:
    kernel = tc.compile(LUT, backend="halide")
    i1, i2 = small(4, 3, dtype="uint8").astype("i4"), small(4, 2, dtype="uint8").astype("i4")
    i2[3, 1] = -9
    with pytest.raises(
        BoundsError, match=r"index -9 is out of range .* of 'LUT2' \(0 to 5\), at i = 3, j = 0, k = 1"
    ):
        kernel(small(9, 8), i1, small(6, 8), i2)
    i2[3, 1] = 5
    got = kernel(small(9, 8), i1, small(6, 8), i2)
    np.testing.assert_array_equal(got[1], small(6, 8)[i2].sum(1))


@pytest.mark.parametrize("index", [2**31, -(2**31) - 1, 2**40, 2**63 - 1])
def test_a_subscript_that_int32_cannot_hold_is_out_of_range(index: int) -> None:
    kernel = tc.compile("def f(float(N) A, int64(M) J) -> (O) { O(i) = A(J(i)) }", backend="halide")
    with pytest.raises(BoundsError, match=f"index {index} is out of range"):
        kernel(small(5), np.array([0, index], "i8"))


def test_a_check_under_a_guard_counts_only_where_the_guard_holds() -> None:
    kernel = tc.compile(
        "def f(float(N) A, int(M) J) -> (O) { O(i) = (J(i) < 100) ? A(J(i)) : 7.0 }", backend="halide"
    )
    np.testing.assert_array_equal(kernel(np.arange(5, dtype="f4"), np.array([3, 100, 4], "i4")), [3, 7, 4])
    with pytest.raises(BoundsError, match="index 99"):
        kernel(small(5), np.array([3, 99, 4], "i4"))


def test_unchecked_subscripts_read_nothing_foreign() -> None:
    kernel = tc.compile(
        "def f(float(N) A, int(M) J) -> (O) { O(i) = A(J(i)) }", backend="halide", checks="none"
    )
    assert kernel(np.arange(5, dtype="f4"), np.array([2, 2_000_000_000], "i4"))[0] == 2


def specialized(source: str, **sizes: int) -> Any:
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant())
    return pipeline.specialize(built, sizes, {})


def test_symbolic_sizes_are_refused() -> None:
    with pytest.raises(InternalError, match="not specialised: N"):
        registry.get("halide").compile(specialized(MATMUL, M=2, K=3), None)


def test_what_halide_lacks_is_refused_by_name() -> None:
    with pytest.raises(BackendError, match="the built-in 'erfinv'") as caught:
        tc.compile("def f(float(N) A) -> (O) { O(i) = erfinv(A(i)) }", backend="halide")(small(3))
    assert caught.value.code == "TC0805"


def test_every_stage_can_be_seen(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = tc.compile(MATMUL, backend="halide").specialize(M=3, K=4, N=5).compiled
    assert "every Func is computed whole" in compiled.artifact("schedule")
    assert "produce tc_C" in compiled.artifact("loops")
    assert "_argv" in compiled.artifact("llvm") and "_argv:" in compiled.artifact("asm")
    with pytest.raises(BackendError, match="no stage 'mapped'") as caught:
        compiled.artifact("mapped")
    assert caught.value.code == "TC0804"
    assert capfd.readouterr() == ("", "")


# ---- memory and threads


@pytest.mark.share(18)
@pytest.mark.parametrize("scheduler", [None, *SCHEDULERS])
def test_arrays_need_not_be_aligned(scheduler: str | None) -> None:
    # Halide 21 loads masked vectors as if every buffer were aligned: without the copies the process dies.
    script = f"""
import sys; sys.path.insert(0, {os.getcwd()!r})
import tc
from tests.backends.halide_cases import TRIANGLE, MATMUL, odd, small
import numpy as np
options = tc.Options(autoschedule={scheduler!r})
a, o = odd(small(131, 131)), odd(np.zeros(131, "f4"))
kernel = tc.compile(TRIANGLE, backend="halide", options=options)
for _ in range(20): kernel(a, out=o)
assert (o == np.tril(small(131, 131)).sum(1)).all()
a, b, c = odd(small(67, 45)), odd(small(45, 83)), odd(np.zeros((67, 83), "f4"))
tc.compile(MATMUL, backend="halide", options=options)(a, b, out=c)
assert (c == a @ b).all()
print("alive")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_the_calling_convention() -> None:
    compiled = registry.get("halide").compile(
        specialized("def f(float s, float(N) A) -> (C) { C(i) = C(i) * s + A(i) }", N=5), None
    )
    assert compiled.address and compiled.workspace == 64 and not compiled.release_gil
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(compiled.address)
    scalar, a, c = np.array(3.0, "f4"), small(5), small(5, seed=1)
    error, room = np.zeros(32, "i8"), np.zeros(128, "u1")
    want = c * 3 + a
    workspace = room.ctypes.data + -room.ctypes.data % 64
    args = (ctypes.c_void_p * 5)(*(v.ctypes.data for v in (scalar, a, c, error)), workspace)
    assert kernel(ctypes.addressof(args)) == 0
    np.testing.assert_array_equal(c, want)


def test_large_work_releases_the_interpreter_lock() -> None:
    assert registry.get("halide").compile(specialized(MATMUL, M=50, K=50, N=50), None).release_gil


def test_temporaries_do_not_live_on_the_stack() -> None:
    n = 3_000_000  # 12 MB, more than a thread's stack
    a = small(n)
    same(
        "def f(float(N) A) -> (O) { T(i) = A(i) + 1 U(i) = T(N-1-i) * 2 where i in 0:N O(i) = U(i) + T(i) }",
        a,
    )


def test_several_threads_call_and_compile() -> None:
    kernel = tc.compile(LUT, backend="halide")
    tables = small(9, 8)

    def work(k: int) -> bool:
        index = np.random.default_rng(k).integers(0, 9, (4, 3)).astype("i4")
        bad = index.copy()
        bad[k % 4, k % 3] = 9 + k
        got = kernel(tables, index, tables, index)
        try:
            kernel(tables, bad, tables, index)
        except BoundsError as error:
            ok = f"index {9 + k} is" in error.message
        else:
            ok = False
        n = 3 + k % 5
        product = tc.compile(MATMUL, backend="halide")(small(n, 4), small(4, n))
        return (
            ok
            and bool((got[0] == tables[index].sum(1)).all())
            and bool((product == small(n, 4) @ small(4, n)).all())
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))


# ---- autoschedulers


@pytest.mark.share(12)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_autoschedulers(scheduler: str, capfd: pytest.CaptureFixture[str]) -> None:
    options = tc.Options(autoschedule=scheduler)
    same(MATMUL, small(67, 45), small(45, 83), options=options)
    same(CONV, small(2, 3, 19, 31), small(4, 3, 3, 2), options=options)
    close(SOFTMAX, small(37, 91), rtol=1e-5, options=options)
    # Stencils: a schedule computes points beyond the tensors they read.
    same(
        "def f(float(N,M) A) -> (O) { T(i,j) = A(i,j) + A(i,j+1)  U(i,j) = T(i+1,j) * 2 + T(i,j)  "
        "O(i,j) = U(i,j+2) + U(i,j) }",
        small(61, 77),
        options=options,
    )
    same(MATMUL, small(3, 0), small(0, 5), options=options)
    compiled = tc.compile(MATMUL, backend="halide", options=options).specialize(M=67, K=45, N=83).compiled
    assert ".parallel(" in compiled.artifact("schedule") and "tc_C" in compiled.artifact("schedule")
    assert capfd.readouterr() == ("", "")


def test_fast_math_stays_near() -> None:
    close(SOFTMAX, small(4, 90), rtol=1e-5, options=tc.Options(fast_math=True))
    same(MATMUL, small(5, 7), small(7, 6), options=tc.Options(fast_math=True))


@pytest.mark.parametrize("scheduler", SCHEDULERS[:2])
def test_checks_in_scheduled_and_parallel_code(scheduler: str, capfd: pytest.CaptureFixture[str]) -> None:
    kernel = tc.compile(LUT, backend="halide", options=tc.Options(autoschedule=scheduler))
    i1 = np.random.default_rng(0).integers(0, 50, (41, 3)).astype("i4")
    i2 = np.random.default_rng(1).integers(0, 60, (41, 5)).astype("i4")
    t1, t2 = small(50, 19), small(60, 19)
    got = kernel(t1, i1, t2, i2)
    np.testing.assert_array_equal(got[0], t1[i1].sum(1))
    i1[3, 1] = 50
    with pytest.raises(BoundsError, match=r"index 50 is out of range .* at i = 3, j = \d+, k = 1"):
        kernel(t1, i1, t2, i2)
    assert capfd.readouterr() == ("", "")


def test_a_schedule_that_halide_cannot_compile_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    # Li2018 makes the sum atomic; Halide 21 then builds a loop around the check that LLVM refuses.
    source = "def f(float(M,D) L, uint8(N,M) J) -> (S, v) { S(n) +=! L(r_m, int32(J(n,r_m))) v min=! S(r_n) }"
    kernel = tc.compile(source, backend="halide", options=tc.Options(autoschedule="Li2018"))
    with pytest.raises(BackendError, match=r"Li2018 .*verifyFunction") as caught:
        kernel(small(5, 6), small(9, 5, dtype="uint8"))
    assert caught.value.code == "TC0806"
    assert capfd.readouterr() == ("", "")


def test_the_registry_has_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backend = registry.get("halide")
    assert isinstance(backend, registry.Backend) and backend.available().ok

"""Guards and ranges (docs/language.md, "Guards"): what its guard keeps in range constrains nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.running import BACKENDS, run

Array = np.ndarray[Any, Any]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


def transposed(x: Array, w: Array, stride: int, padding: int = 0) -> Array:
    """A transposed convolution of x(C,W) with w(C,O,K): each element of x adds a window to the result."""
    (_, width), (_, out, taps) = x.shape, w.shape
    y = np.zeros((out, stride * (width - 1) + taps), np.float32)
    for p in range(width):
        y[:, stride * p : stride * p + taps] += np.einsum("c,cok->ok", x[:, p], w)
    return y[:, padding : y.shape[1] - padding]


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("taps", [1, 2, 3, 5])
def test_a_padded_sum_of_windows(taps: int, backend: str) -> None:
    a, w = numbers(6), numbers(taps)
    source = """def f(float(N) A, float(K) w) -> (B) {
      B(i) +=! i+k >= 1 && i+k <= N ? A(i+k-1)*w(k) : 0 where i in 0:N
    }"""
    padded = np.concatenate([np.zeros(1), a, np.zeros(taps)])
    np.testing.assert_array_equal(run(backend, source, a, w), [padded[i : i + taps] @ w for i in range(6)])


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("taps", [1, 3, 4])
def test_a_transposed_convolution(taps: int, backend: str) -> None:
    x, w = numbers(2, 5), numbers(2, 3, taps)
    source = """def f(float(C,W) X, float(C,O,K) w) -> (Y) {
      Y(o,p) +=! (p-k >= 0 && p-k < W) ? X(c,p-k)*w(c,o,k) : 0 where p in 0:W+K-1
    }"""
    np.testing.assert_array_equal(run(backend, source, x, w), transposed(x, w, 1))


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("stride", "taps"), [(2, 3), (2, 4), (3, 3), (3, 5)])
def test_a_strided_transposed_convolution(stride: int, taps: int, backend: str) -> None:
    x, w = numbers(2, 5), numbers(2, 3, taps)
    source = f"""def f(float(C,W) X, float(C,O,K) w) -> (Y) {{
      Y(o,p) +=! (p-k)%{stride} == 0 && (p-k)/{stride} >= 0 && (p-k)/{stride} < W
               ? X(c,(p-k)/{stride})*w(c,o,k) : 0 where p in 0:{stride}*(W-1)+K
    }}"""
    np.testing.assert_array_equal(run(backend, source, x, w), transposed(x, w, stride))


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_stride_and_a_padding_that_are_scalars(stride: int, backend: str) -> None:
    x, w = numbers(2, 5), numbers(2, 3, 3)
    source = """def f(float(C,W) X, float(C,O,K) w, int S, int P) -> (Y) {
      Y(o,p) +=! (p+P-k)%S == 0 && (p+P-k)/S >= 0 && (p+P-k)/S < W
               ? X(c,(p+P-k)/S)*w(c,o,k) : 0 where p in 0:S*(W-1)+K-2*P
    }"""
    np.testing.assert_array_equal(run(backend, source, x, w, stride, 1), transposed(x, w, stride, 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_two_dimensional_padded_convolution(backend: str) -> None:
    x, w = numbers(2, 5, 6), numbers(3, 2, 3, 3)
    source = """def f(float(C,H,W) X, float(O,C,KH,KW) k) -> (Y) {
      Y(o,h,w) +=! h+i >= 1 && h+i <= H && w+j >= 1 && w+j <= W ? X(c,h+i-1,w+j-1)*k(o,c,i,j) : 0
        where h in 0:H, w in 0:W
    }"""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    np.testing.assert_array_equal(run(backend, source, x, w), np.einsum("chwij,ocij->ohw", windows, w))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("depth", [6, 7])
def test_rotary_embedding_by_a_ternary(depth: int, backend: str) -> None:
    half = depth // 2
    x, c, s = numbers(4, depth), numbers(4, depth), numbers(4, depth)
    source = """def f(float(T,D) X, float(T,D) C, float(T,D) S) -> (O) {
      O(t,d) = d < D/2 ? X(t,d)*C(t,d) - X(t,d+D/2)*S(t,d) : X(t,d)*C(t,d-D/2) + X(t,d-D/2)*S(t,d-D/2)
        where d in 0:D
    }"""
    first = x[:, :half] * c[:, :half] - x[:, half : 2 * half] * s[:, :half]
    rest = np.arange(half, depth)
    second = x[:, rest] * c[:, rest - half] + x[:, rest - half] * s[:, rest - half]
    np.testing.assert_array_equal(run(backend, source, x, c, s), np.hstack([first, second]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_rotary_embedding_takes_its_range_from_what_both_branches_read(backend: str) -> None:
    x = numbers(4, 6)
    source = """def f(float(T,D) X) -> (O) {
      O(t,d) = d < D/2 ? X(t,d) - X(t,d+D/2) : X(t,d) + X(t,d-D/2)
    }"""
    turned = np.hstack([x[:, :3] - x[:, 3:], x[:, 3:] + x[:, :3]])
    np.testing.assert_array_equal(run(backend, source, x), turned)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_guarded_update_covers_what_its_tensor_has(backend: str) -> None:
    """The guard keeps the access in range, so that it is not the access that gives i its range."""
    a, w = np.arange(1, 7, dtype=np.float32), np.arange(1, 4, dtype=np.float32)
    source = """def f(float(N) A, float(K) w) -> (B) {
      B(i) = 1.0 where i in 0:N
      B(i) += (i+k >= 1 && i+k <= N ? A(i+k-1) : 0) * w(k)
    }"""
    padded = np.concatenate([np.zeros(1), a, np.zeros(3)])
    expected = [1 + padded[i : i + 3] @ w for i in range(6)]
    np.testing.assert_array_equal(run(backend, source, a, w), expected)


def box(source: str) -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", tc.NarrowedRange)
        kernel = tc.compile(source, "reference")
    (name,) = (o.name for o in kernel.front.checked.returns)
    return kernel.ranges[name]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Alone it gives the range; beside an unguarded access nothing.
        ("B(i) = i >= 1 && i <= N ? A(i-1) : 0", (1, "N")),
        ("B(i) = (i >= 1 && i <= N ? A(i-1) : 0) + C(i)", (0, "M")),
        # One end is not enough to keep it in range.
        ("B(i) = i >= 1 ? A(i-1) : 0", (1, "N")),
        ("B(i) = !(i < 0 || i >= N) ? A(i) : C(i)", (0, "M")),
        ("B(i) = i < 0 || i >= N ? C(i) : A(i)", (0, "M")),
        ("B(i) = i >= 0 ? (i < N ? A(i) : C(i)) : C(i)", (0, "M")),
        # What every branch reads is read whatever the conditions are.
        ("B(i) = i < N/2 ? C(i) + A(i) : C(i)", (0, "M")),
        ("B(i) = i < 3 ? C(i) : (i < 5 ? 2 * C(i) : C(i) / 2)", (0, "M")),
        ("B(i) = min(i, N-1) == i && max(i, 0) == i ? A(i) : C(i)", (0, "M")),
    ],
)
def test_ranges(body: str, expected: tuple[Any, ...]) -> None:
    (found,) = box(f"def f(float(N) A, float(M) C) -> (B) {{ {body} }}")
    assert (found.min, found.extent) == expected


def test_an_access_that_narrows_a_range_is_announced() -> None:
    with pytest.warns(tc.NarrowedRange) as caught:
        tc.compile("def f(float(N) A) -> (B) { B(i) = i >= 1 ? A(i-1) : A(i) }", "reference")
    first, second = (str(w.message).splitlines()[0] for w in caught if w.category is tc.NarrowedRange)
    assert "A(i-1), which is read under a condition" in first
    assert first.endswith("makes the range of 'i' 1:N; without it the range would be 0:N")
    assert second.endswith("makes the range of 'i' 1:N; without it the range would be 1:N + 1")


def test_what_two_accesses_of_one_branch_allow_is_no_narrowing() -> None:
    assert box("def f(float(N) A, float(N) C) -> (B) { B(i) = i >= 0 ? A(i)*C(i) : 0 }")[0].extent == "N"


def test_a_range_that_guards_make_empty_is_refused() -> None:
    with pytest.raises(tc.RangeError, match="which is empty for all sizes") as caught:
        tc.compile("def f(float(N) A) -> (B) { B(i) = i >= N ? A(i) : A(i-N) }", "reference")
    assert caught.value.code == "TC0304"
    assert [n.message.split(" ")[0] for n in caught.value.notes] == ["A(i)", "A(i-N)"]


def test_a_negative_extent_names_the_guarded_accesses() -> None:
    source = "def f(float(N) A) -> (B) { B(i) = i >= 2 ? A(i-2) : A(i+2*N) }"
    with pytest.raises(tc.RangeError, match="negative extent") as caught:
        tc.compile(source, "reference")
    assert [n.message.split(" ")[0] for n in caught.value.notes] == ["A(i-2)", "A(i+2*N)"]
    source = """def f(float(N) x, float(K) w) -> (y) {
      y(h) +=! h-i >= 0 ? x(h-i)*w(i) : 0 where h in 0:N+K-1
    }"""
    with pytest.warns(tc.NarrowedRange):
        kernel = tc.compile(source, "reference")
    with pytest.raises(tc.PreconditionError, match=r"which x\(h-i\) and w\(i\) under a condition give it"):
        kernel(np.ones(4, np.float32), np.ones(3, np.float32))


def test_an_empty_range_is_announced_where_no_size_is_0() -> None:
    kernel = tc.compile("def f(float(N) A, float(K) w) -> (B) { B(i) +=! A(i+k) * w(k) }", "reference")
    one = np.ones(9, np.float32)
    with pytest.warns(tc.EmptyRange, match="the range of 'i' is empty, 0:0, for N = 4, K = 5"):
        assert kernel(one[:4], one[:5]).shape == (0,)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tc.EmptyRange)
        assert kernel(one[:5], one[:5]).shape == (1,)
        assert tc.compile("def g(float(N) A) -> (B) { B(i) = A(i) }", "reference")(one[:0]).shape == (0,)


@pytest.mark.parametrize("guard", ["d >= D/2", "d - D/2 >= 0", "d + D/2 >= 2*(D/2)", "D - d - 1 < D - D/2"])
def test_a_guard_that_calculates_with_a_quotient(guard: str) -> None:
    source = f"def f(float(D) x) -> (y) {{ y(d) = {guard} ? x(d - D/2) : 0 where d in 0:D }}"
    assert not tc.compile(source, "reference").preconditions
    np.testing.assert_array_equal(run("reference", source, np.arange(1, 7, dtype="f4")), [0, 0, 0, 1, 2, 3])


def test_a_guard_that_calculates_with_a_remainder() -> None:
    source = """def f(float(H) x) -> (y) {
      y(i,k) = 2*i + k%3 - 1 >= 0 && 2*i + k%3 - 1 < H ? x(2*i + k%3 - 1) : -1 where i in 0:4, k in 0:9
    }"""
    assert not tc.compile(source, "reference").preconditions
    x = np.arange(5, dtype="f4")
    wanted = [
        [x[2 * i + k % 3 - 1] if 0 <= 2 * i + k % 3 - 1 < 5 else -1 for k in range(9)] for i in range(4)
    ]
    np.testing.assert_array_equal(run("reference", source, x), wanted)


def test_a_guard_that_may_wrap_around_proves_nothing() -> None:
    source = "def f(float(D) x) -> (y) { y(d) = 9*d - D/2 >= 9*d ? x(d - 1) : 0 where d in 0:D }"
    assert tc.compile(source, "reference").preconditions


CUT = {
    "by a bound": "y(i - 1) += x(i) where i in 0:N, i >= 1",
    "by a multiple": "y(i - 1) += x(i) where i in 0:N, i - 1 >= 1 - i",
    "by a size": "y(i + 3) max= x(i) * x(k) where i in 0:N, i + 3 < N, k in 0:N, k > i",
    "an assignment": "y(i) += x(i)\n y(i - 1) = x(i) where i in 0:N, i > 0",
}


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CUT)
def test_conditions_keep_a_write_in_its_tensor(name: str, backend: str) -> None:
    source = f"def f(float(N) x) -> (y) {{ y(i) = 0.0 where i in 0:N\n {CUT[name]} }}"
    for n in (1, 2, 5, 40):
        x = numbers(n)
        y = np.zeros(n, np.float32)
        if name == "an assignment":
            y = np.append(x[1:], x[-1:])
        elif name == "by a size":
            for i in range(n - 3):
                y[i + 3] = max(0, (x[i] * x[i + 1 :]).max(initial=0))
        else:
            y[:-1] = x[1:]
        np.testing.assert_array_equal(run(backend, source, x), y)


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "halide"])
def test_conditions_keep_a_write_in_its_tensor_in_a_loop(backend: str) -> None:
    source = """def f(float(N) x) -> (y) {
      y(i) = 0.0 where i in 0:N
      for t in 0:N { y(i - t) += x(i) where i in 0:N, i >= t }
    }"""
    x = numbers(9)
    np.testing.assert_array_equal(run(backend, source, x), np.cumsum(x[::-1])[::-1])


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu"])
def test_conditions_keep_a_scatter_in_its_tensor(backend: str) -> None:
    source = """def f(float(N) x, int(N) p) -> (y) {
      y(i,j) = 0.0 where i in 0:N, j in 0:N
      y(i-1,p(i)) += x(i) where i in 0:N, i - 1 >= 1 - i
    }"""
    x, p = numbers(6), np.array([5, 0, 3, 3, 1, 2], np.int32)
    y = np.zeros((6, 6), np.float32)
    y[np.arange(5), p[1:]] = x[1:]
    np.testing.assert_array_equal(run(backend, source, x, p), y)


def test_a_start_value_is_not_cut() -> None:
    source = """def f(float(N) x) -> (y) {
      y(i) = 0.0 where i in 0:N
      y(i - 1) +=! x(i) where i in 0:N, i >= 1
    }"""
    with pytest.raises(tc.RangeError, match="outside its range"):
        tc.compile(source, backend="reference")


STRIDED = """def f(float(N) X, float(K) W) -> (Y) {{
  Y(i) +=! {s}*i+{d}*k-{p} >= 0 && {s}*i+{d}*k-{p} < N ? X({s}*i+{d}*k-{p})*W(k) : 0
      where i in 0:(N+{s}-1)/{s}
}}"""


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("stride", "dilation", "padding"), [(4, 1, 1), (16, 1, 8), (3, 2, 4), (1, 7, 21)])
@pytest.mark.parametrize("n", [5, 64])
def test_a_guard_of_a_long_stride(n: int, stride: int, dilation: int, padding: int, backend: str) -> None:
    x, w = numbers(n), numbers(7)
    source = STRIDED.format(s=stride, d=dilation, p=padding)
    padded = np.concatenate([np.zeros(padding), x, np.zeros(8 * dilation + stride)])
    want = [padded[s : s + 7 * dilation : dilation] @ w for s in range(0, n, stride)]
    np.testing.assert_array_equal(run(backend, source, x, w), want)


def test_a_guard_of_a_long_stride_with_dynamic_sizes() -> None:
    kernel = tc.compile(STRIDED.format(s=16, d=1, p=8), "cpu", dynamic=["N"])
    for n in (5, 64, 700):
        x, w = numbers(n), numbers(7)
        padded = np.concatenate([np.zeros(8), x, np.zeros(32)])
        np.testing.assert_array_equal(kernel(x, w), [padded[s : s + 7] @ w for s in range(0, n, 16)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_guard_of_a_magnitude_keeps_its_access_inside(backend: str) -> None:
    source = "def f(float(N) X) -> (Y) { Y(i) = abs(i-4) < N ? X(abs(i-4)) : -1 where i in 0:N }"
    for n in (1, 3, 12):
        x = numbers(n)
        places = abs(np.arange(n) - 4)
        wanted = np.where(places < n, x[np.minimum(places, n - 1)], -1)
        np.testing.assert_array_equal(run(backend, source, x), wanted)


def test_a_guard_that_would_wrap_around_is_refused() -> None:
    """Its indices are int32: for larger sizes the proof that it keeps the access in bounds does not hold."""
    kernel = tc.compile("def f(float(N) X) -> (Y) { Y(i) = 6*i+5 < N ? X(6*i+5) : 0 where i in 0:N }", "cpu")
    (requirement,) = kernel.preconditions
    assert requirement.condition == "6 * max(N - 1, 0) + 5 <= 2147483647"
    kernel.output_shapes(N=300_000_000)
    with pytest.raises(tc.PreconditionError, match="would wrap around in int32"):
        kernel.specialize(N=400_000_000)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_guard_of_bounded_indices_does_not_wrap_around(backend: str) -> None:
    """In int32, and of more than a few indices; each is below a constant, whatever the size."""
    source = """def f(int(2,9) A, int(M) B) -> (Y) {
      Y(i,j) = (6*i+3*j)/9 < -3 ? A((6*i+3*j)/9+5, (6*i+3*j)%9) : B(0) where i in 0:min(M,2), j in 0:2
    }"""
    a, b = np.ones((2, 9), np.int32), np.full(5, 7, np.int32)
    np.testing.assert_array_equal(run(backend, source, a, b), np.full((2, 2), 7))
    assert not [r for r in tc.compile(source, "reference").preconditions if "wrap" in r.reason]

"""Boundary modes (docs/language.md, "Boundary modes"): what an access yields outside its tensor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.expr import IfThenElse, walk
from tc.ir.loops import Compute, If, statements
from tests.backends.cpu_cases import isas
from tests.conformance.running import BACKENDS, run

Array = np.ndarray[Any, Any]
NUMPY = {"clamp": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap"}
MODES = ["zero", "fill=-3", *NUMPY]


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


def padded(x: Array, mode: str, *widths: tuple[int, int]) -> Array:
    if mode in NUMPY:
        return np.pad(x, widths, mode=NUMPY[mode])  # type: ignore[call-overload]
    return np.pad(x, widths, constant_values=-3 if "fill" in mode else 0)


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_one_dimension_far_outside(n: int, mode: str, backend: str) -> None:
    x = numbers(n)
    source = f"def f(float(N) X) -> (Y) {{ Y(i) = X[{mode}](i-7) where i in 0:N+15 }}"
    np.testing.assert_array_equal(run(backend, source, x), padded(x, mode, (7, 8)))


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["double", "int8", "int64", "half"])
def test_other_types(dtype: str, mode: str, backend: str) -> None:
    x = numbers(5, dtype={"double": "f8", "half": "f2"}.get(dtype, dtype))
    source = f"def f({dtype}(N) X) -> ({dtype} Y) {{ Y(i) = X[{mode}](3*i-4) where i in 0:N }}"
    found = run(backend, source, x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, padded(x, mode, (4, 4))[::3][:5])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["zero", "fill=0", "fill=1", *NUMPY])
def test_truth_values_stay_truth_values(mode: str, backend: str) -> None:
    """0 and 1 outside of a tensor of them, too."""
    x = np.array([True, False, False, True, True])
    source = f"def f(bool(N) X) -> (Y) {{ Y(i) = X[{mode}](i-2) where i in 0:N+3 }}"
    found = run(backend, source, x)
    assert found.dtype == np.bool_
    want = (
        np.pad(x, (2, 1), constant_values=mode == "fill=1") if mode not in NUMPY else padded(x, mode, (2, 1))
    )
    np.testing.assert_array_equal(found, want)
    chosen = f"def f(bool(N) X) -> (Y) {{ Y(i) = (X[{mode}](i-2) ? 5 : i) where i in 0:N+3 }}"
    np.testing.assert_array_equal(run(backend, chosen, x), np.where(want, 5, np.arange(8)))


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("h", "w"), [(5, 6), (1, 9), (33, 70)])
def test_a_stencil_in_two_dimensions(h: int, w: int, mode: str, backend: str) -> None:
    x = numbers(h, w)
    m = f"[{mode}]"
    source = f"""def f(float(H,W) X) -> (Y) {{
      Y(i,j) = X{m}(i-1,j) + 2*X{m}(i+1,j) + 3*X{m}(i,j-2) + 4*X{m}(i,j+2) + X(i,j)
    }}"""
    p = padded(x, mode, (1, 1), (2, 2))
    want = p[:-2, 2:-2] + 2 * p[2:, 2:-2] + 3 * p[1:-1, :-4] + 4 * p[1:-1, 4:] + x
    np.testing.assert_array_equal(run(backend, source, x), want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mode_for_each_dimension(backend: str) -> None:
    x, k = numbers(2, 3, 7, 6), numbers(4, 3, 3, 3)
    source = """def f(float(N,C,H,W) X, float(F,C,KH,KW) K) -> (Y) {
      Y(n,f,h,w) +=! X[none,none,fill=2,wrap](n,c,h+kh-1,w+kw-1) * K(f,c,kh,kw) where h in 0:H, w in 0:W
    }"""
    # Outside in h it is 2, whatever w says.
    p = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1)), mode="wrap")
    p = np.pad(p, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=2)
    want = np.zeros((2, 4, 7, 6), np.float32)
    for a in range(3):
        for b in range(3):
            want += np.einsum("nchw,fc->nfhw", p[:, :, a : a + 7, b : b + 6], k[:, :, a, b])
    np.testing.assert_array_equal(run(backend, source, x, k), want)


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_a_temporary_with_an_origin(mode: str, backend: str) -> None:
    x = numbers(9)
    source = f"""def f(float(N) X) -> (Y) {{
      T(i) = X(i+1) - X(i-2)
      Y(i) = T[{mode}](i-3) + T[{mode}](i+4) where i in 0:N
    }}"""
    t = x[3:] - x[:-3]  # T(2), T(3), ...
    p = padded(t, mode, (8, 8))
    want = [p[i - 3 - 2 + 8] + p[i + 4 - 2 + 8] for i in range(9)]
    np.testing.assert_array_equal(run(backend, source, x), want)


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_subscripts_that_data_give(mode: str, backend: str) -> None:
    x, at = numbers(6), np.asarray([-7, -1, 0, 3, 5, 6, 12], np.int32)
    source = f"def f(float(N) X, int(M) at) -> (Y) {{ Y(i) = X[{mode}](at(i)) }}"
    np.testing.assert_array_equal(run(backend, source, x, at), padded(x, mode, (7, 7))[at + 7])


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_across_a_call(mode: str, backend: str) -> None:
    x = numbers(8)
    source = f"""
    def shifted(float(N) A) -> (B) {{ B(i) = A[{mode}](i-2) where i in 0:N+2 }}
    def f(float(N) X) -> (Y) {{
      t(i) = X(i) - X(i-1)
      Y = shifted(t)
    }}"""
    np.testing.assert_array_equal(run(backend, source, x), padded(np.diff(x), mode, (2, 0)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fill_of_a_scalar(backend: str) -> None:
    x = numbers(4)
    source = "def f(float(N) X, float s) -> (Y) { Y(i) = X[fill=2*s-1](i-1) where i in 0:N+1 }"
    assert run(backend, source, x, 3.5).tolist() == [6, *x.tolist()]


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("mode", MODES)
def test_dynamic_sizes(mode: str, backend: str) -> None:
    source = f"def f(float(N,M) X) -> (Y) {{ Y(i,j) = X[{mode}](i-2,j+1) where i in 0:N, j in 0:M }}"
    kernel = tc.compile(
        source, backend, dynamic=("N", "M") if mode in ("zero", "fill=-3", "clamp") else ("N",)
    )
    for n, m in ((3, 5), (17, 40), (64, 33)):
        x = numbers(n, m)
        np.testing.assert_array_equal(kernel(x), padded(x, mode, (2, 0), (0, 1))[:n, 1:])


@pytest.mark.share(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_distance_as_a_subscript(n: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle of loop nests could not tell which statements run."""
    monkeypatch.setenv("TC_VERIFY", "1")
    x, z = numbers(n, n), numbers(n)
    head = "def f(float(N,N) X, float(N) Z)"
    pointwise = f"{head} -> (Y) {{ Y(i) = X(i,i) + Z[zero](abs(i-1)) + Z[clamp](abs(i-2)) }}"
    greatest = f"{head} -> (M) {{ M max=! X(i,i) + Z[zero](abs(i-1)) + X(j,j) }}"
    near = [z[abs(i - 1)] if abs(i - 1) < n else 0 for i in range(n)]
    far = [z[min(abs(i - 2), n - 1)] for i in range(n)]
    np.testing.assert_array_equal(run(backend, pointwise, x, z), np.diag(x) + near + far)
    assert run(backend, greatest, x, z) == (np.diag(x) + near).max() + np.diag(x).max()


def test_a_moded_dimension_gives_no_range() -> None:
    with pytest.raises(tc.RangeError, match="the range of 'i' is unconstrained"):
        tc.compile("def f(float(N) X) -> (Y) { Y(i) = X[clamp](i-1) }", "reference")
    ranges = tc.compile("def f(float(N) X, float(M) Z) -> (Y) { Y(i) = X[wrap](i-1) + Z(i) }").ranges
    assert str(ranges["Y"]) == "([0, M),)"
    ranges = tc.compile("def f(float(N,M) X) -> (Y) { Y(i,j) = X[none,zero](i,j-1) where j in 0:9 }").ranges
    assert str(ranges["Y"][0]) == "[0, N)"


def test_no_warning_and_no_check() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = tc.compile("def f(float(N) X, int(M) I) -> (Y) { Y(i) = X[clamp](I(i)) }", "reference")
    assert not any("checked when the kernel runs" in n for n in kernel.notes)


@pytest.mark.parametrize("mode", list(NUMPY))
def test_a_mode_that_maps_needs_an_element(mode: str) -> None:
    source = f"def f(float(N) X, float(M) Z) -> (Y) {{ Y(i) = X[{mode}](i) + Z(i) }}"
    kernel = tc.compile(source, "reference")
    with pytest.raises(tc.PreconditionError, match=rf"X\[{mode}\] reads dimension 0, which has no elements"):
        kernel(numbers(0), numbers(3))
    assert kernel(numbers(0), numbers(0)).shape == (0,)
    filled = source.replace(mode, "zero")
    np.testing.assert_array_equal(run("reference", filled, numbers(0), numbers(3)), numbers(3))


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("X[zero,clamp](i)", "expected one boundary mode or 1 mode for 'X' but found 2"),
        ("X[mirror](i)", "'mirror' is no boundary mode.*\\n(.*\\n)*.*it is called reflect here"),
        ("X[fill](i)", "the boundary mode 'fill' needs a value"),
        ("X[zero=1](i)", "the boundary mode 'zero' takes no value"),
        ("X[fill=i](i)", "the value outside a tensor is a constant"),
        ("X[fill=X(0)](i)", "the value outside a tensor is a constant"),
        ("exp[zero](X(i))", "'exp' is no tensor that is defined here"),
    ],
)
def test_modes_that_are_none(access: str, message: str) -> None:
    with pytest.raises(tc.SemanticError, match=message) as caught:
        tc.compile(f"def f(float(N) X) -> (Y) {{ Y(i) = {access} where i in 0:N }}", "reference")
    assert caught.value.code == "TC0229"


def test_brackets_of_half_open_ranges_are_no_modes() -> None:
    source = """def f(float(N) X) -> (Y, Z) {
      Y(i) = X(i) where i in [0, N[
      Z(i) = X[ fill = -1 ] (i-1) where i in [0, N[
    }"""
    y, z = tc.compile(source, "reference")(numbers(3))
    assert z.tolist() == [-1, *y[:2].tolist()]


@pytest.mark.parametrize("mode", MODES)
def test_the_interior_has_no_conditions_on_cpu(mode: str) -> None:
    """One test for a tile; under it each point reads its neighbours as if there were no border."""
    m = f"[{mode}]"
    source = f"""def f(float(H,W) X) -> (Y) {{
      Y(i,j) = X{m}(i-1,j) + X{m}(i+1,j) + X{m}(i,j-1) + X{m}(i,j+1) + X(i,j)
    }}"""
    one: Any = tc.compile(source, "cpu").specialize(H=512, W=512).compiled
    nest = one.nest
    interior = next(s.then for s in statements(nest.body) if isinstance(s, If))
    (inside,) = (s for s in statements(interior) if isinstance(s, Compute))
    assert not any(isinstance(e, IfThenElse) for e in walk(inside.value))
    assert sum(isinstance(s, Compute) for s in statements(nest.body)) == 2


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_a_strided_padded_convolution_into_few_filters(isa: str) -> None:
    """Lanes are filters, which all read one padded element, in a window whose rows are padded too."""
    if isa not in isas():
        pytest.skip(f"this processor has no {isa}")
    source = """def f(float(C,H,W) x, float(F,C,3,3) w) -> (y) {
      y(f,i,j) +=! x[none,zero,zero](c,2*i+u-1,2*j+v-1) * w(f,c,u,v) where i in 0:H/2, j in 0:W/2
    }"""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, s).astype("f4") for s in ((3, 8, 8), (4, 3, 3, 3)))
    code = tc.compile(source, "cpu", options={"isa": isa}).inspect("llvm", C=3, H=8, W=8, F=4)
    assert "fmuladd" in code or "fma" in code
    np.testing.assert_array_equal(run("cpu", source, x, w), run("interpret", source, x, w))


def test_a_mode_of_all_dimensions_says_why_there_is_no_range() -> None:
    source = "def f(float(N,H) x, float(K) w) -> (y) { y(n,i) +=! x[MODE](n,i+k) * w(k) where i in 0:H }"
    for mode, shown in (("zero", "none,zero"), ("clamp", "none,clamp"), ("fill=2.5", "none,fill=2.5")):
        with pytest.raises(tc.RangeError, match="'n' is unconstrained") as e:
            tc.compile(source.replace("MODE", mode), backend="reference")
        assert f"write x[{shown}](…), or give it one: where n in 0:…" in str(e.value)


def test_a_mode_in_a_later_statement_of_the_tensor_says_so_too() -> None:
    source = """def f(float(N,H) x, float(K) w, float b) -> (y) {
      y(n,i) = b where i in 0:H
      y(m,i) += x[zero](m,i+k) * w(k)
    }"""
    with pytest.raises(tc.RangeError, match="'n' is unconstrained") as e:
        tc.compile(source, backend="reference")
    assert "write x[none,zero](…), or give it one: where n in 0:…" in str(e.value)

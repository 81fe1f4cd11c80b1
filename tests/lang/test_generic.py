"""Type variables (docs/language.md, "Statements"): one source for every element type."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tc.lang.format import format_program
from tc.lang.parse import parse
from tc.lang.type_variables import mentions_variables

MM = "def mm<T>(T(M,K) A, T(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SCALE = """def scale<T: floating, I: integral>(T(V,D) E, I(N) at, T s) -> (T(N,D) y) {
  y(n,d) = (E(at(n),d) + 0.5) * s / T(2)
}"""
SQUARE = "def f<T: floating>(T(N) x) -> (y) { y(i) = x(i) * x(i) }"
pytestmark = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")


def test_the_formatter_keeps_them() -> None:
    for source in (MM, SCALE, "def f<T: number>(T x) -> (double y, T z) { y = x  z = x }"):
        text = format_program(parse(source))
        assert parse(text) == parse(source)
        assert format_program(parse(text)) == text
    assert format_program(parse(SCALE)).startswith("def scale<T: floating, I: integral>(T(V,D) E, I(N) at")


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl", "interpret"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8"])
def test_the_arrays_of_a_call_give_the_types(dtype: str, backend: str) -> None:
    a = np.arange(6, dtype=dtype).reshape(2, 3)
    b = np.arange(12, dtype=dtype).reshape(3, 4)
    found = tc.interpret(MM, a, b) if backend == "interpret" else tc.compile(MM, backend=backend)(a, b)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, a @ b)


def test_several_variables_with_bounds() -> None:
    kernel: Any = tc.compile(SCALE, backend="reference")
    for dtype in (np.float32, np.float64):
        e = np.arange(6, dtype=dtype).reshape(3, 2)
        for index in (np.int16, np.int64):
            found = kernel(e, np.array([2, 0], index), 3.0)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, (e[[2, 0]] + 0.5) * 1.5)
    assert len(kernel.kernels) == 4 and kernel.ranges is not None


def test_types_by_name() -> None:
    kernel = tc.compile(MM, backend="reference", types={"T": "double"})
    assert isinstance(kernel, tc.Kernel)
    with pytest.raises(tc.DTypeError, match="float32"):
        kernel(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    open_kernel: Any = tc.compile(MM, backend="reference")
    assert open_kernel.at(T="int")(np.eye(2, dtype=np.int32), np.eye(2, dtype=np.int32)).dtype == np.int32


def test_numbers_alone_give_a_type() -> None:
    kernel = tc.compile("def f<T>(T a) -> (y) { y = a + a }", backend="reference")
    assert kernel(2).dtype == np.int32 and kernel(2.5).dtype == np.float64
    assert kernel(np.float32(2.5)).dtype == np.float32


CALLS = """
def square<T>(T(N) x) -> (y) { y(i) = x(i) * x(i) }
def twice<T: floating>(T(N) x) -> (y) { u = square(x)  y = square(u) }
def both(double(N) a, float(N) b) -> (p, q, r) {
  t(i) = a(i) + 1
  p = twice(t)
  q = square(b)
  s(i) = int(b(i))
  r = square(s)
}"""


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_call_binds_them_by_what_is_passed(backend: str) -> None:
    p, q, r = tc.compile(CALLS, backend=backend)(np.array([1.0, 2.0]), np.array([3, 4], np.float32))
    assert (p.dtype, q.dtype, r.dtype) == (np.float64, np.float32, np.int32)
    assert (p.tolist(), q.tolist(), r.tolist()) == ([16, 81], [9, 16], [9, 16])


def test_a_call_in_a_generic_def() -> None:
    source = "def one<T>(T(N) x) -> (y) { y(i) = x(i) }\ndef two<U>(U(N) x) -> (y) { y = one(x) }"
    for dtype in (np.float32, np.int64):
        assert tc.compile(source, backend="reference")(np.ones(2, dtype)).dtype == dtype


def test_a_kernel_travels() -> None:
    kernel = pickle.loads(pickle.dumps(tc.compile(MM, backend="reference")))
    assert kernel(np.eye(2), np.eye(2)).tolist() == [[1, 0], [0, 1]]
    inner = pickle.loads(pickle.dumps(kernel.at(T="half")))
    assert inner(np.eye(2, dtype=np.float16), np.eye(2, dtype=np.float16)).dtype == np.float16


def test_gradients_and_tuning_take_types() -> None:
    text = tc.grad("def f<T: floating>(T(N) x) -> (y) { y(i) = x(i) * x(i) }", types={"T": "double"})
    found = tc.compile(text, backend="reference")(np.array([1.0, 2.0]), np.ones(2))
    assert found.tolist() == [2, 4]


def test_operators_take_types_from_tensors() -> None:
    torch = pytest.importorskip("torch")
    op = tc.torch.op("def f<T: floating>(T(N) x) -> (y) { y(i) = x(i) * x(i) }")
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([1.0, 3.0], dtype=dtype, requires_grad=True)
        y = op(x)
        y.sum().backward()
        assert y.dtype == dtype and x.grad.tolist() == [2, 6]


INTS = np.ones((2, 2), np.int32)


def test_a_bound_kernel_becomes_an_operator_or_is_tuned() -> None:
    torch = pytest.importorskip("torch")
    kernel: Any = tc.compile(SQUARE, backend="cpu").at(T="double")
    x = torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True)
    tc.torch.op(kernel)(x).sum().backward()
    assert x.grad.tolist() == [2, 6]
    jax = pytest.importorskip("jax")
    single: Any = tc.compile(SQUARE, backend="cpu").at(T="float")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.PerformanceNotice)
        found = jax.grad(lambda x: tc.jax.op(single)(x).sum())(jax.numpy.array([1.0, 3.0]))
    assert found.tolist() == [2, 6]
    tuned = kernel.tune(np.arange(100.0), trials=1, budget=None, jobs=1, records=False)
    assert tuned.kernel(np.array([2.0])).tolist() == [4] and not tuned.failed
    sac: Any = tc.compile("double[.] f(double[.] A) { return A; }", lang="sac", backend="reference")
    with pytest.raises(tc.ArgumentError, match=r"tc.torch.op is for programs in the notation of tensor"):
        tc.torch.op(sac)


REFUSED = {
    "arrays that differ": (MM, (np.eye(2), np.eye(2, dtype=np.float32)), "is float64 by A, and float32 by B"),
    "a type beyond a bound": (SCALE, (INTS, np.zeros(1, np.int32), 1.0), "must be floating"),
    "no array": (MM, (), "nothing says what the type variable T"),
    "bool": (MM, (np.ones((2, 2), np.bool_), np.ones((2, 2), np.bool_)), "must be a number"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    source, args, text = REFUSED[name]
    with pytest.raises(tc.DTypeError, match=text):
        tc.compile(source, backend="reference")(*args)
    with pytest.raises(tc.DTypeError, match=text):
        tc.interpret(source, *args)


ILL_FORMED = {
    "def f<T: real>(T(N) x) -> (y) { y(i) = x(i) }": "'real' is no bound",
    "def f<T, T>(T(N) x) -> (y) { y(i) = x(i) }": "'T' is a type variable already",
    "def f<float>(float(N) x) -> (y) { y(i) = x(i) }": "'float' is a type",
    "def f<T>(U(N) x) -> (y) { y(i) = x(i) }": "'U' is no type",
    "def f(f32(N) x) -> (y) { y(i) = x(i) }": "'f32' is no type",
    "def f<>(float(N) x) -> (y) { y(i) = x(i) }": "unexpected '>', expected a name",
    "def g<T>(T(N) x) -> (y) { y(i) = x(i) }\ndef f(T(N) x) -> (y) { y(i) = x(i) }": "'T' is no type",
}


@pytest.mark.parametrize("source", ILL_FORMED)
def test_what_is_no_type_variable(source: str) -> None:
    with pytest.raises(tc.ParseError, match=ILL_FORMED[source]):
        tc.compile(source, backend="reference")


def test_a_source_is_checked_before_any_types_are_known() -> None:
    with pytest.raises(tc.SemanticError, match="unknown name"):
        tc.compile("def f<T>(T(N) x) -> (y) { y(i) = x(i) + z }", backend="reference")
    tc.compile("def f<T>(T(N) x) -> (y) { y(i) = x(i) % 2 }", backend="reference")  # legal for integers
    with pytest.raises(tc.DTypeError, match="float32 stored"):
        tc.compile("def f<T>(T(N) x) -> (int y) { y(i) = x(i) / 0.5 }", backend="reference")
    with pytest.raises(tc.SemanticError, match="defined twice"):
        tc.compile("def f<T>(T(N) x) -> (y) { y(i) = x(i) }\n" * 2, backend="reference")


def test_wrong_types_by_name() -> None:
    with pytest.raises(tc.ArgumentError, match="no type variable 'U'"):
        tc.compile(MM, backend="reference", types={"U": "double"})
    with pytest.raises(tc.ArgumentError, match="'flot' is no element type"):
        tc.compile(MM, backend="reference", types={"T": "flot"})
    with pytest.raises(tc.ArgumentError, match="this one has none"):
        tc.compile("def f(float(N) x) -> (y) { y(i) = x(i) }", backend="reference", types={"T": "float"})
    with pytest.raises(tc.DTypeError, match="sizes= needs the type of T"):
        tc.compile(MM, backend="reference", sizes={"M": 2, "N": 2, "K": 2})


def test_a_source_without_variables_is_not_parsed_to_see_that() -> None:
    assert not mentions_variables("def f(float(N) x) -> (y) { y(i) = x(i) < 0 ? 0 : x(i) }")
    assert not mentions_variables("def f(float(N) x) -> (y) { y(i) = x(i) } # def g<T>(T(N) x)")
    assert mentions_variables("def # a def\n  f # of any type\n <T>(T(N) x) -> (y) { y(i) = x(i) }")
    assert mentions_variables(MM) and mentions_variables(CALLS)

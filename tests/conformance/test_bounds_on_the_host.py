"""Bounds with casts and floats: the host computes them in the types of the language."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import tc
from tests.conformance.running import BACKENDS, run

CASES: list[tuple[str, Callable[[int], int]]] = [
    ("int32(N*1.5)", lambda n: int(n * 1.5)),
    ("int(float(N))", lambda n: n),
    ("int8(N)", lambda n: n),
    ("int(sqrt(float(N)))", math.isqrt),
    ("int(float(N)*2.5)", lambda n: int(n * 2.5)),
    ("int(ceil(float(N)/3.0)) + 1", lambda n: -(-n // 3) + 1),
    ("int(round(float(N)/2.0))", lambda n: (n + 1) // 2),
    ("min(N, int(double(N)*0.3))", lambda n: int(n * 0.3)),
    ("select(float(N) > 8.0, N/2, N)", lambda n: n // 2 if n > 8 else n),
    ("int(float(N)*float(p))", lambda n: 2 * n),
    ("uint8(N + 250) % 7", lambda n: (n + 250) % 256 % 7),
]


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [1, 7, 16])
@pytest.mark.parametrize(("bound", "extent"), CASES)
def test_bounds(bound: str, extent: Callable[[int], int], n: int, backend: str) -> None:
    values = np.random.default_rng(0).random(n, np.float32)
    source = f"def f(float(N) X, int p) -> (Y) {{ Y(i) = X(i % N) where i in 0:{bound} }}"
    np.testing.assert_array_equal(run(backend, source, values, 2), values[np.arange(extent(n)) % n])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_each_size_of_a_call_has_its_own_bound(backend: str) -> None:
    source = "def f(float(N) X, float(M) Z) -> (Y) { Y(i,j) = X(i) * Z(j) where i in 0:int(N*0.5) }"
    for kernel in (tc.compile(source, backend), tc.compile(source, backend, dynamic=("N", "M"))):
        for n, m in ((8, 3), (5, 3), (8, 2), (0, 1)):
            x, z = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
            np.testing.assert_array_equal(kernel(x, z), np.outer(x[: int(n * 0.5)], z))


def test_ranges_wait_for_the_size() -> None:
    kernel = tc.compile("def f(float(N) X) -> (Y) { Y(i) = X(i) where i in 0:int(N*0.5) }", "reference")
    assert str(kernel.ranges["Y"][0]) == "depends on N"
    assert kernel.ranges.at(N=9)["Y"] == (tc.Range(0, 4),)
    assert kernel.output_shapes(N=9) == {"Y": (4,)}
    assert "for" in kernel.inspect("loops", N=9)


def test_float32_is_float32() -> None:
    """16777217 is no float32: 2^24 + 1 becomes 2^24."""
    kernel = tc.compile("def f(float(N) X) -> (Y) { Y(i) = 1.0 where i in 0:int(float(N)) }", "reference")
    assert kernel.ranges.at(N=16777217)["Y"] == (tc.Range(0, 16777216),)


@pytest.mark.parametrize("bound", ["int(s)", "int(float(X.0)*0.5)", "int(tgamma(float(N)))"])
def test_what_the_host_cannot_compute_is_an_error(bound: str) -> None:
    source = f"def f(float(N) X, float s) -> (Y) {{ Y(i) = X(i) where i in 0:{bound} }}"
    with pytest.raises(tc.RangeError) as caught:
        tc.compile(source, "reference").ranges.at(N=4)
    assert caught.value.code == "TC0310"


@pytest.mark.parametrize(
    ("statements", "n", "message"),
    [
        ("Y(i) = X(i) where i in 0:int(float(N)*1.1)", 15, "X(i) is out of bounds, for N = 15"),
        ("Y(i) = X(i/2) where i in 0:int(float(N)*2.5)", 4, "X(i/2) is out of bounds, for N = 4"),
        ("Y(i) = X(i) where i in 0:int(N*0.5)-3", 4, "has the negative extent -1, for N = 4"),
        (
            "Y(i) = X(i)  Y(i) += 1 where i in 0:int(N*1.1)",
            15,
            "0:N: the sizes must satisfy 16 <= N, but N = 15",
        ),
    ],
)
def test_what_one_size_rules_out_is_no_error_of_the_program(statements: str, n: int, message: str) -> None:
    source = f"def f(float(N) X) -> (Y) {{ {statements} }}"
    kernel = tc.compile(source, "reference")
    calls: tuple[Callable[..., object], ...] = (kernel, lambda x: tc.interpret(source, x))
    for call in calls:
        with pytest.raises(tc.PreconditionError) as e:
            call(np.ones(n, np.float32))
        assert e.value.code == "TC0601" and message in e.value.message
    assert np.shape(kernel(np.ones(0 if "-3" not in statements else 8, np.float32)))


def test_a_scalar_of_a_call_is_named_where_it_rules_a_range_out() -> None:
    kernel = tc.compile("def f(float(N) X, int s) -> (Y) { Y(i) = X(i) where i in 0:N+s }", "reference")
    with pytest.raises(tc.PreconditionError, match=r"X\(i\) is out of bounds, for s = 2") as e:
        kernel(np.ones(4, np.float32), 2)
    assert e.value.code == "TC0601"
    assert kernel(np.ones(4, np.float32), -1).shape == (3,)


@pytest.mark.parametrize(
    ("statements", "shown"),
    [
        ("Y(i) = X(i) where i in 0:int(N*0.4)  Y(i) = X(i) where i in int(N*0.6):N", "for N = 15;"),
        ("Y(i) = X(i)  Y(i) = Y(i+1) where i in 0:int(N*0.6)", "for N = 15;"),
        ("Y(i) = X(i) where i in 0:N/s  Y(i) = X(i) where i in N/s+1:N", "for N = 1, s = 2;"),
    ],
)
def test_an_example_has_the_values_of_the_call(statements: str, shown: str) -> None:
    kernel = tc.compile(f"def f(float(N) X, int s) -> (Y) {{ {statements} }}", "reference")
    with pytest.raises(tc.SemanticError) as e:
        kernel(np.ones(15, np.float32), 2)
    assert shown in (e.value.help or "")

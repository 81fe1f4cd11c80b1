"""Prefixes of vectors in log steps: which loops are some, and that they compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import code_of, compiled, interpreted, isas

HEAD = "def f({t}(N,D) x, {t}(D) u) -> ({t} y) {{ y(n,d) {op} "
FOUND = {
    "a chunk": "x(n,16*(d/16)+k) where k in 0:16, k <= d % 16, d in 0:D }",
    "before the point": "x(n,16*(d/16)+k) where k in 0:16, k < d % 16, d in 0:D }",
    "of what is computed": "(x(n,16*(d/16)+k) - u(k)) * k where k in 0:16, k <= d % 16, d in 0:D }",
    "in each of larger chunks": "x(n,16*(d/16)+k) * u(d/32) where k in 0:16, k <= d % 16, d in 0:D }",
}
LEFT = {
    "values that differ between lanes": "x(n,16*(d/16)+k) * u(d) where k in 0:16, k <= d % 16, d in 0:D }",
    "chunks that begin between lanes": "x(n,k) where k in 0:16, k <= (d+3) % 16, d in 0:D }",
    "chunks of other lengths": "x(n,k) where k in 0:12, k <= d % 12, d in 0:D }",
    "elements from the point on": "x(n,k) where k in 0:16, k >= d % 16, d in 0:D }",
    "some elements": "x(n,k) where k in 0:9, k <= d % 16, d in 0:D }",
    "lanes in another order": "x(n,k) where k in 0:16, k <= (D-1-d) % 16, d in 0:D }",
}


def loops_of(body: str, op: str = "+=!", sizes: tuple[int, int] = (7, 256)) -> str:
    kernel = tc.compile(HEAD.format(t="float", op=op) + body, "cpu")
    program = kernel.program({"N": sizes[0], "D": sizes[1]})
    return str(code_of(program, tc.Options(vector=1, register_tile=(1, 32))).nest)


@pytest.mark.parametrize("name", FOUND)
def test_loops_that_are_prefixes(name: str) -> None:
    assert "PREFIX" in loops_of(FOUND[name])


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_are_none(name: str) -> None:
    assert "PREFIX" not in loops_of(LEFT[name])


@pytest.mark.share(18)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("name", [*FOUND, *LEFT])
def test_results(name: str, isa: str) -> None:
    body = {**FOUND, **LEFT}[name]
    for op in ("+=!", "max=!"):
        source = HEAD.format(t="float", op=op) + body
        kernel = compiled(source, isa=isa)
        for d in (256, 100, 37, 16):
            rng = np.random.default_rng(d)
            x = rng.integers(-9, 10, (3, d)).astype(np.float32)
            u = rng.integers(-2, 3, d).astype(np.float32)
            np.testing.assert_array_equal(kernel(x, u), interpreted(source, x, u)[0])


@pytest.mark.share(180)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("t", ["float", "double", "half", "int", "int8", "uint16", "int64"])
@pytest.mark.parametrize(
    ("op", "ufunc"), [("+", np.add), ("*", np.multiply), ("max", np.maximum), ("min", np.minimum)]
)
def test_results_of_long_prefixes(op: str, ufunc: np.ufunc, t: str, isa: str) -> None:
    dtype = np.dtype({"float": "f4", "double": "f8", "half": "f2", "int": "i4"}.get(t, t))
    for condition in ("k <= d", "k < d"):
        source = f"def f({t}(N,D) x) -> ({t} y) {{ y(n,d) {op}=! x(n,k) where {condition}, d in 0:D }}"
        kernel = compiled(source, isa=isa)
        for n, d in ((2, 300), (1, 777), (3, 35)):
            least, most = (1, 2) if op == "*" else (0 if t == "uint16" else -3, 4)
            x = np.random.default_rng(d).integers(least, most, (n, d)).astype(dtype)
            want = ufunc.accumulate(x, axis=1, dtype=dtype)
            y = np.asarray(kernel(x))
            whole = condition == "k <= d"
            np.testing.assert_array_equal(y if whole else y[:, 1:], want if whole else want[:, :-1])


@pytest.mark.parametrize("op", ["max", "min"])
def test_nan_and_infinities(op: str) -> None:
    source = f"def f(float(N,D) x) -> (y) {{ y(n,d) {op}=! x(n,k) where k <= d, d in 0:D }}"
    x = np.random.default_rng(0).standard_normal((4, 200)).astype(np.float32)
    x[0, 70], x[1, 3], x[2, 199], x[3, 100], x[3, 101] = np.nan, -np.inf, np.nan, np.inf, np.nan
    want = getattr(np, f"{op}imum").accumulate(x, axis=1)
    np.testing.assert_array_equal(compiled(source)(x), want)


def test_lengths_that_are_known_at_the_call() -> None:
    source = "def f(float(N,D) x) -> (y) { y(n,d) max=! x(n,k) where k <= d, d in 0:D }"
    kernel = tc.compile(source, "cpu", dynamic=("D",))
    for d in (1, 15, 16, 33, 500):
        x = np.random.default_rng(d).standard_normal((3, d)).astype(np.float32)
        np.testing.assert_array_equal(kernel(x), np.maximum.accumulate(x, axis=1))

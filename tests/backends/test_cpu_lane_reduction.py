"""Several short rows at a time on the cpu backend: their lanes are reduced together, and loop-invariant
values of a row are computed before it."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import tc
from tc import registry
from tests.backends.cpu_cases import code_of, compiled, interpreted, isas, same

ROW = "def f({t}(M,K) A) -> (y) {{ y(i) {op}! A(i,k) }}"
SOFTMAX = """def softmax(float(N,D) I) -> (O, M, S) {
  M(n) max=! I(n,d)
  O(n,d) = exp(I(n,d) - M(n))
  S(n) +=! O(n,d)
  O(n,d) = O(n,d) / S(n)
}"""
RMS = """def rms(float(N,D) A) -> (S, O) {
  S(n) +=! A(n,d) * A(n,d)
  O(n,d) = A(n,d) * rsqrt(S(n) / float(D) + 0.25)
}"""


@pytest.fixture(scope="module")
def lane_reduction() -> Any:
    registry.get("cpu")
    return sys.modules["tc_backends.cpu.emit.lane_reduction"]


@pytest.mark.parametrize(("lanes", "itemsize"), [(2, 8), (4, 4), (4, 8), (8, 2), (8, 4), (8, 8), (16, 4)])
def test_each_vector_is_reduced_to_one_lane(lane_reduction: Any, lanes: int, itemsize: int) -> None:
    """In order, and each as the halves of it alone would be combined."""

    def alone(vector: list[Any]) -> Any:
        while len(vector) > 1:
            half = len(vector) // 2
            vector = list(zip(vector[:half], vector[half:], strict=True))
        return vector[0]

    count = 2
    while count <= lanes:
        vectors = [[(v, i) for i in range(lanes)] for v in range(count)]
        steps, order = lane_reduction.steps(count, lanes, itemsize)
        left: list[list[Any]] = [vectors[i] for i in order]
        for step in steps:
            assert step.lanes == len(left[0])
            sources = [a + b for a, b in zip(left[::2], left[1::2], strict=True)] if left[1:] else left
            left = [[(s[i], s[j]) for i, j in zip(step.first, step.second, strict=True)] for s in sources]
        assert left == [[alone(v) for v in vectors]]
        count *= 2


def test_groups_are_powers_of_two(lane_reduction: Any) -> None:
    for lanes in (2, 4, 8, 16):
        for count in range(40):
            found = lane_reduction.groups(count, lanes)
            assert sum(found) == count
            assert all(n & (n - 1) == 0 and n <= lanes for n in found)
            assert found == sorted(found, reverse=True)
    # As many vectors as lanes: each combination leaves one vector fewer.
    assert lane_reduction.combinations(8, 8) == 7
    assert lane_reduction.combinations(1, 8) == 3


@pytest.mark.share(54)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(
    ("t", "op"),
    [("float", "+="), ("float", "max="), ("double", "+="), ("double", "min="), ("int32", "+="),
     ("int32", "*="), ("int8", "+="), ("float16", "+="), ("uint16", "max=")],
)  # fmt: skip
def test_rows_reduced_together_equal_rows_reduced_alone(t: str, op: str, isa: str) -> None:
    """Sums of integers, which are exact in any order; NaN and infinities."""
    source = ROW.format(t=t, op=op)
    rng = np.random.default_rng(5)
    dtype = {"float": "f4", "double": "f8", "float16": "f2", "uint16": "u2"}.get(t, t)
    a = rng.integers(0 if t[0] == "u" else -9, 10, (23, 67)).astype(dtype)
    if a.dtype.kind == "f":
        a[3, 33], a[5, 1], a[6, 0] = np.nan, np.inf, -0.0
    (want,) = interpreted(source, a)
    for rows in (1, 8, 13):
        same(want, compiled(source, vector=-1, register_tile=(rows,), isa=isa)(a))


@pytest.mark.parametrize("isa", isas())
def test_results_of_a_product_of_rows(isa: str) -> None:
    """Both factors in rows along the reduction: results side by side and one below the other, with
    remainders."""
    source = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    rng = np.random.default_rng(7)
    for m, n, k in ((26, 26, 72), (7, 9, 33), (3, 4, 8)):
        a, b = (rng.integers(-4, 5, s).astype("f4") for s in ((m, k), (n, k)))
        for tile in ((3, 4), (4, 3), (2, 4), (1, 7)):
            got = compiled(source, vector=-1, register_tile=tile, isa=isa)(a, b)
            np.testing.assert_array_equal(got, a @ b.T)


@pytest.mark.parametrize("source", [SOFTMAX, RMS])
def test_several_short_rows_are_reduced_together(source: str) -> None:
    def chosen(n: int, d: int) -> str:
        choice = code_of(compiled(source).program({"N": n, "D": d})).choice
        return next(x for x in choice.splitlines() if x.startswith("  *"))

    assert re.search(r"n_0 x[48]", chosen(4096, 64))
    assert "n_0" not in chosen(256, 4096)
    assert "n_0" not in chosen(1, 64)


@pytest.mark.parametrize("isa", isas())
def test_loop_invariant_values_are_computed_before_the_loop(isa: str) -> None:
    kernel = compiled(RMS, isa=isa)
    text = kernel.inspect("llvm", N=64, D=4096)
    loop = text[text.index("loop-S2") :]
    assert text.count("@llvm.sqrt.f32(") == 2  # with its declaration
    assert "@llvm.sqrt" in text[: text.index("loop-S2")]
    assert "@llvm.sqrt.f32(" not in loop[loop.index("phi") : loop.index("after")]
    a = np.random.default_rng(1).standard_normal((64, 4096)).astype("f4")
    for want, got in zip(interpreted(RMS, a), kernel(a), strict=True):
        same(want, got, 4096.0)


@pytest.mark.share(54)
@pytest.mark.parametrize(
    ("source", "shapes"),
    [
        # Its loop changes the divisor.
        ("def f(float(N,D) A) -> (S,O) { S(n) +=! A(n,d)\n O(n,d) = A(n,d) / (S(n) + 1.0)\n S(n) += O(n,d) }",
         [(5, 40)]),
        # The same element without a quotient, before and after it.
        ("def f(float(N,D) A, float(N) B) -> (O) { O(n,d) = B(n) + A(n,d) * (1.0 / B(n)) + B(n) }",
         [(5, 40), (5,)]),
        # Under a condition, without which the element is outside of the array.
        ("def f(float(N,D) A, float(N) B) -> (O) { O(n,d) = n + 1 < N ? A(n,d) * sqrt(B(n + 1)) : 1.0\n"
         " where n in 0:N }", [(5, 40), (5,)]),
        # Of a loop that has no iterations.
        ("def f(float(N,D) A, float(N) B) -> (S) { S(n) +=! A(n,d) * sqrt(B(n)) where d in 0:D }",
         [(5, 0), (5,)]),
        # Two enclosing loops, of which the inner one changes no operand of the value.
        ("def f(float(N,D,E) A, float(N,D) B) -> (S) { S(n) +=! A(n,d,e) * sqrt(B(n,d) * B(n,d))\n"
         " where e in 0:E }",
         [(3, 5, 21), (3, 5)]),
        # Two statements in one loop, of which the first computes the divisor of the second.
        ("def f(float(N,D) A, float(N) B) -> (T,O) { T(n) = sqrt(B(n))\n O(n,d) = A(n,d) / (T(n) / B(n)) }",
         [(37, 24), (37,)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dynamic", [(), ("D",)])
def test_values_that_the_loop_changes_are_not_hoisted(
    source: str, shapes: list[tuple[int, ...]], isa: str, dynamic: tuple[str, ...]
) -> None:
    options = tc.Options(isa=isa)
    rng = np.random.default_rng(3)
    args = [rng.uniform(1, 2, s).astype("f4") for s in shapes]
    got = tc.compile(source, "cpu", dynamic=dynamic, options=options)(*args)
    for x, y in zip(interpreted(source, *args), got if isinstance(got, tuple) else (got,), strict=True):
        same(x, y, 256.0)


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("isa", isas())
def test_remainders_are_distributed_over_tiles(isa: str) -> None:
    """26 rows as tiles of 6 and 5, where 6 fit; as many as given where a register tile is given."""
    source = "def f(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }"
    rng = np.random.default_rng(2)
    for n in (26, 13, 28, 31, 7):
        x, y = (rng.integers(-4, 5, s).astype("f4") for s in ((5, n, 24), (5, 32, 24)))
        for options in ({}, {"vector": 2, "register_tile": (1, 6, 16)}, {"vector": 2, "pack": True}):
            got = compiled(source, isa=isa, **options)(x, y)
            np.testing.assert_array_equal(got, np.einsum("bnm,bkm->bnk", x, y))
    if isa == "avx2":
        kernel = compiled(
            source, isa=isa, vector=2, pack=True, machine=(("latency", 5), ("issue_width", 4.0))
        )
        text = kernel.inspect("loops", B=500, N=26, K=26, M=72)
        assert re.search(r"unrolled for n_1\S* in \[0, 5\)", text)
        assert not re.search(r"unrolled for n_1\S* in \[0, 2\)", text)


COMPLEX = """def f({t}(N,T) x, {t}(N,T) z) -> (y) {{
  y(i,j) = (j == 0 ? x(i,0) * z(i,0) - x(i,1) * z(i,1) : x(i,0) * z(i,1) + x(i,1) * z(i,0)) where j in 0:2
}}"""
INTERLEAVED = "def f({t}(N) x, {t}(N) z) -> (y) {{ y(i,j) = (j == 0 ? x(i) : z(i)) where j in 0:2 }}"


@pytest.mark.parametrize("source", [COMPLEX, INTERLEAVED])
def test_pairs_are_stored_together(source: str) -> None:
    """Lanes run along the long axis, for both elements of a pair; its condition is constant then."""
    kernel = compiled(source.format(t="float"))
    sizes = {"N": 100_000, "T": 2} if source is COMPLEX else {"N": 100_000}
    assert re.search(
        r"^  \* .* lanes i_0 x\d(?: of 8)?, j_1 x2$", kernel.inspect("choice", **sizes), re.MULTILINE
    )


PRODUCT = """def f(float(M,K,T) x, float(K,N,T) z) -> (y) {
  y(i,j,c) +=! c == 0 ? x(i,k,0) * z(k,j,0) - x(i,k,1) * z(k,j,1) : x(i,k,0) * z(k,j,1) + x(i,k,1) * z(k,j,0)
    where c in 0:2
}"""


def test_the_condition_of_a_pair_takes_no_branch() -> None:
    """The condition is on an index as a value of 32 bits: with a branch a product of complex matrices ran at
    a fifth of the speed."""
    text = code_of(compiled(PRODUCT).program({"M": 120, "K": 90, "N": 110, "T": 2})).text
    assert "icmp eq i32" not in text


@pytest.mark.parametrize("isa", isas())
def test_results_of_products_of_pairs(isa: str) -> None:
    rng = np.random.default_rng(3)
    for m, k, n in ((1, 1, 1), (7, 3, 19), (26, 13, 47)):
        x, z = rng.integers(-3, 4, (m, k, 2)).astype("f4"), rng.integers(-3, 4, (k, n, 2)).astype("f4")
        same(compiled(PRODUCT, isa=isa)(x, z), interpreted(PRODUCT, x, z)[0])


@pytest.mark.share(72)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("t", ["float", "double", "int32", "half", "uint8"])
@pytest.mark.parametrize("n", [1, 5, 64, 517])
def test_results_of_pairs(n: int, t: str, isa: str) -> None:
    dtype = {"float": "float32", "double": "float64", "half": "float16"}.get(t, t)
    for source in (COMPLEX, INTERLEAVED):
        shape = (n, 2) if source is COMPLEX else (n,)
        rng = np.random.default_rng(n)
        x, z = (rng.integers(0, 4, shape).astype(dtype) for _ in range(2))
        same(compiled(source.format(t=t), isa=isa)(x, z), interpreted(source.format(t=t), x, z)[0])

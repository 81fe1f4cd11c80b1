"""Programs as Halide Funcs: what is built, what is refused and why, and Halide's own meanings that differ."""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from tc import registry
from tc.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64
from tc.errors import BackendError, Source
from tc.halide import funcs
from tc.halide.arithmetic import minimum
from tc.halide.binding import hl, listen, literal
from tc.halide.expansion import expansion
from tc.halide.halves import from_float32, from_float64, to_float32
from tc.halide.limits import EXCLUSIONS, exclusions
from tc.ir import expr as x
from tc.ir.evaluate import evaluate
from tc.ir.intervals import fits_int32, interval, is_affine, is_index
from tc.ir.program import Program
from tc.pipeline import front as pipeline

registry.load("halide")
host = importlib.import_module("tc_backends.halide.host")


def program(source: str, entry: str | None = None, **sizes: int) -> Program:
    built = pipeline.build(pipeline.front(Source(source), entry), pipeline.Variant())
    return pipeline.specialize(built, sizes, {}) if sizes else built.program


def realized(e: Any, n: int) -> np.ndarray[Any, Any]:
    """An expression of `i` at 0, …, n - 1, with strict floating point."""
    f = hl.Func("tc_test")
    f[hl.Var("i")] = e
    target = host.target().with_feature(hl.TargetFeature.StrictFloat)
    return np.array(f.realize([n], target))


_kept: list[np.ndarray[Any, Any]] = []


def buffer(values: np.ndarray[Any, Any]) -> Any:
    """A Halide buffer on an array, which stays alive."""
    _kept.append(values)
    return hl.Buffer(values)


I = hl.Var("i")  # noqa: E741


def test_a_product_is_a_pure_definition_and_an_update() -> None:
    text = funcs.show(program("def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"))
    assert text.splitlines() == [
        "ImageParam A(float32, 2)",
        "ImageParam B(float32, 2)",
        "Param M(int32)",
        "Param K(int32)",
        "Param N(int32)",
        "C(j, i) = 0.0                     // C(i,j) +=! A(i,k) * B(k,j)  # starts from the neutral element",
        "RDom r(0, K)",
        "C(j, i) += A(r.x, i) * B(j, r.x)  // C(i,j) +=! A(i,k) * B(k,j)",
        "Pipeline({C})",
    ]


def test_a_redefinition_after_a_read_is_a_func_of_its_own() -> None:
    text = funcs.show(
        program(
            "def softmax(float(N,D) I) -> (O) { tmp(n) max=! I(n,d) O(n,d) = exp(I(n,d)-tmp(n)) "
            "tmp(n) +=! O(n,d) O(n,d) = O(n,d)/tmp(n) }",
            N=3,
            D=5,
        )
    )
    defined = [line.split("  //")[0].rstrip() for line in text.splitlines()]
    assert defined == [
        "ImageParam I(float32, 2)",
        "tmp(n) = -inf",
        "RDom r(0, 5)",
        "tmp(n) = max(tmp(n), I(r.x, n))",
        "O(d, n) = exp(I(d, n) - tmp(n))",
        "tmp_1(n) = 0.0",
        "RDom r(0, 5)",
        "tmp_1(n) += O(r.x, n)",
        "O_1(d, n) = O(d, n) / tmp_1(n)",
        "Pipeline({O_1})",
    ]


def test_an_output_of_the_caller_starts_from_a_copy() -> None:
    text = funcs.show(
        program("def f(float(N) A) -> (C) { C(i) = 2 * C(i) where i in 0:N C(i) += A(i) }", N=4)
    )
    assert "ImageParam C_as_given(float32, 1)" in text
    assert "C(i0) = C_as_given(i0)" in text
    assert "C(i0) = 2.0 * C(i0)" in text


def test_reads_are_clamped_where_they_are_guarded_and_checked_where_they_depend_on_data() -> None:
    text = funcs.show(
        program(
            "def f(float(N) A, int(N) J) -> (O) { O(i) = i - 2 >= 0 ? A(i-2) : A(J(i)) where i in 0:N }", N=9
        )
    )
    assert "A(clamp(i - 2, 0, 8))" in text
    assert "A(check(int64(J(clamp(i, 0, 8))), 0, 8))" not in text  # J(i) itself is right everywhere
    assert "A(check(int64(J(i)), 0, 8))" in text


def test_conditions_are_predicates_and_parts_of_a_box_are_rvars() -> None:
    text = funcs.show(program("def f(float(N,N) A) -> (O) { O(i) +=! A(i,j) where j <= i }", N=6))
    assert "r.where(r.x <= i)\nO(i) += A(clamp(r.x, 0, 5), i)" not in text
    assert "r.where(r.x <= i)\nO(i) += A(r.x, i)" in text
    text = funcs.show(
        program("def f(float(N,A) X, float(N,B) Y) -> (Z) { Z = concat(X, Y) }", "f", N=2, A=3, B=4)
    )
    assert "Z(i1, i0) = undef()" in text
    assert "RDom r(0, 4)\nZ(3 + r.x, i0) = Y(r.x, i0)" in text.replace("r.x + 3", "3 + r.x")


def test_an_index_is_a_value_of_a_reduction_over_others() -> None:
    """`i` alone as a value, and `k`, which nothing mentions, in the reduction."""
    kernel = tc.compile("def f(int(N) A) -> (B) { B(i) max=! i where i in 0:N, k in 0:3 }", backend="halide")
    np.testing.assert_array_equal(kernel(np.zeros(4, np.int32)), [0, 1, 2, 3])
    kernel = tc.compile("def f(int(N) A) -> (B) { B max=! i where i in 0:N, k in 0:3 }", backend="halide")
    assert kernel(np.zeros(4, np.int32)) == 3


@pytest.mark.parametrize("value", ["k", "k + 1", "5 - k", "3 * k - i", "A(i) + k"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_of_indices(op: str, value: str) -> None:
    """Halide made the last one of the least."""
    source = f"def f(int(N) A) -> (C) {{ C(i) {op}=! {value} where i in 0:N, k in 0:3 }}"
    found, wanted = (
        tc.compile(source, backend=b)(np.arange(4, dtype=np.int32)) for b in ("halide", "reference")
    )
    np.testing.assert_array_equal(found, wanted)


def test_a_read_of_the_own_tensor_elsewhere_makes_every_dimension_an_rvar() -> None:
    lowered = funcs.build(
        program("def f(float(N) A) -> (a) { a(i) = A(i) a(i) = a(i+10) where i in 0:10 }", N=20)
    )
    (update,) = [d for d in lowered.definitions if d.reduced]
    assert update.reduced == {"i"} and update.axis_names == {}


def test_names_are_safe_for_halide_and_the_linker() -> None:
    lowered = funcs.build(
        program(
            "def f(float(N) malloc, float(N) 3d) -> (halide_error) { halide_error(x) = malloc(x) + 3d(x) }"
        )
    )
    for made in lowered.names:
        # Halide itself tells Funcs of one name in a process apart by `$1`, `$2`, …
        assert re.fullmatch(r"tc_[A-Za-z0-9_]+(\$\d+)?", made), made
    assert len(set(lowered.names)) == len(lowered.names)


# ---- what is refused


def excluded(p: Program) -> str:
    with pytest.raises(BackendError) as caught:
        funcs.build(p)
    assert caught.value.code == "TC0805" and caught.value.help
    return caught.value.message


def test_each_exclusion_has_its_test() -> None:
    assert [e.name for e in EXCLUSIONS] == [
        "scatter",  # tests/conformance/test_scatter.py
        "sequential loops",  # tests/conformance/test_loops.py
        "built-in",
        "coordinates beyond int32",
        "strides beyond int32",
        "expressions too large",
        "lost checks",
        "zero factors",
    ]


def test_updates_by_a_product_with_zero_are_refused() -> None:
    # What Halide makes of it, strict or not, has no update.
    x, f, g = hl.Var("x"), hl.Func("f"), hl.ImageParam(hl.Float(32), 1, "g")
    f[x] = hl.f32(1.0)
    f[x] = f[x] + hl.strict_float(g[x] * (hl.f32(0.0) * g[x]))
    g.set(hl.Buffer(np.full(9, np.nan, np.float32)))
    strict = host.target().with_feature(hl.TargetFeature.StrictFloat)
    assert np.asarray(f.realize([9], strict)).tolist() == [1.0] * 9
    source = "def f(float(N) A) -> (O) { O(i) += 0 * A(i) }"
    assert "updates by a product with 0" in excluded(program(source, N=4))


def test_a_builtin_that_halide_lacks_is_refused_by_name() -> None:
    p = program("def f(float(N) A) -> (O) { O(i) = tgamma(A(i)) + lgamma(A(i)) }")
    assert not hasattr(hl, "tgamma") and not hasattr(hl, "lgamma")
    assert [e.split(":")[0] for e in exclusions(p)] == ["the built-in 'tgamma'", "the built-in 'lgamma'"]
    assert "the built-in 'tgamma'" in excluded(p)


def test_coordinates_beyond_int32_are_refused() -> None:
    # Halide's extents are int32: a larger one does not arrive as what it was.
    with pytest.raises((hl.HalideError, RuntimeError, TypeError)):
        hl.RDom([hl.Range(0, hl.i64(2**31))], "r")
    source = "def f(int8(N) A) -> (O) { O(i) = A(i) }"
    assert "'A', dimension 0, from 0 to 2147483647" in excluded(program(source, N=2**31))
    assert exclusions(program(source, N=2**31 - 1)) == []


def test_strides_beyond_int32_are_refused() -> None:
    source = "def f(int8(A,B,C) X) -> (O) { O(a,b,c) = X(a,b,c) }"
    assert "stride is 2147483648" in excluded(program(source, A=1, B=2**16, C=2**15))
    assert exclusions(program(source, A=1, B=2**16 - 1, C=2**15)) == []


def test_divisions_by_a_constant_zero_are_refused() -> None:
    """Halide finds them while it lowers, also where a tensor without elements stands for the zero."""
    for source in (
        "def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) / (2.0 * 0.0) + B(i) }",
        "def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) / B(i) }",
    ):
        n = np.ones(3 if "2.0" in source else 0, np.float32)
        with pytest.raises(BackendError, match="a division by a constant zero") as caught:
            tc.compile(source, "halide")(n, n)
        assert caught.value.code == "TC0805"


def test_checks_that_halide_would_lose_are_refused() -> None:
    """Halide computes what results need, and of temporaries all that is checked."""
    lost = "def f(float(N) A, int(Q) X) -> (T) { T +=! A(X(i))  T +=! A(i) }"
    assert "overwritten before anything reads it" in excluded(program(lost, N=4, Q=4))
    assert exclusions(program(lost.replace("T +=! A(i)", "T += A(i)"), N=4, Q=4)) == []
    part = "def f(float(N) A, int(Q) X) -> (B) { T(i) = A(X(i))  B(i) = T(i) where i in 0:2 }"
    with pytest.warns(tc.DataDependentAccess):
        kernel = tc.compile(part, "halide")
    with pytest.raises(tc.BoundsError):
        kernel(np.ones(4, np.float32), np.array([0, 1, 2, 9], np.int32))


def test_expressions_that_explode_are_refused() -> None:
    def nested(depth: int) -> str:
        return "A(i)" if depth == 0 else f"log1p({nested(depth - 1)})"

    deep = program(f"def f(float(N) A) -> (O) {{ O(i) = {nested(9)} }}")
    assert "expands to" in excluded(deep)
    assert exclusions(program(f"def f(float(N) A) -> (O) {{ O(i) = {nested(4)} }}")) == []
    # Every level multiplies what Halide's front end walks, though it adds few nodes.
    sizes = [
        expansion(program(f"def f(float(N) A) -> (O) {{ O(i) = {nested(k)} }}").stages[0].value)
        for k in (2, 3, 4)
    ]
    assert sizes[1] > 5 * sizes[0] and sizes[2] > 5 * sizes[1]


# ---- where Halide 21 means something else: why `arithmetic` and `halves` exist


def test_halide_less_equal_takes_nan_for_less() -> None:
    a, b = buffer(np.array([np.nan, 1.0], "f4")), buffer(np.array([1.0, np.nan], "f4"))
    assert realized(hl.select(a[I] <= b[I], 1, 0), 2).tolist() == [1, 1]  # C, IEEE 754, NumPy: 0, 0
    assert realized(hl.select((a[I] < b[I]) | (a[I] == b[I]), 1, 0), 2).tolist() == [0, 0]


def test_halide_min_of_nan_depends_on_the_order() -> None:
    a, b = buffer(np.array([np.nan, 1.0], "f4")), buffer(np.array([1.0, np.nan], "f4"))
    assert np.isnan(realized(hl.min(a[I], b[I]), 2)).tolist() == [False, True]
    assert np.isnan(realized(minimum(a[I], b[I], FLOAT32), 2)).tolist() == [True, True]


def test_halide_takes_signed_overflow_for_impossible() -> None:
    a = buffer(np.array([2**31 - 1, 5], "i4"))
    assert realized(hl.select(a[I] + 1 > a[I], 1, 0), 2).tolist() == [1, 1]
    wrapped = hl.i32(hl.u32(a[I]) + hl.u32(1))
    assert realized(hl.select(wrapped > a[I], 1, 0), 2).tolist() == [0, 1]


def test_halide_abs_leaves_minus_zero() -> None:
    a = buffer(np.array([-0.0, -1.0]))
    assert np.signbit(realized(hl.abs(a[I]), 2)).tolist() == [True, False]


def test_halide_division_is_euclidean() -> None:
    a, b = buffer(np.array([-7, 7], "i4")), buffer(np.array([-2, -2], "i4"))
    assert realized(a[I] / b[I], 2).tolist() == [4, -3]  # floor: 3, -4
    assert realized(a[I] % b[I], 2).tolist() == [1, 1]  # floor: -1, -1


def test_halide_says_its_warnings_on_stdout_which_are_caught(capsys: pytest.CaptureFixture[str]) -> None:
    with listen() as said:
        f = hl.Func("tc_test")
        f[I] = hl.f32(0)
        f[I] = hl.f32(1)
        print("ours", end="")  # noqa: T201
    assert "completely hides earlier definitions" in "".join(said)
    assert "Warning" not in capsys.readouterr().out


# ---- literals and halves


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(0.1, FLOAT32), (0.1, FLOAT64), (1e-45, FLOAT32), (5e-324, FLOAT64), (-0.0, FLOAT32), (1e300, FLOAT32),
     (float("nan"), FLOAT64), (2**63 - 1, INT64), (-(2**63), INT64), (-(2**31), INT32)],
)  # fmt: skip
def test_literals_arrive_bit_for_bit(value: float, dtype: Any) -> None:
    with np.errstate(over="ignore"):
        want = np.array([value], dtype.name)
    assert realized(literal(value, dtype), 1).tobytes() == want.tobytes()


def test_every_half_is_widened_exactly() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    given = buffer(bits)
    got = realized(to_float32(given[I], FLOAT16), 1 << 16)
    np.testing.assert_array_equal(got, bits.view(np.float16).astype(np.float32))
    got = realized(to_float32(given[I], BFLOAT16), 1 << 16)
    assert got.tobytes() == (bits.astype(np.uint32) << 16).tobytes()


def floats(count: int) -> np.ndarray[Any, Any]:
    """float32 of every exponent, and those on and next to the middle between two halves."""
    rng = np.random.default_rng(0)
    any_bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    halves = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    near16 = halves.view(np.float16).astype(np.float32).view(np.uint32) + rng.integers(
        0x0FFE, 0x1003, count, dtype=np.uint32
    )
    near_b = (halves.astype(np.uint32) << 16) + rng.integers(0x7FFE, 0x8003, count, dtype=np.uint32)
    edges = np.array(
        [65504, 65519.996, 65520, 2**-24, 2**-25, 2**-25 * 1.0000001, 2**-14, 0, -0.0, np.inf, np.nan], "f4"
    )
    return np.concatenate([any_bits.view("f4"), near16.view("f4"), near_b.view("f4"), edges, -edges])


def same_values(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Equal bits, or both NaN."""
    nan = np.isnan(want.astype(np.float32))
    assert np.isnan(got.view(want.dtype).astype(np.float32))[nan].all()
    np.testing.assert_array_equal(got[~nan], want.view(np.uint16)[~nan])


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
def test_halves_are_rounded_to_nearest_even(dtype: Any) -> None:
    import ml_dtypes

    target = np.dtype(np.float16) if dtype == FLOAT16 else np.dtype(ml_dtypes.bfloat16)
    values = floats(50_000)
    with np.errstate(all="ignore"):
        want = values.astype(target)
    given = buffer(values)
    same_values(realized(from_float32(given[I], dtype), len(values)), want)


def test_doubles_become_halves_in_one_rounding() -> None:
    # Just above the middle of two halves: float32 loses what says so.
    rng = np.random.default_rng(1)
    halves = rng.integers(0, 0x7BFF, 20_000, dtype=np.uint16).view(np.float16).astype(np.float64)
    above = np.nextafter(halves.astype(np.float16), np.float16(np.inf)).astype(np.float64)
    middle = (halves + above) / 2
    values = np.concatenate(
        [middle, middle * (1 + 2.0**-40), middle * (1 - 2.0**-40), -middle, [np.nan, 1e300, -1e-300, 0.0]]
    )
    given = buffer(values)
    with np.errstate(all="ignore"):
        want = values.astype(np.float16)
        assert (want != values.astype(np.float32).astype(np.float16)).sum() > 1000
    same_values(realized(from_float64(given[I], FLOAT16), len(values)), want)


# ---- intervals


def indices(depth: int) -> st.SearchStrategy[x.Expr]:
    leaves = st.one_of(
        st.sampled_from([x.Variable("i"), x.Variable("j")]), st.integers(-9, 9).map(lambda n: x.IntImm(n))
    )
    nodes = st.sampled_from([x.Add, x.Sub, x.Mul, x.FloorDiv, x.FloorMod, x.Min, x.Max])
    return st.recursive(leaves, lambda e: st.builds(lambda n, a, b: n(a, b), nodes, e, e), max_leaves=depth)


@given(indices(8), st.integers(-5, 5), st.integers(0, 4), st.integers(-5, 5), st.integers(0, 4))
def test_intervals_contain_every_value(e: x.Expr, i0: int, ni: int, j0: int, nj: int) -> None:
    names = {"i": (i0, i0 + ni), "j": (j0, j0 + nj)}
    assert is_index(e, names)
    found = interval(e, names)
    assert found is not None
    for i in range(i0, i0 + ni + 1):
        for j in range(j0, j0 + nj + 1):
            assert found[0] <= evaluate(e, {"i": i, "j": j}) <= found[1]


def test_what_leaves_int32_on_the_way_is_not_computed_in_int32() -> None:
    i = x.Variable("i")
    names = {"i": (0, 99_999)}
    square = x.FloorDiv(x.Mul(i, i), x.IntImm(100_000))
    assert interval(square, names) == (0, 99_998)
    assert not fits_int32(square, names) and fits_int32(x.Mul(i, x.IntImm(7)), names)
    assert not is_affine(square, names) and is_affine(x.Add(x.Mul(i, x.IntImm(7)), i), names)

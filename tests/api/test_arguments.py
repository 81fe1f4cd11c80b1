"""What calls take: buffers for results, arguments, subscripts that are data."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tc
from tests.api.kernels import ADD1, LUT, MM, F, compile, ones

# ---- buffers


def test_out_in_all_its_forms() -> None:
    k = compile("def f(float(N) A) -> (P, Q) { P(i) = A(i) + 1 Q(i) = A(i) * 2 }")
    a = np.arange(3, dtype=F)
    p, q = np.zeros(3, F), np.zeros(3, F)
    r = k(a, out=(p, q))
    assert r.P is p and r.Q is q and type(r).__name__ == "f"
    p2 = np.zeros(3, F)
    r = k(a, out={"P": p2})
    assert r.P is p2 and r.Q is not q
    for bad in (p, (p,), [p, q], {"X": p}):
        with pytest.raises(tc.ArgumentError) as e:
            k(a, out=bad)
        assert e.value.code == "TC0506"


def test_a_refused_call_writes_nothing() -> None:
    k = compile(ADD1)
    a = np.arange(10, dtype=F)
    before = a.copy()
    for args, out in [
        ((a[:5],), a[2:7]),
        ((a[:5],), a[:6]),
        ((a.astype(np.float64),), a),
        ((a[:3],), np.zeros(3)),
    ]:
        with pytest.raises(tc.Error):
            k(*args, out=out)
        np.testing.assert_array_equal(a, before)
    locked = np.zeros(5, F)
    locked.flags.writeable = False
    with pytest.raises(tc.ArgumentError, match="read-only"):
        k(a[:5], out=locked)
    with pytest.raises(tc.ArgumentError, match="immutable"):
        k(jnp.ones(3), out=jnp.zeros(3))
    with pytest.raises(tc.ArgumentError, match="share memory"):
        k(a[:5], out=np.lib.stride_tricks.as_strided(np.zeros(1, F), (5,), (0,)))


def test_a_result_may_alias_an_input_exactly() -> None:
    a = np.arange(9, dtype=F).reshape(3, 3)
    compile("def f(float(N,N) A) -> (B) { B(i,j) = A(j,i) }")(a, out=a)
    np.testing.assert_array_equal(a, np.arange(9).reshape(3, 3).T)


def test_strided_inputs_and_buffers() -> None:
    k = compile(MM)
    a, b = np.arange(24, dtype=F).reshape(4, 6), np.arange(18, dtype=F).reshape(6, 3)
    wide = np.zeros((4, 6), F)
    k(a, b, out=wide[:, ::2])
    np.testing.assert_array_equal(wide[:, ::2], a @ b)
    assert not wide[:, 1::2].any()
    np.testing.assert_array_equal(k(a[::-1, ::-1], b[::-1]), a[::-1, ::-1] @ b[::-1])
    np.testing.assert_array_equal(k(np.asfortranarray(a), b), a @ b)
    np.testing.assert_array_equal(k(np.broadcast_to(a[0], (5, 6)), b), np.tile(a[0] @ b, (5, 1)))


def test_accumulation_into_the_callers_buffer_or_from_the_neutral_element() -> None:
    with pytest.warns(tc.UninitializedReduction):
        k = tc.compile("def f(float(N,M) A) -> (B) { B(i) += A(i,j) }", "reference")
    a = ones(2, 3)
    for _ in range(3):  # the fast path must keep the two apart
        np.testing.assert_array_equal(k(a), [3, 3])
        np.testing.assert_array_equal(k(a, out=np.full(2, 10, F)), [13, 13])


def test_an_inout_result_must_be_given() -> None:
    k = compile("def f(float(N) A) -> (B) { B(i) = B(i) + A(i) }")
    with pytest.raises(tc.ArgumentError, match="read before it is defined"):
        k(ones(3))
    b = ones(3)
    assert k(ones(3), out=b) is b
    np.testing.assert_array_equal(b, [2, 2, 2])


# ---- arguments


def test_names_positions_and_counts() -> None:
    k = compile(MM)
    a, b = ones(2, 3), ones(3, 4)
    np.testing.assert_array_equal(k(B=b, A=a), k(a, b))
    refused: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((a,), {}, "TC0501"),
        ((a, b, b), {}, "TC0501"),
        ((a, b), {"A": a}, "TC0502"),
        ((a,), {"b": b}, "TC0502"),
        ((a, ones(4, 4)), {}, "TC0504"),
        ((a, ones(3)), {}, "TC0503"),
        ((a, [[1.0]]), {}, "TC0505"),
    ]
    for args, kwargs, code in refused:
        with pytest.raises(tc.ArgumentError) as e:
            k(*args, **kwargs)
        assert e.value.code == code, str(e.value)


def test_names_that_are_no_python_identifiers() -> None:
    k = compile("def 2LUT(float(N) 1a) -> (class, 2b) { class(i) = 1a(i) 2b(i) = 2*1a(i) }")
    r = k(**{"1a": np.arange(2, dtype=F)})
    np.testing.assert_array_equal(r[0], [0, 1])
    np.testing.assert_array_equal(k(np.arange(2, dtype=F))[1], [0, 2])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_subscript_parameters_accept_any_integer_type(dtype: str) -> None:
    k = compile(LUT)
    table, index = np.arange(10, dtype=F).reshape(5, 2), np.array([[0, 4], [3, 3]])
    for _ in range(2):
        np.testing.assert_array_equal(k(table, index.astype(dtype)), table[index].sum(1))


def test_scalars_convert_up_and_not_down() -> None:
    k = compile("def f(float a, int b, double c) -> (D) { D = a * b + c }")
    assert k(2, 3, 1) == 7 and k(np.float32(2), np.int64(3), 1.5) == 7.5 and k(True, 1, 0) == 1
    assert k(np.array(2.0, F), 3, 1) == 7
    for bad in ((2.0, 3.5, 1), ("x", 1, 1), (1, 2**40, 1), (1j, 1, 1)):
        with pytest.raises(tc.Error):
            k(*bad)


# ---- data-dependent subscripts


def test_an_index_out_of_range_names_the_place_and_the_value() -> None:
    k = compile(LUT)
    table, index = np.arange(10, dtype=F).reshape(5, 2), np.array([[0, 4], [3, 3]])
    for wild in (5, -1, 2**40, -(2**63)):
        bad = index.copy()
        bad[1, 0] = wild
        for _ in range(2):  # the slow and the fast path
            with pytest.raises(tc.BoundsError) as e:
                k(table, bad)
            assert isinstance(e.value, IndexError) and e.value.code == "TC0701"
            assert (
                f"index {wild} is out of range for dimension 0 of 'L' (0 to 4), at b = 1, d = 0, k = 0"
                in str(e.value)
            )
    np.testing.assert_array_equal(k(table, index), table[index].sum(1))
    with pytest.raises(tc.BoundsError):
        tc.interpret(LUT, table, bad)


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("backend", ["reference", "halide"])
@pytest.mark.parametrize("entries", [1, 2, 5])
def test_every_backend_checks_tables_of_any_extent(backend: str, entries: int) -> None:
    k = tc.compile(LUT, backend)
    table = np.arange(2 * entries, dtype=F).reshape(entries, 2)
    index = np.zeros((2, 2), np.int32)
    np.testing.assert_array_equal(k(table, index), table[index].sum(1))
    index[1, 1] = entries
    with pytest.raises(tc.BoundsError, match=f"index {entries} is out of range"):
        k(table, index)


def test_an_empty_table_is_never_read() -> None:
    k = compile(LUT)
    with pytest.raises(tc.BoundsError):
        k(np.zeros((0, 2), F), np.zeros((1, 1), np.int32))
    assert k(np.zeros((0, 2), F), np.zeros((3, 0), np.int32)).tolist() == [[0, 0]] * 3


def test_checks_none_trusts_the_data() -> None:
    k = compile(LUT, checks="none")
    table, index = np.arange(10, dtype=F).reshape(5, 2), np.array([[0, 4], [3, 3]], np.int32)
    np.testing.assert_array_equal(k(table, index), table[index].sum(1))
    assert "tc_fail" not in k.inspect("code", E=5, D=2, B=2, K=2)


def test_a_subscript_that_no_solver_follows_is_checked_when_it_runs() -> None:
    k = compile("def f(float(N) A, float(M) B) -> (O) { O(i) = A((i*i) % (i+1)) where i in 0:M }")
    np.testing.assert_array_equal(k(np.arange(9, dtype=F), ones(5)), [0, 1, 1, 1, 1])
    with pytest.raises(tc.BoundsError):
        k(ones(1), ones(5))


def test_clamped_accesses_neither_warn_nor_check() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k = tc.compile("def f(float(J) B, int(I) C) -> (A) { A(i) = B(max(min(C(i), J-1), 0)) }", "reference")
    np.testing.assert_array_equal(k(np.arange(3, dtype=F), np.array([-5, 1, 99], np.int32)), [0, 1, 2])
    assert "tc_fail" not in k.inspect("code", I=3, J=3)
    assert k(np.zeros(0, F), np.zeros(0, np.int32)).shape == (0,)
    with pytest.raises(tc.PreconditionError):
        k(np.zeros(0, F), np.zeros(2, np.int32))


def test_bytes_into_a_table_of_256_need_no_check() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k = tc.compile("def f(float(256) T, uint8(N) X) -> (Y) { Y(i) = T(X(i)) }", "reference")
    t = np.arange(256, dtype=F)
    np.testing.assert_array_equal(k(t, np.array([0, 255, 7], np.uint8)), [0, 255, 7])
    # An 8-bit type is what made it safe: a wider one is checked.
    with pytest.raises(tc.Error):
        k(t, np.array([256], np.int64))

"""Rows divided by one number: exact, by its reciprocal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import code_of, compiled, isas

ROW = "def f({t}(N) X, {t} s) -> (Y) {{ Y(i) = X(i) / s }}"
needs_avx512 = pytest.mark.skipif("avx512" not in isas(), reason="this processor has no AVX-512")


def code(source: str, isa: str = "avx512", sizes: dict[str, int] | None = None, **options: Any) -> str:
    """For a processor that need not be this one."""
    return code_of(compiled(source).program(sizes or {"N": 4096}), tc.Options(**options), isa).text


@pytest.mark.parametrize("t", ["float", "double"])
def test_rows_are_multiplied_by_the_reciprocal(t: str) -> None:
    text = code(ROW.format(t=t))
    assert "reciprocal" in text and "branch_weights" in text
    assert "reciprocal" not in code(ROW.format(t=t), isa="avx2")  # its divisions are as fast
    assert "reciprocal" not in code(ROW.format(t=t), fast_math=True)  # not exact anyway
    assert "reciprocal" not in code(ROW.format(t=t).replace("/ s", "/ 8"))
    assert "reciprocal" in code(ROW.format(t=t).replace("/ s", "/ 9"))
    assert "reciprocal" not in code(ROW.format(t=t).replace("/ s", "/ (X(i) * s)"))  # one for each lane


def test_epilogues_are_divided() -> None:
    """Once, after hundreds of multiply-adds, while registers hold the results."""
    source = """def f(float(M,K) A, float(K,N) B, float s) -> (C) {
  C(i,j) +=! A(i,k) * B(k,j)
  C(i,j) = C(i,j) / s
}"""
    text = code(source, sizes={"M": 64, "N": 64, "K": 96})
    assert "fdiv <16 x float>" in text and "reciprocal" not in text


def hard_quotients(rng: np.random.Generator, p: int, count: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Dividends and divisors of p bits whose quotients are as close as possible to a rounding boundary: a 2^s
    = b m + e for an odd m of p + 1 bits and a small e."""
    pairs: list[tuple[int, int]] = []
    while len(pairs) < count:
        b = int(rng.integers(1 << (p - 1), 1 << p)) | 1
        for e in (-3, -2, -1, 1, 2, 3):
            for shift in (p, p + 1):  # quotients of more than 1, of less
                a = e * pow(1 << shift, -1, b) % b + (b if shift == p else 0)
                m = ((a << shift) - e) // b
                if a >> (p - 1) == 1 and m & 1 and m >> p == 1:
                    pairs.append((a, b))
    a, b = zip(*pairs[:count], strict=True)
    return np.array(a, np.float64), np.array(b, np.float64)


def test_hard_cases_are_hard() -> None:
    a, b = hard_quotients(np.random.default_rng(2), 24, 200)
    for x, y in zip(a, b, strict=True):
        quotient = Fraction(int(x), int(y))
        scaled = quotient * (1 << 24) * (1 if quotient >= 1 else 2)  # the last bit is what is rounded away
        assert 0 < abs(scaled - round(scaled)) < Fraction(4, 1 << 23) and round(scaled) % 2


@needs_avx512
@pytest.mark.parametrize(("t", "kind", "p"), [("float", np.float32, 24), ("double", np.float64, 53)])
def test_quotients_are_rounded_once(t: str, kind: type, p: int) -> None:
    """To the bit as the processor's divisions: hard dividends and divisors, all exponents."""
    kernel = tc.compile(ROW.format(t=t), "cpu", options=tc.Options(isa="avx512"))
    whole = {4: np.uint32, 8: np.uint64}[kind().itemsize]
    rng = np.random.default_rng(3)
    most = float(np.finfo(kind).max)
    a, b = (x.astype(kind) for x in hard_quotients(rng, p, 192))
    any_bits = rng.integers(0, np.iinfo(whole).max, 4096, whole, endpoint=True).view(kind)
    usual = rng.standard_normal(4096).astype(kind)
    with_zeros = np.where(rng.random(4096) < 0.3, kind(0), usual)
    negative = np.where(rng.random(4096) < 0.3, kind(-0.0), usual)
    powers = rng.integers(-np.finfo(kind).maxexp, np.finfo(kind).maxexp - 4, 4096)
    exponents = np.ldexp(usual, powers.astype(np.int32))
    near = np.repeat(a, 22)[:4096]
    rows = (any_bits, usual, with_zeros, negative, exponents, near, -near)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, most, -most, 1 / most, 1.0, -1.0, 3.0, 0.1, 1 + 2.0**-20]
    edges = [2.0**n * f for n in (-101, -100, -25, -24, 23, 24, 100, 101) for f in (1, 1.5, 1.999)]
    checked = 0
    for s in [kind(x) for x in (*special, *edges)] + list(b):
        for row in rows if abs(s) not in b else (near, -near, usual):
            with np.errstate(all="ignore"):
                wanted = row / s
            found = np.asarray(kernel(row, s))
            same = (found.view(whole) == wanted.view(whole)) | (np.isnan(found) & np.isnan(wanted))
            assert same.all(), (s, row[~same][:3], found[~same][:3], wanted[~same][:3])
            checked += len(row)
    assert checked > 2_000_000


@needs_avx512
@pytest.mark.parametrize("op", ["max", "min"])
def test_hard_dividends_with_their_divisors(op: str) -> None:
    """A dividend and the divisor that make a hard quotient meet, in a row of their own."""
    source = f"""def f(float(M,N) X) -> (S, Y) {{
  S(m) {op}=! X(m,i)
  Y(m,i) = X(m,i) / S(m)
}}"""
    kernel = tc.compile(source, "cpu", options=tc.Options(isa="avx512"))
    a, b = (x.astype(np.float32) for x in hard_quotients(np.random.default_rng(4), 24, 1000))
    ordered = a < b if op == "max" else a > b
    x = np.repeat(a[ordered, None], 512, 1)
    x[:, 0] = b[ordered]
    assert len(x) > 300 and "reciprocal" in kernel.inspect("code", M=len(x), N=512)
    s, y = map(np.asarray, kernel(x))
    np.testing.assert_array_equal(s, b[ordered])
    np.testing.assert_array_equal(y, x / s[:, None])


@needs_avx512
@pytest.mark.parametrize(("t", "least"), [("float", -104.0), ("double", -746.0)])
def test_fractions_are_rounded_once(t: str, least: float) -> None:
    """Exponentials: 0, 1, subnormal and small ones, NaN; by divisors of every kind."""
    source = f"""def f({t}(N,D) I, {t}(N) s) -> (M, E, Y) {{
  M(n) max=! I(n,d)
  E(n,d) = exp(I(n,d) - M(n))
  Y(n,d) = E(n,d) / s(n)
}}"""
    kernel = compiled(source, isa="avx512")
    dtype = np.dtype("f4" if t == "float" else "f8")
    tiny = np.finfo(dtype).tiny
    rng = np.random.default_rng(8)
    divisors = np.array(
        [1.5, 3.0, 1e3, 7e6, 2.0**-20, 1e30, tiny, tiny / 8, 0.0, -0.0, -3.0, np.inf, -np.inf, np.nan], dtype
    )
    rows = len(divisors)
    x = np.concatenate(
        [
            np.zeros((rows, 1)),
            np.full((rows, 16), 3 * least),
            rng.uniform(least, 0, (rows, 3000)),
            -np.exp2(rng.uniform(-30, 3, (rows, 3000))),
        ],
        1,
    ).astype(dtype)
    x = np.concatenate([x, x[:1], x[1:2]])
    divisors = np.concatenate([divisors, [3.0, 5.0]]).astype(dtype)
    x[-1, 17::40] = np.nan
    assert "fraction_over" in kernel.inspect("loops", **kernel.sizes_of(x, divisors))
    _, e, y = map(np.asarray, kernel(x, divisors))
    with np.errstate(all="ignore"):
        want = e / divisors[:, None]
    np.testing.assert_array_equal(y, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(y)[numbers], np.signbit(want)[numbers])
    assert (y[:4] == 0).any() and ((y[:4] > 0) & (y[:4] < tiny)).any()

"""Integers and conversions in vectors: division, wrapping, saturation, rounding to 16 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import Array, assembly_of, compiled, isas, results
from tests.backends.hard_values import HARD, INTEGERS, agree

# --- Integers.


def edges(dtype: str, n: int, seed: int) -> tuple[Array, Array]:
    info = np.iinfo(dtype)
    special = [
        info.min,
        info.min + 1,
        0,
        1,
        2,
        3,
        7,
        info.max - 1,
        info.max,
        *([-1, -2, -7] if info.min else []),
    ]
    rng = np.random.default_rng(seed)
    pick = np.array(special, dtype)
    return pick[rng.integers(0, len(pick), n)], pick[rng.integers(0, len(pick), n)]


@pytest.mark.share(54)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_floors_and_never_traps(dtype: str, isa: str) -> None:
    """Zero divisors, the least number by -1, in lanes and in lanes that are masked."""
    source = f"""def f({dtype}(N) A, {dtype}(N) B) -> (Q, R, S, T) {{
      Q(i) = A(i) / B(i)
      R(i) = A(i) % B(i)
      S(i) = A(i) / 3
      T(i) = 7 % B(i)
    }}"""
    for n in (1, 3, 13, 19, 64 // np.dtype(dtype).itemsize + 3):
        agree(source, *edges(dtype, n, n), isa=isa)
    low = np.iinfo(dtype).min
    if low:
        agree(source, np.full(21, low, dtype), np.full(21, -1, dtype), isa=isa)


@pytest.mark.share(54)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype: str, isa: str) -> None:
    source = f"""def f({dtype}(N) A, {dtype}(N) B) -> (P, S, D, C) {{
      P(i) = A(i) * B(i) + A(i)
      D(i) = A(i) - B(i)
      C(i) = abs(A(i)) + max(A(i), B(i))
      S +=! A(i) * B(i)
    }}"""
    for n in (5, 37, 70):
        agree(source, *edges(dtype, n, n), isa=isa)


BEYOND = [
    1e10,
    -1e10,
    1e20,
    -1e20,
    127.9,
    -128.9,
    255.5,
    -0.9,
    2.0**31,
    2.0**63,
    2.0**64,
    -(2.0**63),
    65535.9,
]


@pytest.mark.share(18)
@pytest.mark.parametrize("isa", ["avx512", "avx2"])
@pytest.mark.parametrize("source", ["float", "double"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32"])
def test_vectors_of_floats_are_converted_to_integers_as_vectors(target: str, source: str, isa: str) -> None:
    """LLVM's saturating conversion of vectors converts one lane after the other."""
    program = f"def f({source}(N) A) -> (O) {{ O(i) = {target}(A(i)) }}"
    assembly = assembly_of(compiled(program).program({"N": 4096}), isa)
    assert "vcvttp" in assembly
    assert "vcvtts" not in assembly


@pytest.mark.share(18)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("target", [*INTEGERS, "bool"])
def test_conversions_of_floats_saturate(target: str, isa: str) -> None:
    for source in ("float32", "float64"):
        values = np.array([*HARD, *BEYOND], source)
        for n in (len(values), 19, 3):
            agree(f"def f({source}(N) A) -> (O) {{ O(i) = {target}(A(i)) }}", values[:n], isa=isa)


@pytest.mark.share(24)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_conversions_of_integers(dtype: str, isa: str) -> None:
    if dtype == "bool":
        values = np.array([True, False] * 11)
    else:
        values, _ = edges(dtype, 37, 0)
    for target in ("int8", "uint16", "int32", "uint64", "float32", "float64", "bool"):
        with np.errstate(all="ignore"):
            want = values.astype(target)
        (got,) = results(compiled(f"def f({dtype}(N) A) -> (O) {{ O(i) = {target}(A(i)) }}", isa=isa)(values))
        np.testing.assert_array_equal(got, want, target)


# --- 16-bit types.


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("narrow", ["half", "bfloat16"])
def test_rounding_to_16_bits(narrow: str, isa: str) -> None:
    """To nearest, ties to even, subnormal numbers included; from float64 rounded once."""
    t = np.dtype(np.float16 if narrow == "half" else ml_dtypes.bfloat16)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 4000, dtype=np.uint64).astype(np.uint32)
    ties = (rng.integers(0, 1 << 16, 2000, dtype=np.uint64).astype(np.uint32) << 16) + 0x1000
    single = np.concatenate([bits, ties, ties + 1, ties - 1]).view(np.float32)
    single = np.concatenate(
        [single[~np.isnan(single)], np.float32(2.0) ** np.arange(-28, 18, dtype=np.float32)]
    )
    near = single.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.concatenate([near, near * (1 + 2.0**-40), near * (1 - 2.0**-40)])
        wanted = {"float": single.astype(t), "double": near.astype(t)}
        if narrow == "bfloat16":  # ml_dtypes goes through float32: round to odd first
            odd = near.astype(np.float32)
            gap = odd.astype(np.float64) != near
            toward = np.where(
                np.abs(odd.astype(np.float64)) > np.abs(near), np.nextafter(odd, np.float32(0)), odd
            )
            odd = np.where(gap, (toward.view(np.uint32) | 1).view(np.float32), odd).astype(np.float32)
            wanted["double"] = odd.astype(t)
    for wide, values in (("float", single), ("double", near)):
        (got,) = results(compiled(f"def f({wide}(N) A) -> (O) {{ O(i) = {narrow}(A(i)) }}", isa=isa)(values))
        want = wanted[wide]
        np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16), wide)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("narrow", ["half", "bfloat16"])
def test_strict_rounds_after_every_statement(narrow: str, isa: str) -> None:
    t = np.dtype(np.float16 if narrow == "half" else ml_dtypes.bfloat16)
    source = f"""def f({narrow}(N) A, {narrow}(N) B) -> (O, P) {{
      x(i) = A(i) * B(i)
      O(i) = x(i) - A(i)
      y(i) = x(i) + O(i)
      P(i) = y(i) * A(i)
    }}"""
    rng = np.random.default_rng(0)

    def rounded(a: Array) -> Array:
        return a.astype(t).astype(np.float32)

    for n in (5, 16, 39):
        args = [rng.standard_normal(n).astype(t) for _ in range(2)]
        a, b = (v.astype(np.float32) for v in args)
        x = rounded(a * b)
        o = rounded(x - a)
        p = rounded(rounded(x + o) * a)
        got = results(compiled(source, isa=isa, strict=True)(*args))
        for w, g in zip((o, p), got):
            np.testing.assert_array_equal(g.astype(np.float32), w)


@pytest.mark.parametrize("isa", isas())
def test_sums_of_16_bit_types_are_kept_in_32(isa: str) -> None:
    """2049 ones are more than half can count; 300 overflow a byte only once, at the end."""
    for narrow in ("half", "bfloat16"):
        t = np.dtype(np.float16 if narrow == "half" else ml_dtypes.bfloat16)
        source = f"def f({narrow}(N,M) A) -> (O) {{ O(i) +=! A(i,j) }}"
        (got,) = results(compiled(source, isa=isa)(np.ones((3, 4096), t)))
        assert (got.astype(np.float32) == 4096).all()
    (got,) = results(
        compiled("def f(int8(N,M) A) -> (O) { O(i) +=! A(i,j) }", isa=isa)(np.ones((3, 300), np.int8))
    )
    assert (got == 300 - 256).all()


@pytest.mark.share(105)
@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "halide", "opencl"])
@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
@pytest.mark.parametrize("source", ["half", "float", "double"])
def test_numbers_beside_the_ends_of_integers(source: str, target: str, backend: str) -> None:
    """The last number that fits is itself, and the next one saturates."""
    dtype = {"half": "f2", "float": "f4", "double": "f8"}[source]
    ends = np.iinfo(target)
    with np.errstate(over="ignore"):
        near = np.array([ends.max, ends.min], "f8").astype(dtype)
    steps = [np.nextafter(near, np.array(to, dtype)) for to in (0, np.inf, -np.inf)]
    special = np.array([np.nan, np.inf, -np.inf, -0.9, 0.9, 1.5], dtype)
    x = np.tile(np.concatenate([near, *steps, special]), 3)
    want = [
        0 if v != v else int(min(max(int(np.clip(np.trunc(v), -1e30, 1e30)), ends.min), ends.max))
        for v in x.astype("f8")
    ]
    text = f"def f({source}(N) x) -> (y) {{ y(i) = {target}(x(i)) }}"
    found = tc.interpret(text, x) if backend == "interpret" else tc.compile(text, backend)(x)
    assert np.asarray(found).tolist() == want

"""native/math.h: accuracy against mpmath over whole domains, and the values at their edges."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tc import _native
from tc.codegen import vector_math
from tc.dtypes import FLOAT64

INF, NAN = math.inf, math.nan
ADDRESSES = _native.symbols()


def function(name: str, arity: int = 1, kind: Any = ctypes.c_double) -> Callable[..., float]:
    return ctypes.CFUNCTYPE(kind, *[kind] * arity)(ADDRESSES[f"tc_{name}"])


def ulps(found: float, true: Any) -> float:
    """The error in units in the last place of the true value, rounded to double."""
    rounded = float(true)
    if math.isinf(rounded) or math.isinf(found):
        return 0.0 if rounded == found else INF
    return float(abs(mp.mpf(found) - true) / mp.mpf(math.ulp(rounded)))


def erfcx(x: float) -> Any:
    if x > 20:  # Laplace's continued fraction
        tail = mp.mpf(0)
        for k in range(300, 0, -1):
            tail = mp.mpf(k) / 2 / (x + tail)
        return 1 / mp.sqrt(mp.pi) / (x + tail)
    with mp.workprec(2000):
        return +(mp.exp(mp.mpf(x) ** 2) * mp.erfc(x))


def newton_erfc(start: Any, q: Any) -> Any:
    """The root of log erfc(y) = log q near `start`."""
    y = mp.mpf(start)
    for _ in range(4):
        tail = mp.erfc(y)
        y += (mp.log(tail) - mp.log(q)) * tail * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return y


def erfcinv(q: float | Any) -> Any:
    q = mp.mpf(q)
    if q > 1:
        return -erfcinv(2 - q)
    # A start from the leading terms, independent of the function that is tested.
    if q > mp.mpf("0.1"):
        start = (1 - q) * mp.sqrt(mp.pi) / 2
    else:
        start = mp.sqrt(-mp.log(q) - mp.log(mp.sqrt(-mp.log(q) * mp.pi)))
    for _ in range(3):
        start = newton_erfc(start, q)
    return start


def norm(*a: float) -> Any:
    return mp.sqrt(sum(mp.mpf(x) ** 2 for x in a))


TRUTH: dict[str, tuple[int, Callable[..., Any], float]] = {
    # name: (arity, true value, allowed error in ulp)
    "fdivide": (2, lambda x, y: mp.mpf(x) / mp.mpf(y), 0.5),
    "rsqrt": (1, lambda x: 1 / mp.sqrt(mp.mpf(x)), 2),
    "rcbrt": (1, lambda x: mp.sign(x) / mp.cbrt(abs(mp.mpf(x))), 1.5),
    "sigmoid": (1, lambda x: 1 / (1 + mp.exp(-mp.mpf(x))), 2.5),
    "exp10": (1, lambda x: mp.power(10, mp.mpf(x)), 1.5),
    "sinpi": (1, lambda x: mp.sin(mp.pi * mp.mpf(x)), 1.5),
    "cospi": (1, lambda x: mp.cos(mp.pi * mp.mpf(x)), 1.5),
    "cyl_bessel_i0": (1, lambda x: mp.besseli(0, mp.mpf(x)), 7),
    "cyl_bessel_i1": (1, lambda x: mp.besseli(1, mp.mpf(x)), 7),
    "digamma": (1, lambda x: mp.digamma(mp.mpf(x)), 4),
    "trigamma": (1, lambda x: mp.psi(1, mp.mpf(x)), 6),
    "erfcx": (1, erfcx, 5),
    "erfinv": (1, lambda x: mp.sign(x) * erfcinv(1 - abs(mp.mpf(x))), 4),
    "erfcinv": (1, erfcinv, 4),
    "normcdf": (1, lambda x: mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2, 4),
    "normcdfinv": (1, lambda p: -mp.sqrt(2) * erfcinv(2 * mp.mpf(p)), 5),
    "rhypot": (2, lambda *a: 1 / norm(*a), 2.5),
    "norm3d": (3, norm, 2),
    "rnorm3d": (3, lambda *a: 1 / norm(*a), 2.5),
    "norm4d": (4, norm, 2),
    "rnorm4d": (4, lambda *a: 1 / norm(*a), 2.5),
}
RANGES: dict[str, list[tuple[str, float, float]]] = {
    "fdivide": [("log", 1e-150, 1e150)],
    "rsqrt": [("log+", 1e-320, 1e308), ("flat", 0.1, 4)],
    "rcbrt": [("log", 1e-320, 1e308), ("flat", -4, 4)],
    "sigmoid": [("flat", -700, 40), ("flat", -5, 5)],
    "exp10": [("flat", -307, 308.2), ("flat", -3, 3)],
    "sinpi": [("flat", -3, 3), ("flat", -1e6, 1e6), ("log", 1e-300, 1)],
    "cospi": [("flat", -3, 3), ("flat", -1e6, 1e6)],
    "cyl_bessel_i0": [("flat", -10, 10), ("flat", -713, 713), ("flat", 15, 25)],
    "cyl_bessel_i1": [("flat", -10, 10), ("flat", -713, 713), ("flat", 15, 25), ("log", 1e-300, 1)],
    "digamma": [("log+", 1e-300, 1e300), ("flat", 0, 12), ("flat", 1.4, 1.5)],
    "trigamma": [("log+", 1e-150, 1e300), ("flat", 0, 12), ("flat", -40, 0)],
    "erfcx": [("flat", -26.5, 2), ("flat", 0, 3), ("flat", 2, 30), ("log+", 1e-10, 1e300)],
    "erfinv": [("flat", -1, 1), ("log", 1e-15, 1), ("flat", 0.45, 0.55), ("flat", 1 - 1e-9, 1)],
    "erfcinv": [("flat", 0, 2), ("log+", 5e-324, 0.5), ("flat", 0.4, 0.6), ("flat", 1.999999, 2)],
    "normcdf": [("flat", -37, 8), ("flat", -5, 5), ("log", 1e-300, 1)],
    "normcdfinv": [("flat", 0, 1), ("log+", 5e-324, 0.5), ("flat", 0.2, 0.3)],
    "rhypot": [("log", 1e-300, 1e307), ("flat", -2, 2)],
    "norm3d": [("log", 1e-300, 5e307), ("flat", -2, 2)],
    "rnorm3d": [("log", 1e-300, 1e307), ("flat", -2, 2)],
    "norm4d": [("log", 1e-300, 5e307), ("flat", -2, 2)],
    "rnorm4d": [("log", 1e-300, 1e307), ("flat", -2, 2)],
}


def sample(rng: np.random.Generator, how: str, low: float, high: float) -> float:
    if how == "flat":
        return float(rng.uniform(low, high))
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return value if how == "log+" or rng.random() < 0.5 else -value


def test_all_functions_are_listed() -> None:
    names = {n for name in TRUTH for n in (f"tc_{name}", f"tc_{name}f")}
    assert set(ADDRESSES) == names | {"tc_parallel_for", "tc_signals", "tc_interrupted"}
    assert len(set(ADDRESSES.values())) == len(ADDRESSES)


def test_digamma_of_negative_arguments() -> None:
    """Near its roots, one between two poles, what is right is the absolute error."""
    rng = np.random.default_rng(5)
    found = function("digamma")
    with mp.workprec(200):
        for x in rng.uniform(-50, 0, 300).tolist():
            true = mp.digamma(mp.mpf(x))
            poles = abs(mp.pi * mp.cot(mp.pi * mp.mpf(x)))
            assert abs(found(x) - true) <= 2.0**-51 * (poles + abs(mp.digamma(1 - mp.mpf(x))))


@pytest.mark.share(18)
@pytest.mark.parametrize("name", TRUTH)
def test_accuracy(name: str) -> None:
    arity, truth, allowed = TRUTH[name]
    f, single = function(name, arity), function(name + "f", arity, ctypes.c_float)
    rng = np.random.default_rng(7)
    with mp.workprec(200):
        for how, low, high in RANGES[name]:
            for _ in range(80):
                args = [sample(rng, how, low, high) for _ in range(arity)]
                assert ulps(f(*args), truth(*args)) <= allowed, args
    for how, low, high in RANGES[name]:
        for _ in range(20):
            args = [sample(rng, how, low, high) for _ in range(arity)]
            rounded = [ctypes.c_float(a).value for a in args]
            if name == "fdivide":
                with np.errstate(all="ignore"):
                    expected = float(np.float32(rounded[0]) / np.float32(rounded[1]))
            else:
                expected = ctypes.c_float(f(*rounded)).value
            found = single(*rounded)
            assert found == expected or (math.isnan(found) and math.isnan(expected)), args


def test_the_documented_bounds_are_those() -> None:
    """Of all functions that have no vector form with a bound of its own."""
    rows = (
        (Path(__file__).parents[2] / "docs/numerics.md")
        .read_text()
        .split("are called lane by lane, these are ours")[1]
    )
    found = {
        n: float(bound) for n, bound in re.findall(r"`(\w+)` \| ([\d.]+) \|", rows.split("The others")[0])
    }
    assert found == {
        n: TRUTH[n][2] for n in TRUTH if not vector_math.supported(n, FLOAT64) and n != "fdivide"
    }


EDGES: list[tuple[str, tuple[float, ...], float]] = [
    ("rsqrt", (0.0,), INF),
    ("rsqrt", (-0.0,), -INF),
    ("rsqrt", (INF,), 0.0),
    ("rsqrt", (-1.0,), NAN),
    ("rcbrt", (0.0,), INF),
    ("rcbrt", (-0.0,), -INF),
    ("rcbrt", (-INF,), -0.0),
    ("rcbrt", (-8.0,), -0.5),
    ("rcbrt", (NAN,), NAN),
    ("sigmoid", (0.0,), 0.5),
    ("sigmoid", (INF,), 1.0),
    ("sigmoid", (-INF,), 0.0),
    ("sigmoid", (1e308,), 1.0),
    ("sigmoid", (-1e308,), 0.0),
    ("sigmoid", (NAN,), NAN),
    *[("exp10", (float(n),), float(f"1e{n}")) for n in (-5, 0, 1, 2, 15, 22, 23, 100, 308)],
    ("exp10", (309.0,), INF),
    ("exp10", (-324.0,), 0.0),
    ("exp10", (-323.0,), 1e-323),
    ("exp10", (-INF,), 0.0),
    ("exp10", (INF,), INF),
    ("exp10", (NAN,), NAN),
    ("sinpi", (0.0,), 0.0),
    ("sinpi", (-0.0,), -0.0),
    ("sinpi", (3.0,), 0.0),
    ("sinpi", (-3.0,), -0.0),
    ("sinpi", (-1e300,), -0.0),
    ("sinpi", (0.5,), 1.0),
    ("sinpi", (-0.5,), -1.0),
    ("sinpi", (1.5,), -1.0),
    ("sinpi", (INF,), NAN),
    ("sinpi", (NAN,), NAN),
    ("cospi", (0.0,), 1.0),
    ("cospi", (1.0,), -1.0),
    ("cospi", (0.5,), 0.0),
    ("cospi", (-1.5,), 0.0),
    ("cospi", (1e300,), 1.0),
    ("cospi", (-INF,), NAN),
    ("cyl_bessel_i0", (0.0,), 1.0),
    ("cyl_bessel_i0", (-INF,), INF),
    ("cyl_bessel_i0", (1e308,), INF),
    ("cyl_bessel_i0", (714.0,), INF),
    ("cyl_bessel_i0", (NAN,), NAN),
    ("cyl_bessel_i1", (-0.0,), -0.0),
    ("cyl_bessel_i1", (-INF,), -INF),
    ("cyl_bessel_i1", (-1e308,), -INF),
    ("cyl_bessel_i1", (5e-324,), 0.0),
    ("cyl_bessel_i1", (NAN,), NAN),
    ("digamma", (0.0,), -INF),
    ("digamma", (-0.0,), INF),
    ("digamma", (-3.0,), NAN),
    ("digamma", (INF,), INF),
    ("digamma", (-INF,), NAN),
    ("digamma", (NAN,), NAN),
    ("digamma", (-0.5,), 0.036489973978576520559),
    ("trigamma", (0.0,), INF),
    ("trigamma", (-2.0,), INF),
    ("trigamma", (INF,), 0.0),
    ("trigamma", (-INF,), NAN),
    ("trigamma", (NAN,), NAN),
    ("erfcx", (0.0,), 1.0),
    ("erfcx", (INF,), 0.0),
    ("erfcx", (-INF,), INF),
    ("erfcx", (-1e300,), INF),
    ("erfcx", (NAN,), NAN),
    ("erfinv", (0.0,), 0.0),
    ("erfinv", (-0.0,), -0.0),
    ("erfinv", (1.0,), INF),
    ("erfinv", (-1.0,), -INF),
    ("erfinv", (1.0000001,), NAN),
    ("erfinv", (-INF,), NAN),
    ("erfinv", (NAN,), NAN),
    ("erfcinv", (0.0,), INF),
    ("erfcinv", (1.0,), 0.0),
    ("erfcinv", (2.0,), -INF),
    ("erfcinv", (-1e-300,), NAN),
    ("erfcinv", (2.1,), NAN),
    ("erfcinv", (NAN,), NAN),
    ("normcdf", (0.0,), 0.5),
    ("normcdf", (INF,), 1.0),
    ("normcdf", (-INF,), 0.0),
    ("normcdf", (40.0,), 1.0),
    ("normcdf", (-40.0,), 0.0),
    ("normcdf", (NAN,), NAN),
    ("normcdfinv", (0.0,), -INF),
    ("normcdfinv", (0.5,), 0.0),
    ("normcdfinv", (1.0,), INF),
    ("normcdfinv", (1.5,), NAN),
    ("normcdfinv", (NAN,), NAN),
    ("fdivide", (1.0, 0.0), INF),
    ("fdivide", (0.0, 0.0), NAN),
    ("rhypot", (3.0, 4.0), 0.2),
    ("rhypot", (0.0, 0.0), INF),
    ("rhypot", (INF, NAN), 0.0),
    ("rhypot", (5e-324, 0.0), INF),
    ("rhypot", (1.0, NAN), NAN),
    ("norm3d", (2.0, -3.0, 6.0), 7.0),
    ("norm3d", (-0.0, -0.0, -0.0), 0.0),
    ("norm3d", (NAN, 1.0, -INF), INF),
    ("norm3d", (1e308, 1e308, 1e308), 1.7320508075688772e308),
    ("norm3d", (3e-320, 0.0, 4e-320), 5e-320),
    ("norm4d", (1e308, 1e308, 1e308, 1e308), INF),
    ("norm4d", (1.0, -1.0, 1.0, -1.0), 2.0),
    ("norm4d", (1.0, 1.0, 1.0, NAN), NAN),
    ("rnorm3d", (0.0, 0.0, 0.0), INF),
    ("rnorm4d", (INF, 0.0, NAN, 1.0), 0.0),
    ("rnorm4d", (0.5, 0.5, 0.5, 0.5), 1.0),
]


@pytest.mark.parametrize(("name", "args", "expected"), EDGES)
def test_edges(name: str, args: tuple[float, ...], expected: float) -> None:
    found = function(name, len(args))(*args)
    if math.isnan(expected):
        assert math.isnan(found)
    else:
        assert found == expected
        assert math.copysign(1, found) == math.copysign(1, expected)


@pytest.mark.parametrize("standard", ["c99", "c11", "gnu17"])
def test_the_text_is_plain_c(tmp_path: Path, standard: str) -> None:
    """As text in front of a generated kernel, without an include path and without a warning."""
    header = Path(_native.__file__).parent / "native" / "math.h"
    source = tmp_path / "kernel.c"
    source.write_text(header.read_text() + "\nint kernel(double *x) { x[1] = tc_erfinv(x[0]); return 0; }\n")
    library = tmp_path / "kernel.so"
    command = [
        "cc",
        f"-std={standard}",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-shared",
        "-fPIC",
    ]
    subprocess.run([*command, str(source), "-o", str(library), "-lm"], check=True)
    values = (ctypes.c_double * 2)(0.25)
    assert ctypes.CDLL(str(library)).kernel(values) == 0
    assert values[1] == function("erfinv")(0.25)

"""Every example of the paper and of SAC.md §6, on every backend that runs here."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tests.sac.table import REFUSED, TABLE

BACKENDS = [n for n in ("reference", "cpu", "opencl") if tc.backends()[n].ok]


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("place", "source", "args", "expected"), TABLE)
def test_example(place: str, source: str, args: tuple[Any, ...], expected: Any, backend: str) -> None:
    found = tc.compile(source, lang="sac", backend=backend)(*args)
    assert np.shape(found) == np.shape(expected)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("place", "source", "args", "code", "message"), REFUSED)
def test_refused(place: str, source: str, args: tuple[Any, ...], code: str, message: str) -> None:
    with pytest.raises(tc.Error, match=message) as e:
        tc.compile(source, lang="sac", backend="reference")(*args)
    assert e.value.code == code and e.value.span is not None and e.value.help


MORE = [
    ("-7 / 2 + [7 / 2, -7 % 2, 7 % -2]", (), [0, -4, -2]),
    ("a / b", (np.array([-7, 7, 3], np.int32), np.array([2, -2, 0], np.int32)), [-3, -3, 0]),
    ("a % b", (np.array([-7, 7, 3], np.int32), np.array([2, -2, 0], np.int32)), [-1, 1, 0]),
    ("a / b", (np.array([-(2**31)], np.int32), np.array([-1], np.int32)), [-(2**31)]),
    ("{ [i] -> a[i-1] }", (np.arange(3.0),), [0, 0, 1, 2]),
    ("{ [i] -> a[2*i] + a[i+1] }", (np.arange(5.0),), [1, 4, 7]),
    ("{ [i] -> i > 0 ? a[i-1] : 0.0 | [i] < shape(a) }", (np.arange(3.0),), [0, 0, 1]),
    ("{ [i] -> sum({ [k] -> a[i+k] * w[k] }) }", (np.arange(5.0), np.ones(2)), [1, 3, 5, 7]),
    ("{ [i] -> sum({ [j] -> v[j] | [j] < [i] }) | [i] < shape(v) }", (np.arange(4.0),), [0, 0, 1, 3]),
    ("with { ([0] <= [i] < [9] step [3] width [2]) : 1; } : genarray([10], 0)", (), [1, 1, 0] * 3 + [0]),
    ("with { ([0,0] <= iv < [4,4]) : iv[0]*iv[1]; } : fold(max, 0)", (), 9),
    ("with { ([0] <= [i] < [4]) : i > 2; } : fold(||, false)", (), True),
    ("with { ([0] <= [i] < [4]) : [i, 1]; } : fold(+, [10, 20])", (), [16, 24]),
    ("reverse(v)", (np.arange(3.0),), [2, 1, 0]),
    ("rotate(1, v)", (np.arange(3.0),), [2, 0, 1]),
    ("rotate(-1, v)", (np.arange(3.0),), [1, 2, 0]),
    ("shift(1, v)", (np.arange(3.0),), [0, 0, 1]),
    ("shift(-1, v)", (np.arange(3.0),), [1, 2, 0]),
    ("shift([1, -1], A)", (np.arange(6).reshape(2, 3),), [[0, 0, 0], [1, 2, 0]]),
    ("shift([3], v)", (np.arange(3.0),), [0, 0, 0]),
    ("rotate([1, -1], A)", (np.arange(6).reshape(2, 3),), [[4, 5, 3], [1, 2, 0]]),
    ("rotate([1], A)", (np.arange(6).reshape(2, 3),), [[3, 4, 5], [0, 1, 2]]),
    ("transpose(A)", (np.arange(6.0).reshape(2, 3),), np.arange(6.0).reshape(2, 3).T),
    ("reshape([3,2], A)", (np.arange(6.0).reshape(2, 3),), np.arange(6.0).reshape(3, 2)),
    ("tile([2], [1], v)", (np.arange(5.0),), [1, 2]),
    ("genarray([2,2], 7)", (), [[7, 7], [7, 7]]),
    ("where(v > 1, v, 0)", (np.arange(4.0),), [0, 0, 2, 3]),
    ("all(v > 0)", (np.arange(4.0),), False),
    ("any(v > 0)", (np.arange(4.0),), True),
    ("sum(v)", (np.zeros(0),), 0),
    ("prod(v)", (np.zeros(0),), 1),
    ("minval(v)", (np.zeros(0),), np.inf),
    ("maxval(v)", (np.zeros(0, np.int32),), -(2**31)),
    ("dim(A) + shape(A)", (np.zeros((2, 3)),), [4, 5]),
    ("mod(-7, 3) + abs(-2) + min(1, 2) + max([1, 2], 3)", (), [8, 8]),
    ("A[1] ++ A[0]", (np.arange(4.0).reshape(2, 2),), [2, 3, 0, 1]),
    ("[A, A + 1]", (np.arange(2.0),), [[0, 1], [1, 2]]),
    (
        "{ iv -> { jv -> A[iv ++ jv] | jv < [2] } | iv < [2] }",
        (np.arange(9.0).reshape(3, 3),),
        [[0, 1], [3, 4]],
    ),
    ("{ iv -> A[iv] * 2 }[[1]]", (np.arange(3.0),), 2),
    ("A[[]]", (np.arange(3.0),), [0, 1, 2]),
]


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("source", "args", "expected"), MORE)
def test_more(source: str, args: tuple[Any, ...], expected: Any, backend: str) -> None:
    found = tc.compile(source, lang="sac", backend=backend)(*args)
    assert np.shape(found) == np.shape(expected)
    assert np.array_equal(found, expected)


def test_gather_is_checked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.errors.DataDependentAccess)
        kernel = tc.compile("{ [i] -> A[B[i]] }", lang="sac", backend="reference")
        a = np.arange(5.0)
        assert np.array_equal(kernel(a, np.array([1, 4, 0], np.int32)), [1, 4, 0])
        with pytest.raises(tc.BoundsError):
            kernel(a, np.array([1, 5, 0], np.int32))


@pytest.mark.parametrize("backend", ["interpret", "reference"])
@pytest.mark.parametrize("n", [3, -3, 0, 5, -5])
def test_counts_that_arrive_with_the_arrays(n: int, backend: str) -> None:
    """`take` of a number whose sign the source does not tell had no bounds."""
    v = np.arange(5.0)
    sources = [
        ("take([n], v)", v[:n] if n >= 0 else v[n:]),
        ("drop(n, v)", v[n:] if n >= 0 else v[:n]),
        ("rotate(n, v)", np.roll(v, n)),
        ("shift(n, v)", np.array([v[i - n] if 0 <= i - n < 5 else 0 for i in range(5)])),
    ]
    for source, wanted in sources:
        given = (n, v)
        if backend == "interpret":
            found = tc.interpret(source, *given, lang="sac")
        else:
            found = tc.compile(source, lang="sac", backend=backend)(*given)
        np.testing.assert_array_equal(found, wanted, err_msg=source)


def test_take_beyond_the_extent() -> None:
    with pytest.raises(tc.PreconditionError, match=r"v_0 must be at least 9: .* v_0 >= 9, but v_0 = 5"):
        tc.compile("take([n], v)", lang="sac", backend="reference")(9, np.zeros(5))

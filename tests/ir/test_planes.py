"""Complex temporaries with a row of each part."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.program import Program
from tc.pipeline import equivalence
from tc.transforms.program.planes import separate
from tests.backends.cpu_cases import compiled

APART = {  # the temporaries whose parts are apart
    "of a loop": (
        "a(b,i) = x(b,i) for s in 0:3 { u(b,i) = a(b,i) * x(b,i)\n a(b,i) = u(b,i) - x(b,i) } "
        "y(b,i) = a(b,i)",
        {"a", "u"},
    ),
    "read in another order": ("a(b,i) = x(b,i) * x(b,i) y(i,b) = a(b,N-1-i)", {"a"}),
    "of one dimension": ("a(i) = x(0,i) * x(1,i) y(i) = a(i) * a(N-1-i)", {"a"}),
    "parts of it are read": ("a(b,i) = x(b,i) * x(b,i) y(b,i) = real(a(b,i)) - imag(a(b,N-1-i))", {"a"}),
    "parts of an array": (
        "a(b,i) = x(b,i) * x(b,i) where i in 0:2 a(b,i) = x(b,i) where i in 2:N y(b,i) = a(b,i) * a(b,i)",
        {"a"},
    ),
}
TOGETHER = {
    "of a sum": "a(b,i) = x(b,i) * x(b,i) y(b) +=! a(b,i)",
    "of a product": "a(b,i) = x(b,i) * x(b,i) y(b,c) +=! a(b,i) * x(c,i)",
    "a sum": "a(b) +=! x(b,i) y(b) = a(b) * a(b)",
    "a number": "a() = x(0,0) * x(0,1) y(b,i) = x(b,i) * a()",
    "none": "y(b,i) = x(b,i) * x(b,i)",
}


def source(body: str) -> str:
    return f"def f(complex64(B,N) x) -> (y) {{ {body} }}"


def program(body: str) -> Program:
    return compiled(source(body)).program({"B": 3, "N": 5})


@pytest.mark.parametrize("name", APART)
def test_temporaries_in_split_format(name: str) -> None:
    body, temporaries = APART[name]
    before = program(body)
    after, names = separate(before)
    equivalence.same_results(before, after)
    assert set(names) == temporaries
    for n in names:
        *outer, row, parts = before.buffer(n).box
        assert after.buffer(n).box == (*outer, parts, row)
    assert after.buffer("y") == before.buffer("y")


@pytest.mark.parametrize("name", TOGETHER)
def test_temporaries_with_adjacent_parts(name: str) -> None:
    before = program(TOGETHER[name])
    assert separate(before) == (before, ())


def numbers(*shape: int) -> Any:
    rng = np.random.default_rng(0)
    return (rng.integers(-2, 3, shape) + 1j * rng.integers(-2, 3, shape)).astype(np.complex64)


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("name", APART)
def test_the_results_are_the_same(name: str, backend: str) -> None:
    text, x = source(APART[name][0]), numbers(3, 21)
    np.testing.assert_array_equal(tc.compile(text, backend)(x), tc.interpret(text, x))


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
@pytest.mark.parametrize("backend", ["cpu", "opencl"])
def test_failed_checks_have_the_same_message(backend: str) -> None:
    text = """def f(complex64(N) x, int(N) r) -> (y) {
      a(i) = x(i)
      for s in 0:2 { u(i) = a(r(i)) * a(i) a(i) = u(i) - a(i) }
      y(i) = a(i)
    }"""
    x, r = numbers(20), np.arange(20, dtype="i4")[::-1].copy()
    kernel = tc.compile(text, backend)
    np.testing.assert_array_equal(kernel(x, r), tc.interpret(text, x, r))
    r[7] = 20
    with pytest.raises(tc.BoundsError, match="i = 7") as found:
        kernel(x, r)
    assert "index 20 is out of range for dimension 0 of 'a' (0 to 19)" in str(found.value)


def fft(stages: int) -> str:
    return f"""def fft(complex64(B,N) x, complex64(S,H) w, int(N) r) -> (X) {{
      a(b,i) = x(b,i)
      for s in 0:{stages} {{
        u(b,i) = a(b,i) + a(b,i+H) where i in 0:H
        v(b,i) = (a(b,i) - a(b,i+H)) * w(s,i)
        a(b,i) = i % 2 == 0 ? u(b,i/2) : v(b,i/2) where i in 0:N
      }}
      X(b,i) = a(b,r(i))
    }}"""


def test_stages_of_a_transform_have_lanes_along_rows() -> None:
    """They are along batches or along parts where the parts lie side by side, and gather either."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(fft(6), "cpu")
    loops = kernel.inspect("loops", B=32, N=64, S=6, H=32)
    inside = loops[loops.index("for s in") :]
    inside = inside[: inside.index("X[")]
    lanes = [line.split()[2] for line in inside.splitlines() if line.strip().startswith("vector for")]
    assert lanes and all(name.startswith("i_") for name in lanes[:-1]), loops

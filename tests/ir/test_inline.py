"""Temporaries computed where they are read."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.ir.printer import program_text
from tc.ir.program import Program
from tc.transforms.program.inline import Inlined, inline
from tests.backends.cpu_cases import compiled, interpreted, same


def specialized(source: str, **sizes: int) -> Program:
    return compiled(source).program(sizes)


def always(program: Program, found: Inlined) -> bool:
    return True


def gone(source: str, **sizes: int) -> tuple[str, ...]:
    return inline(specialized(source, **sizes), always)[1]


BLUR = """
def blur(float(H,W) I) -> (O) {
  B(y,x) = I(y,x) + I(y,x+1) + I(y,x+2)
  O(y,x) = B(y,x) + B(y+1,x) + B(y+2,x)
}"""


def test_a_stencil_of_a_stencil() -> None:
    program, names = inline(specialized(BLUR, H=8, W=9), always)
    assert names == ("B",)
    assert [b.name for b in program.buffers] == ["I", "O"]
    assert len(program.stages) == 1
    assert "I(y + 2, x + 2)" in program_text(program)
    (stage,) = program.stages  # says what it computes, in the words of both
    assert stage.text == "O(y,x) = B(y,x) + B(y+1,x) + B(y+2,x) with B(y,x) = I(y,x) + I(y,x+1) + I(y,x+2)"


def test_chains_of_temporaries_are_inlined_one_by_one() -> None:
    source = """
    def f(float(N) A) -> (D) {
      B(i) = A(i) * A(i+1)
      C(i) = B(i) - B(i+1)
      D(i) = C(i) + C(i+2)
    }"""
    assert gone(source, N=20) == ("B", "C")


def test_a_temporary_is_judged_again_after_its_reader_is_inlined() -> None:
    """`B` is read at one point of `C`, and at two of `D` once `C` is computed there."""
    source = """
    def f(float(N) A) -> (D) {
      B(i) = A(i) * A(i+1)
      C(i) = B(i) > 0 ? B(i) : A(i)
      D(i) = C(i) + C(i+2)
    }"""
    names = inline(specialized(source, N=20), lambda _, found: not found.same_points)[1]
    assert names == ("C", "B")


@pytest.mark.slow
def test_spellings_of_a_flux_limiter_become_one_statement() -> None:
    """Differences with names of their own were stored: twice the time of the other spelling."""
    head = (
        "def f(float(I,J,K) x, float c) -> (o) { l(i,j,k) = x(i+1,j,k) + x(i-1,j,k) - x(i,j+1,k) - x(i,j-1,k)"
    )
    named = "\na(i,j,k) = l(i+1,j,k) - l(i,j,k)\nb(i,j,k) = l(i,j+1,k) - l(i,j,k)"
    flux = "\nf{n}(i,j,k) = ({e}) * (x({at}) - x(i,j,k)) > 0 ? 0 : {e}"
    tail = "\no(i,j,k) = x(i,j,k) - c*(fx(i,j,k) - fx(i-1,j,k) + fy(i,j,k) - fy(i,j-1,k)) }"
    for differences in (("l(i+1,j,k) - l(i,j,k)", "l(i,j+1,k) - l(i,j,k)"), ("a(i,j,k)", "b(i,j,k)")):
        source = head + (named if "a" in differences[0] else "")
        for n, e, at in zip("xy", differences, ("i+1,j,k", "i,j+1,k"), strict=True):
            source += flux.format(n=n, e=e, at=at)
        kernel = tc.compile(source + tail, "cpu", options=tc.Options(machine=SLOW))
        x = np.random.default_rng(0).integers(-3, 4, (9, 10, 12)).astype(np.float32)
        assert np.array_equal(kernel(x, 0.5), interpreted(source + tail, x, 0.5)[0])
        loops = kernel.inspect("loops", I=132, J=132, K=96)
        assert "temporary" not in loops and loops.count("vector for") >= 1


REFUSED = {
    "an output": "def f(float(N) A) -> (B, C) { B(i) = A(i)\n C(i) = B(i) + B(i+1) }",
    "a reduction": "def f(float(N,M) A) -> (C) { B(i) +=! A(i,k)\n C(i) = B(i) + B(i+1) }",
    "two definitions": "def f(float(N) A) -> (C) { B(i) = A(i)\n B(i) = B(i) * A(i)\n C(i) = B(i) + B(i+1) }",
    "a checked access": "def f(float(N) A, int(M) X) -> (C) { B(i) = A(X(i))\n C(i) = B(i) + B(i+1) }",
    "read where data say": "def f(float(N) A, int(M) X) -> (C) { B(i) = A(i) + A(i)\n C(i) = B(X(i)) }",
}


@pytest.mark.parametrize("name", REFUSED)
def test_temporaries_that_are_not_inlined(name: str) -> None:
    source = REFUSED[name]
    assert gone(source, N=9, **({"M": 7} if "M" in source else {})) == ()


def test_a_temporary_of_overwritten_elements_is_not_inlined() -> None:
    source = """
    def f(float(N) A) -> (D, C) {
      D(i) = A(i) + 1
      B(i) = D(i) * 2
      D(i) = A(i) * 3
      C(i) = B(i) + B(i+1)
    }"""
    assert gone(source, N=9) == ()


def test_a_half_is_rounded_where_it_was() -> None:
    source = "def f(half(N) A) -> (C) { B(i) = A(i) * A(i)\n C(i) = B(i) + B(i+1) }"
    program, names = inline(specialized(source, N=9), always)
    assert names == ("B",) and "float16(" in program_text(program)


LITTLE = (("l2", 1024),)  # so that small temporaries are large
SLOW = (*LITTLE, ("bandwidth", 1.0))  # and cost more than what is computed again


@pytest.mark.share(12)
@pytest.mark.parametrize("t", ["float", "half", "double", "int", "uint8"])
def test_results_are_not_inlined(t: str) -> None:
    source = f"""
    def f({t}(H,W) I) -> (O) {{
      B(y,x) = I(y,x) + I(y,x+1) * I(y,x+2)
      O(y,x) = B(y,x) - B(y+1,x) + B(y+2,x)
    }}"""
    rng = np.random.default_rng(3)
    dtype = {"float": "f4", "half": "f2", "double": "f8", "int": "i4", "uint8": "u1"}[t]
    given = rng.integers(0, 50, (37, 53)).astype(dtype) / (8 if "f" in dtype else 1)
    given = given.astype(dtype)
    kernel = compiled(source, machine=SLOW)
    assert "computed where they are read: B\n" in kernel.inspect("choice", H=37, W=53)
    (want,) = interpreted(source, given)
    same(want, np.asarray(kernel(given)))
    kept = compiled(source, machine=SLOW, fusion="min")
    assert "computed where" not in kept.inspect("choice", H=37, W=53)
    same(want, np.asarray(kept(given)))


@pytest.mark.parametrize(
    "source",
    [
        # read where it was computed: fusion keeps it in registers
        "def f(float(H,W) I) -> (O) { B(y,x) = I(y,x) * 2\n O(y,x) = B(y,x) + 1 }",
        # read for every point of a window and every filter
        "def f(float(H,W) I, float(F,K,K) w) -> (O) { B(y,x) = I(y,x) * 2\n"
        " O(f,y,x) +=! B(y+ky,x+kx) * w(f,ky,kx) }",
        # dear
        "def f(float(H,W) I) -> (O) { B(y,x) = exp(sin(I(y,x)))\n O(y,x) = B(y,x) + B(y+1,x) + B(y+2,x) }",
    ],
)
def test_temporaries_that_do_not_pay_are_not_inlined(source: str) -> None:
    kernel = tc.compile(source, "cpu", options=tc.Options(machine=LITTLE))
    sizes = {"H": 40, "W": 60} | ({"F": 8, "K": 3} if "F" in source else {})
    assert "computed where" not in kernel.inspect("choice", **sizes)

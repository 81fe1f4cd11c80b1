"""Keys of programs: names do not matter, all else does."""

from __future__ import annotations

import pytest

import tc
from tc.tuned.key import ProgramKey, program_key


def key(source: str) -> ProgramKey:
    return program_key(tc.compile(source, "reference").front)


MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SAME = {
    "names": "def f(float(P,Q) X, float(Q,R) Y) -> (out) { out(a,b) +=! X(a,c) * Y(c,b) }",
    "layout": "# a comment\ndef mm(float(M, K) A,\n  float(K, N) B) -> (C) {\n C(i, j) +=! A(i, k)*B(k, j) }",
    "names that change places": "def mm(float(N,K) B, float(K,M) A) -> (C) { C(j,i) +=! B(j,k) * A(k,i) }",
}
OTHER = {
    "type": MM.replace("float(M,K)", "double(M,K)"),
    "reduction": MM.replace("+=!", "max=!"),
    "operator": MM.replace("*", "-"),
    "transposed": MM.replace("A(i,k)", "A(k,i)"),
    "result": MM.replace("C(i,j)", "C(j,i)"),
    "square": MM.replace("float(K,N) B", "float(K,K) B"),
    "range": MM.replace("B(k,j) }", "B(k,j) where k in 1:4 }"),
    "constant": MM.replace("B(k,j)", "2 * B(k,j)"),
    "product": MM.replace("+=!", "*=!"),
}


@pytest.mark.parametrize("source", SAME.values(), ids=SAME.keys())
def test_names_do_not_matter(source: str) -> None:
    assert key(source).digest == key(MM).digest


def test_other_programs_have_other_keys() -> None:
    found = [key(s).digest for s in (MM, *OTHER.values())]
    assert len(set(found)) == len(found)


def test_sizes_come_in_the_order_of_the_program() -> None:
    a, b = key(MM), key(SAME["names"])
    assert (a.sizes, b.sizes) == (("M", "K", "N"), ("P", "Q", "R"))
    assert a.extents({"N": 3, "K": 2, "M": 1}) == b.extents({"Q": 2, "R": 3, "P": 1}) == (1, 2, 3)


def test_specialised_scalars_are_part_of_a_place() -> None:
    pool = "def f(float(N) x, int s, int k) -> (y) { y(i) max=! x(s*i+j) where j in 0:k }"
    renamed = "def g(float(L) v, int step, int width) -> (r) { r(a) max=! v(step*a+b) where b in 0:width }"
    a, b = key(pool), key(renamed)
    assert a.digest == b.digest and set(a.scalars) == {"s", "k"}
    assert a.values({"s": 2, "k": 3}) == b.values({"step": 2, "width": 3})
    swapped = "def f(float(N) x, int k, int s) -> (y) { y(i) max=! x(s*i+j) where j in 0:k }"
    assert key(swapped).digest != a.digest


RICH = {
    "loop": (
        "def f(float(N) x) -> (h) { h(0) = x(0)  for t in 1:N { h(t) = 0.5 * h(t-1) + x(t) } }",
        "def g(float(L) u) -> (r) { r(0) = u(0)  for s in 1:L { r(s) = 0.5 * r(s-1) + u(s) } }",
    ),
    "boundary": (
        "def f(float(N) x) -> (y) { y(i) = x[clamp](i-1) + x[zero](i+1) where i in 0:N }",
        "def g(float(L) u) -> (v) { v(k) = u[clamp](k-1) + u[zero](k+1) where k in 0:L }",
    ),
    "arg-reduction": (
        "def f(float(N,M) x) -> (m) { m(i) argmax=! x(i,j) }",
        "def g(float(A,B) u) -> (v) { v(k) argmax=! u(k,l) }",
    ),
    "scalar": (
        "def f(float(N) x, float a) -> (y) { y(i) = a * x(i) }",
        "def g(float(A) u, float s) -> (v) { v(k) = s * u(k) }",
    ),
}


@pytest.mark.parametrize(("source", "renamed"), RICH.values(), ids=RICH.keys())
def test_all_of_the_language_has_keys(source: str, renamed: str) -> None:
    assert key(source).digest == key(renamed).digest
    changed = source.replace("zero", "wrap").replace("argmax", "argmin").replace("0.5", "0.25")
    changed = changed.replace("a * x", "a + x")
    assert key(changed).digest != key(source).digest

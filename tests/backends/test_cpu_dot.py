"""Sums of products of narrow integers: with dot-product instructions they are exact modulo 2^32."""

from __future__ import annotations

import itertools
import platform
import sys
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tc
from tc.codegen import llvm_jit
from tests.backends.cpu_cases import Array, backend, compiled, interpreted, isas, results

FEATURES = llvm_jit.host_cpu()[1].split(",")
needs_dots = pytest.mark.skipif(
    {"avx512": "+avx512vnni", "avx2": "+avxvnni"}.get(isas()[0]) not in FEATURES,
    reason="the processor has no dot products of bytes",
)

NARROW = ("int8", "uint8", "int16")
MIXED = list(itertools.product(NARROW, NARROW))
FORMS = {"nn": ("M,K", "K,N"), "nt": ("M,K", "N,K"), "tn": ("K,M", "K,N"), "tt": ("K,M", "N,K")}


def product(a: str, b: str, form: str = "nn", wide: str = "int32") -> str:
    x, y = FORMS[form]
    return (
        f"def f({a}({x}) A, {b}({y}) B) -> (C) "
        f"{{ C(m,n) +=! {wide}(A({x.lower()})) * {wide}(B({y.lower()})) }}"
    )


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Values of a type, a third of them its extremes."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    values = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    pick = rng.integers(0, 6, shape)
    return np.where(pick == 0, limits.min, np.where(pick == 1, limits.max, values)).astype(dtype)


def factors(form: str, m: int, k: int, n: int, a: str, b: str) -> tuple[Array, Array]:
    sizes = {"M": m, "K": k, "N": n}
    x, y = (tuple(sizes[s] for s in e.split(",")) for e in FORMS[form])
    return drawn(x, a, 1), drawn(y, b, 2)


def same(source: str, *args: Any, **options: Any) -> None:
    for want, got in zip(
        interpreted(source, *args), results(compiled(source, **options)(*args)), strict=True
    ):
        assert want.dtype == got.dtype
        np.testing.assert_array_equal(got, want, f"{source} {options}")


def uses(source: str, sizes: dict[str, int], **options: Any) -> set[str]:
    """The dot-product instructions in a kernel."""
    text = compiled(source, **options).specialize(**sizes).inspect("asm")
    return {name for name in ("vpdpbusd", "vpdpwssd", "vpdpbusds", "vpdpwssds") if f"\t{name}\t" in text}


SHAPES = [(1, 4, 16), (5, 3, 17), (3, 2, 50), (7, 13, 37), (17, 5, 1), (9, 71, 20), (16, 64, 64), (2, 1, 3)]


@pytest.mark.share(18)
@pytest.mark.parametrize(("a", "b"), MIXED)
def test_results_of_products(a: str, b: str) -> None:
    for m, k, n in SHAPES:
        same(product(a, b), *factors("nn", m, k, n, a, b))


@pytest.mark.share(18)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("a", "b"), [("int8", "int8"), ("uint8", "int8"), ("int16", "int16")])
def test_results_with_transposed_factors(form: str, a: str, b: str) -> None:
    for m, k, n in ((13, 75, 21), (6, 18, 33), (32, 16, 5)):
        same(product(a, b, form), *factors(form, m, k, n, a, b))


@pytest.mark.share(18)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("form", FORMS)
def test_results_of_given_register_tiles(form: str, isa: str) -> None:
    """Lanes along either axis, tiles that leave remainders along both."""
    args = factors(form, 11, 39, 43, "int8", "int8")
    for tile, vector in (((3, 32), 1), ((16, 2), 0), ((4, 16), 1), ((8, 3), 0)):
        same(product("int8", "int8", form), *args, isa=isa, register_tile=tile, vector=vector)
        same(product("int8", "int8", form), *args, isa=isa, register_tile=tile, vector=vector, pack=False)


def test_sums_wrap_around() -> None:
    for t, k in (("uint8", 34000), ("int8", 132000), ("int16", 7)):
        limits = np.iinfo(t)
        for value in (limits.min or limits.max, limits.max):
            a, b = np.full((2, k), value, t), np.full((k, 16), value, t)
            (got,) = results(compiled(product(t, t))(a, b))
            total = k * int(value) ** 2
            want = (total + 2**31) % 2**32 - 2**31
            assert (got == want).all(), (t, value)


def test_results_of_unsigned_sums() -> None:
    for a, b in (("uint8", "uint8"), ("int8", "uint8"), ("int8", "int8")):
        same(product(a, b, wide="uint32"), *factors("nn", 7, 130, 37, a, b))


@pytest.mark.share(12)
@pytest.mark.parametrize("form", FORMS)
def test_results_of_deep_reductions_in_blocks(form: str) -> None:
    """Packs of a part of the reduction at a time."""
    for k in (20003, 16384):
        a, b = factors(form, 5, k, 70, "int8", "int8")
        (got,) = results(compiled(product("int8", "int8", form))(a, b))
        x, y = a.T if form[0] == "t" else a, b.T if form[1] == "t" else b
        np.testing.assert_array_equal(got, x.astype(np.int32) @ y.astype(np.int32))


OTHERS = {
    "batched": (
        "def f(int8(B,M,K) X, int8(B,K,N) Y) -> (Z) { Z(b,m,n) +=! int32(X(b,m,k)) * int32(Y(b,k,n)) }",
        ((3, 6, 21), (3, 21, 37)),
    ),
    "an image with channels last": (
        "def f(uint8(H,W,C) I, int8(KH,KW,C,O) F) -> (R) "
        "{ R(h,w,o) +=! int32(I(h+kh,w+kw,c)) * int32(F(kh,kw,c,o)) }",
        ((8, 9, 13), (3, 3, 13, 18)),
    ),
    "channels last, both signed": (
        "def f(int8(H,W,C) I, int8(O,KH,KW,C) F) -> (R) "
        "{ R(h,w,o) +=! int32(I(h+kh,w+kw,c)) * int32(F(o,kh,kw,c)) }",
        ((7, 8, 70), (20, 2, 3, 70)),
    ),
    "a row": (
        "def f(int8(W) I, int8(KW,O) F) -> (R) { R(w,o) +=! int32(I(w+kw)) * int32(F(kw,o)) }",
        ((40,), (11, 18)),
    ),
    "part of a matrix": (
        "def f(int8(M,K) A, int8(K,N) B) -> (C) "
        "{ C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) where k in 3:20, n in 1:37 }",
        ((9, 23), (23, 40)),
    ),
    "under a condition": (
        "def f(int8(M,K) A, int8(K,N) B) -> (C) { C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) where k < m + 3 }",
        ((9, 24), (24, 40)),
    ),
    "twice": (
        "def f(int8(M,K) A, int8(K,N) B, int8(N,L) E) -> (C, D) {\n"
        "  C(m,n) +=! int32(A(m,k)) * int32(B(k,n))\n"
        "  D(m,l) +=! int32(A(m,n)) * int32(E(n,l)) where n in 0:20 }",
        ((9, 24), (24, 20), (20, 36)),
    ),
    "one factor alone": (
        "def f(int8(M,K) A) -> (C) { C(m,n) +=! int32(A(m,k)) * int32(A(n,k)) }",
        ((21, 40),),
    ),
    "a squared factor": (
        "def f(int8(M,K) A, int8(K) B) -> (C) { C(m) +=! int32(A(m,k)) * int32(A(m,k)) }",
        ((21, 40), (40,)),
    ),
    "rows": (
        "def f(int8(M,K) A, int8(K) B) -> (C) { C(m) +=! int32(A(m,k)) * int32(B(k)) }",
        ((70, 131), (131,)),
    ),
}


@pytest.mark.share(18)
@pytest.mark.parametrize("name", OTHERS)
def test_results_of_other_sums_of_products(name: str) -> None:
    source, shapes = OTHERS[name]
    kinds = ["uint8" if "uint8(H" in source and not i else "int8" for i in range(len(shapes))]
    same(source, *(drawn(s, t, i) for i, (s, t) in enumerate(zip(shapes, kinds, strict=True))))


ROWS = "def f({a}(M,K) A, {b}(K) B) -> (C) {{ C(m) +=! int32(A(m,k)) * int32(B(k)) }}"


@pytest.mark.share(18)
@pytest.mark.parametrize(("a", "b"), MIXED)
def test_results_with_lanes_along_the_sum(a: str, b: str) -> None:
    """Lanes along the sum itself."""
    for m, k in ((1, 64), (3, 131), (37, 300), (5, 15)):
        args = drawn((m, k), a, 3), drawn((k,), b, 4)
        same(ROWS.format(a=a, b=b), *args)
        same(ROWS.format(a=a, b=b), *args, vector=-1)


@needs_dots
@pytest.mark.parametrize(("a", "b"), MIXED)
def test_dot_products_are_used_with_lanes_along_the_sum(a: str, b: str) -> None:
    found = uses(ROWS.format(a=a, b=b), {"M": 64, "K": 512})
    assert found == {"vpdpbusd" if {a, b} == {"int8", "uint8"} else "vpdpwssd"}


def test_wider_sums_use_no_dot_products() -> None:
    source = product("int8", "int8", wide="int64")
    same(source, *factors("nn", 6, 40, 37, "int8", "int8"))
    assert not uses(source, {"M": 6, "K": 40, "N": 37})
    source = "def f(int8(M,K) A, int8(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    same(source, *factors("nn", 6, 40, 37, "int8", "int8"))
    assert not uses(source, {"M": 6, "K": 40, "N": 37})


@pytest.mark.share(18)
@pytest.mark.parametrize(
    ("form", "a", "b"),
    [
        ("nn", "int8", "int8"),
        ("nn", "uint8", "int8"),
        ("nt", "int8", "int8"),
        ("tn", "int8", "uint8"),
        ("tt", "int16", "int16"),
    ],
)
def test_results_of_a_dynamic_number_of_rows(form: str, a: str, b: str) -> None:
    """The first call decides for which number kernels are made: one that leaves no remainder, and one that
    leaves remainders of every length."""
    source = product(a, b, form)
    for first, k, n in ((64, 64, 64), (1, 37, 50)):
        kernel = tc.compile(source, "cpu", dynamic=("M",))
        for m in (first, 1, 2, 7, 17, 100):
            given = factors(form, m, k, n, a, b)
            np.testing.assert_array_equal(kernel(*given), interpreted(source, *given)[0], f"{first} {m}")


@needs_dots
@pytest.mark.parametrize(("a", "b"), [("int8", "int8"), ("uint8", "int8"), ("int16", "int16")])
def test_dot_products_are_used_for_a_dynamic_number_of_rows(a: str, b: str) -> None:
    for form in ("nn", "nt"):
        kernel = tc.compile(product(a, b, form), "cpu", dynamic={"M": 256})
        text = kernel.specialize(M=256, K=256, N=256).artifact("asm")
        assert "vpdpbusd" in text or "vpdpwssd" in text, form


def test_results_of_more_rows_than_kept_sums() -> None:
    """Sums of the rows of a factor belong to a cache tile, which then has at most as many rows."""
    source = "def f(int8(B,M,K) A, int8(K,N) W) -> (C) { C(b,m,n) +=! int32(A(b,m,k)) * int32(W(k,n)) }"
    for options in ({}, {"parallel": False}):
        kernel = tc.compile(source, "cpu", dynamic=("B", "M"), options=options)
        for b, m in ((2, 1100), (1, 1024), (1, 1)):
            given = drawn((b, m, 12), "int8", 1), drawn((12, 33), "int8", 2)
            np.testing.assert_array_equal(
                kernel(*given), interpreted(source, *given)[0], f"{options} {b} {m}"
            )


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("b", ["N,P,K", "P,K,N"])
@pytest.mark.parametrize("dynamic", ["P", "K"])
def test_results_where_one_of_several_reductions_has_a_dynamic_length(dynamic: str, b: str) -> None:
    source = (
        f"def f(int8(M,P,K) A, int8({b}) B) -> (C) {{ C(m,n) +=! int32(A(m,p,k)) * int32(B({b.lower()})) }}"
    )
    kernel = tc.compile(source, "cpu", dynamic=dynamic.split())
    for m, n, p, k in ((5, 17, 3, 32), (33, 40, 7, 19), (8, 16, 0, 8)):
        sizes = {"M": m, "N": n, "P": p, "K": k}
        args = drawn((m, p, k), "int8", 1), drawn(tuple(sizes[s] for s in b.split(",")), "int8", 2)
        np.testing.assert_array_equal(kernel(*args), interpreted(source, *args)[0])


@pytest.mark.slow
def test_results_of_dynamic_sizes() -> None:
    source = product("int8", "int8")
    kernel = tc.compile(source, "cpu", dynamic=("M", "K", "N"))
    for m, k, n in ((7, 13, 37), (1, 64, 16), (0, 3, 5)):
        args = factors("nn", m, k, n, "int8", "int8")
        for want, got in zip(interpreted(source, *args), results(kernel(*args)), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.share(18)
@needs_dots
@pytest.mark.parametrize(("a", "b"), MIXED)
def test_dot_products_are_used(a: str, b: str) -> None:
    words = "int16" in (a, b)
    assert uses(product(a, b), {"M": 64, "K": 64, "N": 64}) == {"vpdpwssd" if words else "vpdpbusd"}


@pytest.mark.share(36)
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these are instructions of x86")
@pytest.mark.parametrize("isa", [i for i in isas() if i != "avx512"])
@pytest.mark.parametrize(("a", "b"), MIXED)
def test_sums_of_pairs_are_used_where_there_are_no_dot_products(a: str, b: str, isa: str) -> None:
    """In products, and along rows: two 16-bit products a lane, bytes widened, wrapping as the
    language does."""
    sizes = {"M": 64, "K": 64, "N": 64}
    text = compiled(product(a, b), isa=isa).specialize(**sizes).inspect("asm")
    assert "pmaddwd" in text or "vpdpwssd" in text
    for m, k, n in ((9, 33, 37), (4, 64, 8), (3, 1, 16)):
        same(product(a, b), *factors("nn", m, k, n, a, b), isa=isa)
    args = drawn((7, 131), a, 3), drawn((131,), b, 4)
    same(ROWS.format(a=a, b=b), *args, isa=isa, vector=-1)
    for form in ("nt", "tn"):
        same(product(a, b, form), *factors(form, 13, 35, 21, a, b), isa=isa)


@needs_dots
@pytest.mark.parametrize("form", FORMS)
def test_dot_products_are_used_for_transposed_factors(form: str) -> None:
    assert uses(product("int8", "int8", form), {"M": 64, "K": 64, "N": 64}) == {"vpdpbusd"}


@pytest.mark.skipif(isas()[0] not in ("avx512", "avx2"), reason="LLVM is made for this processor")
@pytest.mark.parametrize(("name", "feature"), [("AVX512", "+avx512vnni"), ("AVX2", "+avxvnni")])
def test_code_for_other_processors_assembles(name: str, feature: str) -> None:
    isas_of = sys.modules["tc_backends.cpu.isa"]
    isa = replace(getattr(isas_of, name), features=feature, dots=True)
    machine = replace(backend.host(), isa=isa, fma_units=2, loads=2)
    program = compiled(product("int8", "int8")).program({"M": 48, "K": 66, "N": 51})
    module = llvm.parse_assembly(backend.code_of(program, machine, tc.Options()).text)
    target = llvm.Target.from_triple(isa.triple)
    made = target.create_target_machine(cpu=isa.cpu, features=isa.features, opt=3)
    assert "vpdpbusd" in made.emit_assembly(module)


@needs_dots
def test_loops_show_dot_products() -> None:
    text = compiled(product("int8", "int8")).specialize(M=64, K=64, N=64).inspect("loops")
    assert "dot for k" in text

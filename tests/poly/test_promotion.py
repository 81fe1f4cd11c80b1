"""Promotion to shared memory and registers: what is copied, what is not, and what is said of it."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import tc
from tc.ir.expr import GE, LT, IntImm, Load, Variable, walk
from tc.ir.loops import (
    Block,
    Combine,
    Compute,
    For,
    If,
    LoopKind,
    Stmt,
    Sync,
    statements,
)
from tc.poly.gpu.collective import sunk
from tests.poly.promoted import CONV, nest, shared, small

LUT = """def lut(float(E,D) T, int64(B,L) I) -> (O) {
  O(b,d) +=! T(I(b,l), d)
}"""
USED_AGAIN = """def used(float(E,D) T, int(L) I, float(L,C) W) -> (O) {
  O(d,c) +=! T(I(l) + 1, d) * W(l,c)
}"""


@pytest.mark.share(18)
@pytest.mark.parametrize(
    "options",
    [
        {"tile": (2, 4), "threads": (4, 2)},
        {"tile": (4, 8), "threads": (4, 2)},
        {"tile": (5, 3), "threads": (3, 5)},
        {"tile": (64, 64), "threads": (8, 4)},
        {},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_gathered_elements_of_a_tile_are_copied(options: dict[str, object]) -> None:
    """In two stages, each with its barrier; indices are checked when copies are made.  Each block has one
    tile: no barrier follows its use."""
    kernel = tc.compile(LUT, "opencl", options={**options, "use_shared_memory": True})
    rng = np.random.default_rng(1)
    t, i = small(rng, 9, 7), rng.integers(0, 9, (5, 6))
    np.testing.assert_array_equal(kernel(t, i), tc.interpret(LUT, t, i))
    indices, selected = sorted(shared(kernel, E=9, D=7, B=5, L=6), key=lambda a: len(a.shape))
    assert indices.name.startswith("I.") and selected.name.startswith("T.")
    assert [len(a.shape) for a in (indices, selected)] == [2, 3]
    syncs = [s for s in statements(nest(kernel, E=9, D=7, B=5, L=6)) if isinstance(s, Sync)]
    assert len(syncs) == 2
    i[4, 5] = 9
    with pytest.raises(tc.BoundsError, match=r"index 9 is out of range .* at b = 4, d = \d, l = 5"):
        kernel(t, i)


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_gathered_elements_are_copied_where_they_are_reused() -> None:
    rng = np.random.default_rng(2)
    t, i, w = small(rng, 9, 70), rng.integers(-1, 8, 50).astype(np.int32), small(rng, 50, 300)
    kernel = tc.compile(USED_AGAIN, "cuda")
    assert {a.name[0] for a in shared(kernel, E=9, D=4096, L=500, C=4096)} == {"T", "I", "W"}
    kernel = tc.compile(USED_AGAIN, "opencl", options={"tile": (32, 32), "threads": (32, 8)})
    np.testing.assert_array_equal(kernel(t, i, w), tc.interpret(USED_AGAIN, t, i, w))


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_elements_with_two_loaded_subscripts_are_not_copied() -> None:
    source = "def f(float(E,D) T, int(L) I, int(M) J) -> (O) { O(l,d) +=! T(I(l) + J(m), d) }"
    options = {"tile": (4, 8), "threads": (4, 2), "use_shared_memory": True}
    kernel = tc.compile(source, "opencl", options=options)
    rng = np.random.default_rng(8)
    t, i, j = (
        small(rng, 9, 7),
        rng.integers(0, 5, 10).astype(np.int32),
        rng.integers(0, 5, 11).astype(np.int32),
    )
    np.testing.assert_array_equal(kernel(t, i, j), tc.interpret(source, t, i, j))
    assert {a.name[0] for a in shared(kernel, E=9, D=7, L=10, M=11)} == {"I", "J"}


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_an_empty_table_is_not_read_at_padding() -> None:
    kernel = tc.compile(LUT, "opencl", options={"use_shared_memory": True, "tile": (4, 4), "threads": (4, 4)})
    got = kernel(np.zeros((0, 3), np.float32), np.zeros((2, 0), np.int64))
    np.testing.assert_array_equal(got, np.zeros((2, 3), np.float32))


def test_equal_footprints_share_a_copy() -> None:
    source = "def f(float(N) A) -> (O) { O(i) +=! A(j) * A(k) + A(j) where i in 0:N }"
    names = [a.name for a in shared(tc.compile(source, "cuda"), N=32)]
    assert len(names) <= 1


DOWN = """def down(float(C,H,W) A, float(M,C) B) -> (O) {
  O(m,h,w) +=! A(c,2*h,2*w) * B(m,c) where h in 0:H/2, w in 0:W/2
}"""
BACKWARDS = "def back(float(K) A, float(N,M) B) -> (O) { O(n) +=! A(6*m - 9*n + 130) * B(n,m) }"
PICKED = """def pick(float(E,D) T, int64(L) I, float(L,C) W) -> (O) {
  O(d,c) +=! T(I(l), 2*d + 1) * W(l,c) where d in 0:7
}"""


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
@pytest.mark.parametrize(
    ("source", "shapes", "tile", "extents"),
    [
        (DOWN, ((20, 18, 22), (10, 20)), (4, 8, 4), (20, 8, 4)),
        (DOWN, ((20, 18, 22), (10, 20)), (2, 4, 16), (20, 4, 12)),
        # Points of a tile have a stride of 9, those of the sum 6: every third element is copied.
        (BACKWARDS, ((320,), (14, 31)), (4,), (70,)),
        (PICKED, ((9, 16), (40,), (40, 9)), (4, 4), (40, 4)),
    ],
)
def test_strided_reads_are_copied_without_gaps(
    source: str, shapes: tuple[tuple[int, ...], ...], tile: tuple[int, ...], extents: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(7)
    given = [small(rng, *n) for n in shapes]
    if source is PICKED:
        given[1] = rng.integers(0, 9, 40)
    options = {"tile": tile, "threads": (4, 2), "use_shared_memory": True}
    kernel = tc.compile(source, "opencl", options=options)
    np.testing.assert_array_equal(kernel(*given), tc.interpret(source, *given))
    found = next(a for a in shared(kernel, **kernel.sizes_of(*given)) if a.name[0] in "AT")
    assert tuple(n.value for n in found.shape if isinstance(n, IntImm)) == extents


def test_loop_invariant_copies_are_hoisted() -> None:
    source = "def f(float(N) A, float(N,K) B, float(M,K) C) -> (O) { O(n,m) +=! A(n) * B(n,k) * C(m,k) }"
    options = {"tile": (8, 8), "threads": (8, 8), "use_shared_memory": True}
    kernel = tc.compile(source, "opencl", options=options)
    body = nest(kernel, N=64, M=64, K=400)
    synced = [
        s for s in statements(body) if isinstance(s, For) and any(isinstance(x, Sync) for x in statements(s))
    ]

    def copied(s: Stmt) -> set[str]:
        found = [x for x in statements(s) if isinstance(x, Compute) and not x.stage and "." in x.buffer]
        return {x.buffer[0] for x in found}

    assert {n for s in synced for n in copied(s)} == {"B", "C"}
    assert copied(body) == {"A", "B", "C"}
    rng = np.random.default_rng(4)
    a, b, c = small(rng, 64), small(rng, 64, 400), small(rng, 64, 400)
    np.testing.assert_array_equal(kernel(a, b, c), tc.interpret(source, a, b, c))


def test_conditions_on_threads_are_sunk_below_barriers() -> None:
    t, i = Variable("t"), Variable("i")
    copied = Compute("", "S", (t,), None, IntImm(0), (), "")
    started = Compute("", "P", (), None, IntImm(0), (), "")
    own = Compute("S0", "O", (t,), None, IntImm(0), (t,), "")
    loop = For("i", IntImm(0), IntImm(3), 1, LoopKind.SERIAL, Block((copied, Sync(), own)))
    inner = If(GE(i, IntImm(0)), Block((started, own, Combine("P", "+", "t"))))
    found = sunk(If(LT(t, IntImm(2)), Block((own, own, loop, inner))), {"t"}, {"S", "P"})
    guarded = If(LT(t, IntImm(2)), own)
    assert found == Block(
        (
            If(LT(t, IntImm(2)), Block((own, own))),
            For("i", IntImm(0), IntImm(3), 1, LoopKind.SERIAL, Block((copied, Sync(), guarded))),
            If(GE(i, IntImm(0)), Block((started, guarded, Combine("P", "+", "t")))),
        )
    )


@pytest.mark.parametrize("differs", [True, False])
def test_conditions_on_divergent_loop_variables_are_sunk(differs: bool) -> None:
    """If bounds differ between threads, so do conditions on the loop variable."""
    t, i = Variable("t"), Variable("i")
    own = Compute("S0", "O", (t,), None, IntImm(0), (t,), "")
    condition = GE(i, IntImm(2))
    body = If(condition, Block((own, Sync(), own)))
    loop = For("i", t if differs else IntImm(0), IntImm(3), 1, LoopKind.SERIAL, body)
    guarded = If(condition, own)
    below = Block((guarded, Sync(), guarded)) if differs else body
    assert sunk(loop, {"t"}, set()) == replace(loop, body=below)


ATTENTION = """def attention(float(Q,D) A, float(K,D) B, float(K,D) V) -> (O) {
  s(q,k) +=! A(q,d) * B(k,d)
  m(q) max=! s(q,k)
  s(q,k) = exp(s(q,k) - m(q))
  l(q) +=! s(q,k)
  O(q,d) +=! s(q,k) * V(k,d)
  O(q,d) = O(q,d) / l(q)
}"""
SOFTMAX = """def softmax(float(N,D) I) -> (O) {
  m(n) max=! I(n,d)
  O(n,d) = exp(I(n,d) - m(n))
  s(n) +=! O(n,d)
  O(n,d) = O(n,d) / s(n)
}"""


@pytest.mark.share(18)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tile": (2, 4), "threads": (4, 2)},
        {"tile": (4,), "threads": (3, 5)},
        {"tile": (2,), "threads": (4, 4), "blocks": (2,)},
        {"max_shared_memory": 64},
        {"use_shared_memory": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("source", [ATTENTION, SOFTMAX])
def test_temporaries_of_a_kernel_are_in_shared_memory(source: str, options: dict[str, object]) -> None:
    """For several limits of shared memory; without any they are in the workspace.  A block may run several
    tiles."""
    rng = np.random.default_rng(5)
    given = [small(rng, 5, 9)] if source is SOFTMAX else [small(rng, n, 3) for n in (5, 6, 6)]
    kernel = tc.compile(source, "opencl", options=options)
    np.testing.assert_allclose(kernel(*given), tc.interpret(source, *given), rtol=1e-5)


@pytest.mark.share(12)
@pytest.mark.parametrize(
    ("source", "sizes"), [(ATTENTION, {"Q": 256, "D": 64, "K": 256}), (SOFTMAX, {"N": 512, "D": 2000})]
)
def test_temporaries_of_a_kernel_are_not_in_global_memory(source: str, sizes: dict[str, int]) -> None:
    one = tc.compile(source, "cuda").specialize(**sizes)
    (kernel,) = one.compiled.module.kernels
    assert "workspace" not in {a.kind for a in kernel.arguments}
    assert one.compiled.workspace == IntImm(0), "nothing is allocated for it"


def test_a_temporary_has_the_extents_of_a_tile() -> None:
    """Also if its first element does not have index 0."""
    source = """def late(float(N,K) A) -> (O) {
      t(n,k) +=! A(n,k) + l where n in 2:N, k in 3:K, l in 0:2
      O(n) +=! t(n,k) * t(n,k+1)
    }"""
    kernel = tc.compile(source, "opencl", options={"tile": (4,), "threads": (4, 2)})
    array = next(a for a in shared(kernel, N=13, K=10) if a.name.startswith("t"))
    assert array.shape == (IntImm(4), IntImm(7))
    a = small(np.random.default_rng(9), 13, 10)
    np.testing.assert_array_equal(kernel(a), tc.interpret(source, a))


LAYERS = """def layers(float(B,N) I, float(O,N) W, float(P,O) V) -> (R, S) {
  R(b,o) +=! I(b,n) * W(o,n)
  R(b,o) = fmax(R(b,o), 0)
  S(b,p) +=! R(b,o) * V(p,o)
}"""


def elements(body: Stmt, name: str) -> tuple[int, int]:
    """The numbers of statements that read and that write an array."""
    found = [s for s in statements(body) if isinstance(s, Compute)]
    loads = [e.buffer for s in found for e in walk(s.value) if isinstance(e, Load)]
    loads += [s.buffer for s in found if s.op is not None]
    return loads.count(name), sum(s.buffer == name for s in found)


@pytest.mark.parametrize("source", [LAYERS, SOFTMAX])
def test_reused_results_are_stored_once(source: str) -> None:
    """At the end of their tile; the kernel does not load them from memory."""
    kernel = tc.compile(source, "cuda")
    sizes = {"B": 128, "N": 128, "O": 64, "P": 32} if source is LAYERS else {"N": 1000, "D": 1024}
    body = nest(kernel, **sizes)
    result = "R" if source is LAYERS else "O"
    assert elements(body, result) == (0, 1)
    assert f"{result}." in kernel.inspect("mapped", **sizes) and "stored when" in kernel.inspect(
        "mapped", **sizes
    )


@pytest.mark.slow
def test_results_without_reuse_are_not_in_shared_memory() -> None:
    """Results that are not read again, and large ones."""
    for source, sizes in (
        ("def f(float(N,K) A) -> (O) { O(n) +=! A(n,k) }", {"N": 64, "K": 4096}),
        (SOFTMAX, {"N": 64, "D": 4000}),
    ):
        assert "stored when" not in tc.compile(source, "cuda").inspect("mapped", **sizes)


@pytest.mark.share(18)
@pytest.mark.parametrize(
    "options", [{}, {"tile": (4,), "threads": (8, 2)}, {"tile": (2,), "blocks": (2,)}], ids=str
)
@pytest.mark.parametrize("source", [LAYERS, SOFTMAX])
def test_results_in_shared_memory_are_exact(source: str, options: dict[str, object]) -> None:
    """With partial tiles, and with several tiles in a block."""
    rng = np.random.default_rng(6)
    given = [small(rng, 11, 9)] if source is SOFTMAX else [small(rng, *n) for n in ((11, 9), (6, 9), (5, 6))]
    got = tc.compile(source, "opencl", options=options)(*given)
    wanted = tc.interpret(source, *given)
    for g, w in zip(got, wanted, strict=True) if isinstance(got, tuple) else [(got, wanted)]:
        np.testing.assert_allclose(g, w, rtol=1e-5)


@pytest.mark.share(18)
@pytest.mark.parametrize("budget", [1024, 4096, 49152])
@pytest.mark.parametrize("source", [ATTENTION, SOFTMAX, CONV])
def test_copies_stay_within_the_shared_memory_limit(source: str, budget: int) -> None:
    """Copies, temporaries, and the scratch of reductions over a number of threads that is no power of two."""
    sizes = {"Q": 256, "D": 64, "K": 256} if source is ATTENTION else {"N": 512, "D": 2000}
    if source is CONV:
        sizes = {"N": 8, "C": 64, "H": 58, "W": 58, "M": 64, "KH": 3, "KW": 3}
    options = {"threads": (48, 4), "max_shared_memory": budget}
    one = tc.compile(source, "cuda", options=options).specialize(**sizes)
    assert all(k.shared <= budget for k in one.compiled.module.kernels)
    # A tile of the weights takes 1536 bytes.
    none = source is SOFTMAX or (source is CONV and budget == 1024)
    assert none or any(k.shared > 0 for k in one.compiled.module.kernels)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
def test_reasons_against_copies_are_shown() -> None:
    product = """def f(float(M,K) A, float(K,N) B, float(N) S) -> (C) {
      C(m,n) +=! A(m,k) * B(k,n)
      C(m,n) = C(m,n) * S(n)
    }"""
    sparse = "def g(float(M,K) A, int(M,K) J, float(N) x) -> (C) { C(m) +=! A(m,k) * x(J(m,k)) }"

    def inspected(source: str, **options: object) -> list[str]:
        kernel = tc.compile(source, "cuda", options={"isa": "sm_90", **options})
        text = kernel.inspect("mapped", M=256, K=256, N=256)
        return sorted(x for x in text.splitlines() if "copied: " in x or "copies of" in x)

    first, second, unused = inspected(product, tile=(32, 32), threads=(32, 8))
    assert (first[0], second[0], unused) == ("A", "B", "not copied: S: no loop of a reduction reads it")
    small = inspected(product, tile=(32, 32), threads=(32, 8), max_shared_memory=5000)
    assert any(x.startswith("not copied: ") and " bytes, and " in x for x in small)
    once = inspected(product, tile=(1, 256), threads=(256, 1))
    assert "not copied: B: its elements are used once in a tile" in once
    a_row = {"tile": (256,), "threads": (256,)}
    assert "not copied: x: its elements are used once in a tile" in inspected(sparse, **a_row)
    assert "not copied: x: data choose its elements" in inspected(sparse, **a_row, max_shared_memory=64)
    assert "not copied: A: its reduction is dealt out to threads" in inspected(sparse)
    why = "there is no shared memory for it in this map"
    assert inspected(product, use_shared_memory=False) == [f"not copied: {x}: {why}" for x in "ABS"]
    added = (
        "def h(float(M,K) A, float(M,K) B, float(N) x) -> (C) { C(i,j) = A(i,j) + B(i,j) where exists x(i) }"
    )
    assert inspected(added) == [f"not copied: {x}: no loop of a reduction reads it" for x in "AB"]


@pytest.mark.slow
def test_register_arrays_are_shown() -> None:
    """Promoted results, partial results, and those of tiles that are too large, with a notice if options ask
    for these."""
    source = "def f({t}(M,K) A, {t}(N,K) B) -> (C) {{ C(m,n) +=! A(m,k) * B(n,k) }}"
    sizes = {"M": 512, "N": 512, "K": 512}

    def inspected(t: str, **options: object) -> str:
        kernel = tc.compile(source.format(t=t), "cuda", options={"isa": "sm_90", **options})
        return kernel.inspect("mapped", **sizes)

    small_tiles = {"tile": (32, 32), "threads": (16, 8)}
    assert "C.0[4, 2]: registers of each thread\n" in inspected("float", **small_tiles)
    halves = inspected("half", **small_tiles)
    assert "C_f32.0[4, 2]: registers of each thread\n" in halves
    assert "stays there" not in halves  # register arrays are not in shared memory
    rows = tc.compile("def g(float(N,K) A) -> (s) { s(n) +=! A(n,k) }", "cuda", options={"isa": "sm_90"})
    assert re.search(
        r"^s\.\d\[\]: registers of each thread, parts of s$", rows.inspect("mapped", N=9, K=5000), re.M
    )
    large = {"tile": (256, 256), "threads": (16, 16)}
    what = "C: 256 elements a thread, and 64 are the most"
    with pytest.warns(tc.PerformanceNotice, match=f"f on cuda: f does not keep in registers {what}"):
        assert f"not in registers: {what}\n" in inspected("float", **large)


def test_requested_copies_that_do_not_fit_give_a_notice() -> None:
    source = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    sizes = {"M": 256, "N": 256, "K": 256}
    tiles = {"tile": (64, 64, 64), "max_shared_memory": 20000}
    asked = tc.compile(source, "opencl", options={**tiles, "use_shared_memory": True})
    what = "B: a copy takes 16384 bytes, and 3616 are left"
    with pytest.warns(tc.PerformanceNotice, match=f"f on opencl: f does not copy to shared memory {what}"):
        assert f"not copied: {what}\n" in asked.inspect("mapped", **sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f"not copied: {what}\n" in tc.compile(source, "opencl", options=tiles).inspect(
            "mapped", **sizes
        )


@pytest.mark.parametrize("option", ["threads", "blocks"])
def test_options_for_too_many_loops_give_a_notice(option: str) -> None:
    source = "def f(float(M,N) A) -> (B) { B(m,n) = A(m,n) + 1 }"
    kernel = tc.compile(source, "opencl", options={option: (2, 4, 3)})
    with pytest.warns(
        tc.PerformanceNotice, match=r"\(2, 4, 3\) is for 3 loops, and no statement has more than 2"
    ):
        kernel.specialize(M=64, N=64)
    tc.compile(source, "opencl", options={option: (2, 4, 1)}).specialize(M=64, N=64)

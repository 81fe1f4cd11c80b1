"""The effect of mapping options on loops, and options that are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.evaluate import evaluate
from tc.ir.expr import IntImm
from tc.ir.loops import Compute, For, Launch, LoopKind, Stmt, statements

GEMM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SUM = "def sum(float(N,M,K) A, float(K,M,N) B) -> (C) { C(i,j,k) = A(i,j,k) + B(k,j,i) }"
ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
TILED = {"tile": (32, 32, 16), "threads": (8, 8), "use_shared_memory": True}


def run(source: str, options: dict[str, object], *shapes: tuple[int, ...]) -> Stmt:
    """The loops of a kernel, after a check of its results."""
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, n).astype(np.float32) for n in shapes]
    kernel = tc.compile(source, "opencl", options=options)
    np.testing.assert_array_equal(kernel(*given), tc.interpret(source, *given))
    return kernel.specialize(**kernel.sizes_of(*given)).compiled.nest.body


def innermost(body: Stmt, name: str) -> list[For]:
    """The innermost loops that write or update `name` and are not fully unrolled."""
    loops = [s for s in statements(body) if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    around = [
        f for f in loops if any(isinstance(c, Compute) and c.buffer == name for c in statements(f.body))
    ]
    return [f for f in around if not any(g is not f and g in statements(f.body) for g in around)]


@pytest.mark.share(12)
@pytest.mark.parametrize("unroll", [1, 3, 16, 256])
def test_unroll_applies_to_the_innermost_reduction_loop(unroll: int) -> None:
    (loop,) = innermost(run(GEMM, {**TILED, "unroll": unroll}, (37, 50), (50, 41)), "C.0")
    assert loop.unroll == min(unroll, 16)  # the extent of a tile


def test_unroll_applies_to_the_point_loop_without_a_reduction() -> None:
    (loop,) = innermost(run(ADD, {"tile": (64,), "threads": (8,), "unroll": 4}, (200,), (200,)), "C")
    assert loop.unroll == 4


# A thread has 8 x 4 x 2 points.
@pytest.mark.parametrize(
    ("unroll", "rows"),
    [
        (1, [0, 0, 1]),
        (2, [0, 0, 2]),
        (7, [0, 0, 2]),
        (8, [0, 4, 2]),
        (63, [0, 4, 2]),
        (64, [8, 4, 2]),
        (10**6, [8, 4, 2]),
    ],
)
def test_unroll_includes_outer_loops_that_fit_whole(unroll: int, rows: list[int]) -> None:
    options = {"tile": (8, 8, 8), "threads": (4, 2), "use_shared_memory": False, "unroll": unroll}
    body = run(SUM, options, (16, 12, 17), (17, 12, 16))
    assert [s.unroll for s in statements(body) if isinstance(s, For)] == rows


@pytest.mark.share(18)
@pytest.mark.parametrize("shape", [(37, 50, 41), (64, 64, 64)])
@pytest.mark.parametrize("unroll", [True, False, None])
def test_unroll_copy_shared_unrolls_copies_to_shared_memory(
    unroll: bool | None, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    body = run(GEMM, {**TILED, "unroll_copy_shared": unroll}, (m, k), (k, n))
    outer = [s for s in statements(body) if isinstance(s, For)]
    found: list[For] = []
    for s in outer:
        copies = [c for c in statements(s.body) if isinstance(c, Compute) and c.buffer[0] in "AB"]
        computed = any(isinstance(c, Compute) and c.buffer == "C.0" for c in statements(s.body))
        found += [s] if copies and not computed else []
    kinds = {s.kind for s in found}
    if unroll is False:
        assert {(s.kind, s.unroll) for s in found} == {(LoopKind.SERIAL, 1)}
    elif unroll:
        assert all(s.kind is LoopKind.UNROLLED or s.unroll > 1 for s in found)
    elif shape == (64, 64, 64):
        assert kinds == {LoopKind.UNROLLED}


@pytest.mark.parametrize(("tile", "extents"), [((32, 32, 16), 16), ((32, 32), 32), ((32, 32, 64), 50)])
def test_tile_continues_with_reduction_loops(tile: tuple[int, ...], extents: int) -> None:
    options = {**TILED, "tile": tile}
    run(GEMM, options, (37, 50), (50, 41))
    nest = tc.compile(GEMM, "opencl", options=options).specialize(M=37, K=50, N=41).compiled.nest
    (a,) = (a for a in nest.arrays if a.role == "shared" and a.name.startswith("A."))
    assert a.shape[-1] == IntImm(extents)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (GEMM, {"tile": (8, 8, 8, 8)}, "tile is for 3 loops at most, as no statement here has more, or None"),
        (ADD, {"tile": (8, 8)}, "tile is for 1 loop at most, as no statement here has more, or None"),
        ("def f() -> (O) { O = 0 }", {"tile": (8,)}, "tile is for 0 loops at most"),
        (GEMM, {"unroll": 0}, "unroll is a positive integer or None"),
        (GEMM, {"unroll_copy_shared": 1}, "unroll_copy_shared is True, False or None"),
        (GEMM, {"threads": (32, 33)}, "threads is at most 1024 in all, these are 1056"),
        (GEMM, {"max_shared_memory": 1 << 20}, "a block has at most 232448 bytes on H100"),
    ],
)
def test_options_beyond_limits_are_refused(source: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(tc.ArgumentError) as e:
        tc.compile(source, "cuda", options={**options}).specialize(**dict.fromkeys(sizes(source), 8))
    assert e.value.code == "TC0511"
    assert message in str(e.value)


@pytest.mark.parametrize("size", [(32 << 10) + 1, 48 << 10])
def test_shared_memory_beyond_the_opencl_minimum_is_refused(size: int) -> None:
    with pytest.raises(tc.ArgumentError) as e:
        tc.compile(GEMM, "opencl", options={"max_shared_memory": size}).specialize(M=8, N=8, K=8)
    assert (e.value.code, e.value.message) == ("TC0511", f"option max_shared_memory={size} is not valid")
    assert e.value.help == "a block has at most 32768 bytes on generic OpenCL device"
    run(GEMM, {"max_shared_memory": 32 << 10}, (37, 50), (50, 41))


def launches(kernel: Any) -> list[Launch]:
    return [s for s in statements(kernel.compiled.nest.body) if isinstance(s, Launch)]


def test_mapping_options_prevent_collapsed_loops() -> None:
    """Without them, indices that always occur together are collapsed to one loop."""
    source = "def f(float(N,M) A, float(N,M) B) -> (C) { C(i,j) = A(i,j) + B(i,j) }"
    options = {"threads": (32, 8), "tile": (64, 64), "blocks": (16, 16)}
    (launch,) = launches(tc.compile(source, "opencl", options=options).specialize(N=1024, M=1024))
    assert [n for _, n in launch.threads] == [32, 8]
    assert [n for _, n in launch.blocks] == [IntImm(16), IntImm(16)]
    run(source, options, (37, 50), (37, 50))
    (collapsed,) = launches(tc.compile(source, "opencl").specialize(N=1024, M=1024))
    assert len(collapsed.blocks) == len(collapsed.threads) == 1


def sizes(source: str) -> tuple[str, ...]:
    return tuple(tc.compile(source, "reference").front.checked.sizes)


SHARING = """def two(float(M,K) A, float(K,N) B, float(K,N) C) -> (D, E) {
  D(i,j) +=! A(i,k) * B(k,j)
  E(i,j) +=! A(i,k) * C(k,j)
}"""


@pytest.mark.slow
def test_statements_that_share_only_inputs_keep_their_parallel_loops() -> None:
    """Both products read the rows of A, but fusing over rows alone would give up the blocks along columns."""
    sizes = {"M": 256, "N": 256, "K": 64}
    kernel = tc.compile(SHARING, "cuda", options={"isa": "sm_90"})
    assert " on b1 on t0\n" in kernel.inspect("choice", **sizes)
    assert kernel.inspect("code", **sizes).count("__global__") == 1
    together = tc.compile(SHARING, "cuda", options={"isa": "sm_90", "fusion": "max"})
    assert together.inspect("code", **sizes).count("__global__") == 1


MOMENTS = """def moments(float(N,K) I) -> (mean, var) {
  mean(n) +=! I(n,k)
  var(n) +=! I(n,k) * I(n,k)
  mean(n) = mean(n) / K
  var(n) = var(n) / K - mean(n) * mean(n)
}"""
ONE_ROW = """def softmax(float(N,K) I) -> (O, m, s) {
  m(n) max=! I(n,k)
  s(n) +=! exp(I(n,k) - m(n))
  O(n,k) = exp(I(n,k) - m(n)) / s(n)
}"""


@pytest.mark.parametrize("source", [MOMENTS, ONE_ROW], ids=["moments", "softmax"])
def test_one_long_row_gives_blocks_for_all_multiprocessors(source: str) -> None:
    """Each kernel that reads the row has a block for every multiprocessor of an H100."""
    kernel = tc.compile(source, "cuda", options={"isa": "sm_90"})
    module = kernel.specialize(N=1, K=10**7).compiled.module
    reading = [k for k in module.kernels if any(a.name == "I" for a in k.arguments)]
    assert reading and all(evaluate(k.blocks, {}) >= 132 for k in reading)


@pytest.mark.parametrize("backend", ["cuda", "opencl"])
def test_machine_facts_change_the_prediction(backend: str) -> None:
    """They show the code for a smaller device; the other facts are those of the device."""
    source = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
    sizes = {"M": 512, "N": 512, "K": 512}

    def lines(**machine: float) -> list[str]:
        options = {"machine": machine} if machine else {}
        return tc.compile(source, backend, options=options).inspect("choice", **sizes).splitlines()

    found, small = lines(), lines(units=2, dram=50)
    assert found[-1].startswith("machine: name ") and ", units 2," in small[-1] and ", dram 50," in small[-1]

    def changed(line: str) -> str:
        return re.sub(r"(units|dram) [\d.]+", r"\1", line)

    assert changed(found[-1]) == changed(small[-1])

    def seconds(text: list[str]) -> float:
        return next(float(x.split(": ")[1].split()[0]) for x in text if x.startswith("  *"))

    assert seconds(small) > 2 * seconds(found)
    for name, value, help in (("drams", 1, "did you mean 'dram'?"), ("units", 0.5, "a whole number above 0")):
        with pytest.raises(tc.errors.BackendError, match=f"the {backend} backend has no machine") as caught:
            lines(**{name: value})
        assert caught.value.code == "TC0814" and help in str(caught.value)


def test_a_machine_preset_keeps_limits_of_the_device() -> None:
    """It has the rates of another GPU, but the limits on code are those of the device."""
    source = "def f(float(N) x) -> (y) { y(i) = x(i) + 1 }"

    def machine(backend: str, **options: str) -> str:
        kernel = tc.compile(source, backend, options=options)
        return kernel.inspect("choice", N=1 << 24).splitlines()[-1]

    assert "name A100, units 108, shared 166912, arch sm_80, " in machine("cuda", machine="A100")
    assert "name H200, units 132, " in machine("cuda", machine="H200")
    assert ", dram 4130.0, " in machine("cuda", machine="H200")
    both = machine("cuda", machine="A100", isa="sm_90")
    assert "name A100, " in both and ", shared 166912, arch sm_90, " in both
    assert "name H200, units 132, shared 32768, arch , async_copies False, " in machine(
        "opencl", machine="H200"
    )
    for backend, name, help in (
        ("cuda", "H20", "did you mean 'H200'?"),
        ("opencl", "TPU", "there are A100, H100, H200"),
        ("cpu", "H200", "say what it has by name"),
    ):
        with pytest.raises(tc.errors.BackendError, match="has no preset of a machine") as caught:
            machine(backend, machine=name)
        assert caught.value.code == "TC0814" and help in str(caught.value)

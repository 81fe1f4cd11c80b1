"""Pointers to arrays through which threads pass values have no `restrict`: a compiler may read what another
thread writes before the barrier between them otherwise, as one did on an H200."""

from __future__ import annotations

import re

import pytest

import tc
from tc.codegen.exchanged import exchanged
from tc.ir.expr import LT
from tc.ir.loops import Block, If, Sync
from tests.backends.gpu_launches import T, launch, load, put

# Thread 0 sets T to zero, and all threads read it behind a barrier of their warp.
SUMS = """
def f(double(M) A) -> (T, U) {
  T +=! i < 0 ? A(i) : 0
  V(i) = T + A(i) + half(T + A(i))
  U +=! A(i) * A(i) + V(i)
}
"""


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_a_value_that_is_passed_on_is_read_behind_the_barrier() -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    text = tc.compile(SUMS, "cuda").specialize(M=2).source
    assert "const double *__restrict__ A" in text
    assert re.search(r"double \*T\b", text)
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"f.cu", 0, [], [])
    options = [b"--gpu-architecture=compute_90", b"--std=c++17"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    before, barrier, after = ptx.decode().partition("bar.warp.sync")
    assert barrier
    # What is never written is loaded by ld.global.nc.
    assert not re.search(r"ld\.global\.f64", before)
    assert re.search(r"ld\.global\.f64", after)


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(("backend", "word"), [("cuda", "__restrict__"), ("opencl", "restrict")])
def test_arrays_that_are_only_read_or_only_written_are_exclusive(backend: str, word: str) -> None:
    source = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    text = tc.compile(source, backend, sizes={"M": 64, "K": 64, "N": 64}).specialize(M=64, K=64, N=64).source
    for name in ("A", "B", "C"):
        assert re.search(rf"\*{word} {name}\b", text), name


def test_arrays_that_a_body_with_barriers_reads_and_writes_are_exchanged() -> None:
    write, read = put("T", [0], load("A", T)), put("C", [T], load("T", 0))
    assert exchanged(launch(Block((write, Sync(), read)))) == {"T"}
    assert exchanged(launch(Block((write, Sync(warp=True), read)))) == {"T"}
    assert exchanged(launch(Block((write, read)))) == set()
    assert exchanged(launch(Block((write, Sync())))) == set()


def test_updates_and_conditions_read() -> None:
    add = put("T", [0], load("A", T), "+")
    assert exchanged(launch(Block((add, Sync())))) == {"T"}
    condition = LT(load("T", 0), load("A", T))
    body = Block((put("T", [0], load("A", T)), Sync(), If(condition, put("C", [T], load("A", T)))))
    assert exchanged(launch(body)) == {"T"}

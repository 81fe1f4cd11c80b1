"""What NVRTC 12.9 and its assembler make of a text, and how they are made to make something else of it."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tc
from tc import registry
from tc.codegen.dialect import CUDA
from tc.dtypes import FLOAT32, FLOAT64
from tc.ir.expr import IntImm
from tc.ir.loops import For, LoopKind, statements
from tc.lang.builtins import BUILTINS

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
_BLOCKS = re.compile(r"__launch_bounds__\(\d+, (\d+)\)\s+void")


def module(name: str) -> Any:
    registry.load("cuda")
    return importlib.import_module(f"tc_backends.{name}")


@pytest.mark.parametrize(("depth", "unrolled"), [(64, True), (128, False)])
def test_copies_without_loops_have_few_parts(depth: int, unrolled: bool) -> None:
    """Of 128 NVRTC makes 255 registers, in 20 seconds."""
    program = tc.compile(MATMUL, "reference").specialize(M=1, K=depth, N=1).program
    options = tc.Options(
        tile=(1, 1, depth),
        threads=(1,),
        use_shared_memory=True,
        unroll_copy_shared=True,
        use_private_memory=True,
    )
    nest = module("gpu.passes").lower(program, options, {}, module("gpu.target").GENERIC).nest
    lengths = [
        s.upper.value
        for s in statements(nest.body)
        if isinstance(s, For) and s.kind is LoopKind.UNROLLED and isinstance(s.upper, IntImm)
    ]
    assert (depth in lengths) is unrolled, nest


def blocks(
    monkeypatch: pytest.MonkeyPatch, function: str, resources: Callable[[bool], dict[str, int]]
) -> int:
    """How many are promised in the text that is taken (0: nothing is said), where the assembler says so of
    texts that promise some, and of others."""
    nvrtc = module("cuda.nvrtc")
    compiled = nvrtc.compile_text

    def compile_text(text: str, arch: str, contract: bool) -> Any:
        made = compiled(text, arch, contract)
        said = resources(_BLOCKS.search(text) is not None)
        return replace(made, resources={n: replace(r, **said) for n, r in made.resources.items()})

    monkeypatch.setattr(nvrtc, "compile_text", compile_text)
    source = f"def f(float(N,M) A) -> (O) {{ O(i,j) = {function}(A(i,j)) }}"
    one = tc.compile(source, "cuda", options={"isa": "sm_90"}).specialize(N=4096, M=4096)
    found = _BLOCKS.search(one.source)
    return int(found[1]) if found is not None else 0


def test_an_assembler_that_would_rather_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Than have fewer blocks run together: it is told that one is enough."""
    assert blocks(monkeypatch, "sqrt", lambda told: {"spill_stores": 0 if told else 8}) == 1


def test_an_assembler_that_takes_all_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at the threads of one block: it is told how many are to run together."""
    assert blocks(monkeypatch, "exp", lambda told: {"registers": 32 if told else 255}) > 1


@pytest.mark.slow
def test_functions_of_the_library_that_keep_arrays_in_memory() -> None:
    """These and no others; for sm_80 a loop that fills one is unrolled, and some are in registers."""
    text = ""
    for t, kind in ((FLOAT32, "float"), (FLOAT64, "double")):
        for b in BUILTINS.values():
            name, own = CUDA.function(b, t)
            if b.kind == "math" and not own and not (t == FLOAT32 and b.name in CUDA.replaced):
                call = f"{name}({', '.join(f'a[{k}]' for k in range(b.arity))})"
                text += f'extern "C" __global__ void k_{name}({kind} *a) {{ *a = {call}; }}\n'
    assert "k_sin(" in text and "k_sinf(" not in text
    for arch in ("sm_80", "sm_90"):
        resources = module("cuda.nvrtc").compile_text(text, arch, True).resources
        stacks = {name.removeprefix("k_"): r.stack for name, r in resources.items()}
        assert len(stacks) > 90
        assert all(n in (0, CUDA.stack_frames.get(name, 0)) for name, n in stacks.items()), stacks
        assert arch == "sm_80" or {name: n for name, n in stacks.items() if n} == dict(CUDA.stack_frames)


@pytest.mark.parametrize("call", ["sin(A(i)) * cos(A(i))", "j0(A(i))"])
def test_arrays_of_the_library_make_no_other_map(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are they told of as registers, as spills beside them are."""
    nvrtc = module("cuda.nvrtc")
    compiled, times, spilled = nvrtc.compile_text, 0, 0

    def compile_text(text: str, arch: str, contract: bool) -> Any:
        nonlocal times
        times += 1
        made = compiled(text, arch, contract)
        more = {n: replace(r, stack=r.stack + spilled) for n, r in made.resources.items()}
        return replace(made, resources=more)

    monkeypatch.setattr(nvrtc, "compile_text", compile_text)
    kernel = tc.compile(f"def f(double(N) A) -> (O) {{ O(i) = {call} }}", "cuda", options={"isa": "sm_90"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = kernel.specialize(N=1 << 20)
    assert times == 1
    assert " 40 bytes stack, 0 bytes spill stores" in one.artifact("asm")
    assert "rejected" not in one.artifact("choice")
    spilled = 16
    with pytest.warns(tc.PerformanceNotice, match="16 bytes of a thread's registers are in memory"):
        kernel.specialize(N=1 << 21)
    assert times > 2

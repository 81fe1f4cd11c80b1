"""Spills in the code of the cpu backend: counted in assembly, and fewer vectors where that pays."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tc
from tc import registry
from tests.backends.cpu_cases import GEMM, backend, compiled, interpreted, isas, same

DISTANCES = """def f(float(M,K) A, float(N,K) B) -> (D) {
  D(i,j) +=! (A(i,k) - B(j,k)) * (A(i,k) - B(j,k))
}"""
SIZES = {"M": 128, "N": 128, "K": 64}
# Facts of the machine, wherever the test runs.
MACHINE = tuple(
    {
        "cores": 2,
        "l1": 32 << 10,
        "l1_ways": 8,
        "l2": 1 << 20,
        "l3": 32 << 20,
        "fma_units": 2,
        "loads": 2,
        "l2_bandwidth": 26.0,
        "scattered_store_penalty": 0,
        "unprefetched_row_penalty": 0,
        "page_stride_penalty": 0,
        "conflict_miss_factor": 4.0,
    }.items()
)
ZEN4 = tuple((dict(MACHINE) | {"fma_units": 1, "loads": 1, "l2_bandwidth": 32.0}).items())
CONVOLUTION = """def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n,f,y,x) +=! I(n,c,y+ky,x+kx) * K(f,c,ky,kx)
}"""
needs_avx2 = pytest.mark.skipif("avx2" not in isas(), reason="this processor has no AVX2")


@pytest.fixture(scope="module")
def spills() -> Any:
    registry.get("cpu")
    return sys.modules["tc_backends.cpu.emit.spills"]


X86 = """
task2:
    pushq %rbp
    {frame}
.LBB0_1:                       # %loop-S0-S1-7
    xorl %ecx, %ecx
.LBB0_2:                       # %loop-S1-12
    {body}
    vmovups 64(%rax), %zmm3    # no spill, though the words '64-byte Folded Spill' are here
    movq 8(%rsp), %rax
    vmovups (%rsp,%rax,4), %zmm4
    decq %rcx
    jne .LBB0_2
    vmovups %zmm3, 128(%rsp)   # outside
    decq %rdx
    jne .LBB0_1
    retq
"""
ARM = """
task2:
    stp x29, x30, [sp, #-16]!
    {frame}
.LBB0_1:                       // %loop-S0-S1-7
    mov x8, xzr
.LBB0_2:                       // %loop-S1-12
    {body}
    ldr q3, [x9, #16]
    ldr x9, [sp, #8]
    subs x8, x8, #1
    b.ne .LBB0_2
    str q3, [sp, #128]
    cbnz x10, .LBB0_1
    ret
"""


@pytest.mark.parametrize(
    ("text", "frame", "body", "spilled", "arithmetic"),
    [
        (X86, "nop", "vfmadd231ps (%rax){1to16}, %zmm0, %zmm1", 0, 1),
        (X86, "nop", "vfmadd231ps 64(%rsp), %zmm0, %zmm1", 1, 1),
        (X86, "nop", "vmovups %zmm1, -56(%rsp)", 1, 0),
        (X86, "nop", "vmovaps %ymm1, (%rsp)", 1, 0),
        (X86, "nop", "vbroadcastss 12(%rsp), %ymm1", 1, 0),
        (X86, "nop", "addps 0x20(%rsp), %xmm1", 1, 1),
        (X86, "nop", "movaps %xmm1, 16(%rsp)", 1, 0),
        (X86, "nop", "pmulld %xmm2, %xmm1", 0, 1),
        (X86, "nop", "vmovups 32(%rbp), %ymm1", 0, 0),
        (X86, "movq %rsp, %rbp", "vmovups -32(%rbp), %ymm1", 1, 0),
        (ARM, "nop", "fmla v1.4s, v2.4s, v3.s[0]", 0, 1),
        (ARM, "nop", "str q1, [sp, #16]", 1, 0),
        (ARM, "nop", "ldp q1, q2, [sp]", 1, 0),
        (ARM, "nop", "ldr q1, [x29, #16]", 0, 0),
        (ARM, "mov x29, sp", "ldr q1, [x29, #16]", 1, 0),
        (ARM, "nop", "fmov v1.4s, #1.0", 0, 0),
    ],
)
def test_the_parser_counts_spills_and_arithmetic(
    spills: Any, text: str, frame: str, body: str, spilled: int, arithmetic: int
) -> None:
    (loop,) = spills.loops(text.replace("{frame}", frame).replace("{body}", body))
    assert loop.statements == ("S1",)
    assert (loop.spills, loop.arithmetic) == (spilled, arithmetic)
    assert loop.vectors == (3 if text is X86 else 2)
    assert not loop.calls


def test_main_loops_have_the_most_arithmetic_and_no_calls(spills: Any) -> None:
    """Those of whole statements."""
    body = "vfmadd231ps %zmm2, %zmm0, %zmm1"
    text = X86.replace("{frame}", "nop").replace("{body}", body)
    longer = text.replace(body, f"{body}\n    {body}").replace("LBB0", "LBB1")
    both = text + longer
    (loop,) = spills.main_loops(both, frozenset(["S0", "S1"]))
    assert loop.arithmetic == 2
    assert not spills.main_loops(both, frozenset(["S0"]))
    assert not spills.main_loops(text.replace(body, f"{body}\n    callq expf"), frozenset(["S1"]))


def _machine(fma_units: int) -> Any:
    isa = sys.modules["tc_backends.cpu.isa"]
    return backend.Machine(isa.AVX2, 2, 32 << 10, 1 << 20, 32 << 20, fma_units=fma_units)


def test_fewer_vectors_pay_by_instructions_for_each_arithmetic_one(spills: Any) -> None:
    """They must save more than the nest's predicted cycles grow; more spills never pay."""
    machine = _machine(2)

    def loop(arithmetic: int, moves: int, spilled: int) -> Any:
        lines = ["vaddps %ymm0, %ymm1, %ymm2"] * arithmetic + ["vmovups (%rax), %ymm1"] * moves
        return spills.Loop((*lines, *["vmovups 32(%rsp), %ymm1"] * spilled), ("S0",))

    before = loop(60, 20, 20)
    assert spills.worst([loop(60, 40, 0), before]) is before
    assert spills.worst([loop(60, 40, 0), loop(60, 40, 3)]) is None
    assert spills.pays(before, loop(40, 16, 0), 1.0, machine)
    assert not spills.pays(before, loop(40, 16, 0), 1.2, machine)
    assert not spills.pays(before, loop(40, 26, 0), 1.0, machine)  # no spills, but as many instructions
    assert not spills.pays(before, loop(60, 0, 20), 1.0, machine)


STORED, LOADED = "vmovaps %ymm0, 96(%rsp)", "vmovaps 96(%rsp), %ymm0"
SUM = "vfmadd231ps %ymm1, %ymm2, %ymm0"


@pytest.mark.parametrize(
    ("lines", "turns"),
    [
        ((LOADED, SUM, STORED), 1),
        ((LOADED, SUM, STORED) * 3, 3),
        ((SUM, STORED, SUM, LOADED, SUM, STORED, SUM, LOADED), 2),
        (("vfmadd213ps 96(%rsp), %ymm2, %ymm0", STORED), 1),
        ((LOADED, SUM, LOADED), 0),  # a constant
        ((SUM, STORED), 0),
        ((LOADED, SUM, "vmovaps %ymm0, 128(%rsp)"), 0),
        (("ldr q0, [sp, #16]", "fmla v0.4s, v1.4s, v2.4s", "str q0, [sp, #16]"), 1),
        (("ldr q0, [sp, #16]", "fmla v0.4s, v1.4s, v2.4s"), 0),
    ],
)
def test_round_trips_through_the_stack_are_counted(spills: Any, lines: tuple[str, ...], turns: int) -> None:
    assert spills.Loop(lines).stack_round_trips == turns


def test_a_sum_with_round_trips_through_the_stack_is_slow(spills: Any) -> None:
    """Where additions would take less time than the round trips; one unit is busy anyway."""

    def loop(spilled: tuple[str, ...]) -> Any:
        return spills.Loop((*[SUM] * 36, *["vmovups (%rdi), %ymm3"] * 20, *spilled), ("S0",))

    before, after = loop((LOADED, SUM, STORED) * 3), loop(())
    assert spills.pays(before, after, 1.5, _machine(2))
    assert not spills.pays(before, after, 1.5, _machine(1))


def _main(kernel: Any, spills: Any, **sizes: int) -> Any:
    found = spills.loops(kernel.inspect("asm", **sizes))
    return max((x for x in found if not x.calls), key=lambda x: x.arithmetic)


@needs_avx2
def test_the_next_candidate_with_fewer_vectors_is_taken(spills: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(DISTANCES, isa="avx2", machine=MACHINE)
    messages = [x for x in kernel.inspect("choice", **SIZES).splitlines() if "spills" in x]
    assert len(messages) == 1 and "took the next candidate with fewer vectors" in messages[0], messages
    after = _main(kernel, spills, **SIZES)
    assert messages[0].endswith(f"which spills {after.spill_share}")
    monkeypatch.setattr(spills, "may_spill", lambda *_: False)
    unlooked = compiled(DISTANCES, isa="avx2", machine=(*MACHINE, ("latency", 4)))
    assert "spills" not in unlooked.inspect("choice", **SIZES)
    before = _main(unlooked, spills, **SIZES)
    assert before.spills > after.spills and spills.spills_much(before)
    assert f"spills {before.spill_share}" in messages[0]
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, (128, 64)).astype(np.float32) for _ in "AB"]
    (want,) = interpreted(DISTANCES, *given)
    same(want, np.asarray(kernel(*given)))


@pytest.mark.skipif("avx512" not in isas(), reason="this processor has no AVX-512")
def test_windows_leave_room_for_accumulators(spills: Any) -> None:
    """4 x 6 accumulators, 6 elements of a window that stays in registers and 4 weights are more than 32."""
    sizes = {"N": 2, "C": 64, "F": 64, "H": 56, "W": 56, "KH": 3, "KW": 3}
    given = compiled(CONVOLUTION, isa="avx512", machine=MACHINE, vector=1, register_tile=(1, 64, 1, 6))
    assert spills.spills_much(_main(given, spills, **sizes))
    kernel = compiled(CONVOLUTION, isa="avx512", machine=MACHINE)
    choice = kernel.inspect("choice", **sizes)
    assert "lanes f_1 x4, x_3 x6" not in choice and "spills" not in choice
    main = _main(kernel, spills, **sizes)
    assert main.arithmetic >= 48 and not spills.spills_much(main)


GATED = """def f(float(B,M) X, float(H,M) W, float(H,M) V) -> (O) {
  G(b,h) +=! X(b,m) * W(h,m)
  U(b,h) +=! X(b,m) * V(h,m)
  O(b,h) = G(b,h) * sigmoid(G(b,h)) * U(b,h)
}"""
THREE = "def f(float(I,J,K) X, float(J,R) B, float(K,R) C) -> (O) { O(i,r) +=! X(i,j,k) * B(j,r) * C(k,r) }"


@pytest.mark.skipif("avx512" not in isas(), reason="this processor has no AVX-512")
@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        # 14 x 2 accumulators, 14 elements of X that both sums use, 2 vectors of weights
        (GATED, {"B": 291, "M": 177, "H": 175}),
        # 3 x 7 accumulators, 7 elements of B that the loop over k keeps, 3 vectors of X and a product
        (THREE, {"I": 93, "J": 93, "K": 93, "R": 74}),
    ],
)
def test_invariant_operands_leave_room_for_accumulators(
    source: str, sizes: dict[str, int], spills: Any
) -> None:
    """So that no candidate is compiled in vain, which took a second."""
    kernel = compiled(source, isa="avx512", machine=ZEN4)
    assert "spills" not in kernel.inspect("choice", **sizes)
    assert not spills.spills_much(_main(kernel, spills, **sizes))


@pytest.mark.parametrize("isa", [i for i in ("avx2", "sse4.2") if i in isas()])
def test_elements_of_windows_are_reloaded_where_registers_are_few(isa: str, spills: Any) -> None:
    """2 x 6 accumulators and weights (2 x 5 where a product and its sum are two instructions) leave a
    register or two: the pixels that three unrolled iterations share do not stay in them."""
    sizes = {"N": 2, "C": 16, "F": 16, "H": 14, "W": 14, "KH": 3, "KW": 3}
    tile = {"avx2": (1, 16, 1, 6), "sse4.2": (1, 8, 1, 5)}[isa]
    kernel = compiled(CONVOLUTION, isa=isa, machine=MACHINE, vector=1, register_tile=tile)
    main = _main(kernel, spills, **sizes)
    assert main.arithmetic >= 30 and main.spills <= main.arithmetic // 30
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, s).astype(np.float32) for s in ((2, 16, 14, 14), (16, 16, 3, 3))]
    (want,) = interpreted(CONVOLUTION, *given)
    same(want, np.asarray(kernel(*given)))


@needs_avx2
def test_sums_of_narrow_images_stay_in_registers(spills: Any) -> None:
    """3 x 4 sums, 3 vectors of weights and a pixel fill 16 registers; LLVM loads the next weights early."""
    sizes = {"N": 2, "C": 216, "F": 39, "H": 67, "W": 10, "KH": 3, "KW": 3}
    given = compiled(CONVOLUTION, isa="avx2", machine=MACHINE, vector=1, register_tile=(1, 24, 1, 4))
    assert _main(given, spills, **sizes).stack_round_trips
    kernel = compiled(CONVOLUTION, isa="avx2", machine=MACHINE)
    assert not _main(kernel, spills, **sizes).stack_round_trips


@pytest.mark.parametrize("isa", [i for i in ("avx2", "sse4.2") if i in isas()])
def test_a_given_register_tile_is_kept(isa: str, spills: Any) -> None:
    """6 × 4 accumulators in 16 registers."""
    lanes = {"avx2": 8, "sse4.2": 4}[isa]
    sizes = {"M": 48, "N": 96, "K": 32}
    kernel = compiled(GEMM, isa=isa, register_tile=(6, 4 * lanes), vector=1, pack=False, machine=MACHINE)
    choice = kernel.inspect("choice", **sizes)
    assert re.search(rf"i_0 .*/6, j_1 .*/{4 * lanes}$", choice.splitlines()[-2]), choice
    assert "spills" not in choice
    assert spills.spills_much(_main(kernel, spills, **sizes))


@pytest.mark.parametrize("isa", isas())
def test_spilled_vectors_are_aligned_to_cache_lines(isa: str) -> None:
    """The reload of one that lies across two lines takes longer: a whole convolution ran at 0.84 of its speed
    in processes whose stack happened to start so."""
    lanes = {"avx512": 16, "avx2": 8, "sse4.2": 4}[isa]
    tile = (8, 5 * lanes)  # more accumulators than there are registers
    kernel = compiled(GEMM, isa=isa, register_tile=tile, vector=1, pack=False)
    code = kernel.inspect("asm", M=40, N=10 * lanes, K=32)
    assert re.search(r"vmovaps|movaps", code) and re.search(r"\(%r[sb]p\)", code)
    assert not re.search(r"movup[sd].*\(%r[sb]p\)", code)


@pytest.mark.parametrize("isa", isas())
def test_objects_are_suspected_where_assembly_shows_spills(isa: str, spills: Any) -> None:
    sizes = {"M": 48, "N": 96, "K": 32}
    machine = backend.with_isa(isa)
    if not machine.isa.x86:
        pytest.skip("only objects of x86 are looked into")
    lanes = machine.isa.lanes(4)
    program = tc.compile(GEMM, "reference").program(sizes)
    for rows, spilled in ((machine.isa.registers // 4 + 2, True), (machine.isa.registers // 8, False)):
        options = tc.Options(register_tile=(rows, 4 * lanes), vector=1, pack=False)
        lowered = backend.code_of(program, machine, options)
        assert spills.may_spill(backend.object_of(lowered.text, machine), machine.isa, 4 * rows) == spilled
        text = backend.llvm_jit.assembly_of(
            lowered.text, cpu=machine.isa.cpu, features=machine.isa.features, verbose=True
        )
        loops = spills.main_loops(text, frozenset(lowered.vectors))
        assert (spills.worst(loops) is not None) == spilled


@needs_avx2
def test_constants_of_functions_do_not_count_as_spills(spills: Any) -> None:
    """An exponential has more constants than there are registers: its loop is skipped where it has no more
    vectors than it needs, and examined where options ask for more."""
    source = """def f(float(N,D) I) -> (O, M) {
      M(n) max=! I(n,d)
      O(n,d) = exp(I(n,d) - M(n))
    }"""
    program = tc.compile(source, "reference").program({"N": 64, "D": 1024})
    machine = backend.with_isa("avx2")
    lowered = backend.code_of(program, machine, tc.Options())
    code = backend.object_of(lowered.text, machine)
    assert not lowered.functions and max(lowered.vectors.values()) <= 4
    assert not spills.may_spill(code, machine.isa, 8, lowered.functions)
    more = backend.code_of(program, machine, tc.Options(register_tile=(8,), vector=-1))
    assert more.functions
    assert spills.may_spill(backend.object_of(more.text, machine), machine.isa, 8, more.functions)


def test_neon_assembly_is_parsed(spills: Any) -> None:
    isa = sys.modules["tc_backends.cpu.isa"].NEON
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="generic", features="+neon", opt=1)
    machine.set_asm_verbosity(True)
    program = tc.compile(GEMM, "reference").program({"M": 48, "N": 96, "K": 32})
    options = tc.Options(register_tile=(10, 16), vector=1, pack=False)
    lowered = backend.code_of(program, replace(backend.host(), isa=isa, fma_units=2, loads=2), options)
    (loop,) = spills.main_loops(
        machine.emit_assembly(llvm.parse_assembly(lowered.text)), frozenset(lowered.vectors)
    )
    assert loop.count("fmla") == loop.arithmetic >= 40
    assert spills.spills_much(loop)

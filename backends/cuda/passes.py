"""The passes of the cuda backend: those of all GPUs, CUDA C++, machine code, and launch bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tc.codegen import gpu_source
from tc.codegen.dialect import CUDA
from tc.codegen.gpu_module import Module
from tc.ir.lines import split
from tc.options import Options
from tc.pipeline.pass_manager import Pass, PassList, Search, changed, later
from tc.pipeline.program import passes_over_loops, program_passes

from ..gpu.passes import OVER_LOOPS, GpuState, Lowered, assembled, mapping, unmapped, with_loops
from ..gpu.search.candidates import SIMPLEST
from ..gpu.search.choose import Candidate
from . import bounds, nvrtc


@dataclass(frozen=True, kw_only=True)
class CudaState(GpuState):
    """The launches, their CUDA C++, and machine code for an architecture.

    `rejected` are lines on mappings that spilled registers.
    """

    arch: str
    module: Module = later()
    machine: nvrtc.Machine = later()
    rejected: tuple[str, ...] = ()

    @property
    def lowered(self) -> Lowered:
        lowered = super().lowered
        return replace(lowered, choice="".join(f"{r}\n" for r in self.rejected) + lowered.choice)

    @property
    def machine_notices(self) -> tuple[str, ...]:
        """Notices on machine code that is slower than one would expect."""
        if self.machine.in_memory:
            return (f"{self.machine.in_memory} bytes of a thread's registers are in memory",)
        return tuple(f"a simpler map is taken, {r}" for r in self.rejected)


def _code(state: CudaState) -> CudaState:
    return changed(state, module=gpu_source.emit(state.nest, CUDA, state.contract))


def _machine(state: CudaState) -> CudaState:
    """Machine code; its resources include the dynamic shared memory of launches and the frames of
    functions."""
    machine = nvrtc.compile_text(state.module.text, state.arch, state.contract)
    kernels = {k.name: k for k in state.module.kernels}
    resources = {
        n: replace(r, shared=r.shared + kernels[n].dynamic_shared, frame=kernels[n].frame)
        for n, r in machine.resources.items()
    }
    return changed(state, machine=replace(machine, resources=resources))


def _bounds(state: CudaState) -> CudaState:
    """Launch bounds, where these change the registers and that is predicted to pay."""
    before, target, typical = state.machine, state.target, state.typical

    def with_text(text: str) -> CudaState:
        return _machine(changed(state, module=replace(state.module, text=text)))

    def seconds(one: CudaState) -> float:
        return bounds.seconds(one.nest, one.module, one.machine.resources, target, typical)

    if before.in_memory:
        relaxed = with_text(bounds.with_all_registers(state.module.text))
        return relaxed if relaxed.machine.in_memory < before.in_memory else state
    if state.options.mapping == "identity":
        return state
    limited = bounds.limited_by_registers(state.nest, state.module, before.resources, target, typical)
    if not limited:
        return state
    bounded = with_text(bounds.with_blocks(state.module.text, limited))
    if bounded.machine.in_memory:
        return state
    return bounded if seconds(bounded) < seconds(state) else state


def _registers(state: CudaState, make: Callable[[CudaState], CudaState]) -> CudaState:
    """The first mapping without spilled registers, from the one that is predicted to be fastest to simpler
    ones; if there is none, the one with the fewest bytes in memory.  `rejected` has the others."""
    if state.options.tile is not None:
        return make(state)
    rejected: list[str] = []
    best: CudaState | None = None
    for simpler in range(SIMPLEST + 1):
        one = make(
            changed(state, mapping_options=replace(state.mapping_options, skipped_register_tiles=simpler))
        )
        if best is not None and one.module.text == best.module.text:
            continue
        if best is None or one.machine.in_memory < best.machine.in_memory:
            best = one
        if not best.machine.in_memory:
            break
        first = next(x.text for x in split(one.lowered.choice) if ": blocks " in x.text)
        rejected.append(f"rejected: {first}, {one.machine.in_memory} bytes of registers in memory")
    assert best is not None
    return best if best.machine.in_memory else replace(best, rejected=tuple(rejected))


_CODE: tuple[Pass[CudaState] | Search[CudaState], ...] = (
    Pass("code", "emit CUDA C++", "tc/codegen/gpu_source.py", _code, lambda s: s.module.text),
    Pass(
        "machine",
        "compile CUDA C++ to machine code, by NVRTC",
        "backends/cuda/nvrtc.py",
        _machine,
        lambda s: str(s.machine),
    ),
    Pass(
        "bounds",
        "compile with other launch bounds, where these are predicted to be faster",
        "backends/cuda/bounds.py",
        _bounds,
        lambda s: s.module.text,
    ),
)
_MAPPED: tuple[Pass[CudaState] | Search[CudaState], ...] = (
    *program_passes(CudaState),
    Search(
        "registers",
        "try simpler mappings, as long as threads spill registers",
        "backends/cuda/passes.py",
        (*mapping(CudaState), *_CODE),
        _registers,
    ),
)
_TO_LAUNCHES = (*program_passes(CudaState), *mapping(CudaState))
PASSES = PassList[CudaState](
    "cuda",
    (
        *passes_over_loops(CudaState, OVER_LOOPS),
        with_loops("cuda", _TO_LAUNCHES, _MAPPED, _CODE[:2]),
    ),
)
_ONE_THREAD: tuple[Pass[CudaState] | Search[CudaState], ...] = (
    Search(
        "registers",
        "one map only: one thread runs the program in the order of the source",
        "backends/cuda/passes.py",
        (*unmapped(CudaState), *_CODE),
        lambda state, make: make(state),
    ),
)
UNMAPPED = PassList[CudaState]("cuda", (with_loops("cuda", unmapped(CudaState), _ONE_THREAD, _CODE[:2]),))


def passes(options: Options) -> PassList[CudaState]:
    """The passes for these options."""
    return UNMAPPED if options.mapping == "identity" else PASSES


def alternatives(state: CudaState) -> Iterator[tuple[Candidate, CudaState]]:
    """The candidates of a compiled program that has one kernel, from the fastest by prediction on, each with
    the program compiled that way; none of a program with several kernels."""
    if len(state.kernels.choices) != 1:
        return
    (choice,) = state.kernels.choices
    for c in choice.candidates:
        taken = replace(state.kernels, choices=(replace(choice, taken=c),))
        yield c, _machine(_code(assembled(changed(state, kernels=taken))))

"""The result of `compile` of the GPU backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tc.cache import disk
from tc.codegen.gpu_module import Kernel, Module
from tc.errors import Span
from tc.ir.expr import Expr
from tc.ir.lines import TRACE, Lines, joined, split
from tc.ir.loops import LoopNest
from tc.ir.printer import nest_lines, nest_text
from tc.pipeline.target import stage_text

from .interface import Interface
from .launched import Functions, Launched
from .passes import Lowered
from .stored import facts_of

GPU_OPTIONS = frozenset(
    [
        "strict",
        "fusion",
        "intra_tile_fusion",
        "tile",
        "threads",
        "blocks",
        "machine",
        "use_shared_memory",
        "use_private_memory",
        "max_shared_memory",
        "atomics",
        "unroll",
        "unroll_copy_shared",
        "mapping",
    ]
)


@runtime_checkable
class WithImage(Protocol):
    """Functions that are machine code before they are loaded."""

    cubin: bytes


@dataclass(frozen=True)
class Compiled(Launched):
    """Kernels that `run` launches one after the other; there is no address to call.

    `stages` are texts that only this backend has; `resources` are the registers and memory of each kernel,
    where the compiler reports them.
    """

    backend: str
    lowered: Lowered = field(repr=False)
    module: Module = field(repr=False)
    functions: Functions = field(repr=False)
    interface: Interface = field(repr=False)
    stages: Mapping[str, str] = field(repr=False, default_factory=dict[str, str])
    resources: Mapping[str, Any] = field(repr=False, default_factory=dict[str, Any])
    notices: tuple[str, ...] = ()
    address: None = None
    release_gil: bool = True

    @property
    def nest(self) -> LoopNest:
        return self.lowered.nest

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that `kernel.notes` has."""
        return self.lowered.notes

    @property
    def workspace(self) -> Expr:
        """In bytes."""
        return self.interface.workspace

    def artifact(self, stage: str) -> str:
        """A stage of the compilation as text: the schedule tree, the mapping, the loop nest, the code."""
        texts = {
            "schedule": self.lowered.schedule,
            "mapped": self.lowered.mapped,
            "choice": lambda: joined(split(self.lowered.choice)),
            "loops": lambda: nest_text(self.nest),
            "code": self.module.text,
            **self.stages,
        }
        return stage_text(self.backend, stage, texts)

    @property
    def origins(self) -> Mapping[str, Span]:
        """The places of the program's stages in its source."""
        return self.nest.origins

    def lines(self, stage: str) -> Lines:
        """A stage in lines that name their stages; see `tc.pipeline.target.Traced`."""
        if stage == "loops":
            return nest_lines(self.nest)
        if stage == "choice":
            return split(self.lowered.choice)
        return split(_traced(self.module) if stage == "code" else self.artifact(stage))

    def to_blob(self) -> bytes | None:
        """The launches and their machine code, for other processes; None where there is none to keep."""
        if not isinstance(self.functions, WithImage):
            return None
        facts = facts_of(self.interface, self.module.kernels, self.notices, self.notes)
        return disk.pack(facts, self.functions.cubin)

    def steps(self) -> tuple[Kernel, ...]:
        """The launches, in order."""
        return self.module.kernels


def _traced(module: Module) -> str:
    """A module's text, whose lines end in their stage, as `tc.ir.lines.split` reads it."""
    pairs = zip(module.text.split("\n"), module.with_traces().text.split("\n"), strict=True)
    # Launch bounds may have been changed since.
    return "\n".join(line + "".join(traced.partition(TRACE)[1:]) for line, traced in pairs)

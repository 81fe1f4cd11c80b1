"""Kernels for given sizes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tc.errors import ArgumentError, PerformanceNotice, Span, Warning, warn
from tc.ir.empty_ranges import empty_ranges
from tc.ir.lines import Lines, split
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import Variant
from tc.pipeline.load import compile_program
from tc.pipeline.target import Compiled as CompiledCode
from tc.pipeline.target import Runnable, Traced
from tc.registry import get

if TYPE_CHECKING:
    from tc.kernel import Kernel

_LOG = logging.getLogger("tc")


@dataclass(frozen=True, repr=False)
class Compiled:
    """A kernel for given sizes: what was emitted, and how to run it.

    With dynamic sizes there is one for each of their values; these share all but `sizes`, and `program` is
    symbolic in the dynamic sizes, of which `typical` says what the machine code is fastest for.
    """

    program: Program
    options: Options
    backend: str
    compiled: Runnable  # what the backend's `compile` returned, or its `from_blob`
    sizes: Mapping[str, int]
    scalars: Mapping[str, int]
    seconds: Mapping[str, float]  # compile time by pass
    kernel: Kernel = field(repr=False)
    variant: Variant = field(repr=False, default_factory=Variant)
    restored: bool = False  # whether it comes from disk
    typical: Mapping[str, int] = field(default_factory=dict[str, int])

    def __repr__(self) -> str:
        at = ", ".join(f"{n} = {v}" for n, v in {**self.sizes, **self.scalars}.items())
        return f"<tc.Compiled {self.kernel.name}{f' for {at}' if at else ''} on {self.backend}>"

    def warnings(self) -> Iterator[Warning]:
        """What a user might not expect of it."""
        # In SaC an empty generator is nothing unusual.
        if self.kernel.front.lang == "tc":
            yield from empty_ranges(self.program, self.sizes)
        for text in self.compiled.notices:
            yield PerformanceNotice(f"{self.kernel.name} on {self.backend}: {text}")

    def announce(self) -> None:
        """Log that it was made, and issue its warnings."""
        name = self.kernel.name
        at = ", ".join(f"{n} = {v}" for n, v in {**self.sizes, **self.scalars}.items())
        how = "loaded from disk" if self.restored else f"compiled in {sum(self.seconds.values()):.3f} s"
        _LOG.debug("%s for %s on %s: %s", name, at or "no sizes", self.backend, how)
        for w in self.warnings():
            warn(w, stacklevel=None)

    @property
    def inout(self) -> frozenset[str]:
        """The results that a call has to pass buffers for."""
        return frozenset(b.name for b in self.program.buffers if b.role == "output" and b.inout)

    @property
    def source(self) -> str:
        """The emitted code, readable."""
        return self.artifact("code")

    @property
    def schedule(self) -> str:
        return self.artifact("schedule")

    def artifact(self, stage: str) -> str:
        """A stage of the backend's compile as text; on disk there are none, so it is compiled for them."""
        return self.whole.artifact(stage)

    def lines(self, stage: str) -> Lines:
        """The same in lines, which know the stages that they are of, where the backend says so."""
        whole = self.whole
        return whole.lines(stage) if isinstance(whole, Traced) else split(whole.artifact(stage))

    @property
    def origins(self) -> Mapping[str, Span]:
        """The places in the source of the stages that `lines` names."""
        whole = self.whole
        return whole.origins if isinstance(whole, Traced) else {}

    @property
    def whole(self) -> CompiledCode:
        """What the backend's `compile` makes, with its stages; a kernel from disk is compiled for them."""
        if isinstance(self.compiled, CompiledCode):
            return self.compiled
        # No `cached_property`: its lock, held by another thread at a fork, is held in the child for ever.
        found = self.__dict__.get("_again")
        if found is None:
            found = compile_program(get(self.backend, run=False), self.program, self.options, self.typical)
            self.__dict__["_again"] = found
        return found

    def inspect(self, stage: str) -> str:
        """A stage of this compile as text; see `Kernel.inspect`."""
        return self.kernel.inspect(stage, **self.sizes, **self.scalars)

    def export(self, path: Any, **targets: Any) -> Path:
        """Write a bundle of this kernel, which `tc.load` makes a callable of; `isa`, `arch` and `types` are
        as in `Kernel.export`.  Returns its path."""
        return self.kernel.export(path, {**self.sizes, **self.scalars}, **targets)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel on arrays of these sizes.  Raises ArgumentError, code TC0519, for others."""
        given = self.kernel.sizes_of(*args, **kwargs)
        for name, value in {**self.sizes, **self.scalars}.items():
            if given[name] != value and name not in self.typical:
                raise ArgumentError(
                    f"{self.kernel.name} was specialised for {name} = {value}, and these arguments have "
                    f"{name} = {given[name]}",
                    code="TC0519",
                    help="call the kernel itself, which compiles for any sizes, or specialise it for these",
                )
        return self.kernel(*args, **kwargs)

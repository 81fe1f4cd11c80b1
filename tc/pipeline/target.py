"""What a backend is: the protocols between the pipeline and the code that emits for a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tc.ir.program import Program


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can run kernels here; if not, why, and what to do about it.

    `compiles`: it compiles all the same, so that the stages of a compile can be looked at.
    """

    ok: bool
    reason: str = ""
    remedy: str = ""
    compiles: bool = False


@runtime_checkable
class Backend(Protocol):
    """What the object behind an entry point makes (docs/design.md).

    One with an attribute `dynamic_sizes` that is true takes programs whose dynamic sizes are symbolic, with
    their typical values as a third argument of `compile`; the sizes reach the kernel as tc/native/entry.h
    says, and the `workspace` of what it returns may be an expression over them.

    What `compile` returns may have `notices`: lines on what is simpler than one would expect, each of which
    becomes a `tc.PerformanceNotice`.
    """

    name: str

    def available(self) -> Availability: ...

    def default_options(self, program: Program, target: Any) -> Any: ...

    def compile(self, program: Program, options: Any) -> Any: ...


@runtime_checkable
class Restoring(Protocol):
    """A backend whose kernels outlive the process.

    What its `compile` returns has a method `to_blob() -> bytes | None` (see `tc.cache.disk.pack`), None for a
    kernel that cannot be kept.  `from_blob` makes of those bytes what runs the same (`address`, `workspace`,
    `release_gil`, or `run`); stages it need not show.  `version_key` says what else the code depends on: the
    machine, its instruction set, the backend's own version and sources (`tc.cache.disk.sources`).
    """

    name: str

    def version_key(self) -> str: ...

    def from_blob(self, program: Program, blob: bytes) -> Any: ...

"""The protocols of a backend: what the pipeline requires of the code for a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from tc.errors import BackendError, Span
from tc.ir.expr import Expr
from tc.ir.lines import Lines
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import PassList

# A failed check as `tc._native.Entry.run` returns it: access, index, point, dimension.
Record = tuple[int, int, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can run kernels here; if not, why, and how to change that.

    `compiles`: it can compile all the same, so that the stages of a compile can be shown.
    """

    ok: bool
    reason: str = ""
    remedy: str = ""
    compiles: bool = False


@runtime_checkable
class Runnable(Protocol):
    """A kernel that runs: machine code at an address, or, where `address` is None, a `Launcher`.

    `workspace` is in bytes; with dynamic sizes it is an expression over them.  `release_gil` says whether a
    call takes long enough for other threads to run meanwhile.  `notices` are lines on what is simpler than
    one would expect; each becomes a `tc.PerformanceNotice`.
    """

    @property
    def address(self) -> int | None: ...

    @property
    def workspace(self) -> int | Expr: ...

    @property
    def release_gil(self) -> bool: ...

    @property
    def notices(self) -> tuple[str, ...]: ...


@runtime_checkable
class Noted(Runnable, Protocol):
    """A kernel with lines for `kernel.notes`."""

    @property
    def notes(self) -> tuple[str, ...]: ...


@runtime_checkable
class Relocatable(Runnable, Protocol):
    """A kernel whose machine code is at hand as an object file."""

    @property
    def object_code(self) -> tuple[bytes, str]:
        """The file, and the name of its function that is the kernel."""
        ...


@runtime_checkable
class Launcher(Runnable, Protocol):
    """A kernel that its backend runs itself, on a device."""

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Record | None:
        """Run on dense arrays in signature order; returns the record of a failed check."""
        ...


@runtime_checkable
class Compiled(Runnable, Protocol):
    """The result of `Backend.compile`: a kernel with the stages of its compile."""

    def artifact(self, stage: str) -> str:
        """A stage of the compile as text, such as "loops" or "code"; BackendError TC0804 for others."""
        ...


@runtime_checkable
class Traced(Compiled, Protocol):
    """A compiled kernel that also knows which stages of its program the lines of its texts belong to."""

    @property
    def origins(self) -> Mapping[str, Span]:
        """The places in the source of these stages."""
        ...

    def lines(self, stage: str) -> Lines:
        """The text of `artifact` in lines; those of "loops", "code" and "choice" name stages."""
        ...


@runtime_checkable
class Backend(Protocol):
    """The object behind an entry point (docs/design.md).

    `options_used`: the options that it does not ignore; others are refused.  `dynamic_sizes`: it compiles
    programs with symbolic sizes; their values reach the kernel as described in tc/native/entry.h.
    """

    name: str
    options_used: frozenset[str]
    dynamic_sizes: bool

    def available(self) -> Availability: ...

    def passes(self, options: Options) -> PassList[Any]:
        """The passes that `compile` runs with these options."""
        ...

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernel of a program; `typical` are values of its symbolic sizes, for which it is fastest."""
        ...


@runtime_checkable
class Restoring(Backend, Protocol):
    """A backend whose kernels outlive the process.

    What its `compile` returns is `Storable`.  `from_blob` makes of those bytes what runs the same; stages it
    need not show.  `version_key` says what else the code depends on: the machine, its instruction set, the
    backend's own version and sources (`tc.cache.disk.sources`).
    """

    def version_key(self) -> str: ...

    def from_blob(self, program: Program, blob: bytes) -> Runnable: ...


@runtime_checkable
class Storable(Protocol):
    """A compiled kernel that can be written to disk."""

    def to_blob(self) -> bytes | None:
        """Plain data and object code (`tc.cache.disk.pack`), or None for a kernel that cannot be kept."""
        ...


@dataclass(frozen=True, slots=True)
class Exported:
    """A kernel for a target, such as avx2 or sm_90, to be run elsewhere without a compiler.

    `kind`: "object" for an object file whose function `symbol` follows tc/native/entry.h; "module" for code
    that the run time of the backend loads.  `requires` are the features of a processor, as Linux lists them,
    that an object needs.  `facts` are plain data for who runs it; those of an object have `workspace`, an
    expression in bytes (`tc.ir.expr_json`), and `release_gil`.
    """

    kind: Literal["object", "module"]
    target: str
    facts: Mapping[str, Any]
    code: bytes = field(repr=False)
    symbol: str = ""
    requires: tuple[str, ...] = ()


@runtime_checkable
class Exporting(Backend, Protocol):
    """A backend whose kernels can be written to bundles (`tc.bundle`)."""

    def export(
        self,
        program: Program,
        options: Options,
        typical: Mapping[str, int],
        targets: Sequence[str],
        symbol: str,
    ) -> tuple[Exported, ...]:
        """The kernel of a program for some targets, of which the first one that a machine has is run there;
        for no targets those that suit this machine.  The function of an object has a name that begins with
        `symbol`, another one for each target.
        BackendError, code TC0811, for targets that it cannot compile for."""
        ...


def stage_text(backend: str, stage: str, texts: Mapping[str, str | Callable[[], str]]) -> str:
    """The text of a stage: a value of `texts`, or the result of a function there; BackendError TC0804 for
    other stages."""
    if stage not in texts:
        *some, last = texts
        raise BackendError(
            f"the {backend} backend has no stage '{stage}'",
            code="TC0804",
            help=f"it has {', '.join(some)} and {last}",
        )
    found = texts[stage]
    return found if isinstance(found, str) else found()

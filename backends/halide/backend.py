# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A specialised program to Funcs to object code to a kernel of the calling convention."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

from tc.errors import BackendError, InternalError
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.target import Availability
from tc.support.interrupts import deferred

Stage = Literal["schedule", "loops", "code", "llvm", "asm"]

_numbers = count()
_LONG = 20_000  # instances of statements, at a nanosecond each or less, from which the GIL is let go


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel `int32_t (void *const *args)`, valid while this object lives.

    `workspace` is in bytes; `release_gil` says whether the work is worth it; `schedule` is what an
    autoscheduler chose, as C++, else empty; `notes` are Halide's warnings.
    """

    address: int
    workspace: int
    release_gil: bool
    schedule: str
    _linked: Any = field(repr=False)
    _texts: Mapping[str, Callable[[], str]] = field(repr=False)
    notes: tuple[str, ...] = ()

    def artifact(self, stage: Stage) -> str:
        """A stage of the compilation as text: `loops` and `code` are Halide's lowered statements."""
        if stage not in self._texts:
            raise BackendError(
                f"the halide backend has no stage '{stage}'",
                code="TC0804",
                help=f"it has {', '.join(self._texts)}",
            )
        from tc.halide.binding import LOCK, listen

        with LOCK, listen():
            return self._texts[stage]()


# What Halide says, and what it is about.
_REFUSED = (
    (
        "Division by constant zero",
        "a division by a constant zero: Halide refuses what its simplifier finds",
        "divide by data, or use another backend",
    ),
    (
        "may be accessed in an unbounded way",
        "a subscript with intermediate values beyond int32: Halide finds no bounds for it",
        "write it with smaller factors, or use another backend",
    ),
)


class Backend:
    """Programs compiled by Halide: a second opinion, and its autoschedulers.

    Inputs and outputs must not overlap in memory; in/out results are copied first.  What Halide cannot
    follow is in `tc.halide.limits`.  With `fast_math` Halide reorders floating-point operations, takes NaN
    and infinities for impossible and the sign of zero for nothing: sums of n terms differ by up to n
    rounding errors of the sum of their magnitudes.
    """

    name = "halide"
    options_used: frozenset[str] = frozenset({"strict", "fast_math", "autoschedule"})

    def available(self) -> Availability:
        """Whether the halide package that tc was built against is installed."""
        from tc.halide import load_library

        try:
            load_library()
        except BackendError as error:
            return Availability(False, error.message, error.help or "")
        return Availability(True)

    def default_options(self, program: Program, target: Any) -> Options:
        """No autoscheduler: Halide's default loops, every Func computed whole."""
        return Options()

    def compile(self, program: Program, options: Options | None = None) -> Compiled:
        """The kernel of a specialised program.

        Raises BackendError: TC0805 for what Halide cannot follow, TC0806 where an autoscheduler fails.
        """
        from tc.halide.binding import LOCK, hl, listen

        if program.sizes:
            raise InternalError(f"not specialised: {', '.join(program.sizes)}")
        options = options or Options()
        with LOCK, deferred(), listen() as said:
            try:
                made = _compile(program, options)
                return replace(made, notes=(*made.notes, *_notes(said)))
            except hl.HalideError as error:
                for said_by_halide, why, help in _REFUSED:
                    if said_by_halide in str(error):
                        raise BackendError(
                            f"the halide backend cannot compile {why}", code="TC0805", help=help
                        ) from None
                raise InternalError(f"Halide refuses the pipeline: {str(error).strip()}") from error


def _compile(program: Program, options: Options) -> Compiled:
    from tc import _native
    from tc.halide.funcs import build
    from tc.halide.limits import is_checked, refuse_dropped

    from .autoschedule import checked, failed, schedule
    from .glue import KERNEL, arguments, glue, size
    from .linker import link

    target = _target(options, any(size(b) >= 1 << 31 for b in program.buffers))
    if options.autoschedule is not None and any(size(b) == 0 for b in program.buffers):
        # Autoschedulers take what they are told of sizes, at least 1, for granted.
        empty = _compile(program, replace(options, autoschedule=None))
        return replace(empty, notes=(f"a tensor is empty: {options.autoschedule} is not asked",))
    lowered = build(program, unscheduled=options.autoschedule is not None)
    chosen = ""
    if options.autoschedule is not None:
        chosen = schedule(lowered, options.autoschedule, _native.get_num_threads(), target)
    function = f"tc_halide_{next(_numbers)}"
    inputs = [lowered.images[n] if n in lowered.images else lowered.params[n] for n in arguments(lowered)]
    frame = glue(lowered, function, align=options.autoschedule is not None)

    def text(write: Callable[[str], None]) -> bytes:
        with tempfile.TemporaryDirectory(prefix="tc-") as folder:
            path = Path(folder, "out")
            write(str(path))
            return path.read_bytes()

    pipeline = lowered.pipeline

    def compiled() -> bytes:
        return text(lambda path: pipeline.compile_to_object(path, inputs, function, target))

    def statements() -> str:
        from tc.halide.binding import hl

        form = hl.StmtOutputFormat.Text
        return text(lambda path: pipeline.compile_to_lowered_stmt(path, inputs, form, target)).decode()

    if any(map(is_checked, program.stages)):
        refuse_dropped(program, statements())
    code = compiled() if options.autoschedule is None else checked(options.autoschedule, compiled)
    if b"halide_mutex_array_lock" in code and any(map(is_checked, program.stages)):
        # A failed check returns with the lock held, and other threads wait for it.
        raise failed(str(options.autoschedule), "updates under a lock what a checked subscript may stop")
    linked = link(code, frame.text, KERNEL)

    return Compiled(
        linked.address,
        frame.workspace,
        program.instances > _LONG,
        chosen,
        linked,
        {
            "schedule": lambda: chosen or "// every Func is computed whole, in the order of its definition\n",
            "loops": statements,
            "code": statements,
            "llvm": lambda: text(
                lambda path: pipeline.compile_to_llvm_assembly(path, inputs, function, target)
            ).decode(),
            "asm": lambda: text(
                lambda path: pipeline.compile_to_assembly(path, inputs, function, target)
            ).decode(),
        },
    )


def _notes(said: list[str]) -> Iterator[str]:
    """Halide's warnings, once each, without one that every checked subscript gives an autoscheduler."""
    for line in dict.fromkeys("".join(said).splitlines()):
        if line.strip() and line != "Warning: Unknown extern call halide_error_requirement_failed":
            yield line


def _target(options: Options, large: bool) -> Any:
    """This machine, with our run time; strict floating point unless `fast_math`."""
    from tc.halide.binding import hl

    from . import host

    feature = hl.TargetFeature
    target = host.target().with_feature(feature.NoRuntime).with_feature(feature.UserContext)
    if not options.fast_math:
        target = target.with_feature(feature.StrictFloat)
    return target.with_feature(feature.LargeBuffers) if large else target

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The passes of the halide backend: Funcs, a schedule by an autoscheduler if an option names one, an object
file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from tc.errors import BackendError, Span
from tc.ir.lines import Lines, split
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import Pass, PassList, later

from . import traces

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
    origins: Mapping[str, Span] = field(repr=False)  # of the program's stages in its source
    _stages: Mapping[str, Sequence[str]] = field(repr=False)  # of each Func
    notes: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """None: what Halide says is in `notes`."""
        return ()

    def artifact(self, stage: str) -> str:
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

    def lines(self, stage: str) -> Lines:
        """A stage with what its lines are of; see `tc.pipeline.target.Traced`."""
        text = self.artifact(stage)
        return traces.lines(text, self._stages) if stage in ("loops", "code") else split(text)


@dataclass(frozen=True)
class HalideState:
    """A program and what Halide makes of it.  `lowered` are its Funcs, `schedule` is what an autoscheduler
    chose, as C++; `ask` is which autoscheduler is asked, None for an empty tensor, and `notes` says so."""

    program: Program
    options: Options
    ask: str | None = None
    notes: tuple[str, ...] = ()
    target: Any = None
    function: str = ""
    lowered: Any = None
    schedule: str = ""
    frame: Any = None
    code: bytes = b""
    compiled: Compiled = later()


def _funcs(state: HalideState) -> HalideState:
    from tc.halide.funcs import build

    from .glue import size

    program, options = state.program, state.options
    target = _target(options, any(size(b) >= 1 << 31 for b in program.buffers))
    ask, notes = options.autoschedule, ()
    if ask is not None and any(size(b) == 0 for b in program.buffers):
        # Autoschedulers rely on estimated sizes of at least 1.
        ask, notes = None, (f"a tensor is empty: {options.autoschedule} is not asked",)
    lowered = build(program, unscheduled=ask is not None)
    function = f"tc_halide_{next(_numbers)}"
    return replace(state, ask=ask, notes=notes, target=target, lowered=lowered, function=function)


def _schedule(state: HalideState) -> HalideState:
    from tc import _native

    from .autoschedule import schedule

    if state.ask is None:
        return state
    chosen = schedule(state.lowered, state.ask, _native.get_num_threads(), state.target)
    return replace(state, schedule=chosen)


def _emit(state: HalideState) -> HalideState:
    from tc.halide.limits import is_checked, refuse_dropped

    from .autoschedule import checked, failed
    from .glue import glue

    program, checks = state.program, any(map(is_checked, state.program.stages))
    frame = glue(state.lowered, state.function, align=state.ask is not None)
    if checks:
        refuse_dropped(program, _statements(state))

    def compiled() -> bytes:
        pipeline = state.lowered.pipeline
        return _written(
            lambda path: pipeline.compile_to_object(path, _inputs(state), state.function, state.target)
        )

    code = compiled() if state.ask is None else checked(state.ask, compiled)
    if b"halide_mutex_array_lock" in code and checks:
        # A failed check returns with the lock held, and other threads wait for it.
        raise failed(str(state.ask), "updates under a lock what a checked subscript may stop")
    return replace(state, frame=frame, code=code)


def _link(state: HalideState) -> HalideState:
    from .glue import KERNEL
    from .linker import link

    linked = link(state.code, state.frame.text, KERNEL)
    pipeline, chosen = state.lowered.pipeline, state.schedule
    made = Compiled(
        linked.address,
        state.frame.workspace,
        state.program.instances > _LONG,
        chosen,
        linked,
        {
            "schedule": lambda: chosen or "// every Func is computed whole, in the order of its definition\n",
            "loops": lambda: _statements(state),
            "code": lambda: _statements(state),
            "llvm": lambda: _written(
                lambda path: pipeline.compile_to_llvm_assembly(
                    path, _inputs(state), state.function, state.target
                )
            ).decode(),
            "asm": lambda: _written(
                lambda path: pipeline.compile_to_assembly(path, _inputs(state), state.function, state.target)
            ).decode(),
        },
        state.program.origins,
        _definitions(state),
        state.notes,
    )
    return replace(state, compiled=made)


def _definitions(state: HalideState) -> dict[str, list[str]]:
    """The stages of each Func, in the order of its definitions, by Halide's name of it."""
    out: dict[str, list[str]] = {}
    for d in state.lowered.definitions:
        out.setdefault(d.func.name(), []).append(d.stage.name if d.stage is not None else "")
    return out


def _inputs(state: HalideState) -> list[Any]:
    from .glue import arguments

    lowered = state.lowered
    return [lowered.images[n] if n in lowered.images else lowered.params[n] for n in arguments(lowered)]


def _statements(state: HalideState) -> str:
    """Halide's lowered statements."""
    from tc.halide.binding import hl

    form, pipeline = hl.StmtOutputFormat.Text, state.lowered.pipeline
    write = pipeline.compile_to_lowered_stmt
    return _written(lambda path: write(path, _inputs(state), form, state.target)).decode()


def _written(write: Callable[[str], None]) -> bytes:
    """The text that Halide writes to a file."""
    with tempfile.TemporaryDirectory(prefix="tc-") as folder:
        path = Path(folder, "out")
        write(str(path))
        return path.read_bytes()


PASSES = PassList[HalideState](
    "halide",
    (
        Pass("funcs", "build Halide's Funcs from the program", "tc/halide/funcs.py", _funcs),
        Pass(
            "autoschedule",
            "schedule by an autoscheduler of Halide, if an option names one",
            "backends/halide/autoschedule.py",
            _schedule,
            lambda s: s.schedule,
        ),
        Pass(
            "emit",
            "lower and generate code by Halide, to an object file",
            "backends/halide/glue.py",
            _emit,
            _statements,
        ),
        Pass(
            "link",
            "link the object file into this process",
            "backends/halide/linker.py",
            _link,
            lambda s: s.compiled.artifact("asm"),
        ),
    ),
)


def _target(options: Options, large: bool) -> Any:
    """This machine, with our run time; strict floating point unless `fast_math`."""
    from tc.halide.binding import hl

    from . import host

    feature = hl.TargetFeature
    target = host.target().with_feature(feature.NoRuntime).with_feature(feature.UserContext)
    if not options.fast_math:
        target = target.with_feature(feature.StrictFloat)
    return target.with_feature(feature.LargeBuffers) if large else target

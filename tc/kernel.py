"""Kernels: a checked def that compiles itself per sizes and runs on arrays."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tc import _native
from tc.cache.memory import CompileCache
from tc.dtypes import DType
from tc.errors import ArgumentError, BackendError, PerformanceNotice, Source, Warning, warn
from tc.instances.compiled import Compiled
from tc.instances.kernel_signature import (
    boxes_of,
    definition,
    origins,
    same_types,
    shapes_of,
    signature,
)
from tc.instances.kernel_sizes import check_complete, check_integers, check_names, outer_sizes
from tc.ir.evaluate import evaluate
from tc.ir.program import Program
from tc.ir.specialize import require
from tc.kernel_devices import KernelDevices
from tc.kernel_options import TunedOptions
from tc.kernel_tools import KernelTools
from tc.lang import resolved as r
from tc.lang.notations import Known
from tc.options import Dynamic, Options, read_dynamic, typical_size
from tc.pipeline.devices import Devices, HasDevices
from tc.pipeline.front import Built, Front, Variant, build, specialize, unforeseen
from tc.pipeline.load import load_or_compile
from tc.pipeline.pass_manager import recording
from tc.pipeline.target import Backend, Launcher, Noted
from tc.poly.implication import implies
from tc.range_table import Integers, RangeTable, Requirement, compile_boxes, requirements
from tc.ranges import Ranges, infer
from tc.registry import default_backend, get
from tc.runtime import dispatch
from tc.support import locks
from tc.support.float_mode import standard
from tc.support.garbage import uncollected
from tc.support.reproducer import reporting
from tc.support.settings import dump_directory
from tc.warm_start.card import MOST, Place
from tc.warm_start.record import record

_LOG = logging.getLogger("tc")
CACHE: CompileCache[Compiled] = CompileCache()
BUILT: CompileCache[Built] = CompileCache(256)
_READY = 64  # sizes that a kernel's slow calls remember, as many as the fast ones
_READY_DYNAMIC = 1024  # the same with dynamic sizes: such entries are small and share one machine code
Values = Mapping[str, int]
Result = TypeVar("Result")
# A kernel for given sizes, the shapes of its arrays, and what runs it: None where its backend does.
Ready = tuple[Compiled, Mapping[str, tuple[int, ...]], _native.Entry | None]


def built_program(front: Front, variant: Variant) -> Built:
    """`tc.pipeline.front.build`, once for all kernels of a source, and for the interpreter."""
    key = (front.source.text, front.source.name, front.checked.name, front.lang, front.known, variant)
    return BUILT.get(key, lambda: build(front, variant))


@dataclass(frozen=True)
class Request:
    """The arguments of `compile` that made a kernel."""

    source: Source
    entry: str
    backend: str | None
    options: Options
    checks: str
    dynamic: Dynamic
    lang: str = "tc"
    known: Known = ()


class Kernel(KernelTools, KernelDevices):
    """A compiled def.  Call it with arrays in parameter order or by name, results optionally in `out=`.

    Machine code is made per sizes (but for dynamic ones), types and specialised scalars at the first such
    call and kept.
    Attributes: `name`, `source`, `warnings`, `notes`, `preconditions`, `ranges`, `options`, `dynamic`.
    """

    def __init__(
        self,
        front: Front,
        backend: str | None,
        options: Options | None,
        checks: str,
        dynamic: Dynamic = (),
    ) -> None:
        self._front = front
        self._backend_name = backend
        self._asked_backend = backend
        self._chosen: Backend | None = None
        self._devices: Devices | None = None
        self._device_entries: dict[Any, _native.Entry] = {}
        self._options = options or Options()
        self._checks = checks
        chosen = outer_sizes(front) if dynamic is True else dynamic
        self._dynamic = read_dynamic(chosen, front.checked.sizes, front.checked.name)
        self._capacity = _READY_DYNAMIC if self._dynamic else _READY
        self._keep(self._capacity)
        self._built: dict[Variant, Built] = {}
        self._ready: dict[Hashable, Ready] = {}
        self._on_card: set[int] = set()  # the entries of these that the card has, by identity
        self._lock = locks.lock()
        self._tuned = TunedOptions(front, self._options)
        self._noted: dict[str, None] = {}  # of all that was compiled
        self.card: Place | None = None  # of the call of `tc.compile` that made it
        self._integers: dict[tuple[int, ...], Callable[[Mapping[str, int]], Integers]] = {}
        self.name = front.checked.name
        self.source = front.source.text
        self.warnings: tuple[Warning, ...] = front.warnings
        self._signature = signature(front)
        how = "Call it with arrays in this order or by name, results optionally in out=."
        self.__doc__ = f"{definition(front)}\n\n{how}"
        if backend is not None:
            self._backend()  # refuses options that the backend would ignore
        if front.ranges.complete and not front.specialized:
            self._build(self._variant({}, frozenset(), {}, {}))

    def request(self) -> Request:
        """What was asked for when this kernel was compiled: enough to compile it anew."""
        typical = dict(self._dynamic)
        dynamic = tuple(typical) if None in typical.values() else typical
        return Request(
            self._front.source,
            self.name,
            self._backend_name,
            self._options,
            self._checks,
            dynamic,
            self._front.lang,
            self._front.known,
        )

    # ---- what is known without data

    @property
    def front(self) -> Front:
        """The front end's results: syntax tree, checked statements, ranges, types."""
        return self._front

    @property
    def options(self) -> Options:
        """What was given, not what was chosen."""
        return self._options

    @property
    def dynamic(self) -> tuple[str, ...]:
        """The sizes of which one machine code serves every value."""
        return tuple(self._dynamic)

    def ranges_for(self, values: Mapping[str, int]) -> Ranges:
        """The derivation, with specialised scalars replaced where `values` has them."""
        scalars = {s: values[s] for s in self._front.keyed if s in values}
        return infer(self._front.checked, scalars, implies=implies) if scalars else self._front.ranges

    def program(self, values: Mapping[str, int]) -> Program:
        """The program, symbolic in the sizes that `values` does not have."""
        check_names(self._front, values)
        missing = [s for s in self._front.keyed if s not in values]
        if missing and not self._front.ranges.complete:
            what = f"{self.name} has no program before {', '.join(missing)} is known"
            raise ArgumentError(what, code="TC0513", help=f"pass {missing[0]}=…")
        scalars = {s: values[s] for s in self._front.specialized if s in values}
        sizes = {n: v for n, v in values.items() if n in self._front.checked.sizes}
        fixed = {n: sizes[n] for n in self._front.fixed_sizes if n in sizes}
        built = self._build(self._variant(scalars, frozenset(), {}, fixed))
        return specialize(built, sizes, {}) if sizes else built.program

    def sizes_of(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """The sizes and specialised scalars of a call with these arguments; raises what the call would."""
        bound = self._signature.bind(args, kwargs)
        return {**bound.sizes, **bound.integers(self._front.specialized)}

    @property
    def ranges(self) -> RangeTable:
        """{tensor: (Range(min, extent), …)}, symbolic; `.at(M=3)` makes integers."""
        return RangeTable(boxes_of(self._front, self._front.ranges), self._boxes_at)

    def _boxes_at(self, values: Mapping[str, int]) -> Integers:
        """Integer ranges of parameters and results for given sizes and specialised scalars."""
        check_complete(self._front, values)
        scalars = tuple(values[s] for s in self._front.keyed)
        at = self._integers.get(scalars)
        if at is None:
            at = compile_boxes(boxes_of(self._front, self.ranges_for(values)), self._front.checked.sizes)
            self._integers[scalars] = at
        return at(values)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user might not expect: non-zero origins of results, run-time checks, options of records,
        and what its backend did that rounds otherwise."""
        out = origins(self._front)
        with self._lock:
            built = next(iter(self._built.values()), None)
            made = tuple(self._noted)
        if built is not None:  # those that depend on data have a warning
            out += [f"{text} is checked when the kernel runs" for text in unforeseen(built)]
        return (*out, *self._tuned.notes, *made)

    @property
    def preconditions(self) -> tuple[Requirement, ...]:
        """What the sizes of a call must satisfy; for scalars to be specialised, of the variants compiled."""
        with self._lock:
            if self._built:
                return requirements(next(iter(self._built.values())).program.preconditions)
        return requirements(self._front.ranges.preconditions)

    def output_shapes(self, **values: int) -> dict[str, tuple[int, ...]]:
        """{result: shape} for given sizes and specialised scalars, before any data exists."""
        check_integers(self._front, values)
        boxes = self._boxes_at(values)
        names = (x.name for x in self._front.checked.returns)
        return {n: tuple(max(0, int(b.extent)) for b in boxes[n]) for n in names}

    # ---- compiling

    def specialize(self, **values: int) -> Compiled:
        """Compile for given sizes (and specialised scalars) now; dynamic sizes may be left away."""
        values = {**{n: v or typical_size(0) for n, v in self._dynamic.items()}, **values}
        check_integers(self._front, values)
        self._boxes_at(values)
        sizes = {n: int(values[n]) for n in self._front.checked.sizes}
        scalars = {n: int(values[n]) for n in self._front.specialized}
        return self._compile(self._variant(scalars, frozenset(), {}, sizes), sizes, scalars)

    def variant_for(self, values: Mapping[str, int]) -> Variant:
        """What besides sizes selects the program of a call without `out=`, at these sizes and scalars."""
        scalars = {s: values[s] for s in self._front.specialized if s in values}
        sizes = {n: v for n, v in values.items() if n in self._front.checked.sizes}
        return self._variant(scalars, frozenset(), {}, sizes)

    def typical_for(self, values: Mapping[str, int]) -> dict[str, int]:
        """Typical values of the dynamic sizes, as a first call with these sizes would settle them."""
        given = {n: values.get(n) for n in self._dynamic}
        return {n: typical_size(given[n] or 0) if v is None else v for n, v in self._dynamic.items()}

    @property
    def backend_object(self) -> Backend:
        """The backend that compiles this kernel."""
        return self._backend()

    def _variant(
        self,
        scalars: Mapping[str, int],
        given: frozenset[str],
        integers: Mapping[str, DType],
        sizes: Mapping[str, int],
    ) -> Variant:
        fixed = {n: sizes[n] for n in self._front.fixed_sizes if n in sizes}
        return Variant(
            tuple(sorted({**scalars, **fixed}.items())),
            given,
            tuple(sorted(integers.items(), key=lambda kv: kv[0])),
            any(n > 0x7FFFFFFF for n in sizes.values()),
            self._options.strict,
            self._checks != "none",
            self._checks == "drop",
        )

    def _build(self, variant: Variant) -> Built:
        with self._lock:
            built = self._built.get(variant)
            if built is None:
                with self._reporting(variant):
                    built = built_program(self._front, variant)
                if variant.wide:
                    same_types(self._front, built)
                self._built[variant] = built
            return built

    def _reporting(self, variant: Variant, **more: Any) -> AbstractContextManager[None]:
        """A bug in the body leaves a reproducer with all that this kernel was made with, and `more`."""

        def context() -> dict[str, Any]:
            passed, typed = dict(variant.integers), self._front.typed
            tensors = [p for p in self._front.checked.params if isinstance(p, r.Tensor)]
            return {
                "entry": self.name,
                "backend": self._backend_name,
                "options": self._options.changed(),
                "checks": self._checks,
                "dynamic": dict(self._dynamic),
                "scalars": dict(variant.scalars),
                "dtypes": {p.name: passed.get(p.name, typed.dtype(p)).name for p in tensors},
                "given": sorted(variant.given),
                **more,
            }

        return reporting(self.source, context)

    @property
    def backend(self) -> str:
        """The name of the backend that runs this kernel."""
        return self._backend().name

    def _backend(self) -> Backend:
        """The backend, chosen at first need; an option it would ignore, or that has no loop, is refused."""
        if self._chosen is not None:
            return self._chosen
        if self._backend_name is None:
            self._backend_name = default_backend()
        backend = get(self._backend_name, run=False)
        used = backend.options_used
        for name in self._options.changed():
            if name not in used:
                raise BackendError(
                    f"the backend '{backend.name}' does not use the option '{name}'",
                    code="TC0809",
                    help=f"it uses {', '.join(sorted(used)) or 'none'}",
                )
        self._options.check_loops(self._front.checked.loops)
        if self._dynamic and not backend.dynamic_sizes:
            raise BackendError(
                f"the backend '{backend.name}' has no dynamic sizes",
                code="TC0813",
                help="leave dynamic= away, or compile for cpu",
            )
        self._chosen = backend
        self._devices = backend.devices if isinstance(backend, HasDevices) else None
        return backend

    def _typical(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Typical values of the dynamic sizes; what is open is settled by these, of the first call."""
        with self._lock:
            for name, value in self._dynamic.items():
                if value is None:
                    self._dynamic[name] = typical_size(sizes[name])
            return {n: v for n, v in self._dynamic.items() if v is not None}

    def _compile(self, variant: Variant, sizes: Values, scalars: Values) -> Compiled:
        return self.with_options(
            variant, sizes, scalars, lambda options: self._compile_with(options, variant, sizes, scalars)
        )

    def with_options(
        self, variant: Variant, sizes: Values, scalars: Values, make: Callable[[Options], Result]
    ) -> Result:
        """What `make` makes with the options for these sizes: those of records, else those given."""

        def program() -> Program | None:
            return None if self._dynamic else specialize(self._build(variant), sizes, {})

        settled = {**sizes, **self._typical(sizes)}
        return self._tuned.compile(self._backend(), settled, scalars, program, self.dynamic, make)

    def _compile_with(
        self, options: Options, variant: Variant, sizes: Mapping[str, int], scalars: Mapping[str, int]
    ) -> Compiled:
        backend = self._backend()
        fixed = {n: v for n, v in sizes.items() if n not in self._dynamic}
        if self._dynamic:
            with self._reporting(variant, sizes=sizes):
                require(self._build(variant).program, sizes)
        typical = self._typical(sizes)
        what = (
            self.source,
            self.name,
            self._checks,
            self._front.lang,
            self._front.known,
            variant,
            tuple(sorted(fixed.items())),
            tuple(sorted(typical.items())),
        )
        key = (backend.name, options, *what)

        fresh: list[Compiled] = []  # if it is made here and now

        def make() -> Compiled:
            with recording() as record, self._reporting(variant, sizes=sizes), uncollected():
                program = specialize(self._build(variant), fixed, {})
                made, restored = load_or_compile(backend, program, options, typical, *what)
            one = Compiled(
                program,
                options,
                backend.name,
                made,
                dict(sizes),
                dict(scalars),
                record.seconds,
                self,
                variant,
                restored,
                typical,
            )
            fresh.append(one)
            return one

        found = CACHE.get(key, make)
        if fresh:
            found.announce()
        if isinstance(found.compiled, Noted):
            with self._lock:
                self._noted.update(dict.fromkeys(found.compiled.notes))
        directory = dump_directory()
        if directory is not None and fresh:
            from tc.inspection.stages import dump

            dump(self, {**sizes, **scalars}, directory)
        return replace(found, sizes=dict(sizes), kernel=self) if self._dynamic else found

    # ---- calling, the slow way (the fast one is Dispatcher's)

    @standard
    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        elsewhere = self._for_devices(args, kwargs) if self._asked_backend is None else None
        if elsewhere is not None:
            return self._call_elsewhere(elsewhere, args, kwargs)
        bound, (compiled, shapes, entry) = self._bound(args, kwargs)
        reads = compiled.program.images if bound.aliases else ()
        if bound.device is not None:
            return self._launch(bound, compiled, shapes, reads)
        if entry is None:
            launcher = compiled.compiled
            assert isinstance(launcher, Launcher)
            value, error = dispatch.call(bound, shapes, launcher.run, reads)
        else:
            value, error = dispatch.call_entry(bound, shapes, entry, reads)
            # An entry that starts from the neutral element must not serve calls that pass a buffer, and one
            # that works in place none that does not.
            if self._accumulated <= bound.out.keys() and not bound.aliases:
                self._add(entry)
                if id(entry) not in self._on_card:  # arrays with gaps come here at every call
                    self._on_card.add(id(entry))
                    self._remember(compiled, shapes)
        if error is not None:
            self._failed(compiled, error)
        return value

    def _remember(self, compiled: Compiled, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Put a kernel on the card that a new process looks for.  Of a kernel of dynamic sizes only the
        first ones are: a call at new sizes takes less time than a file."""
        if self.card is not None and (not self._dynamic or len(self._ready) <= MOST):
            integers = dict(compiled.variant.integers)
            spec = dispatch.call_spec(self._signature, integers, shapes, compiled.scalars, compiled.inout)
            record(self.card, compiled, spec)

    @standard
    def ready(
        self,
        sizes: Values,
        scalars: Values,
        integers: Mapping[str, DType],
        given: frozenset[str] = frozenset(),
        aliases: tuple[tuple[str, str], ...] = (),
    ) -> Ready:
        """The kernel for these sizes, specialised scalars and types of `integers`; `given` are the results
        that start from a buffer, `aliases` those in the memory of an input."""
        key = (tuple(sizes.values()), tuple(scalars.values()), given, tuple(integers.items()), aliases)
        found = self._ready.get(key)
        if found is None:
            get(self.backend)  # some backends compile where they cannot run
            variant = self._variant(scalars, given, integers, sizes)
            try:
                compiled = self._compile(replace(variant, aliases=aliases), sizes, scalars)
            except BackendError as e:  # of what works in place, which a copy does not need
                if not aliases:
                    raise
                compiled = self._compile(variant, sizes, scalars)
                text = f"{self.name} on {self.backend}: results are copied to out=: {e.message}"
                warn(PerformanceNotice(text), stacklevel=None)
            found = self._prepare(compiled, integers, scalars)
            if len(self._ready) >= self._capacity:
                self._ready.clear()
                self._on_card.clear()
            self._ready[key] = found
        return found

    def _prepare(
        self, compiled: Compiled, integers: Mapping[str, DType], scalars: Mapping[str, int]
    ) -> Ready:
        """What every slow call of these sizes needs; no entry where the backend runs the kernel itself."""
        self._result_type = dispatch.result_type(self._signature)  # kept, so that all results are of one
        shapes, made = shapes_of(compiled.program, compiled.sizes), compiled.compiled
        if made.address is None:
            return compiled, shapes, None
        entry = dispatch.call_spec(self._signature, integers, shapes, scalars, compiled.inout).entry(
            made.address,
            made.workspace if isinstance(made.workspace, int) else evaluate(made.workspace, compiled.sizes),
            made.release_gil,
            compiled,
            tuple(compiled.sizes[n] for n in compiled.program.sizes),
        )
        return compiled, shapes, entry

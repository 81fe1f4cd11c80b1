"""The public interface: compile, define, interpret; Kernel and Compiled."""

from __future__ import annotations

import threading
import warnings as python_warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc import _native, interpreter, pipeline
from tc.cache import CompileCache
from tc.dtypes import DType
from tc.errors import (
    ArgumentError,
    BackendNotice,
    BoundsError,
    PreconditionError,
    Source,
    Warning,
    did_you_mean,
    warn,
)
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr
from tc.ir.printer import text
from tc.ir.program import Precondition, Program
from tc.lang import resolved as r
from tc.options import Options
from tc.pipeline import Built, Front, Variant
from tc.ranges import Bound as SymbolicBound
from tc.ranges import Depends, Ranges, infer
from tc.registry import Availability, Backend, availability, get
from tc.registry import names as backend_names
from tc.runtime import dispatch
from tc.runtime.arrays import numpy_dtype
from tc.runtime.signature import Bound, Output, Param, Signature

_CACHE: CompileCache[Compiled] = CompileCache()
_FRONTS: CompileCache[Front] = CompileCache(256)


@dataclass(frozen=True, slots=True)
class Range:
    """`min <= index < min + extent`: integers, or expressions over sizes as text."""

    min: int | str
    extent: int | str

    def __repr__(self) -> str:
        return f"Range({self.min}, {self.extent})"


class RangeTable(Mapping[str, tuple[Any, ...]]):
    """The range of every dimension of every parameter and result, symbolic; `at` gives integers."""

    def __init__(self, boxes: Mapping[str, tuple[SymbolicBound, ...]], refine: Any) -> None:
        self._boxes = boxes
        self._refine = refine

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        return tuple(shown(b) for b in self._boxes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._boxes)

    def __len__(self) -> int:
        return len(self._boxes)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {', '.join(map(repr, self[name]))}" for name in self)

    def at(self, **values: int) -> dict[str, tuple[Range, ...]]:
        """Integer ranges for given sizes and scalars."""
        boxes = self._refine(values)
        return {
            name: tuple(Range(evaluate(b.min, values), evaluate(b.extent, values)) for b in box)
            for name, box in boxes.items()
        }


def shown(b: Any) -> Any:
    """A bound as users see it: a Range of integers and text, or what it depends on."""
    if isinstance(b, Depends):
        return str(b)
    return Range(_plain(b.min), _plain(b.extent))


def _plain(e: Expr) -> int | str:
    spelled = text(e)
    return int(spelled) if spelled.lstrip("-").isdigit() else spelled


@dataclass(frozen=True)
class Compiled:
    """A kernel for given sizes: what was emitted, and how to run it."""

    program: Program
    options: Options
    backend: str
    compiled: Any  # what the backend's `compile` returned
    sizes: Mapping[str, int]
    scalars: Mapping[str, int]
    seconds: Mapping[str, float]  # compile time by pass
    kernel: Kernel = field(repr=False)
    variant: Variant = field(repr=False, default_factory=Variant)

    @property
    def source(self) -> str:
        """The emitted code, readable."""
        return self.compiled.artifact("code")

    @property
    def schedule(self) -> str:
        return self.compiled.artifact("schedule")

    def inspect(self, stage: str) -> str:
        """A stage of this compile as text; see `Kernel.inspect`."""
        return self.kernel.inspect(stage, **self.sizes, **self.scalars)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*args, **kwargs)


class Kernel(_native.Dispatcher):
    """A compiled def.  Call it with arrays in parameter order or by name, results optionally in `out=`.

    Machine code is made per sizes, types and specialised scalars at the first such call and kept.
    Attributes: `name`, `source`, `warnings`, `notes`, `preconditions`, `ranges`.
    """

    def __init__(self, front: Front, backend: str | None, options: Options | None, checks: str) -> None:
        self._front = front
        self._backend_name = backend
        self._options = options or Options()
        self._checks = checks
        self._built: dict[Variant, Built] = {}
        self._lock = threading.RLock()
        self.name = front.checked.name
        self.source = front.source.text
        self.warnings: tuple[Warning, ...] = front.warnings
        self._signature = _signature(front)
        if front.ranges.complete and not front.specialized:
            self._build(self._variant({}, frozenset(), {}, {}))

    def __repr__(self) -> str:
        params = ", ".join(p.name for p in self._signature.params)
        outs = ", ".join(o.name for o in self._signature.outputs)
        return f"<tc.Kernel {self.name}({params}) -> ({outs})>"

    # ---- what is known without data

    @property
    def front(self) -> Front:
        """The front end's results: syntax tree, checked statements, ranges, types."""
        return self._front

    def ranges_for(self, values: Mapping[str, int]) -> Ranges:
        """The derivation, with specialised scalars replaced where `values` has them."""
        scalars = {s: values[s] for s in self._front.specialized if s in values}
        return infer(self._front.checked, scalars) if scalars else self._front.ranges

    def program(self, values: Mapping[str, int]) -> Program:
        """The program, symbolic in the sizes that `values` does not have."""
        self._check_names(values)
        missing = [s for s in self._front.specialized if s not in values]
        if missing and not self._front.ranges.complete:
            raise ArgumentError(
                f"{self.name} has no program before the scalar {', '.join(missing)} is known",
                code="TC0513",
                help=f"pass {missing[0]}=…",
            )
        scalars = {s: values[s] for s in self._front.specialized if s in values}
        built = self._build(self._variant(scalars, frozenset(), {}, {}))
        sizes = {n: v for n, v in values.items() if n in self._front.checked.sizes}
        return pipeline.specialize(built, sizes, {}) if sizes else built.program

    @property
    def ranges(self) -> RangeTable:
        """{tensor: (Range(min, extent), …)}, symbolic; `.at(M=3)` makes integers."""
        return RangeTable(_boxes(self._front, self._front.ranges), self._boxes_at)

    def _boxes_at(self, values: Mapping[str, int]) -> Mapping[str, tuple[SymbolicBound, ...]]:
        self._check_names(values)
        ranges = self._front.ranges
        if self._front.specialized:
            missing = [s for s in self._front.specialized if s not in values]
            if missing:
                raise ArgumentError(
                    f"{self.name}: ranges depend on the scalar {', '.join(missing)}",
                    code="TC0513",
                    help=f"pass {missing[0]}=…",
                )
            ranges = infer(self._front.checked, {s: values[s] for s in self._front.specialized})
        missing = [s for s in self._front.checked.sizes if s not in values]
        if missing:
            raise ArgumentError(
                f"{self.name}: no value for the size {', '.join(missing)}", code="TC0513", help=f"pass {missing[0]}=…"
            )
        return _boxes(self._front, ranges)

    def _check_names(self, values: Mapping[str, Any]) -> None:
        known = {*self._front.checked.sizes, *self._front.specialized}
        for name in values:
            if name not in known:
                raise ArgumentError(
                    f"{self.name} has no size or specialised scalar '{name}'",
                    code="TC0513",
                    help=did_you_mean(name, known) or f"it has {', '.join(sorted(known)) or 'none'}",
                )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user might not expect: non-zero origins of results, run-time checks."""
        out: list[str] = []
        for x in self._front.checked.returns:
            for d, b in enumerate(self._front.ranges.box(x.tensor)):
                bound = shown(b)
                if isinstance(bound, Range) and bound.min != 0:
                    out.append(
                        f"dimension {d} of '{x.name}' starts at {bound.min}: element 0 of the returned array "
                        f"there is {x.name}(…{bound.min}…)"
                    )
        return tuple(out)

    @property
    def preconditions(self) -> tuple[Precondition, ...]:
        """What the sizes of a call must satisfy; for scalars to be specialised, of the compiled variants."""
        with self._lock:
            if self._built:
                return next(iter(self._built.values())).program.preconditions
        return self._front.ranges.preconditions

    def output_shapes(self, **values: int) -> dict[str, tuple[int, ...]]:
        """{result: shape} for given sizes and specialised scalars, before any data exists."""
        boxes = self._boxes_at(values)
        return {
            x.name: tuple(max(0, evaluate(b.extent, values)) for b in boxes[x.name])  # type: ignore[union-attr]
            for x in self._front.checked.returns
        }

    # ---- compiling

    def specialize(self, **values: int) -> Compiled:
        """Compile for given sizes (and specialised scalars) now."""
        self._boxes_at(values)
        sizes = {n: int(values[n]) for n in self._front.checked.sizes}
        scalars = {n: int(values[n]) for n in self._front.specialized}
        return self._compile(self._variant(scalars, frozenset(), {}, sizes), sizes, scalars)

    def _variant(
        self,
        scalars: Mapping[str, int],
        given: frozenset[str],
        integers: Mapping[str, DType],
        sizes: Mapping[str, int],
    ) -> Variant:
        return Variant(
            tuple(sorted(scalars.items())),
            given,
            tuple(sorted(integers.items(), key=lambda kv: kv[0])),
            any(n > 0x7FFFFFFF for n in sizes.values()),
            self._options.strict,
            self._checks == "safe",
        )

    def _build(self, variant: Variant) -> Built:
        with self._lock:
            built = self._built.get(variant)
            if built is None:
                built = self._built[variant] = pipeline.build(self._front, variant)
            return built

    @property
    def backend(self) -> str:
        """The name of the backend that runs this kernel."""
        return self._backend().name

    def _backend(self) -> Backend:
        if self._backend_name is None:
            self._backend_name = _default_backend()
        return get(self._backend_name)

    def _compile(self, variant: Variant, sizes: Mapping[str, int], scalars: Mapping[str, int]) -> Compiled:
        backend = self._backend()
        key = (
            backend.name, self.source, self.name, self._options, self._checks, variant, tuple(sorted(sizes.items())),
        )  # fmt: skip

        def make() -> Compiled:
            seconds: dict[str, float] = {}

            def note(name: str, spent: float) -> None:
                seconds[name] = seconds.get(name, 0.0) + spent

            with pipeline.observe(note):
                program = pipeline.specialize(self._build(variant), sizes, {})
                compiled = backend.compile(program, self._options)
            return Compiled(
                program, self._options, backend.name, compiled, dict(sizes), dict(scalars), seconds, self, variant
            )

        return _CACHE.get(key, make)

    # ---- calling, the slow way (the fast one is Dispatcher's)

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self._signature.bind(args, kwargs)
        scalars = {n: int(bound.scalars[n]) for n in self._front.specialized}
        accumulated = {x.name for x in self._front.checked.returns if x.mode == "accumulate"}
        given = frozenset(accumulated & bound.out.keys())
        integers = {
            n: bound.arrays[n].dtype
            for n in self._front.any_integer
            if bound.arrays[n].dtype != self._front.typed.dtypes[self._tensor(n)]
        }
        compiled = self._compile(
            self._variant(scalars, given, integers, bound.sizes), bound.sizes, scalars
        )
        shapes = _shapes(compiled.program)
        backend_compiled = compiled.compiled
        if backend_compiled.address is None:
            value, error = dispatch.call(bound, shapes, backend_compiled.run)
        else:
            inout = frozenset(b.name for b in compiled.program.buffers if b.role == "output" and b.inout)
            entry = dispatch.make_entry(
                self._signature,
                integers,
                shapes,
                scalars,
                inout,
                backend_compiled.address,
                backend_compiled.workspace,
                backend_compiled.release_gil,
                compiled,
            )

            def run(inputs: Any, outputs: Any) -> Any:
                addresses = [a.__array_interface__["data"][0] for a in (*inputs, *outputs)]
                code, record = entry.run(addresses)
                return record if code else None

            value, error = dispatch.call(bound, shapes, run)
            # An entry that starts from the neutral element must not serve calls that pass a buffer.
            if accumulated <= given:
                self._add(entry)
        if error is not None:
            self._failed(compiled, error)
        return value

    def _tensor(self, name: str) -> r.Tensor:
        return next(p for p in self._front.checked.params if p.name == name)  # type: ignore[return-value]

    def _failed(self, owner: Compiled, error: _native.ErrorRecord) -> Any:
        """Raise the index error that a kernel recorded."""
        number, value, point = error
        site = owner.program.sites[number]
        call = next(
            (
                e
                for st in owner.program.stages
                for e in _calls(st.value)
                if e.site == number and e.checked
            ),
            None,
        )
        dim, low, high = 0, 0, -1
        if call is not None:
            buffer = owner.program.buffer(owner.program.func_buffers.get(call.name, call.name))
            for d in call.checked:
                low = evaluate(buffer.box[d].min, {})
                high = low + evaluate(buffer.box[d].extent, {}) - 1
                dim = d
                if not low <= value <= high:
                    break
        where = ", ".join(f"{n} = {v}" for n, v in zip(site.variables, point, strict=False))
        raise BoundsError(
            f"index {value} is out of range for dimension {dim} of '{site.tensor}' ({low} to {high})"
            + (f", at {where}" if where else ""),
            site.span,
            code="TC0701",
            help=f"in {site.text}; clamp it, or correct the data",
        )

    # ---- looking inside

    def inspect(self, stage: str, **values: int) -> str:
        """A stage as text: `"ranges" | "ir" | "halide" | "scop" | "dependences"` (symbolic, or at sizes), and
        `"schedule" | "loops" | "code" | "llvm" | "asm"` for sizes given as keywords."""
        from tc.inspect import artifact

        return artifact(self, stage, values)


def _calls(e: Expr) -> Iterator[Any]:
    from tc.ir import expr as x

    return (n for n in x.walk(e) if isinstance(n, x.Call))


def _shapes(program: Program) -> dict[str, tuple[int, ...]]:
    return {
        b.name: tuple(max(0, evaluate(d.extent, {})) for d in b.box) for b in program.buffers if b.role != "temporary"
    }


def _boxes(front: Front, ranges: Any) -> dict[str, tuple[SymbolicBound, ...]]:
    out: dict[str, tuple[SymbolicBound, ...]] = {
        p.name: ranges.box(p) for p in front.checked.params if isinstance(p, r.Tensor)
    }
    out |= {x.name: ranges.box(x.tensor) for x in front.checked.returns}
    return out


def _signature(front: Front) -> Signature:
    params: list[Param] = []
    for p in front.checked.params:
        if isinstance(p, r.ScalarParam):
            params.append(Param(p.name, p.dtype, (), True, specialized=p.specialized, span=p.span))
            continue
        dims = tuple(d.name if isinstance(d, r.Size) else int(d.value) for d in p.dims or ())  # type: ignore[union-attr]
        params.append(
            Param(p.name, front.typed.dtype(p), dims, any_integer=p.name in front.any_integer, span=p.span)
        )
    outputs = tuple(
        Output(x.name, x.tensor.rank, front.typed.dtype(x.tensor), x.mode == "inout", x.span)
        for x in front.checked.returns
    )
    return Signature(front.checked.name, tuple(params), outputs)


_noticed = threading.Event()


def _default_backend() -> str:
    """The first of cpu, reference that can run here."""
    for name in ("cpu", "reference"):
        if name in backend_names() and availability(name).ok:
            break
    else:
        name = "reference"
    if name == "reference" and not _noticed.is_set():
        _noticed.set()
        warn(
            BackendNotice(
                "running on the backend 'reference', which is naive and for validation",
                help='pass backend="reference" to say so and silence this notice',
            ),
            stacklevel=4,
        )
    return name


def compile(
    src: str,
    backend: str | None = None,
    entry: str | None = None,
    sizes: Mapping[str, int] | None = None,
    options: Options | Mapping[str, Any] | None = None,
    checks: str = "safe",
    lang: str = "tc",
) -> Kernel:
    """Compile a def of a source: `entry`, by default the last one.

    Parses, checks and infers at once, so an invalid source fails here; machine code is made at the first
    call with new sizes, or now for `sizes` (which also holds specialised scalars).  `backend=None` chooses
    by where the arrays live.  `checks="safe"` checks data-dependent subscripts when the kernel runs,
    `"none"` trusts them.

    Raises ParseError, SemanticError, RangeError, DTypeError; ArgumentError for the arguments of this
    function; BackendError for an unknown or unavailable backend.
    """
    if not isinstance(src, str):
        raise ArgumentError(
            f"the source is a {type(src).__name__}, not text", code="TC0511", help="pass a str, or path.read_text()"
        )
    kernel = compile_source(Source(src), backend, entry, options, checks, lang, stacklevel=3)
    if sizes is not None:
        kernel.specialize(**sizes)
    return kernel


def compile_source(
    source: Source,
    backend: str | None = None,
    entry: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    checks: str = "safe",
    lang: str = "tc",
    stacklevel: int = 2,
) -> Kernel:
    """`compile` for a source that knows its name, which diagnostics then show."""
    if checks not in ("safe", "none"):
        raise ArgumentError(f"checks={checks!r} is not valid", code="TC0511", help='checks is "safe" or "none"')
    if lang != "tc":
        raise ArgumentError(f"lang={lang!r} is not a known notation", code="TC0511", help='lang is "tc"')
    if options is not None and not isinstance(options, Options):
        options = Options.from_mapping(options)
    if backend is not None:
        get(backend)
    front = _front(source, entry)
    for w in front.warnings:
        python_warnings.warn(w, stacklevel=stacklevel)
    return Kernel(front, backend, options, checks)


def _front(source: Source, entry: str | None) -> Front:
    return _FRONTS.get((source.text, source.name, entry), lambda: pipeline.front(source, entry))


def backends() -> dict[str, Availability]:
    """Every installed backend and whether it can run here, with the remedy where it cannot."""
    return {name: availability(name) for name in backend_names()}


class Namespace:
    """The defs of a source as attributes, each compiled at first use."""

    def __init__(self, src: str, **options: Any) -> None:
        from tc.lang.parse import parse

        self._src = src
        self._options = options
        self._names = tuple(d.name for d in parse(src).defs)
        self._kernels: dict[str, Kernel] = {}

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._names:
            near = did_you_mean(name, self._names)
            raise AttributeError(f"the source has no def '{name}'" + (f"; {near}" if near else ""))
        if name not in self._kernels:
            self._kernels[name] = compile(self._src, entry=name, **self._options)
        return self._kernels[name]

    def __dir__(self) -> list[str]:
        return list(self._names)

    def __repr__(self) -> str:
        return f"<tc.define: {', '.join(self._names)}>"


def define(src: str, backend: str | None = None, **options: Any) -> Namespace:
    """Every def of a source as an attribute, compiled at first use; `ns["2LUT"]` for other names."""
    return Namespace(src, backend=backend, **options)


def interpret(
    src: str,
    *args: Any,
    entry: str | None = None,
    points: Any = None,
    out: Any = None,
    exact: bool = False,
    **kwargs: Any,
) -> Any:
    """What a program means, computed in NumPy (integers in their types, floats in float64).

    `points`: instead of whole results, chosen elements: an (n, rank) array of zero-based positions, or a
    dict of them by result name.  `exact=True` returns floats unrounded as float64.  `out` holds the values
    in/out results start from; it is not written.
    """
    front = _front(Source(src), entry)
    signature = _signature(front)
    bound: Bound = signature.bind(args, kwargs if out is None else {**kwargs, "out": out})
    scalars = {n: int(bound.scalars[n]) for n in front.specialized}
    built = pipeline.build(front, Variant(tuple(sorted(scalars.items()))))
    for p in built.program.preconditions:
        if not evaluate(p.condition, {**bound.sizes, **scalars}):
            given = ", ".join(f"{k} = {v}" for k, v in {**bound.sizes, **scalars}.items())
            raise PreconditionError(f"{p.reason} ({given})", p.span, code="TC0601")
    arrays = {n: _plain_array(a.array, a.dtype) for n, a in bound.arrays.items()}
    buffers = {n: _plain_array(a.array, a.dtype) for n, a in bound.out.items()}
    request = (built.typed, built.ranges, bound.sizes, arrays, bound.scalars, buffers)
    if points is None:
        found = interpreter.run(*request)
    else:
        if not isinstance(points, Mapping):
            points = {o.name: points for o in signature.outputs}
        found = interpreter.run_points(*request, points)
    made = {
        o.name: found[o.name] if exact else found[o.name].astype(numpy_dtype(o.dtype))
        for o in signature.outputs
        if o.name in found
    }
    if len(signature.outputs) == 1:
        return made[signature.outputs[0].name]
    if points is not None:
        return made
    kind = dispatch.result_type(signature)
    assert kind is not None
    return kind(*(made[o.name] for o in signature.outputs))


def _plain_array(a: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """bfloat16 without its NumPy type appears as uint16: widen it by hand."""
    if dtype.kind == "bfloat":
        bits = a.view(np.uint16) if a.dtype != np.uint16 else a
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return a

"""The public interface: compile, interpret, backends."""

from __future__ import annotations

import copyreg
import warnings as python_warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tc import interpreter
from tc.cache.memory import CompileCache
from tc.dtypes import DType
from tc.errors import ArgumentError, DTypeError, Error, PreconditionError, Source
from tc.instances.kernel_signature import foreign_integers, signature
from tc.ir.evaluate import evaluate
from tc.ir.printer import text
from tc.kernel import Compiled, Kernel, Request, built_program
from tc.lang.notations import Known
from tc.lang.parse import parse
from tc.lang.syntax import Def
from tc.lang.type_variables import BOUNDS, binding_from, entry_of, mentions_variables
from tc.open_kernels.generic_kernel import GenericKernel, binding_of
from tc.open_kernels.open_kernel import Make, OpenKernel
from tc.open_kernels.polymorphic import PolymorphicKernel, argument_kind
from tc.options import Dynamic, Options
from tc.pipeline.devices import HasDevices
from tc.pipeline.front import Front, Variant, front
from tc.range_table import Range
from tc.registry import Availability, availability, get, loaded
from tc.registry import names as backend_names
from tc.runtime import dispatch
from tc.runtime.arrays import numpy_dtype
from tc.support.float_mode import standard
from tc.support.reproducer import reporting
from tc.warm_start.card import Place
from tc.warm_start.start import compile

_FRONTS: CompileCache[Front] = CompileCache(256)

__all__ = [
    "Compiled",
    "Kernel",
    "Range",
    "backends",
    "compile",
    "compile_source",
    "interpret",
    "synchronize",
]


def compile_checked(
    src: str,
    backend: str | None,
    entry: str | None,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None,
    options: Options | Mapping[str, Any] | None,
    checks: str,
    lang: str,
    dynamic: Dynamic,
    types: Mapping[str, str] | None,
    stacklevel: int | None,
    card: str | None = None,
) -> Kernel:
    """`compile`, by the compiler; warnings are of the caller `stacklevel` frames up, and without that there
    are none of the source.  `card` is the name of the card that its calls are recorded on."""
    _expect("the source", src, str, "pass a str, or path.read_text()")
    asked: Any = [] if sizes is None else sizes
    listed = isinstance(asked, (list, tuple))
    several = list(cast("Sequence[Mapping[str, int]]", asked)) if listed else [asked]
    for given in several:
        _expect("sizes", given, Mapping, 'sizes are {"N": 128, …}, or a list of them')
        for name in given:
            _expect(f"the size {name!r}", name, str, 'sizes are {"N": 128, …}')
    if types is not None:
        _expect("types", types, Mapping, 'types are {"T": "double", …}')
    source = Source(src)
    kernel = compile_source(
        source, backend, entry, options, checks, lang, stacklevel=stacklevel, dynamic=dynamic, types=types
    )
    kernel.card = None if card is None else Place(card, instance=isinstance(kernel, OpenKernel))
    for given in several:
        if isinstance(kernel, GenericKernel):
            raise _open_types(kernel, "sizes=")
        kernel.specialize(**given)
    return kernel


def _open_types(kernel: GenericKernel, what: str) -> DTypeError:
    v = kernel.variables[0]
    return DTypeError(
        f"{what} needs the type of {v.name} of '{kernel.name}'",
        v.span,
        code="TC0410",
        help=f'pass types={{"{v.name}": "float"}}, too',
    )


def _expect(what: str, value: object, kind: type, help: str) -> None:
    """Raises ArgumentError for an argument of another type."""
    if not isinstance(value, kind):
        wanted = "text" if kind is str else "a mapping"
        raise ArgumentError(
            f"{what} is of type {type(value).__name__}, not {wanted}", code="TC0511", help=help
        )


def compile_source(
    source: Source,
    backend: str | None = None,
    entry: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    checks: str = "safe",
    lang: str = "tc",
    stacklevel: int | None = 2,
    dynamic: Dynamic = (),
    types: Mapping[str, str] | None = None,
) -> Kernel:
    """`compile` for a source that knows its name, which diagnostics then show.  Without a `stacklevel` there
    are no warnings of the source."""
    for what, value in (("backend", backend), ("entry", entry)):
        if value is not None:
            _expect(what, value, str, f"pass a name, or None: {what} is then chosen")
    if checks not in ("safe", "sync", "drop", "none"):
        raise ArgumentError(
            f"checks={checks!r} is not valid",
            code="TC0511",
            help='checks is "safe", "sync", "drop" or "none"',
        )
    if lang not in ("tc", "sac"):
        raise ArgumentError(
            f"lang={lang!r} is not a known notation", code="TC0511", help='lang is "tc" or "sac"'
        )
    if options is not None and not isinstance(options, Options):
        options = Options.from_mapping(options)
    if backend is not None:
        get(backend, run=False)

    def make(known: Known, stacklevel: int | None = 4) -> Kernel:
        front = checked_front(source, entry, lang, known)
        if stacklevel is not None:
            for w in front.warnings:
                python_warnings.warn(w, stacklevel=stacklevel + 1)
        return Kernel(front, backend, options, checks, dynamic)

    recipe = (source, backend, entry, options, checks, lang, dynamic)
    if lang == "sac":
        polymorphic = _open_ranks(source, entry, make)
        if polymorphic is not None:
            polymorphic.recipe = recipe
            return cast("Kernel", polymorphic)
    else:
        definition = _generic(source, entry)
        if definition is not None and types is not None:
            return make(binding_from(definition, types), stacklevel)
        if definition is not None:
            _check_instances(source, entry, definition)
            made = GenericKernel(source, definition, make)
            made.recipe = recipe
            return cast("Kernel", made)
    if types:
        raise ArgumentError(
            "types= is for a def with type variables, and this one has none",
            code="TC0511",
            help="leave it out",
        )
    return make((), stacklevel)


def _generic(source: Source, entry: str | None) -> Def | None:
    """The def that is asked for, if it has type variables."""
    if not mentions_variables(source.text):
        return None
    with reporting(source.text, lambda: {"entry": entry}):
        definition = entry_of(parse(source), entry)
    return definition if definition.variables else None


def _check_instances(source: Source, entry: str | None, definition: Def) -> None:
    """Check a def with type variables before any types are known: some types must be legal."""
    first: Error | None = None
    kinds = zip(*((BOUNDS[v.bound][0], BOUNDS[v.bound][-1]) for v in definition.variables), strict=True)
    for types in kinds:
        try:
            known = tuple((v.name, 0, t) for v, t in zip(definition.variables, types, strict=True))
            checked_front(source, entry, "tc", known)
        except DTypeError as e:
            first = first or e
        else:
            return
    if first is not None:
        raise first


def _open_ranks(source: Source, entry: str | None, make: Make) -> PolymorphicKernel | None:
    """What specialises itself for the ranks of its arguments, where a program leaves any open."""
    from tc.lang.sac.parse import parse
    from tc.lang.sac.program import signature_of

    syntax = parse(source)
    parameters = signature_of(syntax, entry)
    if all(p.rank is not None and p.dtype is not None for p in parameters):
        return None
    name = "expression" if syntax.bare is not None else entry or syntax.functions[-1].name
    return PolymorphicKernel(name, source, parameters, make)


def _recompile(request: Request) -> Kernel:
    """A kernel that was pickled or copied; its warnings were issued when it was first compiled."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", Warning)
        if request.known:
            made = checked_front(request.source, request.entry, request.lang, request.known)
            return Kernel(made, request.backend, request.options, request.checks, request.dynamic)
        return compile_source(
            request.source,
            request.backend,
            request.entry,
            request.options,
            request.checks,
            request.lang,
            dynamic=request.dynamic,
        )


def _reduce(kernel: Kernel) -> tuple[Any, ...]:
    return _recompile, (kernel.request(),)


# A kernel travels as its source and options; machine code is made anew, or comes from disk.
copyreg.pickle(Kernel, _reduce)


def _respecialize(kernel: Kernel, values: Mapping[str, int]) -> Compiled:
    """A specialised kernel that was pickled or copied; its notices were issued when it was first compiled."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", Warning)
        return kernel.specialize(**values)


def _reduce_compiled(one: Compiled) -> tuple[Any, ...]:
    return _respecialize, (one.kernel, {**one.sizes, **one.scalars})


copyreg.pickle(Compiled, _reduce_compiled)


def _reduce_open(kernel: OpenKernel) -> tuple[Any, ...]:
    return _reopen, kernel.recipe


def _reopen(*recipe: Any) -> Kernel:
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", Warning)
        source, backend, entry, options, checks, lang, dynamic = recipe
        return compile_source(source, backend, entry, options, checks, lang, dynamic=dynamic)


copyreg.pickle(GenericKernel, _reduce_open)
copyreg.pickle(PolymorphicKernel, _reduce_open)


def checked_front(source: Source, entry: str | None, lang: str = "tc", known: Known = ()) -> Front:
    """What the front end says of a source, once for all who ask."""

    def make() -> Front:
        with reporting(source.text, lambda: {"entry": entry}):
            return front(source, entry, lang, known)

    return _FRONTS.get((source.text, source.name, entry, lang, known), make)


def synchronize() -> None:
    """Wait for all that kernels do on devices, and raise what went wrong there: BoundsError for an index out
    of range, BackendError if a device failed."""
    for backend in loaded():
        if isinstance(backend, HasDevices):
            backend.devices.synchronize()


def backends() -> dict[str, Availability]:
    """Every installed backend and whether it can run here, with the remedy where it cannot."""
    return {name: availability(name) for name in backend_names()}


@standard
def interpret(
    src: str,
    *args: Any,
    entry: str | None = None,
    points: Any = None,
    out: Any = None,
    exact: bool = False,
    lang: str = "tc",
    **kwargs: Any,
) -> Any:
    """What a program means, computed in NumPy (integers in their types, floats in float64).

    `points`: instead of whole results, chosen elements: an (n, rank) array of zero-based positions, or a
    dict of them by result name.  `exact=True` returns floats unrounded as float64.  `out` holds the values
    in/out results start from; it is not written.  With `lang="sac"` there are whole results only.
    """
    if lang == "sac":
        return _interpret_sac(src, args, kwargs, entry, exact, points is not None or out is not None)
    source = Source(src)
    definition = _generic(source, entry)
    known = () if definition is None else binding_of(definition, args, kwargs)
    front = checked_front(source, entry, "tc", known)
    takes = signature(front)
    bound = takes.bind(args, kwargs if out is None else {**kwargs, "out": out})
    scalars = bound.integers(front.specialized)
    fixed = {n: bound.sizes[n] for n in front.fixed_sizes}
    integers = tuple(sorted(foreign_integers(front, bound).items(), key=lambda kv: kv[0]))
    built = built_program(front, Variant(tuple(sorted({**scalars, **fixed}.items())), integers=integers))
    for p in built.program.preconditions:
        if not evaluate(p.condition, {**bound.sizes, **scalars}):
            given = ", ".join(f"{k} = {v}" for k, v in {**bound.sizes, **scalars}.items())
            raise PreconditionError(
                f"{p.reason}: the sizes must satisfy {text(p.display)}, but {given}", p.span, code="TC0601"
            )
    values = {**bound.sizes, **scalars}
    shapes = {
        b.name: tuple(max(0, evaluate(x.extent, values)) for x in b.box)
        for b in built.program.buffers
        if b.role == "output"
    }
    bound.check_outputs(shapes)
    arrays = {n: _plain_array(a.array, a.dtype) for n, a in bound.arrays.items()}
    buffers = {n: _plain_array(a.array, a.dtype) for n, a in bound.out.items()}
    request = (built.typed, built.ranges, bound.sizes, arrays, bound.scalars, buffers)
    if points is None:
        found = interpreter.run(*request)
    else:
        wanted: dict[str, Any] = (
            dict(cast("Mapping[str, Any]", points))
            if isinstance(points, Mapping)
            else {o.name: points for o in takes.outputs}
        )
        found = interpreter.run_points(*request, {n: _positions(n, at, shapes) for n, at in wanted.items()})
    made = {
        o.name: found[o.name] if exact else _rounded(found[o.name], o.dtype)
        for o in takes.outputs
        if o.name in found
    }
    if len(takes.outputs) == 1:
        return made[takes.outputs[0].name]
    if points is not None:
        return made
    kind = dispatch.result_type(takes)
    assert kind is not None
    return kind(*(made[o.name] for o in takes.outputs))


def _positions(name: str, at: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """Positions of elements of a result; ArgumentError TC0502 (no result), TC0503 (rank), TC0505 (type),
    TC0504 (outside)."""
    if name not in shapes:
        raise ArgumentError(f"points= names '{name}', which is no result", code="TC0502")
    found, shape = np.asarray(at), shapes[name]
    if found.size and found.dtype.kind not in "iu":
        raise ArgumentError(
            f"points= for {name} has the type {found.dtype}", code="TC0505", help="pass integers"
        )
    if (
        shape
        and not (found.ndim == 2 and found.shape[1] == len(shape))
        and (found.ndim, len(shape)) != (1, 1)
    ):
        raise ArgumentError(
            f"points= for {name} has the shape {found.shape}",
            code="TC0503",
            help=f"a row for each element, with its {len(shape)} zero-based subscripts",
        )
    rows = found.reshape(-1, len(shape)) if shape else found
    outside = (
        [row.tolist() for row in rows if any(not 0 <= i < n for i, n in zip(row, shape))] if shape else []
    )
    if outside:
        text = f"points= for {name} has {outside[0]}, and the result has the shape {shape}"
        raise ArgumentError(text, code="TC0504")
    return found


def _interpret_sac(
    src: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], entry: str | None, exact: bool, more: bool
) -> Any:
    from tc.interpreter import sac
    from tc.lang.sac.parse import parse
    from tc.lang.sac.program import signature_of

    if more:
        raise ArgumentError(
            "points= and out= are not for SaC", code="TC0511", help="take elements of the result"
        )
    syntax = parse(Source(src))
    parameters = signature_of(syntax, entry)
    given = dict(zip((p.name for p in parameters), args, strict=False)) | dict(kwargs)
    values: dict[str, tuple[Any, DType]] = {}
    for p in parameters:
        if p.name not in given:
            names = ", ".join(x.name for x in parameters)
            raise ArgumentError(
                f"expected {len(parameters)} inputs ({names}), got {len(given)}",
                p.span,
                code="TC0550",
                help=f"pass {p.name} too",
            )
        _, dtype = argument_kind(given[p.name], p)
        values[p.name] = (np.asarray(given[p.name]), dtype)
    found = [a if exact else _rounded(a, t) for a, t in sac.run(syntax, values, entry)]
    return found[0] if len(found) == 1 else tuple(found)


def _plain_array(a: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """bfloat16 without its NumPy type appears as uint16: widen it by hand."""
    if dtype.kind == "bfloat":
        bits = a.view(np.uint16) if a.dtype != np.uint16 else a
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return a


def _rounded(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """What the interpreter found, in the type of a result.  NumPy's bfloat16 would round twice, first to
    float32, and is not always there."""
    if dtype.kind != "bfloat":
        with np.errstate(over="ignore"):  # it becomes infinity, as in a kernel
            return values.astype(numpy_dtype(dtype))
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
    bits, nan = single.view(np.uint32), np.isnan(values)
    # To the odd neighbour where it is between two: then no tie comes of it (Boldo and Melquiond, 2008).
    bits = bits - (np.abs(single).astype(np.float64) > np.abs(values))
    bits = bits | (single.astype(np.float64) != values)
    bits = np.where(nan, 0x7FC00000, bits).astype(np.uint32)
    return np.asarray((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(numpy_dtype(dtype))

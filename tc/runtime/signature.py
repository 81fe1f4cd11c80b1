"""What a kernel takes and gives, and the slow, explaining way of matching a call against it.

`Signature.bind` accepts what `docs/language.md` §5 accepts and names the parameter, what was expected, what
was found and what to write in everything else it sees.  It writes to no array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tc.dtypes import DType
from tc.errors import ArgumentError, DTypeError, Span, did_you_mean
from tc.pipeline.devices import Device, Devices, Stream
from tc.runtime import scalars
from tc.runtime.arrays import ArrayView, HostArray, Library, Role, conversion, view
from tc.runtime.device_arrays import Placement
from tc.runtime.overlap import overlaps_itself, same_memory, share_memory

Dim = str | int
_View = Callable[[object, str, Span | None, Role], ArrayView]


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter.

    A `scalar` is a value and has no `dims`; `specialized` ones are part of the compile key.  A tensor has the
    name of a size or a constant per dimension; `any_integer` ones accept every integer type.
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...] = ()
    scalar: bool = False
    any_integer: bool = False
    specialized: bool = False
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One result; an `inout` one is read before it is defined and so must come from the caller."""

    name: str
    ndim: int
    dtype: DType
    inout: bool = False
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A call that fits its signature.

    `sizes` has the value of every named dimension, `out` the caller's buffers by output name.  `aliases`
    holds the pairs (output, input) of exactly the same memory and shape; any other overlap was refused.
    `first` is the first array of the call in parameter order, in whose library results are made.  `device` is
    where all of them are (None: on the host), and the kernels are for `stream`.
    """

    signature: Signature
    arrays: dict[str, ArrayView]
    scalars: dict[str, scalars.Number]
    sizes: dict[str, int]
    out: dict[str, ArrayView]
    aliases: frozenset[tuple[str, str]]
    first: ArrayView | None
    device: Device | None = None
    stream: Stream = 0

    @property
    def library(self) -> Library:
        """Of the results."""
        return "numpy" if self.first is None else self.first.library

    def host(self, name: str) -> HostArray:
        """An argument of a call on the host."""
        found = self.arrays[name]
        assert isinstance(found, HostArray)
        return found

    def integers(self, names: Iterable[str]) -> dict[str, int]:
        """The values of these scalars, which are integers."""
        return {n: int(value) for n in names if not isinstance(value := self.scalars[n], complex)}

    def check_outputs(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Compare the caller's buffers with the shapes of the results; ArgumentError TC0504."""
        for output in self.signature.outputs:
            found = self.out.get(output.name)
            if found is None or found.shape == shapes[output.name]:
                continue
            expected = shapes[output.name]
            raise ArgumentError(
                f"out= for {output.name} has shape {found.shape}, but the result has shape {expected}",
                output.span,
                code="TC0504",
                help=f"pass a buffer of shape {expected}, or leave out= away to have one made",
            )


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and results of the def `entry`, in order."""

    entry: str
    params: tuple[Param, ...]
    outputs: tuple[Output, ...]

    def bind(
        self, args: Sequence[object], kwargs: Mapping[str, object], devices: Devices | None = None
    ) -> Bound:
        """Match positional and named arguments, and the buffers under `out`.

        With `devices` all arrays may be on one of these; else they are on the host.

        ArgumentError TC0501 (count), TC0502 (unknown or doubled name), TC0503 (rank), TC0504 (size), TC0505
        (not a usable array), TC0506 (form of out=), TC0507 (buffer that cannot be written), TC0508 (overlap),
        TC0509 (requires gradients), TC0510 (scalar); DTypeError TC0411 (element type); BackendError TC0808
        (a device that this kernel does not run on), TC0817 (several devices).
        """
        values = self._assign(args, kwargs)
        placement = None if devices is None else Placement(devices)
        look: _View = view if placement is None else placement.view
        arrays: dict[str, ArrayView] = {}
        numbers: dict[str, scalars.Number] = {}
        for param in self.params:
            value = values[param.name]
            if param.scalar:
                numbers[param.name] = scalars.convert(value, param.dtype, param.name, param.span)
            else:
                arrays[param.name] = _tensor(param, value, look)
        sizes = self._sizes(arrays)
        out = self._buffers(kwargs.get("out"), look)
        aliases = self._aliases(arrays, out)
        first = next(iter(arrays.values()), None)
        if placement is None or placement.device is None:
            return Bound(self, arrays, numbers, sizes, out, aliases, first)
        first = first or next(iter(out.values()))
        device, stream = placement.device, placement.stream
        return Bound(self, arrays, numbers, sizes, out, aliases, first, device, stream)

    def _assign(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        names = [p.name for p in self.params]
        listed = f" ({', '.join(names)})" if names else ""
        expected = f"{self.entry}: expected {_count(len(names), 'input')}{listed}"
        if len(args) > len(names):
            raise ArgumentError(
                f"{expected}, got {len(args)}",
                self.params[-1].span if self.params else None,
                code="TC0501",
                help=f"buffers for results go by name: out={self._out_form()}",
            )
        values = dict(zip(names, args))
        for name, value in kwargs.items():
            if name == "out":
                continue
            if name not in names:
                raise self._unknown(name, names)
            if name in values:
                param = self.params[names.index(name)]
                raise ArgumentError(
                    f"{self.entry}: {name} is given by position and by name",
                    param.span,
                    code="TC0502",
                    help=f"drop {name}=, or pass every input by name",
                )
            values[name] = value
        missing = [p for p in self.params if p.name not in values]
        if missing:
            lacking = ", ".join(p.name for p in missing)
            raise ArgumentError(
                f"{expected}, got {len(values)}", missing[0].span, code="TC0501", help=f"pass {lacking} too"
            )
        return values

    def _unknown(self, name: str, names: list[str]) -> ArgumentError:
        help = did_you_mean(name, [*names, "out"])
        if any(o.name == name for o in self.outputs):
            single = len(self.outputs) == 1
            help = (
                f"{name} is a result: pass its buffer as out={name if single else '{' + repr(name) + ': …}'}"
            )
        if help is None:
            help = f"the inputs are {', '.join(names)}" if names else f"{self.entry} takes no inputs"
        return ArgumentError(f"{self.entry}: unknown argument '{name}'", code="TC0502", help=help)

    def _sizes(self, arrays: Mapping[str, ArrayView]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        origin: dict[str, tuple[Param, int]] = {}
        for param in self.params:
            if param.scalar:
                continue
            for d, (dim, extent) in enumerate(zip(param.dims, arrays[param.name].shape)):
                if isinstance(dim, int):
                    if extent != dim:
                        raise ArgumentError(
                            f"dimension {d} of {param.name} is {extent}, but is declared as {dim}",
                            param.span,
                            code="TC0504",
                            help=f"pass {param.name} with {dim} elements in dimension {d}",
                        )
                elif dim not in sizes:
                    sizes[dim] = extent
                    origin[dim] = (param, d)
                elif sizes[dim] != extent:
                    before, e = origin[dim]
                    raise ArgumentError(
                        f"size {dim} is {sizes[dim]} from {before.name} (dimension {e}) but {extent} from "
                        f"{param.name} (dimension {d})",
                        param.span,
                        code="TC0504",
                        help=f"{before.name} has shape {arrays[before.name].shape}, "
                        f"{param.name} has shape {arrays[param.name].shape}",
                    )
        return sizes

    def _buffers(self, out: object, look: _View) -> dict[str, ArrayView]:
        given = self._by_name(out)
        buffers: dict[str, ArrayView] = {}
        for output in self.outputs:
            if output.name in given:
                buffers[output.name] = _buffer(output, given[output.name], look)
            elif output.inout:
                raise ArgumentError(
                    f"{output.name} is read before it is defined, pass it as out=…",
                    output.span,
                    code="TC0506",
                    help=f"{self.entry}(…, out={self._out_form()}) with the values to start from; or define "
                    "the elements that are read first by a statement of their own",
                )
        return buffers

    def _out_form(self) -> str:
        names = [o.name for o in self.outputs]
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def _by_name(self, out: object) -> dict[str, object]:
        names = [o.name for o in self.outputs]
        if out is None:
            return {}
        if isinstance(out, Mapping):
            named = cast("Mapping[object, object]", out)
            for name in named:
                if name not in names:
                    raise ArgumentError(
                        f"{self.entry} has no result {name!r}",
                        code="TC0506",
                        help=did_you_mean(str(name), names) or f"the results are {', '.join(names)}",
                    )
            return {str(name): value for name, value in named.items()}
        if isinstance(out, tuple):
            buffers = cast("tuple[object, ...]", out)
            if len(buffers) != len(names):
                raise ArgumentError(
                    f"out= has {_count(len(buffers), 'buffer')}, but {self.entry} has "
                    f"{_count(len(names), 'result')} ({', '.join(names)})",
                    code="TC0506",
                    help=f"out={self._out_form()}, or a dict from names to buffers",
                )
            return dict(zip(names, buffers))
        if len(names) != 1 or isinstance(out, list):
            raise ArgumentError(
                f"out= is {_kind(cast('object', out))}, but {self.entry} has "
                f"{_count(len(names), 'result')} ({', '.join(names)})",
                code="TC0506",
                help=f"out={self._out_form()}, or a dict from names to buffers",
            )
        return {names[0]: out}

    def _aliases(
        self, arrays: Mapping[str, ArrayView], out: Mapping[str, ArrayView]
    ) -> frozenset[tuple[str, str]]:
        aliases: set[tuple[str, str]] = set()
        spans = {o.name: o.span for o in self.outputs}
        done: list[tuple[str, ArrayView]] = []
        for name, buffer in out.items():
            for other, array in arrays.items():
                if same_memory(buffer.array, array.array):
                    aliases.add((name, other))
                elif share_memory(buffer.array, array.array):
                    raise ArgumentError(
                        f"out= for {name} overlaps the input {other} in part",
                        spans[name],
                        code="TC0508",
                        help=f"pass a buffer of its own, or {other} itself to work in place",
                    )
            for other, array in done:
                if share_memory(buffer.array, array.array):
                    raise ArgumentError(
                        f"out= for {name} and {other} share memory",
                        spans[name],
                        code="TC0508",
                        help="pass a buffer of its own for each result",
                    )
            done.append((name, buffer))
        return frozenset(aliases)


def _tensor(param: Param, value: object, look: _View) -> ArrayView:
    array = look(value, param.name, param.span, "input")
    fits = array.dtype.is_int if param.any_integer else array.dtype == param.dtype
    if not fits:
        wanted = "an integer type" if param.any_integer else str(param.dtype)
        raise DTypeError(
            f"{param.name}: expected {wanted}, found {array.dtype}",
            param.span,
            code="TC0411",
            help=conversion(param.name, array.library, param.dtype),
        )
    if array.array.ndim != len(param.dims):
        declared = f" ({','.join(map(str, param.dims))})" if param.dims else ""
        raise ArgumentError(
            f"{param.name}: expected a tensor with {_count(len(param.dims), 'dimension')}{declared}, "
            f"got {_count(array.array.ndim, 'dimension')} of shape {array.shape}",
            param.span,
            code="TC0503",
            help=_reshape(param, array),
        )
    return array


def _reshape(param: Param, array: ArrayView) -> str:
    if array.array.ndim > len(param.dims):
        return f"pass a slice such as {param.name}[0], or {param.name}.reshape(…)"
    shape = ", ".join("…" for _ in param.dims)
    return f"{param.name}.reshape({shape}), or {param.name}[None] for a dimension of 1"


def _buffer(output: Output, value: object, look: _View) -> ArrayView:
    name, span = output.name, output.span
    buffer = look(value, f"out= for {name}", span, "output")
    if buffer.read_only:
        jax = buffer.library == "jax"
        raise ArgumentError(
            f"out= for {name} is {'a JAX array, which is immutable' if jax else 'read-only'}",
            span,
            code="TC0507",
            help="leave out= away: the result is a new array"
            if jax
            else "pass a writable buffer, such as a copy",
        )
    if buffer.dtype != output.dtype:
        raise DTypeError(
            f"out= for {name}: expected {output.dtype}, found {buffer.dtype}",
            span,
            code="TC0411",
            help=f"pass a buffer of {output.dtype}; results are not converted when they are stored",
        )
    if buffer.array.ndim != output.ndim:
        raise ArgumentError(
            f"out= for {name}: expected {_count(output.ndim, 'dimension')}, got "
            f"{_count(buffer.array.ndim, 'dimension')} of shape {buffer.shape}",
            span,
            code="TC0503",
            help="leave out= away to see the result's shape",
        )
    if overlaps_itself(buffer.array):
        raise ArgumentError(
            f"out= for {name} has elements that share memory (strides {buffer.array.strides})",
            span,
            code="TC0507",
            help="pass a buffer with memory for each element, such as a copy",
        )
    return buffer


def _kind(out: object) -> str:
    return "a list" if isinstance(out, list) else f"one {type(out).__name__}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"

"""An operator of the library: a callable on arrays of any framework, made of a `.tc` file."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, cast

from tc.errors import ArgumentError, Source
from tc.interop.quiet import quiet
from tc.lang.format import type_name
from tc.lang.generic import monomorphic
from tc.lang.parse import parse
from tc.lang.syntax import Param
from tc.library.header import LEAST, Argument, constants, read_header
from tc.runtime.call_spec import result_type
from tc.support import locks

if TYPE_CHECKING:
    from tc.api import Kernel

# What the type variable T of a file may be.
ELEMENT_TYPES = ("float32", "float64", "float16", "bfloat16")
Framework = Literal["torch", "jax"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A def of a file: what a call with exactly its tensors runs.  `backward`: the def of its gradient, if
    the file has one."""

    name: str
    params: tuple[Param, ...]
    backward: str | None

    @property
    def tensors(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.type.dims)


@dataclass(frozen=True, slots=True)
class Call:
    """A call's variant, the element type of its arrays, and its arguments as the def takes them."""

    variant: Variant
    dtype: str
    values: tuple[Any, ...]
    lead: tuple[Any, ...] | None  # the leading dimensions, if they are not one
    arrays: tuple[Any, ...]


class Operator:
    """A ready TC.  Call it with arrays of NumPy, PyTorch, JAX and others; the result comes back in kind.

    Attributes: `name`, `group` (the folder), `summary`, `source` (the file, whose type variable T stands for
    the element type of the arrays), `variants` (its defs, of which the tensors of a call choose one),
    `header`, `torch` and `jax` (the same for tensors and arrays of one framework only).
    """

    def __init__(self, name: str, group: str, source: str) -> None:
        syntax = parse(Source(source, f"{name}.tc"))
        defs = {d.name: d for d in syntax.defs}
        self.name = name
        self.group = group
        self.source = source
        self.variants = {
            d.name: Variant(d.name, d.params, f"{d.name}_backward" if f"{d.name}_backward" in defs else None)
            for d in syntax.defs
            if not d.name.endswith("_backward")
        }
        self._generic = {d.name: bool(d.variables) for d in syntax.defs}
        chosen = tuple(self.variants.values())
        params = {p.name: p for v in chosen for p in v.params}
        self.header = read_header(source, params)
        self.summary = self.header.summary
        self._by_tensors = {frozenset(p.name for p in v.tensors): v for v in chosen}
        self._tensors = [n for n, p in params.items() if p.type.dims]
        self._optional = {n for n in self._tensors if not all(n in names for names in self._by_tensors)}
        self._scalars = _scalars(self.header.arguments, [n for n in params if n not in self._tensors])
        self._constants = constants(self._scalars)
        self._names = [
            *(n for n in self._tensors if n not in self._optional),
            *(a.name for a in self._scalars if a.default is None),
            *(n for n in self._tensors if n in self._optional),
            *(a.name for a in self._scalars if a.default is not None),
        ]
        self._params = params
        self._leading = self.header.leading
        self._led = [n for n, dims in self.header.returns if dims and dims[0] == self._leading]
        self._results = [r.name for r in defs[chosen[0].name].returns]
        self._kind: Any = None  # of several results
        if len(self._results) > 1:
            self._kind = result_type(name, tuple(self._results))
        self._kernels: dict[tuple[str, str, str | None], Kernel] = {}
        self._operators: dict[tuple[str, str, str], Any] = {}
        self._lock = locks.lock()
        self.torch = OfFramework(self, "torch")
        self.jax = OfFramework(self, "jax")
        self.__name__ = name
        self.__doc__ = self._documentation()

    def __repr__(self) -> str:
        return f"<tc.library.{self.name}{self.__signature__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)

    # ---- what it is

    @property
    def __signature__(self) -> inspect.Signature:
        empty = inspect.Parameter.empty
        defaults: dict[str, Any] = dict.fromkeys(self._optional)
        defaults |= {a.name: self._constants.get(a.name) for a in self._scalars if a.default is not None}
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        found = [inspect.Parameter(n, kind, default=defaults.get(n, empty)) for n in self._names]
        return inspect.Signature(
            [*found, inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)]
        )

    @property
    def signature(self) -> str:
        """The arguments as text, with the defaults as the file has them."""
        said = {a.name: f"{a.name}={a.default}" for a in self._scalars if a.default is not None}
        said |= {n: f"{n}=None" for n in self._optional}
        return f"({', '.join(said.get(n, n) for n in self._names)})"

    @property
    def shapes(self) -> str:
        """The tensors with their dimensions, and the results with theirs, as text."""
        takes = ", ".join(
            f"{n}({','.join(str(d.value) for d in self._params[n].type.dims)})"
            + ("?" if n in self._optional else "")
            for n in self._tensors
        )
        gives = ", ".join(f"{n}({','.join(dims)})" for n, dims in self.header.returns)
        return f"{takes} -> {gives}"

    def _documentation(self) -> str:
        lines = [f"{self.name}{self.signature}", "", self.header.summary]
        if self.header.prose:
            lines += ["", self.header.prose]
        lines.append("")
        for n in self._tensors:
            p, said = self._params[n], self.header.arguments.get(n)
            dims = ",".join(str(d.value) for d in p.type.dims)
            text = f"{n}: {_named_type(p)}({dims})" + (", optional" if n in self._optional else "")
            lines.append(text + (f"; {said.text}" if said else ""))
        for a in self._scalars:
            kind = _named_type(self._params[a.parameters[0]])
            several = f", or {len(a.parameters)} of them ({', '.join(a.parameters)})"
            text = f"{a.name}: {kind}" + (several if len(a.parameters) > 1 else "")
            text += f" = {a.default}" if a.default is not None else ""
            lines.append(text + (f"; {a.text}" if a.text else ""))
        gives = ", ".join(f"{n}({','.join(dims)})" for n, dims in self.header.returns)
        lines += ["", f"Returns {gives}."]
        if self._leading:
            lines.append(f"{self._leading} may be any number of dimensions.")
        lines.append(f"Gradient: {self.header.gradient or 'yes'}.")
        lines.append(f"Matches {self.header.matches}.")
        return "\n".join(lines)

    # ---- what runs

    def _types(self, dtype: str, variant: str) -> dict[str, str]:
        """The binding of the type variable of a def, if it has one."""
        if dtype not in ELEMENT_TYPES:
            raise ArgumentError(
                f"{self.name}: there is no variant for {dtype}",
                code="TC0511",
                help=f"element types are {', '.join(ELEMENT_TYPES)}",
            )
        return {"T": dtype} if self._generic[variant] else {}

    def kernel(self, dtype: str = "float32", variant: str | None = None, **options: Any) -> Kernel:
        """The kernel for arrays of an element type, of the first def or of the one that `variant` names.
        Options as in `tc.compile`."""
        from tc.warm_start.start import compile

        chosen = variant or next(iter(self.variants))
        with quiet():
            return compile(self.source, entry=chosen, types=self._types(dtype, chosen), **options)

    def _bound(self, dtype: str, name: str) -> str:
        """The source of a def for an element type."""
        return monomorphic(Source(self.source), name, self._types(dtype, name))

    def op(self, framework: Framework, dtype: str = "float32", variant: str | None = None) -> Any:
        """The operator of PyTorch or function of JAX: `tc.torch.op` or `tc.jax.op` of this program."""
        chosen = self.variants[variant or next(iter(self.variants))]
        key = (framework, dtype, chosen.name)
        found = self._operators.get(key)
        if found is None:
            make = import_module(f"tc.interop.{framework}").op
            with self._lock, quiet():
                backward = "auto"
                if chosen.backward is not None and framework == "torch":
                    backward = make(self._bound(dtype, chosen.backward))
                found = make(self._bound(dtype, chosen.name), backward=backward, entry=chosen.name)
                found = self._operators.setdefault(key, found)
        return found

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        call = self.arguments(*args, **kwargs)
        framework = None if out is not None else _framework(call.arrays)
        if framework is not None:
            return self._traced(framework, call)
        backend = "cuda" if any(hasattr(x, "__cuda_array_interface__") for x in call.arrays) else None
        key = (call.dtype, call.variant.name, backend)
        kernel = self._kernels.get(key)
        if kernel is None:
            made = self.kernel(call.dtype, call.variant.name, backend=backend)
            kernel = self._kernels.setdefault(key, made)
        if out is not None:
            if call.lead is not None:
                raise ArgumentError(
                    f"{self.name}: out= is for arrays with one leading dimension",
                    code="TC0511",
                    help="reshape the arguments and out, or leave out= away",
                )
            return kernel(*call.values, out=out)
        return self.as_called(call, kernel(*call.values))

    def run(self, framework: Framework, *args: Any, **kwargs: Any) -> Any:
        """A call of the operator of a framework, whatever the arrays are."""
        return self._traced(framework, self.arguments(*args, **kwargs))

    def _traced(self, framework: Framework, call: Call) -> Any:
        torch: Any = sys.modules["torch"] if framework == "torch" else None
        if torch is not None and torch.compiler.is_compiling():  # which does not trace how it is made
            run = getattr(torch.ops.tc, _registered(self.name, call.dtype, call.variant.name)).default
        else:
            run = self.op(framework, call.dtype, call.variant.name)
        found = run(*call.values)
        return self.as_called(call, found if self._kind is None else self._kind(*found))

    # ---- arguments

    def arguments(self, *args: Any, **kwargs: Any) -> Call:
        """What a call runs: `kernel(call.dtype, call.variant.name)(*call.values)` gives its result, but for
        leading dimensions (`as_called`)."""
        names = self._names
        if len(args) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments but {len(args)} were given")
        given = dict(zip(names, args, strict=False))
        for n, v in kwargs.items():
            if n not in names:
                raise TypeError(
                    f"{self.name}() got an unexpected argument '{n}'; it takes {', '.join(names)}"
                )
            if n in given:
                raise TypeError(f"{self.name}() got several values for '{n}'")
            given[n] = v
        arrays = {n: given[n] for n in self._tensors if given.get(n) is not None}
        variant = self._by_tensors.get(frozenset(arrays))
        if variant is None:
            raise TypeError(f"{self.name}() misses {', '.join(self._missing(arrays))}")
        arrays, lead = self._without_lead(arrays)
        values = {**arrays, **self._numbers(given, arrays)}
        dtype = self._element_type(arrays)
        ordered = tuple(values[p.name] for p in variant.params)
        return Call(variant, dtype, ordered, lead, tuple(arrays.values()))

    def _missing(self, arrays: Mapping[str, Any]) -> list[str]:
        """What a call lacks of the variant that has most of the tensors given."""
        nearest = max(self._by_tensors, key=lambda names: (len(names & set(arrays)), -len(names)))
        return [n for n in self._tensors if n in nearest and n not in arrays]

    def _element_type(self, arrays: Mapping[str, Any]) -> str:
        for n, x in arrays.items():
            if self._params[n].type.variable is not None:
                name = str(getattr(x, "dtype", "float32")).rpartition(".")[2]
                return name if name in ELEMENT_TYPES else "float32"
        return "float32"

    def _numbers(self, given: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The scalar parameters, by name."""
        known: dict[str, Any] = {}
        found: dict[str, Any] = {}
        for a in self._scalars:
            value = given.get(a.name)
            if value is None:
                if a.default is None:
                    raise TypeError(f"{self.name}() misses {a.name}")
                value = self._constants.get(a.name)
                if value is None:
                    value = a.value({**self._sizes(arrays), **known})
            least = LEAST.get(a.name)
            if least is not None:
                self._check_least(a.name, value, least)
            if len(a.parameters) == 1:
                found[a.name] = known[a.name] = value
                continue
            several: Sequence[Any] = (
                tuple(cast("Sequence[Any]", value))
                if isinstance(value, (tuple, list))
                else (value,) * len(a.parameters)
            )
            if len(several) != len(a.parameters):
                raise TypeError(
                    f"{self.name}(): {a.name} is a number or {len(a.parameters)} of them "
                    f"({', '.join(a.parameters)}), not {len(several)}"
                )
            known[a.name] = several
            for n, v in zip(a.parameters, several, strict=True):
                found[n] = known[n] = v
        return found

    def _check_least(self, name: str, value: Any, least: int) -> None:
        for v in cast("Sequence[Any]", value) if isinstance(value, (tuple, list)) else (value,):
            if isinstance(v, Integral) and int(v) < least:
                raise ArgumentError(
                    f"{self.name}: {name} is {value}, and must be at least {least}",
                    code="TC0534",
                    help=f"it is {self._constants[name]} by default" if name in self._constants else None,
                )

    def _sizes(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {
            str(d.value): n
            for name, x in arrays.items()
            for d, n in zip(self._params[name].type.dims, x.shape, strict=False)
        }

    # ---- leading dimensions

    def _without_lead(self, arrays: dict[str, Any]) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
        """The arrays with one leading dimension in place of any number, and these if they are not one."""
        led = [n for n in arrays if self._leading and self._params[n].type.dims[0].value == self._leading]
        if not led or not hasattr(arrays[led[0]], "shape"):
            return arrays, None
        first = arrays[led[0]]
        count = len(first.shape) - len(self._params[led[0]].type.dims) + 1
        if count == 1 or count < 0:
            return arrays, None
        lead = tuple(first.shape[:count])
        rows = 1
        for n in lead:
            rows = rows * n
        found = dict(arrays)
        for n in led:
            shape = tuple(arrays[n].shape)
            if shape[:count] != lead:
                raise ArgumentError(
                    f"{self.name}: {n} has the leading dimensions {shape[:count]}, and {led[0]} has {lead}",
                    code="TC0506",
                    help="pass arrays of shapes that fit",
                )
            found[n] = arrays[n].reshape((rows, *shape[count:]))
        return found, lead

    def as_called(self, call: Call, found: Any) -> Any:
        """What a kernel gave, with the leading dimensions of the call."""
        if call.lead is None or not self._led:
            return found
        if self._kind is None:
            return found.reshape((*call.lead, *found.shape[1:]))
        return type(found)(
            *(
                x.reshape((*call.lead, *x.shape[1:])) if n in self._led else x
                for n, x in zip(self._results, found, strict=True)
            )
        )


class OfFramework:
    """An operator of the library for arrays of one framework; `op` gives the operator that it calls."""

    def __init__(self, operator: Operator, framework: Framework) -> None:
        self._operator = operator
        self._framework: Framework = framework
        self.__doc__ = operator.__doc__

    def __repr__(self) -> str:
        return f"<tc.library.{self._operator.name}.{self._framework}>"

    def op(self, dtype: str = "float32", variant: str | None = None) -> Any:
        """`tc.torch.op` or `tc.jax.op` of the program, for an element type and a def of the file."""
        return self._operator.op(self._framework, dtype, variant)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator.run(self._framework, *args, **kwargs)


def _named_type(p: Param) -> str:
    return p.type.variable or type_name(p.type.dtype)


def _scalars(said: Mapping[str, Argument], names: Sequence[str]) -> tuple[Argument, ...]:
    """The scalar arguments: those of the header, and a parameter that it does not name by itself."""
    found: dict[str, Argument] = {}
    for n in names:
        a = next((a for a in said.values() if n in a.parameters), Argument(n, (n,), None, ""))
        found[a.name] = a
    return tuple(found.values())


def _named(name: str) -> Operator:
    found: Operator = getattr(import_module("tc.library"), name)
    return found


def _registered(name: str, dtype: str, variant: str) -> str:
    """The name under which PyTorch has an operator of the library, made if it is not there."""
    return _named(name).op("torch", dtype, variant).name.removeprefix("tc::")


# What torch.compiler.assume_constant_result sets, without an import of torch.
setattr(_registered, "_dynamo_marked_constant", True)  # noqa: B010


def _framework(arrays: tuple[Any, ...]) -> Framework | None:
    """Whose operator a call runs: that of PyTorch for tensors, that of JAX where arrays are traced; None for
    the kernel itself."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and any(isinstance(x, torch.Tensor) for x in arrays):
        return "torch"
    jax: Any = sys.modules.get("jax")
    if jax is not None and any(isinstance(x, jax.core.Tracer) for x in arrays):
        return "jax"
    return None

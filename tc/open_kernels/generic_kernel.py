"""Kernels of defs with type variables, `def mm<T>(T(M,K) A, T(K,N) B) -> (C)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tc.dtypes import FLOAT64, INT32, INT64, DType
from tc.errors import DTypeError, Source
from tc.kernel import Kernel
from tc.lang import syntax as s
from tc.lang.type_variables import Known, binding_from, check_bound, unbound
from tc.open_kernels.open_kernel import Make, OpenKernel
from tc.runtime.device_arrays import element_type


class GenericKernel(OpenKernel):
    """A def with type variables.  Call it as any kernel: it specialises itself for the element types of its
    arguments, and keeps the kernels.  `at(T="double")` gives the kernel of given types."""

    def __init__(self, source: Source, definition: s.Def, make: Make) -> None:
        super().__init__(definition.name, source, make)
        self.definition = definition

    def __repr__(self) -> str:
        names = ", ".join(v.name for v in self.definition.variables)
        params = ", ".join(p.name for p in self.definition.params)
        return f"<tc.GenericKernel {self.name}<{names}>({params})>"

    @property
    def variables(self) -> tuple[s.TypeVariable, ...]:
        return self.definition.variables

    def kernel_for(self, *args: Any, **kwargs: Any) -> Kernel:
        """The kernel that a call with these arguments runs."""
        return self._kernel(binding_of(self.definition, args, kwargs))

    def at(self, **types: str) -> Kernel:
        """The kernel of given types, by name: `at(T="double")`."""
        return self._kernel(self.binding(types))

    def binding(self, types: Mapping[str, str]) -> Known:
        """The types of its variables from their names."""
        return binding_from(self.definition, types)

    def decided_by_arrays(self, known: Known) -> bool:
        arrays = {p.type.variable for p in self.definition.params if p.type.dims}
        return all(v.name in arrays for v in self.variables)

    def how(self) -> str:
        given = ", ".join(f'{v.name}="float"' for v in self.variables)
        return f"at({given})"


def _viewed(value: Any, p: s.Param) -> DType:
    return element_type(value, p.name, p.span)


def binding_of(
    d: s.Def,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dtype_of: Callable[[Any, s.Param], DType] = _viewed,
) -> Known:
    """The types of a def's variables from the arguments of a call: those of arrays, which must agree, else
    of numbers.  Raises DTypeError, codes TC0409 and TC0410."""
    found: dict[str, tuple[DType, str]] = {}
    numbers: dict[str, tuple[DType, str]] = {}
    for k, p in enumerate(d.params):
        v = p.type.variable
        value = args[k] if k < len(args) else kwargs.get(p.name)
        if v is None or value is None:
            continue
        if isinstance(value, (bool, int, float)):
            whole = isinstance(value, int)
            narrow = whole and INT32.min <= value <= INT32.max
            numbers.setdefault(v, (INT32 if narrow else INT64 if whole else FLOAT64, p.name))
            continue
        number: Any = value
        array = np.asarray(number) if isinstance(value, np.generic) else number
        dtype = dtype_of(array, p)
        first = found.setdefault(v, (dtype, p.name))
        if first[0] != dtype:
            raise DTypeError(
                f"the type variable {v} of '{d.name}' is {first[0]} by {first[1]}, and {dtype} by {p.name}",
                p.span,
                code="TC0409",
                help="arrays that share a type variable have one element type: convert one of them",
            )
    out: list[tuple[str, int, DType]] = []
    for v in d.variables:
        if v.name not in found and v.name not in numbers:
            raise unbound(d, v)
        dtype, by = found.get(v.name) or numbers[v.name]
        check_bound(v, dtype, by)
        out.append((v.name, 0, dtype))
    return tuple(out)

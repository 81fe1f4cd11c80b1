"""Operators of defs with type variables: one for each binding of the variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tc.dtypes import BY_NAME, DType
from tc.errors import ArgumentError, Source
from tc.lang import syntax as s
from tc.lang.generic import monomorphic
from tc.lang.type_variables import Known
from tc.open_kernels.generic_kernel import GenericKernel, binding_of


class GenericOp:
    """Call it as an operator: it takes the element types from its arguments.  `at(T="double")` gives the
    operator of given types."""

    def __init__(self, kernel: GenericKernel, make: Callable[..., Any], told: tuple[Any, ...]) -> None:
        """`make` gives the operator of a source and of what the caller has `told` besides, and is what
        another process calls for a copy of this one."""
        self.kernel = kernel
        self._make = make
        self._told = told
        self._operators: dict[Known, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return self._make, (self.kernel.source, *self._told)

    @property
    def parameters(self) -> dict[str, DType | None]:
        """The types of the tensor parameters; None for those that a call decides on."""
        params = [p for p in self.kernel.definition.params if p.type.dims]
        return {p.name: p.type.dtype if p.type.variable is None else None for p in params}

    @property
    def names(self) -> list[str]:
        """The parameters in order."""
        return [p.name for p in self.kernel.definition.params]

    def __repr__(self) -> str:
        return f"<operator of {self.kernel.name}<{', '.join(v.name for v in self.kernel.variables)}>>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator(binding_of(self.kernel.definition, args, kwargs, _dtype))(*args, **kwargs)

    def at(self, **types: str) -> Any:
        """The operator of given types, by name."""
        return self._operator(self.kernel.binding(types))

    def _operator(self, known: Known) -> Any:
        found = self._operators.get(known)
        if found is None:
            types = {name: dtype.name for name, _, dtype in known}
            source = monomorphic(Source(self.kernel.source), self.kernel.name, types)
            found = self._operators.setdefault(known, self._make(source, *self._told))
        return found


def _dtype(value: Any, p: s.Param) -> DType:
    """The element type of an array of PyTorch or JAX, which may be traced."""
    name = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
    if name not in BY_NAME:
        raise ArgumentError(
            f"{p.name} is no array of a type of the language: {name}",
            p.span,
            code="TC0505",
            help="pass an array of the framework",
        )
    return BY_NAME[name]

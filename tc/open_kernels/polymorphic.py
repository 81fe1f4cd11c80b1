"""Kernels of SaC programs whose ranks are known only when arrays arrive."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tc.dtypes import BOOL, FLOAT64, INT32, INT64, DType
from tc.errors import ArgumentError, Source
from tc.kernel import Kernel
from tc.lang.notations import Known
from tc.lang.sac.program import Parameter
from tc.open_kernels.open_kernel import Make, OpenKernel
from tc.runtime import arrays
from tc.runtime.device_arrays import element_type, on_device, rank


class PolymorphicKernel(OpenKernel):
    """A program with parameters of any rank.  Call it as any kernel: it specialises itself for the ranks (and
    for an expression the element types) of its arguments, and keeps the kernels.

    `at(A=3)` gives the kernel of given ranks; for an expression with an element type, `at(A=(3, "float"))`.
    """

    def __init__(self, name: str, source: Source, parameters: tuple[Parameter, ...], make: Make) -> None:
        super().__init__(name, source, make)
        self._parameters = parameters
        self._quick: dict[Any, Kernel] = {}  # by ranks and types of arrays that are all NumPy's

    def __repr__(self) -> str:
        params = ", ".join(p.name for p in self._parameters)
        return f"<tc.PolymorphicKernel {self.name}({params})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kinds: list[tuple[int, Any]] = []
        for a in args:
            if type(a) is not np.ndarray:
                break
            kinds.append((a.ndim, a.dtype))
        else:
            if not kwargs or kwargs.keys() == {"out"}:
                key = tuple(kinds)
                kernel = self._quick.get(key)
                if kernel is None:
                    kernel = self._quick[key] = self.kernel_for(*args)
                return kernel(*args, **kwargs)
        return self.kernel_for(*args, **kwargs)(*args, **kwargs)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self._parameters

    def kernel_for(self, *args: Any, **kwargs: Any) -> Kernel:
        """The kernel that a call with these arguments runs."""
        known: list[tuple[str, int, Any]] = []
        for k, p in enumerate(self._parameters):
            if k < len(args):
                value = args[k]
            elif p.name in kwargs:
                value = kwargs[p.name]
            else:
                names = ", ".join(x.name for x in self._parameters)
                count = f"{len(self._parameters)} input{'s' * (len(self._parameters) != 1)}"
                raise ArgumentError(
                    f"{self.name}: expected {count} ({names}), got {len(args)}",
                    p.span,
                    code="TC0550",
                    help=f"pass {p.name} too",
                )
            rank, dtype = argument_kind(value, p)
            self._check(p, rank)
            known.append((p.name, rank if p.rank is None else p.rank, dtype if p.dtype is None else p.dtype))
        return self._kernel(tuple(known))

    def _check(self, p: Parameter, rank: int) -> None:
        if p.rank is None and rank < p.least:
            raise ArgumentError(
                f"{self.name}: {p.name} has rank {rank}, and at least {p.least} is declared",
                p.span,
                code="TC0551",
                help="a scalar has rank 0; pass an array",
            )

    def at(self, **ranks: int | tuple[int, str]) -> Kernel:
        """The kernel of given ranks."""
        known: list[tuple[str, int, Any]] = []
        for p in self._parameters:
            value = ranks.get(p.name, p.rank)
            if value is None:
                raise ArgumentError(
                    f"{self.name}: the rank of {p.name} is not given",
                    p.span,
                    code="TC0552",
                    help=f"pass {p.name}=2",
                )
            rank, dtype = value if isinstance(value, tuple) else (value, "double")
            self._check(p, rank)
            known.append((p.name, rank, p.dtype or _named(dtype)))
        unknown = sorted(ranks.keys() - {p.name for p in self._parameters})
        if unknown:
            raise ArgumentError(
                f"{self.name} has no parameter '{unknown[0]}'",
                code="TC0552",
                help="it has " + ", ".join(p.name for p in self._parameters),
            )
        return self._kernel(tuple(known))

    def decided_by_arrays(self, known: Known) -> bool:
        ranks = {name: rank for name, rank, _ in known}
        return all(ranks[p.name] for p in self._parameters if p.rank is None or p.dtype is None)

    def how(self) -> str:
        return f"at({', '.join(f'{p.name}=2' for p in self._parameters)})"


def _named(name: str) -> DType:
    from tc.lang.sac.syntax import BASES

    if name not in BASES or name == "_T":
        raise ArgumentError(
            f"'{name}' is no element type", code="TC0552", help="types are " + ", ".join(BASES)
        )
    return BASES[name]


def argument_kind(value: object, p: Parameter) -> tuple[int, DType]:
    """Rank and element type of an argument."""
    if isinstance(value, bool):
        return 0, BOOL
    if isinstance(value, int):
        return 0, INT32 if INT32.min <= value <= INT32.max else INT64
    if isinstance(value, float):
        return 0, FLOAT64
    if isinstance(value, np.generic):
        array = cast("np.ndarray[Any, Any]", np.asarray(cast("Any", value)))
        return 0, arrays.view(array, p.name, p.span).dtype
    if on_device(value):
        return rank(value), element_type(value, p.name, p.span)
    found = arrays.view(value, p.name, p.span)
    return found.array.ndim, found.dtype

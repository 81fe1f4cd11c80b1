"""What a run is asked for on the command line, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tc.dtypes import DType
from tc.errors import ArgumentError, did_you_mean
from tc.lang import resolved as r

DATA = ("normal", "integers")  # that is drawn


@dataclass(frozen=True, slots=True)
class Request:
    """What a run is asked for: sizes and scalars by name, .npy files of inputs and for results.

    `data`: "normal" or "integers", or a .npz file.
    `dtypes` has other types for integers that are used in subscripts only, `given` the accumulated results
    that start from a buffer.
    """

    sizes: Mapping[str, int]
    scalars: Mapping[str, int | float | bool]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    data: str = "integers"
    seed: int = 0
    check: bool = False
    dtypes: Mapping[str, DType] = field(default_factory=dict[str, DType])
    given: Sequence[str] = ()


def check_names(kernel: Any, request: Request) -> None:
    """Every name of a request is one of the kernel's, of the right kind."""
    checked = kernel.front.checked
    scalars = {p.name: p.dtype for p in checked.params if isinstance(p, r.ScalarParam)}
    tensors = [p.name for p in checked.params if isinstance(p, r.Tensor)]
    results = [x.name for x in checked.returns]
    starting = [x.name for x in checked.returns if x.mode != "fresh"]
    for name, value in request.sizes.items():
        if name not in checked.sizes and not (name in scalars and scalars[name].is_int):
            raise _unknown(f"{checked.name} has no size '{name}'", name, checked.sizes, "TC0513")
        if name in checked.sizes and value < 0:
            raise ArgumentError(f"--size {name}={value}: a size is not negative", code="TC0515")
    for name in request.scalars:
        if name not in scalars:
            raise _unknown(f"{checked.name} has no scalar '{name}'", name, scalars, "TC0513")
    for name in request.inputs:
        if name not in (*tensors, *starting):
            if name in scalars:
                raise ArgumentError(
                    f"'{name}' is a scalar, not an array", code="TC0515", help=f"write --scalar {name}=…"
                )
            raise _unknown(f"{checked.name} has no input '{name}'", name, (*tensors, *starting), "TC0515")
    for name in request.outputs:
        if name not in results:
            raise _unknown(f"{checked.name} has no result '{name}'", name, results, "TC0515")


def _unknown(message: str, name: str, known: Iterable[str], code: str) -> ArgumentError:
    known = list(known)
    listed = f"it has {', '.join(known)}" if known else "it has none"
    return ArgumentError(message, code=code, help=did_you_mean(name, known) or listed)

"""What an entry of `tc._native` takes and gives, as plain data."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from tc import _native


@dataclass(frozen=True)
class CallSpec:
    """The exact arguments of a kernel: `inputs` and `outputs` as `tc._native.Entry` takes them, and the names
    of the def, its parameters and its results."""

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    parameters: tuple[str, ...]
    results: tuple[str, ...]

    def entry(
        self,
        address: int,
        workspace: int,
        release_gil: bool,
        owner: object,
        sizes: Sequence[int] = (),
        device: _native.DeviceSpec | None = None,
    ) -> _native.Entry:
        """The kernel at `address`, or what is launched on a device, for these arguments; `workspace` is in
        bytes, `sizes` are values of its dynamic sizes."""
        return _native.Entry(
            address,
            self.inputs,
            self.outputs,
            workspace,
            release_gil,
            result_type(self.name, self.results),
            owner,
            self.parameters,
            self.results,
            sizes,
            device,
        )


# As long as a kernel or a result has it: a class takes kilobytes, and there is one for each name of a def.
_result_types: WeakValueDictionary[tuple[str, ...], type[Any]] = WeakValueDictionary()


def result_type(name: str, results: tuple[str, ...]) -> type[Any] | None:
    """The named tuple of several results of a def; None for a single one."""
    if len(results) == 1:
        return None
    found = _result_types.get((name, *results))
    if found is None:
        # Names such as 2LUT or class are legal in a program; rename=True gives those _0, _1, …
        shown = name if name.isidentifier() else "Result"
        fields: Any = namedtuple(shown, results, rename=True)  # pyright: ignore[reportUntypedNamedTuple]

        # No module has the class, so that a pickle names the def and its results.
        def reduce(self: Any) -> tuple[Any, ...]:
            return _result, (name, results, tuple(self))

        fields.__reduce__ = reduce
        found = _result_types.setdefault((name, *results), fields)
    return found


def _result(name: str, results: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    kind = result_type(name, results)
    return kind(*values) if kind is not None else values[0]

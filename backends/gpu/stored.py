"""Launches as plain data, with their machine code, for the disk and for bundles; they run without a
compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tc.codegen.gpu_module import Argument, HostLoop, Kernel
from tc.ir.expr import Expr
from tc.ir.expr_json import from_json, to_json

from .interface import Interface
from .launched import Functions, Launched

_KINDS = frozenset(["array", "scalar", "size", "error", "workspace"])


@dataclass(frozen=True)
class Restored(Launched):
    """Kernels that were compiled before; `run` launches them, and there are no stages to show."""

    functions: Functions = field(repr=False)
    interface: Interface = field(repr=False)
    kernels: tuple[Kernel, ...] = field(repr=False)
    notices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    address: None = None
    release_gil: bool = True

    @property
    def workspace(self) -> Expr:
        """In bytes."""
        return self.interface.workspace

    def steps(self) -> tuple[Kernel, ...]:
        """The launches, in order."""
        return self.kernels


def facts_of(
    interface: Interface, kernels: Sequence[Kernel], notices: Sequence[str] = (), notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Plain data for launches."""
    return {
        "name": interface.name,
        "params": list(interface.params),
        "outputs": list(interface.outputs),
        "inout": sorted(interface.inout),
        "sizes": {n: [array, d] for n, (array, d) in interface.sizes.items()},
        "workspace": to_json(interface.workspace),
        "launches": [
            {
                "name": k.name,
                "arguments": [[a.kind, a.name] for a in k.arguments],
                "blocks": to_json(k.blocks),
                "threads": k.threads,
                "shared": k.shared,
                "dynamic_shared": k.dynamic_shared,
                "frame": k.frame,
                "loops": [[loop.counter, to_json(loop.trips)] for loop in k.loops],
            }
            for k in kernels
        ],
        "notices": list(notices),
        "notes": list(notes),
    }


def restored(facts: Mapping[str, Any], functions: Functions) -> Restored:
    """The inverse of `facts_of`.  Raises ValueError, KeyError or TypeError for other data."""
    sizes = {str(n): (str(array), int(d)) for n, (array, d) in facts["sizes"].items()}
    interface = Interface(
        str(facts["name"]),
        tuple(map(str, facts["params"])),
        tuple(map(str, facts["outputs"])),
        frozenset(map(str, facts["inout"])),
        sizes,
        from_json(facts["workspace"]),
    )
    kernels = tuple(_kernel(k) for k in facts["launches"])
    notices, notes = (tuple(map(str, facts[name])) for name in ("notices", "notes"))
    return Restored(functions, interface, kernels, notices, notes)


def _kernel(k: Mapping[str, Any]) -> Kernel:
    arguments: list[Argument] = []
    for kind, name in k["arguments"]:
        if kind not in _KINDS:
            raise ValueError(f"an argument of kind {kind!r}")
        arguments.append(Argument(kind, str(name)))
    return Kernel(
        str(k["name"]),
        tuple(arguments),
        from_json(k["blocks"]),
        int(k["threads"]),
        int(k["shared"]),
        int(k["dynamic_shared"]),
        int(k["frame"]),
        tuple(HostLoop(str(counter), from_json(trips)) for counter, trips in k["loops"]),
    )

"""What tuning asks of a backend beyond compiling, and what a machine is called in records."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from tc.cache.disk import digest
from tc.ir.program import Program
from tc.options import Options

CostUnit = Literal["cycles", "seconds"]


def cost_text(cost: float, unit: CostUnit) -> str:
    """A predicted cost for people."""
    return f"{cost:,.0f} cycles" if unit == "cycles" else f"{1e6 * cost:.1f} us"


@runtime_checkable
class Tunable(Protocol):
    """A backend with candidates and a model.

    `candidates`: options and predicted costs in `cost_unit`, the best prediction first, each with what
    `options` say.  `loops`: the extents of the loops that the option `tile` is about.  `predict`: the
    cost of a program with options, in the same unit; None where the model cannot tell.
    `limits`: what the machine allows, by name: `cores`, `max_threads`, `shared`, `l1`, `l2` and others.
    """

    name: str
    options_used: frozenset[str]
    cost_unit: CostUnit

    def candidates(
        self, program: Program, count: int, options: Options
    ) -> tuple[tuple[Options, float], ...]: ...

    def loops(self, program: Program, options: Options) -> tuple[int, ...]: ...

    def predict(self, program: Program, options: Options) -> float | None: ...

    def limits(self, options: Options) -> Mapping[str, Any]: ...


@functools.cache
def processor() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine_name(limits: Mapping[str, Any]) -> str:
    """A short name of a machine of which a backend says this: equal where times can be compared."""
    return digest("machine", processor(), platform.machine(), sorted((k, str(v)) for k, v in limits.items()))[
        :16
    ]

"""What the processor of this machine has, as Linux says it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tc.bundle.manifest import Target
from tc.errors import BackendError


@cache
def features() -> frozenset[str]:
    """The features of the processor, those of all cores; none where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    listed = [
        frozenset(value.split())
        for name, _, value in (line.partition(":") for line in lines)
        if name.strip() in ("flags", "Features")
    ]
    return listed[0].intersection(*listed[1:]) if listed else frozenset()


def choose(targets: Sequence[Target], machine: str, name: str) -> Target:
    """The first of some targets that this processor can run; else BackendError, code TC0830.  `machine` is
    the architecture that they are all for, `name` the def's."""
    here = platform.machine()
    if machine != here:
        raise BackendError(
            f"the bundle of {name} has code for processors of {machine}, and this is {here}",
            code="TC0830",
            help="export it on a machine of this architecture",
        )
    for target in targets:
        if features().issuperset(target.requires):
            return target
    missing = sorted(frozenset(targets[-1].requires) - features())
    raise BackendError(
        f"the bundle of {name} has code for {', '.join(t.name for t in targets)}, and this processor lacks "
        f"{', '.join(missing)}",
        code="TC0830",
        help="export it for a narrower instruction set too, such as --isa avx2,sse4.2",
    )

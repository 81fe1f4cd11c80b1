"""Size variants: one kernel with loops for few points of a dynamic size beside those for many.

What is best for a hundred rows of a matrix, such as a packed copy of the other factor, is not best for three.
The cost model says up to which size the loops for few points are faster, and the kernel tests the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tc.ir.program import Program
from tc.poly import tile_plan
from tc.poly.fusion.fusion import Group
from tc.poly.scop import Scop

from ..target import Machine
from .choose import Choice, predicted

_SMALL_SIZES = (4, 1)  # sizes for which a variant is planned
_COMPARED_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_GAIN = 0.9  # share of the cycles at the planned size, at most, that makes a variant worth its code
_TIE = 1.05  # the same at larger sizes: a pack in cold caches costs more than the model says


@dataclass(frozen=True, slots=True)
class Plan:
    """Fused loops and their tilings, chosen for some typical sizes."""

    groups: Sequence[Group | str]
    chosen: Choice
    schedule: str


@dataclass(frozen=True, slots=True)
class SizeVariant:
    """The plan that runs while a size is at most `most`."""

    size: str
    most: int
    plan: Plan


def size_variants(
    program: Program,
    scop: Scop,
    machine: Machine,
    typical: Mapping[str, int],
    usual: Plan,
    make: Callable[[Mapping[str, int]], Plan],
) -> tuple[SizeVariant, ...]:
    """The variants for few points of the first dynamic size, the fewest first.  `usual` is the plan for
    typical sizes; `make` plans for others."""
    if not typical:
        return ()
    size = next(iter(typical))

    def cycles(p: Plan, points: int) -> float:
        at = {**typical, size: points}
        return predicted(scop, tile_plan.regions(program, p.groups, at), p.chosen, machine, at)

    out: list[SizeVariant] = []
    rival = usual
    for small in _SMALL_SIZES:
        if typical[size] < 4 * small:
            continue
        made = make({**typical, size: small})
        most = 0
        for points in _COMPARED_SIZES:
            least = _GAIN if points <= small else _TIE
            if points >= typical[size] or cycles(made, points) > least * cycles(rival, points):
                break
            most = points
        if most:
            out.append(SizeVariant(size, most, made))
            rival = made
    return tuple(sorted(out, key=lambda v: v.most))

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""The kernel of a mapped region."""

from __future__ import annotations

from dataclasses import dataclass

from tc.ir.loops import Array, Launch
from tc.poly import ast
from tc.poly.mapping.collective import sunk
from tc.poly.mapping.plan import RegionMap
from tc.poly.mapping.tree import Mapped
from tc.poly.scop import Scop
from tc.poly.tree import dump


@dataclass(frozen=True, slots=True)
class Kernel:
    """A launch, the arrays that only it has, and the mapped tree as text."""

    launch: Launch
    arrays: tuple[Array, ...]
    tree: str


def kernel(scop: Scop, title: str, how: RegionMap, mapped: Mapped) -> Kernel:
    """The loops of a mapped tree as a kernel called `title`.  Use it inside `isl_context()`."""
    variables = [v for v, _ in (*how.blocks, *how.threads)]
    body = ast.loops(scop, mapped.schedule, mapped.inserted, mapped.views, variables)
    body = sunk(body, {v for v, _ in how.threads}, mapped.common)
    return Kernel(Launch(title, how.blocks, how.threads, body), mapped.arrays, dump(mapped.schedule))

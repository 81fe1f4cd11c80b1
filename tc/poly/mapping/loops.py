# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""The launch of a mapped region."""

from __future__ import annotations

from collections.abc import Callable

from tc.ir.loops import Array, Launch
from tc.poly import ast
from tc.poly.mapping.plan import RegionMap
from tc.poly.mapping.tree import mapped
from tc.poly.plan import Region
from tc.poly.scop import Scop


def launch(
    scop: Scop, title: str, region: Region, how: RegionMap, name: Callable[[str], str]
) -> tuple[Launch, tuple[Array, ...]]:
    """The loops of a mapped region as a kernel called `title`, and the arrays that only it has, whose names
    are made by `name`.  Use it inside `isl_context()`."""
    tree = mapped(scop, region, how, name)
    variables = [v for v, _ in (*how.blocks, *how.threads)]
    body = ast.loops(scop, tree.schedule, tree.inserted, tree.views, variables)
    return Launch(title, how.blocks, how.threads, body), tree.arrays

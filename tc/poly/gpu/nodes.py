"""Schedule trees as text for isl, nested, so that each node is built below its parent.

Extension nodes are then possible everywhere; islpy's grafts are only possible next to existing nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

Tree = str  # the text of a subtree; empty: a leaf


def _node(kind: str, value: str, below: Tree, more: str = "") -> Tree:
    child = f", child: {below}" if below else ""
    return f'{{ {kind}: "{value}"{more}{child} }}'


def filtered(where: isl.UnionSet, below: Tree) -> Tree:
    return _node("filter", str(where), below)


def context(where: isl.Set, below: Tree) -> Tree:
    return _node("context", str(where), below)


def banded(schedule: isl.MultiUnionPwAff, below: Tree, *, whole: bool = False) -> Tree:
    """A band node; `whole`: one loop with conditions inside, not a loop for each part of a union."""
    more = ', permutable: 1, options: "{ atomic[x] }"' if whole else ", permutable: 1"
    return _node("schedule", str(schedule), below, more)


def marked(mark: str, below: Tree) -> Tree:
    return _node("mark", mark, below)


@dataclass(frozen=True, slots=True)
class Part:
    """A child of a sequence: the filter of its statements, the extension that inserts them (None: they are
    the program's), and the tree below."""

    statements: isl.UnionSet
    below: Tree
    extension: isl.UnionMap | None = None


def sequence(parts: Sequence[Part]) -> Tree:
    """A sequence node of parts, below an extension node if some of them are inserted."""
    if len(parts) == 1 and parts[0].extension is None:
        return parts[0].below
    children = ", ".join(filtered(p.statements, p.below) for p in parts)
    tree = f"{{ sequence: [ {children} ] }}"
    total: isl.UnionMap | None = None
    for p in parts:
        if p.extension is not None:
            total = p.extension if total is None else total.union(p.extension)
    return tree if total is None else _node("extension", str(total), tree)


def schedule(domain: isl.UnionSet, below: Tree) -> isl.Schedule:
    return isl.Schedule.read_from_str(domain.get_ctx(), _node("domain", str(domain), below))

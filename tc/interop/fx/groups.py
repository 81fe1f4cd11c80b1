"""Which nodes become one def: connected, free of cycles, and worth it.

A node joins the pieces that it reads from as long as no path leaves a piece and comes back.  A piece is worth
it if it has a reduction or two operators on elements; copies and views do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tc.interop.fx.operators import is_copy, is_reduction, is_second, obstacle, reads, sizes_read
from tc.interop.fx.products import is_member
from tc.interop.fx.views import Node, is_tensor, keys, value

LARGEST = 48  # nodes of a piece
PRODUCTS = 2  # of a piece
RULE = "fewer than two operators on elements and no reduction"


@dataclass(eq=False)
class Unit:
    """A node, or nodes that are one def."""

    number: int
    members: list[Node] = field(default_factory=list[Node])
    joins: bool = False


def worth(members: Iterable[Node]) -> bool:
    some = [m for m in members if not is_second(m) and not is_copy(m)]
    return len(some) >= 2 or any(is_reduction(m) or is_member(m) for m in some)


def fit(a: list[Node], b: list[Node]) -> bool:
    """Whether two units are small enough to be one."""
    members = [*a, *b]
    return len(members) <= LARGEST and sum(map(is_member, members)) <= PRODUCTS


def needs(node: Node, joins: bool) -> list[Node]:
    """The nodes that one must come after: a member of a piece reads through views."""
    if not joins:
        return list(node.all_input_nodes)
    if is_second(node):
        return [node.args[0]]
    return [*reads(node), *sizes_read(node)]


class Grouping:
    """The units of a graph, with the units that each comes after as a set of bits."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.units: dict[int, Unit] = {}
        self.of: dict[Node, Unit] = {}
        self.before: dict[int, int] = {}
        self.reasons: dict[Node, str] = {}
        for node in nodes:
            self._add(node)

    def _add(self, node: Node) -> None:
        reason = obstacle(node)
        if reason is not None:
            self.reasons[node] = reason
        joins = reason is None
        own = Unit(len(self.units), [node], joins)
        self.units[own.number] = own
        self.of[node] = own
        self.before[own.number] = 0
        for m in needs(node, joins):
            u = self.of[m].number
            self.before[own.number] |= self.before[u] | (1 << u)
        if not joins:
            return
        device = _device(node)
        for m in needs(node, joins):
            other = self.of[m]
            here = self.of[node]
            if other is here or not other.joins or _device(other.members[0]) != device:
                continue
            if is_second(node) or (fit(here.members, other.members) and not _spreads(node, m)):
                self._merge(other, here)

    def _merge(self, a: Unit, b: Unit) -> None:
        """Make one unit of two, unless a path between them goes through a third."""
        bit_a, bit_b = 1 << a.number, 1 << b.number
        live = {u.number for u in self.of.values()}
        for n in live - {a.number, b.number}:
            through = self.before[n]
            if (through & bit_a and self.before[b.number] >> n & 1) or (
                through & bit_b and self.before[a.number] >> n & 1
            ):
                return
        a.members = sorted([*a.members, *b.members])  # in the order of the graph
        for m in b.members:
            self.of[m] = a
        both = (self.before[a.number] | self.before[b.number]) & ~(bit_a | bit_b)
        self.before[a.number] = both
        for n in live:
            if n != a.number and self.before[n] & (bit_a | bit_b):
                self.before[n] = (self.before[n] & ~bit_b) | both | bit_a


def _spreads(node: Node, product: Node) -> bool:
    """Whether a node spreads a product over a larger tensor, which is cheaper where that tensor is read."""
    if not is_member(product) or not is_tensor(node):
        return False
    large, small = keys(value(node).shape), keys(value(product).shape)
    return prod(n for n in large if isinstance(n, int)) > prod(n for n in small if isinstance(n, int))


def _device(node: Node) -> Any:
    x: Any = value(node)
    return x.device if hasattr(x, "device") else x[0].device


@dataclass(frozen=True, slots=True)
class Groups:
    pieces: list[list[Node]]
    reasons: dict[Node, str]  # of operators that are in no piece


def groups_of(nodes: Iterable[Node]) -> Groups:
    """The pieces of a graph, and why the other operators are in none."""
    found = Grouping(nodes)
    pieces: list[list[Node]] = []
    reasons = dict(found.reasons)
    for unit in dict.fromkeys(found.of.values()):
        if not unit.joins:
            continue
        if worth(unit.members):
            pieces.append(unit.members)
        else:
            reasons |= dict.fromkeys(unit.members, RULE)
    return Groups(pieces, reasons)


def ordered(nodes: Iterable[Node], pieces: list[list[Node]], needs_of: Callable[[Node], Any]) -> list[Any]:
    """Nodes and pieces (by number) in an order where each comes after what it needs; placeholders, which
    callers pass by position, come first and as they are."""
    nodes = list(nodes)
    unit: dict[Node, Any] = {n: n for n in nodes}
    for k, p in enumerate(pieces):
        unit |= dict.fromkeys(p, k)
    after: dict[Any, dict[Any, None]] = {unit[n]: {} for n in nodes}
    for n in nodes:
        after[unit[n]] |= {unit[m]: None for m in needs_of(n) if unit[m] != unit[n]}
    done: dict[Any, None] = {}
    open_: set[Any] = set()
    for start in [unit[n] for n in sorted(nodes, key=lambda n: n.op != "placeholder")]:
        stack = [start]
        while stack:
            top = stack[-1]
            if top in done:
                stack.pop()
                continue
            open_.add(top)
            waiting = [u for u in after[top] if u not in done]
            if not waiting:
                done[top] = None
                stack.pop()
                continue
            if any(u in open_ for u in waiting):
                raise AssertionError("a cycle of pieces")
            stack.extend(reversed(waiting))
    return list(done)

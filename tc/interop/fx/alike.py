"""Small products that are alike become one, as in a recurrent network whose steps are unrolled.

* Products `a_k @ w`, none of which depends on another one, are parts of one product of all rows.
* A sum of products `a_k @ b_k` is one product, whose inner dimension has those of all k.
* A sum of gradients of `x.select(d, k)`, each zero but at k, is these gradients side by side.

Operands are copied for this.  Products become one where copies move fewer elements than products apart do:
these read `w` for each k, or write each term of a sum and read it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tc.interop.fx.groups import ordered
from tc.interop.fx.views import Node, aten, is_tensor, is_view, packet, value

torch: Any = import_module("torch")
Terms = list[tuple[Node, bool]]  # and whether the sum has the transpose of a term


def side_by_side(*parts: Any) -> Any:
    return torch.stack(parts)


def part(x: Any, k: int) -> Any:
    return x[k]


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix, as it is or as the transpose of a node."""

    node: Node
    transposed: bool = False

    @property
    def turned(self) -> _Matrix:
        return _Matrix(self.node, not self.transposed)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = value(self.node).shape
        return (columns, rows) if self.transposed else (rows, columns)

    @staticmethod
    def of(n: Node) -> _Matrix:
        found = _Matrix(n)
        while _is_transpose(found.node):
            found = _Matrix(found.node.args[0], not found.transposed)
        return found


def with_joined_products(gm: Any, returned: Callable[[int], bool]) -> Any:
    """The graph with products that are alike as one, or itself where there are none.

    The outputs that are `returned` to a caller keep strides and memory of their own.
    """
    if sum(_is_product(n) or _is_place(n) for n in gm.graph.nodes) < 2:
        return gm
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    _Joining(graph, returned).run()
    made = torch.fx.GraphModule(gm, graph)
    made.train(gm.training)
    return made


class _Joining:
    def __init__(self, graph: Any, returned: Callable[[int], bool]) -> None:
        self._graph = graph
        self._returned = returned
        self._mode = torch._guards.detect_fake_mode([value(n) for n in graph.nodes if n.op == "placeholder"])
        self._stacks: dict[tuple[Node, ...], Node] = {}
        self._orders: dict[frozenset[Node], tuple[Node, ...]] = {}

    def run(self) -> None:
        self._rows()
        self._sums(self._sum_of_products)
        self._sums(self._sum_of_places)
        for n in list(self._graph.nodes):
            if _is_place(n):
                n.replace_all_uses_with(self._place(n))
        self._clear()

    # sums

    def _sums(self, joined: Callable[[Node, Terms], Node | None]) -> None:
        """Replace each largest sum of several terms by what it is joined to."""
        inner: set[Node] = set()
        for root in reversed(list(self._graph.nodes)):
            if root in inner or not _is_sum(root):
                continue
            terms, within = _terms(root)
            inner |= within
            with self._graph.inserting_before(root):
                made = joined(root, terms)
                if made is None:
                    continue
                if value(made).stride() != value(root).stride() and self._is_returned(root):
                    made = self._call(aten.clone.default, made, memory_format=torch.contiguous_format)
                    if value(made).stride() != value(root).stride():
                        continue
            root.replace_all_uses_with(made)
        self._clear()

    def _sum_of_products(self, root: Node, terms: Terms) -> Node | None:
        flipped = value(root).dim() == 2 and value(root).stride(0) == 1 < value(root).stride(1)
        alike = defaultdict[int, list[tuple[_Matrix, _Matrix]]](list)
        others: Terms = []
        for n, turned in terms:
            if n.target is aten.mm.default and _is_product(n) and len(n.users) == 1:
                a, b = map(_Matrix.of, n.args)
                alike[a.shape[1]].append((b.turned, a.turned) if turned != flipped else (a, b))
            else:
                others.append((n, turned != flipped))
        made: list[Node] = []
        for some in alike.values():
            (rows, inner), (_, columns) = (m.shape for m in some[0])
            count = len(some)
            if count * inner * (rows + columns) < 2 * (count - 1) * rows * columns:
                made.append(self._long_product(some))
            else:
                made += [self._call(aten.mm.default, *map(self._logical, pair)) for pair in some]
        if len(made) == sum(map(len, alike.values())):
            return None
        for n, turned in others:
            made.append(self._turned(n) if turned else n)
        total, *rest = made
        for m in rest:
            total = self._call(aten.add.Tensor, total, m)
        return self._turned(total) if flipped else total

    def _long_product(self, some: Sequence[tuple[_Matrix, _Matrix]]) -> Node:
        order = self._common_order([[a.node for a, _ in some], [b.node for _, b in some]])
        a = self._all_rows([some[k][0].turned for k in order])
        b = self._all_rows([some[k][1] for k in order])
        return self._call(aten.mm.default, self._turned(a), b)

    def _sum_of_places(self, _: Node, terms: Terms) -> Node | None:
        alike = defaultdict[Any, dict[int, Node]](dict)
        others: list[Node] = []
        for n, _ in terms:
            if not _is_place(n):
                others.append(n)
                continue
            given, sizes, d, at = n.args
            found = alike[tuple(sizes), d % len(sizes)]
            at %= sizes[d]
            found[at] = self._call(aten.add.Tensor, found[at], given) if at in found else given
        made: list[Node] = []
        for (sizes, d), found in alike.items():
            if 2 * len(found) < sizes[d] or len(found) < 2:
                return None
            first = value(next(iter(found.values())))
            how = {"dtype": first.dtype, "layout": torch.strided, "device": first.device, "pin_memory": False}
            zero = (
                self._call(aten.full.default, list(first.shape), 0, **how) if len(found) < sizes[d] else None
            )
            stack = self._stack([found.get(k, zero) for k in range(sizes[d])])
            order = [*range(1, d + 1), 0, *range(d + 1, len(sizes))]
            made.append(self._call(aten.permute.default, stack, order))
        if not made:
            return None
        total, *rest = [*made, *others]
        for m in rest:
            total = self._call(aten.add.Tensor, total, m)
        return total

    def _place(self, n: Node) -> Node:
        """The gradient of a `select`, in terms of operators on elements."""
        given, sizes, d, at = n.args
        d, x = d % len(sizes), value(n)
        at %= sizes[d]
        how = {"layout": torch.strided, "device": x.device, "pin_memory": False}
        with self._graph.inserting_before(n):
            places = self._call(aten.arange.start_step, 0, sizes[d], dtype=torch.int64, **how)
            shape = [-1 if k == d else 1 for k in range(len(sizes))]
            here = self._call(aten.eq.Scalar, self._call(aten.view.default, places, shape), at)
            wide = self._call(aten.expand.default, self._call(aten.unsqueeze.default, given, d), sizes)
            zero = self._call(aten.full.default, sizes, 0, dtype=x.dtype, **how)
            return self._call(aten.where.self, here, wide, zero)

    # rows

    def _rows(self) -> None:
        """Replace products of one right operand, none of which depends on another one, by parts of one."""
        alike = defaultdict[Any, list[Node]](list)
        for n in self._in_order():
            if _is_product(n) and not self._is_returned(n):
                *bias, a, b = n.args
                left, right = _Matrix.of(a), _Matrix.of(b)
                alike[n.target, *bias, right, left.shape, value(n).dtype].append(n)
        for some in alike.values():
            rows, columns = value(some[0]).shape
            for free in self._independent(some):
                if 2 * len(free) * rows < (len(free) - 1) * columns:
                    self._wide_product(free)

    def _independent(self, some: Sequence[Node]) -> list[list[Node]]:
        """The nodes, which are in order, in sets of which no member depends on another one."""
        if len(some) < 2:
            return []
        bit = {n: 1 << k for k, n in enumerate(some)}
        before: dict[Node, int] = {}
        sets: list[tuple[int, list[Node]]] = []
        for n in self._in_order():
            needed = 0
            for a in n.all_input_nodes:
                needed |= before[a] | bit.get(a, 0)
            before[n] = needed
            if n in bit:
                k = next((k for k, (mask, _) in enumerate(sets) if not mask & needed), len(sets))
                mask, members = sets[k] if k < len(sets) else (0, [])
                sets[k : k + 1] = [(mask | bit[n], [*members, n])]
        return [members for _, members in sets if len(members) > 1]

    def _wide_product(self, some: Sequence[Node]) -> None:
        *bias, _, b = some[0].args
        left = [_Matrix.of(n.args[-2]) for n in some]
        places = [u.args[3] for n in some for u in n.users if _is_place(u)]
        if len(places) == len(some):
            order = sorted(range(len(some)), key=places.__getitem__)
        else:
            order = self._common_order([[m.node for m in left]])
        with self._graph.inserting_before(some[0]):
            rows = self._all_rows([left[k] for k in order])
            whole = self._call(some[0].target, *bias, rows, b)
            parts = self._call(aten.view.default, whole, [len(some), *value(some[0]).shape])
            for at, k in enumerate(order):
                some[k].replace_all_uses_with(self._call(part, parts, at))
        self._clear()

    # operands

    def _common_order(self, columns: Sequence[Sequence[Node]]) -> list[int]:
        """The order in which operands that belong together are joined: one in which some are already."""
        for nodes in columns:
            known = self._orders.get(frozenset(nodes))
            if known is not None and len(known) == len(nodes):
                return [nodes.index(n) for n in known]
        for nodes in columns:
            if all(packet(n) is aten.select and isinstance(n.args[2], int) for n in nodes):
                return sorted(range(len(nodes)), key=lambda k: nodes[k].args[2])
        return list(range(len(columns[0])))

    def _all_rows(self, some: Sequence[_Matrix]) -> Node:
        """One matrix of the rows of several that have one shape."""
        rows, columns = some[0].shape
        shape = [len(some) * rows, columns]
        if all(m.transposed for m in some):
            stack = self._call(aten.permute.default, self._stack([m.node for m in some]), [1, 0, 2])
            return self._turned(self._call(aten.reshape.default, stack, shape[::-1]))
        stack = self._stack([self._logical(m) for m in some])
        return self._call(aten.reshape.default, stack, shape)

    def _stack(self, nodes: Sequence[Node]) -> Node:
        """Tensors side by side along a new dimension, the first one."""
        key = tuple(nodes)
        if key not in self._stacks:
            self._stacks[key] = self._whole(nodes) or self._call(side_by_side, *nodes)
            self._orders[frozenset(nodes)] = key
        return self._stacks[key]

    def _whole(self, nodes: Sequence[Node]) -> Node | None:
        """The tensor of which the nodes are all parts, in order, with the dimension of the parts first."""
        first = nodes[0]
        if first.target is part:
            (x, _), d = first.args, 0
        elif packet(first) is aten.select:
            x, d, _ = first.args
        else:
            return None
        if value(x).shape[d] != len(nodes):
            return None
        for k, n in enumerate(nodes):
            if n.target is not first.target or n.args != ((x, k) if first.target is part else (x, d, k)):
                return None
        rank = value(x).dim()
        d %= rank
        return self._call(aten.permute.default, x, [d, *(k for k in range(rank) if k != d)]) if d else x

    def _logical(self, m: _Matrix) -> Node:
        return self._turned(m.node) if m.transposed else m.node

    def _turned(self, n: Node) -> Node:
        return self._call(aten.permute.default, n, [1, 0])

    # the graph

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        made = self._graph.call_function(target, args, kwargs)
        with self._mode:
            made.meta["val"] = target(*torch.fx.node.map_arg(args, value), **kwargs)
        return made

    def _clear(self) -> None:
        """Put the nodes in order, and remove those that nothing reads."""
        last = self._graph._root
        for n in self._in_order():
            last.append(n)
            last = n
        self._graph.eliminate_dead_code()
        self._stacks = {k: n for k, n in self._stacks.items() if not n._erased}
        self._orders = {frozenset(k): k for k in self._stacks}

    def _in_order(self) -> list[Node]:
        """The nodes, each behind what it needs, else as they are."""
        return ordered(self._graph.nodes, [], lambda n: n.all_input_nodes)

    def _is_returned(self, n: Node) -> bool:
        for u in n.users:
            if u.op == "output":
                if any(a is n and self._returned(k) for k, a in enumerate(u.args[0])):
                    return True
            elif is_view(u) and self._is_returned(u):
                return True
        return False


def _terms(root: Node) -> tuple[Terms, set[Node]]:
    """What a sum adds, in order, and the sums within it that nothing else reads."""
    found: Terms = []
    within: set[Node] = set()
    stack: Terms = [(a, False) for a in reversed(root.args)]
    while stack:
        n, turned = stack.pop()
        if _is_read_once(n) and _is_sum(n):
            within.add(n)
            stack += [(a, turned) for a in reversed(n.args)]
        elif _is_read_once(n) and _is_transpose(n):
            stack.append((n.args[0], not turned))
        else:
            found.append((n, turned))
    return found, within


def _is_read_once(n: Node) -> bool:
    """Whether one node reads it, once: `y + y` reads `y` twice."""
    return len(n.users) == 1 and sum(a is n for u in n.users for a in u.args) == 1


def _is_sum(n: Node) -> bool:
    """Whether a node adds two tensors of its own type and its own fixed sizes."""
    if n.op != "call_function" or n.target is not aten.add.Tensor or n.kwargs:
        return False
    if not all(is_tensor(a) and _is_fixed(value(a).shape) for a in (n, *n.args)):
        return False
    x = value(n)
    return all((a.shape, a.dtype, a.device) == (x.shape, x.dtype, x.device) for a in map(value, n.args))


def _is_fixed(sizes: Iterable[Any]) -> bool:
    return all(isinstance(s, int) and s > 0 for s in sizes)


def _is_transpose(n: Node) -> bool:
    return packet(n) is aten.permute and [d % 2 for d in n.args[1]] == [1, 0] and value(n).dim() == 2


def _is_product(n: Node) -> bool:
    """Whether a node multiplies matrices of fixed sizes, and at most adds one row to each of the result."""
    if n.op != "call_function" or n.kwargs or n.target not in (aten.mm.default, aten.addmm.default):
        return False
    if not all(is_tensor(a) and _is_fixed(value(a).shape) for a in n.args):
        return False
    return n.target is aten.mm.default or value(n.args[0]).dim() == 1


def _is_place(n: Node) -> bool:
    """Whether a node is the gradient of a `select` of fixed sizes."""
    return n.op == "call_function" and n.target is aten.select_backward.default and _is_fixed(n.args[1])

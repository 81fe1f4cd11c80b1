"""A def for a group of nodes.

An element of a node is an expression of an index.  A node that one other reads, at the same elements, is
written where it is read; every other is a statement, which the compiler inlines, fuses or stores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tc.interop.fx.operators import (
    LOOKUPS,
    REDUCTIONS,
    VARIANCES,
    counted,
    dims_of,
    filled,
    is_constant,
    is_reduction,
    is_second,
    joined_along,
    reads,
)
from tc.interop.fx.pointwise import DTYPES, cast, literal, pointwise, typed_literal
from tc.interop.fx.products import Factor, is_member, product
from tc.interop.fx.views import Index, Node, aten, base_of, is_tensor, key, keys, packet, stored_order, value

torch: Any = import_module("torch")
_LONGEST = 300  # characters of an expression that is written where it is read


@dataclass(frozen=True, slots=True)
class Value:
    """The elements of a tensor: `at` gives the one of an index as an expression."""

    dtype: Any
    shape: tuple[Any, ...]
    at: Callable[[Index], str]


@dataclass(frozen=True, slots=True)
class Written:
    """A def, the nodes that are its arguments and results, and the order of dimensions of each."""

    source: str
    tensors: tuple[Node, ...]
    scalars: tuple[Node, ...]
    results: tuple[Node, ...]
    orders_in: tuple[tuple[int, ...], ...]
    orders_out: tuple[tuple[int, ...], ...]
    dynamic: tuple[str, ...]
    names: dict[str, str]  # of parameters and tensors to those of nodes


class Unsuited(Exception):
    """What keeps a group of nodes, which are all supported, from being a def."""


class Writer:
    def __init__(self, members: Sequence[Node], results: Sequence[Node]) -> None:
        self.members = list(members)
        self.results = list(results)
        self.inside = set(members)
        self.values: dict[Node, Value] = {}
        self.parameters: dict[Node, str] = {}
        self.scalars: dict[Node, str] = {}
        self.sizes: dict[str, str] = {}
        self.statements: list[str] = []
        self.orders: dict[Node, tuple[int, ...]] = {}
        self.names: dict[str, str] = {}
        self.declared: list[str] = []
        self.uses: Counter[Node] = Counter(b for m in members for b in reads(m))
        self.readers = {b: m for m in members for b in reads(m)}
        self.stored: dict[Node, str] = {}

    def write(self) -> Written:
        for m in self.members:
            for b in _read_by(m):  # sizes and parameters come in the order of what reads them
                if b not in self.inside:
                    self._parameter(b)
        for m in self.members:
            self._member(m)
        given = [*self.declared, *(f"{DTYPES[_number_type(a)]} {n}" for a, n in self.scalars.items())]
        returned = ", ".join(self.stored[r] for r in self.results)
        body = "".join(f"  {s}\n" for s in self.statements)
        return Written(
            f"def fused({', '.join(given)}) -> ({returned}) {{\n{body}}}",
            tuple(self.parameters),
            tuple(self.scalars),
            tuple(self.results),
            tuple(self.orders[p] for p in self.parameters),
            tuple(self.orders[r] for r in self.results),
            tuple(self.sizes.values()),
            self.names,
        )

    # ---- names

    def _size(self, s: Any) -> str:
        k = key(s)
        if isinstance(k, int):
            return str(k)
        if k not in self.sizes:
            raise Unsuited(f"no tensor that goes in has the size {k}")
        return self.sizes[k]

    def _declared_size(self, s: Any) -> str:
        k = key(s)
        return str(k) if isinstance(k, int) else self.sizes.setdefault(k, f"N{len(self.sizes)}")

    def _parameter(self, node: Node) -> None:
        if node in self.parameters:
            return
        x = value(node)
        name = self.parameters[node] = f"x{len(self.parameters)}"
        self.names[name] = node.name
        order = self.orders[node] = stored_order(x)
        dims = ",".join(self._declared_size(x.shape[d]) for d in order) or "1"
        self.declared.append(f"{DTYPES[x.dtype]}({dims}) {name}")
        if not order:
            self.values[node] = Value(x.dtype, (), lambda _: f"{name}(0)")
        else:
            self.values[node] = Value(x.dtype, tuple(x.shape), _access(name, order))

    def _operand(self, a: Any, dtype: Any, shape: Sequence[Any], plain: bool) -> Callable[[Index], str]:
        """The expression of an argument at an index of a result of a shape."""
        if not isinstance(a, torch.fx.Node):
            text = typed_literal(a, dtype) if plain else literal(a, dtype)
            return lambda _: text
        if not is_tensor(a):
            name = self.scalars.setdefault(a, f"k{len(self.scalars)}")
            self.names[name] = a.name
            return lambda _: cast(name, _number_type(a), dtype)
        v = self.read(a)
        skipped = len(shape) - len(v.shape)
        ones = [key(s) == 1 for s in v.shape]

        def at(index: Index) -> str:
            own = tuple("0" if one else index[skipped + k] for k, one in enumerate(ones))
            return cast(v.at(own), v.dtype, dtype)

        return at

    def read(self, node: Node) -> Value:
        base, step = base_of(node)
        x = value(node)
        if is_constant(base):
            v = _constant(base)
        else:
            v = self.values[base]
        return v if base is node else Value(x.dtype, tuple(x.shape), lambda index: v.at(step(index)))

    # ---- members

    def _member(self, node: Node) -> None:
        if is_second(node):
            return  # with the node that it is a result of
        x = value(node)
        if is_member(node):
            self._product(node)
            return
        if packet(node) is aten.cat:
            self._joined(node)
            return
        if is_reduction(node):
            self._reduction(node)
            return
        shape = tuple(x.shape)
        if packet(node) in LOOKUPS:
            at = self._lookup(node)
        elif packet(node) is aten.scatter:
            at = self._scatter(node)
        else:
            at = self._formula(node, shape)
        made = Value(x.dtype, shape, at)
        index = tuple(f"i{k}" for k in range(len(shape)))
        text = at(index)
        if self._inlined(node, text):
            self.values[node] = made
        else:
            self._store(node, shape, x.dtype, "=", text, index)

    def _formula(self, node: Node, shape: tuple[Any, ...]) -> Callable[[Index], str]:
        found = pointwise(node)
        assert found is not None
        plain = packet(node) in (aten.where, aten.masked_fill) or not any(map(is_tensor, found.operands))
        pairs = zip(found.operands, found.dtypes, strict=True)
        parts = [self._operand(a, t, shape, plain) for a, t in pairs]
        return lambda index: found.formula(*(p(index) for p in parts))

    def _inlined(self, node: Node, text: str) -> bool:
        if node in self.results or self.uses[node] != 1 or len(text) > _LONGEST:
            return False
        reader = self.readers[node]
        if packet(reader) is aten.cat:
            return True
        if packet(reader) in (*LOOKUPS, *VARIANCES) or is_member(reader):
            return False
        if is_reduction(reader):
            over = value(reader.args[0])
        else:
            over = value(reader)
            formula = pointwise(reader) if packet(reader) is not aten.scatter else None
            if formula is not None and formula.twice:
                return False
        return _counts(over) == _counts(value(node))

    def _store(
        self,
        node: Node,
        shape: Sequence[Any],
        dtype: Any,
        assign: str,
        text: str,
        index: Index,
        over: Sequence[str] = (),
        order: tuple[int, ...] | None = None,
    ) -> str:
        name = f"t{len(self.names)}"
        self.names[name] = node.name
        if order is None:
            order = stored_order(value(node))
        self.stored[node] = name
        self.orders[node] = order
        ranges = [f"{i} in 0:{self._size(s)}" for i, s in zip(index, shape, strict=True)]
        self._state(name, order, assign, text, index, [*ranges, *over])
        self.values[node] = Value(dtype, tuple(shape), _access(name, order))
        return name

    def _state(
        self, name: str, order: tuple[int, ...], assign: str, text: str, index: Index, where: list[str]
    ) -> None:
        left = f"({','.join(index[d] for d in order)})" if order else ""
        tail = f" where {', '.join(where)}" if where else ""
        self.statements.append(f"{name}{left} {assign} {text}{tail}")

    def _reduction(self, node: Node) -> None:
        source = self.read(node.args[0])
        dims = dims_of(node)
        rank = len(source.shape)
        several = packet(node) in VARIANCES
        first = value(node)[0] if packet(node) is aten.var_mean else value(node)
        dtype = first.dtype
        kept_dims = len(first.shape) == rank and bool(dims)
        full = tuple(f"r{d}" if d in dims else f"i{d}" for d in range(rank))
        shape = [s for d, s in enumerate(source.shape) if d not in dims]
        index = tuple(f"i{d}" for d in range(rank) if d not in dims)
        over = [f"r{d} in 0:{self._size(source.shape[d])}" for d in dims]
        text = cast(source.at(full), source.dtype, dtype)
        count = self._count([source.shape[d] for d in dims], dtype)

        def seen(v: Value) -> Value:
            """With the reduced dimensions where they are kept."""
            if not kept_dims:
                return v
            return Value(v.dtype, tuple(first.shape), lambda i: v.at(_without(i, dims)))

        def divided(v: Value, by: str) -> Value:
            return Value(v.dtype, v.shape, lambda i: f"({v.at(i)} / {by})")

        op = packet(node)
        if not several:
            self._store(node, shape, dtype, REDUCTIONS[op], text, index, over, tuple(range(len(shape))))
            made = self.values[node]
            made = divided(made, count) if op is aten.mean else made
            self._finish(node, made, seen, op is aten.mean, index, shape)
            return
        correction = node.kwargs.get("correction", 1)
        correction = 1 if correction is None else correction
        order = tuple(range(len(shape)))
        self._store(node, shape, dtype, "+=!", text, index, over, order)
        mean = divided(self.values[node], count)
        here = mean.at(index)
        self._store(node, shape, dtype, "+=!", f"({text} - {here}) * ({text} - {here})", index, over, order)
        less = count
        if correction != 0:
            less = f"fmax({count} - {literal(correction, dtype)}, {literal(0, dtype)})"
        variance = divided(self.values[node], less)
        if op is aten.var:
            self._finish(node, variance, seen, True, index, shape)
            return
        for m in self.members:
            if is_second(m) and m.args[0] is node:
                self._finish(m, variance if m.args[1] == 0 else mean, seen, True, index, shape)

    def _joined(self, node: Node) -> None:
        """Tensors one behind the other, a piecewise definition."""
        x = value(node)
        dim = joined_along(node)
        index = tuple(f"i{k}" for k in range(x.dim()))
        name = f"t{len(self.names)}"
        self.names[name] = node.name
        order = self.orders[node] = stored_order(x)
        start = 0
        for part in node.args[0]:
            size = int(value(part).shape[dim])
            own = index if start == 0 else (*index[:dim], f"{index[dim]} - {start}", *index[dim + 1 :])
            text = cast(self.read(part).at(own), value(part).dtype, x.dtype)
            ranges = [f"{i} in 0:{self._size(s)}" for i, s in zip(index, x.shape, strict=True)]
            ranges[dim] = f"{index[dim]} in {start}:{start + size}"
            self._state(name, order, "=", text, index, ranges)
            start += size
        self.stored[node] = name
        self.values[node] = Value(x.dtype, tuple(x.shape), _access(name, order))

    def _product(self, node: Node) -> None:
        """A sum of products, and what is added to it as a statement or an expression of its own."""
        made = product(node)
        assert made is not None
        x = value(node)
        shape = tuple(x.shape)
        index = tuple(f"i{k}" for k in range(len(shape)))
        over = [f"{r} in 0:{n}" for r, n in made.over]
        text = " * ".join(self._factor(f) for f in made.factors)
        if made.conditions:
            text = f"{' && '.join(made.conditions)} ? {text} : 0"
        self._store(node, shape, x.dtype, "+=!", text, index, over, stored_order(x))
        if made.added is None:
            return
        total = self.values[node]
        at = self._operand(made.added, x.dtype, shape, plain=False)
        along = made.added_along

        def added(index: Index) -> str:
            own = index if along is None else (*("0",) * (len(index) - 1), index[along])
            return f"({total.at(index)} + {at(own)})"

        self.values[node] = Value(x.dtype, shape, added)
        if node in self.results:
            self._store(node, shape, x.dtype, "=", added(index), index)

    def _factor(self, factor: Factor) -> str:
        """An element of a factor, 0 where it is outside of the tensor."""
        base, _ = base_of(factor.node)
        if not any(factor.outside):
            return self.read(factor.node).at(factor.index)
        name = self.parameters.get(base) or self.stored.get(base)
        order = self.orders[base] if name else ()
        if (
            name
            and base is factor.node
            and self.values[base].at(factor.index) == _access(name, order)(factor.index)
        ):
            modes = ",".join("zero" if factor.outside[d] else "none" for d in order)
            return f"{name}[{modes}]({','.join(factor.index[d] for d in order)})"
        shape = value(factor.node).shape
        inside = [
            f"{i} >= 0 && {i} < {self._size(n)}"
            for i, n, out in zip(factor.index, shape, factor.outside, strict=True)
            if out
        ]
        return f"({' && '.join(inside)} ? {self.read(factor.node).at(factor.index)} : 0)"

    def _finish(
        self,
        node: Node,
        made: Value,
        seen: Callable[[Value], Value],
        changed: bool,
        index: Index,
        shape: Sequence[Any],
    ) -> None:
        """The value of a reduction: a statement of its own where it is a result that needs one."""
        self.values[node] = seen(made)
        if node not in self.results:
            return
        x = value(node)
        reordered = stored_order(x) != tuple(range(x.dim()))
        if not changed and not reordered and x.dim() == len(shape):
            return
        whole = tuple(f"i{k}" for k in range(x.dim()))
        self._store(node, tuple(x.shape), x.dtype, "=", self.values[node].at(whole), whole)

    def _count(self, extents: Sequence[Any], dtype: Any) -> str:
        fixed, names = 1, list[str]()
        for s in extents:
            text = self._size(s)
            if text.isdigit():
                fixed *= int(text)
            else:
                names.append(f"{DTYPES[dtype]}({text})")
        known = [literal(fixed, dtype)] if fixed != 1 or not names else []
        return (
            " * ".join([*names, *known])
            if len(names) + len(known) == 1
            else f"({' * '.join([*names, *known])})"
        )

    # ---- lookups

    def _lookup(self, node: Node) -> Callable[[Index], str]:
        op = packet(node)
        table = self.read(node.args[0])
        if op is aten.embedding:
            ids = self.read(node.args[1])
            n = len(ids.shape)
            return lambda index: table.at((ids.at(_zeros(ids, index[:n])), *index[n:]))
        if op is aten.gather:
            d, ids = node.args[1] % len(table.shape), self.read(node.args[2])
            return lambda index: table.at((*index[:d], ids.at(_zeros(ids, index)), *index[d + 1 :]))
        given = node.args[1]
        places = [k for k, i in enumerate(given) if i is not None]
        several = [self.read(given[k]) for k in places]
        rank = max(len(v.shape) for v in several)
        first = places[0]

        def at(index: Index) -> str:
            inner = index[first : first + rank]
            found: list[str] = []
            for k, v in zip(places, several, strict=True):
                text = v.at(_zeros(v, inner[rank - len(v.shape) :]))
                found.append(f"({text} < 0 ? {text} + {int(table.shape[k])} : {text})")
            return table.at((*index[:first], *found, *index[first + rank :]))

        return at

    def _scatter(self, node: Node) -> Callable[[Index], str]:
        base, d, at, number = node.args
        x = value(node)
        d = d % x.dim()
        under = self._operand(base, x.dtype, tuple(x.shape), plain=True)
        ids = self.read(at)
        text = typed_literal(number, x.dtype)

        def element(index: Index) -> str:
            row = (*index[:d], "0", *index[d + 1 :])
            return f"({index[d]} == {ids.at(_zeros(ids, row))} ? {text} : {under(index)})"

        return element


def _number_type(node: Node) -> Any:
    return torch.float64 if isinstance(value(node), (float, torch.SymFloat)) else torch.int64


def _read_by(node: Node) -> list[Node]:
    """What the statements of a member read; a product reads no tensor of which it needs the shape alone."""
    if not is_member(node):
        return reads(node)
    made = product(node)
    assert made is not None
    some = [f.node for f in made.factors] + ([] if made.added is None else [made.added])
    return [base for base in (base_of(n)[0] for n in some) if not is_constant(base)]


def _access(name: str, order: tuple[int, ...]) -> Callable[[Index], str]:
    return lambda index: f"{name}({','.join(index[d] for d in order)})" if order else name


def _zeros(v: Value, index: Index) -> Index:
    return tuple("0" if key(s) == 1 else i for s, i in zip(v.shape, index, strict=True))


def _without(index: Index, dims: Sequence[int]) -> Index:
    return tuple(i for d, i in enumerate(index) if d not in dims)


def _counts(x: Any) -> list[str]:
    return sorted(str(k) for k in keys(x.shape) if k != 1)


def _constant(node: Node) -> Value:
    x = value(node)
    number = filled(node)
    if number is not None:
        text = typed_literal(number, x.dtype)
        return Value(x.dtype, tuple(x.shape), lambda _: text)
    found = counted(node)
    assert found is not None
    start, step = found
    kind = DTYPES[x.dtype]
    return Value(x.dtype, tuple(x.shape), lambda index: f"{kind}({start} + {step} * ({index[0]}))")

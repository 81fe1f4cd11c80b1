"""Reading through views: which element of its base an element of a view is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from operator import getitem
from typing import Any

torch: Any = import_module("torch")  # whose own annotations leave much unsaid
aten: Any = torch.ops.aten
Index = tuple[str, ...]
Map = Callable[[Index], Index]  # of an index of the view to one of its base
Node = Any
_SAME = (aten.alias, aten.detach)
_RESHAPES = (aten.view, aten.reshape, aten._unsafe_view)
_SPLITS = (aten.split_with_sizes, aten.split, aten.unbind, aten.chunk)


def packet(node: Node) -> Any:
    """The operator of a node without its overload, else its target."""
    return getattr(node.target, "overloadpacket", node.target)


def value(node: Node) -> Any:
    return node.meta.get("val")


def is_tensor(x: Any) -> bool:
    return isinstance(x, torch.fx.Node) and isinstance(value(x), torch.Tensor)


def key(size: Any) -> int | str:
    """A size, so that equal ones are equal without a guard."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else str(expression)


def keys(shape: Sequence[Any]) -> list[int | str]:
    return [key(s) for s in shape]


def stored_order(x: Any) -> tuple[int, ...]:
    """The dimensions of a tensor from the outermost to the innermost in memory."""
    rank = x.dim()
    strides = [_hint(s) for s in x.stride()]
    order = [d for d in range(rank) if key(x.shape[d]) != 1]
    found = iter(sorted(order, key=lambda d: -strides[d]))
    return tuple(d if key(x.shape[d]) == 1 else next(found) for d in range(rank))


def _hint(s: Any) -> int:
    if isinstance(s, int):
        return s
    hint = s.node.hint
    return int(hint) if hint is not None else 1


def base_of(node: Node) -> tuple[Node, Map]:
    """What a node is a view of, through all views that can be written as subscripts, and the map."""
    maps: list[Map] = []
    while (found := _step(node)) is not None:
        node, step = found
        maps.append(step)

    def whole(index: Index) -> Index:
        for step in maps:
            index = step(index)
        return index

    return node, whole


def is_view(node: Node) -> bool:
    return _step(node) is not None


def _step(node: Node) -> tuple[Node, Map] | None:
    if node.op != "call_function" or not node.args:
        return None
    op = packet(node)
    if op is getitem:
        return _part(node)
    if node.target is aten.view.dtype:  # the same bits as another type
        return None
    base = node.args[0]
    if not is_tensor(base) or not is_tensor(node):
        return None
    shape = keys(value(base).shape)
    out = keys(value(node).shape)
    step: Map | None = None
    if op in _SAME:
        step = _same
    elif op is aten.permute:
        step = _permuted([d % len(shape) for d in node.args[1]])
    elif op is aten.t or op is aten.transpose:
        order = list(range(len(shape)))
        a, b = node.args[1:3] if op is aten.transpose else (0, -1)
        if order:
            order[a], order[b] = order[b], order[a]
        step = _permuted(order)
    elif op in (aten.unsqueeze, aten.squeeze, *_RESHAPES):
        step = reshaped(shape, out)
    elif op is aten.expand:
        step = _expanded(shape, len(out))
    elif op is aten.slice:
        step = _sliced(node, shape)
    elif op is aten.select:
        d: int = node.args[1] % len(shape)
        at: Any = node.args[2]
        size = shape[d]
        if isinstance(at, int) and (at >= 0 or isinstance(size, int)):
            step = _inserted(d, at if isinstance(size, str) or at >= 0 else at + size)
    return None if step is None else (base, step)


def _same(index: Index) -> Index:
    return index


def _permuted(order: list[int]) -> Map:
    def step(index: Index) -> Index:
        found = [""] * len(order)
        for k, d in enumerate(order):
            found[d] = index[k]
        return tuple(found)

    return step


def _inserted(d: int, at: int) -> Map:
    return lambda index: (*index[:d], str(at), *index[d:])


def _expanded(shape: list[int | str], rank: int) -> Map:
    skipped = rank - len(shape)
    return lambda index: tuple("0" if s == 1 else index[skipped + k] for k, s in enumerate(shape))


def _shifted(d: int, start: int, step: int) -> Map:
    def move(index: Index) -> Index:
        scaled = index[d] if step == 1 else f"{step}*({index[d]})"
        moved = scaled if start == 0 else f"{scaled} + {start}"
        return (*index[:d], moved, *index[d + 1 :])

    return move


def _sliced(node: Node, shape: list[int | str]) -> Map | None:
    given: tuple[Any, ...] = (*node.args[1:], *(0, None, None, 1)[len(node.args) - 1 :])
    d: int = given[0] % len(shape)
    start: Any = given[1] or 0
    step: Any = given[3]
    if not isinstance(start, int) or not isinstance(step, int):
        return None
    size = shape[d]
    if isinstance(size, int):
        start = min(start if start >= 0 else max(size + start, 0), size)
    return None if start < 0 else _shifted(d, start, step)


def _part(node: Node) -> tuple[Node, Map] | None:
    """A part of what splits a tensor."""
    source, at = node.args
    if (
        not isinstance(source, torch.fx.Node)
        or packet(source) not in _SPLITS
        or not is_tensor(source.args[0])
    ):
        return None
    base = source.args[0]
    parts = value(source)
    op = packet(source)
    rank = value(base).dim()
    if op is aten.unbind:
        d = source.args[1] if len(source.args) > 1 else 0
        return base, _inserted(d % rank, at)
    d = (source.args[2] if len(source.args) > 2 else source.kwargs.get("dim", 0)) % rank
    before = keys([p.shape[d] for p in parts[:at]])
    if any(isinstance(n, str) for n in before):
        return None
    return base, _shifted(d, sum(int(n) for n in before), 1)


def reshaped(shape: list[int | str], out: list[int | str]) -> Map | None:
    """The map of a reshape that drops or adds extents of 1 or splits dimensions; None for others."""
    parts: list[list[tuple[int, int]] | str] = []  # per dimension of the base: (position, stride), or "0"
    k = 0
    for size in shape:
        if size == 1:
            parts.append("0")
            continue
        while k < len(out) and out[k] == 1:
            k += 1
        if k < len(out) and out[k] == size:
            parts.append([(k, 1)])
            k += 1
            continue
        taken: list[int] = []
        product = 1
        while isinstance(size, int) and product < size and k < len(out):
            extent = out[k]
            if not isinstance(extent, int) or extent == 0:
                return None
            product *= extent
            taken.append(k)
            k += 1
        if not taken or product != size:
            return None
        strides: list[tuple[int, int]] = []
        stride = 1
        for position in reversed(taken):
            strides.append((position, stride))
            stride *= int(out[position])
        parts.append(strides[::-1])
    if any(e != 1 for e in out[k:]):
        return None

    def step(index: Index) -> Index:
        return tuple(
            p
            if isinstance(p, str)
            else " + ".join(index[at] if s == 1 else f"{s}*({index[at]})" for at, s in p)
            for p in parts
        )

    return step

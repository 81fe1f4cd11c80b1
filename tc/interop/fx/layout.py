"""Two-dimensional convolutions on a CPU read and write tensors whose channels are innermost in memory.

oneDNN's convolutions are faster on such tensors (`torch.channels_last`).  A copy stands where a convolution
reads another tensor, and what is computed from its result keeps the layout.  Operators that are not known to
work on any layout, and outputs that the caller sees, get the one they were traced with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from operator import getitem
from typing import Any

from tc.interop.fx.operators import is_constant, is_reduction, is_size, obstacle
from tc.interop.fx.views import Node, aten, is_tensor, is_view, key, keys, packet, stored_order, value

torch: Any = import_module("torch")
_CONVERTED = {aten.convolution: 1, aten.convolution_backward: 2}  # how many arguments, before the weights
_TYPES = (torch.float32, torch.bfloat16)
_ANY_LAYOUT = (
    *_CONVERTED,
    *(getattr(aten, f"{n}{s}") for n in ("max_pool2d_with_indices", "avg_pool2d") for s in ("", "_backward")),
    *(getattr(aten, f"_adaptive_avg_pool2d{s}") for s in ("", "_backward")),
    *(aten.cat, aten.constant_pad_nd, aten.copy_, aten.clone, aten.mm, aten.addmm, aten.bmm),
    getitem,
)
_RESHAPES = (aten.view.default, aten._unsafe_view.default)


class Unsuitable(Exception):
    """A graph whose layouts have to stay as they were traced."""


def channels_innermost(gm: Any, inputs: Sequence[Any], fixed: Callable[[int], bool]) -> Any:
    """The graph with convolutions on tensors whose channels are innermost, or itself where nothing changes.

    `inputs` are the fake tensors that it is compiled for, whose strides may differ from those it was traced
    with; the outputs that are `fixed` keep the strides they were traced with.
    """
    nodes = list(gm.graph.nodes)
    given = dict(zip((n for n in nodes if n.op == "placeholder"), inputs, strict=True))
    moved = any(is_tensor(n) and not _same_strides(value(n), x) for n, x in given.items())
    if not moved and not any(_is_converted(n) for n in nodes):
        return gm
    try:
        return _Rewriting(gm, given, fixed, convert=True).graph()
    except Unsuitable:
        return _Rewriting(gm, given, fixed, convert=False).graph() if moved else gm


def _is_converted(node: Node) -> bool:
    """Whether a node is a convolution over two dimensions on a CPU."""
    if node.op != "call_function" or packet(node) not in _CONVERTED:
        return False
    some = [value(a) for a in node.args[: _CONVERTED[packet(node)] + 1]]
    fit = all(x.dim() == 4 and x.device.type == "cpu" and x.dtype in _TYPES for x in some)
    return fit and torch.backends.mkldnn.is_available()


class _Rewriting:
    """A copy of a graph in which each node carries the strides that it really has."""

    def __init__(self, gm: Any, given: dict[Node, Any], fixed: Callable[[int], bool], convert: bool) -> None:
        self._gm = gm
        self._given = given
        self._fixed = fixed
        self._convert = convert
        self._graph = torch.fx.Graph()
        self._new: dict[Node, Node] = {}
        self._copies: dict[tuple[Node, object], Node] = {}
        self._mode = torch._guards.detect_fake_mode([value(n) for n in given])

    def graph(self) -> Any:
        for n in self._gm.graph.nodes:
            if n.op == "output":
                outputs = [self._output(a, self._fixed(k)) for k, a in enumerate(n.args[0])]
                self._graph.output(outputs).meta.update(n.meta)
            else:
                self._new[n] = self._node(n)
        made = torch.fx.GraphModule(self._gm, self._graph)
        made.train(self._gm.training)
        return made

    def _output(self, a: Any, fixed: bool) -> Any:
        """What a graph returns; of what is saved for the pass backward, the copy that convolutions read."""
        if not isinstance(a, torch.fx.Node):
            return a
        return self._as_traced(a) if fixed else self._copies.get((self._new[a], "channels"), self._new[a])

    def _mapped(self, a: Any) -> Any:
        return torch.fx.node.map_arg(a, self._new.__getitem__)

    def _node(self, n: Node) -> Node:
        if n.op != "call_function":
            if n.op not in ("placeholder", "get_attr"):
                raise Unsuitable
            new = self._graph.node_copy(n, self._new.__getitem__)
            if n in self._given and is_tensor(n):
                new.meta["val"] = self._given[n]
                if not self._convert:
                    self._new[n] = new
                    new = self._as_traced(n)
            return new
        if not isinstance(n.target, torch._ops.OpOverload) and not is_size(n) and n.target is not getitem:
            raise Unsuitable
        if self._convert and _is_converted(n):
            count = _CONVERTED[packet(n)]
            args = (*(self._innermost(a) for a in n.args[:count]), *self._mapped(n.args[count:]))
            return self._call(n, n.target, args, self._mapped(n.kwargs))
        if _takes_any_layout(n):
            target = aten.reshape.default if n.target in _RESHAPES else n.target
            alike = self._alike(n)
            args, kwargs = torch.fx.node.map_arg((n.args, dict(n.kwargs)), alike)
            return self._call(n, target, args, kwargs)
        args, kwargs = torch.fx.node.map_arg((n.args, dict(n.kwargs)), self._as_traced)
        return self._call(n, n.target, args, kwargs)

    def _call(self, like: Node | None, target: Any, args: Any, kwargs: Any) -> Node:
        new = self._graph.create_node("call_function", target, args, kwargs, name=like.name if like else None)
        new.meta = dict(like.meta) if like else {}
        values = torch.fx.node.map_arg((tuple(args), dict(kwargs)), value)
        if like is None or not is_size(like):
            with self._mode:
                new.meta["val"] = target(*values[0], **values[1])
        return new

    def _alike(self, n: Node) -> Callable[[Node], Node]:
        """How an operand is read: of those that are joined or go into a formula, all have one layout."""
        some = [a for a in n.all_input_nodes if is_tensor(a) and value(a).dim() == 4]
        joins = packet(n) is aten.cat or (not is_view(n) and obstacle(n) is None and not is_reduction(n))
        if not joins or not any(_has_innermost(value(self._new[a])) for a in some):
            return self._new.__getitem__
        shape = keys(value(n).shape)

        def read(a: Node) -> Node:
            whole = a in some and (packet(n) is aten.cat or keys(value(a).shape) == shape)
            return self._innermost(a) if whole else self._new[a]

        return read

    def _innermost(self, a: Node) -> Node:
        new = self._new[a]
        if _has_innermost(value(new)):
            return new
        kwargs = {"memory_format": torch.channels_last}
        return self._copied(new, "channels", lambda: self._call(None, aten.clone.default, (new,), kwargs))

    def _as_traced(self, a: Node) -> Node:
        """A node whose tensor has the strides that it was traced with."""
        new, traced = self._new[a], value(a)
        if not is_tensor(a) or _same_strides(traced, value(new)):
            return new
        order = stored_order(traced)
        if key(traced.storage_offset()) != 0 or not traced.permute(order).is_contiguous():
            raise Unsuitable

        def restored() -> Node:
            how = {"memory_format": torch.contiguous_format}
            if list(order) == sorted(order):
                return self._call(None, aten.clone.default, (new,), how)
            turned = self._call(None, aten.permute.default, (new, list(order)), {})
            dense = self._call(None, aten.clone.default, (turned,), how)
            back = [order.index(d) for d in range(len(order))]
            return self._call(None, aten.permute.default, (dense, back), {})

        return self._copied(new, order, restored)

    def _copied(self, new: Node, how: object, make: Callable[[], Node]) -> Node:
        found = self._copies.get((new, how))
        if found is None:
            found = self._copies[new, how] = make()
        return found


def _takes_any_layout(node: Node) -> bool:
    if packet(node) in _ANY_LAYOUT or node.target in _RESHAPES or is_size(node):
        return True
    return is_view(node) or is_constant(node) or obstacle(node) is None


def _has_innermost(x: Any) -> bool:
    return x.is_contiguous(memory_format=torch.channels_last)


def _same_strides(a: Any, b: Any) -> bool:
    """Whether the elements of two tensors of one shape are at the same places in memory."""
    pairs = zip(a.shape, a.stride(), b.stride(), strict=True)
    same = all(key(s) == key(t) for n, s, t in pairs if key(n) != 1)
    return same and key(a.storage_offset()) == key(b.storage_offset())

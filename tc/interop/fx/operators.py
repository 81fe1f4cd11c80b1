"""What a node is to a def: a formula of elements, a reduction, a lookup, a constant, or none of these."""

from __future__ import annotations

from importlib import import_module
from operator import getitem
from typing import Any

from tc.interop.fx.pointwise import COPIES, DTYPES, pointwise
from tc.interop.fx.products import SAID, is_member
from tc.interop.fx.views import Node, aten, base_of, is_tensor, is_view, key, keys, packet, value

torch: Any = import_module("torch")
prims: Any = torch.ops.prims
REDUCTIONS = {aten.sum: "+=!", aten.mean: "+=!", aten.amax: "max=!", aten.amin: "min=!"}
VARIANCES = (aten.var, aten.var_mean)
LOOKUPS = (aten.embedding, aten.index, aten.gather)
_FILLED = {aten.full: None, aten.zeros: 0, aten.ones: 1, aten.scalar_tensor: None}


def is_constant(node: Node) -> bool:
    """Whether each element is a number or its own position."""
    if node.op != "call_function" or not is_tensor(node) or value(node).dtype not in DTYPES:
        return False
    return filled(node) is not None or counted(node) is not None


def filled(node: Node) -> float | int | bool | None:
    op = packet(node)
    if op not in _FILLED:
        return None
    if _FILLED[op] is not None:
        return _FILLED[op]
    number = node.args[0 if op is aten.scalar_tensor else 1]
    return number if isinstance(number, (int, float, bool)) else None


def counted(node: Node) -> tuple[int, int] | None:
    """The start and the step of what counts."""
    op = packet(node)
    if op is prims.iota:
        start, step = node.kwargs.get("start", 0), node.kwargs.get("step", 1)
    elif op is aten.arange and value(node).dtype is torch.int64:
        args = list(node.args)
        start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) > 2 else 1)
    else:
        return None
    return (start, step) if isinstance(start, int) and isinstance(step, int) else None


def is_reduction(node: Node) -> bool:
    return packet(node) in REDUCTIONS or packet(node) in VARIANCES


def is_second(node: Node) -> bool:
    """Whether a node takes a result out of one that has several."""
    return packet(node) is getitem and packet(node.args[0]) is aten.var_mean


def is_copy(node: Node) -> bool:
    return packet(node) in COPIES or packet(node) is aten.cat


def joined_along(node: Node) -> int:
    """The dimension along which a node joins tensors."""
    dim: int = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    return dim % value(node).dim()


def dims_of(node: Node) -> list[int]:
    """The dimensions that a reduction reduces, in order."""
    rank = value(node.args[0]).dim()
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if node.target in (aten.sum.default, aten.mean.default) or given is None:
        return list(range(rank))
    some = [given] if isinstance(given, int) else list(given)
    return sorted(d % rank for d in some) if some else list(range(rank))


def reads(node: Node) -> list[Node]:
    """The nodes that a member reads, views seen through, as often as its formula says them."""
    if is_second(node):
        return []
    found: list[Node] = []
    for a in node.all_input_nodes:
        if is_tensor(a):
            base = base_of(a)[0]
            if not is_constant(base):
                found.append(base)
    return found


def sizes_read(node: Node) -> list[Node]:
    """The numbers that a member needs, and the views and constants between it and what it reads."""
    found: dict[Node, None] = {}
    seen = {node}
    stack = [node]
    while stack:
        for a in stack.pop().all_input_nodes:
            if a in seen:
                continue
            seen.add(a)
            if is_size(a):
                found[a] = None
            elif not is_tensor(a) or is_view(a) or is_constant(a):
                stack.append(a)
    return list(found)


def obstacle(node: Node) -> str | None:
    """Why a node cannot be part of a def, or None where it can."""
    if node.op != "call_function":
        return "no operator"
    if is_second(node) or is_member(node):
        return None
    if is_view(node):
        return "a view"
    if is_constant(node):
        return "a constant"
    op = packet(node)
    several = op is aten.var_mean
    results = value(node) if several else (value(node),)
    if not all(isinstance(x, torch.Tensor) for x in results):
        return "results that are no tensors" if not is_size(node) else "a size"
    tensors = [*results, *(value(a) for a in node.all_input_nodes if is_tensor(a))]
    for x in tensors:
        if x.dtype not in DTYPES:
            return f"the type {str(x.dtype).removeprefix('torch.')}"
        if x.layout is not torch.strided or x.is_sparse:
            return "a layout that is not strided"
        if any(s == 0 for s in keys(x.shape)):
            return "no elements"
        if any(u for s in x.shape if not isinstance(s, int) for u in _unbacked(s)):
            return "a size that depends on data"
    if any(x.device != tensors[0].device for x in tensors) or tensors[0].device.type not in ("cpu", "cuda"):
        return "several devices, or one that tc has not"
    if op in REDUCTIONS or op in VARIANCES:
        return _reduction_obstacle(node)
    if op in LOOKUPS:
        return _lookup_obstacle(node)
    if op is aten.scatter:
        return _scatter_obstacle(node)
    if op is aten.cat:
        return _joined_obstacle(node)
    try:
        found = pointwise(node)
    except (RuntimeError, TypeError, IndexError, ValueError) as e:
        return f"arguments that are not understood ({e})"
    if found is None:
        return node.meta.get(SAID, "PyTorch has a kernel for it" if _is_product(op) else "no formula")
    if not all(isinstance(x, (int, float)) or is_tensor(x) or _is_number(x) for x in found.operands):
        return "an argument that is no number and no tensor"
    return None


def is_size(node: Node) -> bool:
    return isinstance(value(node), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def _is_product(op: Any) -> bool:
    words = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot", "convolution", "attention")
    return any(w in getattr(op, "__name__", "").split("_") for w in words)


def _is_number(x: Any) -> bool:
    return isinstance(x, torch.fx.Node) and isinstance(value(x), (torch.SymInt, torch.SymFloat, int, float))


def _unbacked(size: Any) -> list[Any]:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols  # slow to import

    return list(free_unbacked_symbols(size))


def _reduction_obstacle(node: Node) -> str | None:
    given = value(node.args[0])
    if given.dim() == 0:
        return "a reduction of a single number"
    op = packet(node)
    if given.dtype is torch.bool and op is not aten.sum:
        return "a reduction of bool"
    if op in VARIANCES and not isinstance(node.kwargs.get("correction", 1), (int, float, type(None))):
        return "a correction that is no number"
    if op in VARIANCES and str(node.target).rpartition(".")[2] != "correction":
        return "no formula"
    return None


def _lookup_obstacle(node: Node) -> str | None:
    op = packet(node)
    if op is aten.embedding:
        return None
    if op is aten.gather:
        return None if value(node.args[0]).dim() > 0 and value(node).dim() > 0 else "a lookup in one number"
    table, at = node.args
    places = [k for k, i in enumerate(at) if i is not None]
    if not all(is_tensor(at[k]) for k in places):
        return "an index that is no tensor"
    if any(value(at[k]).dtype in (torch.bool, torch.uint8) for k in places):
        return "an index of bool"
    if places != list(range(places[0], places[-1] + 1)):
        return "indices that are not beside each other"
    if any(not isinstance(key(value(table).shape[k]), int) for k in places):
        return "an index into a dimension of a size that varies"
    return None


def _joined_obstacle(node: Node) -> str | None:
    dim = joined_along(node)
    if any(value(a).dim() != value(node).dim() for a in node.args[0]):
        return "tensors of several ranks"  # empty ones of one dimension may be among others
    if not all(isinstance(key(value(a).shape[dim]), int) for a in node.args[0]):
        return "a size that varies where tensors are joined"
    return None


def _scatter_obstacle(node: Node) -> str | None:
    if node.target is not aten.scatter.value or node.kwargs or value(node).dim() == 0:
        return "no formula"
    base, d, at, number = node.args
    if not isinstance(number, (int, float, bool)):
        return "no formula"
    shape, places = keys(value(base).shape), keys(value(at).shape)
    shape[d] = 1
    return None if shape == places else "a scatter of more than one element to a row"

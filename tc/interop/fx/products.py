"""Matrix products, convolutions over two dimensions and the gradients of these, as sums of products.

A product of fixed sizes on a CPU can be a statement of a def.  Whether it becomes one, `choice.py` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tc.interop.fx.views import Node, aten, is_tensor, keys, packet, value

torch: Any = import_module("torch")
_TYPES = (torch.float32, torch.float64)
_MARK = "tc_product"
SAID = "tc_product_said"  # why a product is none of ours


def input_gradient(dy: Any, x: Any, w: Any, *how: Any) -> Any:
    """The gradient of a convolution to x; `how` are the arguments of aten.convolution behind the bias."""
    return aten.convolution_backward(dy, x, w, None, *how, [True, False, False])[0]


def weight_gradient(dy: Any, x: Any, w: Any, *how: Any) -> Any:
    return aten.convolution_backward(dy, x, w, None, *how, [False, True, False])[1]


@dataclass(frozen=True, slots=True)
class Factor:
    """A tensor and its subscripts; those that are `outside` may be beyond the tensor, which is 0 there."""

    node: Node
    index: tuple[str, ...]
    outside: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Product:
    """An element (i0, i1, …) of a result: the sum over `over` of the terms that meet the conditions."""

    factors: tuple[Factor, Factor]
    over: tuple[tuple[str, int], ...]
    conditions: tuple[str, ...] = ()
    added: Node | None = None
    added_along: int | None = None  # the dimension of the result that the tensor added has


def is_member(node: Node) -> bool:
    """Whether a product is to be a statement of a def."""
    return bool(node.meta.get(_MARK))


def set_member(node: Node, becomes: bool) -> None:
    node.meta[_MARK] = becomes


def product(node: Node) -> Product | None:
    """The sum of products that a node is, where it can be written and its sizes are fixed."""
    if node.op != "call_function" or not is_tensor(node):
        return None
    some = [value(a) for a in node.all_input_nodes if is_tensor(a)]
    for x in (value(node), *some):
        if x.dtype not in _TYPES or x.device.type != "cpu" or x.layout is not torch.strided:
            return None
        if not all(isinstance(n, int) and n > 0 for n in keys(x.shape)):
            return None
    op = packet(node)
    if op in (aten.mm, aten.addmm, aten.bmm):
        return _matrices(node)
    if op is aten.convolution:
        x, w, bias, *how = node.args
        return _Convolution.of(x, w, how).forward(value(node), bias) if _fits(x, w, how) else None
    if op in (input_gradient, weight_gradient):
        dy, x, w, *how = node.args
        if not _fits(x, w, how):
            return None
        found = _Convolution.of(x, w, how)
        return found.to_input(dy) if op is input_gradient else found.to_weights(dy)
    return None


def _matrices(node: Node) -> Product | None:
    op = packet(node)
    added = node.args[0] if op is aten.addmm else None
    if any(key_ in node.kwargs and node.kwargs[key_] != 1 for key_ in ("alpha", "beta")):
        return None
    a, b = node.args[1:3] if op is aten.addmm else node.args[:2]
    batch = ("i0",) if op is aten.bmm else ()
    row, column = f"i{len(batch)}", f"i{len(batch) + 1}"
    length = int(value(a).shape[-1])
    return Product(
        (Factor(a, (*batch, row, "r0")), Factor(b, (*batch, "r0", column))), (("r0", length),), (), added
    )


def _fits(x: Any, w: Any, how: Sequence[Any]) -> bool:
    """Whether a convolution is over two dimensions, and dense or of each channel alone."""
    stride, padding, dilation, transposed, beyond, groups = how
    if value(x).dim() != 4 or value(w).dim() != 4:
        return False
    given = (*stride, *padding, *dilation, *beyond)
    if len(given) != 8 or not all(isinstance(n, int) for n in given):
        return False
    channels, filters = int(value(x).shape[1]), int(value(w).shape[0])
    return groups == 1 or (groups == channels == filters and int(value(w).shape[1]) == 1 and not transposed)


@dataclass(frozen=True, slots=True)
class _Convolution:
    """`small` and `large` are a convolution's result and what it is of; transposed, the other way round.

    With o of the small tensor, s the stride, d the dilation and p the padding, the weight at u joins o with
    the place s*o + d*u - p of the large one.
    """

    x: Node
    w: Node
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    transposed: bool
    alone: bool  # each channel for itself

    @staticmethod
    def of(x: Node, w: Node, how: Sequence[Any]) -> _Convolution:
        stride, padding, dilation, transposed, _, groups = how
        alone = groups > 1
        return _Convolution(x, w, tuple(stride), tuple(padding), tuple(dilation), transposed, alone)

    def forward(self, y: Any, bias: Any) -> Product:
        made = self._to_large(self.x, y) if self.transposed else self._to_small(self.x, y)
        return Product(made.factors, made.over, made.conditions, bias, None if bias is None else 1)

    def to_input(self, dy: Node) -> Product:
        x = value(self.x)
        return self._to_small(dy, x) if self.transposed else self._to_large(dy, x)

    def to_weights(self, dy: Node) -> Product:
        small, large = (self.x, dy) if self.transposed else (dy, self.x)
        n, h, v = (int(value(small).shape[d]) for d in (0, 2, 3))
        other = "i0" if self.alone else "i1"
        places = [self._place(f"r{k + 1}", f"i{k + 2}", k) for k in range(2)]
        extents = [(h, int(value(self.w).shape[2])), (v, int(value(self.w).shape[3]))]
        outside = [self._leaves(large, k, *extents[k]) for k in range(2)]
        return Product(
            (
                Factor(small, ("r0", "i0", "r1", "r2")),
                Factor(large, ("r0", other, *places), (False, False, *outside)),
            ),
            (("r0", n), ("r1", h), ("r2", v)),
        )

    def _place(self, o: str, u: str, k: int) -> str:
        return _sum((self.stride[k], o), (self.dilation[k], u), (-self.padding[k], ""))

    def _leaves(self, large: Node, k: int, places: int, weights: int) -> bool:
        last = self.stride[k] * (places - 1) + self.dilation[k] * (weights - 1) - self.padding[k]
        return self.padding[k] > 0 or last >= int(value(large).shape[2 + k])

    def _to_small(self, large: Node, small: Any) -> Product:
        """A convolution of the large tensor."""
        w = value(self.w)
        window = [int(n) for n in w.shape[2:]]
        places = [self._place(f"i{k + 2}", f"r{k + 1}", k) for k in range(2)]
        outside = [self._leaves(large, k, int(small.shape[2 + k]), window[k]) for k in range(2)]
        inner = () if self.alone else (("r0", int(w.shape[1])),)
        return Product(
            (
                Factor(large, ("i0", "i1" if self.alone else "r0", *places), (False, False, *outside)),
                Factor(self.w, ("i1", "0" if self.alone else "r0", "r1", "r2")),
            ),
            (*inner, ("r1", window[0]), ("r2", window[1])),
        )

    def _to_large(self, small: Node, large: Any) -> Product:
        """The transpose of that: of the weights only those count at which a place of the small tensor is."""
        w = value(self.w)
        window = [int(n) for n in w.shape[2:]]
        conditions, places, outside = list[str](), list[str](), list[bool]()
        for k in range(2):
            s, d, p = self.stride[k], self.dilation[k], self.padding[k]
            text = _sum((1, f"i{k + 2}"), (p, ""), (-d, f"r{k + 1}"))
            if s > 1:
                conditions.append(f"({text}) % {s} == 0")
                text = f"({text})/{s}"
            places.append(text)
            extent, size = int(large.shape[2 + k]), int(value(small).shape[2 + k])
            outside.append(p < d * (window[k] - 1) or (extent - 1 + p) // s >= size)
        inner = () if self.alone else (("r0", int(w.shape[0])),)
        return Product(
            (
                Factor(small, ("i0", "i1" if self.alone else "r0", *places), (False, False, *outside)),
                Factor(self.w, (*(("i1", "0") if self.alone else ("r0", "i1")), "r1", "r2")),
            ),
            (*inner, ("r1", window[0]), ("r2", window[1])),
            tuple(conditions),
        )


def _sum(*terms: tuple[int, str]) -> str:
    """A sum of factors times variables, without what is zero or times one."""
    text = ""
    for factor, variable in terms:
        if factor == 0:
            continue
        size = abs(factor)
        term = variable if variable and size == 1 else f"{size}*{variable}" if variable else str(size)
        text += f" {'-' if factor < 0 else '+'} {term}" if text else term
    return text

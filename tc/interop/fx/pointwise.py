"""Which ATen operators are a formula of elements, and the formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any
from typing import cast as cast_type

from tc.interop.fx.views import Node, aten, is_tensor, packet, value

torch: Any = import_module("torch")
prims: Any = torch.ops.prims
DTYPES: dict[Any, str] = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bool: "bool",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
}
_UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "floor",
    "ceil",
    "trunc",
    "sigmoid",
]
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LOGICAL = {"logical_and": "&&", "logical_or": "||", "bitwise_and": "&&", "bitwise_or": "||"}
COPIES = (aten.clone, aten._to_copy, prims.convert_element_type)
Formula = Callable[[str], str] | Callable[[str, str], str] | Callable[[str, str, str], str]


def literal(x: Any, dtype: Any) -> str:
    if dtype is torch.bool:
        return "(0 == 0)" if x else "(0 == 1)"
    if not dtype.is_floating_point:
        return str(int(x)) if x >= 0 else f"({int(x)})"
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "(-inf)"
    text = repr(abs(x)).replace("e+", "e")
    return text if math.copysign(1, x) > 0 else f"(-{text})"


def typed_literal(x: Any, dtype: Any) -> str:
    text = literal(x, dtype)
    return text if dtype is torch.bool else f"{DTYPES[dtype]}({text})"


def cast(text: str, found: Any, wanted: Any) -> str:
    if found is wanted:
        return text
    return f"({text} != 0)" if wanted is torch.bool else f"{DTYPES[wanted]}({text})"


class Pointwise:
    """A node as a formula: `operands` are nodes and numbers, of which each is of the type `dtypes`."""

    def __init__(self, operands: list[Any], dtype: Any, formula: Formula, twice: bool = False) -> None:
        self.operands = operands
        several = (
            cast_type("tuple[Any, ...]", dtype) if isinstance(dtype, tuple) else (dtype,) * len(operands)
        )
        self.dtypes = several
        self.formula: Callable[..., str] = formula
        self.twice = twice  # whether the formula says an operand more than once


def pointwise(node: Node) -> Pointwise | None:
    """The formula of a node, or None."""
    op = packet(node)
    dtype = value(node).dtype
    args = list(node.args)
    name = getattr(op, "__name__", "")
    if op is prims.convert_element_type or op is aten._to_copy or op is aten.clone:
        found = value(args[0]).dtype
        if dtype is torch.bool and found.is_floating_point:
            return Pointwise(args[:1], found, lambda a: f"({a} != 0)")
        return Pointwise(args[:1], found, lambda a: cast(a, found, dtype))
    namespace = str(op)
    if not namespace.startswith("aten."):
        return None
    floating = dtype.is_floating_point
    if name in _COMPARED and len(args) == 2:
        sign = _COMPARED[name]
        common = torch.result_type(*(value(a) if isinstance(a, torch.fx.Node) else a for a in args))
        if common is torch.bool:
            common = torch.uint8
        return Pointwise(args, common, lambda a, b: f"({a} {sign} {b})")
    if name in _LOGICAL and dtype is torch.bool:
        if name.startswith("bitwise") and not all(_is_bool(a) for a in args):
            return None
        sign = _LOGICAL[name]
        return Pointwise(args, torch.bool, lambda a, b: f"({a} {sign} {b})")
    if name in ("logical_not", "bitwise_not") and dtype is torch.bool:
        return Pointwise(args[:1], torch.bool, lambda a: f"(!{a})")
    if name in ("logical_xor", "bitwise_xor") and dtype is torch.bool and all(_is_bool(a) for a in args):
        return Pointwise(args, torch.bool, lambda a, b: f"(uint8({a}) != uint8({b}))")
    if name in ("isnan", "isinf"):
        found = value(args[0]).dtype
        if not found.is_floating_point:
            return None
        if name == "isnan":
            return Pointwise(args, found, lambda a: f"({a} != {a})", twice=True)
        return Pointwise(args, found, lambda a: f"(abs({a}) == inf)")
    if name == "where" and len(args) == 3:
        kinds = (torch.bool, dtype, dtype)
        return Pointwise(args, kinds, lambda c, a, b: f"({c} ? {a} : {b})")
    if name == "masked_fill" and len(args) == 3:
        kinds = (dtype, torch.bool, dtype)
        return Pointwise(args, kinds, lambda a, c, b: f"({c} ? {b} : {a})")
    if dtype is torch.bool:
        return None
    return _floating(node, name, args, dtype) if floating else _integer(name, args, dtype, node)


def _is_bool(a: Any) -> bool:
    return isinstance(a, bool) or (is_tensor(a) and value(a).dtype is torch.bool)


def _scaled(node: Node, args: list[Any], dtype: Any, sign: str) -> Pointwise | None:
    alpha = node.kwargs.get("alpha", 1)
    if isinstance(alpha, torch.fx.Node):
        return None
    if alpha == 1:
        return Pointwise(args[:2], dtype, lambda a, b: f"({a} {sign} {b})")
    factor = literal(alpha, dtype)
    return Pointwise(args[:2], dtype, lambda a, b: f"({a} {sign} {factor} * {b})")


def _shared(node: Node, name: str, args: list[Any], dtype: Any) -> Pointwise | None:
    """What is the same of floating numbers and integers."""
    if name == "add":
        return _scaled(node, args, dtype, "+")
    if name == "sub":
        return _scaled(node, args, dtype, "-")
    if name == "mul":
        return Pointwise(args, dtype, lambda a, b: f"({a} * {b})")
    if name == "neg":
        return Pointwise(args, dtype, lambda a: f"(-{a})")
    if name == "abs":
        return Pointwise(args, dtype, lambda a: f"abs({a})")
    if name == "relu":
        zero = typed_literal(0, dtype)
        return Pointwise(args, dtype, lambda a: f"max({a}, {zero})")
    if name in ("maximum", "minimum"):
        word = name[:3]
        return Pointwise(args, dtype, lambda a, b: f"{word}({a}, {b})")
    if name in ("clamp", "clamp_min", "clamp_max", "hardtanh"):
        low, high = node.kwargs.get("min"), node.kwargs.get("max")
        given = args[1:]
        if name == "hardtanh":
            given = [*given, *[-1, 1][len(given) :]]
        if name == "clamp_max":
            given = [None, *given]
        low = given[0] if given else low
        high = given[1] if len(given) > 1 else high
        operands = [args[0], *(b for b in (low, high) if b is not None)]
        if low is None:
            return Pointwise(operands, dtype, lambda a, h: f"min({a}, {h})")
        if high is None:
            return Pointwise(operands, dtype, lambda a, b: f"max({a}, {b})")
        return Pointwise(operands, dtype, lambda a, b, h: f"min(max({a}, {b}), {h})")
    if name == "sign":
        one, zero = typed_literal(1, dtype), typed_literal(0, dtype)
        less = typed_literal(-1, dtype)
        return Pointwise(args, dtype, lambda a: f"({a} > 0 ? {one} : {a} < 0 ? {less} : {zero})", twice=True)
    return None


def _integer(name: str, args: list[Any], dtype: Any, node: Node) -> Pointwise | None:
    if name == "pow" and args[1] == 2:
        return Pointwise(args[:1], dtype, lambda a: f"({a} * {a})", twice=True)
    if name == "remainder" and isinstance(args[1], int) and args[1] != 0:
        return Pointwise(args, dtype, lambda a, b: f"({a} % {b})")
    if name == "floor_divide" or (name == "div" and node.kwargs.get("rounding_mode") == "floor"):
        if isinstance(args[1], int) and args[1] != 0:
            return Pointwise(args, dtype, lambda a, b: f"({a} / {b})")
        return None
    return _shared(node, name, args, dtype) if name != "div" else None


def _floating(node: Node, name: str, args: list[Any], dtype: Any) -> Pointwise | None:
    if name in _UNARY:
        return Pointwise(args[:1], dtype, lambda a: f"{name}({a})")
    if name == "reciprocal":
        return Pointwise(args, dtype, lambda a: f"(1.0 / {a})")
    if name == "div":
        mode = node.kwargs.get("rounding_mode")
        if mode is None:
            return Pointwise(args, dtype, lambda a, b: f"({a} / {b})")
        return Pointwise(args, dtype, lambda a, b: f"trunc({a} / {b})") if mode == "trunc" else None
    if name in ("fmod", "atan2", "hypot", "copysign", "fmax", "fmin"):
        return Pointwise(args, dtype, lambda a, b: f"{name}({a}, {b})")
    if name == "pow":
        return _power(args, dtype)
    if name == "leaky_relu":
        slope = literal(args[1] if len(args) > 1 else 0.01, dtype)
        return Pointwise(args[:1], dtype, lambda a: f"({a} > 0 ? {a} : {a} * {slope})", twice=True)
    if name == "gelu":
        if node.kwargs.get("approximate", "none") != "none":
            return None
        return Pointwise(
            args[:1], dtype, lambda a: f"(0.5 * {a} * (1 + erf({a} * 0.70710678118654752440)))", twice=True
        )
    return _shared(node, name, args, dtype)


def _power(args: list[Any], dtype: Any) -> Pointwise | None:
    exponent = args[1]
    if isinstance(exponent, torch.fx.Node):
        return Pointwise(args, dtype, lambda a, b: f"pow({a}, {b})")
    simple: dict[float, tuple[Formula, bool]] = {
        1: (lambda a: a, False),
        2: (lambda a: f"({a} * {a})", True),
        3: (lambda a: f"({a} * {a} * {a})", True),
        0.5: (lambda a: f"sqrt({a})", False),
        -0.5: (lambda a: f"rsqrt({a})", False),
        -1: (lambda a: f"(1.0 / {a})", False),
    }
    if exponent in simple:
        formula, twice = simple[exponent]
        return Pointwise(args[:1], dtype, formula, twice)
    return Pointwise(args, dtype, lambda a, b: f"pow({a}, {b})")

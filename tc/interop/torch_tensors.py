"""Tensors of PyTorch: their types, and the transforms that a call is in."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tc.dtypes import DType

torch: Any = import_module("torch")
_KINDS = torch._C._functorch.TransformType
_TRANSFORMS = (_KINDS.Grad, _KINDS.Jvp, _KINDS.Vmap)


def at_least_1d(x: Any) -> Any:
    return x.reshape(1) if x.dim() == 0 else x


def dtype_of(t: DType) -> Any:
    """PyTorch's type for one of the language."""
    return torch.bool if t.is_bool else getattr(torch, t.name)


def is_inexact(dtype: Any) -> bool:
    """Whether a type of PyTorch is floating or complex."""
    return dtype.is_floating_point or dtype.is_complex


def is_transformed() -> bool:
    """Whether a call is within a transform of `torch.func`, or one of dual numbers."""
    if torch.compiler.is_compiling():
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    level = torch._C._functorch.peek_interpreter_stack()
    return level is not None and level.key() in _TRANSFORMS


def differentiates() -> bool:
    """Whether a transform around differentiates."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(level.key() in (_KINDS.Grad, _KINDS.Jvp) for level in stack)

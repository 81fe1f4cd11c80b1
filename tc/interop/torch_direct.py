"""Calls in eager mode that need no dispatcher: on plain tensors, where nobody but autograd watches.

For an operator that Python registers, PyTorch's dispatcher runs Python at each of its layers, and that costs
more than small kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
_C: Any = torch._C
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_NUMBERS = (int, float, bool, complex)


def unwatched(args: Sequence[Any], are_tensors: Sequence[bool]) -> str | None:
    """The kind of device of a call that goes to a kernel at once; None where the dispatcher is needed.

    It is needed for modes and subclasses, tracers, profilers and automatic casts, for lazy negations and
    conjugates, and for the errors of arguments that do not fit.
    """
    if torch.compiler.is_compiling() or _C._len_torch_dispatch_stack() or _C._len_torch_function_stack():
        return None
    if _C._is_any_autocast_enabled() or torch.autograd._profiler_enabled() or _C._get_tracing_state():
        return None
    if len(args) != len(are_tensors):
        return None
    device: str | None = None
    for a, is_tensor in zip(args, are_tensors, strict=True):
        if not is_tensor:
            if type(a) not in _NUMBERS:
                return None
            continue
        if type(a) not in _PLAIN or a.layout is not torch.strided or a.is_neg() or a.is_conj():
            return None
        here = "cpu" if a.is_cpu else "cuda" if a.is_cuda else None
        if here is None or device not in (None, here):
            return None
        device = here
    return device


def tracked(args: Sequence[Any]) -> bool:
    """Whether autograd has to know of a call."""
    if not torch.is_grad_enabled():
        return False
    return any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)


def function(
    name: str, run: Callable[..., Any], setup: Callable[..., None], backward: Callable[..., Any]
) -> Any:
    """A function that autograd records by itself, without an operator that is registered.

    With a `setup_context` of its own, PyTorch would bind the arguments to a signature for each call.
    """

    def forward(ctx: Any, *args: Any) -> Any:
        found = run(*args)
        setup(ctx, args, found)
        return found

    made = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (torch.autograd.Function,), made)

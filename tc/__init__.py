"""Tensor Comprehensions: write the mathematics, get the kernel.

    kernel = tc.compile('''def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }''')
    C = kernel(A, B)          # NumPy, PyTorch or JAX arrays; the result comes back in kind

Everything is imported when first used: `import tc` loads no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tc import errors
from tc.errors import (
    ArgumentError,
    BackendError,
    BackendNotice,
    BoundsError,
    CacheNotice,
    DataDependentAccess,
    DTypeError,
    EmptyRange,
    Error,
    InternalError,
    LoneReduction,
    NarrowedRange,
    ParseError,
    PerformanceNotice,
    PreconditionError,
    RangeError,
    SemanticError,
    UninitializedReduction,
    Warning,
)

if TYPE_CHECKING:
    from tc.api import Compiled, Kernel, Range, backends, compile, interpret, synchronize
    from tc.autodiff import grad, jvp, vmap
    from tc.bundle import Bundle, load
    from tc.interop.fx.backend import explain
    from tc.namespace import define
    from tc.options import Options
    from tc.tuner import tune

__version__ = "0.1.0"

_LAZY = {
    "compile": "tc.warm_start.start",
    "define": "tc.namespace",
    "interpret": "tc.api",
    "grad": "tc.autodiff",
    "jvp": "tc.autodiff",
    "vmap": "tc.autodiff",
    "load": "tc.bundle",
    "Bundle": "tc.bundle",
    "explain": "tc.interop.fx.backend",
    "tune": "tc.tuner",
    "Kernel": "tc.api",
    "Compiled": "tc.api",
    "Range": "tc.api",
    "Options": "tc.options",
    "backends": "tc.api",
    "synchronize": "tc.api",
}

__all__ = [
    "ArgumentError",
    "BackendError",
    "BackendNotice",
    "BoundsError",
    "Bundle",
    "CacheNotice",
    "Compiled",
    "DTypeError",
    "DataDependentAccess",
    "EmptyRange",
    "Error",
    "InternalError",
    "Kernel",
    "LoneReduction",
    "NarrowedRange",
    "Options",
    "ParseError",
    "PerformanceNotice",
    "PreconditionError",
    "Range",
    "RangeError",
    "SemanticError",
    "UninitializedReduction",
    "Warning",
    "__version__",
    "backends",
    "compile",
    "define",
    "errors",
    "explain",
    "grad",
    "interpret",
    "jvp",
    "load",
    "synchronize",
    "tune",
    "vmap",
]


def __getattr__(name: str) -> Any:
    if name in ("torch", "jax"):
        return import_module(f"tc.interop.{name}")
    if name == "library":
        return import_module("tc.library")
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

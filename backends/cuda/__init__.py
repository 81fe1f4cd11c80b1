"""The CUDA backend: CUDA C++ compiled by NVRTC, without a toolkit or a device, and run by the driver.

The compiler is imported when first used: what runs kernels needs `with_bindings` or `with_pycuda` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import Backend

__all__ = ["Backend"]


def __getattr__(name: str) -> Any:
    if name == "Backend":
        from .backend import Backend

        return Backend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

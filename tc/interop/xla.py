"""Kernels as calls of XLA: one function of `tc._native` runs all of them, without Python.

A call names its kernel by a digest of what the kernel was made from, so that compiled programs of XLA that
are kept on disk are the same in every process.  The handler finds the kernel in a table of the process, into
which tracing puts it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from tc import _native
from tc.api import Kernel
from tc.dtypes import BY_NAME, DType
from tc.instances.compiled import Compiled
from tc.instances.failures import failure
from tc.lang import resolved as r
from tc.runtime.arrays import dlpack_type

jax: Any = import_module("jax")
_TARGET = "tc_kernel"


@functools.cache
def unavailable() -> str:
    """Why XLA cannot call kernels here; empty if it can.  The first call registers the handler."""
    if not hasattr(jax, "ffi"):
        return f"jax {jax.__version__} has no jax.ffi"
    try:
        jax.ffi.register_ffi_target(_TARGET, _native.xla_handler(), platform="cpu")
        jax.devices("cpu")  # registration waits for the platform, and may be refused
    except Exception as e:  # whatever a version of jax raises
        return f"jax {jax.__version__} refuses the handler: {e}"
    return ""


def call(
    kernel: Kernel,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Any],
    arrays: Mapping[str, Any],
    results: Sequence[Any],
) -> Sequence[Any] | None:
    """A call of the kernel for these sizes, on arrays that may be traced; None if the kernel has no address.

    `scalars` are all scalar parameters, `results` the shapes and types of what it returns.  The kernel is
    compiled here, if it is not yet.  What goes wrong in the call is an error of JAX.
    """
    keyed = {n: int(scalars[n]) for n in kernel.front.specialized}
    types = {p.name: p.declared for p in kernel.front.checked.params if isinstance(p, r.Tensor)}
    passed = {n: BY_NAME[str(arrays[n].dtype)] for n in kernel.front.any_integer}
    integers = {n: t for n, t in passed.items() if t != types[n]}
    compiled, _, entry = kernel.ready(sizes, keyed, integers)
    if entry is None:
        return None
    key = _key(kernel, compiled, scalars, integers)
    _native.keep_for_xla(key, entry, _packed(kernel, scalars), _Failed(kernel.name, compiled), kernel.name)
    made = jax.ffi.ffi_call(_TARGET, tuple(results), vmap_method="sequential")
    return made(*arrays.values(), kernel=key, name=kernel.name)


def _packed(kernel: Kernel, scalars: Mapping[str, Any]) -> list[bytes]:
    """The values of the scalar parameters as the kernel reads them."""
    params = (p for p in kernel.front.checked.params if isinstance(p, r.ScalarParam))
    return [_native.pack(scalars[p.name], *dlpack_type(p.dtype)) for p in params]


def _key(
    kernel: Kernel, compiled: Compiled, scalars: Mapping[str, Any], integers: Mapping[str, DType]
) -> str:
    asked = kernel.request()
    what = (
        asked.source.text, asked.entry, asked.known, asked.lang, asked.checks, compiled.backend,
        sorted(compiled.options.changed().items()), sorted(compiled.sizes.items()),
        sorted(scalars.items()), sorted((n, t.name) for n, t in integers.items()),
    )  # fmt: skip
    return hashlib.sha256(repr(what).encode()).hexdigest()[:32]


class _Failed:
    """Makes the text of an error from what a kernel recorded."""

    def __init__(self, name: str, compiled: Compiled) -> None:
        self.name, self.compiled = name, compiled

    def __call__(self, record: _native.ErrorRecord) -> str:
        c = self.compiled
        return str(failure(self.name, c.backend, c.program, c.sizes, record))

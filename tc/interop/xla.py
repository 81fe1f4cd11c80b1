"""Kernels as calls of XLA: one function of `tc._native` runs all of them on a platform, without Python.

A call names its kernel by a digest of what the kernel was made from, so that compiled programs of XLA that
are kept on disk are the same in every process.  The handler finds the kernel in a table of the process, into
which tracing puts it.

On a GPU (`Call.on_cuda`) only a call knows its device and its stream.  The first one there asks Python for
the launches, which are kept.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tc import _native
from tc.api import Kernel
from tc.dtypes import DType
from tc.errors import BackendError
from tc.instances.compiled import Compiled
from tc.instances.failures import failure
from tc.lang import resolved as r
from tc.runtime.arrays import dlpack_type

if TYPE_CHECKING:
    from tc.pipeline.devices import DeviceLauncher

jax: Any = import_module("jax")
_CPU, _CUDA = "tc_kernel", "tc_kernel_on_cuda"


@functools.cache
def unavailable() -> str:
    """Why XLA cannot call kernels on a CPU here; empty if it can.  The first call registers the handler."""
    return _registered(_CPU, _native.xla_handler(), "cpu")


@functools.cache
def unavailable_on_cuda() -> str:
    """The same on a GPU.  Where jax has no such platform, what was traced can still be lowered for it."""
    if not hasattr(jax.lax, "platform_dependent"):
        return f"jax {jax.__version__} has no jax.lax.platform_dependent"
    return _registered(_CUDA, _native.xla_device_handler(), "CUDA")


def _registered(target: str, handler: object, platform: str) -> str:
    if not hasattr(jax, "ffi"):
        return f"jax {jax.__version__} has no jax.ffi"
    try:
        jax.ffi.register_ffi_target(target, handler, platform=platform)
        jax.devices("cpu")  # registration waits for the platforms, and may be refused
    except Exception as e:  # whatever a version of jax raises
        return f"jax {jax.__version__} refuses the handler: {e}"
    return ""


@dataclass(frozen=True)
class Call:
    """A call of the kernel for these sizes: `scalars` are all scalar parameters, `dtypes` the types of
    arrays that only subscript, by their parameters, `results` the shapes and types of what it returns."""

    kernel: Kernel
    sizes: Mapping[str, int]
    scalars: Mapping[str, Any]
    dtypes: Mapping[str, DType]
    results: Sequence[Any]

    @property
    def keyed(self) -> dict[str, int]:
        """The values of specialised scalars."""
        return {n: int(self.scalars[n]) for n in self.kernel.front.specialized}

    @property
    def integers(self) -> dict[str, DType]:
        """The types of parameters that have others than declared."""
        front = self.kernel.front
        types = {p.name: p.declared for p in front.checked.params if isinstance(p, r.Tensor)}
        return {n: t for n in front.any_integer if (t := self.dtypes[n]) != types[n]}

    def on_cpu(self) -> Callable[..., Sequence[Any]] | None:
        """The call, on arrays that may be traced; None if the kernel has no address.

        The kernel is compiled here, if it is not yet.  What goes wrong in the call is an error of JAX.
        """
        compiled, _, entry = self.kernel.ready(self.sizes, self.keyed, self.integers)
        if entry is None:
            return None
        key = self._key(compiled.backend, compiled.options.changed(), compiled.sizes)
        failed = _Failed(self.kernel.name, compiled)
        _native.keep_for_xla(key, entry, self._packed(), failed, self.kernel.name)
        return self._calling(_CPU, key)

    def on_cuda(self, now: bool) -> Callable[..., Sequence[Any]] | None:
        """The same on a GPU; None for a kernel of another backend, one that waits for its checks, and one
        with a complex scalar.

        With `now` the kernel is compiled here, else by the first call.
        """
        asked = self.kernel.request()
        complex_scalar = any(isinstance(x, complex) for x in self.scalars.values())
        if self.kernel.asked_backend not in (None, "cuda") or asked.checks == "sync" or complex_scalar:
            return None
        kernel = _OnCuda(self)
        if now:
            kernel.ready()
        key = self._key("cuda", asked.options.changed(), self.sizes)
        _native.keep_for_xla_on_device(key, kernel, self._packed(), self.kernel.name)
        return self._calling(_CUDA, key)

    def _calling(self, target: str, key: str) -> Callable[..., Sequence[Any]]:
        made = jax.ffi.ffi_call(target, tuple(self.results), vmap_method="sequential")
        return lambda *arrays: tuple(made(*arrays, kernel=key, name=self.kernel.name))

    def _packed(self) -> list[bytes]:
        """The values of the scalar parameters as the kernel reads them."""
        params = (p for p in self.kernel.front.checked.params if isinstance(p, r.ScalarParam))
        return [_native.pack(self.scalars[p.name], *dlpack_type(p.dtype)) for p in params]

    def _key(self, backend: str, options: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
        asked = self.kernel.request()
        what = (
            asked.source.text, asked.entry, asked.known, asked.lang, asked.checks, backend,
            sorted(options.items()), sorted(sizes.items()),
            sorted(self.scalars.items()), sorted((n, t.name) for n, t in self.integers.items()),
        )  # fmt: skip
        return hashlib.sha256(repr(what).encode()).hexdigest()[:32]


class _Failed:
    """Makes the text of an error from what a kernel recorded."""

    def __init__(self, name: str, compiled: Compiled) -> None:
        self.name, self.compiled = name, compiled

    def __call__(self, record: _native.ErrorRecord) -> str:
        c = self.compiled
        return str(failure(self.name, c.backend, c.program, c.sizes, record))


class _OnCuda:
    """See `tc._native.OnDevice`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._launcher: DeviceLauncher | None = None

    def ready(self) -> tuple[Kernel, Any]:
        """The kernel for cuda, compiled for the sizes."""
        call = self._call
        kernel = call.kernel.for_cuda()
        return kernel, kernel.ready(call.sizes, call.keyed, call.integers)

    def bind(self, device: int, stream: int, /) -> _native.Entry:
        kernel, ready = self.ready()
        entry, self._launcher = kernel.entry_on(ready, self._call.integers, device, stream)
        if entry is None:
            raise BackendError(
                f"{kernel.name}: XLA cannot launch this kernel: it has too many launches, or there are too "
                "many error records",
                code="TC0810",
                help="call it outside of jit",
            )
        return entry

    def pending(self) -> str | None:
        try:
            self._call.kernel.for_cuda().raise_pending()
        except Exception as e:  # which the call of XLA tells
            return str(e)
        return None

    def refused(self, device: int, status: int, /) -> str:
        assert self._launcher is not None
        try:
            self._launcher.refused(device, self._call.kernel.name, status)
        except Exception as e:
            return str(e)
        return f"{self._call.kernel.name}: the driver refuses the launch with status {status}"

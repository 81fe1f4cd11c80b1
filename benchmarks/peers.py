"""The contestants: how each turns a workload into something to call.

A contestant lives in a process of its own (`benchmarks.worker`), where `start` runs once and `make` once per
workload.  All are called the same way: arrays in, results allocated by the callee as a user's would be.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.spellings import alternatives, families, in_c, spelling
from benchmarks.workloads.model import Workload

Call = Callable[..., Any]


# What keeps each library from wider vectors than an instruction set has.
LIMITS: dict[str, dict[str, str]] = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own loops, and Inductor's
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "NUMBA_CPU_NAME": "haswell",
    }
}


def environment(threads: int, backend_cache: str, isa: str = "") -> dict[str, str]:
    """What tells every library how many threads it has, set before any is loaded, where to keep what it has
    compiled, and which instruction set it may use at most."""
    count = str(threads)
    return {
        **dict.fromkeys(
            (
                *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"),
                *("TC_NUM_THREADS", "HL_NUM_THREADS", "NPROC"),  # NPROC is XLA's
            ),
            count,
        ),
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        # Compiles are measured cold: what is kept on disk lies in a folder of this run.
        "TORCHINDUCTOR_CACHE_DIR": backend_cache,
        "TC_CACHE_DIR": backend_cache,
        "TC_VERIFY": "0",
        "TC_DUMP": "",
        **LIMITS.get(isa, {}),
    }


@dataclass(frozen=True, slots=True)
class Implementation:
    """A workload made callable: arguments converted, the function, and how results become NumPy arrays."""

    convert: Callable[[tuple[np.ndarray, ...]], tuple[Any, ...]]
    call: Call
    numpy: Callable[[Any], np.ndarray] = np.asarray
    details: Callable[[], dict[str, Any]] = dict  # what else is known after the first call


def spelled(library: str, workload: Workload, suffix: str = "") -> Call:
    """A library's spelling of a workload, the workload's constants given."""
    function = spelling(library, workload.family + suffix)
    return partial(function, *workload.constants) if workload.constants else function


class Contestant:
    """One way to run workloads.  `name` is what tables show."""

    name: str = ""
    # Contestants that others are compared with; `tc` itself is not.
    peer = True

    def handles(self, workload: Workload) -> bool:
        raise NotImplementedError

    def start(self, threads: int) -> None:
        """Load what it needs; not part of anything measured."""

    def make(self, workload: Workload) -> Implementation:
        raise NotImplementedError


class Tc(Contestant):
    """`tc` on a backend, with NumPy arrays."""

    peer = False

    def __init__(self, backend: str, options: dict[str, Any] | None = None, name: str = "tc") -> None:
        self.backend, self.options, self.name = backend, options or {}, name

    def handles(self, workload: Workload) -> bool:
        return True

    def start(self, threads: int) -> None:
        import tc

        warnings.simplefilter("ignore", tc.Warning)
        # LLVM's and the parser's initialisation happen once per process, not once per kernel.
        kernel = tc.compile("def warm(float(N) A) -> (B) { B(i) = A(i) }", self.backend)
        kernel(np.ones(64, np.float32))

    def make(self, workload: Workload) -> Implementation:
        import tc

        kernel: list[Any] = []

        def first(*args: Any) -> Any:
            kernel.append(tc.compile(workload.source, self.backend, options=self.options or None))
            return kernel[0](*args)

        def details() -> dict[str, Any]:
            compiled = kernel[0]._entries()[0].owner if kernel[0]._entries() else None
            if compiled is None:
                return {}
            return {
                "workspace": int(getattr(compiled.compiled, "workspace", 0)),
                "stages_ms": {n: 1e3 * s for n, s in compiled.seconds.items()},
            }

        return Implementation(tuple, _First(first, lambda: kernel[0]), details=details)


class Halide(Tc):
    """Halide's autoschedulers, through the `halide` backend."""

    peer = True

    def __init__(self, scheduler: str) -> None:
        super().__init__(
            "halide", {"autoschedule": scheduler}, f"halide-{scheduler.rstrip('0123456789').lower()}"
        )

    def handles(self, workload: Workload) -> bool:
        return not re.search(r"\bfor \w+ in\b", workload.source)  # sequential loops, which it refuses


class Torch(Contestant):
    """PyTorch eager, in its first spelling or the other one (`+`: mostly channels last)."""

    def __init__(self, name: str = "torch", *, other: bool = False) -> None:
        self.name, self.other = name + ("+" if other else ""), other

    def handles(self, workload: Workload) -> bool:
        return workload.family in (alternatives if self.other else families)("torch")

    def start(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)

    def spelling(self, workload: Workload) -> tuple[Callable[..., Any], Call]:
        from benchmarks.spellings import with_torch

        if not self.other:
            return (lambda *tensors: tensors), spelled("torch", workload)
        prepare = with_torch.PREPARE.get(workload.family, lambda *tensors: tensors)
        return prepare, spelled("torch", workload, "_alt")

    def make(self, workload: Workload) -> Implementation:
        import torch

        prepare, call = self.spelling(workload)
        return Implementation(
            lambda arrays: prepare(*(torch.from_numpy(a) for a in arrays)),
            self.compiled(call),
            numpy=lambda t: t.numpy(),
        )

    def compiled(self, call: Call) -> Call:
        return call


class Inductor(Torch):
    """`torch.compile`, with its defaults or max-autotune."""

    def __init__(self, *, autotune: bool = False, other: bool = False) -> None:
        super().__init__("inductor-max" if autotune else "inductor", other=other)
        self.autotune = autotune

    def handles(self, workload: Workload) -> bool:
        if workload.judge == "numpy":  # a group of its own, of which some programs are worth compiling
            from benchmarks.spellings.loops.with_torch import COMPILED

            return workload.family in COMPILED and super().handles(workload)
        return super().handles(workload)

    def start(self, threads: int) -> None:
        super().start(threads)
        import torch

        # The first compile of a process makes precompiled headers and worker processes.
        torch.compile(lambda a, b: a + b)(torch.ones(64), torch.ones(64))

    def compiled(self, call: Call) -> Call:
        import torch

        torch._dynamo.reset()
        return torch.compile(call, dynamic=False, mode="max-autotune" if self.autotune else None)


class Jax(Contestant):
    """Jitted JAX, in its first spelling or the other one (`+`: an associative scan)."""

    def __init__(self, *, other: bool = False) -> None:
        self.name, self.other = "jax+" if other else "jax", other

    def handles(self, workload: Workload) -> bool:
        return workload.family in (alternatives if self.other else families)("jax")

    def start(self, threads: int) -> None:
        import jax

        jax.block_until_ready(jax.jit(lambda a: a + 1)(jax.numpy.ones(64)))

    def make(self, workload: Workload) -> Implementation:
        import jax

        jax.config.update("jax_enable_x64", any(a.dtype == "float64" for a in workload.inputs))
        jitted, wait = jax.jit(self.spelling(workload)), jax.block_until_ready
        return Implementation(
            lambda arrays: tuple(wait(jax.numpy.asarray(a)) for a in arrays),
            lambda *args: wait(jitted(*args)),
        )

    def spelling(self, workload: Workload) -> Call:
        return spelled("jax", workload, "_alt" if self.other else "")


class NumPy(Contestant):
    name = "numpy"

    def handles(self, workload: Workload) -> bool:
        # NumPy has no 16-bit product worth the name, and adds one loop for integers.
        return workload.family in families("numpy") and not any(a.dtype == "float16" for a in workload.inputs)

    def make(self, workload: Workload) -> Implementation:
        return Implementation(tuple, spelled("numpy", workload))


class Numba(Contestant):
    name = "numba"

    def handles(self, workload: Workload) -> bool:
        return workload.family in families("numba")

    def start(self, threads: int) -> None:
        import numba

        numba.set_num_threads(threads)

        @numba.njit(parallel=True)
        def warm(n: int) -> int:
            s = 0
            for i in numba.prange(n):
                s += i
            return s

        warm(1000)

    def make(self, workload: Workload) -> Implementation:
        return Implementation(tuple, spelled("numba", workload))


class Clang(Contestant):
    """The C of a workload, made by clang with -O3; Polly tiles it and makes it parallel."""

    def __init__(self, *, polly: bool = False) -> None:
        self.name, self.polly = "polly" if polly else "clang", polly

    def handles(self, workload: Workload) -> bool:
        return in_c(workload.family) is not None

    def make(self, workload: Workload) -> Implementation:
        from benchmarks import native

        made: list[Call] = []

        def first(*args: Any) -> Any:
            made.append(native.compiled(workload, self.polly))
            return made[0](*args)

        return Implementation(tuple, _First(first, lambda: made[0]))


class Judge(Torch):
    """Not timed: what results should be, in float64."""

    def __init__(self) -> None:
        super().__init__("judge")

    def make(self, workload: Workload) -> Implementation:
        if workload.judge == "numpy":
            return Implementation(lambda arrays: tuple(_wide(a) for a in arrays), spelled("numpy", workload))
        import torch

        from benchmarks.spellings import with_torch

        call = with_torch.TRUTH.get(workload.family) or spelled("torch", workload)

        def wide(array: np.ndarray) -> Any:
            tensor = torch.from_numpy(array)
            return tensor.double() if tensor.is_floating_point() else tensor

        return Implementation(lambda arrays: tuple(wide(a) for a in arrays), call, numpy=lambda t: t.numpy())


def _wide(array: np.ndarray) -> np.ndarray:
    """Floats and complex numbers in their widest type."""
    return array.astype({"f": np.float64, "c": np.complex128}.get(array.dtype.kind, array.dtype))


class _First:
    """Calls one function the first time and what that has made afterwards; `settle` takes itself away."""

    def __init__(self, first: Call, then: Callable[[], Call]) -> None:
        self.first, self.then = first, then

    def __call__(self, *args: Any) -> Any:
        return self.first(*args)

    def settle(self) -> Call:
        return self.then()


def settled(call: Call) -> Call:
    """What to call from the second call on."""
    return call.settle() if isinstance(call, _First) else call


JUDGE = Judge()


def contestants(backend: str | None = None, isa: str = "") -> dict[str, Contestant]:
    """Every contestant by name, `tc` first.  Halide's and clang's code is for the machine it is on: where an
    instruction set is given, they do not contend."""
    found: list[Contestant] = [
        Tc(backend or "cpu", {"isa": isa} if isa else None),
        Torch(),
        Torch(other=True),
        Inductor(),
        Inductor(other=True),
        Inductor(autotune=True),
        Inductor(autotune=True, other=True),
        Jax(),
        Jax(other=True),
        NumPy(),
        Numba(),
        *(() if isa else (Clang(), Clang(polly=True))),
        *(() if isa else (Halide("Mullapudi2016"), Halide("Adams2019"))),
        JUDGE,
    ]
    return {c.name: c for c in found}


def available(name: str) -> str | None:
    """Why a contestant cannot run here, or None; looks for its package without loading it."""
    import importlib.util

    if name in ("clang", "polly"):
        from benchmarks import native

        return native.missing(name == "polly")
    package = {"torch": "torch", "inductor": "torch", "jax": "jax", "numba": "numba"}
    needed = package.get(name.split("-")[0].rstrip("+"))
    if needed and importlib.util.find_spec(needed) is None:
        return f"{needed} is not installed"
    return None


def cores() -> list[int]:
    """The processors that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )

"""Workloads in C: what `benchmarks.spellings.polybench.c` has, made by clang, with or without Polly.

Sizes are macros, so that the compiler knows them; arrays do not overlap; fast math is on, as for Numba.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.spellings import in_c
from benchmarks.workloads.model import Workload

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fPIC", "-shared")
# Tiles and loops over threads; in Polly's own words.
POLLY = ("-mllvm", "-polly", "-mllvm", "-polly-parallel", "-lgomp")


@cache
def missing(polly: bool) -> str | None:
    """Why clang cannot be had here, with Polly or without, or None."""
    if shutil.which("clang") is None:
        return "clang is not installed"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.c"
        source.write_text("int f(void) { return 0; }\n", encoding="ascii")
        made = _clang(source, Path(folder) / "empty.so", polly, ())
    if made.returncode:
        what = "clang has no Polly, or there is no libgomp" if polly else "clang makes no library"
        return f"{what}: {made.stderr.strip().splitlines()[-1] if made.stderr.strip() else made.returncode}"
    return None


def compiled(workload: Workload, polly: bool) -> Callable[..., Any]:
    """A function of the inputs that returns the results, as new arrays.

    Raises RuntimeError, with what clang says, where the source does not compile.
    """
    source = in_c(workload.family)
    assert source is not None
    with tempfile.TemporaryDirectory(prefix="tc-bench-c-") as folder:
        made = Path(folder) / "made.so"
        done = _clang(source, made, polly, [f"-D{n}={v}" for n, v in workload.sizes])
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        function = getattr(ctypes.CDLL(str(made)), workload.family)
    function.restype = None
    function.argtypes = [ctypes.c_void_p] * (len(workload.inputs) + len(workload.results))
    shapes = [(a.shape, np.dtype(a.dtype)) for a in workload.results]

    def call(*args: Any) -> tuple[np.ndarray, ...]:
        results = tuple(np.empty(shape, dtype) for shape, dtype in shapes)
        function(*(a.ctypes.data for a in args), *(r.ctypes.data for r in results))
        return results

    return call


def _clang(
    source: Path, to: Path, polly: bool, defines: list[str] | tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    extra = POLLY if polly else ()
    command = ["clang", *FLAGS, *defines, str(source), "-o", str(to), *extra, "-lm"]
    return subprocess.run(command, capture_output=True, text=True, check=False)

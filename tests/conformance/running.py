"""Programs on a backend, or on the oracle, as one function of their arguments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import tc

BACKENDS = ["interpret", "reference", "cpu", "halide", "opencl"]


def run(backend: str, source: str, *args: Any, **options: Any) -> np.ndarray[Any, Any]:
    """The result of a def; warnings are errors if they say that a guard narrows a range, else ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        warnings.simplefilter("error", tc.NarrowedRange)
        if backend == "interpret":
            return np.asarray(tc.interpret(source, *args))
        return np.asarray(tc.compile(source, backend=backend, **options)(*args))

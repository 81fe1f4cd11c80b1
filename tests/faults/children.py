"""Processes that do what a test process must not: fork, be interrupted, die.

A script has the names of this module; one that hangs prints where each of its threads is, and ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
PATIENCE = 100  # seconds; nothing here takes more than a few

_PROLOGUE = """
import faulthandler, os, random, signal, sys, threading, time, warnings
faulthandler.register(signal.SIGALRM, chain=True)
signal.alarm({patience})  # which a fork does not inherit
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of forks beside threads
import numpy as np
import tc
from tests.faults.children import *
"""

# Sources with a constant, so that as many different ones as wanted can be made, and their sizes.
SOURCES = {
    "mm": "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) * %d }",
    "rows": "def rows(float(M,K) A, float(K,N) B) -> (C) {\n"
    "  T(i) max=! A(i,k)\n  C(i,j) = T(i) * %d + B(0,j)\n}",
    "outer": "def outer(float(M,K) A, float(K,N) B) -> (C) { C(i,j) = fmax(A(i,0), B(1,j)) * %d }",
}

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def data(m: int = 9, k: int = 7, n: int = 11, seed: int = 0) -> tuple[Array, Array]:
    """Small integers: sums of their products are exact in any order."""
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (k, n)).astype(np.float32)


def expected(name: str, c: int, a: Array, b: Array) -> Array:
    match name:
        case "mm":
            return a @ b * c
        case "rows":
            return a.max(1)[:, None] * c + b[0]
        case _:
            return np.maximum(a[:, :1], b[1]) * c


def right(name: str, c: int, backend: str = "cpu", *, seed: int = 0, m: int = 9) -> bool:
    """Compile a program and call it twice; whether both results are right."""
    import tc

    a, b = data(m, seed=seed)
    kernel = tc.compile(SOURCES[name] % c, backend)
    want = expected(name, c, a, b)
    return np.array_equal(kernel(a, b), want) and np.array_equal(kernel(a, b), want)


def run(script: str, *arguments: str, **environment: str) -> str:
    """What a script prints; AssertionError with what it said otherwise if it does not end well."""
    told = {**os.environ, "TC_VERIFY": "0", "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-c", _PROLOGUE.format(patience=PATIENCE) + script, *arguments],
        capture_output=True,
        text=True,
        env=told,
        timeout=PATIENCE + 60,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout

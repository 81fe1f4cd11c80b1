"""Halide's LLVM and conditions that do not change in a loop: it took minutes (named in fuzz/README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CHECKED = """
import tc
source = "def f(int16(N,N) A, int(N) X) -> (T) { T(i) +=! A(X(i), k) }"
kernel = tc.compile(source, "halide", options=tc.Options(autoschedule="Adams2019"))
print(kernel.specialize(N=64).inspect("llvm").count(".us"))  # what LLVM calls loops without a condition
"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("-unroll-count=1", False), ("-unswitch-threshold=50", True)],
    ids=["ours, too", "LLVM's own"],
)
def test_unswitching(given: str, wanted: bool) -> None:
    """Checks on lanes are not taken out of loops one by one, unless the user's options for LLVM say so."""
    environment = {**os.environ, "HL_LLVM_ARGS": given, "TC_CACHE": "0"}
    run = [sys.executable, "-c", _CHECKED]
    done = subprocess.run(run, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert bool(int(done.stdout.split()[-1])) is wanted

"""Halide's LLVM and conditions that do not change in a loop: it took minutes (named in fuzz/README.md)."""

from __future__ import annotations

import pytest

from tests.dependencies import children

_CHECKED = """
import tc
source = "def f(int16(N,N) A, int(N) X) -> (T) { T(i) +=! A(X(i), k) }"
kernel = tc.compile(source, "halide", options=tc.Options(autoschedule="Adams2019"))
print(kernel.specialize(N=64).inspect("llvm").count(".us"))  # what LLVM calls loops without a condition
"""


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("given", "wanted"),
    [("-unroll-count=1", False), ("-unswitch-threshold=50", True)],
    ids=["ours, too", "LLVM's own"],
)
def test_unswitching(given: str, wanted: bool) -> None:
    """Checks on lanes are not taken out of loops one by one, unless the user's options for LLVM say so."""
    done = children.run(_CHECKED, HL_LLVM_ARGS=given)
    assert done.returncode == 0, done.stderr
    assert bool(int(done.stdout.split()[-1])) is wanted

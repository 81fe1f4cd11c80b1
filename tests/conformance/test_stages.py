"""Golden files: every stage of four programs, as `python -m tc show` prints it; tables in shared memory."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tc

PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    "sgemm": (
        """def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
  C(i,j) = b * C(i,j)
  C(i,j) += a * A(i,k) * B(k,j)
}
""",
        {"N": 4, "M": 5, "K": 6},
    ),
    "sconv": (
        """def sconv(float(N,C,H,W) I, float(F,C,KH,KW) W1, float(F) B) -> (O) {
  O(n,f,h,w) = B(f)
  O(n,f,h,w) += I(n,c,2*h+kh,3*w+kw) * W1(f,c,kh,kw)
}
""",
        {"N": 2, "C": 3, "H": 9, "W": 10, "F": 4, "KH": 3, "KW": 2},
    ),
    "softmax": (
        """def softmax(float(N,D) I) -> (O) {
  tmp(n) max=! I(n,d)
  O(n,d) = exp(I(n,d) - tmp(n))
  tmp(n) +=! O(n,d)
  O(n,d) = O(n,d) / tmp(n)
}
""",
        {"N": 3, "D": 7},
    ),
    "2lut": (
        """def 2LUT(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1, O2) {
  O1(i,j) +=! LUT1(I1(i,k),j)
  O2(i,j) +=! LUT2(I2(i,k),j)
}
""",
        {"E1": 10, "E2": 11, "D": 4, "B": 3, "L1": 5, "L2": 6},
    ),
}
LUT = """def 1LUT(float(E,D) LUT, int(B,L) I) -> (O) {
  O(i,j) +=! LUT(I(i,k),j)
}
"""
# More threads than a warp has, two tiles of the sum in which none is partial.
INDIRECT: dict[str, tuple[str, dict[str, int], dict[str, str]]] = {
    "1lut": (LUT, {"E": 50, "D": 16, "B": 9, "L": 16}, {"LUT": "I"}),
    "2lut": (
        PROGRAMS["2lut"][0],
        {"E1": 50, "E2": 60, "D": 16, "B": 9, "L1": 16, "L2": 16},
        {"LUT1": "I1", "LUT2": "I2"},
    ),
}
TILED: dict[str, Any] = {"tile": (4, 16, 8), "threads": (16, 4), "use_shared_memory": True}
SYMBOLIC = ("syntax", "ranges", "ir", "halide", "scop", "dependences", "schedule")
AT_SIZES = ("loops", "code", "llvm")


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(("backend", "suffix"), [("opencl", "cl"), ("cuda", "cu")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_code_for_gpus(name: str, backend: str, suffix: str, golden: Callable[[str, str], None]) -> None:
    source, sizes = PROGRAMS[name]
    golden(f"{name}/code.{suffix}", tc.compile(source, backend).inspect("code", **sizes))


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    ("backend", "suffix", "shared", "barrier"),
    [("opencl", "cl", "__local", "barrier("), ("cuda", "cu", "__shared__", "__syncthreads()")],
)
@pytest.mark.parametrize("name", INDIRECT)
def test_indirect_promotion(
    name: str, backend: str, suffix: str, shared: str, barrier: str, golden: Callable[[str, str], None]
) -> None:
    """Section 5.5: a tile of indices, a barrier, the rows that they select, a barrier, the sum."""
    source, sizes, tables = INDIRECT[name]
    code = tc.compile(source, backend, options=TILED).inspect("code", **sizes)
    golden(f"{name}/shared.{suffix}", code)
    kernels = code.split("_kernel(")[1:]
    for table, index in tables.items():  # of two tables both may be in one kernel
        (kernel,) = (k for k in kernels if f"+= {table}_" in k)
        held = dict(re.findall(rf"{shared} .*\b(\w+)_(\d+)\[", kernel))
        indices, rows, wait = (
            re.escape(x) for x in (f"{index}_{held[index]}[", f"{table}_{held[table]}[", barrier)
        )
        steps = [
            rf"{index}\[",
            wait,
            rf"at\d* = {indices}",
            rows,
            rf"{table}\[inside\d* \? at\d* : 0\]",
            wait,
            rf"\+= {rows}",
        ]
        assert re.search(".*".join(steps), kernel, re.DOTALL), kernel


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("stage", [*SYMBOLIC, *AT_SIZES])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stages(name: str, stage: str, golden: Callable[[str, str], None]) -> None:
    source, sizes = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(source, "reference")
    suffix = {"code": "c", "llvm": "ll", "syntax": "tc"}.get(stage, "txt")
    golden(f"{name}/{stage}.{suffix}", kernel.inspect(stage, **(sizes if stage in AT_SIZES else {})))


def test_the_canonical_schedule_tree_is_the_report_s(golden: Callable[[str, str], None]) -> None:
    """Figure 3.a: a sequence, a filter per statement, one permutable band with a member per loop."""
    kernel = tc.compile(PROGRAMS["sgemm"][0], "reference")
    tree = kernel.inspect("schedule")
    assert tree.count("sequence:") == 1 and tree.count("- filter:") == 2
    assert tree.count("permutable: 1") == 2
    assert "[{ S0[i, j] -> [(i)] }, { S0[i, j] -> [(j)] }]" in tree
    assert "[{ S1[i, j, k] -> [(i)] }, { S1[i, j, k] -> [(j)] }, { S1[i, j, k] -> [(k)] }]" in tree


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_a_stage_needs_what_it_says() -> None:
    kernel = tc.compile(PROGRAMS["sgemm"][0], "reference")
    with pytest.raises(tc.ArgumentError, match="no value for the size"):
        kernel.inspect("loops", N=3)
    with pytest.raises(tc.ArgumentError, match="there is no stage 'loop'"):
        kernel.inspect("loop")
    with pytest.raises(tc.ArgumentError, match="has no size or specialised scalar 'Q'"):
        kernel.inspect("ir", Q=3)
    assert "for i in [0, 3)" in kernel.inspect("ir", N=3)

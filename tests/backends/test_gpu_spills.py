"""With default options kernels have no spills, by NVRTC's log: programs of the benchmark and of the
original."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import pytest

import tc
from benchmarks.compile_time import sized
from benchmarks.workloads import CASES
from tests.poly import fused
from tests.simt import mapper_cases, test_upstream_options

Program = tuple[str, str | None, dict[str, int]]  # source, entry, sizes


def larger(sizes: dict[str, int]) -> dict[str, int]:
    return {k: n if k in ("KH", "KW") else 32 * n for k, n in sizes.items()}


PROGRAMS: dict[str, Callable[[], Program]] = {
    **{f"benchmark, {c.name}": (lambda c=c: sized(c)) for c in CASES},
    **{f"mapper, {n}": (lambda c=c: (c.source, None, c.sizes)) for n, c in mapper_cases.CASES.items()},
    **{
        f"options, {n}": (lambda c=c: (c.source, None, c.sizes))
        for n, c in test_upstream_options.CASES.items()
    },
    **{f"fused, {i}": (lambda s=s: (s, None, larger(fused.SIZES[s]))) for i, s in enumerate(fused.SIZES)},
}


@pytest.mark.share(258)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_have_no_stack_and_no_spills(name: str, arch: str) -> None:
    source, entry, sizes = PROGRAMS[name]()
    kernel = tc.compile(source, "cuda", entry, options={"isa": arch})
    known = {*kernel.front.checked.sizes, *kernel.front.specialized}
    with warnings.catch_warnings():
        warnings.simplefilter("error", tc.PerformanceNotice)  # a simpler mapping gives one
        one = kernel.specialize(**{k: v for k, v in sizes.items() if k in known})
    _, *kernels = one.artifact("asm").splitlines()
    assert kernels
    for k in kernels:
        assert k.endswith("0 bytes stack, 0 bytes spill stores, 0 bytes spill loads")


def test_a_mapping_that_exceeds_registers_gives_a_notice() -> None:
    """The notice comes before the compiler spills."""
    source = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    kernel = tc.compile(source, "cuda", options={"tile": (256, 256), "threads": (32, 32), "isa": "sm_90"})
    notice = r"1024 threads a block with about \d+ registers each and 65536 bytes of shared memory, which"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tc.PerformanceNotice)
        kernel.specialize(M=1024, N=1024, K=1024)
    assert any(re.search(notice, str(w.message)) for w in caught)

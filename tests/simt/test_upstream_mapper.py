"""The original's tests of its mapper and of promotion (UPSTREAM, 7.4, 7.6, 7.7): exact results on the shim
without a finding and on PoCL, and the form of mapped loops.

`CASES` have the original's options, within which the search is free.  The form of loops is tested with them
where options decide it, else with the mappings in `FIXED`.  Sizes are smaller where the shim would take long.
Loops over whole dense arrays are collapsed, so where the original makes copies, a few cases read a common
array or a transposed one.

Of the four forms of tiled loops (Copy, Matmul), with points that begin at 0 or at the tile's origin and tiles
that are counted or begin at their first point, there is one: points begin at 0, tiles are counted.  Tests of
features that do not exist here are left out: the matcher of trees (Match1), the depth of promotion, other
rules of fusion for outer loops.  Loops are not duplicated for unknown sizes, so no statement is in several
places (MultipleOccurrence).
"""

from __future__ import annotations

import importlib
import re
from dataclasses import replace

import numpy as np
import pytest

import tc
from tc import registry
from tests.conformance.test_programs import results
from tests.simt import shim as simt
from tests.simt.fixed import Program, same
from tests.simt.mapped import prepared
from tests.simt.mapped_form import Mapped, register_subscripts
from tests.simt.mapper_cases import (
    ADD,
    CASES,
    FIXED,
    MM,
    MM_SIZES,
    RAW,
    SHAPES,
    TILES,
    arguments,
    compiled,
    interpreted,
    mapped,
)

registry.load("cuda")
nvrtc = importlib.import_module("tc_backends.cuda.nvrtc")


@pytest.mark.share(36)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", CASES)
def test_mapper_cases_have_no_findings_on_the_shim(name: str) -> None:
    case = CASES[name]
    kernel = compiled(case, "cuda")
    given = arguments(kernel, case)
    call = prepared(kernel, given)
    result = call.run()
    assert not result.found, simt.report(result.found)
    assert not result.error[0]
    for got, want in zip(result.values.values(), interpreted(case, given), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    loops = kernel.inspect("loops", **case.sizes)
    assert case.holds(Mapped(call.nest)), loops
    assert all(register_subscripts(call.nest.body, call.nest, frozenset())), loops


NAMES = [pytest.param(n, marks=() if i % 4 == 0 else pytest.mark.slow) for i, n in enumerate(CASES)]


@pytest.mark.share(12)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", NAMES)
def test_mapper_cases_are_exact_on_pocl(name: str) -> None:
    case = CASES[name]
    kernel = compiled(case, "opencl")
    given = arguments(kernel, case)
    for got, want in zip(results(kernel(**given)), interpreted(case, given), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


# Those that are smaller above, where maps differ from the original's.
LARGE = {
    **{name: {"M": 165, "N": 227, "K": 197} for name, case in CASES.items() if case.source == MM},
    "batched product": {"B": 50, "N": 26, "M": 72, "K": 26},
    "batched Hadamard products": {"B": 100, "D": 1000},
    "spatial batch norm": {"N": 32, "C": 2, "H": 56, "W": 56},
    "mean, 512 threads": {"N": 36864, "K": 1024},
    "mean, 32 threads": {"N": 36864, "K": 1024},
    "empty mapping": {"N": 1024, "K": 36864},
    "2-D sum": {"N": 1024, "M": 1024},
}


@pytest.mark.share(24)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", LARGE)
def test_mapper_cases_are_exact_on_pocl_at_full_size(name: str) -> None:
    """Compared with the naive mapping, as the original's tests do."""
    case = replace(CASES[name], sizes=LARGE[name])
    given = arguments(kernel := compiled(case, "opencl"), case)
    wanted = results(tc.compile(case.source, "reference")(**given))
    for got, want in zip(results(kernel(**given)), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


@pytest.mark.share(90)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_nvrtc_compiles_mapper_cases(name: str, arch: str) -> None:
    """With the options of the case (tests/backends/test_gpu_spills.py has all of them without)."""
    one = compiled(CASES[name], "cuda", isa=arch).specialize(**CASES[name].sizes)
    _, *kernels = one.artifact("asm").splitlines()
    assert len(kernels) == len(one.compiled.module.kernels)


@pytest.mark.share(18)
@pytest.mark.parametrize("name", FIXED)
def test_options_give_the_expected_loops(name: str) -> None:
    program, holds = FIXED[name]
    call = program.call()
    result = call.run()
    assert not result.found, simt.report(result.found)
    assert same(result.values, program.wanted())
    assert holds(Mapped(call.nest)), call.module.text
    assert all(register_subscripts(call.nest.body, call.nest, frozenset())), call.module.text


@pytest.mark.share(60)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", [*FIXED, *SHAPES], ids=str)
def test_nvrtc_compiles_fixed_mappings(name: str | tuple[int, int], arch: str) -> None:
    """Without spills."""
    module = mapped(name).call().module
    made = nvrtc.compile_text(module.text, arch, contract=True)
    for k in module.kernels:
        found = made.resources[k.name]
        assert (found.stack, found.spill_stores, found.spill_loads) == (0, 0, 0)


@pytest.mark.share(12)
@pytest.mark.parametrize(("x", "y"), SHAPES)
def test_threads_of_a_row_exchange_partial_results(x: int, y: int) -> None:
    """The original's stress test: a thread for each element; threads of a row exchange partial results."""
    program = mapped((x, y))
    call = program.call()
    result = call.run()
    assert not result.found, simt.report(result.found)
    assert same(result.values, program.wanted())
    assert bool(re.search("__shfl|__shared__", call.module.text)) == (x > 1)


def test_copies_use_all_shared_memory() -> None:
    """Both factors if they fit exactly; with a byte less one of them; then none."""

    def shared(limit: int) -> tuple[set[str], int]:
        call = Program(MM, MM_SIZES, **{**TILES, "shared": limit}).call()
        return set(Mapped(call.nest).shared), call.module.kernels[0].shared

    found, size = shared(1 << 15)
    assert found == {"A", "B"}
    assert shared(size) == (found, size)
    less, smaller = shared(size - 1)
    assert len(less) == 1 and smaller < size
    assert shared(smaller - 1) == (set(), 0)


def test_the_context_bounds_block_and_thread_variables() -> None:
    """There is one context, while the original merged several."""
    kernel = tc.compile(MM, "cuda", options={"tile": (32, 32), "threads": (32, 8)})
    (context,) = re.findall(r'context: "(.*)"', kernel.inspect("mapped", **MM_SIZES))
    for variable, most in (("b0", 1), ("b1", 1), ("t0", 31), ("t1", 7)):
        assert f"0 <= {variable} <= {most}" in context


def test_read_only_arrays_are_const() -> None:
    """The compiler may then use the read-only cache."""
    code = tc.compile(RAW, "cuda").inspect("code", N=42)
    assert re.search(r"const float \(\*__restrict__ A\)", code)
    assert all(re.search(rf"[(,]\s*float \(\*__restrict__ {x}\)", code) for x in "BC")


def test_strided_arguments_are_copied() -> None:
    """The original made a view type of dense strides and refused overlapping ones; here copies are made."""
    kernel = tc.compile(ADD, "opencl")
    memory = np.arange(64 * 128, dtype=np.float32)
    a = memory.reshape(64, 128)[:, :64]
    b = np.lib.stride_tricks.as_strided(memory, (64, 64), (16 * 4, 4), writeable=False)
    np.testing.assert_array_equal(kernel(a, b), a + b)

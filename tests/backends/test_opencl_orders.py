"""OpenCL kernels, of fixed and of random programs, with threads in both orders and with loops around barriers
unrolled.

Between two barriers PoCL runs the threads of a block one after the other, in ascending order, and it adds
barriers to loops that have some.  So a race shows only in some of these modes, if at all: the shim of
tests/simt finds more, but only runs CUDA.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import tc
from fuzz.differential import contest
from fuzz.strategies import TYPES, Program, fitting, options_of, programs
from tc import registry
from tc.ir.evaluate import evaluate
from tc.ir.loops import Block, LoopNest, Sync
from tests.codegen.kernels import Result, numpy_dtype
from tests.codegen.launches import on_device, unrolled
from tests.conformance.test_programs import CASES, RUNS, SAMPLE, arguments, compare, results
from tests.poly.test_mapping import changed
from tests.share import examples
from tests.simt import mapper_cases, test_upstream_options
from tests.simt.fixed import right, same
from tests.simt.mapped import Array, Call, prepared

# One block runs all tiles, one after the other.
OPTIONS: dict[str, Any] = {"tile": (2, 2, 2), "threads": (2, 2), "blocks": (1, 1, 1)}

TRIED = frozenset(sorted(SAMPLE)[::3])


USED: frozenset[str] = getattr(registry.get("opencl", run=False), "options_used", frozenset())


def launched(call: Call, nest: LoopNest, backwards: bool) -> Result:
    """Run a nest on the arguments of a call, with threads in order or `backwards`."""
    shapes = {a.name: tuple(evaluate(n, call.sizes) for n in a.shape) for a in nest.arrays}
    values: dict[str, Any] = {}
    for n, v in {**call.given, **call.buffers}.items():
        values[n] = np.reshape(v, shapes[n]) if n in shapes else v  # loops may have been merged
    found = on_device(nest, values, call.sizes, backwards)
    outputs: dict[str, Array] = {}
    for name in nest.outputs:
        # What no kernel writes is as it was, or empty.
        held = found.outputs.get(name, values.get(name, np.empty(0, numpy_dtype(nest.array(name).dtype))))
        outputs[name] = held.reshape(call.shapes[name])
    return replace(found, outputs=outputs)


def run(call: Call, nest: LoopNest, backwards: bool) -> dict[str, Array]:
    """The results of a nest for the arguments of a call."""
    found = launched(call, nest, backwards)
    assert found.code == 0
    return found.outputs


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(*r, id="-".join(r), marks=() if r in TRIED else pytest.mark.slow) for r in RUNS],
)
def test_programs_give_the_same_results_in_any_order_of_threads(name: str, dtype: str) -> None:
    case = CASES[name]
    _, given, buffers = arguments(case, dtype, exact=True)
    source = case.source.replace("{T}", dtype)
    options = fitting(OPTIONS, tc.compile(source, "reference", case.entry).front)
    call = prepared(tc.compile(source, "opencl", case.entry, options=options), given, buffers)
    out = {k: v.copy() for k, v in buffers.items()} or None
    wanted = results(tc.interpret(source, **given, entry=case.entry, out=out, exact=True))
    nest = replace(call.nest, body=unrolled(call.nest.body)[0])
    for backwards in (False, True):
        outputs = run(call, nest, backwards)
        for want, got in zip(wanted, outputs.values(), strict=True):
            compare(case, want, got, got.dtype, got.dtype, True, f"backwards: {backwards}")


def runs(p: Program, options: dict[str, Any], dynamic: int) -> int:
    """The number of modes in which the program runs; `dynamic` has a bit for each dynamic size."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        c = contest(p, ())
        if isinstance(c, str):
            return 0  # every backend refuses it alike
        sizes = [n for i, n in enumerate(c.kernel.front.checked.sizes) if dynamic >> i & 1]
        options = fitting(options, c.kernel.front)
        told = f"opencl {options}, {sizes} dynamic"
        kernel = tc.compile(p.source, "opencl", options=options, dynamic=sizes)
        try:
            call = prepared(kernel, c.given, c.out)
        except tc.InternalError:
            raise
        except tc.Error as e:
            c.agree(told, e.code)
            return 0
        whole, loops = unrolled(call.nest.body)
        modes = [(call.nest, False), (call.nest, True)]
        modes += [(replace(call.nest, body=whole), False)] if loops else []
        for nest, backwards in modes:
            found = launched(call, nest, backwards)
            got = [found.outputs[x.name] for x in c.kernel.front.checked.returns]
            how = f"{told}, backwards: {backwards}, loops: {nest is call.nest}"
            c.agree(how, "TC0701" if found.code else got)
        return 0 if found.code else len(modes)


def some_options() -> st.SearchStrategy[dict[str, Any]]:
    """In half of the cases a block copies and runs several tiles one after the other: loops around
    barriers."""
    drawn = options_of(USED - {"machine"})  # which chooses among maps that the others give
    given = {**OPTIONS, "use_shared_memory": True, "mapping": None}
    return drawn | drawn.map(lambda o: {**o, **given})


# One tile after the other is copied, used and left: a loop around barriers, whatever is drawn.
LOOPED = Program(
    "def f(float(N,M) A, float(M,P) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    {"N": 5, "M": 9, "P": 4},
    "small",
)


def several(count: int, types: tuple[str, ...]) -> None:
    ran: list[int] = []

    @example(p=LOOPED, options={**OPTIONS, "use_shared_memory": True}, dynamic=0)
    # Shrinking would compile hundreds of texts.
    @given(p=programs(types), options=some_options(), dynamic=st.sampled_from([0, 0, 0, 3, 15]))
    @settings(
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        database=None,
        derandomize=True,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate],
        max_examples=count,
    )
    def once(p: Program, options: dict[str, Any], dynamic: int) -> None:
        ran.append(runs(p, options, dynamic))

    once()
    assert len([n for n in ran if n]) > count // 4
    assert 3 in ran  # loops around barriers


@pytest.fixture
def unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs have comparisons that are always true, for which the OpenCL compiler warns."""
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-w")


@pytest.mark.usefixtures("unwarned")
def test_random_programs_give_the_same_results_in_any_order() -> None:
    several(examples(100, 32), TYPES)


@pytest.mark.slow
@pytest.mark.usefixtures("unwarned")
@pytest.mark.parametrize("t", TYPES)
def test_random_programs_of_one_type_give_the_same_results_in_any_order(t: str) -> None:
    several(60, (t,))


def in_all_modes(call: Call, wanted: Sequence[Array]) -> None:
    whole, loops = unrolled(call.nest.body)
    for body in (call.nest.body, *((whole,) if loops else ())):
        for backwards in (False, True):
            outputs = run(call, replace(call.nest, body=body), backwards)
            for got, want in zip(outputs.values(), wanted, strict=True):
                told = f"backwards: {backwards}, loops: {body is call.nest.body}"
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6, err_msg=told)


@pytest.mark.share(78)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", mapper_cases.CASES)
def test_mapper_cases_give_the_same_results_in_any_order(name: str) -> None:
    """The cases of the original (UPSTREAM, 7.4, 7.6 and 7.7), with their options."""
    case = mapper_cases.CASES[name]
    kernel = mapper_cases.compiled(case, "opencl")
    given = mapper_cases.arguments(kernel, case)
    in_all_modes(prepared(kernel, given), mapper_cases.interpreted(case, given))


@pytest.mark.share(60)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", test_upstream_options.CASES)
def test_option_sets_give_the_same_results_in_any_order(name: str) -> None:
    """Those of the report, and those that once broke the original."""
    case = test_upstream_options.CASES[name]
    kernel = tc.compile(case.source, "opencl", options=case.options)
    given = test_upstream_options.arguments(kernel, case.small)
    in_all_modes(prepared(kernel, given), results(tc.interpret(case.source, **given)))


@pytest.mark.share(90)
@pytest.mark.parametrize("name", [*mapper_cases.FIXED, *mapper_cases.SHAPES], ids=str)
def test_fixed_mappings_give_the_same_results_in_any_order(name: str | tuple[int, int]) -> None:
    """Mappings of the original's structures, and rows that several threads share."""
    program = mapper_cases.mapped(name)
    in_all_modes(program.call(), program.wanted())


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["gemm", "in memory"])
def test_a_missing_barrier_changes_results(name: str) -> None:
    """Of soft-max, each in one order only; of `gemm`, that behind the use of a copy only written out."""
    call, wanted = right(name)
    assert wanted is not None

    def wrong(nest: LoopNest) -> bool:
        """Whether results are wrong in a mode."""
        whole, loops = unrolled(nest.body)
        bodies = (nest.body, whole) if loops else (nest.body,)
        modes = itertools.product(bodies, (False, True))
        return not all(same(run(call, replace(nest, body=b), backwards), wanted) for b, backwards in modes)

    assert not wrong(call.nest)
    less = list(changed(call.nest.body, lambda s: Block(()) if isinstance(s, Sync) else None))
    assert less
    for body in less:
        assert wrong(replace(call.nest, body=body))

"""A short share of `python -m fuzz`: random programs on the cpu backend, with random options, against the
interpreter and the reference backend."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import tc
from fuzz.differential import compare
from fuzz.memory import Layout
from fuzz.strategies import FLOATS, INTEGERS, Program, cpu_options, placements, programs
from tests.backends.cpu_cases import isas
from tests.share import examples

_COMMON = settings(
    deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True, print_blob=True
)


@given(p=programs(FLOATS), options=cpu_options(isas()), layouts=placements(), threads=st.integers(1, 4))
@settings(_COMMON, max_examples=examples(120, 15))
def test_results_of_random_floating_programs(
    p: Program, options: dict[str, object], layouts: list[Layout], threads: int
) -> None:
    compare(p, ("cpu",), {"cpu": options}, 0, layouts, threads)


@given(
    p=programs((*INTEGERS, "bool")),
    options=cpu_options(isas()),
    layouts=placements(),
    threads=st.integers(1, 4),
)
@settings(_COMMON, max_examples=examples(120, 15))
def test_results_of_random_integer_programs(
    p: Program, options: dict[str, object], layouts: list[Layout], threads: int
) -> None:
    compare(p, ("cpu",), {"cpu": options}, 0, layouts, threads)


@pytest.mark.slow  # some of them take LLVM ten seconds and more
@given(p=programs(), options=cpu_options(isas()), dynamic=st.integers(1, 15))
@settings(_COMMON, max_examples=50)
def test_results_of_random_programs_with_dynamic_sizes(
    p: Program, options: dict[str, object], dynamic: int
) -> None:
    compare(p, ("cpu", "reference"), {"cpu": options}, dynamic)


@given(p=programs())
@settings(_COMMON, max_examples=25)
def test_all_backends_agree_on_random_programs(p: Program) -> None:
    compare(p, ("reference", "cpu"))


@pytest.mark.slow
def test_halide_agrees_where_it_can_follow() -> None:
    followed = 0

    @seed(4)
    @given(p=programs(("float", "int", "double")))
    @settings(_COMMON, max_examples=40)
    def once(p: Program) -> None:
        nonlocal followed
        found = compare(p, ("halide",))
        followed += not found.refused and not found.excluded

    once()
    assert followed > 3


@pytest.mark.slow
def test_most_random_programs_are_accepted() -> None:
    """The generator is worth its time: a good part of its programs runs."""
    counts = {True: 0, False: 0}

    @given(p=programs())
    @settings(_COMMON, max_examples=40)
    def once(p: Program) -> None:
        try:
            tc.compile(p.source, "reference")
        except tc.Error as e:
            assert not isinstance(e, tc.InternalError)
            counts[False] += 1
        else:
            counts[True] += 1

    with pytest.warns(tc.Warning):
        once()
    assert counts[True] > counts[False]

"""Random programs with random options: the CUDA text, run on the shim in three orders of the threads, gives
what the generator's evaluator says, and nothing is found."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from fuzz.differential import contest
from fuzz.strategies import TYPES, Program, fitting, options_of, programs
from tc import registry
from tests.share import examples
from tests.simt import shim as simt
from tests.simt.mapped import prepared

_COMMON = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    database=None,
    derandomize=True,
    print_blob=True,
)
CUDA = registry.get("cuda", run=False)
USED: frozenset[str] = getattr(CUDA, "options_used", frozenset()) - {"isa", "machine"}


def run(p: Program, options: dict[str, Any], dynamic: int) -> bool:
    """Whether the program could run; `dynamic` has a bit for each size that is dynamic."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        c = contest(p, ())
        if isinstance(c, str):
            return False  # all backends refuse it
        sizes = [n for i, n in enumerate(c.kernel.front.checked.sizes) if dynamic >> i & 1]
        options = fitting(options, c.kernel.front)
        kernel = tc.compile(p.source, "cuda", options=options, dynamic=sizes)
        told = f"the shim with {options}, {sizes} dynamic"
        try:
            call = prepared(kernel, c.given, c.out)
        except tc.InternalError:
            raise
        except tc.Error as e:
            c.agree(told, e.code)
            return False
        result = call.run()
        found = [f for f in result.found if f.kind is not simt.Kind.ORDER or not options.get("atomics")]
        assert not found, f"{c.told(told)}\n{simt.report(found)}"
        failed = bool(result.error[0])
        c.agree(told, "TC0701" if failed else [result.values[x.name] for x in kernel.front.checked.returns])
        return not failed


def several(count: int, types: tuple[str, ...]) -> None:
    ran = 0

    @given(p=programs(types), options=options_of(USED), dynamic=st.sampled_from([0, 0, 0, 3, 15]))
    @settings(_COMMON, max_examples=count)
    def once(p: Program, options: dict[str, Any], dynamic: int) -> None:
        nonlocal ran
        ran += run(p, options, dynamic)

    once()
    assert ran > count // 8  # all backends refuse the others


def test_random_programs_have_no_findings() -> None:
    several(examples(100, 32), TYPES)


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES)
def test_random_programs_of_one_type_have_no_findings(t: str) -> None:
    several(60, (t,))

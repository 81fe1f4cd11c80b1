"""Random expressions, many to a kernel: C and LLVM IR compute what the types' arithmetic says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tc.dtypes import FLOAT32, FLOAT64, INT8, INT32, INT64, UINT16, UINT32, UINT64, DType
from tc.ir.expr import Expr, substitute
from tc.ir.loops import LoopNest
from tc.ir.printer import text
from tests.codegen.kernels import call, in_c, in_llvm, lowered, numpy_dtype
from tests.ir.expressions import typed, value
from tests.poly.programs import Build, axis, box

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def inputs(t: DType) -> tuple[list[float | int], list[float | int]]:
    if t.is_float:
        special: list[float | int] = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan, 3e38]
    else:
        special = [0, 1, 3, int(t.max), int(t.min), int(t.max) // 2, t.wrap(-7), 12]
    pairs = [(a, b) for a in special for b in special]
    return [a for a, _ in pairs], [b for _, b in pairs]


def check(t: DType, expressions: list[Expr], compile_: object) -> None:
    xs, ys = inputs(t)
    b = Build("random", "N")
    b.input("x", t, "N")
    b.input("y", t, "N")
    reads: dict[str, Expr] = {"x": b.read("x", "i"), "y": b.read("y", "i")}
    for k, e in enumerate(expressions):
        b.tensor(f"o{k}", t, *box("N"))
        b.stage(f"o{k}", ("i",), None, substitute(e, reads), axis("i", 0, "N"), text=text(e))
    n = lowered(b.done(), {"N": len(xs)}, traced=False)
    with np.errstate(all="ignore"):
        values = {"x": np.array(xs).astype(numpy_dtype(t)), "y": np.array(ys).astype(numpy_dtype(t))}
    if not t.is_float:
        values = {"x": np.array(xs, numpy_dtype(t)), "y": np.array(ys, numpy_dtype(t))}
    r = call(compile_(n), n, values)  # type: ignore[operator]
    for k, e in enumerate(expressions):
        with np.errstate(all="ignore"):
            env = [{"x": a.item(), "y": c.item()} for a, c in zip(values["x"], values["y"], strict=True)]
            want = np.array([value(e, v) for v in env], numpy_dtype(t))
        np.testing.assert_array_equal(r.outputs[f"o{k}"], want, text(e))


def in_c_as_it_comes(n: LoopNest) -> Any:
    """Random programs hold comparisons that are always true, and names of values that do not matter, of which
    gcc warns."""
    return in_c(n, flags=["-Wno-type-limits", "-Wno-unused-variable"])


TYPES = [INT8, UINT16, INT32, UINT32, INT64, UINT64, FLOAT32, FLOAT64]


@pytest.mark.share(18)
@pytest.mark.parametrize("t", TYPES, ids=str)
@settings(_COMMON, max_examples=8)
@given(data=st.data())
def test_llvm(t: DType, data: st.DataObject) -> None:
    check(t, data.draw(st.lists(typed(t, ("x", "y")), min_size=4, max_size=12)), in_llvm)


@pytest.mark.share(18)
@pytest.mark.parametrize("t", TYPES, ids=str)
# Shrinking would compile hundreds of texts.
@settings(_COMMON, max_examples=2, phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_c(t: DType, data: st.DataObject) -> None:
    check(t, data.draw(st.lists(typed(t, ("x", "y")), min_size=12, max_size=24)), in_c_as_it_comes)

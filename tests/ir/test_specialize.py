"""Sizes and scalars become literals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tc.errors import PreconditionError, Source
from tc.ir.expr import GE, Call, IntImm, Variable, walk
from tc.ir.printer import program_text
from tc.ir.program import Precondition
from tc.ir.specialize import require, specialize
from tc.pipeline import front as pipeline
from tests.poly import programs
from tests.poly.programs import v


def test_everything_folds_to_literals() -> None:
    sizes = {"N": 2, "C": 3, "H": 9, "W": 8, "F": 4, "KH": 3, "KW": 2}
    p = specialize(programs.convolution(), sizes, {"sh": 2, "sw": 3})
    assert program_text(p) == (
        "program sconv2d\n"
        "  scalar int32 sh = 2 (specialized)\n"
        "  scalar int32 sw = 3 (specialized)\n"
        "  input float32(2, 3, 9, 8) I\n"
        "  input float32(4, 3, 3, 2) W\n"
        "  output float32(2, 4, 4, 3) O\n"
        "  S0: O(n, f, h, w) = 0.0   for n in [0, 2), f in [0, 4), h in [0, 4), w in [0, 3)\n"
        "  S1: O(n, f, h, w) += I(n, c, 2 * h + kh, 3 * w + kw) * W(f, c, kh, kw)"
        "   for n in [0, 2), f in [0, 4), h in [0, 4), w in [0, 3);"
        " reduce c in [0, 3), kh in [0, 3), kw in [0, 2)\n"
    )
    assert p.sizes == ()


def test_sizes_that_are_not_given_stay() -> None:
    p = specialize(programs.matmul(), {"K": 4})
    assert p.sizes == ("M", "N")
    assert p.buffer("A").box[0].extent == Variable("M")
    assert p.buffer("A").box[1].extent == IntImm(4)
    assert specialize(p, {"M": 2, "N": 3}) == specialize(programs.matmul(), {"M": 2, "N": 3, "K": 4})


def test_preconditions_that_hold_are_removed_and_those_that_fail_are_errors() -> None:
    p = replace(
        programs.triangle(), preconditions=(Precondition(GE(v("N"), IntImm(4)), "N must be at least 4"),)
    )
    assert specialize(p, {"N": 4}).preconditions == ()
    with pytest.raises(
        PreconditionError, match="N must be at least 4: the sizes must satisfy N >= 4, but N = 3"
    ) as caught:
        specialize(p, {"N": 3})
    assert caught.value.code == "TC0601"


def test_sizes_beyond_32_bits_stay_exact() -> None:
    p = specialize(programs.shifted(), {"N": 1 << 40})
    assert p.buffer("A").box[0].end == p.buffer("A").box[0].end
    assert p.buffer("A").box[0].extent == IntImm(1 << 40)


def test_requirements_on_sizes_that_stay_are_those_of_specialising() -> None:
    p = replace(
        programs.matmul(),
        preconditions=(Precondition(GE(Variable("N"), IntImm(2)), "A(i) is out of bounds"),),
    )
    require(p, {"M": 1, "N": 2, "K": 1})
    with pytest.raises(PreconditionError) as dynamic:
        require(p, {"N": 1})
    with pytest.raises(PreconditionError) as fixed:
        specialize(p, {"N": 1})
    assert str(dynamic.value) == str(fixed.value)


SAME = """def same(float(N,C,H,W) x, float(F,C,KH,KW) w) -> (y) {
  y(n,f,h,v) +=! (h + kh - 1 >= 0 && h + kh - 1 < H && v + kw - 1 >= 0 && v + kw - 1 < W)
               ? x(n,c,h+kh-1,v+kw-1) * w(f,c,kh,kw) : 0.0 where h in 0:H, v in 0:W, kh in 0:3, kw in 0:3
}"""


@pytest.mark.parametrize(
    ("sizes", "checked"),
    [
        ({"KH": 3, "KW": 3}, ()),
        ({"KH": 3, "KW": 2}, (3,)),  # w(f, c, 0, 2) is read unless W is 1
        ({"KH": 4}, (3,)),
        ({}, (2, 3)),
    ],
)
def test_checks_that_sizes_make_needless_are_removed(sizes: dict[str, int], checked: tuple[int, ...]) -> None:
    """What is read under a condition may be too small for it: for all sizes it is checked when it runs."""
    program = pipeline.build(pipeline.front(Source(SAME)), pipeline.Variant()).program
    values = (e for s in specialize(program, sizes).stages for e in walk(s.value))
    assert [e.checked for e in values if isinstance(e, Call) and e.name == "w"] == [checked]

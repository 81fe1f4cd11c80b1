"""Reference groups: the hull of the footprints of reads of one buffer, and the place of each read in it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.dtypes import FLOAT32
from tc.ir.expr import Add, Expr, IntImm, Mul, Variable
from tc.ir.program import Buffer, Range
from tc.poly.gpu.footprint import footprint
from tc.poly.gpu.groups import Group, Reference, grouped
from tc.poly.gpu.mapping import AxisMap, Unit
from tc.poly.tile_plan import Axis
from tests.poly.promoted import shared, small
from tests.share import examples

ROW, COLUMN = Axis("i_0", {"S": "i"}, 0, 24), Axis("j_1", {"S": "j"}, 0, 30)
UNIT = Unit((), ((ROW, AxisMap(4, "b0", 0)), (COLUMN, AxisMap(6, "b1", 0))), ())
A = Buffer("A", FLOAT32, (Range(IntImm(0), IntImm(200)), Range(IntImm(0), IntImm(200))), "input")


def at(factor: int, variable: str, offset: int) -> Expr:
    return Add(Mul(IntImm(factor), Variable(variable)), IntImm(offset))


def references(subscripts: Sequence[tuple[Expr, Expr]], apart: Sequence[int] = ()) -> list[Reference]:
    out: list[Reference] = []
    for n, s in enumerate(subscripts):
        box = footprint(UNIT, "S", s, strided=True)
        assert box is not None
        out.append(Reference("S", n, A, box, 24, True, n not in apart))
    return out


def elements(g: Group) -> list[list[int]]:
    """The first and the last element of the footprint in each dimension, of the first tile."""
    return [[d.constant, d.constant + d.span - 1] for d in g.box]


offsets = st.tuples(st.integers(0, 12), st.integers(0, 12))


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([(1, 1), (2, 1), (3, 2), (-1, 1), (1, -2)]), st.lists(offsets, min_size=1, max_size=6))
def test_a_group_is_the_hull_of_its_members(factors: tuple[int, int], starts: list[tuple[int, int]]) -> None:
    rows, columns = factors
    boxes = [(at(rows, "i", 40 + a), at(columns, "j", 80 + b)) for a, b in starts]
    reads = references(boxes)
    groups = grouped(reads)
    assert sorted(r.read for g in groups for r in g.members) == list(range(len(starts)))
    for g in groups:
        for n, d in enumerate(g.box):  # the origins of the first and of the last tile
            assert d.least == min(reads[r.read].box[n].least or 0 for r in g.members)
            assert d.most == min(reads[r.read].box[n].most or 0 for r in g.members)
        inside = [set[int](), set[int]()]
        for r in g.members:
            first = starts[r.read]
            for d, (k, n) in enumerate(zip(factors, (4, 6), strict=True)):
                touched = {k * p + (40, 80)[d] + first[d] for p in range(n)}
                inside[d] |= touched
                # The offset of its elements, in strides, from the first of all.
                assert g.box[d].constant + r.box[d].offset * r.box[d].stride == min(touched)
        assert elements(g) == [[min(x), max(x)] for x in inside]
        alone = sum(Group((r,)).elements for r in references([boxes[r.read] for r in g.members]))
        assert g.elements <= alone
    for a, b in itertools.combinations(groups, 2):  # the hull of separate groups would be larger
        both = [
            (max(x[1], y[1]) - min(x[0], y[0])) // d.stride + 1
            for x, y, d in zip(elements(a), elements(b), a.box, strict=True)
        ]
        same_steps = all((x.constant - y.constant) % x.stride == 0 for x, y in zip(a.box, b.box, strict=True))
        assert not same_steps or both[0] * both[1] > a.elements + b.elements


def test_a_read_between_two_groups_joins_them() -> None:
    first, last, between = ((at(1, "i", 0), at(1, "j", k)) for k in (0, 10, 5))
    assert len(grouped(references([first, last]))) == 2
    (one,) = grouped(references([first, last, between]))
    assert sorted(r.read for r in one.members) == [0, 1, 2]
    assert one.elements == 4 * 16 and one.reuse == 72 / 64


def test_transposed_and_strided_reads_stay_separate() -> None:
    straight, across = (at(1, "i", 0), at(1, "j", 0)), (at(1, "j", 0), at(1, "i", 0))
    assert len(grouped(references([straight, across]))) == 2
    even, odd = (at(2, "i", 0), at(1, "j", 0)), (at(2, "i", 1), at(1, "j", 0))
    assert len(grouped(references([even, odd]))) == 2


def test_exact_footprints_are_merged_only_with_equal_ones() -> None:
    one, next_one = (at(1, "i", 0), at(1, "j", 0)), (at(1, "i", 1), at(1, "j", 0))
    assert len(grouped(references([one, next_one], apart=[0]))) == 2
    assert len(grouped(references([one, one], apart=[0]))) == 1


STENCIL = """def stencil(float(M,N) A) -> (B) {
  B(i,j) = A(i,j+1) + A(i+2,j+1) + A(i+1,j) * A(i+1,j+2) - A(i+1,j+1)
}"""
STRIDED = """def pool(float(M,N) A) -> (B) {
  B(i,j) = fmax(fmax(A(2*i,2*j), A(2*i+2,2*j)), A(2*i,2*j+2)) where i in 0:M/2-1, j in 0:N/2-1
}"""


@pytest.mark.parametrize(("source", "extents"), [(STENCIL, (6, 10)), (STRIDED, (5, 9))])
def test_a_stencil_has_one_copy_with_its_halo(source: str, extents: tuple[int, int]) -> None:
    """With numbers of threads that divide the tile, and others."""
    a = small(np.random.default_rng(5), 21, 35)
    for threads in ((8, 4), (4, 2), (3, 2)):
        options = {"tile": (4, 8), "threads": threads, "use_shared_memory": True}
        kernel = tc.compile(source, "opencl", options=options)
        np.testing.assert_array_equal(kernel(a), tc.interpret(source, a))
        if threads != (3, 2):
            (copy,) = shared(kernel, M=21, N=35)
            assert tuple(n.value for n in copy.shape if isinstance(n, IntImm)) == extents


INDICES = """def pairs(float(E,D) T, int(L) I) -> (O) {
  O(d,l) = T(I(l), d) + T(I(l+1), d) where l in 0:L-1
}"""


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
def test_index_arrays_are_copied_where_they_are_read() -> None:
    """Only indices that an instance reads select elements to copy: others need not be in range."""
    rng = np.random.default_rng(8)
    t, i = small(rng, 9, 20), rng.integers(0, 9, 17).astype(np.int32)
    kernel = tc.compile(INDICES, "opencl", options={"use_shared_memory": True})
    np.testing.assert_array_equal(kernel(t, i), tc.interpret(INDICES, t, i))

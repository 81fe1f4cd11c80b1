"""Promotion to registers: which elements a nest promotes, and which of them it does not store."""

from __future__ import annotations

import pytest

from tc.dtypes import FLOAT32
from tc.ir.expr import Add, IntImm, Mul
from tc.poly import scop, tile_plan
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.poly.register_promotion import Promotion, inside, promotion
from tests.poly import fused
from tests.poly.fused import program
from tests.poly.programs import Build, axis, box, v


def promotions(
    source: str, strategy: fusion.Strategy = "max", **sizes: int
) -> list[tuple[set[str], set[str]]]:
    """For each nest the promoted buffers, and those of them that are dead after it."""
    p = program(source, **sizes)
    with isl_context():
        s = scop.build(p)
        found = [promotion(s, n) for r in tile_plan.regions(p, fusion.fuse(s, strategy)) for n in r.nests]
    assert all(isinstance(x, Promotion) and x.dead <= x.buffers for x in found)
    return [(set(x.buffers), set(x.dead)) for x in found]


def test_a_sum_is_promoted_to_registers() -> None:
    assert promotions(fused.GEMM) == [({"C"}, set())]


def test_an_element_that_is_invariant_in_a_loop_is_loaded_once() -> None:
    """The bias is read outside of the loop; only reads in phases with loops are promoted."""
    ((buffers, dead),) = promotions(fused.BIAS)
    assert "C" in buffers and not buffers & {"A", "B"} and not dead


def test_a_temporary_of_one_nest_is_never_stored() -> None:
    ((buffers, dead),) = promotions(fused.SOFTMAX)
    temporary = {b for b in buffers if b.startswith("t")}
    assert temporary and dead == temporary
    assert "O" not in buffers and "I" not in buffers  # the phases' loops move them
    ((buffers, dead),) = promotions(fused.ANTI)
    assert {b for b in dead if b.startswith("t")} and "O" in buffers and "O" not in dead


def test_a_temporary_that_another_nest_reads_is_stored() -> None:
    found = promotions(fused.SOFTMAX, "min")
    assert all(not dead for _, dead in found)
    assert any(b.startswith("t") for buffers, _ in found for b in buffers)


def test_an_output_is_stored() -> None:
    ((buffers, dead),) = promotions(fused.MOMENTS)
    assert {"mean", "var"} <= buffers and not dead


@pytest.mark.parametrize(
    ("source", "sizes", "buffer"),
    [
        # two elements of one buffer at a point
        (
            "def f(float(N) A) -> (O) { O(i) = A(i) where i in 0:20\nO(i) = O(i+10) where i in 0:10 }",
            {"N": 20},
            "O",
        ),
        # another in each iteration of the reduction
        ("def f(float(N) A, float(K) W) -> (O) { O(i) +=! A(i+k) * W(k) }", {"N": 8, "K": 3}, "A"),
        # not a sum of indices
        ("def f(float(N) A) -> (O) { O(i) = A(i/2) where i in 0:N }", {"N": 6}, "A"),
        ("def f(float(N) A, int(M) I) -> (O) { O(i) +=! A(I(i)) * A(k) }", {"N": 6, "M": 5}, "A"),
    ],
)
def test_these_buffers_are_not_promoted(source: str, sizes: dict[str, int], buffer: str) -> None:
    *_, (last, _) = promotions(source, "min", **sizes)
    assert buffer not in last


def test_an_element_under_a_condition_is_promoted_if_it_exists_in_any_case() -> None:
    source = "def f(float(N) A) -> (O) { O(i) = A(i) where i in 0:6\nO(i) = A(i) * 2 where i >= 2 }"
    assert promotions(source, "min", N=6)[-1] == ({"O"}, set())


def test_a_read_that_a_guard_protects_is_not_hoisted() -> None:
    source = "def f(float(N) A, float(K) B) -> (O) { O(i) +=! (i < 3 ? A(i) : 0) * B(k) where i in 0:6 }"
    for buffers, _ in promotions(source, N=3, K=4):
        assert "A" not in buffers
    free = "def f(float(N) A, float(K) B) -> (O) { O(i) +=! A(i) * B(k) }"
    assert any("A" in buffers for buffers, _ in promotions(free, N=3, K=4))


@pytest.mark.parametrize(
    ("factor", "offset", "extent", "expected"),
    [
        (1, 0, 4, True),
        (1, 0, 5, False),
        (1, -1, 4, False),
        (-1, 3, 4, True),
        (-1, 3, 5, False),
        (2, 0, 3, False),
    ],
)
def test_elements_in_bounds_under_any_condition_are_found(
    factor: int, offset: int, extent: int, expected: bool
) -> None:
    """`Y(i) = X(factor * i + offset)` with four elements in X."""
    b = Build("reads", "")
    b.input("X", FLOAT32, 4)
    b.tensor("Y", FLOAT32, *box(extent))
    at = Add(Mul(IntImm(factor), v("i")), IntImm(offset))
    b.stage("Y", ("i",), None, b.read("X", at), axis("i", 0, extent))
    with isl_context():
        s = scop.build(b.done())
        (statement,) = s.statements
        assert inside(s, statement, statement.accesses[0]) == expected

"""The oracle of the workspace accepts disjoint arrays, and finds overlapping ones."""

from __future__ import annotations

from dataclasses import replace

from tc.dtypes import FLOAT32, FLOAT64
from tc.ir.expr import LE, Add, Expr, FloatImm, IntImm, Load, Mul, Variable
from tc.ir.loops import Array, Block, Compute, For, If, LoopKind, LoopNest, Promote, Stmt
from tc.poly.trace.placement import misplaced

N = Variable("N")


def write(array: str, *subscripts: Expr) -> Stmt:
    return Compute("S0", array, subscripts, None, FloatImm(0.0, FLOAT32), (), "")


def read(array: str) -> Stmt:
    return Compute("S1", "out", (IntImm(0),), None, Load(array, (IntImm(0),), FLOAT32), (), "")


def loop(body: Stmt, upper: Expr = N, kind: LoopKind = LoopKind.PARALLEL) -> Stmt:
    return For("i", IntImm(0), upper, 1, kind, body)


def nest(body: Stmt, workspace: Expr, *arrays: Array) -> LoopNest:
    out = Array("out", FLOAT32, (N,), "output")
    return LoopNest("f", ("out",), ("out",), ("N",), (out, *arrays), (), body, workspace, ())


S = Array("s", FLOAT64, (N,), "temporary", IntImm(0))
T = Array("t", FLOAT32, (IntImm(16),), "temporary", Mul(N, IntImm(8)))
P = Array("p", FLOAT32, (IntImm(16),), "private", IntImm(0), owner="i", stride=64)
BOTH = Block((write("s", IntImm(0)), write("t", IntImm(0))))


def test_overlapping_and_oversized_temporaries_are_found() -> None:
    enough = Add(Mul(N, IntImm(8)), IntImm(64))
    for n in (0, 1, 1000):
        assert misplaced(nest(BOTH, enough, S, T), {"N": n}) is None
    found = misplaced(nest(BOTH, enough, S, replace(T, offset=Mul(N, IntImm(4)))), {"N": 5})
    assert found == "'s' ends at 40, where 't', at 20, has begun"
    assert misplaced(nest(BOTH, Mul(N, IntImm(8)), S, T), {"N": 5}) == "'t' ends at 104, the workspace at 40"
    assert misplaced(nest(read("s"), IntImm(8), S), {"N": 5}) == "'s' ends at 40, the workspace at 8"
    assert misplaced(nest(write("s", IntImm(0)), Mul(N, IntImm(8)), S, T), {"N": 5}) is None, "t is not used"


def test_shared_private_arrays_of_tasks_are_found() -> None:
    body = loop(Promote(frozenset(), frozenset(), write("p", IntImm(0))))
    assert misplaced(nest(body, Mul(N, IntImm(64)), P), {"N": 7}) is None
    assert misplaced(nest(body, IntImm(64), P), {"N": 1}) is None
    assert misplaced(nest(body, IntImm(64), P), {"N": 2}) == "'p' ends at 128, the workspace at 64"
    found = misplaced(nest(body, IntImm(999), replace(P, stride=32)), {"N": 2})
    assert found == "'p' has 64 bytes, 32 in each of 2 tasks"
    assert (
        misplaced(nest(body, IntImm(64), replace(P, owner=None)), {"N": 2}) == "the iterations of i share 'p'"
    )
    assert misplaced(nest(write("p", IntImm(0)), IntImm(64), P), {}) == "'p' is used outside of the loop i"
    serial = loop(write("p", IntImm(0)), kind=LoopKind.SERIAL)
    assert misplaced(nest(serial, IntImm(64), replace(P, owner=None)), {"N": 2}) is None


def test_a_nested_parallel_loop_makes_no_tasks() -> None:
    inner = For("j", IntImm(0), Variable("i"), 1, LoopKind.PARALLEL, write("p", IntImm(0)))
    assert misplaced(nest(loop(inner), Mul(N, IntImm(64)), P), {"N": 3}) is None


def test_size_variants_may_share_memory() -> None:
    few = If(LE(N, IntImm(4)), write("s", IntImm(0)), write("t", IntImm(0)))
    same = replace(T, offset=IntImm(0))
    assert misplaced(nest(few, IntImm(64), S, same), {"N": 4}) is None
    assert misplaced(nest(few, IntImm(64), S, same), {"N": 5}) is None
    data = If(LE(Load("out", (IntImm(0),), FLOAT32), IntImm(4)), write("s", IntImm(0)), write("t", IntImm(0)))
    assert (
        misplaced(nest(data, IntImm(64), S, same), {"N": 4}) == "'s' ends at 32, where 't', at 0, has begun"
    )


def test_loops_of_one_iteration_have_known_indices() -> None:
    """`let n = 2 * N` around a parallel loop, as the scanner counts tasks."""
    twice = Mul(N, IntImm(2))
    body = loop(write("p", IntImm(0)), Variable("n"))
    body = For("n", twice, Add(twice, IntImm(1)), 1, LoopKind.SERIAL, body)
    assert misplaced(nest(body, IntImm(256), P), {"N": 2}) is None
    assert misplaced(nest(body, IntImm(256), P), {"N": 3}) == "'p' ends at 384, the workspace at 256"

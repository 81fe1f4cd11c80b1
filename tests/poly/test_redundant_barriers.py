"""Removal of redundant barriers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tc.dtypes import FLOAT32
from tc.ir.expr import INDEX, LT, Add, Expr, FloorDiv, IntImm, Load, Variable, walk
from tc.ir.loops import Block, Combine, Compute, For, If, Launch, LoopKind, Stmt, Sync, statements
from tc.poly.gpu.redundant_barriers import remove_redundant_barriers

B0, N = Variable("b0", INDEX), Variable("N", INDEX)


def touch(writes: str, *reads: str) -> Stmt:
    value: Expr = IntImm(0, FLOAT32) if not reads else Load(reads[0], (), FLOAT32)
    for r in reads[1:]:
        value = Add(value, Load(r, (), FLOAT32))
    return Compute("", writes, (), None, value, (), "")


def loop(lower: Expr | int, upper: Expr | int, *body: Stmt) -> For:
    low, high = (IntImm(x) if isinstance(x, int) else x for x in (lower, upper))
    return For("i", low, high, 1, LoopKind.SERIAL, Block(body))


def left(*body: Stmt, threads: int = 64) -> list[Stmt]:
    """The barriers that are left; each thread has its own array `r`."""
    launch = Launch("f", (("b0", IntImm(8)),), (("t0", threads),), Block(body))
    found = remove_redundant_barriers(launch, {"r"})
    for s in statements(found):
        assert not isinstance(s, For | If) or any(isinstance(x, Compute) for x in statements(s))
    return [s for s in statements(found) if isinstance(s, Sync)]


WRITE, READ, OTHER = touch("a"), touch("r", "a"), touch("b")
BLOCK, WARPS, COPIES = Sync(), Sync(warp=True), Sync(copies=True)
SUM = Combine("r", "+", "t0")
SOME = LT(B0, IntImm(3))


@pytest.mark.parametrize(
    ("body", "threads", "stay"),
    [
        pytest.param([WRITE, BLOCK, READ], 64, 1, id="what is written is read"),
        pytest.param([READ, BLOCK, WRITE], 64, 1, id="what is read is written"),
        pytest.param([READ, BLOCK, READ], 64, 0, id="nothing is written"),
        pytest.param([touch("r"), BLOCK, touch("r", "r")], 64, 0, id="threads have it for themselves"),
        pytest.param([WRITE, BLOCK, BLOCK, READ], 64, 1, id="two"),
        pytest.param([WRITE, BLOCK, OTHER, BLOCK, READ], 64, 1, id="two, and something else between"),
        pytest.param([WRITE, BLOCK, READ, BLOCK], 64, 1, id="the last"),
        pytest.param([WRITE, BLOCK, If(SOME, BLOCK), READ], 64, 1, id="a condition"),
        pytest.param([If(SOME, Block((BLOCK, OTHER))), READ, BLOCK], 64, 0, id="under a condition"),
        pytest.param([WRITE, BLOCK, loop(0, 3, BLOCK, READ)], 64, 1, id="a loop that runs"),
        pytest.param([WRITE, BLOCK, loop(0, N, BLOCK, READ)], 64, 1, id="a loop, where it runs"),
        pytest.param([WRITE, BLOCK, loop(0, N, BLOCK, OTHER), READ], 64, 2, id="a loop that may not run"),
        pytest.param([WRITE, BLOCK, loop(0, 3, BLOCK, OTHER), READ], 64, 1, id="a loop before"),
        pytest.param(
            [WRITE, BLOCK, loop(B0, 8, COPIES, OTHER), READ], 64, 1, id="a loop that runs in each block"
        ),
        pytest.param(
            [WRITE, BLOCK, loop(B0, 7, COPIES, OTHER), READ], 64, 2, id="a loop that runs in some blocks"
        ),
        pytest.param(
            [WRITE, BLOCK, loop(FloorDiv(B0, IntImm(4)), 2, COPIES, OTHER), READ], 64, 1, id="from a tile on"
        ),
        pytest.param(
            [WRITE, BLOCK, loop(0, FloorDiv(B0, IntImm(4)), COPIES, OTHER), READ], 64, 2, id="up to a tile"
        ),
        pytest.param([loop(0, 3, WRITE, BLOCK, READ)], 64, 1, id="after the last iteration"),
        pytest.param([loop(0, 3, WRITE, BLOCK, READ, BLOCK)], 64, 2, id="between iterations"),
        pytest.param(
            [loop(0, 3, WRITE, BLOCK, READ, BLOCK, OTHER)], 64, 2, id="between iterations, not last"
        ),
        pytest.param([loop(0, 3, BLOCK, OTHER, BLOCK)], 64, 1, id="one an iteration"),
        pytest.param([WRITE, BLOCK, WARPS, READ], 64, 1, id="one of warps stands at one of blocks"),
        pytest.param([WRITE, BLOCK, WARPS, READ], 32, 1, id="a warp is the block"),
        pytest.param([WRITE, BLOCK, SUM, READ], 64, 0, id="a combination over warps"),
        pytest.param([WRITE, BLOCK, SUM, READ], 32, 1, id="a combination within warps"),
        pytest.param([COPIES, OTHER], 64, 1, id="copies arrive"),
    ],
)
def test_needed_barriers_are_kept(body: list[Stmt], threads: int, stay: int) -> None:
    assert len(left(*body, threads=threads)) == stay


def test_of_two_barriers_that_of_the_inner_loop_is_removed() -> None:
    found = left(loop(0, 3, OTHER, BLOCK), WRITE, BLOCK, READ)
    assert len(found) == 2  # `b` is written in each iteration
    found = left(loop(0, 3, touch("r", "b"), WARPS), BLOCK, WRITE, BLOCK, READ)
    assert found == [BLOCK]


def test_a_statement_object_that_occurs_twice_is_two_barriers() -> None:
    """isl makes one of each."""
    both = Block((WRITE, BLOCK, READ, BLOCK))
    assert len(left(loop(0, 3, both), both)) == 3


@pytest.mark.parametrize("seed", range(300))
def test_random_launches_keep_every_needed_barrier_and_no_redundant_one(seed: int) -> None:
    """On all paths through random launches conflicting accesses stay ordered, and no remaining barrier is
    redundant."""
    body = Block((*parts(random.Random(seed), 2), READ, WRITE))
    after = remove_redundant_barriers(Launch("f", (), (("t0", 64),), body), {"r"}).body
    wanted = list(ordered_conflicts(body))
    assert list(ordered_conflicts(after)) == wanted
    barriers = [s for s in statements(after) if isinstance(s, Sync)]
    for k in range(len(barriers)):
        assert list(ordered_conflicts(dropped(after, k))) != wanted


def parts(rng: random.Random, depth: int) -> list[Stmt]:
    out: list[Stmt] = []
    for _ in range(rng.randint(1, 4)):
        match rng.randint(0, 9 if depth else 7):
            case 0 | 1 | 2 | 3:
                out.append(BLOCK)
            case 4 | 5 | 6:
                out.append(rng.choice([WRITE, READ, OTHER, touch("b", "a")]))
            case 7:
                out.append(SUM if rng.random() < 0.3 else BLOCK)
            case 8:
                out.append(loop(0, rng.choice([IntImm(2), N]), touch("c"), *parts(rng, depth - 1)))
            case _:
                out.append(If(SOME, Block((touch("c"), *parts(rng, depth - 1)))))
    return out


def dropped(s: Stmt, number: int) -> Stmt:
    """The body without the barrier of this number."""
    count = itertools.count()

    def visit(s: Stmt) -> Stmt:
        match s:
            case Sync():
                return Block(()) if next(count) == number else s
            case Block():
                return Block(tuple(map(visit, s.body)))
            case For():
                return replace(s, body=visit(s.body))
            case If():
                return replace(s, then=visit(s.then))
            case _:
                return s

    return visit(s)


def ordered_conflicts(body: Stmt) -> Iterator[set[tuple[int, int]]]:
    """For each path the pairs of conflicting accesses with a barrier between, by their numbers on the
    path."""
    paths: list[tuple[int, ...]] = [()]
    for _ in range(400):
        if not paths:
            return
        way = paths.pop()
        touched: list[tuple[frozenset[tuple[str, bool]], int]] = []
        try:
            run(body, iter(way), touched, [0])
        except Undecided as e:
            paths += [(*way, k) for k in range(e.args[0])]
            continue
        pairs = itertools.combinations(enumerate(touched), 2)
        yield {
            (i, j)
            for (i, (first, before)), (j, (second, after)) in pairs
            if before < after and any(a == b and (v or w) for a, v in first for b, w in second)
        }


class Undecided(Exception):
    """A choice among so many continuations of a path."""


def run(
    s: Stmt, way: Iterator[int], touched: list[tuple[frozenset[tuple[str, bool]], int]], barriers: list[int]
) -> None:
    """The accesses, each with the number of barriers before it."""

    def chosen(count: int) -> int:
        found = next(way, None)
        if found is None:
            raise Undecided(count)
        return found

    match s:
        case Block():
            for c in s.body:
                run(c, way, touched, barriers)
        case For():
            for _ in range(s.upper.value if isinstance(s.upper, IntImm) else chosen(3)):
                run(s.body, way, touched, barriers)
        case If():
            if chosen(2):
                run(s.then, way, touched, barriers)
        case Compute():
            reads = {(x.buffer, False) for x in walk(s.value) if isinstance(x, Load)}
            shared = {(a, w) for a, w in reads | {(s.buffer, True)} if a != "r"}
            touched.append((frozenset(shared), barriers[0]))
        case _:
            barriers[0] += 1

"""Software prefetches of rows whose numbers are data."""

from __future__ import annotations

import pytest

from tc.ir.evaluate import evaluate
from tc.ir.expr import Load, walk
from tc.ir.loops import Block, For, If, LoopKind, LoopNest, Prefetch, Promote, Stmt
from tests.backends.prefetch_cases import MACHINE, lowered, prefetches, substatements

TABLE = "def f(float(E,D) T, int(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }"
BELOW = (
    "def f(float(E,D) T, int(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) where k in 0:30, i in 0:4, k+i < 20 }"
)


def gather_indices(nest: LoopNest) -> list[tuple[str, tuple[int, ...]]]:
    """The elements that prefetches of gathers read as indices, in the order in which they run."""
    out: list[tuple[str, tuple[int, ...]]] = []

    def run(s: Stmt, env: dict[str, int]) -> None:
        match s:
            case Block():
                for c in s.body:
                    run(c, env)
            case For():
                if s.kind is LoopKind.VECTOR:
                    return run(s.body, {**env, s.var: evaluate(s.lower, env)})
                for i in range(evaluate(s.lower, env), evaluate(s.upper, env), s.step):
                    run(s.body, {**env, s.var: i})
            case If():
                run(s.then if evaluate(s.condition, env) else s.otherwise or Block(()), env)
            case Promote():
                run(s.body, env)
            case Prefetch():
                out.extend(
                    (x.buffer, tuple(evaluate(e, env) for e in x.subscripts))
                    for e in s.subscripts
                    for x in walk(e)
                    if isinstance(x, Load)
                )
            case _:
                pass

    run(nest.body, {})
    return list(dict.fromkeys(out))


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
def test_gathered_rows_are_prefetched_across_the_ends_of_sums() -> None:
    found = gather_indices(lowered(TABLE, E=1000, D=16, B=3, L=30).nest)
    order = [(i, k) for i in range(3) for k in range(30)]
    assert found[:78] == [("I", x) for x in order[12:]]
    assert set(found[78:]) <= {("I", x) for x in order}, "what lies beyond the last sum is not read"


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
def test_indices_that_may_not_exist_are_not_read_to_prefetch() -> None:
    nest = lowered(BELOW, E=1000, D=16, B=4, L=20).nest
    assert not gather_indices(nest)


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
@pytest.mark.parametrize("columns", [24, 29, 31, 32, 60])
@pytest.mark.parametrize("l2_bandwidth", [26.0, 32.0])
def test_gathered_rows_are_not_split(
    columns: int, l2_bandwidth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part of a row would check and compute the address again, and miss again where no prefetcher
    predicts."""
    monkeypatch.setitem(MACHINE, "l2_bandwidth", l2_bandwidth)
    nest = lowered(TABLE, l2=1 << 20, E=350_000, D=columns, B=291, L=48).nest
    assert [s for s in prefetches(nest) if s.buffer == "T"]
    assert sum(isinstance(s, Promote) for s in substatements(nest.body)) == 1, (
        "one register tile has all of a row"
    )

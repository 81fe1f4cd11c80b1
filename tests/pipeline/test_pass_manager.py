"""Lists of passes: order, times, texts, oracles, searches, names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tc.errors import InternalError
from tc.pipeline.pass_manager import Pass, PassList, Search, recording


@dataclass(frozen=True)
class State:
    value: int
    path: tuple[str, ...] = ()


def step(name: str, change: Callable[[int], int] = lambda v: v + 1, **more: object) -> Pass[State]:
    def run(s: State) -> State:
        return replace(s, value=change(s.value), path=(*s.path, name))

    return Pass(name, f"does {name}", "here.py", run, **more)  # type: ignore[arg-type]


def best(state: State, inner: Callable[[State], State]) -> State:
    """Of three candidates the one with the greatest value."""
    return max((inner(replace(state, value=v)) for v in (3, 7, 5)), key=lambda s: s.value)


SEARCH = Search("search", "tries three", "here.py", (step("double", lambda v: 2 * v), step("negate")), best)


def test_passes_run_in_the_order_of_the_list() -> None:
    done = PassList[State]("list", (step("a"), SEARCH, step("b"))).run(State(0))
    assert done == State(16, ("a", "double", "negate", "b"))


def test_a_list_knows_its_names_and_depths() -> None:
    one = PassList[State]("list", (step("a"), SEARCH, step("b")))
    assert [(p.name, depth) for p, depth in one.walk()] == [
        *(("a", 0), ("search", 0), ("double", 1), ("negate", 1), ("b", 0))
    ]


def test_a_name_stands_for_one_pass() -> None:
    with pytest.raises(InternalError, match="the pass list list has the pass double twice"):
        PassList[State]("list", (SEARCH, step("double")))


def test_a_record_has_times_runs_and_the_requested_texts() -> None:
    one = PassList[State](
        "list", (step("a", show=lambda s: f"{s.value}"), SEARCH, step("b", show=lambda s: f"{s.value}"))
    )
    with recording(["b", "a"]) as record:
        one.run(State(0))
    assert {n: r.times for n, r in record.ran.items()} == {
        "a": 1,
        "double": 3,
        "negate": 3,
        "search": 1,
        "b": 1,
    }
    assert record.texts == {"a": "1", "b": "16"}
    assert all(s >= 0 for s in record.seconds.values())
    with recording() as other:
        one.run(State(0))
    assert other.texts == {}
    with recording(None) as every:
        one.run(State(0))
    assert every.texts == record.texts


def test_the_time_of_a_search_is_its_own() -> None:
    """What the passes inside of it take is theirs."""
    slow = step("slow", lambda v: sum(range(300_000)))
    with recording() as record:
        PassList[State]("list", (Search("outer", "", "here.py", (slow,), best),)).run(State(0))
    assert record.seconds["outer"] < record.seconds["slow"]


def test_inner_records_do_not_see_what_the_outer_sees() -> None:
    with recording() as outer:
        PassList[State]("list", (step("a"),)).run(State(0))
        with recording() as inner:
            PassList[State]("list", (step("b"),)).run(State(0))
    assert ([*outer.ran], [*inner.ran]) == (["a"], ["b"])


def test_oracles_judge_under_the_setting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def grows(before: State, after: State) -> str:
        if after.value <= before.value:
            raise InternalError(f"{after.value} is not greater than {before.value}")
        return "growth"

    good = PassList[State]("list", (step("a", verify=grows),))
    with recording() as record:
        good.run(State(0))
    assert [*record.ran["a"].oracles] == ["growth"]
    bad = PassList[State]("list", (step("a", lambda v: v - 1, verify=grows),))
    with pytest.raises(InternalError, match="-1 is not greater than 0"):
        bad.run(State(0))
    monkeypatch.delenv("TC_VERIFY")
    assert bad.run(State(0)).value == -1

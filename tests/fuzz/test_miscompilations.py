"""Deliberate miscompilations: each is noticed, and by whom it should be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from fuzz.judging import ROOT
from fuzz.miscompilations import MISCOMPILATIONS

Noticed = list[tuple[str, str, str]]  # by whom it should be, by whom it was, and what


@pytest.fixture(scope="module")
def judge() -> Iterator[Callable[[str], Noticed | str]]:
    """Verdicts on a miscompilation of this name, from a process that has not imported the compiler; a text
    where there is none, because it cannot be made or the tree as it is gets a program wrong."""
    command = [sys.executable, "-m", "fuzz.miscompilations", "--serve"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(name: str) -> Noticed | str:
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.mark.share(180)
@pytest.mark.parametrize("name", [m.name for m in MISCOMPILATIONS])
def test_it_is_noticed(judge: Callable[[str], Noticed | str], name: str) -> None:
    """The tree as it is gets the same programs right: `Judge.changed` looks at that first."""
    answer = judge(name)
    if isinstance(answer, str):
        pytest.fail(answer)
    assert answer
    if any(kind == "unable" for _, kind, _ in answer):
        pytest.skip("this machine cannot run the program")
    for expected, kind, text in answer:
        assert kind == expected, f"noticed by {kind}: {text}"


def test_they_are_many_and_differ() -> None:
    assert len({m.name for m in MISCOMPILATIONS}) == len(MISCOMPILATIONS) >= 24
    changes = {(m.place, m.before, m.after) for m in MISCOMPILATIONS}
    assert len(changes) == len(MISCOMPILATIONS)
    for m in MISCOMPILATIONS:
        compile(m.text(), m.path, "exec")


JUDGED = """
from fuzz.judging import ROOT, Judge, Trigger

judge = Judge(seconds=5)
path = "tc/poly/tile_plan.py"
text = (ROOT / path).read_text(encoding="utf-8")
right = Trigger("def f(float(N) A) -> (B) { B(i) = 2 * A(i) }", {"N": 9}, "nobody")
refused = Trigger("def f(float(N) A) -> (B) { B(i) = A(j) }", {"N": 9}, "nobody")
ends = "from __future__ import annotations\\n"
for t in (right, refused):
    print(judge.changed(path, text, t).kind)
for line in ("import os; os.abort()", "while True: pass", "raise ValueError"):
    print(judge.changed(path, text.replace(ends, ends + line + "\\n"), right).kind)
print(judge.changed("tc/cli/main.py", "", right).text)
for t in (right, refused):
    print(judge.unchanged(t).kind)
try:
    judge.changed("tc/lang/parse.py", "", right)
except AssertionError as e:
    print(e)
"""


@pytest.mark.slow
def test_what_a_judge_sees() -> None:
    """No change, the end of the process, a loop without end, a module that cannot be imported, one that
    nobody imports, and one that the judge itself has imported."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGED], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == [
        *("nobody", "nobody", "death", "death", "error"),
        "tc/cli/main.py is never imported",
        *("nobody", "nobody"),
        "tc/lang/parse.py is imported by what all children share",
    ]

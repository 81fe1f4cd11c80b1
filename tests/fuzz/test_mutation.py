"""Mutants of the compiler: they are programs, and the battery tells the wrong ones."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from fuzz import mutation
from fuzz.kept import Kept, reaching

SOURCE = '''
def f(a: int = 1, *, deep: bool = True) -> "int":
    """Adds 1."""
    if not a or a < 2:
        raise ValueError(f"{a + 1}")
    return min(a, 3) + (a if deep else 4 * a)
'''


def test_every_place_is_changed_once() -> None:
    count = mutation.places(SOURCE)
    mutants = [mutation.mutant("f.py", SOURCE, n) for n in range(count)]
    texts = {m.text for m in mutants}
    assert len(texts) == count and ast.unparse(ast.parse(SOURCE)) not in texts
    for m in mutants:
        compile(m.text, "f.py", "exec")
        assert 'raise ValueError(f"{a + 1}")' in m.text.replace("'", '"') and "Adds 1." in m.text
    shown = {(m.before, m.after) for m in mutants}
    assert {("a < 2", "a <= 2"), ("not a", "a"), ("True", "False"), ("min(a, 3)", "max(a, 3)")} <= shown
    assert mutants[0].line > 1 and "f.py:" in str(mutants[0])


def test_the_same_mutants_for_a_seed() -> None:
    some = mutation.chosen_mutants(["tc/poly/tiles", "tc/transforms/program/inline.py"], 12, 5)
    assert some == mutation.chosen_mutants(["tc/poly/tiles", "tc/transforms/program/inline.py"], 12, 5)
    assert len({str(m) for m in some}) > 1
    for m in some:
        compile(m.text, m.path, "exec")


# Path, what is replaced by what (None: nothing is), and whether it is killed.
CHANGES: list[tuple[str, str, str | None, bool]] = [
    ("backends/cpu/emit/affine.py", "", None, False),
    (
        "backends/cpu/emit/instructions.py",
        'return f"{stem}{self.count}"',
        'return f"{stem}_{self.count}"',
        False,
    ),
    ("backends/cpu/emit/kernel.py", "icmp slt i64 {following}", "icmp sle i64 {following}", True),
    ("tc/ir/expr.py", "IntImm(0)", "IntImm(1)", True),
    ("tc/ir/lower.py", "def lower(", "def lowered(", True),
    ("tc/poly/gpu/sync.py", "def ", "def no_", True),
]

# The compiler must not have been imported where mutants are judged.
JUDGE = """
import dataclasses, json, pathlib, pickle, sys
from fuzz import mutation
from fuzz.kept import Kept, reaching
battery = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
mutation.prepare()
mutants = [mutation.Mutant(**m) for m in json.load(sys.stdin)]
found = {m.path: (m, v) for m, v in mutation.judged(mutants, battery, 20.0, 2)}
m, v = found["backends/cpu/emit/instructions.py"]
change = mutation.change_of_code(m, battery[v.other[0]])
print(json.dumps([{path: dataclasses.astuple(v) for path, (_, v) in found.items()}, change]))
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, mutation.Verdict], str]:
    """What a short battery says of the changes, by their files, and how other labels change code."""
    battery = tmp_path_factory.mktemp("mutants") / "battery.pickle"
    make = [sys.executable, "-m", "fuzz.battery", str(battery), "--count", "5"]
    subprocess.run(make, cwd=mutation.ROOT, check=True)
    mutants = [
        mutation.Mutant(path, 1, 1, False, before, after or "", changed(path, before, after))
        for path, before, after, _ in CHANGES
    ]
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, str(battery)],
        input=json.dumps([vars(m) for m in mutants]),
        cwd=mutation.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found, change = json.loads(done.stdout)
    verdicts = {path: mutation.Verdict(killed, n, tuple(other)) for path, (killed, n, other) in found.items()}
    return verdicts, change


def changed(path: str, before: str, after: str | None) -> str:
    text = (mutation.ROOT / path).read_text(encoding="utf-8")
    assert before in text, f"{path} has changed"
    return text if after is None else text.replace(before, after)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "before", "after", "killed"), CHANGES)  # all of them are judged at once
def test_the_battery_tells_the_wrong_ones(
    judged: tuple[dict[str, mutation.Verdict], str],
    path: str, before: str, after: str | None, killed: bool,
) -> None:  # fmt: skip
    verdict = judged[0][path]
    assert bool(verdict.killed) == killed, verdict
    assert verdict.killed != mutation.UNREACHED
    # Another label is another code; where nothing is changed, all is as it was when the battery was made.
    assert bool(verdict.other) == (after is not None and not killed), verdict


@pytest.mark.slow
def test_a_change_of_code_is_shown(judged: tuple[dict[str, mutation.Verdict], str]) -> None:
    lines = judged[1].splitlines()
    assert lines[0].startswith("backends/cpu/emit/instructions.py:1:")
    assert {"--- without it", "+++ with it"} <= set(lines)
    assert any(line.startswith("+") and "after_" in line for line in lines), judged[1]


def test_only_programs_that_run_a_line_are_tried() -> None:
    battery = [
        Kept(b"a", 3.0, b"", {"f.py": frozenset({1, 2})}),
        Kept(b"b", 1.0, b"", {"f.py": frozenset({3}), "g.py": frozenset({7})}),
        Kept(b"c", 2.0, b"", {"f.py": frozenset({2})}),
    ]

    def names(lines: range | None, seconds: float = 100.0, path: str = "f.py") -> list[bytes]:
        return [k.trial for k in reaching(battery, path, lines, seconds, 0)]

    assert names(range(2, 3)) == [b"c", b"a"]
    assert names(None) == [b"b", b"c", b"a"]  # the quickest first
    assert names(range(9, 10)) == names(None, path="h.py") == []
    assert len(names(None, seconds=0.5)) == 1

"""Mutants of the compiler: they are programs, and the battery tells the wrong ones."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import mutation

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
    some = mutation.chosen_mutants(["tc/poly/scan", "tc/ir/inline.py"], 12, 5)
    assert some == mutation.chosen_mutants(["tc/poly/scan", "tc/ir/inline.py"], 12, 5)
    assert len({str(m) for m in some}) > 1
    for m in some:
        compile(m.text, m.path, "exec")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy of the tree, and a short battery."""
    folder = tmp_path_factory.mktemp("mutants")
    battery, tree = folder / "battery.pickle", folder / "tree"
    arguments = [str(battery), "--make", "--count", "5"]
    subprocess.run([sys.executable, "-m", "fuzz.battery", *arguments], cwd=mutation.ROOT, check=True)
    tree.mkdir()
    mutation.overlay(tree)
    return tree, battery


def test_a_mutant_that_is_none_survives(tree: tuple[Path, Path]) -> None:
    path = "backends/cpu/affine.py"
    text = (mutation.ROOT / path).read_text(encoding="utf-8")
    assert mutation.judge(mutation.Mutant(path, 1, "", "", text), *tree, 120.0) == ""


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("backends/cpu/emit.py", "icmp slt i64 {following}", "icmp sle i64 {following}"),
        ("tc/poly/scan/builder.py", "IntImm(0)", "IntImm(1)"),
        ("tc/ir/lower.py", "def lower(", "def lowered("),
    ],
)
def test_a_wrong_one_is_killed(tree: tuple[Path, Path], path: str, before: str, after: str) -> None:
    text = (mutation.ROOT / path).read_text(encoding="utf-8")
    if before not in text:
        pytest.fail(f"{path} has changed")
    m = mutation.Mutant(path, 1, before, after, text.replace(before, after))
    assert mutation.judge(m, *tree, 120.0)
    assert (tree[0] / path).read_text(encoding="utf-8") == text

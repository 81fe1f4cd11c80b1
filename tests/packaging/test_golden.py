"""The `golden` fixture: it compares, it says how to accept, it writes only when asked."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
TESTS = Path(__file__).parents[1]
CONFTEST = (TESTS / "conftest.py").read_text(encoding="utf-8")
SHARE = (TESTS / "share.py").read_text(encoding="utf-8")

TEST = """
def test_text(golden):
    golden("part/text.txt", "one\\ntwo\\n")

def test_outside(golden):
    golden("../outside.txt", "x")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    (pytester.mkpydir("tests") / "share.py").write_text(SHARE, encoding="utf-8")
    pytester.makepyfile(TEST)
    return pytester


def test_a_missing_file_fails_with_the_hint(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("-k", "test_text")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*golden/part/text.txt does not exist*--update-golden*"])


@pytest.mark.slow
def test_an_update_writes_and_the_next_run_passes(project: pytest.Pytester) -> None:
    project.runpytest_subprocess("-k", "test_text", "--update-golden").assert_outcomes(passed=1)
    assert (project.path / "golden/part/text.txt").read_bytes() == b"one\ntwo\n"
    project.runpytest_subprocess("-k", "test_text").assert_outcomes(passed=1)


def test_a_difference_fails_and_leaves_the_file(project: pytest.Pytester) -> None:
    path = project.path / "golden/part/text.txt"
    path.parent.mkdir(parents=True)
    path.write_text("one\n2\n")
    result = project.runpytest_subprocess("-k", "test_text")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*-2", "*+two", "*make golden*"])
    assert path.read_text() == "one\n2\n"


def test_names_stay_inside_the_folder(project: pytest.Pytester) -> None:
    project.runpytest_subprocess("-k", "test_outside", "--update-golden").assert_outcomes(failed=1)
    assert not (project.path / "outside.txt").exists()

"""docs/design.md lists the passes that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tc import inspect_passes, registry
from tc.options import Options

PAGE = Path(__file__).parents[2] / "docs/design.md"
BEGIN, END = "<!-- passes: begin -->\n", "<!-- passes: end -->\n"
BACKENDS = ("reference", "cpu", "cuda", "opencl", "halide")


def test_the_tables_of_passes_are_those_of_the_lists(request: pytest.FixtureRequest) -> None:
    lists = {name: registry.load(name).passes(Options()) for name in BACKENDS}
    expected = inspect_passes.markdown(lists)
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(before + BEGIN + expected + END + after, encoding="utf-8")
        return
    assert found == expected, "run this test with --update-golden"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_name_stands_for_one_pass(backend: str) -> None:
    lists = inspect_passes.lists(registry.load(backend), Options())
    names = [p.name for p in inspect_passes.listed(lists)]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() and name == name.lower() for name in names)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pass_names_a_file_that_exists(backend: str) -> None:
    for one in inspect_passes.lists(registry.load(backend), Options()):
        for p, _ in one.walk():
            assert (PAGE.parents[1] / p.file).is_file(), f"{p.name}: {p.file}"

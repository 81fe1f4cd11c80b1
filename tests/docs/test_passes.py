"""docs/design.md lists the passes that run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tc import registry
from tc.inspection import pass_times
from tc.options import Options

PAGE = Path(__file__).parents[2] / "docs/design.md"
BEGIN, END = "<!-- passes: begin -->\n", "<!-- passes: end -->\n"
BACKENDS = ("reference", "cpu", "cuda", "opencl", "halide")


def test_the_tables_of_passes_are_those_of_the_lists(request: pytest.FixtureRequest) -> None:
    lists = {name: registry.load(name).passes(Options()) for name in BACKENDS}
    expected = pass_times.markdown(lists)
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(before + BEGIN + expected + END + after, encoding="utf-8")
        return
    assert found == expected, "run this test with --update-golden"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_name_stands_for_one_pass(backend: str) -> None:
    lists = pass_times.lists(registry.load(backend), Options())
    names = [p.name for p in pass_times.listed(lists)]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() and name == name.lower() for name in names)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pass_names_a_file_that_exists(backend: str) -> None:
    for one in pass_times.lists(registry.load(backend), Options()):
        for p, _ in one.walk():
            assert (PAGE.parents[1] / p.file).is_file(), f"{p.name}: {p.file}"


def test_the_design_names_files_that_exist() -> None:
    """A file without a folder lies in one that its section has named before, or above such a one."""
    root = PAGE.parents[1]
    missing: list[str] = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## "):
        folders = [root]
        for name in re.findall(r"`([\w/]+(?:\.(?:py|cpp))?)`", section):
            found = next((f / name for f in folders if (f / name).exists()), None)
            if found is not None:
                folder = found if found.is_dir() else found.parent
                folders += [folder, *(f for f in folder.parents if f.is_relative_to(root))]
            elif "." in name:
                missing.append(name)
    assert not missing


def glossary() -> dict[str, str]:
    """The terms of docs/glossary.md, and where each is in the code."""
    lines = (PAGE.parent / "glossary.md").read_text(encoding="utf-8").splitlines()
    rows = [x.strip("| ").split(" | ") for x in lines if x.startswith("| ")][1:]
    assert all(len(r) == 4 for r in rows)
    return {r[0]: r[3] for r in rows}


def test_the_glossary_explains_every_transformation() -> None:
    """Those of programs, of polyhedra and of loop nests."""
    explained = {n for places in glossary().values() for n in re.findall(r"`(\w+)`", places)}
    for backend in ("reference", "cpu", "cuda", "opencl"):
        for p, _ in registry.load(backend).passes(Options()).walk():
            assert p.name in explained or not p.file.startswith(("tc/transforms/", "tc/poly/")), p.name


def test_the_glossary_names_what_is_in_the_code() -> None:
    root = PAGE.parents[1]
    files = [p for folder in ("tc", "backends") for p in (root / folder).rglob("*.py")]
    words = set(re.findall(r"\w+", "\n".join(p.read_text(encoding="utf-8") for p in files)))
    words |= {p.stem for p in files} | {part for p in files for part in p.relative_to(root).parts}
    for term, places in glossary().items():
        for name in re.findall(r"`([\w./]+)`", places):
            assert words.issuperset(re.findall(r"\w+", name.removesuffix(".py"))), f"{term}: {name}"


def test_the_glossary_is_in_alphabetical_order() -> None:
    terms = [t.lower() for t in glossary()]
    assert terms == sorted(terms)

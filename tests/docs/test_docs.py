"""README.md and docs/*.md: their code runs, shows what they show, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tc
from tests.docs.markdown import ROOT, Session, blocks, difference

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# tests/errors runs the catalogue entry by entry.
RUN = [p for p in PAGES if p.name != "errors.md" and any(b.language for b in blocks(p))]


@pytest.mark.share(12)
@pytest.mark.parametrize("page", RUN, ids=lambda p: p.name)
def test_code_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session(blocks(page), update=request.config.getoption("--update-golden"))
    for block in session.page:
        try:
            session.run(block)
        except AssertionError as e:
            raise AssertionError(f"{block.place}: {e}") from e


def test_the_pages_with_code_are_there() -> None:
    assert {"README.md", "guide.md"} <= {p.name for p in RUN}
    for page in RUN:
        assert sum(b.language in ("python", "tc", "console") for b in blocks(page)) >= 3


# ---- links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


RECORDS = [*(ROOT / "docs/adr").glob("*.md"), *(ROOT / "docs/experiments").glob("*.md")]
ALL = [*PAGES, *sorted(RECORDS), ROOT / "tests/README.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("page", ALL, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    # Boundary modes, `X[zero](i)`, look like links.
    text = re.sub(r"`[^`\n]*`", lambda m: "" if "](" in m.group() else m.group(), text)
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{page.name}: {target}"
        assert found.is_relative_to(ROOT), f"{page.name}: {target} leads out of the repository"
        if anchor:
            assert anchor in anchors(found), f"{page.name}: {target}"


def test_paths_named_in_the_readme_exist() -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    named = re.findall(r"`((?:tc|backends|tests|docs|benchmarks)(?:/[\w.]+)*)`", text)
    assert "tc/lang" in named
    for path in named:
        assert path == "tc" or (ROOT / path).exists(), path


def test_the_readme_lists_every_backend() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    states = dict(re.findall(r"^\| `(\w+)` \| (works|planned) \|", text, re.M))
    assert {name for name, state in states.items() if state == "works"} == set(tc.backends())


def test_the_readme_lists_every_command_of_the_makefile_it_names() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|\$ )make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.M), target


# ---- the comparison itself


@pytest.mark.parametrize(
    ("shown", "found", "same"),
    [
        ("a\nb\n", "a\nb", True),
        ("a\nb\n", "a\nc", False),
        ("a\n…\nd\n", "a\nb\nc\nd", True),
        ("a\n…\nd\n", "a\nd", True),
        ("a\n…\nd\n", "a\nb\nc", False),
        ("x … y\n", "x 1.5 y", True),
        ("x … y\n", "x 1.5 z", False),
        ("x … y\n", "x 1\n2 y", False),
        ("…\nb\n", "a\nb", True),
        ("a.c\n", "abc", False),
    ],
)
def test_difference(shown: str, found: str, same: bool) -> None:
    assert (difference(shown, found) is None) == same


def page(tmp_path: Path, text: str) -> Session:
    (tmp_path / "page.md").write_text(text)
    return Session(blocks(tmp_path / "page.md"))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nraise ValueError\n```\n",
        "```python\nprint(1)\n```\n```text\n2\n```\n",
        "```tc\ndef f(float(N) A) -> (B) { B(i) = A(j) }\n```\n",
        "```tc\ndef f(float(N) A) -> (s) { s += A(i) }\n```\n",
        "```tc\ndef f(float(N) A) -> (s) { s +=! A(i) }\n```\n```text\nerror[TC0100]: no\n```\n",
        "```python\nimport warnings\nwarnings.warn('x')\n```\n",
        "```console\n$ python -m tc check absent.tc\n```\n",
        "```console\n$ python -m tc show list\nranges\n```\n",
        "```console\n$ rm -r x\n```\n",
        "```pyhton\n1\n```\n",
    ],
)
def test_a_page_can_be_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    session = page(tmp_path, text)
    with pytest.raises((AssertionError, ValueError)):
        for block in session.page:
            session.run(block)


def test_an_update_replaces_what_differs_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = (
        "a\n\n```python\nprint(1)\nprint(2)\n```\n```text\n```\n\n"
        "b\n\n```python\nprint(3)\n```\n```text\n…\n```\n"
    )
    session = page(tmp_path, before)
    session.update = True
    for block in session.page:
        session.run(block)
    assert (tmp_path / "page.md").read_text() == before.replace("```text\n```", "```text\n1\n2\n```")

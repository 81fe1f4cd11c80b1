"""docs/dependencies.md, "Bugs of others that we live with": every file and test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
ROWS = PAGE.split("## Bugs of others that we live with")[1].split("\n|---|---|---|---|\n")[1].splitlines()


def test_every_row_names_a_test() -> None:
    assert len(ROWS) > 50
    for row in ROWS:
        package, happens, done, tests = re.split(r"(?<!\\)\|", row)[1:-1]
        assert package.strip() and happens.strip(), row
        files = re.findall(r"\(`([\w/.]+)`\)", done)
        assert files and all((ROOT / f).is_file() for f in files), row
        named = re.findall(r"`([^`]+)`", tests)
        assert named and ", ".join(f"`{n}`" for n in named) == tests.strip(), row
        for path, _, name in (n.partition("::") for n in named):
            text = (ROOT / path).read_text(encoding="utf-8")
            assert f"def {name}(" in text if name else path.startswith("fuzz/corpus/"), path


def test_every_test_here_has_a_row() -> None:
    for file in Path(__file__).parent.glob("test_*.py"):
        if file != Path(__file__):
            for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M):
                assert f"tests/dependencies/{file.name}::{name}`" in PAGE, name

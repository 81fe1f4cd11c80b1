"""Markdown pages whose code runs.

| block | what is done with it |
|---|---|
| ```` ```python ```` | runs; the blocks of a page share a namespace |
| ```` ```tc ```` | compiles, every def of it; with `file=mm.tc` behind `tc` it is also written to that file |
| ```` ```console ```` | each `$ python -m tc …` runs in the page's folder, `$ echo $?` gives its exit code |
| ```` ```text ```` | right behind a `python` or `tc` block: what that prints, or the diagnostic it ends in |

A `…` in what is shown stands for any text on a line, a line that is only `…` for any number of lines.
Warnings of tc and other Python warnings are errors unless they are what is shown.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tc
from tc.cli.main import main

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)(`{3,})([^`\n]*)$")
# Commands that pages show and that no test runs.
_NOT_RUN = ("make ", "pip ", "python -m venv ", "git ", "cat ")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its opening fence, counted from 1."""

    path: Path
    index: int
    line: int
    language: str
    attributes: dict[str, str]
    text: str
    heading: str
    follows: bool  # right behind the block before, with nothing between

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.line}"

    @property
    def is_diagnostic(self) -> bool:
        return self.language == "text" and bool(re.match(r"(error|warning)\[TC\d{4}\]", self.text))


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page."""
    out: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    heading, at, end = "", 0, 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if lines[at].startswith("#"):
            heading = lines[at].lstrip("# ")
        if not fence:
            at += 1
            continue
        close = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == fence[2])
        language, _, rest = fence[3].strip().partition(" ")
        attributes = dict(pair.split("=", 1) for pair in rest.split())
        body = "".join(line.removeprefix(fence[1]) + "\n" for line in lines[at + 1 : close])
        follows = bool(out) and not any(line.strip() for line in lines[end:at])
        out.append(Block(path, len(out), at + 1, language, attributes, body, heading, follows))
        at = end = close + 1
    return out


def shown_behind(block: Block, page: list[Block]) -> Block | None:
    """The `text` block that follows with nothing between."""
    following = page[block.index + 1] if block.index + 1 < len(page) else None
    return following if following is not None and following.language == "text" and following.follows else None


def replace(block: Block, text: str) -> None:
    """Put another text into a block of a page."""
    now = blocks(block.path)[block.index]
    lines = block.path.read_text(encoding="utf-8").split("\n")
    lines[now.line : now.line + len(now.text.splitlines())] = text.rstrip("\n").split("\n")
    block.path.write_text("\n".join(lines), encoding="utf-8", newline="\n")


def difference(shown: str, found: str) -> str | None:
    """None if `found` is what a page shows (with its `…`), else the difference."""
    want = shown.rstrip("\n").split("\n")
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in want
    )
    if re.fullmatch(pattern, found.rstrip("\n") + "\n"):
        return None
    lines = difflib.unified_diff(want, found.rstrip("\n").split("\n"), "shown", "found", lineterm="")
    return "\n".join(lines)


class Session:
    """Runs the blocks of a page in order, in a folder of its own; the caller has changed into it."""

    def __init__(self, page: list[Block], update: bool = False) -> None:
        self.page = page
        self.update = update
        self.names: dict[str, Any] = {"__name__": "__page__", "tc": tc}
        self.code = 0

    def run(self, block: Block) -> None:
        """Run a block and compare with what the page shows for it."""
        shown = shown_behind(block, self.page)
        match block.language:
            case "python":
                program = compile("\n" * block.line + block.text, str(block.path), "exec")
                self._python(lambda: exec(program, self.names), block, shown)
            case "tc":
                if file := block.attributes.get("file"):
                    Path(file).write_text(block.text, encoding="utf-8")
                self._python(lambda: _compile(block.text), block, shown)
            case "console":
                self._console(block)
            case "text" | "" | "toml":
                pass
            case other:
                raise AssertionError(f"{block.place}: a block of an unknown language '{other}'")

    def _python(self, body: Any, block: Block, shown: Block | None) -> None:
        out = io.StringIO()
        error: tc.Error | None = None
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
            warnings.simplefilter("always")
            try:
                body()
            except tc.Error as e:
                error = e
        self.error, self.warnings = error, [w.message for w in caught]
        diagnostics = [str(d) for d in (*self.warnings, *([error] if error else []))]
        if shown is None:
            assert not diagnostics, f"{block.place}: not shown on the page:\n" + "\n".join(diagnostics)
            return
        found = "\n".join([*([out.getvalue().rstrip("\n")] if out.getvalue() else []), *diagnostics])
        self._compare(shown, found)

    def _compare(self, shown: Block, found: str) -> None:
        problem = difference(shown.text, found)
        if problem and self.update:
            replace(shown, found)
        elif problem:
            raise AssertionError(f"{shown.place}: the page shows another text\n{problem}")

    def _console(self, block: Block) -> None:
        fresh: list[str] = []
        for command, output in _commands(block.text):
            words = shlex.split(command)
            ran = words[:3] == ["python", "-m", "tc"]
            if ran:
                found = self._command(words[3:])
            elif command == "echo $?":
                found = f"{self.code}\n"
            else:
                assert command.startswith(_NOT_RUN), f"{block.place}: cannot run {command!r}"
                found = output
            # A command that fails has to show how.
            problem = difference(output, found) if output or (ran and self.code) else None
            if problem and not self.update:
                raise AssertionError(f"{block.place}: $ {command}\n{problem}")
            fresh.append(f"$ {command}\n" + (found if problem else output))
        if self.update and "".join(fresh).rstrip("\n") != block.text.rstrip("\n"):
            replace(block, "".join(fresh))

    def _command(self, words: list[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                self.code = main(words)
            except SystemExit as e:
                self.code = int(e.code or 0)
        return out.getvalue()


def _compile(source: str) -> None:
    from tc.lang.parse import parse

    for d in parse(source).defs:
        tc.compile(source, backend="reference", entry=d.name)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """(command, what is shown below it) for each `$` line; a backslash at its end goes on."""
    command, output = "", ""
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line[2:], ""
        elif command.endswith("\\") and not output:
            command = command[:-1].rstrip() + " " + line.strip()
        else:
            output += line + "\n"
    if command:
        yield command, output

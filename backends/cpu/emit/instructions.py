"""The instructions of the function that is being emitted: names, blocks, and scopes of value numbering."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Function:
    """The function that is being emitted."""

    lines: list[str] = field(default_factory=list[str])
    entry: list[str] = field(default_factory=list[str])  # allocas, and values that are loaded once
    block: str = "entry"
    pure: list[dict[str, str]] = field(default_factory=lambda: [{}])
    array_of: dict[str, str] = field(default_factory=dict[str, str])  # the array that a pointer points into

    @contextmanager
    def collecting(self) -> Generator[list[str]]:
        """Instructions that are emitted in this context go to a list of their own, which it yields."""
        before, self.lines = self.lines, list[str]()
        try:
            yield self.lines
        finally:
            self.lines = before

    @contextmanager
    def moved_to(self, lines: list[str], pure: list[dict[str, str]]) -> Generator[None]:
        """Instructions that are emitted in this context go to `lines`; they share what these scopes have."""
        before = self.lines, self.pure
        self.lines, self.pure = lines, pure
        try:
            yield
        finally:
            self.lines, self.pure = before


class InstructionEmitter:
    """Appends instructions to the current function; keeps the names and declarations of the module."""

    def __init__(self) -> None:
        self.count = 0
        self.declarations: set[str] = set()
        self.fn = Function()
        self.trace = ""  # what instructions end in: nothing, or `TRACE` and the stage that they are for

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def op(self, text: str) -> str:
        name = self.name()
        self.fn.lines.append(f"  {name} = {text}{self.trace}")
        return name

    def do(self, text: str) -> None:
        self.fn.lines.append(f"  {text}{self.trace}")

    def pure(self, text: str) -> str:
        """The result of an instruction without effects, which is emitted once in a scope (value
        numbering)."""
        for scope in self.fn.pure:
            if text in scope:
                return scope[text]
        name = self.op(text)
        self.fn.pure[-1][text] = name
        return name

    def start(self, label: str) -> None:
        self.fn.lines.append(f"{label}:")
        self.fn.block = label

    def label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def open(self) -> None:
        """Open a scope: what is computed in it is not available after it."""
        self.fn.pure.append({})

    def close(self) -> None:
        self.fn.pure.pop()

    @contextmanager
    def scope(self) -> Generator[None]:
        """Opens a scope for what is emitted in this context."""
        self.open()
        try:
            yield
        finally:
            self.close()

    def call(self, result: str, name: str, *args: tuple[str, str], effects: bool = False) -> str:
        self.declarations.add(f"declare {result} @{name}({', '.join(t for t, _ in args)})")
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})"
        if result == "void":
            self.do(text)
            return ""
        return self.op(text) if effects else self.pure(text)

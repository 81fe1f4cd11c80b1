"""What the backend made of a model: the pieces, their defs, and what stays with PyTorch and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class PieceReport:
    """A piece: its nodes, as `name: operator`, its def, and how often and why it was left to PyTorch;
    `expected`: that is no fault of the compiler."""

    nodes: tuple[str, ...]
    source: str
    names: dict[str, str]
    problem: str | None = None
    expected: bool = False


@dataclass
class GraphReport:
    """A graph of a pass: `kind` is "forward", "backward" or "inference"."""

    kind: str
    pieces: list[PieceReport] = field(default_factory=list[PieceReport])
    fallback: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        inside = sum(len(p.nodes) for p in self.pieces if p.problem is None)
        made = sum(p.problem is None for p in self.pieces)
        lines = [
            f"{self.kind}: {_counted(inside, 'operator')} in {_counted(made, 'TC')}, "
            f"{_counted(len(self.fallback), 'operator')} by PyTorch"
        ]
        for k, p in enumerate(self.pieces):
            state = f"  TC {k}" if p.problem is None else f"  no TC (left to PyTorch: {p.problem})"
            lines.append(f"{state}: {', '.join(p.nodes)}")
            lines += [f"    {line}" for line in p.source.splitlines()]
            said = ", ".join(f"{n} = {of}" for n, of in p.names.items())
            lines.append(f"    where {said}")
        if self.fallback:
            lines.append("  by PyTorch:")
            lines += [f"    {n}: {why}" for n, why in self.fallback.items()]
        return "\n".join(lines)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


@dataclass
class Explanation:
    """What became of a model, a graph after the other.  `print` it."""

    graphs: list[GraphReport] = field(default_factory=list[GraphReport])

    def __str__(self) -> str:
        return "\n".join(str(g) for g in self.graphs) or "no graph: nothing was compiled"

    __repr__ = __str__

    @property
    def sources(self) -> list[str]:
        """The defs, in order."""
        return [p.source for g in self.graphs for p in g.pieces if p.problem is None]

    @property
    def fallback(self) -> Counter[str]:
        """How often each reason kept a node with PyTorch."""
        return Counter(why for g in self.graphs for why in g.fallback.values())


Recorder = Callable[[GraphReport], None]

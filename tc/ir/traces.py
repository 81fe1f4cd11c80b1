"""The stages that the statements of a loop nest belong to."""

from __future__ import annotations

from tc.ir.expr import Load, walk
from tc.ir.loops import Combine, Compute, Stmt, statements


def base(stage: str) -> str:
    """The stage that a statement of a loop nest belongs to: `S1` for `S1.pack`."""
    return stage.partition(".")[0]


class Traces:
    """The stages of the statements below a statement.

    Copies between arrays and combinations of partial results name no stage; they belong to the stage that
    computes the data that they move.
    """

    def __init__(self, body: Stmt) -> None:
        self._writers: dict[str, str] = {}  # the stage that writes an array last
        unnamed: list[Compute] = []
        for s in statements(body):
            if isinstance(s, Compute):
                if s.stage:
                    self._writers[s.buffer] = base(s.stage)
                else:
                    unnamed.append(s)
        for s in unnamed:
            self._writers.setdefault(s.buffer, self._of(s))

    def stages(self, s: Stmt) -> frozenset[str]:
        """The stages whose instances, or auxiliary statements, a statement contains."""
        return frozenset(filter(None, self._each(s)))

    def only(self, s: Stmt) -> str:
        """The single stage that a whole statement belongs to, else the empty text."""
        found = set(self._each(s))
        return found.pop() if len(found) == 1 else ""

    def _each(self, s: Stmt) -> list[str]:
        return [self._of(x) for x in statements(s) if isinstance(x, Compute | Combine)]

    def _of(self, s: Compute | Combine) -> str:
        if isinstance(s, Combine):
            return self._writers.get(s.buffer, "")
        if s.stage:
            return base(s.stage)
        read = (
            self._writers[e.buffer]
            for e in walk(s.value)
            if isinstance(e, Load) and e.buffer in self._writers
        )
        return next(read, self._writers.get(s.buffer, ""))

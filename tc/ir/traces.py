"""Which stages the statements of a loop nest are of."""

from __future__ import annotations

from tc.ir.expr import Load, walk
from tc.ir.loops import Combine, Compute, Stmt, statements


def base(stage: str) -> str:
    """The stage of a statement of a loop nest: `S1` of `S1.pack`, which it was made for."""
    return stage.partition(".")[0]


class Traces:
    """The stages of the statements below one.

    Copies between arrays, and what combines parts of a result, name no stage: they are of the one that
    computes what they move.
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
        """The stages of which a statement has instances, or what was made for them."""
        return frozenset(filter(None, self._each(s)))

    def only(self, s: Stmt) -> str:
        """The one stage that all of a statement is for, else the empty text."""
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

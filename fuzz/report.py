"""What batches of programs and texts did, and the table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzz.coverage import summary


@dataclass
class Report:
    """Counts; `judged`: programs of which the evaluator said what is right, for `known` of their `elements`;
    `faults`: what was wrong with programs that are almost valid, and the error; `failures`: what happened,
    and the file of the case."""

    programs: int = 0
    runs: int = 0
    judged: int = 0
    known: int = 0
    elements: int = 0
    texts: int = 0
    accepted: int = 0
    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    excluded: Counter[str] = field(default_factory=Counter[str])
    codes: Counter[str] = field(default_factory=Counter[str])
    call_codes: Counter[str] = field(default_factory=Counter[str])
    relations: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0
    slowest_source: str = ""
    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def add(self, report: dict[str, Any]) -> None:
        for name in ("programs", "runs", "judged", "known", "elements", "texts", "accepted", "calls"):
            setattr(self, name, getattr(self, name) + report[name])
        for name in ("refused", "excluded", "codes", "call_codes", "relations", "faults", "pairs"):
            getattr(self, name).update(report[name])
        if report["slowest"] > self.slowest:
            self.slowest, self.slowest_source = report["slowest"], report["slowest_source"]
        self.failures += [(what, case) for what, case in report["failures"]]

    def progress(self) -> str:
        return (
            f"{self.programs} programs ran, {sum(self.refused.values())} refused; {self.texts} texts; "
            f"{len(self.failures)} failures"
        )

    def table(self, backends: Sequence[str]) -> str:
        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{k} {n}" for k, n in counts.most_common()) or "none"

        share = 100 * self.known / max(1, self.elements)
        return (
            f"{self.programs} programs ran on {', '.join(backends)}, {self.runs} times; "
            f"{len(self.failures)} failures\n"
            f"{self.judged} of them judged by the evaluator, {share:.1f} % of their elements\n"
            f"programs refused: {listed(self.refused)}\n"
            f"programs a backend cannot follow: {listed(self.excluded)}\n"
            f"with a related program: {listed(self.relations)}\n"
            f"almost valid: {listed(self.faults)}\n"
            f"{self.texts} texts, of which {self.accepted} are programs; refused: {listed(self.codes)}\n"
            f"{self.calls} calls with spoilt arguments: {listed(self.call_codes)}\n"
            f"{summary(self.pairs)}\n"
            f"slowest call with its compile: {self.slowest:.2f} s\n{self.slowest_source}"
        )

"""What batches of programs and texts did, and the table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """Counts; `failures`: what happened, and the file of the case."""

    programs: int = 0
    texts: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    excluded: Counter[str] = field(default_factory=Counter[str])
    codes: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0
    slowest_source: str = ""
    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def add(self, report: dict[str, Any]) -> None:
        self.programs += report["programs"]
        self.texts += report["texts"]
        self.accepted += report["accepted"]
        for name in ("refused", "excluded", "codes"):
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

        return (
            f"{self.programs} programs ran on {', '.join(backends)}; {len(self.failures)} failures\n"
            f"programs refused: {listed(self.refused)}\n"
            f"programs a backend cannot follow: {listed(self.excluded)}\n"
            f"{self.texts} texts, of which {self.accepted} are programs; refused: {listed(self.codes)}\n"
            f"slowest call with its compile: {self.slowest:.2f} s\n{self.slowest_source}"
        )

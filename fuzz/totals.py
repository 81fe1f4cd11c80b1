"""A run in parts: what all of them did so far, in a file that each takes up where the last one left it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tc
from fuzz.children import ROOT
from fuzz.report import Report
from tc.cache import disk

_EVERY = 30.0  # seconds between two writes of the file


@dataclass
class Part:
    """One time that the run went on: with which sources of the compiler (a digest), and what it added."""

    sources: str
    jobs: int
    backends: tuple[str, ...]
    minutes: float = 0.0
    programs: int = 0
    texts: int = 0
    failures: int = 0


@dataclass
class Totals:
    """`report` is of all parts, `seed` the last that a process was given."""

    seed: int
    report: Report = field(default_factory=Report)
    parts: list[Part] = field(default_factory=list[Part])
    path: Path | None = None
    _begun: float = field(default_factory=time.monotonic)
    _written: float = 0.0

    @staticmethod
    def of(path: Path | None, seed: int, jobs: int, backends: Sequence[str]) -> Totals:
        """Those in the file, where there is one, and a new part."""
        totals = Totals(seed * 1000, path=path)
        if path is not None and path.exists():
            told = json.loads(path.read_text(encoding="utf-8"))
            totals.seed = told["seed"]
            totals.report.add(told["report"])
            totals.parts = [Part(**{**p, "backends": tuple(p["backends"])}) for p in told["parts"]]
        sources = disk.digest(*(disk.sources(ROOT / folder) for folder in ("tc", "backends")))
        totals.parts.append(Part(sources[:12], jobs, tuple(backends)))
        return totals

    def add(self, report: dict[str, Any]) -> None:
        """A batch of this part."""
        part = self.parts[-1]
        part.programs += report["programs"]
        part.texts += report["texts"]
        part.failures += len(report["failures"])
        self.report.add(report)

    def fail(self, what: str, case: str) -> None:
        """A process of this part died."""
        self.parts[-1].failures += 1
        self.report.failures.append((what, case))

    def keep(self, *, now: bool = False) -> None:
        """Write the file, if it is time."""
        self.parts[-1].minutes = round((time.monotonic() - self._begun) / 60, 1)
        if self.path is None or not (now or time.monotonic() - self._written > _EVERY):
            return
        self._written = time.monotonic()
        told = {"seed": self.seed, "parts": [asdict(p) for p in self.parts], "report": vars(self.report)}
        other = self.path.with_name(self.path.name + ".new")
        other.write_text(json.dumps(told), encoding="utf-8")
        os.replace(other, self.path)

    def table(self) -> str:
        """What all parts did, and, of several, each."""
        lines = [self.report.table(sorted({b for p in self.parts for b in p.backends}))]
        if len(self.parts) > 1:
            lines += [
                f"part {n}: {p.programs} programs, {p.texts} texts, {p.failures} failures in "
                f"{p.minutes:g} min with {p.jobs} jobs; tc {tc.__version__}, sources {p.sources}"
                for n, p in enumerate(self.parts, 1)
            ]
        return "\n".join(lines)

"""A run of random SaC programs in parts: what all did, in a file that each part takes up."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fuzz.children import ROOT
from fuzz.sac.differential import Report
from tc.cache import disk


@dataclass
class Part:
    """One time that the run went on: with which sources of the compiler (a digest), and what it added."""

    sources: str
    backends: tuple[str, ...]
    programs: int = 0
    seconds: float = 0.0


@dataclass
class Totals:
    """`seed`: the next program.  `running`: one that was begun; it ended its process."""

    path: Path
    seed: int
    running: int | None = None
    report: Report = field(default_factory=Report)
    parts: list[Part] = field(default_factory=list[Part])

    @staticmethod
    def of(path: Path, seed: int, backends: Sequence[str]) -> Totals:
        """Those in the file, where there is one, and a new part."""
        totals = Totals(path, seed)
        if path.exists():
            told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            totals.seed = told["seed"]
            totals.parts = [Part(**{**p, "backends": tuple(p["backends"])}) for p in told["parts"]]
            r = told["report"]
            counters = {n: Counter[str](r[n]) for n in ("runs", "unfit", "refused", "excluded")}
            totals.report = Report(r["ran"], **counters, found=[(s, b, w) for s, b, w in r["found"]])
            if told["running"] is not None:
                totals.report.found.append((told["running"], "?", "the process died"))
                totals.seed = told["running"] + 1
        sources = disk.digest(*(disk.sources(ROOT / folder) for folder in ("tc", "backends")))
        totals.parts.append(Part(sources[:12], tuple(backends)))
        return totals

    def keep(self) -> None:
        told = {
            "seed": self.seed,
            "running": self.running,
            "parts": [asdict(p) for p in self.parts],
            "report": {f.name: getattr(self.report, f.name) for f in fields(self.report)},
        }
        other = self.path.with_name(self.path.name + ".new")
        other.write_text(json.dumps(told), encoding="utf-8")
        os.replace(other, self.path)

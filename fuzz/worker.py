"""A process that runs batches of random programs and texts until it is told to end, or dies of one.

It writes a line of JSON after each batch.  What it is about to run lies in a file: should it die, its parent
finds the case there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz.corpus import Case
from fuzz.differential import compare
from fuzz.isas import available_isas
from fuzz.malformed import attempt, texts
from fuzz.memory import Layout
from fuzz.report import Report
from fuzz.strategies import Program, cpu_options, placements, programs

_PROGRAMS, _TEXTS = 100, 1000  # of a batch


@dataclass
class Batch:
    """Runs examples until `end` and counts them."""

    backends: Sequence[str]
    last: Path
    end: float
    report: Report = field(default_factory=Report)

    def program(
        self, p: Program, options: dict[str, Any], dynamic: int, layouts: list[Layout], threads: int
    ) -> None:
        if time.monotonic() > self.end:
            return
        chosen = {"cpu": options}
        case = Case("agree", "", p, None, tuple(self.backends), chosen, dynamic, tuple(layouts), threads)
        self.last.write_text(case.dumps(), encoding="utf-8")
        found = compare(p, self.backends, chosen, dynamic, layouts, threads)
        self.report.programs += not found.refused
        self.report.refused.update([found.refused] if found.refused else [])
        self.report.excluded.update(found.excluded)
        if found.slowest > self.report.slowest:
            self.report.slowest, self.report.slowest_source = found.slowest, p.source

    def text(self, text: str) -> None:
        if time.monotonic() > self.end:
            return
        self.last.write_text(Case("?", "", None, text).dumps(), encoding="utf-8")
        code = attempt(text)
        self.report.texts += 1
        self.report.accepted += code is None
        self.report.codes.update([code] if code else [])

    def run(self, number: int, count: int, test: Callable[..., None], **strategies: Any) -> None:
        """Examples of a batch; a failure, shrunk, is noted."""
        chosen = settings(
            max_examples=count,
            deadline=None,
            database=None,
            suppress_health_check=list[Any](HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )

        def once(**drawn: Any) -> None:
            test(**drawn)

        try:
            seed(number)(chosen(given(**strategies)(once)))()
        except Exception as e:  # whatever it is, the next batch goes on
            notes = "\n".join(getattr(e, "__notes__", []))
            case = self.last.read_text(encoding="utf-8")
            self.report.failures.append((f"batch {number}: {type(e).__name__}: {e}\n{notes}", case))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.worker", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--last", type=Path, required=True)
    parser.add_argument("--backend", action="append", required=True)
    chosen = parser.parse_args()
    os.environ["TC_VERIFY"] = "1"
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    isas = available_isas() if "cpu" in chosen.backend else ()
    end = time.monotonic() + chosen.seconds
    number = chosen.seed << 20
    while time.monotonic() < end:
        number += 1
        batch = Batch(chosen.backend, chosen.last, end)
        batch.run(
            number,
            _PROGRAMS,
            batch.program,
            p=programs(),
            options=cpu_options(isas) if isas else st.just({}),
            dynamic=st.just(0) | st.integers(0, 15),
            layouts=placements(),
            threads=st.integers(1, 4),
        )
        batch.run(number, _TEXTS, batch.text, text=texts())
        answers.write(json.dumps(vars(batch.report)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A process that runs batches of random programs and texts until it is told to end, or dies of one.

It writes a line of JSON after each batch.  What it is about to run lies in a file: should it die, its parent
finds the case there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import tc
from fuzz import calls, coverage, malformed, related
from fuzz.almost import Almost, almost_valid
from fuzz.corpus import Case
from fuzz.differential import Disagreement, compare, sizes_of
from fuzz.evaluate import types_of
from fuzz.isas import available_isas
from fuzz.memory import Layout
from fuzz.report import Report
from fuzz.strategies import Program, all_options, placements, programs
from fuzz.tree import loads

_PROGRAMS, _ALMOST, _TEXTS, _CALLS = 100, 25, 2700, 250  # of a batch
_COVERED = 10  # one program in so many tells what it covers, which takes a tenth of its time


@dataclass
class Batch:
    """Runs examples until `end` and counts them."""

    backends: Sequence[str]
    last: Path
    end: float
    report: Report = field(default_factory=Report)
    shrinking: bool = False  # one has failed, of which hypothesis seeks a shorter form: those do not count

    def program(
        self,
        p: Program,
        options: dict[str, dict[str, Any]],
        dynamic: int,
        layouts: list[Layout],
        threads: int,
        relation: str | None,
    ) -> None:
        if time.monotonic() > self.end:
            return
        case = Case("agree", "", p, None, tuple(self.backends), options, dynamic, tuple(layouts), threads)
        self.last.write_text(case.dumps(), encoding="utf-8")
        pairs: list[str] = []

        def seen(backend: str, kernel: tc.Kernel) -> None:
            if backend == "cpu" and p.tree is not None and not self.report.programs % _COVERED:
                tree = loads(p.tree)
                done = coverage.transforms(kernel, sizes_of(kernel, p))
                pairs.extend(coverage.covered(tree, types_of(tree)[tree.entry.name], done))

        found = compare(p, self.backends, options, dynamic, layouts, threads, seen)
        if self.shrinking:
            return
        r = self.report
        r.programs += not found.refused
        r.runs += 0 if found.refused else len(self.backends) - len(found.excluded)
        r.refused.update([found.refused] if found.refused else [])
        r.excluded.update(found.excluded)
        r.judged += bool(found.wanted)
        known, elements = found.certain
        r.known, r.elements = r.known + known, r.elements + elements
        r.pairs.update(pairs)
        if found.slowest > r.slowest:
            r.slowest, r.slowest_source = found.slowest, p.source
        if relation is not None and related.check(p, relation, self.backends[:1], options):
            r.relations.update([relation])

    def almost(self, a: Almost) -> None:
        """A fault is refused as it should be, or does no harm on any backend."""
        if time.monotonic() > self.end:
            return
        self.last.write_text(
            Case("agree", "", a.program, None, tuple(self.backends)).dumps(), encoding="utf-8"
        )
        code = compare(a.program, self.backends).refused
        if (code is None and not a.sound) or (code is not None and code[:4] not in a.codes):
            raise Disagreement(f"{a.kind}: {code or 'accepted'}\n{a.program.source}")
        if not self.shrinking:
            self.report.faults.update([f"{a.kind}: {code or 'harmless'}"])

    def texts(self, number: int, count: int) -> None:
        rng = random.Random(number)

        def fails(text: str) -> bool:
            try:
                malformed.attempt(text)
            except Exception:
                return True
            return False

        for _ in range(count):
            if time.monotonic() > self.end:
                return
            text = malformed.text(rng)
            self.last.write_text(Case("?", "", None, text).dumps(), encoding="utf-8")
            try:
                code = malformed.attempt(text)
            except Exception:
                case = Case("?", "", None, malformed.shortened(text, fails))
                self.report.failures.append((traceback.format_exc()[-3000:], case.dumps()))
                continue
            self.report.texts += 1
            self.report.accepted += code is None
            self.report.codes.update([code] if code else [])

    def calls(self, number: int, count: int) -> None:
        for i in range(count):
            if time.monotonic() > self.end:
                return
            rng = random.Random(f"{number} {i}")
            try:
                if i % 4:
                    code = calls.attempt(rng, self.backends[i % len(self.backends)])
                else:
                    code = calls.compile_attempt(rng)
            except Exception:
                self.report.failures.append((f"call {number} {i}\n{traceback.format_exc()[-3000:]}", ""))
                continue
            self.report.calls += 1
            self.report.call_codes.update([code or "taken"])

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
            try:
                test(**drawn)
            except Exception:
                self.shrinking = True
                raise

        self.shrinking = False

        try:
            seed(number)(chosen(given(**strategies)(once)))()
        except Exception as e:  # whatever it is, the next batch goes on
            notes = "\n".join(getattr(e, "__notes__", []))
            where = "" if isinstance(e, Disagreement) else traceback.format_exc()[-3000:]
            case = self.last.read_text(encoding="utf-8")
            self.report.failures.append((f"batch {number}: {type(e).__name__}: {e}\n{notes}\n{where}", case))


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
            options=all_options(chosen.backend, available_isas()),
            dynamic=st.just(0) | st.integers(0, 15),
            layouts=placements(),
            threads=st.integers(1, 4),
            relation=st.sampled_from([None] * 8 + [*related.RELATIONS]),
        )
        batch.run(number, _ALMOST, batch.almost, a=almost_valid())
        batch.texts(number, _TEXTS)
        batch.calls(number, _CALLS)
        answers.write(json.dumps(vars(batch.report)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

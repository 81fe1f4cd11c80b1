"""Random programs and texts on every backend, in several processes.

    python -m fuzz [--minutes 5] [--jobs 2] [--backend NAME …] [--seed N] [--keep FOLDER] [--totals FILE]

Each program is run with random options, layouts, dynamic sizes and threads, and compared with `tc.interpret`;
each text must be refused with an error or be a program.  A line of progress, then a table; the exit code is 1
if anything was found.  What was found is written to --keep as a file for `fuzz/corpus/`.  Ctrl-C ends it.
With --totals, the same command goes on another time, with new programs, and the table is that of all parts.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from fuzz.totals import Totals

_PATIENCE = 120.0  # seconds over its time after which a process hangs
_LONGEST = 120.0  # seconds that a program may take, a few of them running at a time


class Job:
    """A process that runs batches, with the file of what it runs."""

    def __init__(self, number: int, seed: int, end: float, backends: Sequence[str], folder: Path) -> None:
        self.last = folder / f"last-{number}-{seed}.json"
        self.end = end
        self.log = (folder / f"log-{number}-{seed}.txt").open("wb")
        arguments = ["--seed", str(seed), "--seconds", f"{max(0.0, end - time.monotonic()):.0f}"]
        arguments += ["--last", str(self.last), *(x for b in backends for x in ("--backend", b))]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", *arguments], stdout=subprocess.PIPE, stderr=self.log
        )
        self.pending = b""
        self.stuck = False

    @property
    def answers(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """New reports, and whether there will be no more."""
        piece = os.read(self.answers.fileno(), 1 << 20)
        *lines, self.pending = (self.pending + piece).split(b"\n")
        return [json.loads(line) for line in lines], not piece

    def watch(self) -> None:
        """End a process that has been with one program for too long."""
        if self.last.exists() and time.time() - self.last.stat().st_mtime > _LONGEST:
            self.stuck = True
            self.process.kill()

    def died(self) -> tuple[str, str] | None:
        """How the process ended and on what, unless it ended well."""
        code = self.process.wait()
        self.log.close()
        if code == 0:
            return None
        tail = Path(self.log.name).read_text(encoding="utf-8", errors="replace")[-2000:]
        case = self.last.read_text(encoding="utf-8") if self.last.exists() else ""
        what = (
            f"a program takes more than {_LONGEST:.0f} s" if self.stuck else f"the process ended with {code}"
        )
        return f"{what}\n{tail}", case


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--backend", action="append", help="by default all that can run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    parser.add_argument("--totals", type=Path, help="of a run in parts")
    chosen = parser.parse_args(argv)

    from tc.registry import availability, names

    backends: tuple[str, ...] = tuple(chosen.backend or (n for n in names() if availability(n).ok))
    end = time.monotonic() + 60 * chosen.minutes
    totals = Totals.of(chosen.totals, chosen.seed, chosen.jobs, backends)
    failures = totals.report.failures
    kept = len(failures)
    with tempfile.TemporaryDirectory(prefix="tc-fuzz-") as name, selectors.DefaultSelector() as selector:
        folder = Path(name)

        def begin(number: int) -> None:
            totals.seed += 1
            job = Job(number, totals.seed, end, backends, folder)
            selector.register(job.answers, selectors.EVENT_READ, (number, job))

        for number in range(chosen.jobs):
            begin(number)
        try:
            while selector.get_map():
                for key, _ in selector.select(10.0):
                    number, job = key.data
                    reports, over = job.read()
                    for report in reports:
                        totals.add(report)
                    if over:
                        selector.unregister(job.answers)
                        if (death := job.died()) is not None:
                            totals.fail(*death)
                            if time.monotonic() < end:
                                begin(number)
                for what, case in failures[kept:]:
                    kept += 1
                    chosen.keep.mkdir(parents=True, exist_ok=True)
                    path = chosen.keep / f"{chosen.seed}-{kept}.json"
                    path.write_text(case, encoding="utf-8")
                    print(f"\n{what}\nwritten to {path}\n", flush=True)
                for key in list(selector.get_map().values()):
                    key.data[1].watch()
                    if time.monotonic() > end + _PATIENCE:
                        key.data[1].process.kill()
                left = max(0.0, end - time.monotonic()) / 60
                sys.stderr.write(f"\r{left:.1f} min left: {totals.report.progress()} ")
                totals.keep()
        except KeyboardInterrupt:  # what was seen so far is worth its table
            for key in list(selector.get_map().values()):
                key.data[1].process.kill()
    sys.stderr.write("\n")
    totals.keep(now=True)
    print(totals.table())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

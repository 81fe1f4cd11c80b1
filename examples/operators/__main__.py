"""Time the operators of this folder beside PyTorch, in eager mode and by Inductor.

    python -m examples.operators [NAME …] [--threads 2] [--rounds 11] [--inductor] [--save FILE.md]

Each contestant has a process of its own and its turns; results are compared before anything is timed.  The
ratio is PyTorch's time over ours, so more than 1 is faster.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.operators.cases import CASES, Case
from tc.cli.bench_run import difference
from tc.support.contestants import Contestant, ContestantFailed, answer, in_turns, serve
from tc.tuned.pairs import Paired

BUDGET = 0.03  # seconds of calls in a turn
NAMES = ("tc", "eager", "inductor")


def by_name(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


def work(name: str, contestant: str) -> None:
    """Serve as a contestant of a case."""
    import numpy as np
    import torch

    case = by_name(name)
    arguments = case.arguments(case.large)
    given = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in arguments.values()]
    if contestant == "tc":
        call = case.kernel()
    else:
        call = torch.compile(case.same) if contestant == "inductor" else case.same
    with torch.no_grad():
        found = call(*given)
        several = found if isinstance(found, tuple) else (found,)
        arrays = [np.asarray(x) for x in several]

        def save(file: str) -> None:
            with Path(file).open("wb") as f:
                pickle.dump(arrays, f)

        serve({"call": lambda: call(*given)}, save)


def measure(case: Case, names: tuple[str, ...], threads: int, rounds: int) -> dict[str, Any]:
    """By contestant the median µs of a call, and ratios with their intervals; what failed, and why."""
    contestants: dict[str, Contestant] = {}
    out: dict[str, Any] = {"operator": case.name, "sizes": dict(case.large), "failed": {}}
    try:
        for n in names:
            contestants[n] = Contestant(["-m", "examples.operators", "--worker", case.name, n], threads)
        for n in names:
            try:
                contestants[n].wait()
            except ContestantFailed as e:
                out["failed"][n] = str(e)
                contestants.pop(n).close()
        if "tc" not in contestants or len(contestants) == 1:
            return out
        for n, said in _differences(case, contestants).items():
            out["failed"][n] = said
        times = in_turns(contestants, ["call"], rounds, BUDGET)["call"]
        for n, seconds in times.items():
            out[n] = {"us": 1e6 * statistics.median(seconds), "best_us": 1e6 * min(seconds)}
            if n != "tc":
                pairs = Paired()
                for theirs, ours in zip(seconds, times["tc"], strict=True):
                    pairs = pairs.plus([round(1e9 * theirs)], [round(1e9 * ours)])
                out[n] |= {"ratio": pairs.ratio, "low": pairs.interval[0], "high": pairs.interval[1]}
        return out
    finally:
        for c in contestants.values():
            c.close()


def _differences(case: Case, contestants: Mapping[str, Contestant]) -> dict[str, str]:
    found: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n, c in contestants.items():
            c.ask(file=f"{folder}/{n}")
            found[n] = pickle.loads(Path(folder, n).read_bytes())
    checked = case.kernel("reference").front
    types = [checked.typed.dtype(x.tensor) for x in checked.checked.returns]
    said: dict[str, str] = {}
    for n, theirs in found.items():
        for ours, other, dtype in zip(found["tc"], theirs, types, strict=True):
            problem = "another shape" if ours.shape != other.shape else difference(ours, other, dtype)
            if problem:
                said[n] = problem
    return said


def table(rows: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    """A table in Markdown."""
    peers = names[1:]
    lines = ["| operator | sizes | tc µs | " + " | ".join(f"{n} µs | ratio | 95 %" for n in peers) + " |"]
    lines.append("|---|---|--:|" + "--:|--:|--:|" * len(peers))
    for row in rows:
        sizes = " ".join(f"{n}={v}" for n, v in row["sizes"].items())
        cells = [row["operator"], sizes, f"{row['tc']['us']:.1f}" if "tc" in row else "failed"]
        for n in peers:
            if n not in row:
                cells += ["failed", "", ""]
                continue
            x = row[n]
            cells += [f"{x['us']:.1f}", f"{x['ratio']:.2f}", f"{x['low']:.2f} to {x['high']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.operators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="these only")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--inductor", action="store_true", help="beside Inductor, too; it compiles for long")
    parser.add_argument("--save", type=Path, metavar="FILE.md", help="write the table, and FILE.json")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        warnings.simplefilter("ignore")
        sys.stdout = sys.stderr
        try:
            work(*args.worker)
        except Exception as e:
            answer({"error": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"})
        return 0
    unknown = set(args.names) - {c.name for c in CASES}
    if unknown:
        parser.error(
            f"no operator {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in CASES)}"
        )
    names = NAMES if args.inductor else NAMES[:2]
    rows: list[dict[str, Any]] = []
    for case in CASES:
        if args.names and case.name not in args.names:
            continue
        row = measure(case, names, args.threads, args.rounds)
        rows.append(row)
        ratios = ", ".join(f"{n} {row[n]['ratio']:.2f}" for n in names[1:] if n in row)
        said = "".join(f"; {n}: {problem}" for n, problem in row["failed"].items())
        print(f"{case.name}: {ratios}{said}", file=sys.stderr, flush=True)
    print(table(rows, names))
    if args.save:
        args.save.write_text(table(rows, names) + "\n", encoding="utf-8")
        text = json.dumps({"threads": args.threads, "rounds": args.rounds, "rows": rows}, indent=1)
        args.save.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return int(any(row["failed"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())

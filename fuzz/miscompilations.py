"""Deliberate miscompilations: each is a bug that a compiler of this kind might well have.

    python -m fuzz.miscompilations [NAME …] [--unverified]

A miscompilation is a small change of one module and the programs that it spoils, each with who is expected
to notice (`fuzz.judging`): one that the results show need not be one that an oracle sees, and one that an
oracle sees need not show, as a race does not.  The table says who noticed; `--unverified` what would have
been noticed without the oracles.
"""

from __future__ import annotations

import argparse
import json
import sys

from fuzz.judging import Judge, Miscompilation, Verdict
from fuzz.wrong_code import WRONG_CODE
from fuzz.wrong_loops import WRONG_LOOPS
from fuzz.wrong_programs import WRONG_PROGRAMS

MISCOMPILATIONS = (*WRONG_PROGRAMS, *WRONG_LOOPS, *WRONG_CODE)


def judged(judge: Judge, m: Miscompilation) -> list[Verdict]:
    """Who notices, for each of its programs."""
    text = m.text()
    return [judge.changed(m.path, text, t) for t in m.triggers]


def serve() -> None:
    """Answer the names that come in with the verdicts, a line each."""
    named = {m.name: m for m in MISCOMPILATIONS}
    judge = Judge()
    for line in sys.stdin:
        try:
            m = named[line.strip()]
            answer: object = [(t.caught, v.kind, v.text) for t, v in zip(m.triggers, judged(judge, m))]
        except AssertionError as e:
            answer = str(e)
        print(json.dumps(answer), flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.miscompilations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--unverified", action="store_true", help="without the compiler's oracles")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    if chosen.serve:
        serve()
        return 0
    judge = Judge(verify=not chosen.unverified)
    missed = 0
    total = 0.0
    for m in MISCOMPILATIONS:
        if chosen.names and not any(n in m.name for n in chosen.names):
            continue
        try:
            found = judged(judge, m)
        except AssertionError as e:  # the change or a program no longer fits the tree
            missed += 1
            print(f"{m.name:70} STALE  {' '.join(str(e).split())[:150]}", flush=True)
            continue
        for t, v in zip(m.triggers, found, strict=True):
            unlike = v.kind not in (t.caught, "unable") and not chosen.unverified
            missed += unlike or v.kind == "nobody"
            total += v.seconds
            told = f" (expected: {t.caught})" if unlike else ""
            print(
                f"{m.name:70} {v.kind:8} {v.seconds:5.2f} s{told}  {' '.join(v.text.split())[:150]}",
                flush=True,
            )
    print(f"{total:.1f} s; {missed} missed or noticed by another")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())

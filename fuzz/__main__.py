"""python -m fuzz --minutes N [--backend NAME …] [--seed N]"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

os.environ["TC_VERIFY"] = "1"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Random programs on every backend.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--backend", action="append", help="by default all that can run")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()

    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    from fuzz.compare import Outcome, compare
    from fuzz.strategies import Program, cpu_options, programs
    from tc.registry import availability, get, names

    backends: tuple[str, ...] = tuple(chosen.backend or (n for n in names() if availability(n).ok))
    for b in backends:
        get(b)
    isas = available_isas() if "cpu" in backends else ()
    end = time.monotonic() + 60 * chosen.minutes
    refused: Counter[str] = Counter()
    excluded: Counter[str] = Counter()
    ran, slowest, slowest_source = 0, 0.0, ""
    failures: list[str] = []
    batch = chosen.seed
    while time.monotonic() < end:
        batch += 1
        shrinking = False

        @seed(batch)
        @settings(
            max_examples=200,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(
            p=programs(),
            options=cpu_options(isas) if isas else st.just({}),
            dynamic=st.just(0) | st.integers(0, 15),
        )
        def once(p: Program, options: dict[str, object], dynamic: int) -> None:
            nonlocal ran, slowest, slowest_source, shrinking
            if time.monotonic() > end and not shrinking:
                return
            try:
                found: Outcome = compare(p, backends, {"cpu": options}, dynamic)
            except Exception:
                shrinking = True
                raise
            if found.refused:
                refused[found.refused] += 1
            else:
                ran += 1
            excluded.update(found.excluded)
            if found.slowest > slowest:
                slowest, slowest_source = found.slowest, p.source

        try:
            once()
        except Exception as e:  # whatever it is, the next batch goes on
            failures.append(
                f"seed {batch}: {type(e).__name__}: {e}\n" + "\n".join(getattr(e, "__notes__", []))
            )
            print(failures[-1], flush=True)
    print(f"{ran} programs ran on {', '.join(backends)}; {len(failures)} disagreements")
    print("refused: " + ", ".join(f"{k} {n}" for k, n in refused.most_common()))
    print("excluded: " + (", ".join(f"{k} {n}" for k, n in excluded.most_common()) or "none"))
    print(f"slowest call with its compile: {slowest:.2f} s\n{slowest_source}")
    return 1 if failures else 0


def available_isas() -> tuple[str, ...]:
    import tc

    found: list[str] = []
    for name in ("avx512", "avx2", "sse4.2", "neon"):
        try:
            tc.compile(
                "def f(float(N) A) -> (B) { B(i) = A(i) }", "cpu", options={"isa": name}, sizes={"N": 1}
            )
        except tc.BackendError:
            continue
        found.append(name)
    return tuple(found)


if __name__ == "__main__":
    sys.exit(main())

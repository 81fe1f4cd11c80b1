"""The model against the clock: predicted and measured times of all candidates of eight kernels.

    python -m benchmarks.model [--threads N] [--candidates 40]

One thread by default, since the model predicts the cycles of one core.  The plot is
benchmarks/results/model.png; the rank correlation of each kernel (Spearman) is printed and kept, with the
time of the default over that of the fastest candidate, and the memory of a call of the default, results
included.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

from benchmarks import kept, workloads
from benchmarks.memory import of_call
from benchmarks.record import RESULTS, save
from benchmarks.table import aligned, duration, mebibytes

HEADER = ("kernel", "candidates", "rank correlation", "default µs", "default / best", "MiB")

KERNELS = (
    "gemm@512,512,512",
    "gemm@127,1000,1003",
    "gconv@32,32,16,16,14,14",
    "gconv@32,32,8,8,28,28",
    "tbmm@500,26,72,26",
    "conv1d@16,64,64,1000,5",
    "softmax@1009,1013",
    "depthwise@16,128,56,56",
)


def ranks(values: list[float]) -> np.ndarray:
    """Positions in order; equal values share the mean of theirs."""
    a = np.asarray(values, float)
    return np.array([(np.sum(a < x) + np.sum(a <= x) - 1) / 2 for x in a])


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's: the correlation of the ranks; 1 where one side is constant."""
    x, y = ranks(a), ranks(b)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 1.0
    return float(np.corrcoef(x, y)[0, 1])


def measure(key: str, candidates: int) -> dict[str, Any]:
    import tc

    workload = workloads.find(key).workload()
    arrays = workload.arrays()
    how: dict[str, Any] = {"strategy": "model", "trials": candidates, "budget": None, "prune": None}
    tuned = tc.tune(workload.source, arrays, backend="cpu", records=False, **how)
    trials = [
        {"options": repr(t.options), "predicted": t.predicted, "us": 1e6 * t.seconds}
        for t in tuned.trials
        if t.predicted is not None and t.seconds is not None
    ]
    predicted, measured = [t["predicted"] for t in trials], [t["us"] for t in trials]
    default = tuned.trials[0].seconds
    kernel = tc.compile(workload.source, "cpu")
    kernel(*arrays.values())
    return {
        "kernel": key,
        "rank correlation": rank_correlation(predicted, measured),
        "default_us": default and 1e6 * default,
        "default over best": default * 1e6 / min(measured) if default else None,
        "memory_bytes": of_call(kernel, *arrays.values()),
        "trials": trials,
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """The table."""
    lines = [
        (
            r["kernel"],
            str(len(r["trials"])),
            f"{r['rank correlation']:.2f}",
            duration(None if r["default_us"] is None else r["default_us"] / 1e6),
            "–" if r["default over best"] is None else f"{r['default over best']:.2f}",
            mebibytes(r["memory_bytes"]),
        )
        for r in rows
    ]
    return aligned(HEADER, lines)


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    RESULTS.mkdir(exist_ok=True)
    figure, panels = plt.subplots(2, 4, figsize=(18, 9))
    for row, panel in zip(rows, panels.flat, strict=False):
        x = [t["predicted"] / 1e3 for t in row["trials"]]
        y = [t["us"] for t in row["trials"]]
        panel.loglog(x, y, "o", markersize=4)
        panel.set_title(f"{row['kernel']}\nrank correlation {row['rank correlation']:.2f}", fontsize=10)
        panel.set_xlabel("predicted, thousand cycles")
        panel.set_ylabel("measured, µs")
    figure.tight_layout()
    figure.savefig(RESULTS / "model.png", dpi=100)
    plt.close(figure)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=40)
    args = parser.parse_args(argv)
    from tc import _native

    before = _native.get_num_threads()
    _native.set_num_threads(args.threads)
    os.environ["TC_NUM_THREADS"] = str(args.threads)  # of the processes in which candidates run
    rows: list[dict[str, Any]] = []
    with kept.nothing():
        for key in KERNELS:
            sys.stderr.write(f"{key}\n")
            rows.append(measure(key, args.candidates))
    _native.set_num_threads(before)
    print(summary(rows))
    save("model", rows)
    draw(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare a library's spellings of the workloads with PyTorch's, on small arrays.

    TRITON_INTERPRET=1 python -m benchmarks.spellings.check triton

Triton's interpreter needs no GPU.  The exit code is the number of families that differ.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.peers import spelled
from benchmarks.spellings import families
from benchmarks.workloads import select

TOLERANCE = 2e-3  # of the largest element: some spellings compute in float16


def differences(library: str) -> dict[str, float]:
    """By family the largest difference, over the largest element of the results or 1."""
    import torch

    out: dict[str, float] = {}
    for case in select():
        w = case.workload(tiny=True)
        if w.family in out or w.family not in families(library):
            continue
        arrays = [torch.from_numpy(a) for a in w.arrays().values()]
        found, wanted = (_results(spelled(n, w), arrays) for n in (library, "torch"))
        pairs = [(a.double(), b.double()) for a, b in zip(found, wanted, strict=True) if b.numel()]
        size = max((float(b.abs().max()) for _, b in pairs), default=1.0)
        worst = max((float((a - b).abs().max()) for a, b in pairs), default=0.0)
        out[w.family] = worst / max(size, 1.0)
    return out


def _results(call: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
    found = call(*(a.clone() for a in arrays))
    return found if isinstance(found, tuple) else (found,)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spellings.check")
    parser.add_argument("library", choices=("triton",))
    found = differences(parser.parse_args().library)
    wrong = {n: e for n, e in found.items() if not e <= TOLERANCE}
    for name, error in wrong.items():
        print(f"{name}: {error:.2g}")
    print(f"{len(found) - len(wrong)} of {len(found)} families agree")
    return len(wrong)


if __name__ == "__main__":
    raise SystemExit(main())

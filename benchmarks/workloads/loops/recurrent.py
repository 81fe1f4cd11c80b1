"""Recurrent networks over time, as `tc.library` has them, and the selective scan of Mamba."""

from __future__ import annotations

import re
from pathlib import Path

import tc.library
from benchmarks.workloads.model import Array, Case, Workload


def _source(name: str) -> str:
    """The program of the library, for float32."""
    text = (Path(tc.library.__file__).parent / "recurrent" / f"{name}.tc").read_text(encoding="utf-8")
    return re.sub(r"\bT\(", "float(", text.replace("<T: floating>", ""))


def _network(name: str, gates: int, states: tuple[str, ...], L: int, B: int, I: int, H: int) -> Workload:
    rows = gates * H
    return Workload(
        f"loop_{name}",
        _source(name),
        (
            Array("x", (L, B, I)),
            *(Array(n, (B, H)) for n in states),
            Array("w_ih", (rows, I), fill="small"),
            Array("w_hh", (rows, H), fill="small"),
            Array("b_ih", (rows,)),
            Array("b_hh", (rows,)),
        ),
        flops=2.0 * L * B * rows * (I + H),
        kind="compute",
        terms=L * (I + H),
        judge="numpy",
    )


def loop_rnn(L: int, B: int, I: int, H: int) -> Workload:
    return _network("rnn", 1, ("h0",), L, B, I, H)


def loop_lstm(L: int, B: int, I: int, H: int) -> Workload:
    return _network("lstm", 4, ("h0", "c0"), L, B, I, H)


def loop_gru(L: int, B: int, I: int, H: int) -> Workload:
    return _network("gru", 3, ("h0",), L, B, I, H)


def loop_selective_scan(B: int, L: int, D: int, S: int) -> Workload:
    return Workload(
        "loop_selective_scan",
        _source("selective_scan"),
        (
            Array("u", (B, L, D)),
            Array("delta", (B, L, D), fill="decaying"),
            Array("a", (D, S), fill="negative"),
            Array("b", (B, L, S)),
            Array("c", (B, L, S)),
            Array("skip", (D,)),
        ),
        flops=7.0 * B * L * D * S,
        kind="compute",
        terms=L * S,
        judge="numpy",
    )


RECURRENT = (
    Case("loops", loop_rnn, (64, 16, 256, 256), (5, 3, 7, 9)),
    Case("loops", loop_lstm, (64, 16, 256, 256), (5, 3, 7, 9)),
    Case("loops", loop_gru, (64, 16, 256, 256), (5, 3, 7, 9)),
    Case("loops", loop_selective_scan, (2, 256, 512, 16), (2, 7, 5, 3)),
)

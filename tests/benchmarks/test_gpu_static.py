"""The table of what can be said of GPU kernels without a GPU: its columns, on made-up rows."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu_static import HEAD, Row, line, short

ROW: dict[str, Any] = {
    "program": "softmax_plain_of_a_long_name 1,1e+07", "kernel": "softmax_plain_7_kernel", "blocks": 39063,
    "threads": 256, "registers": 40, "shared": 10432, "memory": 0, "occupancy": 0.625,
    "occupancy_limit": "registers", "results": 1000.0, "loads": 144.25, "least_loads": 9.0, "stores": 1.0,
    "shared_loads": 2e6, "multiply_adds": 3e6, "instructions": 1e6, "guards": 0.0, "barriers": 64.0,
    "barriers_each": 2, "coalesced": 0.5, "sectors": 8.0, "bank_cycles": 1.25, "least_bytes": 1e6,
    "l2_bytes": 2e6, "dram_bytes": 1e6, "microseconds": 29.153, "binds": "latency", "bounds": {},
    "text_ms": 43.2, "nvrtc_ms": 93.4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("n", "width", "shown"),
    [
        (0.5, 5, " 0.50"), (144.25, 6, "144.25"), (144.25, 5, "144.2"), (75758.6, 6, " 75759"),
        (1234567.0, 4, " 1e6"), (float("nan"), 4, "   -"),
    ],
)  # fmt: skip
def test_numbers_fit_their_columns(n: float, width: int, shown: str) -> None:
    assert short(n, width) == shown


def test_a_row_is_a_line_of_120_columns_below_its_heads() -> None:
    shown = line(Row(**ROW))
    assert len(shown) == len(HEAD) <= 120
    assert shown.split() == [
        "softmax_plain_of_", "#7", "39063", "256", "40", "10432", "62", "144.25", "9.00", "1.00", "1.50",
        "20.80", "2", "50", "8.00", "1.25", "29.15", "latency", "43", "93",
    ]  # fmt: skip
    # Each number ends where its head does.
    for head, number in (("smem", "10432"), ("occ", "62"), ("f/gl", "20.80"), ("bank", "1.25")):
        assert HEAD.index(head) + len(head) == shown.index(number) + len(number), head
    huge = line(Row(**ROW | {"loads": 7.6e7, "microseconds": 1e7, "blocks": 2**31 - 1}))
    assert len(huge) <= 130


def test_registers_in_memory_and_what_there_is_none_of_are_marked() -> None:
    shown = line(Row(**ROW | {"memory": 16, "shared_loads": 0.0, "loads": 0.0, "kernel": "f_kernel"}))
    assert "40!10432" in shown
    assert shown.split().count("-") == 2
    assert "#" not in shown

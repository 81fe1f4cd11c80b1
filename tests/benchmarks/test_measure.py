"""The harness: statistics, agreement, tables, command lines, and one measurement from end to end."""

from __future__ import annotations

import ctypes
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from benchmarks import cpu, cpu_dynamic, cpu_sweep, cpu_threads, peaks, peers, table
from benchmarks.agreement import compare
from benchmarks.measure import Measurement, Outcome, Race, Settings
from benchmarks.memory import HighWater
from benchmarks.quiet import Others
from benchmarks.stats import estimate, geometric_mean, order_rank, paired_ratio
from benchmarks.worker import plan
from benchmarks.workloads import find

PEAKS = peaks.Peaks(2, 200.0, 100.0, 40.0, 50.0, 45.0, 20.0)


def test_order_rank_is_the_binomial_one() -> None:
    for count in range(1, 60):
        rank = order_rank(count)
        below = (
            sum(math.comb(count, k) for k in range(rank)) / 2**count
        )  # P(fewer than rank below the median)
        assert below <= 0.025 or rank == 1
        more = sum(math.comb(count, k) for k in range(rank + 1)) / 2**count
        assert more > 0.025 or rank == count // 2
    assert order_rank(15) == 4


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = random.Random(5)
    trials = 2000
    held = 0
    for _ in range(trials):
        e = estimate([rng.expovariate(1.0) for _ in range(15)])
        held += e.low <= math.log(2) <= e.high
    assert 0.95 <= held / trials <= 0.98  # exactly 0.9648


@pytest.mark.parametrize("columns", [1, 3, 16, 64, 301])
def test_the_gather_reads_the_rows_of_every_table(columns: int) -> None:
    tables = [np.arange(1, 41, dtype=np.float32).repeat(columns).reshape(-1, columns) * k for k in (1, 100)]
    gather = peaks.Gather(tables, 2, peaks.vector_bytes())
    rows = gather._rows(50)
    for t, chosen in zip(tables, (rows[::2], rows[1::2]), strict=True):
        assert all((r - t.ctypes.data) // t.strides[0] in range(40) for r in chosen)
    sums = np.zeros(columns + 16, np.float32)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(gather.code.address)
    run(sums.ctypes.data, rows.ctypes.data, 20)
    wanted = sum(ctypes.c_float.from_address(int(r)).value for r in rows[:20])
    assert sums[0] == wanted
    assert gather.rate(100, 2) > 0


def test_ratios_are_paired() -> None:
    # The second half of the rounds was twice as slow for both.
    ours, peer = [1.0] * 8 + [2.0] * 8, [1.5] * 8 + [3.0] * 8
    e = paired_ratio(peer, ours)
    assert (e.median, e.low, e.high) == (1.5, 1.5, 1.5)
    with pytest.raises(ValueError, match="as many"):
        paired_ratio([1.0], [])
    with pytest.raises(ValueError, match="no values"):
        estimate([])
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)


def test_agreement_finds_what_is_wrong() -> None:
    right = np.linspace(-1, 1, 5000).reshape(50, 100)
    found = right.astype(np.float32)
    assert compare([found], [right], 1) is None
    found[49, 7] += 1e-3
    assert "(49, 7)" in (compare([found], [right], 1) or "")
    found[49, 7] = np.nan
    assert compare([found], [right], 10_000) is not None
    assert "shape" in (compare([found.T], [right], 1) or "")
    assert "results" in (compare([], [right], 1) or "")
    assert compare([np.array([1, 2])], [np.array([1.0, 2.0])], 1) is None
    assert "1 of 2" in (compare([np.array([1, 3])], [np.array([1.0, 2.0])], 1) or "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.2141, "0.214"), (0.9999, "1.00"), (2.5, "2.50"), (9.999, "10.0"), (21.44, "21.4")),
        *((999.96, "1000"), (2140.4, "2140"), (12345.6, "12,346"), (None, "–"), (0, "0.000")),
    ],
)
def test_figures(value: float | None, text: str) -> None:
    assert table.figure(value) == text


def test_tables_are_aligned() -> None:
    text = table.aligned(("name", "n"), [("a", "1"), ("longer", "1000")])
    assert text == "name       n\na          1\nlonger  1000"
    with pytest.raises(ValueError, match="as many cells"):
        table.aligned(("name",), [("a", "b")])


def test_a_round_lasts_its_budget() -> None:
    assert plan(1.0, 0.02) == (3, 1)
    assert plan(1e-3, 0.02) == (20, 1)
    calls, batch = plan(1e-6, 0.02)
    assert 20 <= batch <= 21 and calls * batch == pytest.approx(20_000, rel=0.01)


def measured(ours: float = 1e-3, peer: float = 2e-3) -> Measurement:
    return Measurement(
        find("gemm@100,100,100"),
        (
            Outcome(
                "tc", False, None, 0.011, ours, (ours,) * 15, (ours,) * 15, 5000, 40_000, {"workspace": 64}
            ),
            Outcome("torch", True, None, 0.003, peer, (peer,) * 15, (peer,) * 15, 5000, 40_000),
            Outcome("jax", True, None, 0.003, 1.0, (), (), 5000, 40_000),
            Outcome("inductor", True, "wrong: result 0 is off"),
        ),
    )


def test_the_table_says_what_was_measured() -> None:
    m = measured()
    assert m.best_peer is not None and m.best_peer.contestant == "torch"
    assert m.ratio is not None and m.ratio.median == 2.0
    assert m.tc is not None and m.tc.memory() == 40_064 and m.tc.compile_s == pytest.approx(0.010)
    text = cpu.summary([m], PEAKS)
    row = text.splitlines()[1].split()
    assert row[:7] == ["gemm", "100,100,100", "torch", "1000", "2000", "2.00", "2.00–2.00"]
    assert row[7:9] == ["2.00", "GF/s"]
    assert "1 % F" in text
    assert "~" in cpu.everyone([m]) and "×" in cpu.everyone([m])
    assert cpu.failures([m]) == ["× gemm 100,100,100: inductor: wrong: result 0 is off"]
    assert cpu.verdict([m]).startswith("1 ratios: 1 above 1, 0 below")
    row = cpu.record(m, PEAKS)
    assert row["best_peer"] == "torch" and row["contestants"]["inductor"]["us"] is None
    assert row["moved_bytes"] == 3 * 40_000


def test_shares_of_multiply_adds_are_of_the_same_rounds() -> None:
    """Half of the rounds others took half of the processors, from the kernel and from the peak alike."""
    m = measured()
    times, rates = (1e-3,) * 7 + (2e-3,) * 8, (4.0,) * 7 + (2.0,) * 8
    ours, torch, *others = m.outcomes
    ours = replace(ours, medians=times, multiplied=rates)
    m = replace(m, outcomes=(ours, torch, *others))
    assert cpu.share(m, ours, PEAKS) == (0.5, "F")
    assert cpu.share(m, torch, PEAKS) == (0.5, "F")  # 1 GF/s, of the rounds that were slow for tc
    assert cpu.share(m, replace(torch, medians=()), PEAKS) == (2e6 / 2e-3 / 1e9 / 200.0, "F")
    assert cpu.record(m, PEAKS)["contestants"]["tc"]["multiplied_GFps"] == 2.0


def test_the_roofline_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.roofline import draw, point

    places = [point(cpu.record(measured(), PEAKS))]
    path = draw(places, {"": PEAKS}, tmp_path / "roofline.png", "test")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_command_lines() -> None:
    arguments = cpu.parser().parse_args(["--only", "tmm", "--group", "report", "--rounds", "3", "--quick"])
    assert cpu.settings_for(arguments).rounds == 3
    assert cpu.names_for(arguments)[0] == "tc" and peers.JUDGE.name not in cpu.names_for(arguments)
    every = cpu.names_for(cpu.parser().parse_args([]))
    assert {"tc", "torch", "inductor", "inductor-max", "jax", "numpy", "numba", "halide-adams"} <= set(every)
    with pytest.raises(SystemExit):
        cpu.names_for(cpu.parser().parse_args(["--contestants", "nobody"]))
    assert cpu_sweep.parser().parse_args(["--families", "gemm", "--most", "9"]).most == 9
    assert cpu_threads.parser().parse_args(["--threads", "4"]).threads == 4
    assert cpu_dynamic.parser().parse_args(["--sizes", "3"]).sizes == 3
    assert cpu.main(["--list"]) == 0


def test_sweeps_hold_odd_sizes_and_find_cliffs() -> None:
    numbers = cpu_sweep.sizes()
    assert numbers[0] == 1 and numbers[-1] == 4096 and {127, 129, 1009, 4093} <= set(numbers)
    for name, (family, at) in cpu_sweep.SWEEPS.items():
        for n in (1, 2, 17, 64):
            workload = find(f"{family}@{','.join(str(s) for s in at(n))}").workload()
            assert workload.flops > 0, name
    smooth = [cpu_sweep.Sample(n, 1e-6 * n, 1e-6, None) for n in numbers]
    assert cpu_sweep.cliffs(smooth, 16) == []
    steep = [*smooth, cpu_sweep.Sample(130, 4e-4, 2e-6, None)]
    assert {c[0] for c in cpu_sweep.cliffs(steep, 16)} == {130}
    # Below four vector widths fixed costs rule.
    assert cpu_sweep.cliffs([*smooth, cpu_sweep.Sample(20, 4e-4, 2e-6, None)], 16) == []


def test_a_cliff_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def sample(name: str, n: int, race: object) -> cpu_sweep.Sample:
        asked.append(n)
        # 128 was slow once, 512 for a while, 256 always is.
        slow = (n == 128 and asked.count(n) == 1) or (n == 512 and asked.count(n) <= 4) or n == 256
        return cpu_sweep.Sample(n, 2e-6 if slow else 1e-6, 2e-9 if slow else 1e-9, None)

    monkeypatch.setattr(cpu_sweep, "sample", sample)
    numbers = [127, 128, 129, 255, 256, 257, 511, 512]
    samples, found, failed = cpu_sweep.sweep("add", numbers, cast("Race", None), 16)
    assert not failed and [s.size for s in samples] == numbers
    assert [(slow, fast) for slow, fast, _ in found] == [(256, 255), (256, 257)]
    assert asked.count(128) == 2 and asked.count(512) == 8 and asked.count(256) == 13


def test_thread_counts() -> None:
    assert cpu_threads.counts(1) == [1]
    assert cpu_threads.counts(6) == [1, 2, 4, 6]


def test_what_others_use_is_a_share() -> None:
    others = Others()
    sum(range(300_000))
    share = others.share()
    assert share is None or 0 <= share <= 1


def test_the_better_of_two_peaks() -> None:
    other = peaks.Peaks(2, 100.0, 120.0, 60.0, 30.0, 45.0, 25.0)
    assert PEAKS.better(other) == peaks.Peaks(2, 200.0, 120.0, 60.0, 50.0, 45.0, 25.0)
    assert PEAKS.better(other).bandwidth == 60.0


def test_a_failure_has_no_time() -> None:
    assert Outcome("tc", False, "ended", 1.0, 0.5, (0.5,), (0.5,)).seconds is None
    assert Outcome("tc", False, None, 1.0, 0.5).seconds == 0.5


def test_memory_of_a_call() -> None:
    water = HighWater()
    block = np.ones(32 << 18)  # 64 MiB
    growth = water.growth()
    assert block.nbytes == 64 << 20
    assert growth is None or growth >= 60 << 20


def test_the_loops_of_the_peaks_run() -> None:
    found = peaks.measure(2, megabytes=1, repeats=1).as_dict()
    assert all(v > 0 for v in found.values())


def test_a_measurement_from_end_to_end() -> None:
    settings = Settings(backend="reference", threads=1, rounds=3, budget=1e-4, warm=0.0, beyond=1 << 12)
    with Race(["tc", "numpy"], settings) as race:
        m = race.measure(find("gemm@7,5,6"))
        assert m.tc is not None and m.tc.failed is None and len(m.tc.medians) == 3
        assert m.tc.details["stages_ms"] and len(m.tc.multiplied) == 3 and min(m.tc.multiplied) > 0
        assert m.best_peer is not None and m.ratio is not None
        assert m.moved_bytes == 4 * (7 * 5 + 5 * 6 + 7 * 6)
        # Rotating look-ups, in the same processes; NumPy has no spelling of this one.
        m = race.measure(find("lut@100,3,4,5"))
        assert [o.contestant for o in m.outcomes] == ["tc"]
        assert m.tc is not None and m.tc.failed is None and m.ratio is None


@pytest.mark.share(12)
@pytest.mark.parametrize("name", [w.name for w in cpu_dynamic.WORKLOADS if "conv" not in w.name])
def test_dynamic_and_specialised_kernels_are_measured_at_each_size(name: str) -> None:
    w = next(w for w in cpu_dynamic.WORKLOADS if w.name == name)
    found = cpu_dynamic.measure(w, [2, 1, 2], 1, 0)
    assert sorted(found.ratios) == [1, 2] and all(r > 0 for r in found.ratios.values())
    assert cpu_dynamic.percentile([3, 1, 2], 0.5) == 2


@pytest.mark.parametrize("key", ["nothing@3", "gemm@3", "gemm@a,b,c", "gemm"])
def test_what_is_no_family_with_its_sizes(key: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(f"{key} is no family with its sizes, such as gemm@")):
        cpu.main(["--at", key])

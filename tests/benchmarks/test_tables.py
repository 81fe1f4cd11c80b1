"""The tables: memory beside time, what is written, and compiles that are as cold or warm as they say."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as tables
from benchmarks import (
    call_overhead,
    compile_time,
    cpu,
    cpu_dynamic,
    cpu_sweep,
    cpu_threads,
    kept,
    model,
    peaks,
    peers,
    record,
    roofline,
    vector_math,
)
from benchmarks.measure import Measurement, Outcome, Process, Settings
from benchmarks.stats import geometric_mean
from benchmarks.workloads import CASES, find

PEAKS = peaks.Peaks(2, 200.0, 100.0, 40.0, 50.0, 45.0, 20.0)
ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
HEADERS: dict[str, tuple[str, ...]] = {
    "compile_time": compile_time.HEADER,
    "call_overhead": call_overhead.HEADER,
    "cpu": cpu.HEADER,
    "cpu_sweep": cpu_sweep.HEADER,
    "cpu_threads": cpu_threads.header([1, 2]),
    "cpu_threads, busy": cpu_threads.header_of_busy([1, 2]),
    "cpu_dynamic": cpu_dynamic.HEADER,
    "model": model.HEADER,
}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results go meanwhile."""
    for module in (record, roofline):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    return tmp_path


def rows(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def outcome(name: str, seconds: float) -> Outcome:
    return Outcome(name, name != "tc", None, 1.0, seconds, (seconds,) * 3, (seconds,) * 3, 3 << 20, 40_000)


def test_every_table_is_run_by_the_command() -> None:
    """Without a name, and every module with a command is known by name."""
    folder = Path(tables.__file__).parent
    commands = {p.stem for p in folder.glob("*.py") if "def main(argv" in p.read_text(encoding="utf-8")}
    assert {*tables.TABLES, *tables.OTHERS} == commands - {"__main__"}
    assert {n.split(",")[0] for n in HEADERS} == {*tables.TABLES} - {"vector_math"}
    for name in (*tables.TABLES, *tables.OTHERS):
        assert callable(importlib.import_module(f"benchmarks.{name}").main)


@pytest.mark.parametrize("name", HEADERS)
def test_memory_stands_beside_time(name: str) -> None:
    header = " ".join(HEADERS[name])
    assert "MiB" in header, header
    assert any(unit in header for unit in ("µs", "ms", "ns", "p50")), header


# ---- what a table shows and writes


def test_the_sweep_has_the_memory_of_both() -> None:
    sample = cpu_sweep.Sample(64, 1e-6, 1e-9, 2e-6, 3 << 20, None)
    assert sample.cells() == ("64", "1.00", "1000", "2.00", "2.00", "3.00", "–")
    assert len(sample.cells()) == len(cpu_sweep.HEADER)


NUMBERS = [1, 2, 4]
ALONE = {
    ("gate", n, t): outcome(n, s / min(t, 2)) for n, s in (("tc", 4e-3), ("torch", 6e-3)) for t in NUMBERS
}


def test_the_table_over_threads() -> None:
    lines = cpu_threads.table(["gate"], NUMBERS, ALONE).splitlines()
    assert lines[1].split() == ["gate", "tc", "4000", "2000", "2000", "2.00", "3.00"]
    (ours, theirs) = cpu_threads.record(["gate"], NUMBERS, ALONE, None, 0)
    assert ours["us"]["2"] == pytest.approx(2000) and theirs["contestant"] == "torch"
    assert ours["memory_bytes"] == {"1": 3 << 20, "2": 3 << 20, "4": 3 << 20} and "busy" not in ours


def test_the_table_beside_spinning_processes(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It measures alone and beside them, on more threads than there are processors, and shows the ratios."""
    spinning: list[int] = []
    seen: list[tuple[int, list[int]]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            ones.append(self)

    ones: list[subprocess.Popen[bytes]] = []

    def measure(cases: Any, numbers: list[int], rounds: int, backend: str) -> cpu_threads.Outcomes:
        spinning.append(sum(one.poll() is None for one in ones))
        seen.append((len(cases), numbers))
        slower = 3 if spinning[-1] else 1
        return {("gate 1e+06", n, t): outcome(n, slower * 1e-3) for n in ("tc", "torch") for t in numbers}

    monkeypatch.setattr(cpu_threads, "measure", measure)
    monkeypatch.setattr(subprocess, "Popen", Recorded)
    monkeypatch.setattr(peers, "cores", lambda: [0, 1])
    assert cpu_threads.main(["--busy", "3", "--only", "gate"]) == 0
    assert spinning == [0, 3] and seen == [(1, [1, 2, 4])] * 2
    assert all(one.poll() is not None for one in ones)
    shown = capsys.readouterr().out
    assert shown.count("3.00×") == 6
    (ours, _) = rows(written, "cpu_threads_busy")
    assert ours["busy"] == 3 and ours["busy_us"]["4"] == pytest.approx(3000)


def test_a_row_of_soft_max_is_among_the_workloads_over_threads() -> None:
    chosen = [c.name for c in CASES if any(c.name.startswith(text) for text in cpu_threads.DEFAULT)]
    assert "softmax_plain 1,1e+07" in chosen
    assert len(chosen) == len(cpu_threads.DEFAULT)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_the_model_beside_the_clock() -> None:
    row = model.measure("gemm@9,8,7", 2)
    assert row["trials"] and row["default_us"] > 0
    assert row["memory_bytes"] is None or row["memory_bytes"] >= 4 * 9 * 7
    head, line = model.summary([row]).splitlines()
    assert head.split()[-1] == "MiB" and line.split()[0] == "gemm@9,8,7"


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_the_memory_of_dynamic_and_specialised_kernels() -> None:
    w = next(w for w in cpu_dynamic.WORKLOADS if w.name == "softmax 512")
    found = cpu_dynamic.measure(w, [3, 1], 1, 0)
    assert all(m is None or m >= 4 * 3 * 512 for m in found.memory)
    assert sorted(found.ratios) == [1, 3]


def test_vector_math_is_written(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And functions that did not run keep what they had."""
    record.save("vector_math", [{"function": n, "dtype": "float32", "ulp": "old"} for n in ("exp2", "tan")])
    assert vector_math.main(["--functions", "exp2", "--count", "500"]) == 0
    found = {(r["function"], r["dtype"]): r for r in rows(written, "vector_math")}
    assert sorted(found) == [("exp2", "float32"), ("exp2", "float64"), ("tan", "float32")]
    for machine in vector_math.available():
        assert found["exp2", "float32"]["ulp"][machine.name] < 4
        assert found["exp2", "float64"]["ns"][machine.name] > 0
    assert "| exp2 |" in capsys.readouterr().out


def test_call_overhead_is_written(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(call_overhead, "rows", lambda: {"nothing": (lambda: None, 300)})
    with warnings.catch_warnings():
        assert call_overhead.main(["--rounds", "1", "--calls", "10"]) == 0
    (row,) = rows(written, "call_overhead")
    assert row["row"] == "nothing" and row["limit_ns"] == 300 and "memory_bytes" in row
    assert capsys.readouterr().out.splitlines()[2].split()[-1] == "MiB"


# ---- the roofline


def measured(key: str) -> Measurement:
    return Measurement(find(key), (outcome("tc", 1e-3), outcome("torch", 2e-3)))


def test_the_roofline_has_the_kernels_of_all_results(written: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, key in (("cpu_report", "tmm@128,32,256"), ("cpu_more", "transpose@4096,4096")):
        one = cpu.record(measured(key), PEAKS)
        record.save(name, {"peaks": PEAKS.as_dict(), "workloads": [one]})
    points, found = roofline.of_results()
    assert [p.label for p in points] == ["tmm 128,32,256", "transpose 4096,4096"]
    assert list(found.values()) == [PEAKS]
    # An element that is written counts as an operation: 40,000 bytes in a millisecond, 2 for torch.
    assert points[1].ours == pytest.approx(1e-2) and points[1].peer == pytest.approx(0.5e-2)
    assert points[0].intensity == pytest.approx(2 * 128 * 32 * 256 / (4 * (128 * 32 + 32 * 256) + 40_000))
    assert roofline.draw_results().read_bytes().startswith(b"\x89PNG")


def test_the_roofline_of_two_processors_has_both_roofs(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    for name, processor in (("cpu_report", "one"), ("cpu_more", "other")):
        monkeypatch.setattr(record, "machine", lambda processor=processor: {"processor": processor})
        one = cpu.record(measured("tmm@128,32,256"), PEAKS)
        record.save(name, {"peaks": PEAKS.as_dict(), "workloads": [one]})
    points, found = roofline.of_results()
    assert [p.processor for p in points] == list(found) == ["one", "other"]
    assert roofline.draw_results().exists()


def test_the_results_that_are_kept_can_be_drawn() -> None:
    """Every kernel of both groups has a place."""
    points, found = roofline.of_results()
    assert found and {p.processor for p in points} == set(found)
    labels = [p.label for p in points]
    assert len(labels) > 60 and len(set(labels)) == len(labels) and set(labels) <= {c.name for c in CASES}
    assert all(p.ours and p.intensity > 0 for p in points)


def test_the_readme_says_what_the_kept_results_say() -> None:
    readme = (Path(tables.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    text = " ".join(readme.split())
    for name, said in (("cpu_report", "in geometric mean"), ("cpu_more", "others")):
        kept_rows = record.saved(name)["workloads"]
        mean = geometric_mean([r["ratio"]["median"] for r in kept_rows])
        assert f"{mean:.2f} times" in text, f"{name}: {mean:.2f}"
        assert re.search(rf"{len(kept_rows)} (workloads|others)", text) and said in text


def test_groups_have_results_of_their_own() -> None:
    both = [measured("tmm@128,32,256"), Measurement(CASES[0], ())]
    assert both[1].case.group == "report"
    parsed = cpu.parser().parse_args
    assert list(cpu._by_table(parsed([]), both)) == ["cpu_more", "cpu_report"]
    assert list(cpu._by_table(parsed(["--only", "tmm"]), both)) == ["cpu"]
    assert list(cpu._by_table(parsed(["--group", "report", "--only", "tmm"]), both[1:])) == ["cpu_report"]


# ---- cold and warm compiles


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's store that has the kernel of ADD for 9 elements already, and one of a benchmark."""
    folder = tmp_path / "store"
    monkeypatch.setenv("TC_VERIFY", "0")
    monkeypatch.setenv("TC_CACHE_DIR", str(folder))
    for source, sizes in ((ADD, {"N": 9}), (find("gemm@7,5,6").workload().source, {"M": 7, "N": 5, "K": 6})):
        compile_time.compile_once("cpu", source, None, sizes)
        assert compile_time.compile_once("cpu", source, None, sizes).restored
    yield folder


def files(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


def test_compiles_are_cold_beside_a_full_store_and_warm_from_their_own(filled: Path) -> None:
    before = files(filled)
    row = compile_time.measure("cpu", "add", ADD, None, {"N": 9, "unknown": 3}, 1)
    assert row.stages["object"] > 0 and row.stages["load"] == 0
    assert row.load is not None and row.warm is not None and row.load < row.warm
    assert files(filled) == before
    assert set(row.as_dict()) == {
        *("program", "whole_ms", "front_ms", "warm_ms", "load_ms", "memory_bytes", "stages_ms")
    }
    assert len(row.cells()) == len(compile_time.HEADER)


def test_what_is_not_kept_on_disk_has_no_warm_time() -> None:
    row = compile_time.measure("reference", "add", ADD, None, {"N": 9}, 1)
    assert (row.warm is None) == (row.load is None)
    other = compile_time.Row("x", 0.002, 0.001, {}, None, None, None)
    median = compile_time.summary([other, other]).splitlines()[-2].split()
    assert median == ["median", "2.00", "1.00", "–", "–", "–"]


def test_settings_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TC_CACHE", raising=False)
    monkeypatch.setenv("TC_CACHE_DIR", "here")
    from tc.cache import disk
    from tc.support import settings

    with kept.nothing():
        assert disk.default() is None and not settings.verify()
    with kept.apart():
        folder = settings.cache_directory()
        assert settings.cache() and folder.is_dir() and folder != Path("here")
    assert not folder.exists()
    assert settings.cache() and settings.cache_directory() == Path("here") and settings.verify()


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_the_table_of_compile_times(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_time, "benchmark", lambda: [("add 9", ADD, None, {"N": 9})])
    monkeypatch.setattr(compile_time, "import_time", lambda: 0.1)
    with warnings.catch_warnings():
        assert compile_time.main(["--repeats", "1"]) == 0
    add, beyond = rows(written, "compile_time")
    assert add["program"] == "add 9" and add["warm_ms"] > 0 and beyond["import_ms"] == 100
    head = capsys.readouterr().out.splitlines()[2:6]
    assert [line.split()[0] for line in head] == ["program", "add", "median", "worst"]


@pytest.mark.slow
def test_the_contestant_compiles_cold_beside_a_full_store(filled: Path, tmp_path: Path) -> None:
    """Its process keeps what it makes in a folder of the run."""
    assert peers.environment(1, str(tmp_path))["TC_CACHE_DIR"] == str(tmp_path)
    before = files(filled)
    process = Process("tc", Settings(), tmp_path)
    try:
        made = process.ask("prepare", workload="gemm@7,5,6", beyond=0)
    finally:
        process.stop()
    assert made["details"]["stages_ms"]["object"] > 0
    assert files(filled) == before
    assert files(tmp_path / "cache-tc")


def test_the_command_knows_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    for name in tables.TABLES:
        module = sys.modules[f"benchmarks.{name}"]
        monkeypatch.setattr(module, "main", lambda argv, name=name: ran.append(name) or 0)
    assert tables.main([]) == 0
    assert ran == [*tables.TABLES]
    with pytest.raises(SystemExit, match="there is no table nothing"):
        tables.main(["nothing"])

"""`python -m benchmarks.device`, dry: packed here, run with the stand-in driver in place of a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.device.blob import Pack, Writer
from benchmarks.device.report import brief

ROOT = Path(__file__).resolve().parents[2]


def device(*args: object) -> str:
    command = [sys.executable, "-m", "benchmarks.device", *map(str, args)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("device") / "tiny.pack"
    device("pack", file, "--tiny", "--random", 2, "--maps", 2, "--only", "softmax_plain 1024")
    return file


def rows(folder: Path, phase: str) -> list[dict[str, Any]]:
    text = (folder / f"{phase}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_dry_run_checks_and_times(pack: Path, tmp_path: Path) -> None:
    device(
        *("run", pack, "--out", tmp_path, "--driver", "stand-in", "--budget", 200, "--warmers", 0),
        *("--phases", "sanity,conformance,timing"),
    )
    (sanity,) = rows(tmp_path, "sanity")
    assert sanity["ok"]
    found = rows(tmp_path, "conformance")
    assert len(found) == 2 and all(x["ok"] for x in found), found
    maps = rows(tmp_path, "timing")
    assert [x["map"] for x in maps] == [0, 1] and all(x["ok"] for x in maps), maps
    assert all(k["cold_us"] > 0 and k["predicted_us"] > 0 for x in maps for k in x["kernels"])
    text = brief(tmp_path)
    assert "conformance: 2 of 2 right" in text and "maps: 2 of 2 right" in text


def test_a_wrong_kernel_is_found(pack: Path, tmp_path: Path) -> None:
    """The checks of a run: one result of one program is expected to be another."""
    read = Pack(pack)
    other = tmp_path / "other.pack"
    changed = 0
    with Writer(other) as writer:
        for one in read.of_phase("conformance"):
            data = read.data(one)
            wanted = {n: w + 1 if w.dtype.kind in "iuf" else ~w for n, w in data.wanted.items()}
            allowed = {n: np.zeros_like(a) for n, a in data.allowed.items()}
            if any(w.size and np.isfinite(w).any() for w in wanted.values()):
                changed += 1
                writer.add(
                    one, read.image(one), read.text(one), replace(data, wanted=wanted, allowed=allowed)
                )
    assert changed
    out = tmp_path / "out"
    device(
        *("run", other, "--out", out, "--driver", "stand-in", "--budget", 100, "--warmers", 0),
        *("--phases", "conformance"),
    )
    found = rows(out, "conformance")
    assert len(found) == changed and not any(x["ok"] for x in found)

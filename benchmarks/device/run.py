"""All phases on a device, the most valuable first, each in child processes with a time limit.

A child that crashes, or that finds nothing for a while, costs the key it was at; the phase goes on after it.
While conformance is checked, other children let Inductor and Triton compile what the races need.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.device.blob import Pack
from benchmarks.device.children import done

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 60.0  # seconds without a line after which a child is killed
_MOST_STARTS = 12
_SANITIZED = 24
_PROFILED = 12
_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "smsp__inst_executed.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
)


@dataclass
class Run:
    """A run: the pack, where lines go, and when it must be over."""

    pack: Path
    out: Path
    until: float
    driver: str = "cuda"
    patience: float = _PATIENCE
    log: list[dict[str, Any]] = field(default_factory=list)

    def left(self) -> float:
        return self.until - time.time()

    def command(self, phase: str, until: float, out: Path, *more: str) -> list[str]:
        return [
            *(sys.executable, "-m", "benchmarks.device.children", phase, "--pack", str(self.pack)),
            *("--out", str(out), "--driver", self.driver, "--until", str(until), *more),
        ]

    def start(self, command: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        with (self.out / "log.txt").open("ab") as log:
            log.write(f"---- {name}\n".encode())
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment())

    def phase(self, name: str, limit: float, *more: str, wrapper: Sequence[str] = ()) -> None:
        """Run a phase until it is complete or out of time."""
        began = time.time()
        until = min(self.until, began + limit)
        out = self.out / f"{name}.jsonl"
        starts = 0
        while starts < _MOST_STARTS:
            starts += 1
            child = self.start([*wrapper, *self.command(name, until, out, *more)], name)
            status = self.wait(child, out, until)
            current = Path(f"{out}.current")
            if status == 0 or time.time() >= until:
                current.unlink(missing_ok=True)
                break
            if not current.exists():
                break
            key = current.read_text(encoding="utf-8")
            current.unlink()
            if key not in done(out):
                line = {"key": key, "ok": False, "wrong": f"the process ended with {status}"}
                with out.open("a", encoding="utf-8") as f:
                    f.write(json.dumps(line) + "\n")
        self.log.append({"phase": name, "seconds": time.time() - began, "starts": starts})

    def wait(self, child: subprocess.Popen[bytes], out: Path, until: float) -> int:
        """The status of a child, which is killed when it is out of time or shows no progress."""
        size, at = -1, time.time()
        while child.poll() is None:
            time.sleep(0.1)
            now = out.stat().st_size if out.exists() else 0
            if now != size:
                size, at = now, time.time()
            if time.time() > until + 5 or time.time() - at > self.patience:
                child.kill()
                child.wait()
                return -9
        return child.returncode


def environment() -> dict[str, str]:
    cache = "/tmp/tc-device-cache"
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "PYTHONUNBUFFERED": "1",
        "CUDA_MODULE_LOADING": "LAZY",
    }


def everything(run: Run, phases: Sequence[str], warmers: int) -> None:
    """The phases in order, as far as they are asked for and time is left."""
    pack = Pack(run.pack)
    if "sanity" in phases:
        run.phase("sanity", 60)
    warming: list[subprocess.Popen[bytes]] = []
    if "race" in phases:
        for k in range(warmers):
            out = run.out / f"warm{k}.jsonl"
            command = run.command("warm", run.until, out, "--share", f"{k}/{warmers}")
            warming.append(run.start(command, f"warm{k}"))
    if "conformance" in phases:
        run.phase("conformance", 150)
    if "sanitizer" in phases:
        sanitizer(run, pack, 90)
    if warming:
        until = time.time() + min(60.0, run.left() / 4)
        while time.time() < until and any(p.poll() is None for p in warming):
            time.sleep(0.2)
        for p in warming:
            p.kill()
            p.wait()
        lines = [json.loads(x) for f in run.out.glob("warm*.jsonl") for x in f.read_text().splitlines()]
        run.log.append({"phase": "warm", "lines": len(lines), "wrong": [x for x in lines if not x["ok"]]})
        for f in (*run.out.glob("warm*.jsonl"), *run.out.glob("warm*.current")):
            f.unlink()
    if "timing" in phases:
        run.phase("timing", max(20.0, 0.3 * run.left()))
    if "race" in phases:
        run.phase("race", max(20.0, 0.8 * run.left()))
    if "ncu" in phases:
        profile(run, pack)
    (run.out / "phases.json").write_text(json.dumps(run.log, indent=1) + "\n", encoding="utf-8")


def sanitizer(run: Run, pack: Pack, limit: float) -> None:
    """Memcheck and racecheck on a share of the programs; what they find is in sanitizer.json."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    blobs = [b for b in pack.of_phase("conformance") if not b.fails]
    step = max(1, len(blobs) // _SANITIZED)
    keys = ",".join(b.key for b in blobs[::step][:_SANITIZED])
    began, found = time.time(), []
    for kind in ("memcheck", "racecheck"):
        out = run.out / f"{kind}.jsonl"
        until = min(run.until, time.time() + limit / 2)
        command = [tool, "--tool", kind, *run.command("conformance", until, out, "--keys", keys)]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
                timeout=max(5.0, until + 10 - time.time()),
            )  # fmt: skip
            text, status = ended.stdout + ended.stderr, ended.returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            text, status = str(error), -1
        lines = [x for x in text.splitlines() if x.startswith("=========")]
        ran = len(done(out))
        out.unlink(missing_ok=True)
        found.append(
            {"tool": kind, "status": status, "ran": ran, "of": keys.count(",") + 1, "lines": lines[-60:]}
        )
    (run.out / "sanitizer.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    run.log.append({"phase": "sanitizer", "seconds": time.time() - began})


def profile(run: Run, pack: Pack) -> None:
    """Hardware counters of some kernels, in ncu.csv."""
    tool = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    began = time.time()
    blobs = [b for b in pack.of_phase("timing") if b.map == 0][:_PROFILED]
    out = run.out / "ncu.jsonl"
    keys = ",".join(b.key for b in blobs)
    command = [
        *(tool, "--csv", "--clock-control", "none", "--metrics", ",".join(_METRICS)),
        *run.command("once", run.until, out, "--keys", keys),
    ]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
            timeout=max(5.0, run.left()),
        )  # fmt: skip
        (run.out / "ncu.csv").write_text(ended.stdout, encoding="utf-8")
    except (OSError, subprocess.TimeoutExpired) as error:
        (run.out / "ncu.csv").write_text(str(error), encoding="utf-8")
    out.unlink(missing_ok=True)
    Path(f"{out}.current").unlink(missing_ok=True)
    run.log.append({"phase": "ncu", "seconds": time.time() - began})

"""A search over Dask on this machine: workers die in the middle, and others join."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import distributed
import pytest

import tc
from tc.options import Options
from tc.tuned.records import Records
from tests.tuner.conftest import ADD

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask, about ports and sockets


def start(folder: Path, home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "TMPDIR": str(home)}
    command = [sys.executable, "-m", "dask", *arguments]
    log = (home / "log.txt").open("ab")
    return subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=home)


@pytest.fixture
def cluster(faulty: Any, tmp_path: Path) -> Generator[Any]:
    """A client, and a function that starts a worker with a role."""
    home = tmp_path / "dask"
    home.mkdir()
    folder = faulty({}, 1000)
    file = home / "scheduler.json"
    running = [
        start(folder, home, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show",
              "--scheduler-file", str(file))
    ]  # fmt: skip

    def worker(role: str) -> subprocess.Popen[bytes]:
        made = start(
            folder, home, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--resources", f"{role}=1", "--host", "127.0.0.1", "--memory-limit", "0",
        )  # fmt: skip
        running.append(made)
        return made

    try:
        with distributed.Client(scheduler_file=str(file), timeout="30s") as client:
            yield client, worker
    finally:
        for p in running:
            p.kill()
            p.wait()


SETTINGS: dict[str, Any] = {
    "sizes": {"N": 100},
    "backend": "faulty",
    "run_seconds": 10.0,
    "compile_seconds": 10.0,
    "memory_mib": 200,
    "prune": None,
}


@pytest.mark.slow
def test_a_search_of_which_workers_die(cluster: Any, faulty: Any, tmp_path: Path) -> None:
    client, worker = cluster
    with pytest.raises(tc.BackendError, match="no worker of the scheduler has the resource tc-compile"):
        tc.tune(ADD, client=client, budget=10.0, **SETTINGS)
    compiling = worker("tc-compile")
    measuring = [worker("tc-measure") for _ in range(3)]
    client.wait_for_workers(4, timeout=30)
    faulty({1: "crash", 16: "wrong", 4: "bug", 64: "kill worker once", 2: "kill worker"}, base_us=1000)

    def joins_late() -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end and not any(p.poll() is not None for p in measuring):
            time.sleep(0.05)
        measuring.append(worker("tc-measure"))

    helper = threading.Thread(target=joins_late)
    helper.start()
    unrolls = (64, 1, 16, 4, 32, 2, 128, 256, 8, 512)
    start = [Options(unroll=n) for n in unrolls]
    tuned = tc.tune(ADD, client=client, strategy="given", start=start, budget=40.0, **SETTINGS)
    helper.join()
    assert sum(p.poll() is not None for p in measuring) == 3 and compiling.poll() is None
    rows = Records(tmp_path / "records").scan().records
    assert tuned.best == Options(unroll=8) and tuned.paired.won, [r.to_line() for r in rows]
    verdicts = {t.options.unroll: (t.status, t.problem) for t in tuned.trials}
    assert [verdicts.pop(n)[0] for n in (1, 16, 4)] == ["crash", "wrong", "refused"]
    assert verdicts.pop(2) == ("crash", "the worker that ran it died, twice")
    assert verdicts == dict.fromkeys((None, 64, 32, 128, 256, 8, 512), ("ok", "")), "none is lost"
    found = Records(tmp_path / "records").scan()
    assert not found.foreign and len(found.records) == len(unrolls) + 2
    assert {r.origin for r in found.records} == {"default", "given", "confirm"}


def test_no_scheduler() -> None:
    from tc.tuner.distributed import connect

    with pytest.raises(tc.BackendError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9") as e:
        connect("tcp://127.0.0.1:9", "1s")
    assert e.value.code == "TC0824"


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.tuner.distributed import connect

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(tc.BackendError, match=r"needs dask.distributed.*\n.*\[distributed\]") as e:
        connect("tcp://127.0.0.1:9")
    assert e.value.code == "TC0822"

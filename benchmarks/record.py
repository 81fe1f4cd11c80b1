"""Where results go: `benchmarks/results/NAME.json`, with the machine, versions and date."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """The processor and the versions that matter."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    versions = {"python": platform.python_version()}
    for name in ("numpy", "halide", "islpy", "llvmlite", "lark", "torch", "jax", "numba"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "absent"
    return {"processor": model, "cores": os.cpu_count(), "system": platform.platform(), "versions": versions}


def save(name: str, rows: Any) -> Path:
    """Write the rows of a table with the machine they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    path.write_text(
        json.dumps({"date": date, "machine": machine(), "rows": rows}, indent=2) + "\n", encoding="utf-8"
    )
    return path


def saved(name: str) -> Any:
    """The rows of a table that was written before; none if there is none."""
    return (written(name) or {"rows": []})["rows"]


def written(name: str) -> dict[str, Any] | None:
    """All that was written of a table before: its date, machine and rows."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

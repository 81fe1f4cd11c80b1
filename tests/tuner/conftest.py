"""A search with the backend of tests/tuner/faulty.py, which processes of their own find too."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tc import registry
from tc.tuner import child

ADD = "def add(float(N) x) -> (y) { y(i) = x(i) + 1 }"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Passes are judged elsewhere; records are this test's own."""
    monkeypatch.setenv("TC_VERIFY", "0")
    monkeypatch.setenv("TC_TUNE_DIR", str(tmp_path / "records"))


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`faulty({8: "crash"})` says which candidates of the backend "faulty" fail; returns the folder to import
    it from."""
    folder = tmp_path / "plugin"
    entry = folder / "faulty-1.0.dist-info"
    entry.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "faulty.py", folder / "faulty_backend.py")
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (entry / "entry_points.txt").write_text("[tc.backends]\nfaulty = faulty_backend:Backend\n")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    monkeypatch.setattr(registry, "_found", None)
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr(child, "time", child.time)  # which kernels of this backend replace
    monkeypatch.setenv("FAULTY_PLAN", str(tmp_path / "plan.json"))

    def plan(faults: dict[int, str] | None = None, base_us: float = 300.0, cores: int = 1) -> Path:
        text = json.dumps(
            {"faults": {str(k): v for k, v in (faults or {}).items()}, "base_us": base_us, "cores": cores}
        )
        (tmp_path / "plan.json").write_text(text)
        return folder

    plan()
    return plan

"""The models of examples/training: written in TCs and in plain PyTorch they are the same."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.training import race, report

STEPS = 5


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("digits", {"BATCH": 6, "WIDTHS": (2, 3)}),
        ("characters", {"BATCH": 3, "LENGTH": 5, "ROW": 3, "STATE": 4}),
        ("production_model", {"BATCH": 6, "D": 3, "WY": 2, "LAYERS": (4, 3, 4, 3)}),
    ],
)
def test_losses_agree_step_by_step(name: str, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the passes do to such programs, other tests verify."""
    monkeypatch.setenv("TC_VERIFY", "0")
    module: Any = importlib.import_module(f"examples.training.{name}")
    for constant, value in small.items():
        monkeypatch.setattr(module, constant, value)
    ours, theirs = (race.Trainee(module.TRAINING, spelling, seed=3) for spelling in race.SPELLINGS)
    losses = [ours.step()[0] for _ in range(STEPS)]
    assert losses == pytest.approx([theirs.step()[0] for _ in range(STEPS)], rel=1e-4)
    assert len({round(x, 6) for x in losses}) == STEPS  # it trains


def test_summary_and_picture(tmp_path: Path) -> None:
    ours = race.Curve([2.0, 1.0, 0.5], [1.0, 0.002, 0.002], {0: 0.1, 3: 0.9})
    theirs = race.Curve([2.0, 1.0, 0.25], [0.5, 0.003, 0.004], {0: 0.1, 3: 0.8})
    curves: dict[race.Spelling, race.Curve] = {"tc": ours, "torch": theirs}
    training: Any = importlib.import_module("examples.training.digits").TRAINING
    text = report.summary(training, curves)
    assert "3 steps" in text
    assert "differ by at most 2.5e-01" in text
    assert "90.00 %" in text
    report.draw(training, curves, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "production_model", "characters"])
def test_command_line(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"examples.training.{name}", "--steps", "30", "--threads", "1"]
    picture = tmp_path / "curves.png"
    done = subprocess.run([*command, "--save", str(picture)], capture_output=True, text=True, check=True)
    assert "30 steps" in done.stdout
    assert picture.exists()

"""`python -m tc doctor` says which devices there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.cli.main import main
from tests.simt.install import backend_module
from tests.simt.machine import Machine

if TYPE_CHECKING:
    import pytest


def test_devices_are_listed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = backend_module("device")
    monkeypatch.setattr(device, "_package", lambda: (lambda: machine.devices, device.find))
    assert main(["doctor"]) == 0
    lines = [x.strip() for x in capsys.readouterr().out.splitlines()]
    at = lines.index("backend cuda       available")
    assert lines[at + 1 : at + 3] == [
        f"cuda:{n} stand-in {n}, sm_90, 0.2 of 0.2 GiB free, by stand-in" for n in range(2)
    ]


def test_without_a_driver_there_are_none() -> None:
    from tc import registry
    from tc.pipeline.devices import HasDevices

    backend = registry.load("cuda")
    assert isinstance(backend, HasDevices)
    if not registry.availability("cuda").ok:
        assert backend.devices.describe() == ()

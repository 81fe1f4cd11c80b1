"""The cuda backend on a stand-in for the driver, whose devices' memory is the host's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simt import install
from tests.simt.fakes import Cupy, Jax, Torch
from tests.simt.machine import Machine


@pytest.fixture(scope="module")
def text_for_code() -> Iterator[None]:
    """Compiles leave CUDA C++ where machine code would be; all tests of this folder share them."""
    with pytest.MonkeyPatch.context() as patch:
        install.text_for_code(patch)
        yield


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, text_for_code: None) -> Machine:
    """Two devices."""
    return install.stand_in(monkeypatch)


@pytest.fixture
def on_torch(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Torch:
    return Torch(machine, monkeypatch)


@pytest.fixture
def on_cupy(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Cupy:
    return Cupy(machine, monkeypatch)


@pytest.fixture
def on_jax(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Jax:
    return Jax(machine, monkeypatch)

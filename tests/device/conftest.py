"""The cuda backend on a stand-in for the driver, whose devices' memory is the host's."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.device.native_calls import address
from tests.simt import install
from tests.simt.driver import StandIn
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


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("exchange") / "exchange.so"
    source = Path(__file__).parent / "exchange.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", str(source), "-o", str(path)], check=True)
    made = ctypes.CDLL(str(path))
    made.said.restype = ctypes.c_char_p
    return made


@pytest.fixture
def driver(library: ctypes.CDLL, machine: Machine) -> ctypes.CDLL:
    """Launches run at once, and so does what makes arrays."""
    machine.eager = True
    library.clear()
    library.fail(0)
    return library


@pytest.fixture
def by_functions(driver: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The stand-in's kernels are functions of `exchange.c`, for `tc._native` alone: its own launches run the
    text."""

    class Handle(tuple[str, str]):
        def __int__(self) -> int:
            return address(driver, self[1])

    plain = StandIn.function
    entries = (*(address(driver, n) for n in ("push", "pop", "start")), 3)
    monkeypatch.setattr(StandIn, "function", lambda *a: Handle(plain(*a)))
    monkeypatch.setattr(StandIn, "entries", lambda self: entries)
    return driver

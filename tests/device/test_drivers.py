"""The drivers themselves: cuda-bindings, and ctypes for what pycuda lacks, on a library that stands in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tc.errors import BackendError
from tests.simt.install import backend_module

HERE = Path(__file__).parent
PLAIN = [
    *("init", "count", "device", "retain", "push", "name", "attribute", "attribute"),
    *("load", "function", "function", "shared", "alloc", "up", "down", "fill", "free", "launch", "wait_all"),
]
STREAMS = [
    *("stream", "event", "record", "wait", "query", "destroy", "synchronize", "capturing", "capturing"),
    *("begin", "end", "make", "drop_graph", "launch_graph", "drop_exec", "attribute", "pool", "keep"),
    *("alloc_async", "free_async", "pinned", "mapped", "pointer", "pointer", "info"),
    *("event", "alloc_async", "capturing"),  # which fail
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("libcuda") / "libcuda.so.1"
    options = ["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["cc", *options, str(HERE / "libcuda.c"), "-ldl", "-o", str(made)], check=True)
    return made


@pytest.mark.parametrize(
    ("package", "expected"), [("cuda-bindings", [*PLAIN, *STREAMS, "pop"]), ("ctypes", STREAMS)]
)
def test_calls_reach_the_driver(library: Path, package: str, expected: list[str]) -> None:
    root = HERE.parents[1]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "LD_LIBRARY_PATH": str(library.parent)}
    command = [sys.executable, str(HERE / "driver_calls.py"), str(library), package]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize(
    ("text", "status", "sticky"),
    [
        ("cuMemcpyDtoH failed: an illegal memory access was encountered", "CUDA_ERROR_ILLEGAL_ADDRESS", True),
        ("cuLaunchKernel failed: unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED", True),
        ("cuModuleLoadDataEx failed: device kernel image is invalid", "", False),
    ],
)
def test_errors_of_pycuda_have_their_status(text: str, status: str, sticky: bool) -> None:
    class Error(Exception):
        pass

    def load(image: bytes) -> None:
        raise Error(text)

    cu = SimpleNamespace(Error=Error, MemoryError=MemoryError, module_from_buffer=load)
    context = SimpleNamespace(push=lambda: None, pop=lambda: None)
    driver = backend_module("with_pycuda").PycudaDriver(cu, SimpleNamespace(), context)
    with pytest.raises(backend_module("driver").DriverError) as caught, driver.entered():
        driver.load(b"")
    assert (caught.value.status, caught.value.sticky) == (status, sticky)


def test_a_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its library, with one that finds no device, and without the device that is asked for."""
    device, bindings = backend_module("device"), backend_module("with_bindings")
    driver = backend_module("driver")
    find = device._find.__wrapped__
    monkeypatch.setattr(device, "_installed", lambda package: package == "cuda.bindings")

    def refuse(message: str, count: object) -> None:
        monkeypatch.setattr(bindings, "count", count)
        with pytest.raises(BackendError, match=message) as caught:
            find(2)
        assert caught.value.code == "TC0815" and caught.value.help

    def missing() -> int:
        raise OSError("libcuda.so.1 is not found")

    def none() -> int:
        raise driver.DriverError("CUDA_ERROR_NO_DEVICE, no CUDA-capable device is detected")

    refuse("there is no NVIDIA driver: libcuda.so.1 is not found", missing)
    refuse("the NVIDIA driver finds no device: CUDA_ERROR_NO_DEVICE", none)
    refuse("there are 2 CUDA devices, and none is 2", lambda: 2)
    monkeypatch.setattr(device, "_installed", lambda package: False)
    refuse("neither cuda-bindings nor pycuda is installed", lambda: 2)

"""Copies on a device of arrays that lie anyhow."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tc.pipeline.devices import Layout
from tests.simt.driver import StandIn
from tests.simt.install import backend_module
from tests.simt.machine import Machine

FOUR = np.arange(2 * 3 * 4 * 5, dtype=np.int32).reshape(2, 3, 4, 5)
SIX = np.arange(2**6, dtype=np.int16).reshape((2,) * 6)
VIEWS: dict[str, Any] = {
    "dense": FOUR,
    "reversed order": FOUR.transpose(),
    "backwards": FOUR[::-1, :, ::-2],
    "no dimensions": FOUR[1, 2, 3, 4],
    "bytes": FOUR.astype(np.uint8)[:, 1:, ::2],
    "doubles": FOUR.astype(np.float64).swapaxes(0, 3),
    "complex": (FOUR * 1j).astype(np.complex128).swapaxes(1, 2),
    "two dimensions in one": FOUR[:, :, ::2],
    "six dimensions": SIX.transpose(5, 3, 1, 0, 2, 4),
    "one row for all": np.broadcast_to(FOUR[0, 0, 0], (3, 5)),
    "empty": FOUR[:, :0],
}


def layout(a: np.ndarray[Any, Any], address: int) -> Layout:
    return Layout(address, a.shape, a.strides, a.itemsize)


def by_hand(text: str, name: str, blocks: int, threads: int, given: list[Any], shared: int) -> None:
    """What the kernel that copies does, with addresses for arrays."""
    fro, to, size, count, n1, n2, n3, *strides = map(int, given)
    s, t = strides[:4], strides[4:]
    assert blocks * threads >= count and name == "copy"
    for i in range(count):
        at = i // (n1 * n2 * n3), i // (n2 * n3) % n1, i // n3 % n2, i % n3
        source, target = fro + np.dot(at, s), to + np.dot(at, t)
        assert source % size == target % size == 0
        ctypes.memmove(int(target), int(source), size)


class ByAddress(StandIn):
    """A driver that runs launches at once, and by addresses."""

    def launch(self, function: Any, arguments: Any, blocks: int, threads: int, *more: Any) -> None:
        by_hand(*function, blocks, threads, list(arguments), 0)


@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("name", VIEWS)
def test_elements_are_copied(name: str, offset: int) -> None:
    """Also to and from addresses that are no multiples of what an element takes."""
    check(ByAddress(Machine()), np.asarray(VIEWS[name]), offset)


@pytest.mark.parametrize("name", ["reversed order", "doubles", "bytes", "six dimensions"])
def test_the_kernel_copies(name: str) -> None:
    check(StandIn(Machine()), np.asarray(VIEWS[name]), 0)


def check(driver: StandIn, source: np.ndarray[Any, Any], offset: int) -> None:
    base: Any = source
    while base.base is not None:
        base = base.base
    held = driver.machine.memory(base.nbytes, 0, offset).memory
    held[:] = base.reshape(-1).view(np.uint8)
    first = source.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    target = driver.machine.memory(max(1, source.nbytes), 0, offset)
    dense = np.empty(source.shape, source.dtype)
    with driver.entered():
        copier = backend_module("copies").Copier(driver)
        copier.copy(layout(dense, target.begin), layout(source, held.ctypes.data + first), 0)
        driver.synchronize()
    found = target.memory[: source.nbytes].copy().view(source.dtype).reshape(source.shape)
    np.testing.assert_array_equal(found, source)


def test_ptx_is_what_nvrtc_makes_of_the_text() -> None:
    """But for comments, and for the version, which older drivers take."""
    nvrtc = backend_module("nvrtc")._nvrtc()
    error, major, minor = nvrtc.nvrtcVersion()
    if (major, minor) != (12, 9):
        pytest.skip(f"NVRTC {major}.{minor} may make other PTX than 12.9")
    copies, ptx = backend_module("copies"), backend_module("copy_ptx")
    error, program = nvrtc.nvrtcCreateProgram(copies.TEXT.encode(), b"copies.cu", 0, [], [])
    options = [b"--gpu-architecture=compute_75", b"--std=c++17"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    error, size = nvrtc.nvrtcGetPTXSize(program)
    made = b" " * size
    nvrtc.nvrtcGetPTX(program, made)

    def lines(text: str) -> list[list[str]]:
        plain = (x.partition("//")[0].split() for x in text.splitlines())
        return [x for x in plain if x and x[0] != ".version"]

    assert lines(ptx.PTX) == lines(made.rstrip(b"\0").decode())
    assert ptx.PTX.startswith(".version 6.3\n")

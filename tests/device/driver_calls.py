"""Every call of `backends.cuda.driver.Driver`, on the library in place of the driver that `libcuda.c` makes.

    python driver_calls.py LIBRARY cuda-bindings|ctypes

In a process of its own: cuda-bindings takes the library for that of the system, by its name, once and for
all.  What the library is asked is printed; it checks what it is given.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np


def by_bindings() -> Any:
    with_bindings = importlib.import_module("backends.cuda.with_bindings")
    assert with_bindings.count() == 2
    return with_bindings.BindingsDriver(1)


def by_ctypes(path: str) -> Any:
    """What pycuda lacks."""
    entries, with_pycuda = (importlib.import_module(f"backends.cuda.{n}") for n in ("entries", "with_pycuda"))
    context = SimpleNamespace(push=lambda: None, pop=lambda: None)
    cu = SimpleNamespace(Error=OSError, MemoryError=MemoryError)
    return with_pycuda.PycudaDriver(cu, SimpleNamespace(), context, 1, entries.Entries(path))


def plain_calls(driver: Any) -> None:
    assert (driver.name, driver.arch, driver.number) == ("device 1", "sm_99", 1)
    module = driver.load(b"image")
    driver.function(module, "f", 0)
    function = driver.function(module, "f", 100)
    assert int(function) == 12
    *entries, context = driver.entries()
    assert all(entries) and len(set(entries)) == 3 and context == 3
    buffer = driver.allocate(16)
    content = np.zeros(16, np.uint8)
    driver.upload(buffer, content)
    driver.download(content, buffer)
    driver.fill(buffer, 3, 8)
    driver.free(buffer)
    driver.launch(function, [0x1234, np.float32(1.5), np.int64(-3)], 5, 64, 100, 0x71)
    driver.synchronize()


def stream_calls(driver: Any) -> None:
    stream, event = driver.stream(), driver.event()
    driver.record(event, stream)
    driver.wait(stream, event)
    assert not driver.done(event)
    driver.destroy_event(event)
    driver.synchronize_stream(stream)
    assert driver.capturing(stream) and not driver.capturing(0)
    driver.begin_capture(stream)
    graph = driver.end_capture(stream)
    driver.launch_graph(graph, stream)
    driver.destroy_graph(graph)
    assert driver.allocate_on(16, stream) == (1 << 40) + 16
    driver.free_on((1 << 40) + 16, stream)
    words, address = driver.pinned(64)
    assert address == 0xABC and words.size == 64 and not words.any()
    assert (driver.device_of(77), driver.device_of(78)) == (1, None)
    assert driver.memory() == (1 << 35, 1 << 36)


def errors(driver: Any, library: Any) -> None:
    kinds = importlib.import_module("backends.cuda.driver")
    status = ctypes.c_int.in_dll(library, "status")
    status.value = 700
    try:
        driver.event()
    except kinds.DriverError as error:
        assert error.sticky and str(error) == "CUDA_ERROR_ILLEGAL_ADDRESS, what it means", error
    else:
        raise AssertionError
    status.value = 2
    try:
        driver.allocate_on(16, 0x71)
    except kinds.OutOfMemory as error:
        assert not error.sticky and error.status == "CUDA_ERROR_OUT_OF_MEMORY"
    else:
        raise AssertionError
    try:
        driver.refused(700)
    except kinds.DriverError as error:
        assert error.sticky and error.status == "CUDA_ERROR_ILLEGAL_ADDRESS"
    else:
        raise AssertionError
    status.value = 906
    assert driver.capturing(0)  # the default stream, while another is captured
    status.value = 0


def main(path: str, package: str) -> None:
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    driver = by_bindings() if package == "cuda-bindings" else by_ctypes(path)
    with driver.entered():
        if package == "cuda-bindings":
            plain_calls(driver)
        stream_calls(driver)
        errors(driver, library)
    library.said.restype = ctypes.c_char_p
    sys.stdout.write(json.dumps(library.said().decode().split()))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Calls that are refused before a launch."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import BackendError
from tc.ir.loops import MOST_BLOCKS


class Session:
    """A device with unlimited memory, on which a launch fails the test."""

    def allocate(self, size: int) -> Any:
        return size

    def upload(self, buffer: Any, content: Any) -> None: ...

    def free(self, buffer: Any) -> None: ...

    def launch(self, *_: Any) -> None:
        raise AssertionError("launched")


def test_a_launch_with_too_many_blocks_is_refused() -> None:
    source = "def f(int8(N) A) -> (B) { B(i) = A(i) }"
    kernel = tc.compile(source, "opencl", dynamic=("N",), options={"tile": (1,), "threads": (1,)})
    one: Any = kernel.specialize(N=5).compiled
    module, interface = one.module, one.interface
    run = importlib.import_module("tc_backends.gpu.run")
    large = np.broadcast_to(np.int8(1), (MOST_BLOCKS + 1,))
    with pytest.raises(BackendError, match=f"f: a launch has {MOST_BLOCKS + 1} blocks") as caught:
        run.run(Session(), interface, module.kernels, [None], [large], [large])
    assert caught.value.code == "TC0810"

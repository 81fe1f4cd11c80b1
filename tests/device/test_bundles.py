"""Bundles called with arrays that are on a device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tc
from tests.simt.fakes import Torch
from tests.simt.machine import Machine

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
GATHER = "def gather(float(N,D) T, int(M) I) -> (y) { y(i,d) = T(I(i),d) }"
SIZES = {"M": 5, "K": 3, "N": 4}


def test_arrays_on_a_device(machine: Machine, on_torch: Torch, tmp_path: Path) -> None:
    kernel = tc.compile(MM, "cpu")
    path = kernel.export(tmp_path / "mm.tcb", SIZES, isa="sse4.2", arch="sm_90")
    a = np.arange(15, dtype=np.float32).reshape(5, 3)
    b = np.ones((3, 4), np.float32)
    on = on_torch.tensor(a, 1), on_torch.tensor(b, 1)
    for bundle in (tc.load(path), tc.load(path, "cuda")):
        for _ in range(2):
            found = bundle(*on)
            assert on_torch.read(found).tolist() == (a @ b).tolist() and found.device.index == 1
        assert bundle(a, b).tolist() == (a @ b).tolist()
    with pytest.raises(tc.BackendError) as caught:
        tc.load(path, "cpu")(*on)
    assert caught.value.code == "TC0808"


def test_an_index_out_of_range_on_a_device(machine: Machine, on_torch: Torch, tmp_path: Path) -> None:
    with pytest.warns(tc.DataDependentAccess):
        kernel = tc.compile(GATHER, "cuda", checks="sync")
    bundle = tc.load(kernel.export(tmp_path / "g.tcb", {"N": 6, "D": 2, "M": 3}, arch="sm_90"))
    table = on_torch.tensor(np.arange(12, dtype=np.float32).reshape(6, 2))
    assert on_torch.read(bundle(table, on_torch.tensor(np.array([5, 0, 2], np.int32))))[0].tolist() == [
        10,
        11,
    ]
    with pytest.raises(tc.BoundsError, match="index 6 is out of range for dimension 0 of"):
        bundle(table, on_torch.tensor(np.array([0, 6, 0], np.int32)))

"""The CUDA text of mapped programs on the shim: exact results and no findings."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.test_programs import CASES, arguments, compare, results
from tests.poly import fused
from tests.simt import shim as simt
from tests.simt.mapped import prepared

# Every fifth program, each in one of its types, in rotation.
SAMPLE = [(c.name, c.dtypes[k % len(c.dtypes)]) for k, c in enumerate(CASES.values())]


@functools.cache
def names() -> frozenset[str]:
    return frozenset(n for n, _ in SAMPLE[::5])


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(*r, id="-".join(r), marks=() if r[0] in names() else pytest.mark.slow) for r in SAMPLE],
)
def test_mapped_programs_have_no_findings(name: str, dtype: str) -> None:
    case = CASES[name]
    reference, given, buffers = arguments(case, dtype, True)
    kernel = tc.compile(case.source.replace("{T}", dtype), "cuda", case.entry)
    result = prepared(kernel, given, buffers).run()
    assert not result.found, simt.report(result.found)
    assert not result.error[0]
    with np.errstate(all="ignore"):
        wanted = results(reference(**given, out={k: v.copy() for k, v in buffers.items()} or None))
    for got, want in zip(result.values.values(), wanted, strict=True):
        compare(case, want, got, got.dtype, got.dtype, True, "on the shim")


OPTIONS: list[dict[str, Any]] = [
    {},
    {"tile": (1, 1)},
    {"tile": (4, 8), "threads": (4, 2), "blocks": (2, 1)},
    {"tile": (7, 5), "threads": (3, 5)},
    {"use_shared_memory": False},
    {"use_private_memory": False},
    {"threads": (16, 2), "max_shared_memory": 256},
    {"fusion": "min"},
    {"intra_tile_fusion": "min", "tile": (8, 4), "threads": (4, 4)},
    {"mapping": "identity"},
]


NAMES = ["GEMM", "SOFTMAX", "MLP3", "CONV", "TRIANGLE"]
TRIED = [pytest.param(n, o, id=f"{n}-{o}") for n in NAMES for o in OPTIONS]


@pytest.mark.share(48)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(("name", "options"), TRIED)
def test_options_give_kernels_without_findings(name: str, options: dict[str, Any]) -> None:
    source = getattr(fused, name)
    sizes = {k: 3 * n for k, n in fused.SIZES[source].items() if k not in ("KH", "KW")}
    sizes |= {k: n for k, n in fused.SIZES[source].items() if k in ("KH", "KW")}
    kernel = tc.compile(source, "cuda", options=options)
    given = {
        p.name: np.random.default_rng(0).integers(-2, 3, [sizes[d.name] for d in p.dims]).astype(np.float32)
        for p in kernel.front.checked.params
    }
    result = prepared(kernel, given).run()
    assert not result.found, simt.report(result.found)
    assert not result.error[0]
    wanted = tc.interpret(source, **given)
    for got, want in zip(result.values.values(), results(wanted), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.slow
def test_large_shared_memory_is_requested_at_launch() -> None:
    """Its arrays are parts of one dynamic array, whose size the launch gives."""
    source = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    kernel = tc.compile(
        source, "cuda", options={"tile": (256, 256), "threads": (32, 32), "max_shared_memory": 99 << 10}
    )
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((258, 40), (40, 264)))
    found = prepared(kernel, {"A": a, "B": b})
    (taken,) = found.module.kernels
    assert taken.dynamic_shared == taken.shared > 48 << 10
    assert "extern __shared__" in found.module.text
    result = found.run()
    assert not result.found, simt.report(result.found)
    np.testing.assert_array_equal(result.values["C"], a @ b)

"""Operands of reductions that become temporaries on GPUs: which of them, and their results."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.program import Program
from tc.transforms.program.materialize import Operand
from tests.ir.images import SAME, TRANSPOSED
from tests.simt import shim as simt
from tests.simt.mapped import call

# Distinct names, so that kernels with all operands stored are not those of other tests.
PADDED = SAME.replace("def f(", "def padded_on_gpus(")
SHIFTED = TRANSPOSED.replace("def f(", "def transposed_on_gpus(")
SCALED = """
def scaled_on_gpus(float(M,K) A, float(K,N) B, float(K) s) -> (C) {
  C(m,n) +=! fmax(A(m,k) * s(k), 0.0) * B(k,n)
}"""
HALVES = "def halves_on_gpus(half(M,K) A, half(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
ONCE = "computed once, before they are read: "
IMAGES = {"N": 4, "C": 64, "H": 28, "W": 28, "F": 64, "KH": 3, "KW": 3}


def choice(source: str, sizes: dict[str, int], **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, "cuda", options=options).inspect("choice", **sizes)


@pytest.mark.slow
def test_an_operand_of_many_results_is_stored_and_promoted() -> None:
    text = choice(PADDED, IMAGES)
    assert f"{ONCE}O_operand" in text and re.search(r"O_operand\.\d+\[", text), text


@pytest.mark.parametrize(
    ("source", "sizes", "options"),
    [
        (PADDED, {**IMAGES, "N": 1, "C": 4, "F": 4}, {}),
        (PADDED, IMAGES, {"fusion": "min"}),
        (HALVES, {"M": 512, "K": 512, "N": 512}, {}),
    ],
    ids=["little work", "no fusion", "halves"],
)
def test_cheap_operands_are_not_stored(source: str, sizes: dict[str, int], options: dict[str, Any]) -> None:
    assert ONCE not in choice(source, sizes, **options)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Store all operands that can be stored."""

    def pays(program: Program, found: Operand) -> bool:
        return True

    monkeypatch.setattr("tc_backends.gpu.policy.store", lambda *_: pays)
    yield


SHAPES = {
    PADDED: ((2, 3, 7, 6), (5, 3, 3, 2)),
    SHIFTED: ((2, 4, 5, 6), (4, 3, 3, 2)),
    SCALED: ((9, 11), (11, 13), (11,)),
}


def given(source: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.integers(-2, 3, s).astype(np.float32) for s in SHAPES[source]]


@pytest.mark.share(24)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("source", SHAPES, ids=["padded", "transposed", "scaled"])
def test_stored_operands_give_the_results_of_the_source_on_the_shim(source: str) -> None:
    kernel = tc.compile(source, "cuda")
    arrays = given(source)
    names = [p.name for p in kernel.front.checked.params]
    assert ONCE in kernel.inspect("choice", **kernel.sizes_of(*arrays))
    values, found = call(kernel, dict(zip(names, arrays, strict=True)), {})
    assert not found, simt.report(found)
    (got,) = values.values()
    np.testing.assert_array_equal(got, np.asarray(tc.interpret(source, *arrays)))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("source", SHAPES, ids=["padded", "transposed", "scaled"])
def test_stored_operands_give_the_results_of_the_source_on_a_device(source: str) -> None:
    arrays = given(source)
    np.testing.assert_array_equal(
        np.asarray(tc.compile(source, "opencl")(*arrays)), np.asarray(tc.interpret(source, *arrays))
    )

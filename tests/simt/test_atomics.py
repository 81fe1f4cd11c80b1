"""Atomic updates of results by several blocks: they are exact in any order, and have no race."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import InternalError
from tc.ir.loops import Compute, statements
from tc.poly import trace
from tc.transforms.program.rfactor import chunked_reductions
from tests.poly.test_mapping import changed
from tests.simt import shim as simt
from tests.simt.mapped import call, prepared

TYPES = ("float", "double", "int32", "uint32", "int64", "uint64")
OPERATORS = ("+", "*", "min", "max")
ROWS = "def f(float(N,M) A) -> (S, Q) { S(i) +=! A(i,k)\n Q(i) = S(i) * 2 }"
PRODUCT = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
ATOMICS: Mapping[str, Any] = {"atomics": True}


def small(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(-3, 4, shape).astype(np.float32)


def updates(kernel: tc.Kernel, **sizes: int) -> list[Compute]:
    body = kernel.specialize(**sizes).compiled.nest.body
    return [s for s in statements(body) if isinstance(s, Compute) and s.atomic]


@pytest.mark.share(18)
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("t", TYPES)
def test_atomic_updates_of_every_type_and_operator_are_exact(t: str, op: str) -> None:
    source = f"def f({t}(N) A) -> (S) {{ S {op}=! A(i) }}"
    kernel = tc.compile(source, "cuda", options=ATOMICS)
    given = {"A": np.random.default_rng(0).integers(1, 4, 700).astype(kernel_type(t))}
    if op == "*":
        given["A"][10:] = 1
    held, found = call(kernel, given, {})
    assert not found, simt.report(found)
    np.testing.assert_array_equal(held["S"], tc.interpret(source, **given))
    assert len(updates(kernel, N=700)) == 1


def kernel_type(t: str) -> str:
    return {"float": "float32", "double": "float64"}.get(t, t)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e-44])
@pytest.mark.parametrize("op", ["min", "max", "+"])
def test_atomic_updates_propagate_special_values(op: str, special: float) -> None:
    """As in other reductions, NaN propagates and denormals are kept."""
    source = f"def f(float(N) A) -> (S) {{ S {op}=! A(i) }}"
    a = np.full(1000, 1 if op == "min" else -1 if op == "max" else 0, np.float32)
    a[777] = special
    kernel = tc.compile(source, "opencl", options=ATOMICS)
    np.testing.assert_array_equal(kernel(a), tc.interpret(source, a))


@pytest.mark.share(18)
@pytest.mark.parametrize("shape", [(1, 5000), (7, 900), (130, 257)])
@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_blocks_share_rows_by_atomic_updates(backend: str, shape: tuple[int, int]) -> None:
    a = small(np.random.default_rng(1), *shape)
    wanted = tc.interpret(ROWS, a)
    kernel = tc.compile(ROWS, backend, options=ATOMICS)
    if backend == "opencl":
        got = kernel(a)
    else:
        held, found = call(kernel, {"A": a}, {})
        assert not found, simt.report(found)
        got = held.values()
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(g, w)
    several = {"opencl": 32, "cuda": 264}[backend] > shape[0]
    assert len(updates(kernel, N=shape[0], M=shape[1])) == several


def test_chunks_are_staged_in_shared_memory() -> None:
    rng = np.random.default_rng(2)
    a, b = small(rng, 5, 3001), small(rng, 3001, 4)
    options = {**ATOMICS, "use_shared_memory": True, "tile": (4, 4, 16), "threads": (4, 4)}
    kernel = tc.compile(PRODUCT, "opencl", options=options)
    np.testing.assert_array_equal(kernel(a, b), tc.interpret(PRODUCT, a, b))
    assert updates(kernel, M=5, N=4, K=3001)


@pytest.mark.parametrize("condition", ["", " where j <= i, i in 0:5, j in 0:4", " where k <= 600 * i"])
def test_chunks_are_double_buffered(condition: str) -> None:
    """With a shorter last tile in each chunk, and with conditions."""
    source = PRODUCT.replace(" }", f"{condition} }}")
    rng = np.random.default_rng(2)
    given = {"A": small(rng, 5, 3001), "B": small(rng, 3001, 4)}
    options = {**ATOMICS, "use_shared_memory": True, "tile": (4, 4, 4), "threads": (4, 4), "isa": "sm_80"}
    kernel = tc.compile(source, "cuda", options=options)
    held, found = call(kernel, given, {})
    assert not found, simt.report(found)
    np.testing.assert_array_equal(held["C"], tc.interpret(source, **given))
    assert updates(kernel, M=5, N=4, K=3001)
    assert "a tile ahead" in kernel.inspect("mapped", M=5, N=4, K=3001)


@pytest.mark.share(4)
@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_matrix_products_with_few_blocks_are_chunked(backend: str) -> None:
    """Long reductions are split among blocks even if there are thousands of results."""
    kernel = tc.compile(PRODUCT, backend, options=ATOMICS)
    assert len(updates(kernel, M=64, N=64, K=1 << 18)) == 1
    assert not updates(kernel, M=64, N=64, K=64)
    assert not updates(tc.compile(PRODUCT, backend), M=64, N=64, K=1 << 18)
    if backend == "opencl":
        rng = np.random.default_rng(4)
        a, b = small(rng, 60, 1 << 14), small(rng, 1 << 14, 50)
        np.testing.assert_array_equal(kernel(a, b), a @ b)
        assert updates(kernel, M=60, N=50, K=1 << 14)


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_inout_values_are_updated() -> None:
    kernel = tc.compile("def f(float(N) A) -> (S) { S += A(i) }", "opencl", options=ATOMICS)
    assert kernel(np.ones(3000, np.float32), out=np.array(7, np.float32)) == 3007


def test_updates_of_bytes_use_a_second_kernel() -> None:
    kernel = tc.compile("def f(uint8(N) A) -> (S) { S max=! A(i) }", "cuda", options=ATOMICS)
    assert not updates(kernel, N=1 << 18)


def test_sums_of_halves_are_updated_in_float32() -> None:
    source = "def f(float16(N) A) -> (S) { S +=! A(i) }"
    kernel = tc.compile(source, "cuda", options=ATOMICS)
    a = np.random.default_rng(3).integers(-3, 4, 700).astype(np.float16)
    held, found = call(kernel, {"A": a}, {})
    assert not found, simt.report(found)
    np.testing.assert_array_equal(held["S"], tc.interpret(source, a))
    assert len(updates(kernel, N=700)) == 1


def test_opencl_has_no_atomic_updates_of_eight_bytes() -> None:
    source = "def f(double(N) A) -> (S) { S +=! A(i) }"
    kernel = tc.compile(source, "opencl", options=ATOMICS)
    assert not updates(kernel, N=1000)
    assert kernel(np.ones(1000)) == 1000


def test_updates_that_are_not_atomic_race() -> None:
    kernel = tc.compile("def f(float(N) A) -> (S) { S +=! A(i) }", "cuda", options=ATOMICS)
    a = np.ones(700, np.float32)
    nest = kernel.specialize(N=700).compiled.nest
    (plain,) = changed(nest.body, lambda s: replace(s, atomic=False) if getattr(s, "atomic", False) else None)
    program, _ = chunked_reductions(kernel.program({"N": 700}), 264, 256, 8)
    trace.verify(program, nest, {})
    with pytest.raises(InternalError, match="while another thread may touch it"):
        trace.verify(program, replace(nest, body=plain), {})
    made = prepared(kernel, {"A": a}, {})
    text = made.module.text.replace("tc_atomic_add_f32(&S[0], ", "(S[0] += ")
    assert text != made.module.text
    found = made.run(replace(made.module, text=text)).found
    assert any(f.kind == "race" for f in found)

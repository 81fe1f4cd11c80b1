"""Barriers are minimal: their number, that there is no race, and that without any of them there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.codegen.gpu_module import Module
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype
from tests.simt.mapped import Array, prepared
from tests.simt.shim import Kind, report

BARRIER = r"__sync(threads|warp)\(\);"


@dataclass(frozen=True)
class Case:
    """`barriers`: their number in each kernel's CUDA text."""

    source: str
    sizes: Mapping[str, int]
    barriers: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def given(self) -> dict[str, Array]:
        """Small integers other than 0, for which sums and products are exact."""
        front = tc.compile(self.source, "reference").front
        rng = np.random.default_rng(0)
        found: dict[str, Array] = {}
        for x in front.checked.params:
            assert isinstance(x, r.Tensor) and x.dims is not None
            shape = [self.sizes[d.name] for d in x.dims if isinstance(d, r.Size)]
            found[x.name] = rng.integers(1, 4, shape).astype(numpy_dtype(front.typed.dtype(x)))
        return found


def lines(*statements: str) -> str:
    return "\n".join(statements)


SCALED = "def f(float(N,K) A, float(K,M) B, float(M) s) -> (C) { C(i,j) +=! A(i,k) * B(k,j) * s(j) }"
TILED = {"tile": (16, 16, 16), "threads": (16, 4), "use_shared_memory": True}
TUCKER = lines(
    "def f(float(A,B,C) X, float(A,I) u, float(B,J) v, float(C,K) w) -> (G) {",
    "  G(i,j,k) +=! X(a,b,c) * u(a,i) * v(b,j) * w(c,k)",
    "}",
)
MIXED = lines(
    "def f(half(N,K) A, int8(K,M) B, double(M) s) -> (O) {",
    "  O(i,j) +=! double(A(i,k)) * double(B(k,j)) * s(j)",
    "}",
)
NORM = lines(
    "def f(float(B,L) w, float(B,L,D) X) -> (n, O) {",
    "  n(b) +=! w(b,l)",
    "  O(b,d) +=! w(b,l) * X(b,l,d)",
    "  O(b,d) = O(b,d) / n(b)",
    "}",
)
DIAGONAL = "def f(float(N,N) A, float(N,M) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) where k == i }"
TRIANGLE = "def f(float(N,N) A, float(N,M) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) where k <= i }"


def sums(count: int) -> str:
    """Several sums of the rows of one array."""
    names = [f"S{i}" for i in range(count)]
    return lines(
        f"def f(float(N,K) A) -> ({', '.join(names)}) {{",
        *(f"  {s}(n) +=! {i + 1} * A(n,k)" for i, s in enumerate(names)),
        "}",
    )


EXTREMA = lines(
    "def f(float(N,K) A, int32(N,K) B) -> (S, M, T) {",
    "  S(n) +=! A(n,k)",
    "  M(n) max=! B(n,k)",
    "  T(n) +=! A(n,k) * A(n,k)",
    "}",
)
COLUMNS = "def f(float(N,M) A) -> (S) { S(j) +=! A(i,j) }"
ROWS = {"N": 3, "K": 1000}

CASES = {
    # Loop-invariant copies wait for the barrier at the start of the loop over tiles.
    "a copy before a loop": Case(SCALED, {"N": 40, "K": 70, "M": 40}, (1,), TILED),
    "a copy before a loop of many tiles": Case(
        SCALED, {"N": 40, "K": 70, "M": 40}, (2,), {**TILED, "blocks": (1, 1)}
    ),
    "a product of three matrices": Case(TUCKER, {"A": 24, "B": 24, "C": 24, "I": 4, "J": 4, "K": 4}, (1,)),
    "several types": Case(MIXED, {"N": 40, "M": 66, "K": 70}, (2,), TILED),
    # A loop with a barrier is between the store and the load of the count in shared memory.
    "a count before a loop": Case(NORM, {"B": 3, "L": 50, "D": 64}, (2,), {"threads": (64,)}),
    # There is no barrier after the only tile.
    "a tile": Case(DIAGONAL, {"N": 128, "M": 128}, (1,)),
    # Partial results of several sums share barriers.
    **{f"{n} sums": Case(sums(n), ROWS, (1,), {"threads": (256,)}) for n in (1, 2, 4, 8, 15)},
    "sums of more warps than are read at once": Case(sums(9), {"N": 3, "K": 2000}, (2,), {"threads": (512,)}),
    "rows of a block in turn": Case(sums(3), ROWS, (2,), {"threads": (64,), "blocks": (1,)}),
    "sums of several types": Case(EXTREMA, ROWS, (1,), {"threads": (128,)}),
    # One thread adds the partial results of the few threads of a column.
    "columns": Case(COLUMNS, {"N": 128, "M": 4096}, (1,)),
    "a triangle": Case(TRIANGLE, {"N": 70, "M": 40}, (1,), TILED),
}


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.share(36)
@pytest.mark.parametrize("name", CASES)
def test_every_barrier_is_needed(name: str) -> None:
    case = CASES[name]
    call = prepared(tc.compile(case.source, "cuda", options=case.options), case.given())
    kernels = call.module.text.split("__global__")[1:]
    assert tuple(len(re.findall(BARRIER, k)) for k in kernels) == case.barriers
    result = call.run()
    assert not result.found, report(result.found)
    same(result.values.values(), case)
    for module in less(call.module):
        result = call.run(module)
        assert Kind.RACE in {f.kind for f in result.found}, module.text


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", CASES)
def test_as_few_barriers_are_enough_in_opencl(name: str) -> None:
    case = CASES[name]
    made = tc.compile(case.source, "opencl", options=case.options)(**case.given())
    same(made if isinstance(made, tuple) else (made,), case)


def same(values: Any, case: Case) -> None:
    wanted = tc.interpret(case.source, **case.given())
    for got, want in zip(values, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def less(module: Module) -> Iterator[Module]:
    """The modules in which one of the barriers is missing."""
    for m in re.finditer(BARRIER, module.text):
        yield replace(module, text=module.text[: m.start()] + ";" + module.text[m.end() :])

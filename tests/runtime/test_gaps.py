"""Parts and transposed arrays, which kernels do not take as they are, on the fast path of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tests.share import examples

TYPES = {
    "int8": np.int8,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "cdouble": np.complex128,
}
KERNELS: dict[tuple[str, int], Any] = {}


def identity(name: str, rank: int) -> Any:
    if (name, rank) not in KERNELS:
        dims, index = (",".join(x[:rank]) for x in ("KMN", "ijk"))
        source = f"def same({name}({dims}) x) -> (y) {{ y({index}) = x({index}) }}"
        KERNELS[name, rank] = tc.compile(source, "cpu")
    return KERNELS[name, rank]


@st.composite
def views(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any]]:
    """A part of an array with steps, in any order of dimensions, perhaps with one element for many."""
    name = draw(st.sampled_from(sorted(TYPES)))
    extents = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    a: Any = np.arange(int(np.prod(extents))).reshape(extents).astype(TYPES[name])
    steps = [draw(st.sampled_from([1, 2, -1, -3])) for _ in extents]
    a = a[tuple(slice(None, None, s) for s in steps)].transpose(draw(st.permutations(range(a.ndim))))
    if draw(st.booleans()):
        a = np.broadcast_to(a[:1], (draw(st.integers(1, 4)), *a.shape[1:]))
    return name, a


@settings(max_examples=examples(90))
@given(views())
def test_results_are_those_of_dense_arrays(drawn: tuple[str, np.ndarray[Any, Any]]) -> None:
    name, a = drawn
    kernel = identity(name, a.ndim)
    for _ in range(2):  # by the slow path, and by the fast one
        np.testing.assert_array_equal(kernel(a), a)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each call on the slow path."""
    seen: list[int] = []
    slow = tc.Kernel._miss
    monkeypatch.setattr(tc.Kernel, "_miss", lambda self, *rest: (seen.append(1), slow(self, *rest))[1])
    return seen


def test_only_the_first_call_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tc.compile("def twice(float(M,N) x) -> (y) { y(i,j) = 2 * x(i,j) }", "cpu")
    seen = counted(monkeypatch)
    for a in (np.arange(12, dtype="f4").reshape(3, 4).T, np.arange(24, dtype="f4").reshape(4, 6)[:, ::2]):
        for _ in range(3):
            np.testing.assert_array_equal(kernel(a), 2 * a)
    assert len(seen) == 1


def test_large_arrays_are_copied_by_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tc.compile("def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }", "cpu")
    seen = counted(monkeypatch)
    a = np.arange(1 << 18, dtype="f4")[::2]
    for _ in range(2):
        np.testing.assert_array_equal(kernel(a), 2 * a)
    assert len(seen) == 2


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    kernel = tc.compile(
        "def product(float(M,K) a, float(K,N) b) -> (c) { c(i,j) +=! a(i,k) * b(k,j) }", "cpu"
    )
    a, b = torch.arange(12.0).reshape(4, 3), torch.arange(30.0).reshape(6, 5)[:, 1:4]
    for _ in range(3):
        assert torch.equal(kernel(a, b.T), a @ b.T)
        assert torch.equal(kernel(a.expand(4, 3)[:, :1].expand(4, 3), b.T), a[:, :1].expand(4, 3) @ b.T)


def test_a_call_with_a_buffer_in_the_same_memory() -> None:
    kernel = tc.compile("def more(float(N) x) -> (y) { y(i) = x(i) + 1 }", "cpu")
    memory = np.zeros(12, np.float32)
    for k in range(3):
        np.testing.assert_array_equal(kernel(memory[::2]), np.full(6, k + 1))
        kernel(memory[::2], out=memory[::2])
        np.testing.assert_array_equal(memory[::2], np.full(6, k + 1))
    np.testing.assert_array_equal(memory[1::2], 0)

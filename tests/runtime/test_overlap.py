"""Shared memory, against a brute-force list of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tc.runtime.overlap import overlaps_itself, same_memory, share_memory

MEMORY = np.zeros(400, np.uint8)
Array = np.ndarray[Any, Any]


@st.composite
def views(draw: st.DrawFn) -> Array:
    """A strided view of a piece of MEMORY, of any strides that stay inside."""
    itemsize = draw(st.sampled_from([1, 2, 4]))
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 4)) for _ in range(rank))
    strides = tuple(draw(st.integers(-12, 12)) for _ in range(rank))
    start = 200 + draw(st.integers(-20, 20))
    low = sum(min(0, s) * max(0, n - 1) for n, s in zip(shape, strides))
    raw = MEMORY[start + low :]
    view = np.lib.stride_tricks.as_strided(raw[-low:][:1], shape, strides)
    return np.ndarray(shape, f"u{itemsize}", MEMORY, start, strides) if itemsize > 1 else view


def elements(a: Array) -> list[set[int]]:
    base = a.__array_interface__["data"][0]
    return [
        set(range(first, first + a.itemsize))
        for index in np.ndindex(a.shape)
        for first in [base + sum(i * s for i, s in zip(index, a.strides))]
    ]


@given(views())
def test_self_overlap(a: Array) -> None:
    cells = elements(a)
    assert overlaps_itself(a) == (sum(map(len, cells)) > len(set[int]().union(*cells)))


@given(views(), views())
def test_overlap_of_two(a: Array, b: Array) -> None:
    shared = set[int]().union(*elements(a)) & set[int]().union(*elements(b))
    assert share_memory(a, b) == bool(shared)


@given(views(), views())
def test_same_memory(a: Array, b: Array) -> None:
    same = a.shape == b.shape and a.dtype == b.dtype and elements(a) == elements(b) and a.size > 0
    assert same_memory(a, b) == same
    assert same_memory(a, a[...]) == (a.size > 0)


def test_a_question_too_hard_counts_as_overlap() -> None:
    rng = np.random.default_rng(0)
    memory = np.zeros(1 << 20, np.uint8)
    shape, strides = (9,) * 8, tuple(int(s) for s in rng.integers(1000, 12000, 8))
    a = np.ndarray(shape, np.uint8, memory, 0, strides)
    b = np.ndarray(shape, np.uint8, memory, 1, strides)
    assert isinstance(share_memory(a, b), bool)


def test_large_broadcasts_are_found_at_once() -> None:
    wide = np.broadcast_to(np.zeros((1, 3), np.float32), (1 << 40, 3))
    assert overlaps_itself(wide)
    assert not overlaps_itself(np.broadcast_to(np.zeros((1, 3), np.float32), (1, 3)))

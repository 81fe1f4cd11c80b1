"""The fast path on PyTorch tensors."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

T45: Any = ("tensor", 2, 32, (4, 5))
O45: Any = (2, 32, (4, 5), False)
Make = Callable[..., Any]


def grid(start: float = 0) -> torch.Tensor:
    return (torch.arange(20, dtype=torch.float32) + start).reshape(4, 5)


def dispatched(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    result = kernel(*args, **kwargs)
    assert kernel.missed == []
    return result


def misses(kernel: Any, *args: Any, **kwargs: Any) -> None:
    assert isinstance(kernel(*args, **kwargs), str)
    assert len(kernel.missed) == 1
    kernel.missed.clear()


def test_result_is_a_new_tensor(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    out = dispatched(kernel, grid(), grid(1), grid(2))
    assert type(out) is torch.Tensor
    assert out.dtype == torch.float32
    assert out.is_contiguous()
    assert not out.requires_grad
    assert torch.equal(out, 3 * grid() + 3)


def test_out(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    buffer = torch.empty(4, 5)
    assert dispatched(kernel, grid(), grid(), grid(), out=buffer) is buffer
    assert torch.equal(buffer, 3 * grid())
    pair = make("twice", outputs=[O45, O45])
    second = torch.empty(4, 5)
    out = dispatched(pair, grid(), out=(buffer, second))
    assert out[0] is buffer
    assert out[1] is second
    assert torch.equal(second, grid() ** 2)


def test_libraries_do_not_mix(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    misses(kernel, grid(), grid().numpy(), grid())
    misses(kernel, grid(), grid(), grid(), out=np.zeros((4, 5), np.float32))
    misses(kernel, *[grid().numpy()] * 3, out=grid())


@pytest.mark.parametrize("a", [torch.arange(40.0).view(4, 10)[:, ::2], torch.ones(1).expand(4, 5)])
def test_small_tensors_with_gaps_are_copied(make: Make, a: torch.Tensor) -> None:
    kernel = make("add3", [T45] * 3)
    assert torch.equal(dispatched(kernel, grid(), a, grid()), 2 * grid() + a)
    misses(kernel, grid(), a, grid(), out=grid())


@pytest.mark.parametrize(
    "bad",
    [
        grid().double(),
        grid().t(),
        grid().t().contiguous(),
        grid().to_sparse(),
        grid().to(torch.complex64),
        torch._neg_view(grid()),
        torch.zeros(4, 5, device="meta"),
    ],
    ids=lambda t: f"{t.dtype}-{t.layout}-{t.device}-{t.is_neg()}",
)
def test_tensors_left_to_the_slow_path(make: Make, bad: torch.Tensor) -> None:
    kernel = make("add3", [T45] * 3)
    misses(kernel, grid(), bad, grid())
    misses(kernel, grid(), grid(), grid(), out=bad)


def test_subclasses_are_left_to_the_slow_path(make: Make) -> None:
    class Mine(torch.Tensor):
        pass

    kernel = make("add3", [T45] * 3)
    misses(kernel, grid(), grid().as_subclass(Mine), grid())


def test_gradients(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    leaf = grid().requires_grad_()
    weight = torch.nn.Parameter(grid())
    misses(kernel, grid(), leaf, grid())
    misses(kernel, grid(), weight, grid())
    misses(kernel, grid(), grid(), grid(), out=leaf)
    with torch.no_grad():
        assert torch.equal(dispatched(kernel, grid(), leaf, weight), 3 * grid())
    with torch.inference_mode():
        out = dispatched(kernel, grid(), leaf, weight)
        assert torch.equal(out, 3 * grid())
        dispatched(kernel, grid(), leaf, weight, out=out)
    assert torch.equal(dispatched(kernel, grid(), leaf.detach(), grid()), 3 * grid())


def test_autograd_notices_that_a_buffer_changed(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    leaf = torch.ones(4, 5, requires_grad=True)
    saved = grid().clone()
    loss = (leaf * saved).sum()
    dispatched(kernel, grid(), grid(), grid(), out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_tensors_without_memory_are_left_to_the_slow_path(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    assert kernel(grid(), grid(), grid()) is not None

    def inside(x: torch.Tensor) -> torch.Tensor:
        misses(kernel, x, x, x)
        return x

    torch.func.vmap(inside)(torch.zeros(2, 4, 5))


def test_overlaps_are_left_to_the_slow_path(make: Make) -> None:
    memory = torch.zeros(60)
    kernel = make("add3", [T45] * 3)
    a = memory[10:30].reshape(4, 5)
    misses(kernel, grid(), a, grid(), out=memory[29:49].reshape(4, 5))
    misses(kernel, grid(), a, grid(), out=a)
    dispatched(kernel, grid(), a, grid(), out=memory[30:50].reshape(4, 5))


def test_offsets_into_a_storage_count(make: Make) -> None:
    memory = torch.arange(30, dtype=torch.float32)
    kernel = make("accumulate", outputs=[(2, 32, (4, 5), True)])
    out = dispatched(kernel, memory[7:27].reshape(4, 5), out=torch.zeros(4, 5))
    assert torch.equal(out.flatten(), memory[7:27])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_every_element_type(make: Make, dtype: str) -> None:
    t: torch.dtype = getattr(torch, dtype)
    code = (
        6
        if dtype == "bool"
        else 4
        if t == torch.bfloat16
        else 2
        if t.is_floating_point
        else int(dtype[0] == "u")
    )
    kind = (code, t.itemsize * 8)
    count = 40 // t.itemsize
    kernel = make("bytes40", [("tensor", *kind, (count,))], [(*kind, (count,), False)])
    data = torch.ones(count, dtype=t)
    out = dispatched(kernel, data)
    assert out.dtype == t
    assert torch.equal(out, data)


def test_zero_size_and_zero_dimensions(make: Make) -> None:
    kernel = make("nothing", [("tensor", 2, 32, (0, 5))], [(2, 32, (0,), False)])
    assert dispatched(kernel, torch.zeros(0, 5)).shape == (0,)
    kernel = make("nothing", [("tensor", 2, 32, ())], [(2, 32, (), False)])
    assert dispatched(kernel, torch.zeros(())).shape == ()


def test_impossible_allocation_raises(make: Make) -> None:
    kernel = make("nothing", outputs=[(2, 32, (1 << 50,), False)])
    with pytest.raises((MemoryError, RuntimeError)):
        kernel(grid())


def test_no_references_leak(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    failing = make("fails")
    a, buffer, leaf = grid(), grid(), grid().requires_grad_()
    tracked = [a, buffer, leaf, torch.Tensor, kernel]

    def everything() -> None:
        kernel(a, a, a)
        kernel(a, a, a, out=buffer)
        kernel(a, a, leaf)
        kernel(a, a, a.numpy())
        kernel.missed.clear()
        try:
            failing(a)
        except IndexError:
            pass
        else:
            raise AssertionError

    everything()
    gc.collect()
    before = [sys.getrefcount(o) for o in tracked]
    blocks = sys.getallocatedblocks()
    for _ in range(300):
        everything()
    gc.collect()
    assert [sys.getrefcount(o) for o in tracked] == before
    assert sys.getallocatedblocks() - blocks < 200

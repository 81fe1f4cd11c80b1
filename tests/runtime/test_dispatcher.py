"""The fast path on NumPy arrays: what it takes, what it leaves to `_miss`, and that nothing leaks."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tc import _native

T45: Any = ("tensor", 2, 32, (4, 5))
O45: Any = (2, 32, (4, 5), False)
Pair = namedtuple("Pair", ["first", "second"])
Make = Callable[..., Any]
Address = Callable[[str], int]
Empty = Callable[[], Any]


def grid(start: float = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (np.arange(20) + start).astype(dtype).reshape(4, 5)


def dispatched(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a call that must not miss."""
    result = kernel(*args, **kwargs)
    assert kernel.missed == []
    return result


def misses(kernel: Any, *args: Any, **kwargs: Any) -> None:
    assert kernel(*args, **kwargs) == "missed"
    ((seen, named),) = kernel.missed
    kernel.missed.clear()
    assert len(seen) == len(args)
    assert all(a is b for a, b in zip(seen, args))
    assert list(named) == list(kwargs)
    assert all(named[k] is kwargs[k] for k in kwargs)


def test_result_is_a_new_array(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    a, b, c = grid(), grid(1), grid(2)
    out = dispatched(kernel, a, b, c)
    assert type(out) is np.ndarray
    assert out.dtype == np.float32
    assert out.flags.c_contiguous
    assert out.flags.writeable
    np.testing.assert_array_equal(out, a + b + c)


def test_out_is_filled_and_returned(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    buffer = np.full((4, 5), np.nan, np.float32)
    assert dispatched(kernel, grid(), grid(), grid(), out=buffer) is buffer
    np.testing.assert_array_equal(buffer, 3 * grid())
    assert dispatched(kernel, grid(), grid(), grid(1), out=(buffer,)) is buffer
    np.testing.assert_array_equal(buffer, 3 * grid() + 1)


def test_out_none_means_no_buffer(make: Make) -> None:
    np.testing.assert_array_equal(
        dispatched(make("add3", [T45] * 3), grid(), grid(), grid(), out=None), 3 * grid()
    )


def test_several_results(make: Make) -> None:
    for result_type, expected in [(None, tuple), (Pair, Pair), (lambda a, b: [a, b], list)]:
        kernel = make("twice", outputs=[O45, O45], result_type=result_type)
        out = dispatched(kernel, grid())
        assert type(out) is expected
        np.testing.assert_array_equal(out[0], 2 * grid())
        np.testing.assert_array_equal(out[1], grid() ** 2)
    buffers = np.zeros((4, 5), np.float32), np.zeros((4, 5), np.float32)
    kernel = make("twice", outputs=[O45, O45], result_type=Pair)
    out = dispatched(kernel, grid(), out=buffers)
    assert isinstance(out, Pair)
    assert out.first is buffers[0]
    assert out.second is buffers[1]


def test_result_type_that_raises(make: Make) -> None:
    def refuse(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make("twice", outputs=[O45, O45], result_type=refuse)(grid())


def unaligned() -> np.ndarray[Any, Any]:
    return np.zeros(81, np.uint8)[1:].view(np.float32).reshape(4, 5)


@pytest.mark.parametrize(
    "a",
    [
        grid()[:, ::-1],
        np.asfortranarray(grid()),
        np.arange(40, dtype=np.float32).reshape(4, 10)[:, ::2],
        np.broadcast_to(np.float32(1), (4, 5)),
        unaligned(),
    ],
    ids=["backwards", "columns", "every other", "one element", "unaligned"],
)
def test_small_arrays_with_gaps_are_copied(make: Make, a: Any) -> None:
    """With buffers they are left to the slow path, which looks for overlaps."""
    kernel = make("add3", [T45] * 3)
    np.testing.assert_array_equal(dispatched(kernel, grid(), a, grid()), 2 * grid() + a)
    misses(kernel, grid(), a, grid(), out=grid())
    misses(kernel, grid(), grid(), grid(), out=a)
    misses(kernel, grid(), grid(), grid(), out=(a,))


@pytest.mark.parametrize(
    "bad",
    [
        grid(dtype=np.float64),
        grid().astype(">f4"),
        np.zeros((5, 4), np.float32),
        np.zeros(20, np.float32),
        np.ma.masked_array(grid()),
        grid().view(np.recarray),
        grid().astype("M8[s]"),
        grid().astype(object),
        grid().tolist(),
        memoryview(grid()),
        1.0,
    ],
    ids=lambda a: f"{type(a).__name__}-{getattr(a, 'dtype', '')}-{getattr(a, 'strides', '')}",
)
def test_inputs_left_to_the_slow_path(make: Make, bad: Any) -> None:
    kernel = make("add3", [T45] * 3)
    misses(kernel, grid(), bad, grid())
    misses(kernel, grid(), grid(), grid(), out=bad)
    misses(kernel, grid(), grid(), grid(), out=(bad,))


def test_forms_of_calls_left_to_the_slow_path(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    a = grid()
    misses(kernel)
    misses(kernel, a, a)
    misses(kernel, a, a, None)
    misses(kernel, a, a, a, a)
    misses(kernel, a, a, c=a)
    misses(kernel, a, a, a, o=grid())
    misses(kernel, a, a, a, out=grid(), extra=1)
    misses(kernel, a, a, a, out={"o": grid()})
    misses(kernel, a, a, a, out=[grid()])
    misses(kernel, a, a, a, out=())
    misses(kernel, a, a, a, out=(grid(), grid()))
    pair = make("twice", outputs=[O45, O45])
    misses(pair, a, out=grid())
    misses(pair, a, out=(grid(), None))


def test_kwargs_of_a_miss_are_the_kernels_own(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    given = {"b": 1}
    type(kernel).__call__(kernel, 1, **given)
    kernel.missed[0][1]["c"] = 2
    assert given == {"b": 1}


def test_read_only_buffer_is_not_written(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    buffer = np.zeros((4, 5), np.float32)
    buffer.flags.writeable = False
    misses(kernel, grid(), grid(), grid(), out=buffer)
    assert not buffer.any()


def test_read_only_inputs_are_fine(make: Make) -> None:
    a = grid()
    a.flags.writeable = False
    np.testing.assert_array_equal(dispatched(make("add3", [T45] * 3), a, a, a), 3 * a)


def test_strides_of_single_elements_do_not_count(address: Address, empty: Empty) -> None:
    shape = (1, 4, 1, 5)
    kernel = empty()
    kernel._add(_native.Entry(address("accumulate"), [("tensor", 2, 32, shape)], [(2, 32, shape, False)]))
    odd = np.lib.stride_tricks.as_strided(grid(), shape, (999, 20, -4, 4))
    buffer = np.zeros(shape, np.float32)
    kernel(odd, out=buffer)
    assert kernel.missed == []
    np.testing.assert_array_equal(buffer, odd)


def test_overlaps_are_left_to_the_slow_path(make: Make) -> None:
    memory = np.zeros(60, np.float32)
    kernel = make("add3", [T45] * 3)
    a = memory[10:30].reshape(4, 5)
    for start in (0, 10, 29):
        misses(kernel, grid(), a, grid(), out=memory[start : start + 20].reshape(4, 5))
    assert not memory.any()
    dispatched(kernel, grid(), a, grid(), out=memory[30:50].reshape(4, 5))
    pair = make("twice", outputs=[O45, O45])
    same = np.zeros((4, 5), np.float32)
    misses(pair, grid(), out=(same, same))
    misses(pair, grid(), out=(memory[:20].reshape(4, 5), memory[19:39].reshape(4, 5)))


def test_inout_needs_a_buffer(make: Make) -> None:
    kernel = make("accumulate", outputs=[(2, 32, (4, 5), True)])
    misses(kernel, grid())
    buffer = grid(100)
    assert dispatched(kernel, grid(), out=buffer) is buffer
    np.testing.assert_array_equal(buffer, 2 * grid() + 100)


def test_zero_size_tensors(make: Make) -> None:
    spec = ("tensor", 2, 32, (0, 5))
    kernel = make("nothing", [spec], [(2, 32, (3, 0), False)])
    empty = np.zeros((0, 5), np.float32)
    assert dispatched(kernel, empty).shape == (3, 0)
    assert dispatched(kernel, np.zeros((4, 5), np.float32)[4:]).shape == (3, 0)
    buffer = np.zeros((3, 0), np.float32)
    assert dispatched(kernel, empty, out=buffer) is buffer


def test_zero_dimensional_tensors(make: Make) -> None:
    kernel = make("nothing", [("tensor", 2, 32, ())], [(2, 32, (), False)])
    assert dispatched(kernel, np.zeros((), np.float32)).shape == ()
    misses(kernel, np.float32(1))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64"]
)
def test_every_element_type(make: Make, dtype: str) -> None:
    codes = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}
    d = np.dtype(dtype)
    kind = (codes[d.kind], d.itemsize * 8)
    count = 40 // d.itemsize
    kernel = make("bytes40", [("tensor", *kind, (count,))], [(*kind, (count,), False)])
    data = np.ones(count, d)
    out = dispatched(kernel, data)
    assert out.dtype == d
    np.testing.assert_array_equal(out, data)
    misses(kernel, np.ones(count, np.clongdouble))


def test_longlong_is_int64(make: Make) -> None:
    kernel = make("bytes40", [("tensor", 0, 64, (5,))], [(0, 64, (5,), False)])
    np.testing.assert_array_equal(dispatched(kernel, np.arange(5, dtype=np.longlong)), np.arange(5))


def test_bfloat16(make: Make) -> None:
    kernel = make("bytes40", [("tensor", 4, 16, (20,))], [(4, 16, (20,), False)])
    data = np.arange(20).astype(ml_dtypes.bfloat16)
    out = dispatched(kernel, data)
    assert out.dtype == np.dtype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(out.astype(np.float32), np.arange(20))
    misses(kernel, np.zeros(20, np.uint16))
    misses(kernel, np.zeros(20, np.float16))
    misses(kernel, np.zeros(20, ml_dtypes.float8_e4m3).repeat(2))


def test_entries_are_tried_last_used_first(address: Address, empty: Empty) -> None:
    kernel = empty()
    entries = []
    for n in range(70):
        spec = ("tensor", 2, 32, (n + 1,))
        entries.append(_native.Entry(address("nothing"), [spec], [(2, 32, (1,), False)]))
        kernel._add(entries[-1])
    assert kernel._entries() == tuple(reversed(entries[6:]))
    kernel(np.zeros(7, np.float32))
    assert kernel._entries()[0] is entries[6]
    assert kernel._entries()[1:3] == (entries[69], entries[68])
    assert kernel(np.zeros(6, np.float32)) == "missed"
    kernel._clear()
    assert kernel._entries() == ()
    assert kernel(np.zeros(7, np.float32)) == "missed"


def test_failure_reaches_python_with_owner_and_record(make: Make) -> None:
    owner = object()
    kernel = make("fails", owner=owner)
    for _ in range(3):  # the record is zeroed for each call
        with pytest.raises(IndexError) as caught:
            kernel(grid())
        assert caught.value.args == (owner, (2, -7, (4, 5), 1))
    silent = make("fails_silently")
    with pytest.raises(IndexError) as caught:
        silent(grid())
    assert caught.value.args == (None, (-1, 0, (), 0))


def test_failed_must_raise(address: Address) -> None:
    class Quiet(_native.Dispatcher):
        def _failed(self, owner: Any, error: Any, /) -> None:
            return None

    kernel = Quiet()
    kernel._add(_native.Entry(address("fails"), [T45], [O45]))
    with pytest.raises(SystemError, match="_failed"):
        kernel(grid())


def test_exception_of_miss_propagates() -> None:
    class Angry(_native.Dispatcher):
        def _miss(self, args: Any, kwargs: Any, /) -> None:
            raise KeyError(args)

    with pytest.raises(KeyError):
        Angry()(1)
    with pytest.raises(AttributeError, match="_miss"):
        _native.Dispatcher()()


def test_run_on_addresses(address: Address) -> None:
    entry = _native.Entry(address("add3"), [T45] * 3, [O45], owner="me", workspace=128)
    arrays = [grid(), grid(1), grid(2), np.zeros((4, 5), np.float32)]
    assert entry.run([a.ctypes.data for a in arrays]) == (0, None)
    np.testing.assert_array_equal(arrays[3], arrays[0] + arrays[1] + arrays[2])
    assert (entry.owner, entry.workspace, entry.address) == ("me", 128, address("add3"))
    failing = _native.Entry(address("fails"), [T45], [O45])
    assert failing.run((0, 0)) == (1, (2, -7, (4, 5), 1))
    with pytest.raises(ValueError, match="expected 2 addresses"):
        failing.run([1])
    with pytest.raises(TypeError):
        failing.run(["a", "b"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("inputs", "outputs", "options"),
    [
        ([("tensor", 2, 31, (1,))], [O45], {}),
        ([("tensor", 5, 32, (1,))], [O45], {}),
        ([("tensor", 2, 32, (-1,))], [O45], {}),
        ([("tensor", 2, 32, [1])], [O45], {}),
        ([("tensor", 2, 32, (2**40, 2**40))], [O45], {}),
        ([("vector", 2, 32, (1,))], [O45], {}),
        ([("scalar", 0, 8, 300)], [O45], {}),
        ([("scalar", 0, 32)], [O45], {}),
        ([T45], [], {}),
        ([T45], [(2, 32, (1,))], {}),
        ([T45], [O45], {"workspace": -1}),
        ([T45], [O45], {"sizes": [-1]}),
        ([T45], [O45], {"sizes": ["a"]}),
        ([T45], [O45], {"sizes": 3}),
        ([T45], [O45], {"result_type": 3}),
        (3, [O45], {}),
    ],
)
def test_entry_rejects_nonsense(
    address: Address, inputs: Any, outputs: Any, options: Any, empty: Empty
) -> None:
    with pytest.raises((ValueError, TypeError)):
        _native.Entry(address("nothing"), inputs, outputs, **options)
    with pytest.raises(ValueError, match="not 0"):
        _native.Entry(0, [T45], [O45])
    with pytest.raises(TypeError):
        empty()._add("entry")


def test_entries_of_many_sizes_share_a_kernel(address: Address, empty: Empty) -> None:
    kernel = empty()
    kernel._keep(100)
    for n in range(150):
        kernel._add(
            _native.Entry(
                address("sized"), [("tensor", 0, 64, (n,))], [(0, 64, (n,), False)], n, sizes=[n, 10 * n]
            )
        )
    assert len(kernel._entries()) == 100
    for n in (149, 50, 99):
        x = np.arange(n)
        np.testing.assert_array_equal(dispatched(kernel, x), x * 10 * n)
    misses(kernel, np.arange(49))
    kernel._keep(3)
    assert [e.workspace for e in kernel._entries()] == [99, 50, 149]
    with pytest.raises(ValueError, match="at least one"):
        kernel._keep(0)
    with pytest.raises(TypeError):
        kernel._keep("3")


def test_entries_that_differ_in_sizes_alone_are_two(address: Address, empty: Empty) -> None:
    kernel = empty()
    for scale in (2, 3, 2):
        kernel._add(
            _native.Entry(
                address("sized"), [("tensor", 0, 64, (4,))], [(0, 64, (4,), False)], sizes=(4, scale)
            )
        )
    assert len(kernel._entries()) == 2
    assert dispatched(kernel, np.arange(4)).tolist() == [0, 2, 4, 6]

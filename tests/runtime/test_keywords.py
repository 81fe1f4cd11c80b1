"""Keywords and dictionaries of buffers on the fast path: what they mean, what is left to `_miss`."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tc import _native
from tc.errors import ArgumentError

T45: Any = ("tensor", 2, 32, (4, 5))
O45: Any = (2, 32, (4, 5), False)
Make = Callable[..., Any]
Address = Callable[[str], int]
Empty = Callable[[], Any]
Pair = namedtuple("Pair", ["y", "z"])


class Text(str):
    """Equal to the strings, and not one for the fast path."""


def grid(start: float = 0) -> np.ndarray[Any, Any]:
    return (np.arange(20) + start).astype(np.float32).reshape(4, 5)


def built(name: str) -> str:
    """An equal string that is another object, as names from files are."""
    return "".join([*name])


@pytest.fixture
def add3(make: Make) -> Any:
    return make("add3", [T45] * 3, parameters=("A", "B", "Γ"), results=["o"])


@pytest.fixture
def twice(make: Make) -> Any:
    return make("twice", outputs=[O45, O45], result_type=Pair, parameters=["x"], results=["y", "z"])


@pytest.fixture
def scale(make: Make) -> Any:
    return make("scale", [("scalar", 2, 32, None), T45], parameters=["s", "x"], results=["o"])


def runs(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    result = kernel(*args, **kwargs)
    assert kernel.missed == []
    return result


def misses(kernel: Any, *args: Any, **kwargs: Any) -> None:
    assert kernel(*args, **kwargs) == "missed"
    ((seen, named),) = kernel.missed
    kernel.missed.clear()
    assert len(seen) == len(args)
    assert all(a is b for a, b in zip(seen, args))
    assert list(named.items()) == list(kwargs.items())


# ---- arguments by name


def test_every_split_and_order(add3: Any) -> None:
    a, b, c = grid(), grid(100), grid(5)
    a[0], b[1], c[2] = 3, 7, 11
    expected = a + b + c
    for call in (
        lambda **out: add3(a, b, c, **out),
        lambda **out: add3(a, b, Γ=c, **out),
        lambda **out: add3(a, B=b, Γ=c, **out),
        lambda **out: add3(a, Γ=c, **out, B=b),
        lambda **out: add3(A=a, B=b, Γ=c, **out),
        lambda **out: add3(**out, Γ=c, A=a, B=b),
    ):
        np.testing.assert_array_equal(call(), expected)
        np.testing.assert_array_equal(call(out=None), expected)
        for wrap in (lambda o: o, lambda o: (o,), lambda o: {"o": o}):
            buffer = np.zeros((4, 5), np.float32)
            assert call(out=wrap(buffer)) is buffer
            np.testing.assert_array_equal(buffer, expected)
    assert add3.missed == []


def test_each_value_goes_to_its_parameter(scale: Any) -> None:
    for call in (scale(2.5, x=grid()), scale(s=2.5, x=grid()), scale(x=grid(), s=2.5)):
        np.testing.assert_array_equal(call, grid() * np.float32(2.5))
    assert scale.missed == []
    misses(scale, x=2.5, s=grid())
    misses(scale, s="2", x=grid())


def test_names_are_compared_by_value(add3: Any) -> None:
    given = {built("A"): grid(), built("B"): grid(), built("Γ"): grid(), built("out"): grid(9)}
    for name in given:
        assert name not in ("A", "B", "out") or name is not sys.intern(name) or len(name) == 1
    assert runs(add3, **given) is given["out"]
    assert runs(add3, grid(), **{built("Γ"): grid(), "B": grid()}) is not None


def test_through_the_type_and_partial(add3: Any) -> None:
    a = grid()
    np.testing.assert_array_equal(type(add3).__call__(add3, a, B=a, Γ=a), 3 * a)
    np.testing.assert_array_equal(_native.Dispatcher.__call__(add3, A=a, B=a, Γ=a, out=None), 3 * a)
    np.testing.assert_array_equal(partial(add3, Γ=a)(a, B=a), 3 * a)
    np.testing.assert_array_equal(partial(add3, a, Γ=grid(4))(B=a, Γ=a), 3 * a)
    assert add3.missed == []


def test_forms_left_to_the_slow_path(add3: Any) -> None:
    a = grid()
    misses(add3, a, a, A=a)  # doubled, and one missing
    misses(add3, a, a, a, A=a)
    misses(add3, a, a, B=a, Γ=a)
    misses(add3, a, a, a, out=grid(1), Γ=a)
    misses(add3, A=a)
    misses(add3, a, B=a)
    misses(add3, A=a, B=a, out=grid(1))
    misses(add3, a, a, c=a)
    misses(add3, A=a, B=a, C=a)
    misses(add3, A=a, B=a, Γ=a, D=a)
    misses(add3, a, a, a, a, out=grid(1), A=a)
    misses(add3, A=a, B=a, Γ=None)
    misses(add3, A=a, B=a, Γ=grid()[1:])
    misses(add3, A=a, B=a, Γ=a, out=a)
    misses(add3, a, B=a, **{Text("Γ"): a})
    misses(add3, a, a, a, **{Text("out"): grid(1)})
    misses(add3, a, a, a, **{"": a})


def test_str_subclass_never_doubles_a_name(add3: Any) -> None:
    class Other(str):
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            return self is other

    a = grid()
    misses(add3, a, a, **{"Γ": a, Other("Γ"): a})
    misses(add3, a, a, **{Other("Γ"): a})


def test_keys_that_are_no_strings(add3: Any) -> None:
    bad: Any = {1: grid()}
    for call in (add3, partial(type(add3).__call__, add3)):
        with pytest.raises(TypeError, match="keywords must be strings"):
            call(**bad)


def test_entries_without_names_miss(make: Make) -> None:
    kernel = make("add3", [T45] * 3)
    misses(kernel, grid(), grid(), c=grid())
    misses(kernel, grid(), grid(), grid(), out={"o": grid(1)})


def test_parameter_called_out_goes_by_position(make: Make) -> None:
    kernel = make("scale", [("scalar", 2, 32, None), T45], parameters=["s", "out"], results=["o"])
    a, buffer = grid(), grid(1)
    np.testing.assert_array_equal(runs(kernel, 3, a), 3 * a)
    assert runs(kernel, 3, a, out=buffer) is buffer
    misses(kernel, 3, out=a)
    misses(kernel, s=3, out=a)


def test_no_parameters(make: Make) -> None:
    kernel = make("nothing", [], parameters=[], results=["o"])
    assert runs(kernel).shape == (4, 5)
    assert runs(kernel, out={"o": grid()}).shape == (4, 5)
    misses(kernel, A=1)
    misses(kernel, A=1, out=grid())


def test_many_parameters(make: Make) -> None:
    names = [f"p{k}" for k in range(40)]
    kernel = make("nothing", [T45] * 40, parameters=names, results=["o"])
    arrays = [grid(k) for k in range(40)]
    assert runs(kernel, **dict(zip(reversed(names), arrays))).shape == (4, 5)
    assert runs(kernel, *arrays[:20], **dict(zip(names[20:], arrays[20:])), out=grid()).shape == (4, 5)
    misses(kernel, *arrays[:20], **dict(zip(names[19:], arrays[19:])))


def test_torch(add3: Any) -> None:
    torch = pytest.importorskip("torch")
    a, buffer = torch.from_numpy(grid()), torch.zeros(4, 5)
    assert torch.equal(runs(add3, A=a, B=a, Γ=a), 3 * a)
    version = buffer._version
    assert runs(add3, a, Γ=a, B=a, out={"o": buffer}) is buffer
    assert torch.equal(buffer, 3 * a)
    assert buffer._version == version + 1
    misses(add3, A=a, B=grid(), Γ=a)


# ---- buffers in a dictionary


def test_dictionary_of_every_result(twice: Any) -> None:
    y, z = grid(50), grid(60)
    for out in ({"y": y, "z": z}, {"z": z, "y": y}, {built("z"): z, built("y"): y}):
        y[:] = z[:] = -1
        made = runs(twice, x=grid(), out=out)
        assert type(made) is Pair
        assert made.y is y
        assert made.z is z
        np.testing.assert_array_equal(y, 2 * grid())
        np.testing.assert_array_equal(z, grid() ** 2)
    made = runs(twice, x=grid(1), out=made)
    assert made.y is y


def test_dictionaries_left_to_the_slow_path(twice: Any) -> None:
    y, z = grid(50), grid(60)
    kept = y.copy()
    for out in (
        {},
        {"y": y},
        {"y": y, "w": z},
        {"y": y, "z": None},
        {"y": y, "z": y},
        {"y": y, "z": z, "w": z},
        {"y": y, Text("z"): z},
        {"y": y, 1: z},
        OrderedDict(y=y, z=z),
        [y, z],
    ):
        misses(twice, x=grid(), out=out)
        misses(twice, grid(), out=out)
    np.testing.assert_array_equal(y, kept)


def test_inout_buffer_in_a_dictionary(make: Make) -> None:
    kernel = make("accumulate", outputs=[(2, 32, (4, 5), True)], parameters=["x"], results=["o"])
    misses(kernel, x=grid())
    misses(kernel, x=grid(), out={})
    buffer = grid(100)
    assert runs(kernel, x=grid(), out={"o": buffer}) is buffer
    np.testing.assert_array_equal(buffer, 2 * grid() + 100)


# ---- the names themselves


@pytest.mark.parametrize(
    ("parameters", "results"),
    [
        (["A"], None),
        (None, ["o"]),
        (["A", "B"], ["o"]),
        ([], ["o"]),
        (["A"], []),
        (["A"], ["o", "p"]),
        ([1], ["o"]),
        ([Text("A")], ["o"]),
        (3, ["o"]),
    ],
)
def test_names_that_do_not_fit(address: Address, parameters: Any, results: Any) -> None:
    for _ in range(3):
        with pytest.raises((ValueError, TypeError)):
            _native.Entry(address("nothing"), [T45], [O45], parameters=parameters, results=results)
    with pytest.raises(ValueError, match="a different name"):
        _native.Entry(address("nothing"), [T45] * 2, [O45], parameters=["A", built("A")], results=["o"])


def test_all_entries_of_a_dispatcher_have_one_set_of_names(address: Address, add3: Any) -> None:
    def entry(parameters: Any, results: Any) -> _native.Entry:
        inputs: Any = [("tensor", 2, 32, (3,))] * 3
        return _native.Entry(address("nothing"), inputs, [O45], parameters=parameters, results=results)

    for bad in (entry(["A", "B", "C"], ["o"]), entry(["A", "B", "Γ"], ["p"])):
        with pytest.raises(ValueError, match="differ"):
            add3._add(bad)
    assert len(add3._entries()) == 1
    add3._add(entry(None, None))
    add3._add(entry([built("A"), built("B"), built("Γ")], ("o",)))
    assert runs(add3, A=np.zeros(3, np.float32), B=np.zeros(3, np.float32), Γ=np.zeros(3, np.float32)).any
    np.testing.assert_array_equal(runs(add3, A=grid(), B=grid(), Γ=grid()), 3 * grid())
    add3._clear()
    misses(add3, A=grid(), B=grid(), Γ=grid())


def test_the_same_entry_is_kept_once(address: Address, empty: Empty) -> None:
    def entry(n: int, **options: Any) -> _native.Entry:
        names: Any = {"parameters": ["A"], "results": ["o"]}
        return _native.Entry(address("nothing"), [("tensor", 2, 32, (n,))], [O45], **names, **options)

    kernel = empty()
    first, second = entry(1), entry(2)
    for e in (first, second, entry(1), entry(2), entry(1)):
        kernel._add(e)
    assert kernel._entries() == (first, second)
    owner = [1]
    kernel._add(entry(1, owner=owner))
    kernel._add(entry(1, owner=[1]))
    kernel._add(entry(1, owner=owner, workspace=8))
    assert len(kernel._entries()) == 5
    assert kernel(A=np.zeros(2, np.float32)).shape == (4, 5)


# ---- classes with a `__call__` of their own


def test_a_subclass_with_its_own_call(address: Address) -> None:
    class Loud(_native.Dispatcher):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return "loud", super().__call__(*args, **kwargs)

        def _miss(self, args: Any, kwargs: Any, /) -> Any:
            return args, kwargs

    kernel = Loud()
    kernel._add(_native.Entry(address("add3"), [T45] * 3, [O45], parameters="ABC", results="o"))
    said, made = kernel(grid(), B=grid(), C=grid())
    assert said == "loud"
    np.testing.assert_array_equal(made, 3 * grid())
    assert kernel(1, B=2) == ("loud", ((1,), {"B": 2}))


def test_a_call_set_later_is_obeyed(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(_native.Dispatcher):
        pass

    kernel = Plain()
    kernel._add(_native.Entry(address("add3"), [T45] * 3, [O45], parameters="ABC", results="o"))
    np.testing.assert_array_equal(kernel(grid(), B=grid(), C=grid()), 3 * grid())
    with monkeypatch.context() as patch:
        patch.setattr(Plain, "__call__", lambda self, *args, **kwargs: (args, kwargs), raising=False)
        assert kernel(1, B=2) == ((1,), {"B": 2})
        assert Plain()(1) == ((1,), {})
    np.testing.assert_array_equal(kernel(grid(), B=grid(), C=grid()), 3 * grid())


# ---- memory


def test_nothing_leaks(add3: Any, twice: Any) -> None:
    a, b, buffer, other = grid(), grid(1), grid(2), grid(3)
    names, out = {built("out"): buffer, built("Γ"): a}, {"o": buffer}
    text = Text("Γ")

    def calls() -> None:
        add3(A=a, B=b, Γ=a, out=buffer)
        add3(a, B=b, Γ=a)
        add3(a, b, **names)
        add3(a, b, a, out=out)
        type(add3).__call__(add3, a, b, Γ=a, out=out)
        twice(x=a, out={"z": buffer, "y": other})
        for bad in (
            lambda: add3(a, b, A=a),
            lambda: add3(A=a, B=b),
            lambda: add3(a, b, **{text: a}),
            lambda: add3(A=a, B=b, Γ=a, out={"p": buffer}),
            lambda: add3(A=a, B=b, Γ=a, out={"o": buffer, "p": a}),
            lambda: twice(x=a, out={"y": buffer, text: a}),
            lambda: twice(x=a, out={"y": buffer, "z": buffer}),
            lambda: type(add3).__call__(add3, a, b, D=a),
        ):
            bad()
        add3.missed.clear()
        twice.missed.clear()

    watched = (a, b, buffer, other, text, names, out, add3, twice, *names, *add3._entries())
    calls()
    gc.collect()
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(500):
        calls()
    assert [sys.getrefcount(w) for w in watched] == before


def test_a_failing_kernel_by_name_leaks_nothing(make: Make) -> None:
    kernel = make("fails", parameters=["x"], results=["o"])
    a, buffer = grid(), grid(1)
    out = {"o": buffer}

    def fail() -> None:
        with pytest.raises(IndexError):
            kernel(x=a, out=out)

    fail()
    gc.collect()
    before = [sys.getrefcount(w) for w in (a, buffer, out, kernel)]
    for _ in range(100):
        fail()
    gc.collect()
    assert [sys.getrefcount(w) for w in (a, buffer, out, kernel)] == before


# ---- kernels as users have them


TWO = """def two(float(N) A, float(N) B, float s) -> (C, D) {
  C(i) = A(i) + s * B(i)
  D(i) = A(i) - B(i)
}"""


def test_a_compiled_kernel_takes_names_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tc.compile(TWO, "reference")
    a, b = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    kernel(a, b, 2)
    monkeypatch.setattr(type(kernel), "_miss", lambda *_: pytest.fail("missed"))
    c, d = np.empty_like(a), np.empty_like(a)
    for call in (
        kernel(A=a, B=b, s=2.0),
        kernel(a, s=2, B=b),
        kernel(a, b, s=np.float32(2), out=(c, d)),
        kernel(s=2, A=a, B=b, out={"D": d, "C": c}),
    ):
        np.testing.assert_array_equal(call.C, a + 2)
        np.testing.assert_array_equal(call.D, a - 1)
    assert call.C is c
    assert call.D is d


def test_slow_calls_leave_one_entry() -> None:
    kernel = tc.compile(TWO, "reference")
    a: Any = np.arange(6, dtype=np.float32)
    for n in (6, 4):
        kernel(A=a[:n], B=a[:n], s=1)
    for _ in range(70):
        kernel(A=memoryview(a), B=a[::-1], s=1)
    assert len(kernel._entries()) == 2


@pytest.mark.parametrize(
    ("args", "kwargs", "code", "message"),
    [
        ((1, 2), {"s": 1, "A": 3}, "TC0502", "A is given by position and by name"),
        ((1, 2, 3), {"A": 3}, "TC0502", "A is given by position and by name"),
        ((1,), {"B": 1}, "TC0501", "expected 3 inputs"),
        ((), {"A": 1, "B": 1, "s": 1, "C": 1}, "TC0502", "unknown argument 'C'"),
        ((), {"A": 1, "B": 1, "s": 1, "T": 1}, "TC0502", "unknown argument 'T'"),
        ((1, 2, 3, 4), {"out": None}, "TC0501", "got 4"),
    ],
)
def test_messages_are_the_slow_paths(args: Any, kwargs: Any, code: str, message: str) -> None:
    kernel = tc.compile(TWO, "reference")
    a = np.arange(6, dtype=np.float32)
    kernel(a, a, 2)
    real: Any = {1: a, 2: a, 3: 1.0, 4: a}
    with pytest.raises(ArgumentError, match=message) as caught:
        kernel(*(real[x] for x in args), **{k: None if v is None else real[v] for k, v in kwargs.items()})
    assert caught.value.code == code


def test_partial_and_wrong_dictionaries_keep_their_meaning() -> None:
    kernel = tc.compile(TWO, "reference")
    a = np.arange(6, dtype=np.float32)
    kernel(a, a, 2)
    c = np.empty_like(a)
    made = kernel(A=a, B=a, s=1, out={"C": c})
    assert made.C is c
    np.testing.assert_array_equal(made.C, 2 * a)
    assert not made.D.any()
    for bad in ({"E": c}, {"C": c, "E": c}):
        with pytest.raises(ArgumentError, match="no result 'E'"):
            kernel(A=a, B=a, s=1, out=bad)

"""Kernels from cards: in a new process without the compiler, and the same kernel in every other respect."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.api import compile_checked
from tc.cache import disk
from tc.open_kernels.generic_kernel import GenericKernel
from tc.open_kernels.polymorphic import PolymorphicKernel
from tc.warm_start import card, key, start
from tc.warm_start.kernel import WarmKernel
from tc.warm_start.open_kernel import WarmOpenKernel
from tc.warm_start.warnings import SavedWarning, saved
from tests.runtime.test_machine_code import SOFTMAX

AXPY = "def axpy(float a, float(N) x, float(N) y) -> (z) { z(i) = a * x(i) + y(i) }"
GATHER = "def gather(float(N) A, int32(M) I) -> (B) { B(i) = A(I(i)) }"
ADDED = "def added(float(N) x) -> (s) { s +=! x(i) }"
STEPS = "def steps(float(N) x, int K) -> (y) { y(i) = x(K*i) where i in 0:N/K }"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels come from a store of this test's own."""
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("TC_TUNE_DIR", str(tmp_path / "tuned"))
    monkeypatch.delenv("TC_VERIFY")


def written(source: str, *args: tuple[Any, ...], **compile_with: Any) -> card.Card:
    """The card with the calls of these arguments; what is warned of meanwhile is not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel: Any = tc.compile(source, **compile_with)
        for given in args:
            kernel(*given)
    found = card.read(name_of(kernel))
    assert found is not None
    return found


def name_of(kernel: Any) -> str:
    """The name of its card."""
    return kernel.card.name


def warm(source: str, *args: tuple[Any, ...], **compile_with: Any) -> Any:
    """The kernel of a card that has the calls of these arguments."""
    found = written(source, *args, **compile_with)
    kind = WarmOpenKernel if found.open else WarmKernel
    return kind(source, found.calls, lambda: tc.compile(source, **compile_with))


def is_warm(kernel: object) -> bool:
    return type(kernel) in (WarmKernel, WarmOpenKernel)


OTHERS = """
import json, sys
import numpy as np
import tc
x = np.linspace(-2, 3, 99, dtype=np.float32).reshape(9, 11)
found = tc.library.softmax(x), tc.define({axpy!r}).axpy(2.0, x[0], x[1])
print(json.dumps([[a.tolist() for a in found], "tc.api" in sys.modules]))
"""


@pytest.mark.slow
def test_operators_of_the_library_and_defs_by_name_need_no_compiler_either() -> None:
    def run() -> list[Any]:
        code = OTHERS.format(axpy=AXPY)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    (first, whole), (second, again) = run(), run()
    assert first == second and (whole, again) == (True, False)


X = np.linspace(-2, 3, 99, dtype=np.float32).reshape(9, 11)

CHILD = """
import json, sys
import numpy as np
import tc
soft = tc.compile({softmax!r})
axpy = tc.compile({axpy!r}, backend="cpu")
x = np.linspace(-2, 3, 99, dtype=np.float32).reshape(9, 11)
m, Y, s = soft(x)
found = soft(X=x)
z = axpy(2.0, x[0], y=x[1])
out = np.zeros(11, np.float32)
assert axpy(3, x[0], x[1], out=out) is out
heavy = sorted(m for m in ("tc.api", "tc.kernel", "islpy", "llvmlite", "lark", "halide") if m in sys.modules)
print(json.dumps([Y.tolist(), found.s.tolist(), z.tolist(), out.tolist(), type(found).__name__, heavy]))
"""


def test_a_new_process_runs_without_the_compiler() -> None:
    def run() -> list[Any]:
        code = CHILD.format(softmax=SOFTMAX, axpy=AXPY)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert not done.stderr
        return json.loads(done.stdout)

    first, second = run(), run()
    assert first[:5] == second[:5]
    assert {"tc.api", "islpy", "llvmlite"} <= set(first[5]) and second[5] == []


def test_other_sizes_types_and_layouts_are_calls_of_the_whole_kernel() -> None:
    for other in (X[:, :5], X.astype(np.float64)[:3], np.asfortranarray(np.tile(X, (2, 9000)))):
        kernel = warm(SOFTMAX, (X,))
        np.testing.assert_array_equal(kernel(X).Y, tc.compile(SOFTMAX)(X).Y)
        assert is_warm(kernel)
        if other.dtype == np.float64:
            with pytest.raises(tc.DTypeError):
                kernel(other)
        else:
            np.testing.assert_array_equal(kernel(other).Y, tc.compile(SOFTMAX)(other).Y)
        assert not is_warm(kernel) and isinstance(kernel, tc.Kernel)
        np.testing.assert_array_equal(kernel(X).Y, tc.compile(SOFTMAX)(X).Y)


def test_it_is_a_kernel() -> None:
    asked = {
        "repr": lambda k: repr(k) == repr(tc.compile(SOFTMAX)),
        "ranges": lambda k: str(k.ranges) == str(tc.compile(SOFTMAX).ranges),
        "doc": lambda k: k.__doc__ == tc.compile(SOFTMAX).__doc__,
        "signature": lambda k: str(k.__signature__) == str(tc.compile(SOFTMAX).__signature__),
        "pickle": lambda k: np.array_equal(pickle.loads(pickle.dumps(k))(X).Y, k(X).Y),
        "copy": lambda k: np.array_equal(copy.copy(k)(X).Y, k(X).Y),
        "inspect": lambda k: k.inspect("loops", N=9, D=11) == tc.compile(SOFTMAX).inspect("loops", N=9, D=11),
    }
    for what, check in asked.items():
        kernel = warm(SOFTMAX, (X,))
        kernel(X)
        assert check(kernel), what
        assert not is_warm(kernel), what
        np.testing.assert_array_equal(kernel(X).Y, tc.compile(SOFTMAX)(X).Y)


def test_it_is_an_instance_of_the_class() -> None:
    kernel = warm(SOFTMAX, (X,))
    assert isinstance(kernel, tc.Kernel) and not isinstance(kernel, str) and is_warm(kernel)


def test_names_and_absent_attributes_need_no_compiler() -> None:
    kernel = warm(SOFTMAX, (X,))
    assert (kernel.name, kernel.source) == ("softmax", SOFTMAX)
    assert not hasattr(kernel, "__array__") and is_warm(kernel)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kernel.nothing  # noqa: B018


def test_results_are_of_one_type_before_and_after() -> None:
    kernel = warm(SOFTMAX, (X,))
    before = kernel(X)
    kernel(X[:3])
    assert type(before) is type(kernel(X)) is type(kernel(X[:3]))


def test_an_index_out_of_range_is_the_same_error() -> None:
    a, good, bad = X[0], np.array([1, 2], np.int32), np.array([1, 77], np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.DataDependentAccess)
        with pytest.raises(tc.BoundsError) as expected:
            tc.compile(GATHER)(a, bad)
        kernel = warm(GATHER, (a, good))
        np.testing.assert_array_equal(kernel(a, good), a[good])
        with pytest.raises(tc.BoundsError) as found:
            kernel(a, bad)
    assert str(found.value) == str(expected.value)
    np.testing.assert_array_equal(kernel(a, good), a[good])


WARNINGS = """
import warnings
warnings.simplefilter("always")
import json, sys
import numpy as np
import tc
with warnings.catch_warnings(record=True) as said:
    kernel = tc.compile({source!r})
    compiled = len(said)
    for size in (8, 2, 2):
        kernel(np.ones(size, np.float32), np.zeros(2, np.int32))
shown = [[type(w.message).__name__, str(w.message), w.lineno, w.message.as_dict()] for w in said]
print(json.dumps([compiled, shown, "tc.api" in sys.modules]))
"""


def test_a_new_process_warns_of_the_same() -> None:
    source = "def f(float(N) A, int32(M) I) -> (B, C) { B(i) = A(I(i)) C(i) = A(i) where i in 0:N/8 }"
    code = WARNINGS.format(source=source)

    def run() -> list[Any]:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    first, second = run(), run()
    assert first[:2] == second[:2] and (first[2], second[2]) == (True, False)
    assert first[0] == 1 and [kind for kind, *_ in first[1]] == ["DataDependentAccess", "EmptyRange"]


def test_a_kernel_that_becomes_whole_does_not_repeat_itself() -> None:
    a, index = X[0], np.array([1, 2], np.int32)
    written(GATHER, (a, index))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        name = name_of(tc.compile(GATHER))
        found = start._from_card(name, GATHER, lambda: compile_quietly(GATHER))
        assert len(said) == 2 and is_warm(found)
        np.testing.assert_array_equal(found(a, index[:1]), a[index[:1]])
    assert len(said) == 2 and not is_warm(found)


def compile_quietly(source: str) -> Any:
    return compile_checked(source, None, None, None, None, "safe", "tc", (), None, None)


def test_every_kind_of_warning_is_kept_whole() -> None:
    source = tc.errors.Source("def f(float(N) x) -> (y) { y(i) = x(i) }")
    first, second = tc.errors.Span(source, 4, 5), tc.errors.Span(source, 12, 13)
    kinds = [k for k in vars(tc.errors).values() if isinstance(k, type) and issubclass(k, tc.Warning)]
    assert len(kinds) > 7
    for kind in kinds:
        for span, notes in ((first, [tc.errors.Note("here", second)]), (None, [tc.errors.Note("so")])):
            one = kind("it is slow", span, help="wait", notes=notes)
            made = saved([one], source)
            assert made is not None
            (back,) = json.loads(json.dumps([vars(w) for w in made]))
            again = SavedWarning.of_facts(back).warning(source)
            assert (type(again), str(again)) == (kind, str(one))
    other = tc.errors.Span(tc.errors.Source("def g"), 0, 1)
    assert saved([tc.Warning("of another source", other)], source) is None


def test_dynamic_sizes() -> None:
    sizes = [(np.ones(n, np.float32),) for n in (5, 8, 300)]
    found = written(ADDED, *sizes, dynamic=["N"])
    assert [c.dynamic for c in found.calls] == [(300,), (8,), (5,)]
    assert len({c.code for c in found.calls}) == 1
    kernel = warm(ADDED, *sizes, dynamic=["N"])
    assert [float(kernel(*x)) for x in sizes] == [5, 8, 300] and is_warm(kernel)
    assert kernel(np.ones(77, np.float32)) == 77 and not is_warm(kernel)
    assert [float(kernel(*x)) for x in sizes] == [5, 8, 300]


MATMUL = "def mm<T>(T(M,K) A, T(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TAKE = "def take<T>(T(N) A, int64(M) I) -> (B) { B(i) = A(I(i)) }"
FILL = "def fill<T>(T a, int32(N) x) -> (y) { y(i) = a * x(i) }"


def test_instances_of_a_def_with_type_variables() -> None:
    def args(dtype: type) -> tuple[Any, ...]:
        return np.arange(6).reshape(2, 3).astype(dtype), np.arange(12).reshape(3, 4).astype(dtype)

    kernel = warm(MATMUL, args(np.float32), args(np.float64))
    for dtype in (np.float64, np.float32):
        found = kernel(*args(dtype))
        np.testing.assert_array_equal(found, args(dtype)[0] @ args(dtype)[1])
        assert found.dtype == dtype and is_warm(kernel)
    found = kernel(*args(np.int32))
    assert found.dtype == np.int32 and isinstance(kernel, GenericKernel)
    with pytest.raises(tc.DTypeError, match="type variable"):
        warm(MATMUL, args(np.float32))(args(np.float32)[0], args(np.float64)[1])
    assert repr(warm(MATMUL, args(np.float32))) == repr(tc.compile(MATMUL))
    copied = copy.copy(warm(MATMUL, args(np.float32)))
    assert isinstance(copied, GenericKernel) and copied(*args(np.float32))[0, 0] == 20
    ranges = warm(MATMUL, args(np.float32)).at(T="float").ranges
    assert str(ranges) == str(tc.compile(MATMUL, types={"T": "float"}).ranges)


def test_an_error_in_an_instance_is_the_same() -> None:
    a, good, bad = X[0], np.array([1, 2]), np.array([1, 77])
    kernel = warm(TAKE, (a, good), (a.astype(np.float64), good))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for values in (a.astype(np.float64), a):
            np.testing.assert_array_equal(kernel(values, good), values[good])
        assert [w.category for w in said] == [tc.DataDependentAccess]
        with pytest.raises(tc.BoundsError) as found:
            kernel(a.astype(np.float64), bad)
        with pytest.raises(tc.BoundsError) as expected:
            tc.compile(TAKE)(a.astype(np.float64), bad)
    assert str(found.value) == str(expected.value)


def test_numbers_that_decide_a_type_have_no_card() -> None:
    x = np.arange(3, dtype=np.int32)
    kernel = tc.compile(FILL)
    assert kernel(2, x).dtype == np.int32 and kernel(2.5, x).dtype == np.float64
    assert card.read(name_of(kernel)) is None


def test_instances_of_ranks() -> None:
    source = "double[*] scale(double[*] a, double s) { return a * s; }"
    for first in (X.astype(np.float64), X[0].astype(np.float64)):
        kernel = warm(source, (first, 2.0), lang="sac")
        np.testing.assert_array_equal(kernel(first, 2.0), first * 2)
        assert is_warm(kernel)
        np.testing.assert_array_equal(kernel(first[:2], 3), first[:2] * 3)
        assert isinstance(kernel, PolymorphicKernel)
    expression = tc.compile("a + b", lang="sac")
    assert expression(np.ones(3), 1.5)[0] == 2.5 and card.read(name_of(expression)) is None


def test_specialised_scalars_and_reductions_into_buffers() -> None:
    x = np.arange(12, dtype=np.float32)
    kernel = warm(STEPS, (x, 2), (x, 3))
    np.testing.assert_array_equal(kernel(x, 3), x[::3])
    np.testing.assert_array_equal(kernel(x, 2), x[::2])
    assert is_warm(kernel)
    np.testing.assert_array_equal(kernel(x, 4), x[::4])
    total = warm(ADDED, (x,))
    assert total(x) == 66
    buffer = np.zeros((), np.float32)
    assert total(x, out=buffer) is buffer and buffer == 66


def test_a_card_keeps_the_calls_made_last() -> None:
    args = [(np.ones(n, np.float32),) for n in range(1, 20)]
    kernel = warm(ADDED, *args, args[7])
    assert [dict(c.sizes)["N"] for c in kernel._card_calls.rest] == [19, *range(18, 3, -1)]


def test_calls_with_gaps_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher copies small arrays alone, so these calls go the slow way each time."""
    made: list[str] = []
    original = card.add
    monkeypatch.setattr(card, "add", lambda place, *rest: (made.append(place.name), original(place, *rest)))
    kernel = tc.compile(ADDED)
    wide = np.ones((1 << 17, 2), np.float32)
    assert [float(kernel(wide[:, 1])) for _ in range(3)] == [1 << 17] * 3
    assert float(kernel(wide[: 1 << 16, 1])) == 1 << 16
    assert len(made) == 2


def test_threads_that_need_the_whole_kernel_at_once() -> None:
    kernel = warm(SOFTMAX, (X,))
    want = tc.compile(SOFTMAX)
    wrong: list[object] = []

    def call(k: int) -> None:
        wrong.extend(n for n in (9, k + 1, 9) if not np.array_equal(kernel(X[:n]).Y, want(X[:n]).Y))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and not is_warm(kernel)


def test_code_that_does_not_load_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = warm(SOFTMAX, (X,))
    calls = kernel._card_calls.rest
    calls[:] = [card.SavedCall(**{**vars(c), "code": c.code[:50]}) for c in calls]
    np.testing.assert_array_equal(kernel(X).Y, tc.compile(SOFTMAX)(X).Y)
    assert not is_warm(kernel)


def test_an_altered_card_is_no_card() -> None:
    kernel = tc.compile(SOFTMAX)
    kernel(X)
    store, name = disk.default(), name_of(kernel)
    assert store is not None and card.read(name)
    blob = store.get(name)
    assert blob is not None
    for altered in (b"", blob[:-100], blob.replace(b'"inputs"', b'"outputs"', 1), disk.pack({}, b"")):
        store.put(name, altered)
        assert card.read(name) is None


def test_the_key_says_what_code_depends_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = {
        "entry": None, "sizes": None, "options": None, "checks": "safe", "lang": "tc", "dynamic": (),
        "types": None,
    }  # fmt: skip
    first = key.key(AXPY, "cpu", **usual)
    assert first == key.key(AXPY, "cpu", **usual) is not None
    others = [
        key.key(AXPY + " ", "cpu", **usual),
        key.key(AXPY, None, **usual),
        key.key(AXPY, "cpu", **{**usual, "checks": "none"}),
        key.key(AXPY, "cpu", **{**usual, "entry": "axpy"}),
        key.key(AXPY, "cpu", **{**usual, "options": {"strict": True}}),
        key.key(AXPY, "cpu", **{**usual, "types": {"T": "float"}}),
    ]
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "a.jsonl").write_text("{}\n")
    others.append(key.key(AXPY, "cpu", **usual))
    monkeypatch.setattr(key, "_environment", lambda: "elsewhere")
    others.append(key.key(AXPY, "cpu", **usual))
    assert len({first, *others}) == 9 and None not in others


def test_calls_of_compile_with_the_same_card() -> None:
    assert (
        tc.compile(AXPY, options=tc.Options(strict=True)).card
        == tc.compile(AXPY, options={"strict": True}).card
    )
    assert tc.compile(AXPY, sizes={"N": np.int64(8)}).card == tc.compile(AXPY, sizes={"N": 8}).card  # type: ignore[dict-item]


def test_calls_of_compile_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tc.compile(AXPY, options=tc.Options(fusion=lambda proposal: True)).card is None
    assert tc.compile(AXPY, backend="reference").card is None
    assert tc.compile(AXPY).card is not None
    for name, value in {"TC_VERIFY": "1", "TC_CACHE": "0", "TC_DUMP": "somewhere"}.items():
        with monkeypatch.context() as m:
            m.setenv(name, value)
            assert tc.compile(AXPY).card is None

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
from tc.cache import disk
from tc.warm_start import card
from tc.warm_start.kernel import WarmKernel
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


def warm(source: str, *args: Any, **compile_with: Any) -> Any:
    """The kernel of a card that has the calls of these arguments."""
    kernel = tc.compile(source, **compile_with)
    for given in args:
        kernel(*given)
    calls = card.read(kernel._card)
    return WarmKernel(kernel.name, source, calls, lambda: tc.compile(source, **compile_with))


def is_warm(kernel: object) -> bool:
    return type(kernel) is WarmKernel


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
    for other in (X[:, :5], X.astype(np.float64)[:3], np.asfortranarray(X)):
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
        plain = tc.compile(GATHER)
        with pytest.raises(tc.BoundsError) as expected:
            plain(a, bad)
        calls = card.read(_recorded_in_spite_of_warnings(plain, a, good))
        kernel: Any = WarmKernel("gather", GATHER, calls, lambda: tc.compile(GATHER))
        np.testing.assert_array_equal(kernel(a, good), a[good])
        with pytest.raises(tc.BoundsError) as found:
            kernel(a, bad)
    assert str(found.value) == str(expected.value)
    np.testing.assert_array_equal(kernel(a, good), a[good])


def _recorded_in_spite_of_warnings(kernel: Any, *args: Any) -> str:
    kernel.warnings = ()
    kernel(*args)
    return kernel._card


def test_what_has_something_to_say_has_no_card() -> None:
    with pytest.warns(tc.DataDependentAccess):
        kernel = tc.compile(GATHER)
    kernel(X[0], np.array([1, 2], np.int32))
    assert kernel._card and card.read(kernel._card) == ()
    sliced = tc.compile("def f(float(N) A) -> (B) { B(i) = A(i) where i in 0:N/8 }")
    with pytest.warns(tc.EmptyRange):
        sliced(np.ones(2, np.float32))
    assert sliced._card and card.read(sliced._card) == ()


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
    assert [dict(c.sizes)["N"] for c in kernel._calls] == [19, *range(18, 3, -1)]


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
    broken = [card.SavedCall(**{**vars(c), "code": c.code[:50]}) for c in kernel._calls]
    kernel._calls[:] = broken
    np.testing.assert_array_equal(kernel(X).Y, tc.compile(SOFTMAX)(X).Y)
    assert not is_warm(kernel)


def test_an_altered_card_is_no_card() -> None:
    kernel = tc.compile(SOFTMAX)
    kernel(X)
    store = disk.default()
    assert store is not None and card.read(kernel._card)
    blob = store.get(kernel._card)
    assert blob is not None
    for altered in (b"", blob[:-100], blob.replace(b'"inputs"', b'"outputs"', 1), disk.pack({}, b"")):
        store.put(kernel._card, altered)
        assert card.read(kernel._card) == ()


def test_the_key_says_what_code_depends_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = {
        "entry": None, "sizes": None, "options": None, "checks": "safe", "lang": "tc", "dynamic": (),
        "types": None,
    }  # fmt: skip
    first = card.key(AXPY, "cpu", **usual)
    assert first == card.key(AXPY, "cpu", **usual) is not None
    others = [
        card.key(AXPY + " ", "cpu", **usual),
        card.key(AXPY, None, **usual),
        card.key(AXPY, "cpu", **{**usual, "checks": "none"}),
        card.key(AXPY, "cpu", **{**usual, "entry": "axpy"}),
        card.key(AXPY, "cpu", **{**usual, "options": {"strict": True}}),
        card.key(AXPY, "cpu", **{**usual, "types": {"T": "float"}}),
    ]
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "a.jsonl").write_text("{}\n")
    others.append(card.key(AXPY, "cpu", **usual))
    monkeypatch.setattr(card, "_environment", lambda: "elsewhere")
    others.append(card.key(AXPY, "cpu", **usual))
    assert len({first, *others}) == 9 and None not in others


def test_calls_of_compile_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tc.compile(AXPY, dynamic=["N"])._card is None
    assert tc.compile(AXPY, options=tc.Options(strict=True))._card is None
    assert tc.compile(AXPY, backend="reference")._card is None
    assert tc.compile(AXPY)._card is not None
    for name, value in {"TC_VERIFY": "1", "TC_CACHE": "0", "TC_DUMP": "somewhere"}.items():
        with monkeypatch.context() as m:
            m.setenv(name, value)
            assert tc.compile(AXPY)._card is None

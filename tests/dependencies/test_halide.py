"""What Halide 21.0 drops, takes for something else or leaves held, and the programs that show it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import registry
from tc.codegen import llvm_jit
from tc.errors import BackendError, BoundsError
from tc.halide.binding import hl
from tests.dependencies import children

pytestmark = pytest.mark.filterwarnings("ignore::tc.Warning")

I = hl.Var("i")  # noqa: E741
A = np.arange(4, dtype=np.float32)


def module(name: str) -> Any:
    registry.load("halide")
    return importlib.import_module(f"tc_backends.halide.{name}")


def halide(source: str, scheduler: str | None = None) -> Any:
    return tc.compile(source, "halide", options=tc.Options(autoschedule=scheduler))


# ---- the front end


def test_dimensions_that_an_update_does_not_mention_are_dropped() -> None:
    """What is added three times is added once: `funcs` mentions them."""
    f, r = hl.Func(), hl.RDom([hl.Range(0, 3)], "r")
    f[I] = hl.i32(0)
    f[I] += hl.i32(1)
    f[I] += r[0]
    assert [len(f.rvars(k)) for k in range(2)] == [0, 1]
    found = halide("def f(float(N) A) -> (O) { O(i) +=! A(i) where k in 0:3 }")(A)
    np.testing.assert_array_equal(found, 3 * A)


def test_a_choice_between_two_without_dimensions_is_a_tuple() -> None:
    """`expressions` makes expressions of references first."""
    s, t = hl.Func(), hl.Func()
    s[()], t[()] = hl.f32(1), hl.f32(2)
    assert isinstance(hl.select(I > 0, s[()], t[()]), tuple)
    source = "def f(float(N) A) -> (s, t, O) { s +=! A(i) t max=! A(i) O(i) = select(A(i) > 1, s, t) + 1 }"
    np.testing.assert_array_equal(halide(source)(A).O, [4, 4, 7, 7])


def test_the_check_of_a_subscript_with_one_value_is_dropped(tmp_path: Path) -> None:
    """Clamped into one element it is that element, whatever it was `require`d to be; `expressions` has the
    value depend on it once more."""
    index, file = hl.ImageParam(hl.Int(32), 1, "index"), tmp_path / "f.stmt"
    for last in (0, 1):
        f = hl.Func()
        f[I] = hl.clamp(hl.require(index[I] == 0, index[I], 7), 0, last)
        f.compile_to_lowered_stmt(str(file), [index], hl.StmtOutputFormat.Text)
        assert ("requirement_failed" in file.read_text()) is bool(last)
    kernel = halide("def f(float(N) A, int(M) X) -> (O) { O(i) = A(X(i)) }")
    with pytest.raises(BoundsError, match="index 5 is out of range"):
        kernel(A[:1], np.array([0, 5], np.int32))


# ---- schedules


def test_schedules_may_read_beyond_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they compute more points than are there; so every subscript is clamped for them."""

    def rounding_up(lowered: Any, *_: Any) -> str:
        results = {f.name() for f in lowered.outputs}
        for f in lowered.funcs.values():
            f.compute_root()
            if f.name() not in results:
                f.vectorize(f.args()[0], 16, hl.TailStrategy.RoundUp)
        return "T rounded up"

    monkeypatch.setattr(module("autoschedule"), "schedule", rounding_up)
    kernel = halide("def f(float(N,M) A) -> (O) { T(i,j) = A(i,j) + 1  O(i,j) = T(i,j) * 2 }", "Adams2019")
    given = np.arange(33, dtype=np.float32).reshape(3, 11)
    np.testing.assert_array_equal(kernel(given), (given + 1) * 2)


UNALIGNED = """
import importlib, sys
import numpy as np
import tc
from tc import registry
from tests.backends.halide_cases import TRIANGLE, odd, small

registry.load("halide")
glue = importlib.import_module("tc_backends.halide.glue")
if sys.argv[1] == "Halide's":
    ours = glue.glue
    glue.glue = lambda lowered, function, align: ours(lowered, function, align=False)
a, o = odd(small(131, 131)), odd(np.zeros(131, "f4"))
tc.compile(TRIANGLE, "halide", options=tc.Options(autoschedule="Mullapudi2016"))(a, out=o)
assert (o == np.tril(small(131, 131)).sum(1)).all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["ours", "Halide's"])
def test_masked_vectors_are_taken_for_aligned(whose: str) -> None:
    """The process dies on AVX-512; `glue` gives schedules aligned copies."""
    if whose == "ours" or "+avx512f" in llvm_jit.host_cpu()[1]:
        done = children.run(UNALIGNED, whose)
        assert (done.returncode == 0) is (whose == "ours"), done.stderr


def test_schedules_of_empty_tensors_fail() -> None:
    """Li2018 takes them for tensors of one element: no scheduler is asked."""
    kernel = halide("def f(float(N,M) A) -> (B, s) { B(i,j) = A(i,j) * 2 s(i) +=! A(i,j) }", "Li2018")
    b, s = kernel(np.ones((3, 0), np.float32))
    assert b.shape == (3, 0) and s.tolist() == [0, 0, 0]


def test_a_failed_check_would_keep_a_lock() -> None:
    """Li2018 makes updates atomic, and what no instruction does takes a lock."""
    kernel = halide("def f(float(N) A, int(M) X) -> (s) { s max=! A(X(i)) }", "Li2018")
    with pytest.raises(BackendError, match="updates under a lock") as caught:
        kernel(np.ones(50, np.float32), np.zeros(5000, np.int32))
    assert caught.value.code == "TC0806"


def test_mullapudi_does_not_know_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It warns of every one, of which no user hears."""
    backend, heard = module("backend"), list[str]()
    ours = backend._notes

    def noted(said: list[str]) -> Any:
        heard.extend(said)
        return ours(said)

    monkeypatch.setattr(backend, "_notes", noted)
    kernel = halide("def f(float(Q) L, int(N,M) X) -> (O) { O(i) +=! L(X(i,j)) }", "Mullapudi2016")
    assert kernel.specialize(Q=50, N=30, M=40).compiled.notes == ()
    assert "Unknown extern call halide_error_requirement_failed" in "".join(heard)

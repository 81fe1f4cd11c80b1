"""`tc.tune`: candidates of a backend, checked and timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc import tuning

F = np.float32
GEMM = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,kk) * B(n,kk) }"


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"A": rng.standard_normal((33, 20), dtype=F), "B": rng.standard_normal((48, 20), dtype=F)}


def test_the_fastest_of_what_is_right() -> None:
    tuned = tc.tune(GEMM, arrays(), candidates=4, rounds=2)
    assert 2 <= len(tuned.trials) <= 5
    assert [t.options for t in tuned.trials].count(tc.Options()) == 1
    assert all(t.seconds is not None and not t.problem for t in tuned.trials)
    assert [t.seconds for t in tuned.trials] == sorted(t.seconds or 0 for t in tuned.trials)
    a = arrays()
    best = tc.compile(GEMM, "cpu", options=tuned.best)(**a)
    np.testing.assert_allclose(best, a["A"] @ a["B"].T, rtol=1e-4, atol=1e-4)


def test_predictions_come_best_first() -> None:
    kernel = tc.compile(GEMM, "cpu")
    from tc.registry import get

    backend: Any = get("cpu")
    found = backend.candidates(kernel.program({"M": 64, "N": 64, "K": 64}), 6, tc.Options())
    assert len(found) == 6 and len({o for o, _ in found}) == 6
    assert [c for _, c in found] == sorted(c for _, c in found)


def test_options_that_all_trials_have() -> None:
    options = tc.Options(isa="sse4.2", pack=False)
    tuned = tc.tune(GEMM, arrays(), options=options, candidates=3, rounds=1)
    assert all((t.options.isa, t.options.pack) == ("sse4.2", False) for t in tuned.trials)
    widths = {t.options.register_tile for t in tuned.trials if t.options.register_tile}
    assert widths and all(n % 4 == 0 or n < 4 for tile in widths for n in tile[1:2])
    kernel = tc.compile(GEMM, "cpu", options=tuned.best)
    np.testing.assert_allclose(kernel(**arrays()), arrays()["A"] @ arrays()["B"].T, rtol=1e-4, atol=1e-4)


def test_in_out_results_and_scalars() -> None:
    source = "def f(float a, float(N) x) -> (y) { y(i) = a * x(i) + y(i) }"
    x, y = np.ones(40, F), np.full(40, 2, F)
    tuned = tc.tune(source, {"a": 3.0, "x": x}, out=y.copy(), candidates=2, rounds=1)
    assert tuned.trials[0].seconds is not None


def test_a_wrong_candidate_is_never_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tuning.compile

    def broken(src: str, backend: str, **kw: Any) -> Any:
        kernel = real(src, backend, **kw)
        if kw.get("options") in (None, tc.Options()):
            return kernel

        class Wrong:
            front = kernel.front

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return kernel(*args, **kwargs) + 1

        return Wrong()

    monkeypatch.setattr(tuning, "compile", broken)
    tuned = tc.tune(GEMM, arrays(), candidates=3, rounds=1)
    assert tuned.best == tc.Options()
    assert all("differs from the oracle" in t.problem for t in tuned.trials[1:])


def test_a_backend_without_candidates() -> None:
    with pytest.raises(tc.BackendError, match="nothing to tune") as e:
        tc.tune(GEMM, arrays(), backend="reference")
    assert e.value.code == "TC0812"


def test_several_results() -> None:
    source = "def f(float(N,D) X) -> (m, s) { m(n) max=! X(n,d)  s(n) +=! exp(X(n,d) - m(n)) }"
    tuned = tc.tune(
        source, [np.random.default_rng(0).standard_normal((9, 33), dtype=F)], candidates=2, rounds=1
    )
    assert all(not t.problem for t in tuned.trials)

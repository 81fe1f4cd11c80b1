"""`tc.tune` and `kernel.tune` on the cpu backend, and what they refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.options import Options
from tc.tuned.records import Records
from tc.tuner.api import combinations
from tc.tuner.display import display
from tc.tuner.trials import Progress
from tests.tuner.conftest import ADD

F = np.float32
GEMM = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,kk) * B(n,kk) }"


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"A": rng.standard_normal((33, 20), dtype=F), "B": rng.standard_normal((48, 20), dtype=F)}


def test_a_search_on_the_cpu(tmp_path: Path) -> None:
    kernel = tc.compile(GEMM, "cpu")
    a = arrays()
    tuned = kernel.tune(a["A"], a["B"], trials=5, budget=None, jobs=1)
    assert tuned.sizes == {"M": 33, "K": 20, "N": 48}
    assert [t.options for t in tuned.trials].count(Options()) == 1
    assert tuned.trials[0].record.origin == "default" and not tuned.failed, tuned.summary()
    assert sum(t.status == "ok" for t in tuned.trials) == 6
    assert [t.cost for t in tuned.ranking if t.cost] == sorted(t.cost for t in tuned.trials if t.cost)
    np.testing.assert_allclose(tuned.kernel(**a), a["A"] @ a["B"].T, rtol=1e-4, atol=1e-4)
    assert tuned.records == tmp_path / "records"
    rows = Records(tmp_path / "records").scan().records
    assert len(rows) == 7 and rows[-1].origin == "confirm"
    assert all(r.code for r in rows[:-1]) and {r.machine for r in rows} == {rows[0].machine}
    assert rows[0].sizes == tuned.sizes and rows[0].dtypes == {"A": "float32", "B": "float32"}


@pytest.mark.share(6)
@pytest.mark.parametrize(
    "body",
    ["s +=! A(m,k) * A(m,k)", "s = 0.0 for i in 0:M { s = s + A(i,0) }", "s(m) +=! A(m,k) v max=! A(m,k)"],
)
def test_results_without_dimensions(body: str) -> None:
    outputs = "s, v" if "v " in body else "s"
    source = f"def f(float(M,K) A) -> ({outputs}) {{ {body} }}"
    tuned = tc.tune(source, {"A": np.ones((20, 30), F)}, backend="cpu", trials=2, budget=None, records=False)
    assert not tuned.failed, tuned.summary()
    assert tuned.trials[0].status == "ok"


@pytest.mark.slow
def test_options_that_all_candidates_have() -> None:
    options = Options(isa="sse4.2", pack=False)
    tuned = tc.tune(
        GEMM, arrays(), backend="cpu", options=options, trials=4, budget=None, fix={"parallel": False}, seed=1
    )
    for t in tuned.trials:
        assert (t.options.isa, t.options.pack) == ("sse4.2", False)
    assert tuned.default == Options(isa="sse4.2", pack=False, parallel=False)
    assert not {"pack", "parallel", "isa"} & set(tuned.genes)


@pytest.mark.slow
def test_in_out_results_and_scalars_and_several_results() -> None:
    source = "def f(float a, float(N) x) -> (y) { y(i) = a * x(i) + y(i) }"
    y = np.full(40, 2, F)
    tuned = tc.tune(source, {"a": 3.0, "x": np.ones(40, F)}, out=y, backend="cpu", trials=2, budget=None)
    assert tuned.trials[0].status == "ok" and not tuned.failed
    assert np.all(y == 2), "what is in out= stays as it is"
    source = "def f(float(N,D) X) -> (m, s) { m(n) max=! X(n,d)  s(n) +=! exp(X(n,d) - m(n)) }"
    x = np.random.default_rng(0).standard_normal((9, 33), dtype=F)
    assert not tc.tune(source, [x], backend="cpu", trials=2, budget=None).failed


@pytest.mark.slow
def test_sizes_instead_of_arrays(faulty: Any) -> None:
    some = tc.tune(ADD, sizes=[{"N": 64}, {"N": 32}], backend="faulty", trials=1, budget=None)
    assert [t.sizes["N"] for t in some] == [64, 32]
    assert combinations({"N": [4, 8], "M": range(2, 4), "K": 1}) == (
        [{"N": n, "M": m, "K": 1} for n in (4, 8) for m in (2, 3)],
        True,
    )


@pytest.mark.slow
def test_dynamic_sizes_are_tuned_too() -> None:
    tuned = tc.tune(
        "def f(float(B,N) x) -> (y) { y(b) +=! x(b,n) }",
        sizes={"B": 16, "N": 64},
        backend="cpu",
        dynamic=["B"],
        trials=3,
        budget=None,
        strategy="random",
    )
    assert tuned.kernel.dynamic == ("B",) and tuned.trials[0].status == "ok", tuned.trials[0].problem
    assert any(t.status == "ok" for t in tuned.trials[1:])


def test_a_space_of_one(faulty: Any) -> None:
    tuned = tc.tune(
        ADD, sizes={"N": 8}, backend="faulty", fix={"unroll": 4, "prefetch": True, "tile": [4]}, budget=20.0
    )
    assert (
        tuned.best == Options(unroll=4, prefetch=True, tile=(4,))
        and len(tuned.trials) == 1
        and not tuned.genes
    )
    assert tuned.seconds < 10


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "budget": ({"budget": 0}, "TC0511", "budget=0 is not valid"),
    "negative": ({"budget": -1.5}, "TC0511", "budget=-1.5"),
    "words": ({"budget": "a while"}, "TC0511", "budget='a while'"),
    "trials": ({"trials": 0}, "TC0511", "trials=0"),
    "for ever": ({"budget": None}, "TC0511", "would never end"),
    "strategy": ({"strategy": "genetics"}, "TC0511", "did you mean 'genetic'"),
    "setting": ({"buget": 3}, "TC0511", "did you mean 'budget'"),
    "elites": ({"population": 10, "elites": 6}, "TC0511", "elites=6"),
    "mutation": ({"mutation": 1.5}, "TC0511", "mutation=1.5"),
    "fix": ({"fix": {"unrol": 3}}, "TC0511", "did you mean 'unroll'"),
    "backend": ({"backend": "reference"}, "TC0812", "nothing to tune"),
    "sizes": ({"sizes": {}}, "TC0513", "no value for the size N"),
    "no sizes": ({"sizes": None}, "TC0513", "no arguments to tune for"),
}


@pytest.mark.parametrize(("more", "code", "says"), BAD.values(), ids=BAD.keys())
def test_bad_input(faulty: Any, more: dict[str, Any], code: str, says: str) -> None:
    with pytest.raises(tc.Error) as e:
        tc.tune(ADD, **{"sizes": {"N": 8}, "backend": "faulty", "budget": 1.0, **more})
    assert e.value.code == code and says in str(e.value)


def test_a_directory_that_cannot_be_written(faulty: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    where = tmp_path / "file" / "records"
    with pytest.warns(tc.CacheNotice, match="measurements are not kept") as caught:
        tuned = tc.tune(
            ADD, sizes={"N": 8}, backend="faulty", start=[Options(unroll=8)], strategy="given",
            budget=None, records=where,
        )  # fmt: skip
    assert len(caught) == 1 and tuned.best == Options(unroll=8)


def test_progress(faulty: Any, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    settings: dict[str, Any] = {"sizes": {"N": 8}, "backend": "faulty", "strategy": "given", "budget": None}
    tc.tune(ADD, start=[Options(unroll=4096), Options(unroll=8)], prune=None, show=seen.append, **settings)
    last = seen[-1]
    assert (last.tried, last.failed, last.trials, last.bound) == (2, 0, None, 1.0)
    assert last.best and last.default and 1.5 * last.best < last.default
    assert [p.tried for p in seen] == sorted(p.tried for p in seen)
    with display(True, "add") as show:
        for p in seen:
            show(p)
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 2, "a line whenever the best changes"
    assert " candidates, best " in err[1] and " times the default, predicted bound 1" in err[1]


def test_no_records_at_all(faulty: Any, tmp_path: Path) -> None:
    tc.tune(ADD, sizes={"N": 8}, backend="faulty", trials=1, budget=None, records=False)
    assert not (tmp_path / "records").exists()


PROGRAM = """
import sys
import tc
tc.tune({ADD!r}, sizes={{"N": 8}}, backend="faulty", strategy="random", budget={budget}, trials={trials},
        seed=int(sys.argv[1]), jobs=2, show=lambda p: print("tick", flush=True))
print("done")
"""


def program(folder: Path, seed: int, budget: float | None = None, trials: int | None = None) -> Any:
    code = PROGRAM.format(ADD=ADD, budget=budget, trials=trials)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", code, str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


@pytest.mark.slow
def test_two_tuners_on_one_key(faulty: Any, tmp_path: Path) -> None:
    folder = faulty({1: "crash"}, base_us=100)
    running = [program(folder, seed, trials=4) for seed in (1, 2)]
    assert [(p.communicate()[1], p.returncode) for p in running] == [("", 0)] * 2
    found = Records(tmp_path / "records").scan()
    assert not found.foreign and len({r.session for r in found.records}) == 2
    assert len({r.program for r in found.records}) == 1


def test_killed_and_resumed_nothing_is_lost(faulty: Any, tmp_path: Path) -> None:
    """The same 50 times: tests/tuner/kills.py."""
    from tests.tuner.kills import killed

    killed(faulty({1: "crash", 16: "wrong"}, base_us=100), tmp_path / "records", program, moments=2)


def test_ctrl_c_keeps_what_was_found(faulty: Any, tmp_path: Path) -> None:
    folder = faulty({}, base_us=100)
    running = program(folder, 3, budget=60.0)
    for _ in range(8):
        assert running.stdout.readline() == "tick\n"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 0 and out.endswith("done\n"), (out, err)
    found = Records(tmp_path / "records").scan()
    assert len(found.records) >= 3 and not found.foreign

"""Which options a kernel takes from records: of the same sizes, of near ones if the model agrees, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.options import Options
from tc.tuned.choice import distance, place_of, rescaled
from tc.tuned.records import Record, Records

F = np.float32
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
RENAMED = "def other(float(P,Q) X, float(Q,R) Y) -> (out) { out(a,b) +=! X(a,c) * Y(c,b) }"
FOUND = {"tile": [32, 16], "register_tile": [4, 16], "vector": 1}


def put(records: Path, sizes: dict[str, int], options: dict[str, Any] | None = None, **more: Any) -> Record:
    """A record which says that options beat the default at these sizes, on this machine."""
    kernel = tc.compile(MM, "cpu")
    place = place_of(kernel.front, kernel.backend_object, Options())
    assert place is not None
    values: dict[str, Any] = {
        "options": FOUND if options is None else options,
        "extents": place.key.extents(sizes),
        "loops": (sizes["M"], sizes["N"]),
        "sizes": sizes,
        "machine": place.machine,
        "program": place.key.digest,
        "backend": "cpu",
        "status": "ok",
        "origin": "confirm",
        "ns": (50,) * 7,
        "ref_ns": (100,) * 7,
        "time": 1.0,
    }
    r = Record(**{**values, **more})
    Records(records).append(r)
    return r


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


def chosen(
    source: str = MM, m: int = 64, k: int = 32, n: int = 48, **more: Any
) -> tuple[Options, tuple[str, ...]]:
    kernel = tc.compile(source, "cpu", **more)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), dtype=F), rng.standard_normal((k, n), dtype=F)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)
    names = kernel.front.checked.sizes
    made = kernel.specialize(**dict(zip(names, (m, k, n))))
    return made.options, kernel.notes


def test_the_same_sizes(records: Path) -> None:
    assert chosen() == (Options(), ())
    put(records, {"M": 64, "K": 32, "N": 48})
    options, notes = chosen()
    assert options == Options.from_mapping(FOUND)
    assert notes == (
        "at M = 64, K = 32, N = 48: tuned options (tile=[32, 16], register_tile=[4, 16], vector=1), "
        "from records",
    )
    assert chosen(RENAMED)[0] == options, "names do not matter"


def test_a_default_that_nothing_beats_is_said(records: Path) -> None:
    put(records, {"M": 64, "K": 32, "N": 48}, options={})
    options, notes = chosen()
    assert options == Options() and "the default options, which no others beat" in notes[0]


def test_near_sizes_if_the_model_agrees(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(records, {"M": 64, "K": 32, "N": 48})
    kernel = tc.compile(MM, "cpu")
    backend: Any = kernel.backend_object
    asked: list[Options] = []

    def predict(worse: float) -> Any:
        def cost(program: Any, options: Options) -> float:
            asked.append(options)
            return 1.0 if options == Options() else worse

        return cost

    monkeypatch.setattr(backend, "predict", predict(0.9))
    options, notes = chosen(m=128, n=24)
    assert options == Options(tile=(32, 16), register_tile=(4, 16), vector=1)
    assert "from records of near sizes (M = 64, K = 32, N = 48)" in notes[0] and asked
    monkeypatch.setattr(backend, "predict", predict(1.5))
    assert chosen(m=256) == (Options(), ())
    monkeypatch.setattr(backend, "predict", predict(0.9))
    assert chosen(m=64 * 2**9) == (Options(), ()), "too far"
    monkeypatch.setenv("TC_TUNED", "exact")
    assert chosen(m=130) == (Options(), ())
    assert chosen()[0] != Options()
    monkeypatch.setenv("TC_TUNED", "off")
    assert chosen() == (Options(), ())


def test_the_nearest_comes_first(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = tc.compile(MM, "cpu").backend_object
    monkeypatch.setattr(backend, "predict", lambda program, options: 1.0)
    put(records, {"M": 512, "K": 32, "N": 48}, {"unroll": 2})
    put(records, {"M": 128, "K": 32, "N": 48}, {"unroll": 4})
    put(records, {"M": 8, "K": 32, "N": 48}, {"unroll": 8})
    assert chosen(m=100)[0] == Options(unroll=4)
    assert distance((64, 32), (128, 8)) == 3 and distance((5,), (5,)) == 0


def test_what_the_model_got_wrong_there_it_gets_wrong_near_by(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It predicts options to take 1.5 times as long, which took half as long."""
    backend: Any = tc.compile(MM, "cpu").backend_object
    monkeypatch.setattr(backend, "predict", lambda program, options: 1.5 if options != Options() else 1.0)
    put(records, {"M": 64, "K": 32, "N": 48}, {"unroll": 4}, predicted=15.0)
    assert chosen(m=100) == (Options(), ()), "nothing is known of the default there"
    put(records, {"M": 64, "K": 32, "N": 48}, {}, predicted=10.0, origin="default", ns=(100,) * 7)
    assert chosen(m=100)[0] == Options(unroll=4)
    put(records, {"M": 64, "K": 32, "N": 48}, {"unroll": 4}, predicted=4.0, time=2.0)
    assert chosen(m=101)[0] == Options(), "it was right about them: they are worse here"


def test_farther_options_that_are_expected_to_be_faster(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend: Any = tc.compile(MM, "cpu").backend_object
    costs = {Options(): 1.0, Options(unroll=2): 0.8, Options(unroll=4): 0.79, Options(unroll=8): 1.2}
    monkeypatch.setattr(backend, "predict", lambda program, options: costs[options])
    put(records, {"M": 128, "K": 32, "N": 48}, {})
    assert chosen(m=100)[0] == Options()
    put(records, {"M": 256, "K": 32, "N": 48}, {"unroll": 2})
    assert chosen(m=101)[0] == Options(unroll=2)
    put(records, {"M": 512, "K": 32, "N": 48}, {"unroll": 4})
    assert chosen(m=102)[0] == Options(unroll=2), "a hundredth is no reason to go farther"
    put(records, {"M": 120, "K": 32, "N": 48}, {"unroll": 8})
    assert chosen(m=103)[0] == Options(unroll=2)


def test_tiles_are_rescaled() -> None:
    whole = Options(tile=(64, 16), vector=1)
    assert rescaled(whole, (64, 48), (200, 48)).tile == (200, 16)
    assert rescaled(whole, (64, 48), (32, 8)).tile == (32, 8)
    assert rescaled(Options(tile=(128,)), (64,), (32,)).tile == (32,)
    assert rescaled(whole, (64,), (1, 2)) == whole and rescaled(Options(), (1,), (2,)) == Options()


NOT_OURS: dict[str, dict[str, Any]] = {
    "machine": {"machine": "ffff"},
    "backend": {"backend": "opencl"},
    "program": {"program": "00" * 32},
    "fixed": {"fixed": {"isa": "avx2"}},
    "values": {"values": (3,)},
    "dynamic": {"dynamic": ("0",)},
    "status": {"status": "wrong"},
    "never won": {"origin": "random", "ref_ns": ()},
}


@pytest.mark.parametrize("more", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_records_that_say_nothing_about_this_kernel(records: Path, more: dict[str, Any]) -> None:
    put(records, {"M": 64, "K": 32, "N": 48}, **more)
    assert chosen() == (Options(), ())


def test_options_that_somebody_gave_are_kept(records: Path) -> None:
    put(records, {"M": 64, "K": 32, "N": 48})
    assert chosen(options=Options(unroll=2)) == (Options(unroll=2), ())
    put(records, {"M": 64, "K": 32, "N": 48}, {"fast_math": True, "unroll": 4}, fixed={"fast_math": True})
    assert chosen(options=Options(fast_math=True))[0] == Options(fast_math=True, unroll=4)


def test_options_that_are_no_longer_legal(records: Path) -> None:
    put(records, {"M": 64, "K": 32, "N": 48}, {"abacus": 3})
    assert chosen() == (Options(), ())
    put(records, {"M": 64, "K": 32, "N": 48}, {"threads": [32]}, time=2.0)
    options, _ = chosen()
    assert options in (Options(), Options(threads=(32,)))


def test_options_that_do_not_compile_any_more(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(records, {"M": 64, "K": 32, "N": 48})
    backend: Any = tc.compile(MM, "cpu").backend_object
    real = backend.compile

    def refuses(program: Any, options: Options, typical: Any) -> Any:
        if options.tile is not None:
            raise tc.BackendError("no such tiles", code="TC0809")
        return real(program, options, typical)

    monkeypatch.setattr(backend, "compile", refuses)
    monkeypatch.setenv("TC_CACHE", "0")
    from tc.kernel import CACHE

    CACHE.clear()
    options, notes = chosen()
    assert options == Options() and notes[0].endswith("which are of no use: no such tiles")


def test_a_directory_of_rubbish_disturbs_nobody(records: Path) -> None:
    records.mkdir()
    (records / "a.jsonl").write_bytes(
        b"\xff" * 100 + b"\n" + b"[" * 50_000 + b"\n{}\n" + json.dumps([1]).encode()
    )
    (records / "b.jsonl").mkdir()
    put(records, {"M": 64, "K": 32, "N": 48})
    assert chosen()[0] == Options.from_mapping(FOUND)


def test_records_are_read_again_when_they_change(records: Path) -> None:
    put(records, {"M": 64, "K": 32, "N": 48})
    first, _ = chosen()
    put(records, {"M": 64, "K": 32, "N": 48}, {"unroll": 4}, time=2.0)
    second, _ = chosen()
    assert (first, second) == (Options.from_mapping(FOUND), Options(unroll=4))


def test_an_invalid_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_TUNED", "always")
    with pytest.raises(tc.ArgumentError, match="TC_TUNED='always'") as e:
        chosen()
    assert e.value.code == "TC0512"


def test_the_model_is_asked_once_for_each_set_of_options(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend: Any = tc.compile(MM, "cpu").backend_object
    asked: list[Options] = []

    def predict(program: Any, options: Options) -> float:
        asked.append(options)
        return 1.0 if options == Options() else 0.9

    monkeypatch.setattr(backend, "predict", predict)
    for m in (64, 128, 256, 512):
        put(records, {"M": m, "K": 32, "N": 48}, {"unroll": 4})
    assert chosen(m=100)[0] == Options(unroll=4)
    assert sorted(map(str, asked)) == sorted(map(str, (Options(), Options(unroll=4))))

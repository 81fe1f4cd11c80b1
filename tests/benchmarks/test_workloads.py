"""The workloads: their programs compile, and every spelling gives what the interpreter gives."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from benchmarks import peers
from benchmarks.agreement import compare
from benchmarks.spellings import alternatives, families
from benchmarks.workloads import CASES, LOOPS, POLYBENCH, PROGRAMS, REPORT, draw, find, select
from benchmarks.workloads.general import GENERAL
from benchmarks.workloads.model import Case, Workload

IDS = [case.name for case in CASES]
# One of each family that is said in indices, and some more.
DRAWN = [case for case in draw(5, 40) if case.family in GENERAL]
ALL = [*CASES, *PROGRAMS, *DRAWN]
ALL_IDS = [case.name for case in ALL]


def means(workload: Workload, args: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return as_tuple(tc.interpret(workload.source, *args))


def as_tuple(results: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(r) for r in (results if isinstance(results, tuple | list) else (results,)))


@pytest.mark.share(18)
@pytest.mark.parametrize("case", [*ALL, *LOOPS, *POLYBENCH], ids=lambda c: c.name)
def test_compiles_and_has_consistent_inputs(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(case.workload().source, backend="reference")
    takes = kernel._signature.params
    for workload in (case.workload(), case.workload(tiny=True)):
        sizes: dict[str, int] = {}
        assert [a.name for a in workload.inputs] == [p.name for p in takes]
        for array, param in zip(workload.inputs, takes, strict=True):
            for dim, extent in zip(param.dims, array.shape, strict=True):
                assert sizes.setdefault(str(dim), extent) == extent
        assert all(min(shape) > 0 for shape in kernel.output_shapes(**sizes).values() if shape)
        assert workload.flops >= 0 and workload.read_bytes() >= 0
        assert set(workload.rotate) <= {a.name for a in workload.inputs}


@pytest.mark.parametrize("case", ALL, ids=ALL_IDS)
def test_torch_and_numpy_agree_with_the_interpreter(case: Case) -> None:
    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    wanted = means(workload, args)
    contestants = [peers.Torch(), peers.Torch(other=True), peers.NumPy(), peers.Judge()]
    for contestant in contestants:
        if not contestant.handles(workload):
            continue
        made = contestant.make(workload)
        found = made.call(*made.convert(args))
        results = [made.numpy(r) for r in (found if isinstance(found, tuple | list) else (found,))]
        if contestant.name == "judge":
            # In float64; literals of a float32 program are float32, so no more digits agree.
            results = [r.astype(w.dtype) for r, w in zip(results, wanted, strict=True)]
        assert compare([np.asarray(r) for r in results], wanted, workload.terms) is None, contestant.name


@pytest.mark.share(18)
@pytest.mark.parametrize(
    "case", {c.family.__name__: c for c in ALL}.values(), ids=lambda c: c.family.__name__
)
def test_jax_agrees_with_the_interpreter(case: Case) -> None:
    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    import jax

    with jax.enable_x64(any(a.dtype == "float64" for a in workload.inputs)):
        found = jax.jit(peers.spelled("jax", workload))(*(jax.numpy.asarray(a) for a in args))
    assert compare(as_tuple(found), means(workload, args), workload.terms) is None


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c.workload(tiny=True).family in families("numba")])
def test_numba_agrees_with_the_interpreter(case: Case) -> None:
    pytest.importorskip("numba")
    from benchmarks.spellings import with_numba

    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    found = getattr(with_numba, workload.family)(*args)
    assert compare(as_tuple(found), means(workload, args), workload.terms) is None


def test_every_family_has_its_spellings() -> None:
    known = {c.workload(tiny=True).family for c in ALL}
    loops, suite = ({c.workload(tiny=True).family for c in some} for some in (LOOPS, POLYBENCH))
    assert families("torch") == families("jax") == known | loops
    assert loops | suite < families("numpy") < known | loops | suite
    assert loops | suite < families("numba") < known | loops | suite
    assert alternatives("torch") < known
    assert alternatives("jax") < loops
    from benchmarks.spellings import with_torch

    assert with_torch.PREPARE.keys() <= alternatives("torch")


def test_names_are_unique_and_the_report_is_complete() -> None:
    assert len(set(IDS)) == len(IDS)
    names = [c.name for c in (*LOOPS, *POLYBENCH)]
    assert len(set(names)) == len(names)
    assert len(REPORT) == 16
    assert [c.name for c in select("report", ["softmax"])] == ["softmax 1024,1024"]
    assert select(None, ["no such case"]) == []


def test_a_case_is_found_by_its_key() -> None:
    for case in (*ALL, *LOOPS, *POLYBENCH):
        for one in (case, replace(case, double=True)):
            assert find(one.key).workload() == one.workload()


@pytest.mark.share(36)
@pytest.mark.parametrize("case", [*ALL, *LOOPS], ids=lambda c: c.name)
def test_every_case_is_one_of_float64_too(case: Case) -> None:
    workload, single = replace(case, double=True).workload(tiny=True), case.workload(tiny=True)
    kinds = {a.dtype for a in single.inputs}
    assert {a.dtype for a in workload.inputs} == {"float64" if k == "float32" else k for k in kinds}
    assert workload.read_bytes() >= single.read_bytes()
    args = tuple(workload.arrays(3).values())
    wanted = means(workload, args)
    assert not any(w.dtype == np.float32 for w in wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        found = as_tuple(tc.compile(workload.source, backend="cpu")(*args))
    assert compare(list(found), wanted, workload.terms) is None


def test_cases_at_random_follow_from_the_seed_and_are_affordable() -> None:
    few, more = draw(3, 10), draw(3, 30)
    assert few == more[:10] != draw(4, 10)
    assert {c.family for c in draw(3, 200)} >= set(GENERAL)
    assert any(c.family not in GENERAL for c in more)
    for workload in (c.workload() for c in more):
        assert workload.flops <= 1e9 and workload.read_bytes() + workload.result_bytes <= 96 << 20


def test_drawn_images_are_not_smaller_than_a_window() -> None:
    computed = {c.family for c in CASES if c.workload().flops}
    assert all(c.workload().flops for c in draw(77, 50) if c.family in computed)


@pytest.mark.parametrize(
    "key", ["contraction:ab,bc->ac@3,4", "broadcast:ba,a,b->ab@3,4", "stencil:disc@1,9,9"]
)
def test_what_no_family_can_make_is_refused(key: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        find(key).workload()


def test_inputs_follow_from_the_seed_and_the_turn() -> None:
    lut = find("lut@50,4,3,5").workload()
    table, indices = lut.inputs
    assert np.array_equal(table.make(7), table.make(7))
    assert not np.array_equal(table.make(7), table.make(8))
    assert not np.array_equal(indices.make(7, 1), indices.make(7, 2))
    assert indices.make(7).min() >= 0 and indices.make(7).max() < 50
    assert abs(float(table.make(7).max())) <= 1


def test_rotation_goes_beyond_the_cache() -> None:
    lut = find("lut@1000000,64,128,50").workload()
    assert lut.read_bytes() == 128 * 50 * 64 * 4 + 128 * 50 * 4
    assert lut.turns(1 << 27) * 128 * 50 * 64 * 4 >= 1 << 27
    assert find("add@10").workload().turns(1 << 27) == 1

"""Every program of the seeds and of the original's tests, on every backend, against NumPy and the oracle."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

import tc
from fuzz.isas import available_isas
from tc import errors
from tests.conformance.cases import REJECTED, SEEDS, Case
from tests.conformance.upstream import UPSTREAM
from tests.share import ALL

BACKENDS = ("reference", "cpu")
CASES = {c.name: c for c in [*SEEDS, *UPSTREAM]}
RUNS = [(c.name, t) for c in CASES.values() for t in c.dtypes]
# Of other types than the first of each program, which mostly is float32, a third, which take turns.
USUAL = {
    (c.name, t)
    for k, c in enumerate(CASES.values())
    for n, t in enumerate(c.dtypes)
    if n == 0 or (k + n) % 3 == 0
}
# OpenCL's compiler takes a tenth of a second for each: every third program, in types that take turns.
SAMPLE = {(c.name, c.dtypes[k % len(c.dtypes)]) for k, c in enumerate(list(CASES.values())[::3])}
# Halide's takes two: every program, in types that take turns.
ON_HALIDE = {(c.name, c.dtypes[k % len(c.dtypes)]) for k, c in enumerate(CASES.values())}


def arguments(
    case: Case, dtype: str, exact: bool, seed: int = 0
) -> tuple[tc.Kernel, dict[str, Any], dict[str, Any]]:
    """A compiled kernel, its arguments, and the buffers of in/out results."""
    source = case.source.replace("{T}", dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(source, "reference", case.entry)
    rng = np.random.default_rng(seed)

    def array(shape: tuple[int, ...], t: np.dtype[Any], limit: int | None) -> np.ndarray[Any, Any]:
        if limit is not None:
            return rng.integers(0, limit, shape).astype(t)
        if t.kind == "b":
            return rng.integers(0, 2, shape).astype(t)
        if t.kind in "iu" or exact:
            return rng.integers(0 if t.kind == "u" else -3, 4, shape).astype(t)
        return rng.standard_normal(shape).astype(t)

    from tc.lang import resolved as r

    front = kernel.front
    given: dict[str, Any] = {}
    for p in front.checked.params:
        if isinstance(p, r.ScalarParam):
            given[p.name] = case.scalars[p.name]
        else:
            shape = tuple(case.sizes[d.name] if isinstance(d, r.Size) else d.value for d in p.dims)  # type: ignore[union-attr]
            given[p.name] = array(shape, np.dtype(front.typed.dtype(p).name), case.limits.get(p.name))
    scalars = {n: int(case.scalars[n]) for n in front.specialized}
    shapes = kernel.output_shapes(**{n: case.sizes[n] for n in front.checked.sizes}, **scalars)
    buffers = {
        x.name: array(shapes[x.name], np.dtype(front.typed.dtype(x.tensor).name), None)
        for x in front.checked.returns
        if x.name in case.inout
    }
    return kernel, given, buffers


def exact_types(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments for the NumPy formula: wide enough that nothing rounds or wraps."""

    def widen(v: Any) -> Any:
        a = np.asarray(v)
        return (
            a.astype(np.float64) if a.dtype.kind == "f" else a.astype(np.int64) if a.dtype.kind in "iu" else a
        )

    return {k: widen(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}


def results(value: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(v) for v in value] if isinstance(value, tuple) else [np.asarray(value)]


def some(chosen: set[tuple[str, str]]) -> pytest.MarkDecorator:
    """All programs in all types; those that are not chosen are marked as slow."""
    params = [pytest.param(*r, id="-".join(r), marks=() if r in chosen else pytest.mark.slow) for r in RUNS]
    return pytest.mark.parametrize(("name", "dtype"), params)


def kinds(name: str, dtype: str) -> tuple[bool, ...]:
    """Exact data, and any: both of float32, and of other types one of them unless all tests are asked for."""
    both = ALL or dtype == "float32"
    return (True, False) if both else (zlib.crc32(f"{name} {dtype}".encode()) % 2 == 0,)


@pytest.mark.share(24)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@some(USUAL)
def test_programs(name: str, dtype: str) -> None:
    for exact in kinds(name, dtype):
        check(CASES[name], dtype, exact, BACKENDS)


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.share(60)
@pytest.mark.parametrize("isa", available_isas()[1:])  # the widest is what the tests above run
@pytest.mark.parametrize(("name", "dtype"), RUNS, ids=["-".join(r) for r in RUNS])
def test_programs_on_other_instruction_sets(name: str, dtype: str, isa: str) -> None:
    check(CASES[name], dtype, dtype != "float32", ("cpu",), {"isa": isa})


@pytest.mark.share(24)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@some(ON_HALIDE)
def test_programs_on_halide(name: str, dtype: str) -> None:
    for exact in kinds(name, dtype):
        check(CASES[name], dtype, exact, ("halide",))


@pytest.mark.share(12)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@some(SAMPLE)
def test_programs_on_opencl(name: str, dtype: str) -> None:
    check(CASES[name], dtype, dtype != "float32", ("opencl",))


def check(
    case: Case, dtype: str, exact: bool, backends: tuple[str, ...], options: dict[str, Any] | None = None
) -> None:
    if not exact and dtype.startswith("int"):
        exact = True  # integers have one kind of data: vary the seed instead
        kernel, given, buffers = arguments(case, dtype, exact, seed=1)
    else:
        kernel, given, buffers = arguments(case, dtype, exact)
    wide = exact_types({**given, **buffers})
    with np.errstate(all="ignore"):
        formula = results(case.expect(**wide))
    oracle = results(
        tc.interpret(
            kernel.source,
            **given,
            entry=case.entry,
            out={k: v.copy() for k, v in buffers.items()} or None,
            exact=True,
        )
    )
    for want, found in zip(formula, oracle, strict=True):
        compare(
            case,
            np.asarray(want),
            found.astype(np.float64),
            np.dtype(np.float64),
            found.dtype,
            exact,
            "oracle",
        )
    for backend in backends:
        runner = tc.compile(kernel.source, backend, case.entry, options=options)
        out = {k: v.copy() for k, v in buffers.items()} or None
        computed = results(runner(**given, out=out))
        for want, found in zip(oracle, computed, strict=True):
            compare(case, want, found, found.dtype, found.dtype, exact, backend)


def compare(
    case: Case,
    want: np.ndarray[Any, Any],
    found: np.ndarray[Any, Any],
    precision: np.dtype[Any],
    kind: np.dtype[Any],
    exact: bool,
    who: str,
) -> None:
    assert found.shape == want.shape, who
    if kind.kind in "iub":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found.astype(kind), want.astype(np.int64).astype(kind), who)
        return
    if exact and case.exact:
        np.testing.assert_array_equal(found, want.astype(precision), who)
        return
    bound = case.ulps * float(np.finfo(precision).eps) * np.maximum(1, np.abs(want.astype(np.float64)))
    gap = np.abs(found.astype(np.float64) - want.astype(np.float64))
    same = (found == want) | (np.isnan(found) & np.isnan(want))
    assert np.all(same | (gap <= bound)), f"{who}: off by {np.nanmax(gap / bound) * case.ulps:.3g} ulps"


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(("place", "source", "error", "code", "why"), REJECTED, ids=[x[0] for x in REJECTED])
def test_rejected_programs_of_the_seeds(place: str, source: str, error: str, code: str, why: str) -> None:
    with pytest.raises(getattr(errors, error)) as e:
        tc.compile(source, "reference")
    assert e.value.code == code, f"{why}\n{e.value}"

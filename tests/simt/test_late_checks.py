"""Checks that are reported behind loops: kernels of cuda on the shim and of opencl on PoCL give the results
of the interpreter, and the message of the reference backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
from tc.instances.failures import out_of_range
from tests.simt import shim as simt
from tests.simt.mapped import Array, prepared

TILED: Mapping[str, Any] = {"tile": (4, 16, 8), "threads": (16, 4), "use_shared_memory": True}
POINTS: Mapping[str, Any] = {"tile": (4, 32), "threads": (16, 2), "use_private_memory": True}
LANES: Mapping[str, Any] = {"tile": (4, 32), "threads": (32, 4), "use_shared_memory": False}
ROWS = "def f(float(E,D) t, int32(B,L) ix) -> (y) { y(b,d) +=! t(ix(b,l), d) }"
SIZES = {"E": 11, "D": 32, "B": 8, "L": 16}


@dataclass(frozen=True)
class Lookup:
    """A program, one of whose indices, `ix` at `bad`, is then made wrong.  `late`: whether a kernel notes
    checks; `free`: the variables of the threads that find the same index."""

    source: str
    sizes: Mapping[str, int]
    bad: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    free: frozenset[str] = frozenset("d")
    late: bool = True

    def given(self) -> dict[str, Array]:
        rng = np.random.default_rng(0)
        least = min(self.sizes["E"], self.sizes.get("F", 99))
        made: dict[str, Array] = {}
        for p in tc.compile(self.source, "reference").front.checked.params:
            shape = [self.sizes[d.name] for d in p.dims]
            whole = p.name in ("ix", "jx")
            made[p.name] = rng.integers(0, least, shape).astype("i4" if whole else "f4")
        return made


LOOKUPS = {
    "lanes": Lookup(ROWS, SIZES, (5, 3), LANES),
    "several points": Lookup(ROWS, SIZES, (7, 15), POINTS),
    "shared copies": Lookup(ROWS, SIZES, (4, 9), TILED),
    "partial tiles": Lookup(ROWS, {"E": 11, "D": 19, "B": 5, "L": 13}, (4, 12), TILED),
    "all lanes of a row": Lookup(
        "def f(float(E) t, int32(B,L) ix) -> (y) { y(b) +=! t(ix(b,l)) }",
        {"E": 9, "B": 3, "L": 500},
        (2, 499),
    ),
    "conditions": Lookup(
        "def f(float(E,D) t, int32(B,L) ix) -> (y) { y(b,d) +=! l % 2 == 1 ? t(ix(b,l), d) : 1.0 }",
        SIZES,
        (5, 3),
        LANES,
    ),
    "two dimensions": Lookup(
        "def f(float(E,F) t, int32(B,L) ix, int32(B,L) jx) -> (y) { y(b) +=! t(ix(b,l), jx(b,l)) }",
        {"E": 7, "F": 9, "B": 40, "L": 6},
        (31, 5),
    ),
    "two tensors": Lookup(
        "def f(float(E) t, float(F) u, int32(B,L) ix, int32(B,L) jx) -> (y) {"
        " y(b) +=! t(ix(b,l)) * u(jx(b,l)) }",
        {"E": 7, "F": 9, "B": 40, "L": 6},
        (31, 5),
    ),
    "places of places": Lookup(
        "def f(float(E) t, int32(E) jx, int32(B,L) ix) -> (y) { y(b) +=! t(jx(ix(b,l))) }",
        {"E": 9, "B": 40, "L": 6},
        (39, 0),
    ),
    "scatter": Lookup(
        "def f(float(E,D) t, int32(B,L) ix) -> (y) {\n y(e,d) = t(e,d)\n"
        " y(ix(b,l),d) += 1.0 where d in 0:D }",
        {"E": 9, "D": 33, "B": 6, "L": 7},
        (5, 6),
    ),
    "one read of a thread": Lookup(
        "def f(float(E,D) t, int32(B) ix) -> (y) { y(b,d) = t(ix(b), d) }",
        {"E": 9, "B": 40, "D": 6},
        (7,),
        late=False,
    ),
    "made before": Lookup(
        "def f(float(E,D) t, int32(B,L) ix) -> (y) { k(b,l) = max(ix(b,l), -7)\n y(b,d) +=! t(k(b,l), d) }",
        SIZES,
        (5, 3),
    ),
}
HOST = Lookup(
    "def f(float(E,D) t, int32(B,L) ix) -> (y) {\n y(b,d) = 0.0 where b in 0:B\n"
    " for k in 0:3 { y(b,d) += t(ix(b,l), d) }\n}",
    SIZES,
    (5, 3),
    free=frozenset("dk"),
)
WRONG = (-1, 1 << 20, -(1 << 31))


def message(case: Lookup, given: Mapping[str, Array]) -> str:
    with pytest.raises(tc.BoundsError) as caught:
        tc.compile(case.source, "reference")(**given)
    return caught.value.message


def assert_same(case: Lookup, told: str, wanted: str) -> None:
    """Two messages are the same but for variables that are free."""

    def parts(m: str) -> tuple[str, list[str]]:
        what, _, where = m.partition(", at ")
        return what, [p for p in where.split(", ") if p.partition(" = ")[0] not in case.free]

    assert parts(told) == parts(wanted)


@pytest.mark.share(8)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("dynamic", [False, True], ids=["sizes", "dynamic"])
@pytest.mark.parametrize("name", LOOKUPS)
def test_cuda_on_the_shim(name: str, dynamic: bool) -> None:
    case, given = LOOKUPS[name], LOOKUPS[name].given()
    kernel = tc.compile(
        case.source, "cuda", options=case.options, dynamic=tuple(case.sizes) if dynamic else ()
    )
    call = prepared(kernel, given)
    result = call.run()
    assert not result.found, simt.report(result.found)
    assert not result.error[0]
    np.testing.assert_allclose(result.values["y"], np.asarray(tc.interpret(case.source, **given)), rtol=1e-5)
    for value in WRONG:
        given["ix"][case.bad] = value
        result = call.run(orders=("ascending", "descending"))
        assert not result.found, simt.report(result.found)
        number, told, count, *rest = result.error.tolist()
        record = (number - 1, told, tuple(rest[:count]), rest[count])
        site = call.nest.sites[number - 1]
        error = out_of_range(site, None, {}, record)
        what, limits = message(case, given).split(" (", 1)
        assert_same(case, error.message.replace(" (0 to -1)", ""), what + limits[limits.index(")") + 1 :])


@pytest.mark.share(8)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("dynamic", [False, True], ids=["sizes", "dynamic"])
@pytest.mark.parametrize("name", [*LOOKUPS, "loops of the host"])
def test_opencl_on_pocl(name: str, dynamic: bool) -> None:
    case = LOOKUPS.get(name, HOST)
    given = case.given()
    sizes = tuple(case.sizes) if dynamic else ()
    kernel = tc.compile(case.source, "opencl", options=case.options, dynamic=sizes)
    wanted = np.asarray(tc.interpret(case.source, **given))
    np.testing.assert_allclose(kernel(**given), wanted, rtol=1e-5)
    for value in WRONG:
        given["ix"][case.bad] = value
        with pytest.raises(tc.BoundsError) as caught:
            kernel(**given)
        assert_same(case, caught.value.message, message(case, given))


@pytest.mark.share(8)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", LOOKUPS)
def test_loads_of_rows_do_not_wait_for_each_other(name: str) -> None:
    case = LOOKUPS[name]
    text = tc.compile(case.source, "cuda", options=case.options).inspect("code", **case.sizes)
    assert ("bool failed" in text) == case.late


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_subscripts_that_change_in_the_loop_are_reported_where_they_are_read() -> None:
    source = "def f(int32(E) t, int32(N,M) q) -> (p) { p(i,j) = t(p(i,j)) + q(i,j) }"
    options = {"tile": (4, 64), "threads": (32,), "use_shared_memory": False}
    given = {"t": np.array([2, 0, 1], "i4"), "q": np.zeros((6, 64), "i4")}
    places = np.arange(6 * 64, dtype="i4").reshape(6, 64) % 3
    call = prepared(tc.compile(source, "cuda", options=options), given, {"p": places})
    assert "tc_fail" in call.module.text and "bool failed" not in call.module.text
    np.testing.assert_array_equal(call.run().values["p"], given["t"][places])
    places[5, 20] = -3
    error = prepared(tc.compile(source, "cuda", options=options), given, {"p": places}).run().error
    assert error[1:6].tolist() == [-3, 2, 5, 20, 0]
    with pytest.raises(tc.BoundsError, match=r"index -3 .* at i = 5, j = 20"):
        tc.compile(source, "opencl", options=options)(**given, out={"p": places})

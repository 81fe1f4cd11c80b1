"""Long functions after long reductions: when they run in a loop, over which tiles, and their results."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.loops import For, LoopKind, LoopNest, statements
from tc.ir.printer import nest_text
from tests.backends.cpu_cases import backend, compiled, isas, results

compiled("def f(float(N) A) -> (B) { B(i) = A(i) }")  # imports the backend
isa = sys.modules["tc_backends.cpu.isa"]
MACHINE = backend.Machine(isa.AVX512, 2, 48 << 10, 2 << 20, 105 << 20, 12, 16, l2_bandwidth=26.0)
SIZES = {"M": 64, "N": 96, "K": 512}


def product(*after: str, t: str = "float", more: str = "") -> str:
    lines = "\n".join(after)
    return f"""def f({t}(M,K) X, {t}(N,K) W, {t}(N) b{more}) -> (Y) {{
  Y(i,j) +=! X(i,k) * W(j,k)
  {lines}
}}"""


GELU = product("Y(i,j) = 0.5 * (Y(i,j) + b(j)) * (1.0 + erf((Y(i,j) + b(j)) * 0.70710678))")


def loops(source: str, own: Any = MACHINE, sizes: dict[str, int] = SIZES) -> LoopNest:
    program = tc.compile(source, "cpu").program(sizes)
    nest = backend.code_of(program, own, tc.Options()).nest
    assert isinstance(nest, LoopNest)
    return nest


def tiles(nest: LoopNest) -> list[str]:
    """The register tiles of results before and after the function; the tiles of sums in parts are others."""
    return [a.name for a in nest.arrays if a.role == "register" and a.partial_of is None]


def test_a_long_function_runs_in_a_loop() -> None:
    nest = loops(GELU)
    text = nest_text(nest)
    assert len(tiles(nest)) == 2, text  # one for the element that two reads share, one for the result
    assert all(np.prod([int(n) for n in x.split(".")[-1].split("x")]) >= 16 * 16 for x in tiles(nest))
    inside = [s for s in statements(nest.body) if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    assert any("S2.out" not in str(s) and "erf" in str(s) and "S1" not in str(s) for s in inside)
    # The accumulators are copied once each, and arrays that are only read are read in place.
    assert len(re.findall(r"S2\.in: ", text)) == len(re.findall(r"S2\.out: ", text))
    assert not re.search(r"registers [^\n]*\bb\b", text)


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (product("Y(i,j) = fmax(Y(i,j) + b(j), 0.0)"), SIZES),  # not long
        (GELU, {**SIZES, "K": 64}),  # after too short a reduction
        (GELU, {**SIZES, "M": 2, "N": 16}),  # of few vectors
    ],
)
def test_short_epilogues_stay_unrolled(source: str, sizes: dict[str, int]) -> None:
    nest = loops(source, sizes=sizes)
    assert not tiles(nest) and ".in: " not in nest_text(nest)


AFTER = {
    "gelu": GELU,
    "two": product("Z(i,j) = tanh(Y(i,j) + b(j))", "V(i,j) = erf(Z(i,j) * Y(i,j)) + Z(i,j)").replace(
        "-> (Y)", "-> (V, Y, Z)"
    ),
    "local": product("Z(i,j) = tanh(Y(i,j) + b(j))").replace("-> (Y)", "-> (Z)"),
    "turned": product("Z(j,i) = erf(Y(i,j)) * b(j)").replace("-> (Y)", "-> (Z)"),
    "beside": product("Y(i,j) = erf(Y(i,j)) + G(i,j)", more=", float(M,N) G"),
    "of data": product("Y(i,j) = tanh(Y(i,j) + b(p(j)))", more=", int32(N) p"),
    "chosen": product("Y(i,j) = Y(i,j) > 0.0 ? erf(Y(i,j)) : tanh(Y(i,j) * b(j))"),
    "edges": product("Y(i,j) = i > 2 && j < N - 3 ? erf(Y(i,j)) : tanh(Y(i,j) * b(j))"),
    "halves": product("Y(i,j) = erf(Y(i,j)) * b(j)", t="half"),
    "double": product("Y(i,j) = tanh(Y(i,j) * b(j))", t="double"),
    "two sums": """def f(float(M,K) X, float(N,K) W, float(N) b) -> (Z) {
  U(i,j) +=! X(i,k) * W(j,k)
  V(i,j) max=! X(i,k) + W(j,k)
  Z(i,j) = tanh(U(i,j) * 0.1) * erf(V(i,j) + b(j))
}""",
}


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.share(36)
@pytest.mark.parametrize(
    ("name", "level"),
    [*((n, isas()[0]) for n in AFTER), *((n, i) for i in isas()[1:] for n in ("gelu", "turned"))],
)
def test_results_are_those_of_unrolled_code(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, where tiles divide the loops and where they do not."""
    source = AFTER[name]
    epilogues = sys.modules["tc.transforms.loops.epilogues"]
    rng = np.random.default_rng(1)
    for m, n, k in ((48, 48, 260), (37, 53, 270)):
        kind = {"halves": np.float16, "double": np.float64}.get(name, np.float32)
        given: list[Any] = [rng.standard_normal(s).astype(kind) / 8 for s in ((m, k), (n, k), (n,))]
        if name == "beside":
            given.append(rng.standard_normal((m, n)).astype(np.float32))
        if name == "of data":
            given.append(rng.integers(0, n, n).astype(np.int32))
        monkeypatch.setattr(epilogues, "_MOST", float("inf"))
        # The same machine in other words, so that another kernel is compiled.
        same = {"latency": sys.modules["tc_backends.cpu.target"].host().latency}
        plain = tc.compile(source, "cpu", options=tc.Options(isa=level, machine=same))
        wanted = results(plain(*given))
        assert ".in: " not in plain.inspect("loops", M=m, N=n, K=k)
        monkeypatch.setattr(epilogues, "_MOST", 10.0)
        kernel = tc.compile(source, "cpu", options=tc.Options(isa=level))
        found = results(kernel(*given))
        text = kernel.inspect("loops", M=m, N=n, K=k)
        if name not in ("of data", "chosen", "edges", "halves"):
            assert ".in: " in text
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(a, b)

"""Sums of products in parts: their form, and that they compute the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir import verify
from tc.ir.printer import text
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.pipeline import equivalence
from tc.pipeline import front as pipeline
from tc.transforms.program import partial_sums
from tc.transforms.program.partial_sums import PartialSums, sum_in_parts

# Of each: the statement, and its stages as the result and the variables of reductions.
IN_PARTS = {
    "a chain of matrices": (
        "y(i,l) +=! A(i,j) * B(j,k) * C(k,l)",
        ["y_part(i, k) + j", "y(i, l) + k"],
    ),
    "the cheapest order": (
        "y(i) +=! A(i,j) * B(j,k) * c(k)",
        ["y_part(j) + k", "y(i) + j"],
    ),
    "a sum of one factor": ("y(i,l) +=! X(i,j,k) * B(j,l)", ["y_part(i, j) + k", "y(i, l) + j"]),
    "two sums": ("y(i) +=! A(i,j) * B(i,k)", ["y_part(i) + j", "y(i) + k"]),
    "each of three": (
        "y(a,b,d) +=! X(i,j,k) * A(a,i) * B(b,j) * C(d,k)",
        ["y_part(j, k, a) + i", "y_part_(k, a, b) + j", "y(a, b, d) + k"],
    ),
    "a separable filter": (
        "y(i,j) +=! c(p) * c(q) * A(i+p,j+q)",
        ["y_part(i, j_q) + p", "y(i, j) + q"],
    ),
    "one operand": (
        "y(i,j) +=! A(i+p,j+q) where p in 0:7, q in 0:7",
        ["y_part(i, j_q) + p", "y(i, j) + q"],
    ),
    "extremes": (
        "y(i,j) max=! A[clamp](i+p,j-q) where p in 0:7, q in 0:7, i in 0:9, j in 0:9",
        ["y_part(i, j_q) max p", "y(i, j) max q"],
    ),
    "a factor of the results": (
        "y(i,l) +=! c(i) * A(i,j) * B(j,k) * C(k,l)",
        ["y_part(i, k) + j", "y(i, l) + k"],
    ),
    "of each batch": (
        "y(i,b,d) +=! X(i,b,e) * X(i,j,e) * X(i,j,d)",
        ["y_part(i, b, j) + e", "y(i, b, d) + j"],
    ),
    "a condition on what is left": (
        "y(i,l) +=! A(i,j) * B(j,k) * C(k,l) where k <= i",
        ["y_part(i, k) + j", "y(i, l) + k"],
    ),
    "reads that a condition keeps inside": (
        "y(i,l) +=! A(i,j) * B(j,i-k) * C(k,l) where i in 0:K, k <= i",
        ["y_part(i, k) + j", "y(i, l) + k"],
    ),
    "into what is there": (
        "y(i,l) = A(i,l) y(i,l) += A(i,j) * B(j,k) * C(k,l)",
        ["y_part(i, k) + j", "y(i, l) + k"],
    ),
}
LEFT = {
    "one variable": "y(i,l) +=! A(i,k) * B(k,l) * c(k)",
    "as many points": "y(i,l) +=! X(i,j,k) * B(j,l) * C(k,l)",
    "a variable of no factor": "y(i) +=! A(i,j) where r in 0:2",
    "a condition": "y(i,l) +=! A(i,j) * B(j,k) * C(k,l) where k <= j",
    "a condition on part of it": "y(i,l) +=! A(i,j) * B(j,k) * C(k,l) where l <= i",
    "extremes of a product": "y(i,l) max=! A(i,j) * B(j,k) * C(k,l)",
    "what data choose": "y(i,l) +=! A(i,j) * B(j,at(k)) * C(k,l)",
}
SIZES = dict.fromkeys(("I", "J", "K", "L"), 20) | {"P": 7}
PARAMETERS = "{t}(I,J) A, {t}(J,K) B, {t}(K,L) C, {t}(I,J,K) X, {t}(P) c, int(P) at"


def program(statement: str, sizes: Mapping[str, int] = SIZES, t: str = "int") -> Program:
    source = f"def f({PARAMETERS.format(t=t)}) -> (y) {{ {statement} }}"
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    return specialize(built, {n: sizes[n] for n in built.sizes if n in sizes}, {})


def split(p: Program, typical: Mapping[str, int] = SIZES, *, constant: bool = False) -> tuple[Program, bool]:
    found, names = sum_in_parts(p, lambda c: c.pays, typical, constant)
    return found, names == ("y",)


def shown(p: Program) -> list[str]:
    """Each reduction: what it writes, its operator and its variables."""
    out: list[str] = []
    for s in p.stages:
        if s.op is not None:
            written = f"{p.func_buffers[s.func]}({', '.join(map(text, s.args))})"
            over = ", ".join(v.name for v in s.domain.vars if v.kind == "reduction")
            out.append(f"{written} {s.op} {over}")
    return out


@pytest.mark.parametrize("name", IN_PARTS)
def test_a_sum_in_parts(name: str) -> None:
    statement, stages = IN_PARTS[name]
    before = program(statement)
    after, changed = split(before)
    assert changed
    assert shown(after) == stages
    assert verify.program(after) == "structure"
    assert equivalence.same_results(before, after)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    before = program(LEFT[name])
    assert split(before) == (before, False)


def test_sizes_decide() -> None:
    """The order of a chain, and whether it pays at all."""
    statement = "y(i,l) +=! A(i,j) * B(j,k) * C(k,l)"
    tall = SIZES | {"I": 2}
    assert shown(split(program(statement, tall))[0])[0] == "y_part(i, k) + j"
    wide = SIZES | {"L": 2}
    assert shown(split(program(statement, wide), wide)[0])[0] == "y_part(j, l) + k"
    assert not split(program(statement, dict.fromkeys("IJKL", 2)))[1]


def test_of_dynamic_sizes_only_sums_of_variables_stay_apart() -> None:
    known = {n: v for n, v in SIZES.items() if n != "J"}
    filtered = "y(i,j) +=! c(p) * c(q) * A(i+p,j+q)"
    assert shown(split(program(filtered, known))[0]) == ["y_part(i_p, j) + q", "y(i, j) + p"]
    assert not split(program(filtered, {"P": 7}))[1]
    chain = program("y(i,l) +=! A(i,j) * B(j,k) * C(k,l)", known)
    assert shown(split(chain)[0]) == ["y_part(i, k) + j", "y(i, l) + k"]
    assert not split(chain, constant=True)[1]


def test_temporaries_are_no_larger_than_the_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = program("y(i,l) +=! A(i,j) * B(j,k) * C(k,l)")
    assert split(chain)[1]
    monkeypatch.setattr(partial_sums, "_SPARE", 0)
    monkeypatch.setattr(partial_sums, "bytes_of", lambda *_: 20 * 20)  # each of 7 arrays
    assert split(chain)[1]
    monkeypatch.setattr(partial_sums, "bytes_of", lambda *_: 20 * 10)
    assert not split(chain)[1]


def test_a_temporary_costs_its_traffic() -> None:
    stage = program(LEFT["one variable"]).stages[-1]
    assert PartialSums(stage, 100, 56, 1).pays
    assert not PartialSums(stage, 100, 57, 1).pays and not PartialSums(stage, 100, 20, 11).pays


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("t", ["float", "double", "int", "half"])
def test_results(t: str, backend: str) -> None:
    """To the bit, of small integers; of float16, which are rounded, a chain stays as it is.  On a GPU the
    work of short ones takes less than another launch."""
    dtype: Any = {"float": "f4", "double": "f8", "int": "i4", "half": "f2"}[t]
    g = np.random.default_rng(3)
    source = f"def f({t}(I,J) A, {t}(J,K) B, {t}(K,L) C) -> (y) {{ y(i,l) +=! A(i,j) * B(j,k) * C(k,l) }}"
    kernel = tc.compile(source, backend)
    for i, j, k, m in ((19, 23, 17, 29), (90, 70, 80, 60)):
        a, b, c = (g.integers(-1, 2, s).astype(dtype) for s in ((i, j), (j, k), (k, m)))
        np.testing.assert_array_equal(kernel(a, b, c), (a.astype("f8") @ b @ c).astype(dtype))
        parts = "y_part" in kernel.inspect("loops", I=i, J=j, K=k, L=m)
        assert parts == (t != "half" and (backend == "cpu" or i > 20))
    assert any("y is summed in parts" in n for n in kernel.notes) == (t != "half")

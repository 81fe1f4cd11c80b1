"""Interleaved copies of a dependence chain."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import compiled, isas

compiled("def f(float(N) A) -> (B) { B(i) = A(i) }")  # imports the backend
interleave = sys.modules["tc_backends.cpu.emit.interleave"]


def merged(*copies: str, **arrays: str) -> list[str]:
    """Interleaved copies, with short names for lines: `x = fadd a, b`, `store x, p`."""
    lines = [[f"  {line}" for line in c.strip().splitlines()] for c in copies]
    lines = [[re.sub(r" +", " ", x).replace(" ", "  ", 1) for x in c] for c in lines]
    return [x.strip() for x in interleave.interleaved(lines, {f"%{k}": v for k, v in arrays.items()})]


def chain(i: int, source: str = "p", target: str = "q") -> str:
    return f"""%a{i} = load float, ptr %{source}{i}, align 4
        %b{i} = fadd float %a{i}, 1.0
        %c{i} = fmul float %b{i}, %b{i}
        store float %c{i}, ptr %{target}{i}, align 4"""


def test_copies_alternate_instruction_by_instruction() -> None:
    found = merged(chain(0), chain(1), chain(2), p0="I", p1="I", p2="I", q0="O", q1="O", q2="O")
    assert [re.sub(r"\D", "", x.split(" = ")[0].split(",")[0])[:1] for x in found] == [*"012"] * 4
    assert [x.split(" = ")[-1].split()[0] for x in found[::3]] == ["load", "fadd", "fmul", "store"]


def test_loads_follow_stores_to_their_array_and_to_an_unknown_one() -> None:
    for arrays in ({"p0": "A", "p1": "A", "q0": "A", "q1": "A"}, {"p0": "A", "p1": "A"}):
        found = merged(chain(0), chain(1), **arrays)
        assert found.index("store float %c0, ptr %q0, align 4") < found.index(
            "%a1 = load float, ptr %p1, align 4"
        )


def test_pointers_into_a_known_array_are_tracked() -> None:
    first = "%p0 = getelementptr inbounds float, ptr %base, i64 8\n" + chain(0)
    second = "%p1 = getelementptr inbounds float, ptr %p0, i64 8\n" + chain(1)
    found = merged(first, second, base="I", q0="O", q1="O")
    assert found.index("%a1 = load float, ptr %p1, align 4") < found.index(
        "store float %c0, ptr %q0, align 4"
    )
    assert found.index("%p0 = getelementptr inbounds float, ptr %base, i64 8") < found.index(
        "%p1 = getelementptr inbounds float, ptr %p0, i64 8"
    )


def test_an_instruction_that_all_copies_use_comes_first() -> None:
    late = "%x = fadd float %m, 2.0\n%y = fadd float %x, 2.0\n%z = fadd float %y, 2.0"
    found = merged(late, "%w = fmul float %z, %z")
    assert found == [*(x.strip() for x in late.splitlines()), "%w = fmul float %z, %z"]


def test_accumulators_keep_their_order() -> None:
    """Sums of several copies in one register, which is a slot until LLVM promotes it."""
    add = """%o{0} = load float, ptr %slot7
        %s{0} = fadd float %o{0}, %v{0}
        store float %s{0}, ptr %slot7"""
    found = merged(add.format(0), add.format(1), add.format(2))
    assert [x for x in found if "slot7" in x] == [
        y for i in range(3) for y in (f"%o{i} = load float, ptr %slot7", f"store float %s{i}, ptr %slot7")
    ]


def test_copies_with_branches_are_not_interleaved() -> None:
    copies = ["%a = fadd float %x, 1.0\nbr label %next", "%b = fadd float %x, 2.0"]
    assert merged(*copies) == "\n".join(copies).split("\n")


@pytest.mark.share(36)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(
    "body",
    [
        "B(i,j) = exp(A(i,j))",
        "B(i,j) = exp(A(i,j)) B(i,j) = log1p(B(i,j)) * B(i,j)",  # one statement reads what the other wrote
        "S(i) +=! exp(A(i,j)) B(i,j) = pow(fabs(A(i,j)), S(i) / 200) / S(i)",
        "M(i) max=! A(i,j) B(i,j) = exp(A(i,j) - M(i)) S(i) +=! B(i,j) B(i,j) = B(i,j) / S(i)",
        "B(i,j) = A(i,j) > 0 ? tanh(A(i,j)) : A(i,j)",
    ],
)
@pytest.mark.parametrize("n", [7, 64, 131])
def test_results_are_those_of_the_interpreter(isa: str, body: str, n: int) -> None:
    outputs = ", ".join(x for x in "MSB" if f"{x}(" in body)
    source = f"def f(float(N,K) A) -> ({outputs}) {{ {body} }}"
    a = np.random.default_rng(n).normal(size=(5, n)).astype(np.float32)
    found = tc.compile(source, "cpu", options=tc.Options(isa=isa))(a)
    wanted = tc.interpret(source, a)
    single = len(outputs) == 1
    for x, y in zip((found,) if single else found, (wanted,) if single else wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


def test_exponentials_are_interleaved() -> None:
    """In the code of a loop: four times the first step, then four times the second."""
    kernel = tc.compile("def f(float(N) A) -> (B) { B(i) = exp(A(i)) }", "cpu").specialize(N=4096)
    assert "x4" in kernel.inspect("choice")
    text = kernel.inspect("llvm")
    kinds = re.findall(r"= (?:call <\d+ x float> @llvm\.)?(fma|fcmp olt|fsub|bitcast)", text)
    runs = [len(m[0]) for m in re.finditer(r"(F)\1*", "".join("F" if k == "fma" else "." for k in kinds))]
    assert min(runs) == 4

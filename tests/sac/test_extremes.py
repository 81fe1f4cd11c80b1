"""Deep nests, many axes, nothing at all, and long texts: right, or a clear error, soon."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tc

DEEP = 30


def sac(source: str, *args: Any) -> Any:
    return tc.compile(source, lang="sac", backend="reference")(*args)


def test_sums_in_sums() -> None:
    source = "1"
    for k in range(DEEP):
        source = f"sum({{ [i{k}] -> {source} | [i{k}] < [2] }})"
    assert sac(source) == 2**DEEP % 2**32


def test_selections_from_nested_comprehensions() -> None:
    source = "v[i]"
    for _ in range(DEEP):
        source = f"{{ [i] -> {source} + 1 | [i] < shape(v) }}[i]"
    source = f"{{ [i] -> {source} | [i] < shape(v) }}"
    np.testing.assert_array_equal(sac(source, np.arange(3.0)), np.arange(3.0) + DEEP)


def test_comprehensions_in_comprehensions() -> None:
    source = "v[i0]"
    for k in range(DEEP):
        source = f"{{ [i{k}] -> {source} | [i{k}] < [1] }}"
    assert sac(source, np.ones(1)).shape == (1,) * DEEP


def test_calls_in_calls() -> None:
    functions = ["double[*] f0(double[*] A) { return A + 1; }"]
    functions += [f"double[*] f{k}(double[*] A) {{ return f{k - 1}(A) + 1; }}" for k in range(1, DEEP)]
    np.testing.assert_array_equal(sac("\n".join(functions), np.zeros((2, 2))), np.full((2, 2), DEEP))


def test_calls_that_double_are_refused() -> None:
    functions = ["double f0(double a) { return a + 1; }"]
    functions += [
        f"double f{k}(double a) {{ return f{k - 1}(a) * f{k - 1}(a - 1); }}" for k in range(1, DEEP)
    ]
    with pytest.raises(tc.SemanticError) as e:
        sac("\n".join(functions), 1.0)
    assert e.value.code == "TC0265"


@pytest.mark.parametrize("rank", range(1, 9))
def test_ranks(rank: int) -> None:
    shape = (2, 1, 3, 1, 2, 1, 1, 2)[:rank]
    a = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    np.testing.assert_array_equal(sac("{ iv -> A[iv] + 1 }", a), a + 1)
    np.testing.assert_array_equal(sac("transpose(A)", a), a.T)
    along = "{ iv -> sum({ [j] -> A[iv ++ [j]] }) | iv < drop([-1], shape(A)) }"
    np.testing.assert_array_equal(sac(along, a), a.sum(-1))


@pytest.mark.share(12)
@pytest.mark.parametrize("rank", range(1, 9))
def test_nothing_of_every_rank(rank: int) -> None:
    for shape in itertools.islice(itertools.product((0, 2), repeat=rank), 2**rank - 1):
        if sum(shape) not in (0, 2, 2 * rank - 2):
            continue
        a = np.zeros(shape)
        inner = "with { (0*shape(A)+1 <= iv < shape(A)-1) : A[iv]+1; } : modarray(A)"
        for source in ("{ iv -> A[iv] + 1 }", inner, "reverse(A)") if rank < 6 else ("{ iv -> A[iv] + 1 }",):
            found = sac(source, a)
            assert found.shape == shape
        assert sac("sum(A)", a) == 0


def test_more_than_eight_axes() -> None:
    a = np.arange(2.0).reshape((1,) * 8 + (2,))
    np.testing.assert_array_equal(sac("{ iv -> A[iv] + 1 }", a), a + 1)


def test_long_vectors_and_many_partitions() -> None:
    np.testing.assert_array_equal(sac(f"[{', '.join(map(str, range(800)))}]"), np.arange(800))
    parts = "".join(f"[i] -> {k} | [{k}] <= [i] < [{k + 1}]; " for k in range(60))
    np.testing.assert_array_equal(sac(f"{{ {parts} iv -> 0 | iv < [70] }}"), [*range(60), *[0] * 10])


@pytest.mark.slow
def test_long_sources() -> None:
    with pytest.raises(tc.ParseError) as deep:
        sac("a + " * 200_000 + "a", 1)
    assert deep.value.code == "TC0153"
    assert sac("/*" + "x" * 1_000_000 + "*/ 1 + a", 2) == 3
    functions = "".join(f"int f{k}(int a) {{ return a + {k}; }}\n" for k in range(1000))
    assert sac(functions + "int main(int a) { return f999(a); }", 1) == 1000
    lets = "".join(f"x{k} = a + {k}; " for k in range(1000))
    assert sac(f"int main(int a) {{ {lets} return x9; }}", 1) == 10
    chain = "a = a + v[0]; " * 1500
    with pytest.raises(tc.SemanticError) as chained:
        sac(f"int main(int a, int[3] v) {{ {chain} return a; }}", 1, np.ones(3, np.int32))
    assert chained.value.code == "TC0265"

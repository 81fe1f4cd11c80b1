"""`show ranges` of SaC: frames, cells, bounds and which selections gave them."""

from __future__ import annotations

import numpy as np

import tc


def shown(source: str, **ranks: int) -> list[str]:
    kernel = tc.compile(source, lang="sac", backend="reference").at(**ranks)  # type: ignore[attr-defined]
    return kernel.inspect("ranges").splitlines()


def test_find_shapes() -> None:
    assert shown("{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }", A=2, B=2) == [
        "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }",
        "  frame [shape(A)[0], shape(B)[1]], cell []",
        "  [0, 0] <= [i,j] < [shape(A)[0], shape(B)[1]]",
        "    bounds of i by find-shapes from A[i, k]",
        "    bounds of j by find-shapes from B[k, j]",
        "  { [k] -> A[i,k] * B[k,j] }",
        "    frame [min(shape(A)[1], shape(B)[0])], cell []",
        "    [0] <= [k] < [min(shape(A)[1], shape(B)[0])]",
        "      bounds of k by find-shapes from A[i, k], B[k, j]",
        "",
        "A: [0, A_0), [0, A_1)",
        "B: [0, B_0), [0, B_1)",
        "result: [0, A_0), [0, B_1)",
    ]


def test_written_bounds_and_those_of_the_result() -> None:
    lines = shown("{ [i] -> 0 | [1] <= [i]; [i] -> i | . <= [i] < [3]; iv -> A[iv] | iv < shape(A) }", A=1)
    assert lines[1] == "  frame [shape(A)[0]], cell []"
    found = "\n".join(lines)
    assert "  [1] <= [i] < .\n    lower bound as written\n    upper bound '.', of the frame" in found
    assert "  [0] <= iv < [shape(A)[0]]\n    lower bound 0, since none is written" in found


def test_with_loops_and_dots() -> None:
    lines = shown("with { ([1] <= [i] < shape(v) - 1) : v[i - 1]; } : modarray(v)", v=1)
    assert lines[1:4] == [
        "  frame [shape(v)[0]], cell []",
        "  [1] <= [i] < [shape(v)[0] - 1]",
        "    lower bound as written",
    ]
    lines = shown("{ [i,.] -> A[i] + [1,2] | [i] < [n] }", A=1, n=(0, "int"))  # type: ignore[arg-type]
    assert lines[1] == "  frame [max(0, n), 2], cell []"


def test_of_each_rank() -> None:
    kernel = tc.compile("{ iv -> A[iv + 1] }", lang="sac", backend="reference")
    for rank in (1, 2, 3):
        at = kernel.at(A=rank)  # type: ignore[attr-defined]
        assert len(at.ranges["A"]) == len(at.ranges["result"]) == rank
        assert at.notes == ()
        assert at.ranges.at(**{f"A_{d}": 4 for d in range(rank)})["result"] == (tc.Range(0, 3),) * rank
        assert f"iv[{rank - 1}] by find-shapes" in at.inspect("ranges")
    kernel(np.zeros((2, 2)))
    assert len(kernel.ranges["A"]) in (1, 2, 3)

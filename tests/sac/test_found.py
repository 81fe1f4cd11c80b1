"""What random programs found: sources, arguments and what must come out, on a backend and in the oracle."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc

A = np.arange(6, dtype=np.int32).reshape(3, 2)
NONE = np.zeros((0, 5), np.int32)
FOUND: list[tuple[str, str, dict[str, Any], Any]] = [
    (
        "rows of data index single elements",
        "{ [i] -> A[B[[i]]] }",
        {"A": A, "B": np.array([[0, 1], [2, 0], [1, 1]], np.int32)},
        [1, 4, 3],
    ),
    (
        "a vector of as many elements as the array has axes indexes it",
        "int[*] f(int[.] iv, int[+] A) { return A[iv]; }",
        {"iv": np.array([2, 1], np.int32), "A": A},
        5,
    ),
    (
        "the oracle gave up the wrong one of two equal traces",
        "{ [i] -> sum({ [j] -> A[j, 0] }) + B[i] }",
        {"A": A, "B": A[0]},
        [6, 7],
    ),
    (
        "the first generator of a modarray does not say how long its index is",
        "with { (. <= iv <= .) : [7, 8]; ([0] <= jv < [1]); } : modarray(A)",
        {"A": A},
        [[7, 8]] * 3,
    ),
    ("a part that begins in one of two arrays", "drop(2, { iv -> A[iv] } ++ A)", {"A": A}, [A[2], *A]),
    ("a part of the last axes", "take([-1, 2], transpose(A ++ A))", {"A": A}, [[1, 3]]),
    (
        "a tile over the first axis in a choice",
        "n > 0 ? tile([2], [1], A) : take(2, A)",
        {"n": 1, "A": A},
        A[1:],
    ),
    (
        "nothing holds for any of no elements",
        "with { ([0] <= [i] < [n]) : true; } : fold(||, n > 0)",
        {"n": 0},
        False,
    ),
    (
        "three partitions of bounds that only sizes tell",
        "{ [i,j,k] -> 1 | take(3, shape(B)) <= [i,j,k] < take(3, shape(C)); "
        "[i,j,k] -> 2 | shape(D) <= [i,j,k] < shape(E); [i,j,k] -> 3 | shape(F) <= [i,j,k] < shape(G) }",
        {
            "B": np.zeros((1, 0, 1, 0), np.int32),
            "C": np.zeros((2, 9, 2, 1), np.int32),
            "D": np.zeros((0, 1, 0), np.int32),
            "E": np.zeros((3, 2, 9), np.int32),
            "F": np.zeros((0, 0, 1), np.int32),
            "G": np.zeros((3, 2, 2), np.int32),
        },
        [[[0, 3], [2, 2]], [[0, 1], [2, 1]], [[0, 3], [2, 2]]],
    ),
    (
        "a sum as long as an index of what is reshaped",
        "reshape([n, 2], { [i] -> sum({ [k] -> k | [k] < [i] }) | [i] < [n * 2] })",
        {"n": 2},
        [[0, 0], [1, 3]],
    ),
    (
        "an array below a condition that its own reads need",
        "{ [i] -> i < 2 ? { [j] -> A[i + 1, j] * 2 | [j] < [2] }[mod(i + n, 2)] : 0 | [i] < [4] }",
        {"A": A, "n": 1},
        [6, 8, 0, 0],
    ),
    (
        "rows of what is reshaped",
        "reshape([2], { [i] -> i < 1 ? A[i + 2][mod(n, 2)] : 0 | [i] < [2] })",
        {"A": A, "n": 1},
        [5, 0],
    ),
    (
        "four partitions of one axis, of bounds that many sizes tell",
        "{ iv -> A[iv]; [i] -> A[1] | [shape(B)[0]] <= [i]; [i] -> C[i, shape(C)[1] - 1 - i, 0] + D[i]; "
        "iv -> E[[iv[0], iv[0], 2 * iv[0]]] | [-1] < iv < take([1], shape(B)) }",
        {
            "A": np.array([7, 8], np.int32),
            "B": np.zeros((4, 1), np.int32),
            "C": np.ones((3, 3, 1), np.int32),
            "D": np.ones(4, np.int32),
            "E": np.ones((4, 4, 8), np.int32),
        },
        [7, 8, 2, 1],
    ),
    ("a frame of no axes", "{ iv -> { [j] -> A[j, 1] } | iv < [] }", {"A": A}, A[:, 1]),
    ("halves of extents in bounds", "{ [i] -> A[2 * i + 1, 0] | [i] < (shape(A) / 2)[[0]] }", {"A": A}, [2]),
    (
        "a scalar's quotient as a shape",
        "reshape([n / -2, (n % 4) * -3], A)",
        {"A": A, "n": -5},
        A.reshape(2, 3),
    ),
    (
        "halves of what may be negative",
        "{ [i] -> (i - 3) / 2 * 100 + (i - 3) % 2 | [(shape(v)[0] - 9) / 2] <= [i] < [n / shape(v)[0]] }",
        {"v": np.zeros(2), "n": 9},
        [-101, -100, -1, 0],
    ),
    (
        "an array that is kept for the indices of an empty partition",
        "{ [i] -> { [k] -> A[i, 0] | [1] <= [k] < [2]; [k] -> 1 | [k] < [3] }[mod(n, 3)] "
        "| [40] <= [i] < take([1], shape(A)); [i] -> 7 | [i] < [5] }",
        {"A": A, "n": 3},
        [7] * 5,
    ),
    (
        "literals below a condition, beside the least int",
        "with { ([0] <= [i] < [3] step [2]) : any(F < genarray([3, 2], 1.0)) ? 9 : 8; } : genarray([3], 0)",
        {"F": A + 0.5},
        [9, 0, 9],
    ),
    (
        "a condition on two indices protects what only one of them selects",
        "[{ [., i, ...] -> reverse(D[i - 1, i - 1, shape(D)[2] - 1 - i]) | . < [i] <= .; "
        "iv -> B[iv] | shape(E) - 1 <= iv }, B]",
        {
            "D": np.arange(36, dtype=np.int32).reshape(2, 2, 3, 3),
            "B": np.zeros((3, 3), np.int32),
            "E": np.zeros((1, 4), np.int32),
        },
        [[[0, 5, 29], [0, 4, 28], [0, 3, 27]], [[0] * 3] * 3],
    ),
    (
        "a default element as long as the frame",
        "with { ([0] <= [i] < [1]); ([1] <= [i] < [2]) : [i, 9]; } : genarray([2], A[1])",
        {"A": A},
        [[2, 3], [1, 9]],
    ),
    (
        "a condition on doubles chooses between literals of ints",
        "(x > 3.0 ? 7 : 9) / 2 + (x > 3.0 ? 7 : -2) * A[1] + min(x > 3.0 ? 7 : -2, A[0])",
        {"x": 2.0, "A": A},
        [-2, -4],
    ),
    (
        "zeros that a shift brings in, whatever it takes out",
        "shift(1, A) + shift(-1, A)",
        {"A": np.array([np.inf, 1.0, 2.0])},
        [1, np.inf, 1],
    ),
]


@pytest.mark.parametrize("backend", ["interpret", "reference"])
@pytest.mark.parametrize(("source", "args", "wanted"), [x[1:] for x in FOUND], ids=[x[0] for x in FOUND])
def test_found(source: str, args: dict[str, Any], wanted: Any, backend: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.errors.DataDependentAccess)
        if backend == "interpret":
            found = tc.interpret(source, lang="sac", **args)
        else:
            found = tc.compile(source, lang="sac", backend=backend)(**args)
    assert np.shape(found) == np.shape(wanted)
    assert np.array_equal(found, wanted)

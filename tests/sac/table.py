"""SAC.md §6 and the paper's examples: sources, arguments and what must come out."""

from __future__ import annotations

from typing import Any

import numpy as np

V = np.arange(8, dtype=np.float64) + 10
M = np.arange(12, dtype=np.float64).reshape(3, 4)
T = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
TWO = np.arange(4, dtype=np.float64).reshape(2, 2)
GEN = "with { ([2] <= iv < [5]) : iv[0] + 1; } : genarray([8], 42)"
INNER = "with { (0*shape(A)+1 <= iv < shape(A)-1) : A[iv]+1; } : modarray(A)"
ALONG = "{ iv -> sum({ [j] -> A[iv ++ [j]] }) | iv < drop([-1], shape(A)) }"


def inner(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = a.copy()
    out[tuple(slice(1, -1) for _ in a.shape)] += 1
    return out


def corner(start: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = start.copy()
    for i in range(3, out.shape[0]):
        for j in range(3, out.shape[1]):
            out[i, j] = i + j
    return out


ROWS = np.array([[1, 2, 3]] * 5) + np.arange(5)[:, None]
SMALL = np.array([[1, 2], [3, 4]])
ZERO_ROW = [0] * 8
# (place in the seed or the contract, source, arguments, result)
TABLE: list[tuple[str, str, tuple[Any, ...], Any]] = [
    ("§2", GEN, (), [42, 42, 3, 4, 5, 42, 42, 42]),
    ("§2", GEN.replace("1; }", "1; ([4] <= iv < [6]) : 0; }"), (), [42, 42, 3, 4, 5, 0, 42, 42]),
    (
        "§2",
        f"with {{ ([1] <= jv < [2]) : {GEN}; }} : genarray([3], [0,0,0,0,0,0,0,0])",
        (),
        [ZERO_ROW, [42, 42, 3, 4, 5, 42, 42, 42], ZERO_ROW],
    ),
    ("§2", GEN.replace("genarray([8], 42)", "modarray(v)"), (V,), [10, 11, 3, 4, 5, 15, 16, 17]),
    ("§2", "with { ([0] <= iv < [10]) : iv[0] } : fold(+, 0)", (), 45),
    ("§1", "take([1],v) ++ drop([1],drop([-1],v)) + 1 ++ take([-1],v)", (V,), inner(V)),
    ("§1", "with { ([1] <= [i] < shape(v)-1) : v[i]+1; } : modarray(v)", (V,), inner(V)),
    ("§1", "with { ([1,1] <= [i,j] < shape(m)-1) : m[i,j]+1; } : modarray(m)", (M,), inner(M)),
    *(("§1", INNER, (a,), inner(a)) for a in (V, M, T, V[:1], V[:2], V[:0], np.zeros((3, 0)))),
    ("§3.1", "with { (0*shape(A) <= iv < shape(A)) : A[iv]+1; } : genarray(shape(A), 0)", (M,), M + 1),
    ("§3.1", "with { (. <= iv <= .) : A[iv]+1; } : genarray(shape(A), 0)", (M,), M + 1),
    (
        "§3.1",
        "with { ([0] <= iv < take([1], shape(A))) : A[iv]+1; } : genarray(take([1], shape(A)), 0*A[0])",
        (M,),
        M + 1,
    ),
    (
        "§3.2",
        "with { ([0,0] <= iv < shape(A)) : with { ([0] <= jv < [shape(A)[0]]) : "
        "A[[iv[0],jv[0]]] * B[[jv[0],iv[1]]]; } : fold(+, 0); } : genarray(shape(A), 0)",
        (TWO, TWO),
        TWO @ TWO,
    ),
    *(
        ("§3.5", "{ iv -> A[iv] + 1 }", (a,), a + 1)
        for a in (V, M, T, T[None], T[None, None], V[:0], V[:1], np.zeros((2, 0, 3)))
    ),
    ("§3.3", "{ [i] -> A[i] + 1 }", (M,), M + 1),
    ("§3.3", "{ [i] -> A[i] + 1 }", (np.zeros((0, 6)),), np.zeros((0, 6))),
    ("§6", "{ iv -> A[iv] + 1 | iv < take([1], shape(A)) }", (np.zeros((0, 6)),), np.zeros((0, 6))),
    ("§3.5", "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }", (M, M.T.copy()), M @ M.T),
    ("§3.5", "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }", (M[:, :0], M.T[:0]), np.zeros((3, 3))),
    ("§4", "{ iv -> 1 | [0] <= iv < [5]; iv -> 2 | [5] <= iv < [10] }", (), [1] * 5 + [2] * 5),
    ("§4", "{ [i,j] -> i+j | [i,j] < [3,3] }", (), [[0, 1, 2], [1, 2, 3], [2, 3, 4]]),
    ("§4", "{ [i,j] -> i+j | [3,3] <= [i,j]; iv -> 0 | iv < [10,10] }", (), corner(np.zeros((10, 10)))),
    ("§4", "{ [i,j] -> i+j | [3,3] <= [i,j]; iv -> A[iv] }", (np.ones((5, 6)),), corner(np.ones((5, 6)))),
    ("§4", "{ [i,.] -> [1,2,3] + i | [i] < [5] }", (), ROWS),
    ("§4", "{ [.,i] -> [1,2,3] + i | [i] < [5] }", (), ROWS.T),
    ("§4", "{ [...,i] -> [1,2,3] + i | [i] < [5] }", (), ROWS.T),
    ("§4", "{ [i,...] -> A + i | [i] < [5] }", (TWO,), TWO + np.arange(5)[:, None, None]),
    ("§4", "{ [...,i] -> A + i | [i] < [5] }", (TWO,), TWO[:, :, None] + np.arange(5)),
    (
        "§4",
        "{ [i,...,j] -> [[1,2],[3,4]] + i | [i,j] < [5,5] }",
        (),
        np.arange(5)[:, None, None, None] + SMALL[None, :, :, None] + np.zeros((1, 1, 1, 5), int),
    ),
    ("§5.2", "{ [i,j] -> a[j,i] + b[i] }", (M, V[:3]), M.T[:3] + V[:3, None]),
    *(("§3.3", ALONG, (a,), a.sum(-1)) for a in (V, M, T, T[None])),
    (
        "§3.1",
        "with { (. <= iv < .) : A[iv]+1; } : genarray(shape(A), 0)",
        (M,),
        np.pad(M[:-1, :-1] + 1, ((0, 1),) * 2),
    ),
    (
        "§3.2",
        "with { ([0,0] <= [i,j] < shape(A)) : with { ([0] <= [k] < [shape(A)[0]]) : "
        "A[[i, k]] * B[[k, j]]; } : fold(+, 0); } : genarray(shape(A), 0)",
        (TWO, TWO + 1),
        TWO @ (TWO + 1),
    ),
    (
        "§3.3",
        "with { ([0] <= iv < take([1], shape(A))) : A[iv]+1; } : genarray(take([1], shape(A)), "
        "with { } : genarray(drop([1], shape(A)), 0))",
        (T,),
        T + 1,
    ),
    *(
        ("§3.3", "with { } : genarray(drop([1], shape(A)), 0)", (a,), np.zeros(a.shape[1:]))
        for a in (V, M, T, T[None, None], np.zeros((0, 6)))
    ),
    *(("§4", "{ iv -> a[iv] }", (a,), a) for a in (V, M, T, T[None], T[None, None], V[:1], T[:, :0])),
    ("§4", "{ iv -> A[iv] | [1,2] <= iv }", (M,), np.where(np.add.outer([0, 3, 3], [0, 0, 2, 2]) >= 5, M, 0)),
    ("§4", "{ iv -> A[iv] | [1] <= iv }", (M,), np.r_[0 * M[:1], M[1:]]),
    ("§4", "{ [i,.,j] -> A[i,j] + [0,10] | [i,j] < shape(A) }", (M,), M[:, None] + np.array([[0], [10]])),
    *(
        ("§4", "{ [i,...] -> A + i | [i] < [5] }", (a,), a + np.arange(5).reshape(5, *[1] * a.ndim))
        for a in (V, M, T, T[None], V[:0], V[:1])
    ),
    *(
        ("§4", "{ [...,i] -> A + i | [i] < [5] }", (a,), a[..., None] + np.arange(5))
        for a in (V, M, T, T[None], V[:0], V[:1])
    ),
    ("§6", "shape([[1,2,3],[4,5,6]]) ++ [dim([[1,2,3],[4,5,6]])]", (), [2, 3, 2]),
    ("§6", "shape({ [i] -> A[i] + 1 })", (np.zeros((0, 2048)),), [0, 2048]),
]
# (place, source, arguments, code, what the error says)
REFUSED: list[tuple[str, str, tuple[Any, ...], str, str]] = [
    ("§5.2", "{ [i,j] -> a[i] }", (V,), "TC0350", "nothing bounds 'j'"),
    ("§3.5", "{ iv -> iv[0] }", (), "TC0350", "nothing bounds 'iv'"),
    ("§5.2", "{ [i] -> a[i] | [i] < . }", (V,), "TC0352", "the upper bound of the last partition"),
    ("§6.1", "{ [i] -> iota(i) | [i] < [5] }", (), "TC0263", "the shape of this body depends on the index"),
    ("§6.1", "{ [i] -> take([toi(v[i])], [1,2,3,4,5]) | [i] < shape(v) }", (V,), "TC0257", "depends on"),
    ("§4", "{ [i,...,j,...] -> a }", (V,), "TC0155", "'...' stands twice"),
    ("§2", "with { ([2] <= iv < [5]) : [1,2]; } : genarray([8], 42)", (), "TC0261", "the cell"),
]

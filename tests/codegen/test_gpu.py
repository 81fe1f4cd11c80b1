"""Launches as OpenCL C, run by PoCL in both orders of threads, and as CUDA C++, compiled by NVRTC."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import nvrtc

from tc.codegen import gpu_source
from tc.codegen.dialect import CUDA, OPENCL
from tc.codegen.names import identifier
from tc.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT16,
    UINT64,
    DType,
    accumulator,
)
from tc.errors import InternalError
from tc.ir.expr import EQ, LT, Add, Cast, Expr, FloorDiv, FloorMod, IntImm, Load, Mul, Sub, imm
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Stmt,
    Sync,
)
from tc.ir.program import Op, Site
from tests.codegen.kernels import lowered, numpy_dtype
from tests.codegen.launches import launched, on_device
from tests.poly import programs
from tests.poly.programs import Build, axis, box, v

OPS: tuple[Op, ...] = ("+", "*", "min", "max")


def at(e: Expr | int | str) -> Expr:
    return IntImm(e) if isinstance(e, int) else v(e) if isinstance(e, str) else e


def array(name: str, t: DType, role: str, *shape: int, padding: int = 0) -> Array:
    return Array(name, t, tuple(map(IntImm, shape)), role, padding=padding)


def load(a: Array, *subscripts: Expr | int | str) -> Load:
    return Load(a.name, tuple(map(at, subscripts)), a.dtype)


def put(a: Array, subscripts: tuple[Expr | int | str, ...], value: Expr, op: Op | None = None) -> Compute:
    return Compute("S", a.name, tuple(map(at, subscripts)), op, value, (), f"{a.name} gets a value")


def loop(var: str, extent: int, *body: Stmt, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, IntImm(0), IntImm(extent), 1, kind, Block(body))


def nest(arrays: list[Array], *body: Stmt, sites: tuple[Site, ...] = ()) -> LoopNest:
    params = tuple(a.name for a in arrays if a.role in ("input", "output"))
    outputs = tuple(a.name for a in arrays if a.role == "output")
    return LoopNest("n", params, outputs, (), tuple(arrays), (), Block(body), IntImm(0), sites)


def both_ways(n: LoopNest, values: dict[str, Any]) -> dict[str, Any]:
    first, second = on_device(n, values), on_device(n, values, backwards=True)
    for name, found in first.outputs.items():
        assert found.tobytes() == second.outputs[name].tobytes(), name
    return first.outputs


def ptxas(n: LoopNest, arch: str = "sm_90") -> str:
    """What the assembler says of the CUDA text, which has neither stack nor spills."""
    text = gpu_source.emit(n, CUDA).text
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", 0, [], [])
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    said = log.decode()
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, said + text
    assert set(re.findall(r"(\d+) bytes (?:stack|spill)", said)) == {"0"}, said
    return said


# ---- mapping


def test_blocks_and_threads_cover_everything_once() -> None:
    a, o = array("A", INT32, "input", 3, 7, 5, 4), array("O", INT32, "output", 3, 7, 5, 4)
    subscripts = ("b1", "t0", "b0", "t1")
    body = put(o, subscripts, Add(load(a, *subscripts), imm(1, INT32)), "+")
    n = nest([a, o], Launch("all", (("b0", IntImm(5)), ("b1", IntImm(3))), (("t0", 7), ("t1", 4)), body))
    x = np.arange(420).reshape(3, 7, 5, 4)
    np.testing.assert_array_equal(both_ways(n, {"A": x, "O": x})["O"], 2 * x + 1)
    (kernel,) = gpu_source.emit(n, OPENCL).kernels
    assert (kernel.name, kernel.blocks, kernel.threads) == ("all_kernel", IntImm(15), 28)
    text = gpu_source.emit(n, CUDA).text
    assert "__launch_bounds__(28)" in text
    assert "const int b0 = block % 5;\n  const int b1 = block / 5;\n" in text
    assert "const int t0 = thread % 7;\n  const int t1 = thread / 7;\n" in text
    ptxas(n, "sm_80")


def test_launches_follow_each_other_and_empty_ones_do_nothing() -> None:
    o = array("O", INT32, "output", 6)
    first = Launch("a b", (), (("t", 6),), put(o, ("t",), Cast(INT32, v("t"))))
    none = Launch("a b", (("b", IntImm(0)),), (("t", 6),), put(o, ("t",), imm(0, INT32)))
    second = Launch(
        "a_b", (("b", IntImm(6)),), (), put(o, ("b",), Mul(load(o, "b"), load(o, Sub(IntImm(5), v("b")))))
    )
    n = nest([o], first, none, replace(second, body=put(o, ("b",), Add(load(o, "b"), imm(10, INT32)))))
    np.testing.assert_array_equal(both_ways(n, {})["O"], np.arange(6) + 10)
    assert [k.name for k in gpu_source.emit(n, CUDA).kernels] == ["a_b_kernel", "a_b_kernel1", "a_b_kernel2"]
    ptxas(n)


def test_shared_memory_transposes() -> None:
    a, o = array("A", FLOAT16, "input", 40, 24), array("O", FLOAT16, "output", 24, 40)
    s = array("s_A", FLOAT16, "shared", 8, 8, padding=1)
    i, j = Add(Mul(v("b0"), IntImm(8)), v("t1")), Add(Mul(v("b1"), IntImm(8)), v("t0"))
    k, m = Add(Mul(v("b1"), IntImm(8)), v("t1")), Add(Mul(v("b0"), IntImm(8)), v("t0"))
    body = Block((put(s, ("t1", "t0"), load(a, i, j)), Sync(), put(o, (k, m), load(s, "t0", "t1"))))
    n = nest([a, s, o], Launch("t", (("b0", IntImm(5)), ("b1", IntImm(3))), (("t0", 8), ("t1", 8)), body))
    x = np.arange(960).reshape(40, 24).astype(np.float16)
    np.testing.assert_array_equal(both_ways(n, {"A": x})["O"], x.T)
    module = gpu_source.emit(n, CUDA)
    assert "__shared__ unsigned short s_A[8][9];" in module.text
    assert module.kernels[0].shared == 144
    assert f"{module.kernels[0].shared} bytes smem" in ptxas(n)


def test_register_tiles() -> None:
    a, b = array("A", FLOAT32, "input", 8, 5), array("B", FLOAT32, "input", 5, 8)
    c, r = array("C", FLOAT32, "output", 8, 8), array("r_C", FLOAT32, "register", 4, 2)
    unrolled = LoopKind.UNROLLED

    def tile(body: Stmt) -> Stmt:
        return loop("u", 4, loop("w", 2, body, kind=unrolled), kind=unrolled)

    i, j = Add(v("t1"), Mul(v("u"), IntImm(2))), Add(v("t0"), Mul(v("w"), IntImm(4)))
    product = Mul(load(a, i, "k"), load(b, "k", j))
    body = Block(
        (
            tile(put(r, ("u", "w"), imm(0.0, FLOAT32))),
            loop("k", 5, tile(put(r, ("u", "w"), product, "+"))),
            tile(put(c, (i, j), load(r, "u", "w"))),
        )
    )
    n = nest([a, b, c, r], Launch("mm", (), (("t0", 4), ("t1", 2)), body))
    x, y = np.arange(40).reshape(8, 5) - 7, np.arange(40).reshape(5, 8) - 3
    np.testing.assert_array_equal(both_ways(n, {"A": x, "B": y})["C"], x @ y)
    assert gpu_source.emit(n, CUDA).text.count("#pragma unroll") == 6
    ptxas(n)


# ---- combinations


def combination(
    t: DType,
    threads: tuple[tuple[str, int], ...],
    over: str,
    ops: tuple[Op, ...] = OPS,
    everywhere: bool = False,
    elements: int = 2,
) -> LoopNest:
    """Each thread has so many elements; those where `over` is 0 store the combinations by each operation, or
    `everywhere` all."""
    extents = [n for _, n in threads]
    names = [x for x, _ in threads]
    a = array("A", t, "input", elements, *extents)
    arrays, body = [a], []
    for k, op in enumerate(ops):
        r, o = array(f"r{k}", t, "register", elements), array(f"O{k}", t, "output", elements, *extents)
        arrays += [r, o]
        store = loop("f", elements, put(o, ("f", *names), load(r, "f")))
        body += [
            loop("e", elements, put(r, ("e",), load(a, "e", *names))),
            Combine(r.name, op, over, everywhere),
            store if everywhere else If(EQ(v(over), IntImm(0)), store),
        ]
    return nest(arrays, Launch("c", (), threads, Block(tuple(body))))


def wanted(x: Any, t: DType, axis: int) -> dict[str, Any]:
    work = x if not t.is_half else x.astype(np.float32)
    with np.errstate(all="ignore"):
        found = {"+": work.sum(axis), "*": work.prod(axis), "min": work.min(axis), "max": work.max(axis)}
    return {op: found[op].astype(x.dtype) for op in OPS}


ALL_THREADS = (("t0", 4), ("t1", 3), ("t2", 5))


@pytest.mark.parametrize(
    "t",
    [
        *(BOOL, UINT16, BFLOAT16, FLOAT64),
        *(pytest.param(t, marks=pytest.mark.slow) for t in (INT8, INT32, INT64, UINT64, FLOAT16, FLOAT32)),
    ],
    ids=str,
)
def test_combinations_in_every_type(t: DType) -> None:
    n = combination(t, ALL_THREADS, "t0")
    rng = np.random.default_rng(1)
    x = (rng.integers(0, 2, (2, 4, 3, 5)) if t.is_bool else rng.integers(1, 4, (2, 4, 3, 5))).astype(
        numpy_dtype(t)
    )
    if t.is_float:
        x[0, 2, 1, 1], x[1, 3, 0, 0] = math.nan, -math.inf
    if t.is_int:
        x[0, 1, 1, 1] = t.max
    outputs = on_device(n, {"A": x}).outputs
    for k, op in enumerate(OPS):
        want = wanted(x, t, 1)[op]
        if t.is_int:
            want = wanted(x.astype(object), t, 1)[op]
            want = np.vectorize(lambda z: t.wrap(int(z)), otypes=[object])(want).astype(x.dtype)
        found = outputs[f"O{k}"][:, 0]
        if t.is_half:
            found, want = found.astype(np.float32), want.astype(np.float32)
        np.testing.assert_array_equal(found, want, op)
    ptxas(n)


IN_WARPS = (("t0", 2), ("t1", 8), ("t2", 4))
LONG = (("t0", 1), ("t1", 64), ("t2", 3))


@pytest.mark.share(18)
@pytest.mark.parametrize(
    ("threads", "over"),
    [
        (ALL_THREADS, "t1"),
        (ALL_THREADS, "t2"),
        (IN_WARPS, "t0"),
        (IN_WARPS, "t1"),
        (LONG, "t0"),
        (LONG, "t1"),
    ],
)
def test_combinations_over_each_variable(threads: tuple[tuple[str, int], ...], over: str) -> None:
    axis = 1 + int(over[1])
    n = combination(FLOAT32, threads, over, ("+",))
    shape = (2, *(k for _, k in threads))
    x = np.random.default_rng(2).integers(1, 3, shape).astype(np.float32)
    first = np.take(both_ways(n, {"A": x})["O0"], 0, axis)
    np.testing.assert_array_equal(first, x.sum(axis))
    every = both_ways(combination(FLOAT32, threads, over, ("+",), everywhere=True), {"A": x})["O0"]
    np.testing.assert_array_equal(every, np.broadcast_to(x.sum(axis, keepdims=True), every.shape))
    text = gpu_source.emit(n, CUDA).text
    count = dict(threads)[over]
    stride = math.prod(k for _, k in threads[: axis - 1])
    in_a_warp = count > 1 and count & (count - 1) == 0 and 32 % (count * stride) == 0
    whole_warps = 32 % stride == 0 and stride < 32 and count % (32 // stride) == 0
    assert ("__shfl_xor_sync" in text) == (in_a_warp or whole_warps)
    assert ("__shared__" in text) == (count > 1 and not in_a_warp)
    ptxas(n)


def test_partial_results_of_halves_are_rounded_once() -> None:
    assert accumulator(FLOAT16, FLOAT16) == FLOAT32
    n = combination(FLOAT16, (("t0", 8),), "t0", ("+",))
    x = np.full((2, 8), 1.0, np.float16)
    x[0, 0] = 2048  # 2048 + 1 is not a half
    assert float(both_ways(n, {"A": x})["O0"][0, 0]) == 2056  # 2055, to even
    ptxas(n)


def test_barriers_stand_where_all_threads_pass() -> None:
    o = array("O", INT32, "output", 8)
    r = array("r", INT32, "register", 1)
    write = put(o, ("t",), imm(1, INT32))

    def emitted(*body: Stmt) -> None:
        gpu_source.emit(nest([o, r], Launch("k", (("b", IntImm(2)),), (("t", 8),), Block(body))), OPENCL)

    emitted(If(EQ(v("b"), IntImm(0)), Sync()), loop("k", 3, Sync()))
    own_loop = For("k", v("t"), IntImm(9), 1, LoopKind.SERIAL, write)
    emitted(own_loop, loop("k", 3, Sync()))
    with pytest.raises(InternalError, match="a barrier of k is below a condition"):
        emitted(If(LT(v("t"), IntImm(4)), Block((write, Sync()))))
    with pytest.raises(InternalError, match="a combination of k is below the loop k"):
        emitted(replace(own_loop, body=Combine("r", "+", "t")))
    inner = For("m", IntImm(0), v("k"), 1, LoopKind.SERIAL, Sync())
    with pytest.raises(InternalError, match="below the loop k"):
        emitted(replace(own_loop, body=inner))
    with pytest.raises(InternalError, match="below a condition"):
        emitted(If(EQ(load(r, 0), imm(0, INT32)), Sync()))
    with pytest.raises(InternalError, match="a launch inside a launch"):
        emitted(Launch("k", (), (), write))
    with pytest.raises(InternalError, match="threads hold no parts of O"):
        emitted(Combine("O", "+", "t"))


# ---- checks, names, widths


def test_one_of_many_failed_checks_is_recorded_whole() -> None:
    a, p, o = array("A", INT32, "input", 9), array("P", INT32, "input", 64), array("O", INT32, "output", 64)
    i = Add(Mul(v("b"), IntImm(8)), v("t"))
    read = Load("A", (Cast(INT64, load(p, i)),), INT32, checked=(0,), site=0)
    body = Compute("S", "O", (i,), None, read, (i, v("t")), "O(i) = A(P(i))")
    arrays = [replace(a, lower=(IntImm(2),)), p, o]
    n = nest(arrays, Launch("k", (("b", IntImm(8)),), (("t", 8),), body), sites=(Site("A", "A(P(i))", ()),))
    values = {"A": np.arange(9), "P": np.arange(64) % 9}
    good = on_device(n, values)
    np.testing.assert_array_equal((good.code, *good.outputs["O"]), (0, *(np.arange(64) % 9)))
    values["P"] = np.where(np.arange(64) % 5 == 3, 1000 + np.arange(64), values["P"])
    for backwards in (False, True):
        bad = on_device(n, values, backwards=backwards)
        site, subscript, count, first, second, dimension = bad.error[:6].tolist()
        assert (bad.code, site, count, dimension) == (1, 1, 2, 0)
        assert (subscript - 1002, first % 8, first % 5) == (first, second, 3)
        np.testing.assert_array_equal(
            bad.outputs["O"], np.where(np.arange(64) % 5 == 3, 0, np.arange(64) % 9)
        )
    ptxas(n)


def test_subscripts_of_two_dimensions_are_checked() -> None:
    text = gpu_source.emit(launched(lowered(programs.lut2(), LUT)), OPENCL).text
    assert text.count("const bool inside = at >= 0 && at < ") == 4  # in two loops, and again behind them
    assert "return" not in text.split("__kernel")[1]


LUT = {"E1": 5, "E2": 6, "B": 2, "D": 3, "L1": 3, "L2": 4}


def test_names_that_the_languages_reserve() -> None:
    for name in ("float4", "uchar", "and", "threadIdx", "M_PI", "max", "error", "1x", "_t", "barrier"):
        assert identifier(name) != name
    names = ["double", "while", "float4", "kernel", "block", "thread", "barrier", "scratch_float", "point"]
    b = Build("max", "M N")
    for name in names:
        b.input(name, FLOAT32, "M")
    b.tensor("workspace", FLOAT32, *box("M"))
    value: Expr = b.read(names[0], "for")
    for name in names[1:]:
        value = Add(value, b.read(name, "for"))
    b.stage("workspace", ("for",), None, value, axis("for", 0, "M"), text="*/ sum")
    n = launched(lowered(b.done(), {"M": 3, "N": 4}))
    x = {name: np.full(3, 2.0**k) for k, name in enumerate(names)}
    np.testing.assert_array_equal(on_device(n, x).outputs["workspace"], [2.0 ** len(names) - 1] * 3)
    ptxas(n)


def test_indices_are_as_wide_as_they_have_to_be() -> None:
    def text(size: int, value: Expr, t: DType = INT64) -> str:
        o = array("O", t, "output", size)
        body = Launch("k", (), (), loop("i", size, put(o, ("i",), value)))
        return gpu_source.emit(nest([o], body), OPENCL).text

    i, c = v("i"), IntImm
    assert "for (int i = 0;" in text(1000, i)
    assert "for (long i = 0;" in text(1 << 31, i)
    # 1000 * 10^7 does not fit into 32 bits, and the sum of a product that does is exact in them.
    assert "O[i] = (long)i * 10000000;" in text(1001, Mul(i, c(10_000_000)))
    assert "O[i] = (long)(i * 7 + 3);" in text(1001, Add(Mul(i, c(7)), c(3)))
    # Beyond 64 bits it wraps, unsigned.
    assert "O[i] = (long)((ulong)i * 4611686018427387904ul);" in text(1001, Mul(i, c(1 << 62)))
    # Division of what is not negative is C's.
    assert "O[i] = (long)(i / 3);" in text(9, FloorDiv(i, c(3)))
    assert "O[i] = (long)tc_floormod_i32(i - 5, 3);" in text(9, FloorMod(Sub(i, c(5)), c(3)))
    assert "O[i] = (long)((i + 5) % 3);" in text(9, FloorMod(Add(i, c(5)), c(3)))


def test_data_wrap_around() -> None:
    a, o = array("A", INT32, "input", 4), array("O", INT32, "output", 4)
    p = array("P", INT32, "output", 4)
    value = Mul(Add(load(a, "i"), imm(1, INT32)), load(a, "i"))
    body = (put(o, ("i",), value), put(p, ("i",), load(a, "i"), "+"))
    n = nest([a, o, p], Launch("k", (), (), loop("i", 4, *body)))
    assert "O[i] = (int)(((uint)A[i] + 1u) * (uint)A[i]);" in gpu_source.emit(n, OPENCL).text
    x = np.array([2**31 - 1, -(2**31), 65536, -1], np.int64)
    wrap = np.vectorize(lambda z: INT32.wrap(int(z)))
    outputs = both_ways(n, {"A": x, "P": x})
    np.testing.assert_array_equal(outputs["O"], wrap((x + 1) * x))
    np.testing.assert_array_equal(outputs["P"], wrap(x + x))
    ptxas(n)


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 4, 0)])
def test_sizes_of_a_call(sizes: tuple[int, int, int]) -> None:
    n = launched(lowered(programs.matmul(), {}, traced=False))
    m, k, j = sizes[0], sizes[2], sizes[1]
    at_call = dict(zip(("M", "N", "K"), (m, j, k), strict=True))
    a, b = np.arange(m * k).reshape(m, k) % 7, np.arange(k * j).reshape(k, j) % 5
    r = on_device(n, {"A": a, "B": b}, sizes=[at_call[s] for s in n.sizes])
    np.testing.assert_array_equal(r.outputs["C"], a @ b)
    text = gpu_source.emit(n, CUDA).text
    assert "const long long M" in text and "for (long long i = 0; i < M; i++)" in text
    ptxas(n)


def test_statements_outside_of_launches_are_refused() -> None:
    n = lowered(programs.matmul(), {"M": 2, "N": 3, "K": 4})
    with pytest.raises(InternalError, match="a GPU runs launches"):
        gpu_source.emit(n, OPENCL)

"""Machine code of the cpu backend: main loops without guards, spills or calls; loops and main loops as golden
files."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import tc
from tc import registry
from tc.codegen import llvm_jit
from tc.dtypes import FLOAT16, FLOAT32, FLOAT64, INT8, DType
from tests.backends.cpu_cases import CONV, GEMM, SOFTMAX, Case, backend, check, code_of, compiled, isas

needs_avx512 = pytest.mark.skipif("avx512" not in isas(), reason="this processor has no AVX-512")


@dataclass(frozen=True)
class Loop:
    """The instructions of an innermost loop."""

    lines: tuple[str, ...]

    def count(self, pattern: str) -> int:
        return sum(bool(re.match(pattern, x)) for x in self.lines)

    @property
    def fma(self) -> int:
        return self.count(r"vfn?m(add|sub)")

    @property
    def branches(self) -> int:
        return self.count(r"j")

    @property
    def memory(self) -> int:
        return self.count(r"v.*\(")

    def check(self) -> None:
        """One branch, back to the start; nothing on the stack; nothing called."""
        text = "\n".join(self.lines)
        assert self.branches == 1 and re.match(r"j(?!mp)", self.lines[-1]), text
        assert "%rsp" not in text, text
        assert not self.count(r"call|ret"), text
        assert not self.count(r"k(mov|and|or|test)"), f"masks in a main loop\n{text}"


def innermost(assembly: str) -> list[Loop]:
    """Backward branches that enclose no other."""
    places: dict[str, int] = {}
    lines: list[str] = []
    for raw in assembly.splitlines():
        line = raw.split("#")[0].strip()
        label = re.match(r"([\w.$]+):", line)
        if label:
            places[label[1]] = len(lines)
        elif line and not line.startswith("."):
            lines.append(re.sub(r"\s+", " ", line))
    spans: list[tuple[int, int]] = []
    for i, line in enumerate(lines):
        jump = re.match(r"j\w+ (\S+)", line)
        if jump and places.get(jump[1], i + 1) <= i:
            spans.append((places[jump[1]], i + 1))
    return [
        Loop(tuple(lines[a:b]))
        for a, b in spans
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)
    ]


def main_loop(source: str, sizes: dict[str, int], **options: Any) -> Loop:
    """The innermost loop with the most multiply-adds."""
    found = innermost(compiled(source, **options).inspect("asm", **sizes))
    assert found, "no loop"
    return max(found, key=lambda x: x.fma)


SQUARE = {"M": 64, "K": 64, "N": 64}
IMAGE = {"N": 1, "C": 16, "H": 34, "W": 34, "F": 16, "KH": 3, "KW": 3}


def test_the_parser_of_assembly() -> None:
    """It finds inner loops, and what `check` refuses."""
    text = """
f:
    movq %rdi, %rax
.LBB0_1:
    xorl %ecx, %ecx
.LBB0_2:                   # comment
    vfmadd231ps (%rax), %zmm0, %zmm1
    decq %rcx
    jne .LBB0_2
    decq %rdx
    jne .LBB0_1
    retq
"""
    (loop,) = innermost(text)
    assert (loop.fma, loop.branches, len(loop.lines)) == (1, 1, 3)
    loop.check()
    for bad in ("    jb .LBB0_9", "    vmovups %zmm1, 64(%rsp)", "    callq expf"):
        (loop,) = innermost(text.replace("    decq %rcx\n", f"    decq %rcx\n{bad}\n"))
        with pytest.raises(AssertionError):
            loop.check()


@needs_avx512
@pytest.mark.parametrize("unroll", [1, 2, 4])
def test_the_main_loop_of_a_given_gemm_tile(unroll: int) -> None:
    """8 × 2 vectors of accumulators for each point of k: two loads of B and eight broadcasts of A."""
    options = {"isa": "avx512", "register_tile": (8, 32), "vector": 1, "unroll": unroll, "pack": False}
    loop = main_loop(GEMM, SQUARE, **options)
    loop.check()
    assert loop.fma == 8 * 2 * unroll
    assert loop.memory <= (2 + 8 * 2) * unroll  # a broadcast may be an operand of each of its two


@needs_avx512
def test_the_main_loop_of_the_gemm_tile_that_the_model_chooses() -> None:
    loop = main_loop(GEMM, SQUARE, isa="avx512")
    loop.check()
    assert loop.fma >= 16
    assert loop.fma >= len(loop.lines) // 2


@needs_avx512
def test_the_main_loop_of_a_given_convolution_tile() -> None:
    loop = main_loop(CONV, IMAGE, isa="avx512", register_tile=(1, 4, 1, 32), vector=3, unroll=3)
    loop.check()
    assert loop.fma == 4 * 2 * 3


@needs_avx512
def test_the_main_loop_of_the_convolution_tile_that_the_model_chooses() -> None:
    loop = main_loop(CONV, IMAGE, isa="avx512")
    loop.check()
    assert loop.fma >= 24
    assert loop.fma >= len(loop.lines) // 2


# With one FMA unit it pays to select between elements and zeros before the reduction.
TWO_UNITS = (("fma_units", 2),)


@needs_avx512
def test_padding_takes_no_branch_in_the_main_loop() -> None:
    """Tiles with points inside and outside of the image select addresses: no branch among the products."""
    source = """def f(float(N,C,X) I, float(F,C,K) W) -> (O) {
      O(n,f,x) +=! (x >= k && x - k < X ? I(n,c,x-k) : 0) * W(f,c,k) where x in 0:X+K-1
    }"""
    sizes = {"N": 8, "C": 32, "X": 28, "F": 32, "K": 2}
    options: dict[str, Any] = {
        "isa": "avx512",
        "register_tile": (2, 32, 4),
        "vector": 1,
        "machine": TWO_UNITS,
    }
    text = compiled(source, **options).inspect("asm", **sizes)
    products = [x for x in innermost(text) if x.fma]
    assert len(products) >= 2 and all(x.fma >= 8 for x in products)
    for loop in products:
        assert loop.branches == 1 and not loop.count("call"), "\n".join(loop.lines)
    # Which points are inside is known before the loop over channels, whose loads differ by their masks.
    masked = [x for x in products if any("{%k" in line for line in x.lines)]
    assert masked
    for loop in masked:
        assert loop.count("cmp|set|cmov|select|vblend") == 1, "\n".join(loop.lines)  # the loop's own
        assert len(loop.lines) <= 2.1 * loop.fma


@pytest.mark.share(12)
@pytest.mark.parametrize(("stride", "chosen"), [(0, True), (1, True), (2, False)])
def test_addresses_are_selected_for_single_or_contiguous_elements(stride: int, chosen: bool) -> None:
    """Where the stride between lanes is larger, a branch decides; the results are those of the source."""
    source = f"""def f(float(H,W) I, float(K,L,16) F) -> (O) {{
      O(h,w) +=! (h + k >= 1 && h + k < H + 1 ? I(h+k-1,{stride}*w+l) : 0) * F(k,l,w) where h in 0:H
    }}"""
    sizes = {"H": 9, "W": 80, "K": 3, "L": 3}
    options: dict[str, Any] = {"vector": 1, "register_tile": (2, 16), "machine": TWO_UNITS}
    text = compiled(source, **options).inspect("llvm", **sizes)
    assert bool(re.search(r"= select i1 %\S+, ptr %\S+, ptr @constant\.float\.", text)) == chosen
    check(Case("padded", source), sizes, 0, options)


@pytest.mark.parametrize("rows", [48, 39])
def test_results_with_strided_lanes_are_transposed(rows: int) -> None:
    """And stored as rows, those of fewer lanes at the end, too: nothing is scattered."""
    options: dict[str, Any] = {"vector": 0, "register_tile": (16, 20), "pack": False}
    sizes = {"M": rows, "K": 7, "N": 40}
    assert "llvm.masked.scatter" not in compiled(GEMM, **options).inspect("llvm", **sizes)
    check(Case("rows", GEMM), sizes, 0, options)


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_an_index_in_a_register_is_checked_once() -> None:
    """Not for each row of the matrix beside it; one function reports what fails."""
    source = """def f(float(V,K) T, int32(N) X, float(M,K) B) -> (O) {
      O(n,m) +=! T(X(n), k) * B(m, k)
    }"""
    options: dict[str, Any] = {"register_tile": (2, 4), "pack": False, "parallel": False}
    text = compiled(source, **options).inspect("llvm", V=50, K=64, N=16, M=64)
    assert text.count("call void @record_") == 2
    assert text.count("cmpxchg") == 1
    check(Case("rows of a table", source, limits={"X": "V"}), {"V": 5, "K": 9, "N": 7, "M": 6}, 0, options)


@pytest.mark.skipif("avx2" not in isas(), reason="this processor has no AVX2")
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("update", ["D(i) > c(k) ? D(i) - c(k) : D(i)", "min(D(i), c(k))", "max(c(k), D(i))"])
def test_a_choice_in_place_is_stored_without_a_mask(update: str, kind: str) -> None:
    """AMD runs masked stores of AVX in microcode."""
    source = f"""def f({kind}(N) c, {kind}(N) x) -> (D) {{
      D(i) = x(i)
      for k in 0:N {{ D(i) = {update} }}
    }}"""
    kernel = compiled(source, isa="avx2", parallel=False)
    text = kernel.inspect("asm", N=256)
    assert re.search(r"vblendv|vmin|vmax", text)
    assert "vmaskmov" not in text
    check(Case("choice in place", source), {"N": 21}, 0, {"isa": "avx2"})


@needs_avx512
def test_the_main_loop_of_a_softmax() -> None:
    """A row is four vectors: maxima, exponentials, sums and quotients in registers, one row an iteration."""
    found = innermost(compiled(SOFTMAX, isa="avx512").inspect("asm", N=64, D=64))
    loop = max(found, key=lambda x: x.count("vmax|vscalef|vpslld|vfn?m"))
    loop.check()
    assert loop.count("vscalef|vrndscale|vpslld") >= 4 and loop.fma >= 4 * 6  # the exponential's polynomial
    assert loop.count("vmax|vcmp") >= 4


LOOPS: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    "gemm": (
        GEMM,
        {"M": 10, "K": 9, "N": 37},
        {"tile": (8, 32), "register_tile": (4, 16), "vector": 1, "unroll": 4},
    ),
    "softmax": (SOFTMAX, {"N": 7, "D": 21}, {"register_tile": (2,), "vector": -1}),
}


@pytest.mark.skipif("avx2" not in isas(), reason="this processor has no AVX2")
@pytest.mark.parametrize("name", LOOPS)
def test_loops_as_golden_files(name: str, golden: Callable[[str, str], None]) -> None:
    source, sizes, options = LOOPS[name]
    kernel = compiled(source, isa="avx2", fusion="max", pack=False, parallel=False, **options)
    golden(f"cpu/{name}.loops.txt", kernel.inspect("loops", **sizes))


MAIN: dict[str, tuple[str, dict[str, int]]] = {
    "gemm": (GEMM, SQUARE),
    "conv": (CONV, IMAGE),
    "softmax": (SOFTMAX, {"N": 64, "D": 1024}),
}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="LLVM prints the host's assembly")
@pytest.mark.parametrize("isa", ["avx512", "avx2"])
@pytest.mark.parametrize("name", MAIN)
def test_main_loops_as_golden_assembly(name: str, isa: str, golden: Callable[[str, str], None]) -> None:
    """For a machine all of whose facts are given.

    The exponential has more constants than AVX2 has registers, and four copies are interleaved: some
    constants are reloaded, and one number is spilled.
    """
    registry.get("cpu")
    target = sys.modules["tc_backends.cpu.isa"].ISAS[isa]
    source, sizes = MAIN[name]
    program = tc.compile(source, "reference").program(sizes)
    text = backend.code_of(program, backend.Machine(target, cores=2), tc.Options()).text
    found = innermost(llvm_jit.assembly_of(text, cpu=target.cpu, features=target.features))
    loop = max(found, key=lambda x: x.fma)
    reloads = loop.count(r".* -?\d+\(%rsp\), ")
    if (name, isa) == ("softmax", "avx2"):
        assert 0 < reloads < 20
        assert loop.count(r"v.*, -?\d+\(%rsp\)$") <= 1
        loop = Loop(tuple(re.sub(r"-?\d+\(%rsp\)", "stack", x) for x in loop.lines))
    loop.check()
    lines = [re.sub(r"^(j\w+) \S+$", r"\1 loop", x) for x in loop.lines]
    golden(f"cpu/{name}.{isa}.s", "loop:\n" + "".join(f"    {x}\n" for x in lines))


def test_stages_are_shown() -> None:
    kernel = compiled(GEMM)
    for stage in ("schedule", "choice", "loops", "code", "llvm", "asm"):
        assert kernel.inspect(stage, **SQUARE).strip()
    with pytest.raises(tc.BackendError, match="no stage 'mapped'") as caught:
        kernel.specialize(**SQUARE).artifact("mapped")
    assert caught.value.code == "TC0804"


# Rows that are transposed in registers.


class Shuffles:
    """An emitter that executes the shuffles it would write."""

    def __init__(self) -> None:
        self.vectors: dict[str, list[object]] = {}

    def pure(self, text: str) -> str:
        found = re.match(r"shufflevector <(\d+) x \w+> (\S+), <\d+ x \w+> (\S+), <\d+ x i32> <(.*)>", text)
        assert found is not None, text
        lanes, a, b, order = found.groups()
        elements = [x for v in (a, b) for x in self.vectors.get(v, [None] * int(lanes))]
        name = f"%{len(self.vectors)}"
        self.vectors[name] = [elements[int(i.split()[1])] for i in order.split(",")]
        return name


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, FLOAT16, INT8], ids=str)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
def test_any_number_of_rows_is_transposed(dtype: DType, lanes: int) -> None:
    compiled("def f(float(N) A) -> (B) { B(i) = A(i) }")  # imports the backend
    emit, values = (sys.modules[f"tc_backends.cpu.emit.{name}"] for name in ("shuffles", "values"))
    for count in range(2, 33):
        emitter = object.__new__(emit.ShuffleEmitter)
        shuffles = Shuffles()
        emitter.pure = shuffles.pure
        shuffles.vectors |= {f"%row{j}": [(i, j) for i in range(lanes)] for j in range(count)}
        rows = [values.Value(f"%row{j}", dtype, lanes) for j in range(count)]
        transposed = emitter.transpose(rows, lanes)
        assert len(transposed) == lanes
        for i, v in enumerate(transposed):
            found = shuffles.vectors[v.text]
            assert len(found) == v.lanes and found[:count] == [(i, j) for j in range(count)]


TURNED = {"vector": 0, "register_tile": (16, 6)}


def transposing_functions(source: str, **sizes: int) -> tuple[int, int]:
    """The functions that transpose results, and their calls, on AVX-512."""
    text = code_of(compiled(source).program(sizes), tc.Options(**TURNED)).text
    return len(re.findall(r'^define internal void @"turn', text, re.M)), text.count('call void @"turn')


@pytest.mark.parametrize(("depth", "functions"), [(8, 0), (96, 1)])
def test_a_function_transposes_results_after_long_reductions(depth: int, functions: int) -> None:
    assert transposing_functions(GEMM, M=64, K=depth, N=96) == (functions, functions)


def test_nests_share_the_function_that_transposes_their_results() -> None:
    source = """def f(float(M,K) A, float(K,N) B, float(N,N) C) -> (D, E) {
      D(m,n) +=! A(m,k) * B(k,n)
      E(m,n) +=! D(m,l) * C(l,n) }"""
    assert transposing_functions(source, M=64, K=96, N=96) == (1, 2)


@pytest.mark.share(54)
@pytest.mark.parametrize("name", isas())
@pytest.mark.parametrize("points", [1, 3, 4, 6, 7, 12])
@pytest.mark.parametrize("type", ["float", "double", "int32", "half"])
def test_results_of_transposed_stores(name: str, points: int, type: str) -> None:
    """Whole vectors and a short one, in pieces of powers of two."""
    source = f"def f({type}(M,K) A, {type}(K,N) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n) }}"
    case = Case("turned", source, {"M": 43, "K": 40, "N": 26}, high=2)
    options = {"isa": name, "vector": 0, "register_tile": (32, points)}
    if type == "float" and points >= 4 and name != "sse4.2":
        assert "turn." in compiled(source, **options).inspect("llvm", **case.fixed)
    check(case, case.fixed, 0, options)

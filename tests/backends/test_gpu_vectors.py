"""Vectors of up to 16 bytes: the width of copies, and what NVRTC makes of loops with contiguous reads."""

from __future__ import annotations

import importlib
import re
from typing import Any, TypeGuard

import numpy as np
import pytest

import tc
from tc import registry
from tc.ir.loops import Compute, Launch, LoopNest, Stmt, copied, statements
from tc.poly.gpu import bands

registry.load("cuda")
model = importlib.import_module("tc_backends.gpu.cost.model")
target = importlib.import_module("tc_backends.gpu.target")

MM = "def mm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
MM_T = "def mm(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }"


def ptx(text: str) -> str:
    """The PTX that NVRTC compiles a text to."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", 0, [], [])
    options = [b"--gpu-architecture=compute_90", b"--std=c++17", b"--fmad=true"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    buffer = b" " * size
    nvrtc.nvrtcGetPTX(program, buffer)
    nvrtc.nvrtcDestroyProgram(program)
    return buffer.decode()


@pytest.mark.parametrize(
    ("count", "read", "wanted", "factor"),
    [
        *((32, 4, 8, 8), (32, 4, 4, 4), (32, 2, 16, 16), (24, 2, 5, 4), (24, 4, 5, 4), (24, 4, 10, 8)),
        *((100, 4, 32, 20), (92, 4, 32, 32), (27, 4, 8, 8), (3, 2, 2, 3), (7, 4, 16, 7), (4, 4, 32, 4)),
    ],
)
def test_unrolled_iterations_are_whole_vectors(count: int, read: int, wanted: int, factor: int) -> None:
    assert bands.unroll_factor(count, read, wanted) == factor
    assert factor % read == 0 or factor == count


@pytest.mark.share(24)
@pytest.mark.parametrize(
    ("source", "options", "sizes"),
    [
        (MM, {}, (128, 1024, 128)),
        (MM, {"tile": (128, 128), "threads": (16, 16)}, (128, 256, 128)),  # 8 x 8 points a thread
        (MM, {"tile": (27, 26, 24), "threads": (13, 9)}, (26, 26, 72)),  # 3 x 2 points a thread
        (MM, {"tile": (16, 64), "threads": (32, 8)}, (127, 1001, 1003)),  # copies of single elements
        (MM_T, {"tile": (16, 64), "threads": (32, 8)}, (128, 512, 256)),  # reads of single elements
        (MM.replace("float(", "double("), {}, (128, 512, 128)),
        (MM.replace("float(", "half("), {}, (128, 512, 128)),
        (MM.replace("float(", "int8("), {}, (128, 512, 128)),
        (MM, {}, (128, 1024, 1024)),  # split, as the next three
        (MM, {}, (127, 1003, 1000)),  # with a shorter last part
        (MM, {}, (127, 1000, 1003)),
        (MM.replace("float(", "double("), {}, (128, 512, 512)),
    ],
)
def test_nvrtc_vectorizes_loads_as_predicted(
    source: str, options: dict[str, Any], sizes: tuple[int, int, int]
) -> None:
    """For each load from shared memory in the loop of the product, and each copy.  Of split products this is
    the first kernel."""
    kernel = tc.compile(source, "cuda", options=options)
    one: Any = kernel.specialize(**dict(zip("MNK", sizes, strict=True))).compiled
    n = one.nest
    launch = next(s for s in statements(n.body) if isinstance(s, Launch))
    found = model.predict(n, launch, target.H100).work.accesses
    reads = [a for a in found if a.shared and not a.store]
    widths = {round(a.elements / a.requests / 32) * n.array(a.buffer).dtype.itemsize for a in reads}
    text = ptx(one.module.text).split(".entry")[1]
    vectors = {"v4.u32": 16, "v4.f32": 16, "v2.f64": 16, "v2.u32": 8, "v2.f32": 8}
    single = {"f64": 8, "f32": 4, "u32": 4, "u16": 2, "s8": 1, "u8": 1}
    main = max(re.split(r"\$L__BB\w+:", text), key=lambda part: len(re.findall(r"fma|mad|mul", part)))
    made = {(vectors | single)[w] for w in re.findall(r"ld\.shared\.((?:v\d\.)?\w+)", main)}
    assert made == widths
    made_of = {s.width * n.array(s.buffer).dtype.itemsize for s in statements(launch) if shared_copy(n, s)}
    moved = re.findall(r"cp\.async\.c[ag]\.shared\.global[^;]*, (\d+),", text)
    moved += [(vectors | single)[w] for w in re.findall(r"st\.shared\.((?:v\d\.)?\w+)", text)]
    assert {int(w) for w in moved} == {min(16, w) for w in made_of}  # of halves as float32 several


def shared_copy(n: LoopNest, s: Stmt) -> TypeGuard[Compute]:
    return isinstance(s, Compute) and n.array(s.buffer).role == "shared"


def copies(source: str, backend: str, options: dict[str, Any], **sizes: int) -> dict[str, int]:
    """The bytes of one copy instruction, by the name of the array."""
    n = tc.compile(source, backend, options=options).specialize(**sizes).compiled.nest
    found = [s for s in statements(n.body) if shared_copy(n, s) and not s.stage]
    return {s.buffer.partition(".")[0]: s.width * copied(s)[0].dtype.itemsize for s in found}


TILES = {"tile": (16, 32), "threads": (16, 8), "use_shared_memory": True}


@pytest.mark.share(36)
@pytest.mark.parametrize(
    ("dtype", "k", "expected"),
    [
        ("float", 64, 16),
        ("float", 62, 8),
        ("float", 63, 4),
        ("double", 64, 16),
        ("double", 63, 8),
        ("half", 64, 16),
        ("half", 62, 4),
        ("half", 63, 2),
        ("int8", 64, 16),
        ("int8", 60, 4),
        ("int8", 61, 1),
        ("bool", 64, 16),
    ],
)
@pytest.mark.parametrize("backend", ["cuda", "opencl"])
def test_copies_are_as_wide_as_row_lengths_allow(backend: str, dtype: str, k: int, expected: int) -> None:
    """For all types."""
    source = MM.replace("float(", f"{dtype}(")
    if dtype == "bool":
        source = source.replace("A(m,k) * B(n,k)", "int32(A(m,k)) * int32(B(n,k))")
    found = copies(source, backend, TILES, M=32, N=64, K=k)
    if (backend, dtype, k) == ("opencl", "half", 64):
        # The copies convert them to float32, and rows along which threads read are padded by one vector.
        assert found == {"A": 16, "B": 8}
    else:
        assert set(found.values()) == {expected}


WINDOW = "def f(float(N) A, float(W) B) -> (O) { O(i) +=! A(i + j) * B(j) where i in 0:M, j in 0:W }"


def test_unaligned_footprints_are_copied_by_elements() -> None:
    source = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k+1) * B(n,k+2) where k in 0:62 }"
    assert copies(source, "cuda", TILES, M=32, N=64, K=64) == {"A": 4, "B": 8}


def test_rows_of_dynamic_length_are_copied_by_elements() -> None:
    kernel = tc.compile(MM, "cuda", options=TILES, dynamic=("K",))
    n: Any = kernel.specialize(M=32, N=64, K=64).compiled.nest
    assert {s.width for s in statements(n.body) if shared_copy(n, s)} == {1}


@pytest.mark.share(36)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("dtype", ["float", "double", "half", "int8", "uint8"])
@pytest.mark.parametrize("k", [32, 36, 38, 39])
def test_vector_copies_give_exact_results(dtype: str, k: int) -> None:
    """On PoCL: for whole tiles, tiles that end at a vector, and tiles that end within one."""
    rng = np.random.default_rng(k)
    numpy_type = {"float": "f4", "double": "f8", "half": "f2", "int8": "i1", "uint8": "u1"}[dtype]
    a, b = (rng.integers(0, 3, s).astype(numpy_type) for s in ((21, k), (40, k)))
    for source, given in ((MM, (a, b)), (MM_T, (a.T.copy(), b.T.copy()))):
        kernel = tc.compile(source.replace("float(", f"{dtype}("), "opencl", options=TILES)
        np.testing.assert_array_equal(kernel(*given), a @ b.T)


def test_inspection_shows_the_width_of_copies() -> None:
    kernel = tc.compile(MM, "cuda", options=TILES)
    for name in ("mapped", "choice"):
        text = kernel.inspect(name, M=32, N=64, K=62)
        assert re.search(r"A\.\d+\[.*\]: copies of 8 bytes", text), text
    loops = kernel.inspect("loops", M=32, N=64, K=62)
    assert re.search(r"A\.\d+\[.*\] = 2 of ", loops) and "at once" in loops


@pytest.mark.share(12)
@pytest.mark.parametrize("t", ["int8", "uint8"])
def test_products_of_bytes_become_dot_product_instructions(t: str) -> None:
    """As predicted: NVRTC recognises them in loops with a large enough unroll factor."""
    source = f"def f({t}(M,K) A, {t}(K,N) B) -> (C) {{ C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) }}"
    one: Any = tc.compile(source, "cuda", options={"isa": "sm_90"}).specialize(M=512, N=512, K=512).compiled
    launch = next(s for s in statements(one.nest.body) if isinstance(s, Launch))
    done = model.predict(one.nest, launch, target.H100).work
    products = 512**3 / 32  # of warps
    reads = [a for a in done.accesses if a.shared and not a.store]
    packed = sum(a.requests for a in reads if a.elements == 32 * a.requests)
    assert products / 4 + packed <= done.arithmetic["integer"] < 1.2 * (products / 4 + packed)
    text = ptx(one.module.text).split(".entry")[1]
    assert "dp4a." in text and not re.search(r"mad\.lo|mul\.lo\.s", text.partition("dp4a")[2])


def test_inputs_are_loaded_through_the_read_only_cache() -> None:
    """NVRTC knows by `const` and `__restrict__`; arrays that a kernel writes, too, are loaded otherwise."""
    source = "def f(float(N,M) A, float(M) b) -> (O) { O(i,j) = A(i,j) * b(j)\n O(i,j) = O(i,j) + A(i,j) }"
    options = {"isa": "sm_90", "use_private_memory": False, "use_shared_memory": False}
    text = ptx(tc.compile(source, "cuda", options=options).inspect("code", N=64, M=256))
    loads = re.findall(r"ld\.global\S*", text)
    assert {"ld.global.nc.f32", "ld.global.f32"} >= {x for x in loads if x.endswith("f32")}
    assert sum(".nc" in x for x in loads) >= 2


BATCHES: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    "product": (
        "def f(float(B,M,K) X, float(B,K,N) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }",
        {"B": 50, "M": 128, "N": 128, "K": 64},
        {},
    ),
    "convolution": (
        "def f(float(B,C,H,W) X, float(F,C,KH,KW) K) -> (Z) {"
        " Z(b,f,h,w) +=! X(b,c,h+kh,w+kw) * K(f,c,kh,kw) }",
        {"B": 40, "C": 16, "H": 34, "W": 34, "F": 32, "KH": 3, "KW": 3},
        {"tile": (1, 4, 32, 32), "threads": (32, 8)},  # tiles of several images would be partial
    ),
}


@pytest.mark.parametrize(
    ("backend", "name"), [("cuda", "product"), ("opencl", "product"), ("cuda", "convolution")]
)
def test_a_dynamic_batch_has_the_code_of_a_fixed_one(backend: str, name: str) -> None:
    """Except for a parameter: there is no guard, and no wider index."""
    source, sizes, options = BATCHES[name]
    kernels = (tc.compile(source, backend, options=options, dynamic=d) for d in ((), ("B",)))
    fixed, any_batch = (k.inspect("code", **sizes) for k in kernels)
    without = re.sub(r",\s*const long(?: long)? B\)", ")", any_batch)
    assert without != any_batch and without == fixed


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("dynamic", [("M",), ("N",), ("M", "N"), ("M", "N", "K")])
def test_dynamic_sizes_have_register_tiles_without_guards(dynamic: tuple[str, ...]) -> None:
    """Copies and stores have guards, the loop of the product has none."""
    kernel = tc.compile(MM, "cuda", options={"isa": "sm_90"}, dynamic=dynamic)
    choice, loops = (kernel.inspect(s, M=2048, N=2048, K=2048) for s in ("choice", "loops"))
    assert "C.0[8, 8]: registers of each thread" in choice
    product = re.search(r"\n( +)for c\d+ in \[0, [^\n]*at once\n(?:\1 +unrolled[^\n]*\n){2}\1 +S1:", loops)
    assert product is not None or "K" in dynamic, loops


@pytest.mark.slow
def test_one_kernel_multiplies_matrices_of_dynamic_sizes() -> None:
    """One kernel with tiles of 128 x 128, for sizes with no whole tiles, some, and only whole tiles."""
    kernel = tc.compile(MM, "opencl", options={"tile": (128, 128), "threads": (16, 16)}, dynamic=("M", "N"))
    rng = np.random.default_rng(3)
    for m, n in ((1, 1), (5, 300), (128, 128), (129, 257), (300, 7)):
        a, b = (rng.integers(-3, 4, (x, 40)).astype(np.float32) for x in (m, n))
        np.testing.assert_array_equal(kernel(a, b), a @ b.T)

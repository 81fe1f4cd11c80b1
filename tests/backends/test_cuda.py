"""The cuda backend without a device: compilation by NVRTC, and launches on a fake of pycuda."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc import registry
from tc.errors import BackendError
from tc.ir.loops import Launch, statements
from tc.kernel import CACHE
from tests.conformance.test_programs import CASES

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def module(name: str) -> Any:
    registry.load("cuda")
    return sys.modules[f"tc_backends.cuda.{name}"]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_code_is_compiled_without_a_device(arch: str) -> None:
    kernel = tc.compile(MATMUL, "cuda", options={"isa": arch})
    one = kernel.specialize(M=3, K=4, N=5)
    (launch,) = [s for s in statements(one.compiled.nest.body) if isinstance(s, Launch)]
    threads = math.prod(n for _, n in launch.threads)
    assert f'extern "C" __global__ __launch_bounds__({threads})' in one.source
    machine, *kernels = one.artifact("asm").splitlines()
    assert machine.startswith(f"{arch}, ")
    assert len(kernels) == 1 and kernels[0].startswith("mm_kernel: ")
    assert kernels[0].endswith(" 0 bytes stack, 0 bytes spill stores, 0 bytes spill loads")
    assert "launch mm" in kernel.inspect("loops", M=3, K=4, N=5)


def test_a_call_needs_a_device() -> None:
    state = registry.availability("cuda")
    assert (state.ok, state.compiles) == (False, True)
    assert state.reason and state.remedy
    kernel = tc.compile(MATMUL, "cuda")
    with pytest.raises(BackendError, match="the backend 'cuda' is not available") as caught:
        kernel(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
    assert caught.value.code == "TC0802"
    with pytest.raises(BackendError):
        registry.get("cuda")
    assert registry.get("cuda", run=False).name == "cuda"


@pytest.mark.parametrize("arch", ["sm_12", "sm_99f", "avx2", "neon"])
def test_unknown_architectures_are_refused(arch: str) -> None:
    with pytest.raises(BackendError, match=f"NVRTC cannot compile for {arch}") as caught:
        tc.compile(MATMUL, "cuda", options={"isa": arch}, sizes={"M": 2, "K": 2, "N": 2})
    assert caught.value.code == "TC0811"
    assert "sm_80, " in (caught.value.help or "")
    tc.compile(MATMUL, "cuda", options={"isa": "sm_90a"}, sizes={"M": 2, "K": 2, "N": 2})
    with pytest.raises(BackendError, match="cannot run sm_90 code"):
        tc.compile(MATMUL, "cpu", options={"isa": "sm_90"}, sizes={"M": 2, "K": 2, "N": 2})


def test_without_nvrtc_it_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    nvrtc = module("nvrtc")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    nvrtc._nvrtc.cache_clear()
    state = registry.availability("cuda")
    assert (state.ok, state.compiles, state.reason) == (False, False, "cuda-bindings is not installed")
    with pytest.raises(BackendError, match="cuda-bindings is not installed"):
        tc.compile(MATMUL, "cuda")
    nvrtc._nvrtc.cache_clear()


@pytest.mark.share(12)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if k % 12 == 0 else pytest.mark.slow) for k, n in enumerate(CASES)]
)
def test_programs_compile_without_stack_and_spills(name: str) -> None:
    case = CASES[name]
    for dtype in case.dtypes:
        kernel = tc.compile(case.source.replace("{T}", dtype), "cuda", case.entry)
        scalars = {s: int(case.scalars[s]) for s in kernel.front.specialized}
        for line in kernel.specialize(**case.sizes, **scalars).artifact("asm").splitlines()[1:]:
            assert line.endswith(" 0 bytes stack, 0 bytes spill stores, 0 bytes spill loads"), line


LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Function properties for b
ptxas         .     64 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 46 registers, used 0 barriers, 64 bytes cumulative stack size
ptxas info    : Compile time = 4.566 ms
ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas info    : Function properties for a
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 1 barriers, 4224 bytes smem, 372 bytes cmem[0]
ptxas info    : Function properties for __internal_trig_reduction_slowpathf
ptxas         .     40 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def test_resources_are_parsed_from_the_log_of_ptxas() -> None:
    nvrtc = module("nvrtc")
    assert nvrtc.parse(LOG) == {
        "b": nvrtc.Resources(registers=46, stack=64, spill_stores=8, spill_loads=12),
        "a": nvrtc.Resources(registers=16, shared=4224),
    }
    assert nvrtc.parse("") == {}


class Driver:
    """A fake of pycuda.driver, whose kernels multiply matrices; it records the calls."""

    class Error(Exception):
        pass

    class MemoryError(Error):
        pass

    def __init__(self, room: int = 1 << 30) -> None:
        self.log: list[Any] = []
        self.held: dict[int, np.ndarray[Any, Any]] = {}
        self.room = room
        self.depth = 0

    # of a context
    def push(self) -> None:
        self.depth += 1

    def pop(self) -> None:
        self.depth -= 1

    def mem_alloc(self, size: int) -> Any:
        assert self.depth == 1
        if size > self.room:
            raise self.MemoryError("cuMemAlloc failed: out of memory")
        key = len(self.log)
        self.log.append(("alloc", size))
        self.held[key] = np.zeros(size, np.uint8)
        return SimpleNamespace(key=key, free=lambda: self.held.pop(key))

    def memcpy_htod(self, buffer: Any, content: Any) -> None:
        self.held[buffer.key][: content.size] = content

    def memcpy_dtoh(self, content: Any, buffer: Any) -> None:
        content[...] = self.held[buffer.key][: content.size]

    def module_from_buffer(self, cubin: bytes) -> Any:
        assert cubin.startswith(b"\x7fELF")
        self.log.append("module")
        return SimpleNamespace(get_function=self.function)

    def function(self, name: str) -> Any:
        assert name == "mm_kernel"
        return Function(self)

    function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="most shared")


class Function:
    """A product of matrices."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def set_attribute(self, which: str, value: int) -> None:
        self.driver.log.append((which, value))

    def __call__(self, a: Any, b: Any, c: Any, *, grid: Any, block: Any, shared: int) -> None:
        self.driver.log.append(("launch", grid, block, shared))
        x, y, z = (self.driver.held[p.key].view(np.float32) for p in (a, b, c))
        k = math.isqrt(x.size * y.size // z.size)
        z[...] = (x.reshape(-1, k) @ y.reshape(k, -1)).ravel()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    device, with_pycuda = module("device"), module("with_pycuda")
    one = with_pycuda.PycudaDriver(
        made, SimpleNamespace(name=lambda: "stand-in", compute_capability=lambda: (8, 6)), made
    )
    monkeypatch.setattr(device, "find", lambda number=None: one)
    CACHE.clear()  # of kernels for other architectures
    return made


def test_kernels_are_launched_with_their_arguments(driver: Driver) -> None:
    kernel = tc.compile(MATMUL, "cuda")
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(a, b), a @ b)
    assert driver.log.count("module") == 1
    first, second = (x for x in driver.log if x[0] == "launch")
    assert first == second
    assert not driver.held and driver.depth == 0
    assert kernel.inspect("asm", M=2, K=3, N=4).startswith("sm_86, ")


@pytest.mark.filterwarnings("ignore::tc.PerformanceNotice")  # of the results of such a tile
def test_large_shared_memory_is_requested_at_launch(driver: Driver) -> None:
    kernel = tc.compile(
        MATMUL, "cuda", options={"tile": (256, 256), "threads": (32, 32), "max_shared_memory": 99 << 10}
    )
    a = np.arange(256 * 64, dtype=np.float32).reshape(256, 64) % 7
    np.testing.assert_array_equal(kernel(a, a.T.copy()), a @ a.T)
    (launch,) = (x for x in driver.log if x[0] == "launch")
    shared = launch[3]
    assert shared > 48 << 10
    assert ("most shared", shared) in driver.log
    assert f"{shared} bytes shared" in kernel.inspect("asm", M=256, K=64, N=256)


@pytest.mark.parametrize(
    ("arch", "device", "preset"),
    [
        ("sm_90", "NVIDIA H200", "H200"),
        ("sm_90", "NVIDIA H100 80GB HBM3", "H100"),
        ("sm_90", "", "H100"),
        ("sm_80", "NVIDIA A100-SXM4-80GB", "A100"),
        ("sm_80", "NVIDIA H200", "A100"),  # code for another device than the one that is here
        ("sm_86", "NVIDIA GeForce RTX 3090", "A100"),
    ],
)
def test_a_preset_is_found_by_the_name_of_the_device(arch: str, device: str, preset: str) -> None:
    registry.load("cuda")
    assert sys.modules["tc_backends.gpu.target"].of_architecture(arch, device).name == preset


@pytest.mark.filterwarnings("ignore::tc.PerformanceNotice")  # of the results of such a tile
@pytest.mark.parametrize(
    ("arch", "most", "async_copies"), [("sm_75", 64, False), ("sm_86", 99, True), ("sm_90", 227, True)]
)
def test_architectures_have_their_limits(arch: str, most: int, async_copies: bool) -> None:
    registry.load("cuda")
    target = sys.modules["tc_backends.gpu.target"].of_architecture(arch)
    assert (target.shared, target.async_copies) == (most << 10, async_copies)
    kernel = tc.compile(MATMUL, "cuda", options={"isa": arch, "tile": (256, 256), "threads": (32, 32)})
    one = kernel.specialize(M=256, K=256, N=256)
    (taken,) = one.compiled.module.kernels
    assert 0 < taken.shared <= target.shared
    assert one.inspect("asm").startswith(arch)


def test_exhausted_device_memory_is_reported(driver: Driver) -> None:
    driver.room = 40
    with pytest.raises(BackendError, match="mm on 'cuda': out of memory"):
        tc.compile(MATMUL, "cuda")(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
    assert not driver.held and driver.depth == 0


@pytest.mark.slow
def test_a_register_tile_that_spills_is_rejected_with_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc = module("nvrtc")
    compiled = nvrtc.compile_text
    large = re.compile(r"float C_\d\[[48]\]\[[48]\];")

    def crowded(text: str, arch: str, contract: bool) -> Any:
        """Large register tiles are made to spill."""
        made = compiled(text, arch, contract)
        if not large.search(text):
            return made
        resources = {n: replace(r, stack=64) for n, r in made.resources.items()}
        return replace(made, resources=resources)

    monkeypatch.setattr(nvrtc, "compile_text", crowded)
    with pytest.warns(
        tc.PerformanceNotice, match=r"mm on cuda: a simpler map is taken, rejected: mm: blocks"
    ):
        one = tc.compile(MATMUL, "cuda", options={"isa": "sm_90"}).specialize(M=1024, K=64, N=1024)
    lines = one.artifact("choice").splitlines()
    rejected = [x for x in lines if x.startswith("rejected: ")]
    assert all(x.startswith("rejected: mm: blocks ") for x in rejected)
    assert all(x.endswith("64 bytes of registers in memory") for x in rejected)
    used = [x for x in lines[len(rejected) :] if x.startswith("mm: blocks ")]
    assert len(used) == 1 and not large.search(one.source)

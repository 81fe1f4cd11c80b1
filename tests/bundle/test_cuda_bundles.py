"""Bundles for CUDA devices, on a driver that runs the kernels' texts on the host."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import kernel as kernels
from tc import registry
from tc.cache import disk, memory
from tests.bundle.test_files import bare, error_of
from tests.simt.driver import StandIn

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SIZES = {"M": 5, "K": 3, "N": 4}
GATHER = "def gather(float(N,D) T, int(M) I, float a) -> (y) { y(i,d) = a * T(I(i),d) }"
A, B = np.arange(15, dtype=np.float32).reshape(5, 3), np.ones((3, 4), np.float32)


def module(name: str) -> Any:
    registry.load("cuda")
    registry.runtime("cuda")
    return sys.modules[f"tc_backends.cuda.{name}"]


class Device(StandIn):
    """A device that is given machine code and runs the text which that was made from."""

    def __init__(self, arch: str, texts: dict[bytes, str]) -> None:
        super().__init__()
        self.arch, self.texts = arch, texts
        self.loaded: list[bytes] = []

    def load(self, image: bytes) -> str:
        self.loaded.append(image)
        return self.texts[image]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, str]:
    """The texts of all machine code that is made meanwhile."""
    nvrtc = module("nvrtc")
    compile_text, ptx_of, made = nvrtc.compile_text, nvrtc.ptx_of, dict[bytes, str]()

    def compiled(text: str, *args: Any) -> Any:
        found = compile_text(text, *args)
        made[found.cubin] = text
        return found

    def translated(text: str, *args: Any) -> bytes:
        found = ptx_of(text, *args)
        made[found] = text
        return found

    monkeypatch.setattr(nvrtc, "compile_text", compiled)
    monkeypatch.setattr(nvrtc, "ptx_of", translated)
    return made


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, texts: dict[bytes, str]) -> Any:
    """`on("sm_90")`: the device that there is from now on."""

    def install(arch: str) -> Device:
        driver = Device(arch, texts)
        monkeypatch.setattr(module("device"), "_find", lambda number: driver)
        return driver

    return install


def exported(source: str, path: Path, sizes: Any, dynamic: Any = (), **targets: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, "cuda", dynamic=dynamic).export(path, sizes, **targets)


def test_each_device_gets_its_code(on: Any, tmp_path: Path) -> None:
    path = exported(MM, tmp_path / "mm.tcb", SIZES, arch=["sm_80", "sm_90"])
    assert tc.load(path).targets == ("sm_80", "sm_90", "compute_90")
    code = {}
    for arch, kind in (
        ("sm_80", b"\x7fELF"),
        ("sm_89", b"\x7fELF"),
        ("sm_90", b"\x7fELF"),
        ("sm_120", b"//"),
    ):
        driver = on(arch)
        bundle = tc.load(path)
        for _ in range(2):
            assert (bundle(A, B) == A @ B).all()
        (image,) = driver.loaded
        assert image.lstrip().startswith(kind) and driver.log == ["mm_kernel"] * 2
        code[arch] = image
    assert code["sm_80"] == code["sm_89"] != code["sm_90"]
    assert b".target sm_90" in code["sm_120"] and code["sm_120"].endswith(b"\0")
    old = on("sm_75")
    error = error_of(path)
    assert error.code == "TC0830"
    assert f"has code for sm_80, sm_90, compute_90, and {old.name} is sm_75" in error.message
    assert error.help == "export it for this device too: --arch sm_75"


@pytest.mark.parametrize(
    ("targets", "arch", "best"),
    [
        (("sm_80", "sm_86", "compute_86"), "sm_89", "sm_86"),
        (("sm_80", "sm_90a"), "sm_90", "sm_90a"),
        (("sm_90", "sm_90a"), "sm_90", "sm_90a"),
        (("sm_90a", "compute_80"), "sm_100", "compute_80"),
        (("compute_80", "compute_90"), "sm_86", "compute_80"),
        (("sm_90a",), "sm_100", None),
        (("sm_90", "compute_90"), "sm_80", None),
        (("avx2",), "sm_80", None),
    ],
)
def test_the_best_code_for_a_device(targets: tuple[str, ...], arch: str, best: str | None, on: Any) -> None:
    on(arch)
    if best is not None:
        assert targets[module("runtime").choose(targets, "f")] == best
        return
    with pytest.raises(tc.BackendError) as caught:
        module("runtime").choose(targets, "f")
    assert caught.value.code == "TC0830"


@pytest.mark.parametrize("dynamic", [(), ("M",)])
def test_an_index_out_of_range_has_the_message_of_the_kernel(dynamic: Any, on: Any, tmp_path: Path) -> None:
    path = exported(GATHER, tmp_path / "g.tcb", {"N": 6, "D": 2, "M": 3}, dynamic, arch="sm_90")
    on("sm_90")
    bundle, table = tc.load(path), np.arange(12, dtype=np.float32).reshape(6, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        judge = tc.compile(GATHER, "cpu")
    for index in ([5, 0, 2], [1, 1, 1]):
        assert (bundle(table, np.array(index, np.int32), 2) == 2 * table[index]).all()
    outside = np.array([0, 6, 0], np.int32)
    with pytest.raises(tc.BoundsError) as want:
        judge(table, outside, 2)
    with pytest.raises(tc.BoundsError) as found:
        bundle(table, outside, 2)
    assert str(found.value) == str(want.value)


def test_several_launches_and_a_workspace(on: Any, tmp_path: Path) -> None:
    body = "m(n) max=! x(n,d)\n s(n) +=! x(n,d) - m(n)\n y(d) +=! x(n,d) * s(n)"
    source = f"def soft(float(N,D) x) -> (y) {{ {body} }}"
    path = exported(source, tmp_path / "soft.tcb", {"N": 70, "D": 300}, arch="sm_90")
    driver = on("sm_90")
    x = np.random.default_rng(0).integers(-3, 4, (70, 300)).astype(np.float32)
    want = tc.compile(source, "cpu")(x)
    np.testing.assert_allclose(tc.load(path)(x), want, rtol=1e-6)
    assert len(driver.log) > 1


def test_processors_and_devices_in_one_file(on: Any, tmp_path: Path) -> None:
    kernel = tc.compile(MM, "cpu")
    path = kernel.export(tmp_path / "mm.tcb", SIZES, isa="avx2,sse4.2", arch="sm_90")
    driver = on("sm_90")
    assert (tc.load(path)(A, B) == A @ B).all() and not driver.log
    bundle = tc.load(path, "cuda")
    assert (bundle(A, B) == A @ B).all() and driver.log
    assert (tc.load(path).targets, bundle.targets) == (("avx2", "sse4.2"), ("sm_90", "compute_90"))
    with pytest.raises(tc.BackendError, match="has nothing for the backend 'opencl'"):
        tc.load(path, "opencl")


def test_devices_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = exported(MM, tmp_path / "mm.tcb", SIZES, arch="sm_90")
    monkeypatch.setattr(module("device"), "_installed", lambda package: False)
    module("device")._find.cache_clear()
    assert error_of(path).code == "TC0815"
    module("device")._find.cache_clear()
    with pytest.raises(tc.BackendError, match="NVRTC cannot compile for sm_12") as caught:
        exported(MM, tmp_path / "never.tcb", SIZES, arch="sm_12")
    assert caught.value.code == "TC0811" and not (tmp_path / "never.tcb").exists()


CHILD = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from contextlib import nullcontext
import numpy as np
import tc
from tc import registry

class Driver:
    name, arch, log = "recorder", "sm_90", []
    entered = staticmethod(nullcontext)
    def load(self, image): self.log.append(image[:4].hex()); return image
    def function(self, module, name, dynamic_shared): return name
    def allocate(self, size): return 4096 * (1 + len(self.log))
    def free(self, buffer): pass
    def upload(self, buffer, content): self.log.append("upload")
    def download(self, content, buffer): content[...] = 0
    def launch(self, function, arguments, blocks, threads, shared, stream=0): self.log.append(function)

registry.runtime("cuda").device._find = lambda number: Driver()
bundle = tc.load(sys.argv[2])
result = bundle(np.ones((5, 3), np.float32), np.ones((3, 4), np.float32))
print(json.dumps([result.shape, Driver.log, sorted(sys.modules)]))
"""


def test_a_bundle_for_cuda_runs_where_there_is_no_compiler(tmp_path: Path) -> None:
    path = exported(MM, tmp_path / "mm.tcb", SIZES, arch="sm_90")
    packages = bare(tmp_path / "packages")
    (packages / "tc_backends").symlink_to(Path(tc.__file__).parents[1] / "backends")
    entries = importlib.metadata.distribution("tensor-comprehensions").read_text("entry_points.txt")
    (packages / "tc-0.dist-info").mkdir()
    (packages / "tc-0.dist-info" / "METADATA").write_text("Name: tc\nVersion: 0\n")
    (packages / "tc-0.dist-info" / "entry_points.txt").write_text(entries or "")
    command = [sys.executable, "-I", "-S", "-c", CHILD, str(packages), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    shape, log, modules = json.loads(done.stdout)
    assert shape == [5, 4] and log == [b"\x7fELF".hex(), "upload", "upload", "mm_kernel"]
    heavy = {"halide", "islpy", "lark", "llvmlite", "cuda", "tc._halide", "tc.kernel", "platformdirs"}
    assert not heavy & set(modules)
    assert not [m for m in modules if m.startswith(("tc.poly", "tc.lang", "tc_backends.cuda.passes"))]


# ---- the store of kernels


def test_kernels_are_kept_on_disk(on: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TC_VERIFY")
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path / "kernels"))
    driver = on("sm_90")
    runs: list[tc.Compiled] = []
    nvrtc = module("nvrtc")
    compile_text = nvrtc.compile_text
    for k in range(2):
        monkeypatch.setattr(kernels, "CACHE", memory.CompileCache())  # as in another process
        if k == 1:

            def refuse(*args: Any) -> Any:
                raise AssertionError("NVRTC is called")

            monkeypatch.setattr(nvrtc, "compile_text", refuse)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tc.Warning)
            kernel = tc.compile(GATHER, "cuda")
        table = np.arange(12, dtype=np.float32).reshape(6, 2)
        assert (kernel(table, np.array([5, 0, 2], np.int32), 2) == 2 * table[[5, 0, 2]]).all()
        with pytest.raises(tc.BoundsError, match="index 6 is out of range"):
            kernel(table, np.array([0, 6, 0], np.int32), 2)
        runs.append(kernel.specialize(N=6, D=2, M=3))
    assert [r.restored for r in runs] == [False, True]
    assert len(set(driver.loaded)) == 1 and runs[0].compiled.workspace == runs[1].compiled.workspace
    monkeypatch.setattr(nvrtc, "compile_text", compile_text)
    assert runs[0].source == runs[1].source  # for which it is compiled again
    on("sm_80")
    monkeypatch.setattr(kernels, "CACHE", memory.CompileCache())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        assert not tc.compile(GATHER, "cuda").specialize(N=6, D=2, M=3).restored
    kept = disk.default()
    assert kept is not None and len(kept.entries()) >= 2

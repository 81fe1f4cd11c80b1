"""Kernels that outlive the process: with `from_blob` a backend compiles once, and again where in doubt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import kernel, registry
from tc.cache import disk, memory
from tc.codegen import llvm_jit
from tc.ir.evaluate import evaluate
from tc.pipeline import load
from tc.pipeline.target import Availability

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
GATHER = "def gather(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }"
SIZES = {"M": 3, "K": 4, "N": 5}
A, B = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 5), np.float32)


class StoredKernel:
    """The reference backend's kernel, or what is left of it on disk."""

    def __init__(self, code: llvm_jit.MachineCode, workspace: int, artifact: Any = None) -> None:
        self.code, self.workspace, self.release_gil = code, workspace, True
        self.address, self.notices = code.address, ()
        if artifact is not None:
            self.artifact = artifact

    def to_blob(self) -> bytes | None:
        return disk.pack({"workspace": self.workspace}, self.code.object)


class Keeping:
    """Compiles as the reference backend does and counts; its kernels can be kept."""

    name = "keeping"
    options_used = frozenset({"strict", "fast_math"})
    dynamic_sizes = False

    def __init__(self) -> None:
        self.compiled = self.restored = 0
        self.version = "1"

    def available(self) -> Availability:
        return Availability(True)

    def passes(self, options: tc.Options) -> Any:
        return registry.get("reference").passes(options)

    def compile(self, program: Any, options: Any = None, typical: Any = None) -> StoredKernel:
        self.compiled += 1
        made: Any = registry.get("reference").compile(program, options, typical)
        return StoredKernel(made._code, made.workspace, made.artifact)

    def version_key(self) -> str:
        return self.version

    def from_blob(self, program: Any, blob: bytes) -> StoredKernel:
        facts, code = disk.unpack(blob)
        made = StoredKernel(llvm_jit.load_object(code, "kernel"), facts["workspace"])
        self.restored += 1
        return made


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Keeping:
    """Registered as "keeping", with an empty directory for its kernels."""
    made = Keeping()
    monkeypatch.setattr(registry, "_found", {**registry._entries(), "keeping": None})
    monkeypatch.setitem(registry._loaded, "keeping", made)
    monkeypatch.delenv("TC_VERIFY")
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path / "kernels"))
    return made


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tc.Kernel]:
    """`fresh(source, …)`: the kernel in a process that has compiled nothing."""

    def compile(source: str = MM, **how: Any) -> tc.Kernel:
        monkeypatch.setattr(kernel, "CACHE", memory.CompileCache())
        return tc.compile(source, **{"backend": "keeping", **how})

    return compile


Fresh = Callable[..., tc.Kernel]


def kept() -> int:
    found = disk.default()
    assert found is not None
    return len(found.entries())


def test_a_kernel_is_compiled_once_and_restored_later(backend: Keeping, fresh: Fresh) -> None:
    first = fresh().specialize(**SIZES)
    assert not first.restored and (backend.compiled, backend.restored) == (1, 0)
    k = fresh()
    again = k.specialize(**SIZES)
    assert again.restored and (backend.compiled, backend.restored) == (1, 1)
    assert again.program == first.program and "load" in again.seconds and "machine" not in again.seconds
    assert k(A, B).tolist() == (A @ B).tolist()
    assert (backend.compiled, backend.restored) == (1, 1)


def test_a_restored_kernel_says_what_was_out_of_range(backend: Keeping, fresh: Fresh) -> None:
    messages: list[str] = []
    for _ in range(2):
        with pytest.warns(tc.DataDependentAccess):
            k = fresh(GATHER)
        with pytest.raises(tc.BoundsError) as caught:
            k(np.ones(3, np.float32), np.array([0, 7], np.int32))
        messages.append(str(caught.value))
    assert backend.restored == 1 and messages[0] == messages[1] and "index 7" in messages[0]


def test_stages_of_a_restored_kernel_are_those_of_the_compile(backend: Keeping, fresh: Fresh) -> None:
    stages = ("schedule", "loops", "code", "llvm", "asm")
    texts = [[fresh().inspect(s, **SIZES) for s in stages] for _ in range(2)]
    assert texts[0] == texts[1] and backend.restored > 0
    k = fresh()
    compiled = k.specialize(**SIZES)
    before = backend.compiled
    assert compiled.source == texts[0][2] and compiled.schedule == texts[0][0]
    assert backend.compiled == before + 1


@pytest.mark.parametrize(
    "how",
    [
        {"source": MM.replace("float(M,K)", "double(M,K)")},
        {"source": MM.replace("*", "+")},
        {"source": MM.replace("mm", "nn")},
        {"source": MM + MM.replace("mm", "nn"), "entry": "mm"},
        {"options": {"strict": True}},
        {"options": {"fast_math": True}},
        {"checks": "none"},
        {"sizes": {**SIZES, "N": 6}},
        {"sizes": {**SIZES, "N": 2**31}},
    ],
    ids=str,
)
def test_whatever_selects_the_code_is_part_of_the_key(
    backend: Keeping, fresh: Fresh, how: dict[str, Any]
) -> None:
    fresh().specialize(**SIZES)
    fresh(**{"sizes": SIZES, **how})
    assert (backend.compiled, backend.restored) == (2, 0)
    fresh(**{"sizes": SIZES, **how})
    assert (backend.compiled, backend.restored) == (2, 1)


def test_variants_are_kept_apart(backend: Keeping, fresh: Fresh) -> None:
    source = "def total(float(N) A, int(N) I) -> (s) { s += A(I(i)) }"
    calls: list[dict[str, Any]] = [{}, {"out": np.zeros((), np.float32)}]
    a = np.ones(3, np.float32)
    for expected in ((4, 0), (4, 4)):
        for given in calls:
            for t in (np.int32, np.int64):
                with pytest.warns(tc.Warning):
                    k = fresh(source)
                k(a, np.arange(3, dtype=t), **given)
        assert (backend.compiled, backend.restored) == expected


def test_another_version_of_the_backend_compiles_again(backend: Keeping, fresh: Fresh) -> None:
    fresh().specialize(**SIZES)
    backend.version = "2"
    assert not fresh().specialize(**SIZES).restored
    assert fresh().specialize(**SIZES).restored


@pytest.mark.parametrize("place", ["__version__", "sources", "_version"])
def test_another_version_of_tc_compiles_again(
    backend: Keeping, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    fresh().specialize(**SIZES)
    load.versions.cache_clear()
    try:
        with monkeypatch.context() as m:
            where = disk if place == "sources" else load
            m.setattr(where, place, "9.9" if place == "__version__" else lambda name: "9.9")
            assert not fresh().specialize(**SIZES).restored
    finally:
        load.versions.cache_clear()
    assert fresh().specialize(**SIZES).restored


@pytest.mark.parametrize("blob", [b"", disk.pack({}, b""), disk.pack({"workspace": 0}, b"not an object")])
def test_a_blob_that_the_backend_refuses_is_replaced(
    backend: Keeping, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, blob: bytes
) -> None:
    with monkeypatch.context() as m:
        m.setattr(StoredKernel, "to_blob", lambda self: blob)
        fresh().specialize(**SIZES)
    with pytest.warns(tc.CacheNotice, match="a stored kernel is of no use and is compiled again"):
        k = fresh()
        assert not k.specialize(**SIZES).restored
    assert k(A, B).tolist() == (A @ B).tolist()
    assert fresh().specialize(**SIZES).restored and kept() >= 1


def test_a_damaged_file_is_compiled_again_in_silence(backend: Keeping, fresh: Fresh, tmp_path: Path) -> None:
    fresh().specialize(**SIZES)
    for path in (tmp_path / "kernels").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-3])
    assert not fresh().specialize(**SIZES).restored
    assert fresh().specialize(**SIZES).restored


def test_a_directory_that_is_of_no_use_fails_no_compile(
    backend: Keeping, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    with pytest.warns(tc.CacheNotice, match="cannot be used"):
        assert fresh()(A, B).tolist() == (A @ B).tolist()
    assert fresh()(A, B).tolist() == (A @ B).tolist()  # and warns once


@pytest.mark.parametrize("name, value", [("TC_VERIFY", "1"), ("TC_CACHE", "0")])
def test_settings_that_leave_the_disk_alone(
    backend: Keeping, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    fresh().specialize(**SIZES)
    before = kept()
    monkeypatch.setenv(name, value)
    assert not fresh().specialize(**SIZES).restored
    fresh().specialize(**{**SIZES, "M": 9})
    monkeypatch.delenv(name)
    assert kept() == before


def test_what_cannot_be_kept_is_not(
    backend: Keeping, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(StoredKernel, "to_blob", lambda self: None)
    for _ in range(2):
        assert not fresh().specialize(**SIZES).restored
    monkeypatch.setattr(Keeping, "compile", lambda self, *rest: registry.get("reference").compile(*rest))
    assert not fresh().specialize(**SIZES).restored  # what it compiles knows no way to be kept
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path / "other"))
    fresh(backend="reference").specialize(**SIZES)  # a backend that keeps nothing
    assert not (tmp_path / "other").exists()


SCRIPT = """
import json, sys
import numpy as np
import tc
from tc import registry
from tests.runtime import test_kept_kernels as t

backend = t.Keeping()
registry._entries()["keeping"] = None
registry._loaded["keeping"] = backend
k = tc.compile(t.MM, backend="keeping")
C = k(t.A, t.B)
print(json.dumps([backend.compiled, backend.restored, C.tolist()]))
"""


def test_from_one_process_to_the_next(tmp_path: Path) -> None:
    environment = {**os.environ, "TC_CACHE_DIR": str(tmp_path / "kernels")}
    del environment["TC_VERIFY"]
    seen: list[Any] = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        seen.append(json.loads(done.stdout))
    expected = (A @ B).tolist()
    assert seen == [[1, 0, expected], [0, 1, expected]]


DYNAMIC = {  # passes give the programs temporaries of their own
    "running sums": "def f(float(N,M) x) -> (y) { y(n,i) +=! x(n,k) where k <= i, i in 0:M }",
    "running maxima of several": """def f(double(N,M) x) -> (y, z) {
      y(n,i) max=! x(n,k) where k <= i, i in 0:M
      z(n) +=! y(n,i) * x(n,i)
    }""",
    "three matrices": "def f(float(N,M) x, float(M,M) w) -> (y) { y(n,j) +=! x(n,k) * w(k,l) * w(l,j) }",
    "soft-max": """def f(float(N,M) x) -> (y) {
      m(n) max=! x(n,k)
      e(n,k) = exp(x(n,k) - m(n))
      s(n) +=! e(n,k)
      y(n,k) = e(n,k) / s(n)
    }""",
    "a loop": """def f(float(N,M) x) -> (y) {
      s(n) = x(n,0) where n in 0:N
      for t in 1:M { s(n) = 2*s(n) + x(n,t)  u(n,i) = s(n) * x(n,i)  y(t,n) +=! u(n,i) }
    }""",
}


@pytest.mark.parametrize("source", DYNAMIC.values(), ids=DYNAMIC)
def test_a_kernel_of_dynamic_sizes_has_room_for_its_temporaries(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From disk as when it was compiled: for running sums it had less, and wrote beyond it."""
    found: Any = registry.get("cpu")
    made: list[tuple[Any, Any]] = []
    compiled = type(found).compile

    def compile_and_look(self: Any, program: Any, *rest: Any) -> Any:
        made.append((program, compiled(self, program, *rest)))
        return made[-1][1]

    monkeypatch.setattr(type(found), "compile", compile_and_look)
    for dynamic in (("N",), ("N", "M")):
        x = np.ones((3, 17), np.float64 if "double" in source else np.float32)
        more = (np.ones((17, 17), np.float32),) if "w)" in source else ()
        tc.compile(source, "cpu", dynamic=dynamic)(x, *more)
    assert made
    for program, original in made:
        restored = found.from_blob(program, original.to_blob())
        for n in (0, 1, 2, 5, 40, 300):
            sizes = {name: n + 3 * k for k, name in enumerate(program.sizes)}
            assert _room(restored, sizes) == _room(original, sizes)


def _room(made: Any, sizes: dict[str, int]) -> int:
    return made.workspace if isinstance(made.workspace, int) else evaluate(made.workspace, sizes)

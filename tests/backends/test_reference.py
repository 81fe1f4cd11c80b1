"""The reference backend through the registry, and the registry."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from tc import registry
from tc.dtypes import FLOAT32, FLOAT64
from tc.errors import BackendError, InternalError
from tc.ir.expr import Call, Variable
from tc.ir.specialize import specialize
from tc.pipeline.target import Availability, Backend
from tests.codegen.kernels import call
from tests.poly import programs
from tests.poly.programs import Build, axis, box


def compiled(name: str, sizes: dict[str, int]) -> Any:
    p = specialize(programs.ALL[name](), sizes)
    return registry.get("reference").compile(p, None)


def function(c: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(c.address)


def test_a_compiled_program_runs() -> None:
    c = compiled("matmul", {"M": 3, "N": 4, "K": 5})
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    b = np.arange(20, dtype=np.float32).reshape(5, 4)
    r = call(function(c), c.nest, {"A": a, "B": b})
    np.testing.assert_array_equal(r.outputs["C"], a @ b)
    assert (c.workspace, c.release_gil) == (0, False)


def test_large_work_releases_the_interpreter_lock() -> None:
    assert compiled("matmul", {"M": 100, "N": 100, "K": 2}).release_gil
    assert compiled("softmax", {"N": 3, "D": 4}).workspace == 64


def test_every_stage_can_be_seen() -> None:
    c = compiled("softmax", {"N": 3, "D": 4})
    assert "sequence:" in c.artifact("schedule")
    assert "temporary float32 tmp[3] at workspace + 0" in c.artifact("loops")
    assert "expf(I[n][d] - tmp[n])" in c.artifact("code")
    assert "define i32 @kernel(ptr %args)" in c.artifact("llvm")
    assert "kernel:" in c.artifact("asm")
    with pytest.raises(BackendError, match="no stage 'mapped'"):
        c.artifact("mapped")


def test_a_program_with_symbolic_sizes_is_refused() -> None:
    with pytest.raises(InternalError, match="not specialised: M, N"):
        registry.get("reference").compile(specialize(programs.matmul(), {"K": 3}), None)


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64], ids=str)
def test_functions_of_libm_and_our_own_resolve_in_process(t: Any) -> None:
    b = Build("functions", "N")
    b.input("x", t, "N")
    for f in ("tanh", "tgamma", "normcdf", "j0", "sinpi"):
        b.tensor(f"o_{f}", t, *box("N"))
        b.stage(f"o_{f}", ("i",), None, Call(f, (b.read("x", "i"),), t, "intrinsic"), axis("i", 0, "N"))
    c = registry.get("reference").compile(specialize(b.done(), {"N": 2}), None)
    r = call(function(c), c.nest, {"x": [0.5, 1.5]})
    np.testing.assert_allclose(r.outputs["o_tanh"], np.tanh([0.5, 1.5]), rtol=1e-6)
    np.testing.assert_allclose(r.outputs["o_tgamma"], [1.772453850905516, 0.886226925452758], rtol=1e-6)
    np.testing.assert_allclose(r.outputs["o_normcdf"], [0.6914624612740131, 0.9331927987311419], rtol=1e-6)
    np.testing.assert_allclose(r.outputs["o_j0"], [0.938469807240813, 0.511827671735918], rtol=1e-6)
    np.testing.assert_allclose(r.outputs["o_sinpi"], [1.0, -1.0], rtol=1e-6)


def test_a_broken_kernel_does_not_end_the_process() -> None:
    b = Build("broken", "N")
    b.tensor("o", FLOAT32, *box("N"))
    b.stage("o", ("i",), None, Variable("ghost", FLOAT32), axis("i", 0, "N"))
    with pytest.raises(InternalError, match="ghost"):
        registry.get("reference").compile(specialize(b.done(), {"N": 1}), None)


def test_many_threads_may_compile_and_kernels_outlive_each_other() -> None:
    def one(k: int) -> Any:
        c = compiled("matmul", {"M": k + 1, "N": 2, "K": 3})
        a, b = np.ones((k + 1, 3), np.float32), np.full((3, 2), k, np.float32)
        r = call(function(c), c.nest, {"A": a, "B": b})
        np.testing.assert_array_equal(r.outputs["C"], a @ b)
        return c

    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(one, range(12)))[::3]
    for c in kept:
        m = c.nest.array("A").shape[0].value
        r = call(function(c), c.nest, {"A": np.ones((m, 3)), "B": np.ones((3, 2))})
        np.testing.assert_array_equal(r.outputs["C"], 3)


# --- The registry.


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(BackendError) as caught:
        registry.get("referense")
    assert (caught.value.code, caught.value.help) == ("TC0801", "did you mean 'reference'?")
    with pytest.raises(BackendError, match="there is no backend 'tpu'"):
        registry.availability("tpu")
    assert "reference" in registry.names()
    assert registry.availability("reference").ok
    assert registry.get("reference") is registry.load("reference")
    assert isinstance(registry.get("reference"), Backend)


class _Absent:
    name = "absent"

    def available(self) -> Availability:
        return Availability(False, "no device", "buy one")

    options_used: frozenset[str] = frozenset()
    dynamic_sizes = False

    def passes(self, options: Any) -> Any:
        raise AssertionError

    def compile(self, program: Any, options: Any = None, typical: Any = None) -> Any:
        raise AssertionError


@pytest.fixture
def _more_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        "absent": EntryPoint("absent", f"{__name__}:_Absent", registry.GROUP),
        "torn": EntryPoint("torn", "no_such_module:Backend", registry.GROUP),
    }
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, type(sys)(__name__)))
    monkeypatch.setattr(sys.modules[__name__], "_Absent", _Absent, raising=False)
    monkeypatch.setattr(registry, "_found", entries)
    monkeypatch.setattr(registry, "_loaded", {})


@pytest.mark.usefixtures("_more_backends")
def test_a_backend_that_cannot_run_says_why_and_what_to_do() -> None:
    with pytest.raises(BackendError) as caught:
        registry.get("absent")
    assert caught.value.code == "TC0802"
    assert caught.value.message == "the backend 'absent' is not available: no device"
    assert caught.value.help == "buy one"
    assert not registry.availability("absent").ok


@pytest.mark.usefixtures("_more_backends")
def test_a_backend_that_does_not_load_is_unavailable() -> None:
    with pytest.raises(BackendError) as caught:
        registry.get("torn")
    assert caught.value.code == "TC0803"
    assert "no_such_module" in registry.availability("torn").reason


def test_the_registry_loads_no_backend_before_it_is_asked() -> None:
    code = (
        "import sys, tc.registry as r; r.names();"
        "assert not {'islpy', 'llvmlite', 'halide', 'tc_backends'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

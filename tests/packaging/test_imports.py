"""What an import loads, and the layers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"halide", "islpy", "llvmlite", "lark", "torch", "jax", "pycuda", "pyopencl", "matplotlib"}


def loaded_by(statement: str) -> set[str]:
    """The top-level modules, and those of tc, in a fresh interpreter after `statement`."""
    code = f"{statement}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    names = json.loads(done.stdout)
    return {n.partition(".")[0] for n in names} | {n for n in names if n.startswith("tc.")}


def test_importing_tc_loads_no_heavy_dependency() -> None:
    loaded = loaded_by("import tc")
    assert "tc" in loaded
    assert loaded & HEAVY == set()


def test_importing_the_solver_loads_neither_halide_nor_the_extension() -> None:
    loaded = loaded_by("import tc.halide.solve")
    assert "tc.halide.solve" in loaded
    assert loaded & (HEAVY | {"tc._halide", "ctypes"}) == set()


def test_solving_loads_the_library_but_not_the_halide_module() -> None:
    loaded = loaded_by("from tc.halide.solve import simplify; assert simplify(('+', 1, 2)) == 3")
    assert "tc._halide" in loaded
    assert "halide" not in loaded


@pytest.mark.parametrize("first, second", [("halide", "tc._halide"), ("tc._halide", "halide")])
def test_halide_and_the_solver_share_one_library(first: str, second: str) -> None:
    code = f"""
import importlib
from tc.halide import load_library
load_library()
for name in ({first!r}, {second!r}):
    importlib.import_module(name)
print(*{{line.split()[-1] for line in open('/proc/self/maps') if 'libHalide.so' in line}}, sep='\\n')
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert len(done.stdout.splitlines()) == 1


def test_imports_keep_to_the_layers() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache", "--no-logo"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_imports_form_a_circle() -> None:
    """Neither at the top of modules nor inside of functions."""
    graph = grimp.build_graph("tc", "tc_backends", exclude_type_checking_imports=True, cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    while leaves := [m for m, below in imports.items() if not below & imports.keys()]:
        for m in leaves:
            del imports[m]
    while roots := imports.keys() - {b for below in imports.values() for b in below}:
        for m in roots:
            del imports[m]
    assert not imports, f"in a circle, or between circles: {sorted(imports)}"

"""The wheel: what it holds, and that it works outside the source tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("tc", "backends")


def copy_of_the_sources(to: Path) -> Path:
    """What a checkout holds, without what was built in it: a wheel must not live on leftovers.

    The objects compiled so far go along, or the test would compile for half a minute each time.
    """
    skip = shutil.ignore_patterns("__pycache__", "*.so", "_build_info.py", "*.egg-info")
    for name in SHIPPED:
        shutil.copytree(ROOT / name, to / name, ignore=skip)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, to)
    for path in (ROOT / "build").glob("lib.*/tc/*.so"):  # newer than their sources, or they are made again
        target = to / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return to


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = copy_of_the_sources(tmp_path_factory.mktemp("source"))
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    done = subprocess.run([*pip, "-w", out, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", target, wheel]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def outside(installed: Path, code: str) -> str:
    """The output of `code` in an interpreter that sees the installed wheel before everything else."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=installed.parent,
        env={**env, "PYTHONPATH": str(installed)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_every_source_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    kinds = {".py", ".pyi", ".typed", ".lark", ".tc", ".sac", ".h"}
    sources = {
        path.relative_to(ROOT).as_posix().replace("backends/", "tc_backends/", 1)
        for name in SHIPPED
        for path in (ROOT / name).rglob("*")
        if path.suffix in kinds or path.name == "py.typed"
    }
    assert {"tc/__init__.py", "tc/lang/grammar.lark", "tc/py.typed", "tc_backends/__init__.py"} <= sources
    assert sources - names == set()
    extensions = {n for n in names if n.endswith(".so")}
    assert {re.sub(r"\..*", "", n) for n in extensions} == {"tc/_halide", "tc/_native"}
    rest = {n for n in names - sources - extensions if ".dist-info/" not in n}
    # What a C interface has of the run time is compiled where it is exported.
    needed = {f"tc/native/{name}.cpp" for name in ("arena", "pages", "pool")}
    assert needed <= rest <= {"tc/_build_info.py", *needed}


def test_the_wheels_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (info,) = {n.partition("/")[0] for n in archive.namelist() if ".dist-info/" in n}
    metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
    assert metadata["Name"] == "tensor-comprehensions"
    assert "halide==21.0.*" in metadata.get_all("Requires-Dist", [])
    core = {r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r}
    assert not [r for r in core if r.startswith(("torch", "jax", "pycuda", "pyopencl"))]
    entries = archive.read(f"{info}/entry_points.txt").decode()
    assert "tcomp = tc.cli.main:main" in entries
    assert "reference = tc_backends.reference:Backend" in entries
    assert f"{info}/licenses/LICENSE" in archive.namelist()


def test_the_wheel_works_outside_the_tree(installed: Path) -> None:
    code = """
import tc, tc_backends, tc._native
from tc.halide.solve import simplify
assert simplify(("-", ("+", "x", 3), "x")) == 3
from tc import _halide
print(*(m.__file__ for m in (tc, tc_backends, tc._native, _halide)), sep="\\n")
"""
    files = outside(installed, code).split()
    assert len(files) == 4
    assert all(Path(f).is_relative_to(installed) for f in files), files


def test_the_extensions_need_no_folder_of_the_machine_that_built_them(installed: Path) -> None:
    readelf = shutil.which("readelf")
    assert readelf, "binutils come with the compiler that built the extensions"
    for path in (installed / "tc").glob("*.so"):
        dynamic = subprocess.run([readelf, "-d", path], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic))
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*?)\]", dynamic)
        if path.name.startswith("_halide"):
            assert "libHalide.so" in needed
            assert paths == ["$ORIGIN/../halide/lib64"]
        else:
            assert not any("halide" in n.lower() for n in needed)
            assert paths == []


RUN = """
import sys
import numpy as np
import tc
assert not {"torch", "jax"} & set(sys.modules)
A, B = np.ones((3, 4), "f4"), np.ones((4, 5), "f4")
for backend in ("reference", "halide"):
    mm = tc.compile("def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }", backend)
    assert (mm(A, B) == 4).all() and (tc.interpret(mm.source, A, B) == 4).all()
    source = "def f(float(N) A, uint8(M) I) -> (B) { B(i) = sigmoid(A(max(min(I(i), N-1), 0))) }"
    lut = tc.compile(source, backend)
    assert lut(np.zeros(3, "f4"), np.array([0, 9], "u1")).tolist() == [0.5, 0.5]
print(tc.__file__)
"""


def test_programs_run_from_the_wheel(installed: Path) -> None:
    (file,) = outside(installed, RUN).split()
    assert Path(file).is_relative_to(installed)
    shown = outside(installed, "from tc.cli.main import main; raise SystemExit(main(['doctor']))")
    assert re.search(r"backend halide +available", shown) and re.search(
        r"backend reference +available", shown
    )


@pytest.mark.slow
def test_the_wheel_runs_in_a_bare_environment(wheel: Path, tmp_path: Path) -> None:
    """A new virtual environment with the wheel and what its metadata names, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    for command in (
        [python, "-c", RUN],
        [python, "-m", "tc", "demo"],
        [tmp_path / "bare" / "bin" / "tcomp", "doctor"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stdout + done.stderr

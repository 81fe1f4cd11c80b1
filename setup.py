"""What pyproject.toml cannot say: the renamed package `tc_backends` and the two C++ extensions."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import find_packages, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
NATIVE = Path("tc/native")
SOLVER = NATIVE / "halide_solver.cpp"


def halide_package() -> Path:
    """The folder of the installed `halide` package; found, not imported."""
    spec = importlib.util.find_spec("halide")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("building tc._halide needs the halide wheel: pip install 'halide==21.0.*'")
    return Path(spec.submodule_search_locations[0])


def write_build_info() -> None:
    """Record the halide that is built against: tc.halide compares before it loads the extension."""
    text = (
        '"""Written by setup.py: what the extensions were built against."""\n\n'
        f'HALIDE_VERSION = "{importlib.metadata.version("halide")}"\n'
    )
    path = ROOT / "tc/_build_info.py"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


class BuildPy(build_py):
    def run(self) -> None:
        write_build_info()
        super().run()


class BuildExt(build_ext):
    def run(self) -> None:
        write_build_info()
        if self.editable_mode:
            # Where `setup.py build_ext --inplace` builds: a later one then finds what is up to date.
            usual = build(self.distribution)
            usual.ensure_finalized()
            self.build_lib, self.build_temp = usual.build_platlib, usual.build_temp
        super().run()


def extensions() -> list[Pybind11Extension]:
    headers = sorted(str(p) for p in NATIVE.glob("*.h"))
    halide = halide_package()
    found = [
        Pybind11Extension(
            "tc._halide",
            [str(SOLVER)],
            cxx_std=17,
            # System headers: their warnings are not ours.
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-isystem", str(halide / "include")],
            define_macros=[("HALIDE_ENABLE_RTTI", None), ("HALIDE_WITH_EXCEPTIONS", None)],
            depends=[str(halide / "include/Halide.h")],
            library_dirs=[str(halide / "lib64")],
            libraries=["Halide"],
            # For the wheel next to halide's; in an editable install tc.halide has loaded the library before.
            extra_link_args=["-Wl,-rpath,$ORIGIN/../halide/lib64"],
        )
    ]
    sources = sorted(str(p) for p in NATIVE.glob("*.cpp") if p != SOLVER)
    if sources:
        found.append(
            Pybind11Extension(
                "tc._native",
                sources,
                cxx_std=17,
                depends=headers,
                extra_compile_args=["-O2", "-Wall", "-Wextra", "-pthread"],
                extra_link_args=["-pthread"],
                libraries=["dl"] if sys.platform == "linux" else [],  # a part of libc since glibc 2.34
            )
        )
    return found


ParallelCompile("TC_BUILD_JOBS").install()
packages = find_packages(include=["tc", "tc.*"])
backends = [f"tc_{name}" for name in find_packages(include=["backends", "backends.*"])]

setup(
    packages=packages + backends,
    package_dir={"tc": "tc", "tc_backends": "backends"},
    ext_modules=extensions(),
    cmdclass={"build_py": BuildPy, "build_ext": BuildExt},
)

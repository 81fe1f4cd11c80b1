"""The code that every benchmark program becomes, written to a folder, or compared with such a folder.

    python -m benchmarks.generated FOLDER [--backend cpu|cuda] [--isa avx512,avx2] [--drawn 51] [NAME …]
    python -m benchmarks.generated --against FOLDER …

A refactoring that changes no choice and no instruction gives the same text: write the folder with the old
tree, compare with the new one.  `--backend cpu` writes LLVM IR of all cases of the tables, of the group
`programs` and of `--drawn` programs at random; `--backend cuda` writes CUDA C++ for sm_90.  Files are named
after the program and the instruction set.  The exit status is 1 where a text differs or is missing.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.compile_time import sized
from benchmarks.workloads import CASES, PROGRAMS, Case, draw
from tc.options import Options

SUFFIX = {"cpu": "ll", "cuda": "cu"}
STAGE = {"cpu": "llvm", "cuda": "code"}


def cases(backend: str, drawn: int) -> list[Case]:
    """What is compiled: on `cuda` the cases of the tables alone, as NVRTC takes a second for some."""
    return [*CASES] if backend == "cuda" else [*CASES, *PROGRAMS, *draw(0, drawn)]


def text_of(case: Case, backend: str, isa: str) -> str:
    """The code of a case."""
    import tc
    from tc import registry

    registry.load(backend)
    source, entry, sizes = sized(case)
    elsewhere = backend == "cpu" and isa != importlib.import_module("tc_backends.cpu.target").host().isa.name
    kernel = tc.compile(source, backend, entry, options={} if elsewhere else {"isa": isa})
    known = {*kernel.front.checked.sizes, *kernel.front.specialized}
    values = {k: v for k, v in sizes.items() if k in known}
    if elsewhere:
        return text_elsewhere(kernel.program(values), isa)
    return kernel.specialize(**values).artifact(STAGE[backend])


def text_elsewhere(program: Any, isa: str) -> str:
    """The LLVM IR of a program for an instruction set that this machine need not have; what would spill is
    not looked at."""
    passes = importlib.import_module("tc_backends.cpu.passes")
    machine = importlib.import_module("tc_backends.cpu.target").host()
    other = importlib.import_module("tc_backends.cpu.isa").ISAS[isa]
    return passes.code_of(program, replace(machine, isa=other), Options()).text


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="parts of names of programs (default: all)")
    parser.add_argument("--against", action="store_true", help="compare with the folder, write nothing")
    parser.add_argument("--backend", choices=tuple(SUFFIX), default="cpu")
    parser.add_argument("--isa", help="names, separated by commas (default: avx512,avx2; on cuda sm_90)")
    parser.add_argument("--drawn", type=int, default=51, help="programs at random besides (default 51)")
    args = parser.parse_args(argv)

    import tc

    warnings.simplefilter("ignore", tc.Warning)
    args.folder.mkdir(parents=True, exist_ok=True)
    isas = (args.isa or {"cpu": "avx512,avx2", "cuda": "sm_90"}[args.backend]).split(",")
    same = other = 0
    start = time.perf_counter()
    for case in cases(args.backend, args.drawn):
        if args.names and not any(n in case.name for n in args.names):
            continue
        for isa in isas:
            stem = re.sub(r"[^A-Za-z0-9]+", "-", f"{case.name} {isa}")
            path = args.folder / f"{stem}.{SUFFIX[args.backend]}"
            text = text_of(case, args.backend, isa)
            if not args.against:
                path.write_text(text, encoding="utf-8")
                continue
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            if text == before:
                same += 1
                continue
            other += 1
            diff = difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "now", n=1)
            lines = [line for _, line in zip(range(12), diff)]
            print("\n".join([f"{stem} differs", *lines]), flush=True)
    if args.against:
        print(f"{same} texts are the same, {other} are not ({time.perf_counter() - start:.0f} s)")
    return int(other > 0)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tc export`: kernels to a bundle, or to a C header and a shared object."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tc.cli.arguments import dynamic_argument, kernel_of, number, pairs, read_source, target_arguments
from tc.errors import ArgumentError


def add_arguments(p: argparse.ArgumentParser, file: str) -> None:
    """The flags of the command; a size or a type that is given again begins another kernel."""
    p.add_argument("file", help=file)
    target_arguments(p)
    dynamic_argument(p)
    p.add_argument(
        "--isa",
        action="append",
        default=[],
        metavar="avx512,avx2",
        help="instruction sets of processors: avx512, avx2, sse4.2, host (default: host)",
    )
    p.add_argument(
        "--arch",
        action="append",
        default=[],
        metavar="sm_80,sm_90",
        help="architectures of CUDA devices; the newest serves later ones too",
    )
    p.add_argument("--c", action="store_true", help="write a C header and a shared object for processors")
    p.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the bundle (default: NAME.tcb), or with --c the name of both files without their ends",
    )


def run(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Export; returns the exit code and the report."""
    sizes = [
        {n: int(number(n, v, "--size", whole=True)) for n, v in one.items()}
        for one in grouped(args.size, "--size")
    ]
    sizes = _with_scalars(sizes, args.scalar)
    types = grouped(args.type, "--type")
    args.type = []
    kernel = kernel_of(args, read_source(args.file), generic=True)
    isa, arch = ",".join(args.isa), ",".join(args.arch)
    if args.c:
        if arch:
            raise ArgumentError("--c is for processors, and --arch for devices", code="TC0515")
        written = kernel.export_c(args.output or _plain(kernel.name), sizes, isa=isa, types=types)
    else:
        output = args.output or f"{_plain(kernel.name)}.tcb"
        written = [kernel.export(output, sizes, isa=isa, arch=arch, types=types)]
    report: dict[str, Any] = {"files": {str(p): p.stat().st_size for p in written}}
    if not args.json:
        for path, size in report["files"].items():
            print(f"{path}: {size} bytes{'' if args.c else f', {_contents(path)}'}")
    return 0, report


def grouped(items: Sequence[str], flag: str) -> list[dict[str, str]]:
    """{name: value} for each kernel, from the values of a flag: a name that comes again begins the next one,
    which has what it does not name from the one before."""
    out: list[dict[str, str]] = []
    named: set[str] = set()
    for item in (part for given in items for part in given.split(",")):
        ((name, value),) = pairs([item], flag).items()
        if not out or name in named:
            out.append(dict(out[-1]) if out else {})
            named = set()
        out[-1][name] = value
        named.add(name)
    return out


def _with_scalars(sizes: list[dict[str, int]], scalars: Sequence[str]) -> list[dict[str, int]]:
    """The same with the values of specialised scalars."""
    more = {
        n: int(number(n, v, "--scalar", whole=True))
        for one in grouped(scalars, "--scalar")
        for n, v in one.items()
    }
    return [{**one, **more} for one in sizes or [{}]] if more else sizes


def _plain(name: str) -> str:
    """A name of a file."""
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in name)


def _contents(path: str) -> str:
    from tc.bundle.archive import Archive

    instances = Archive(path).manifest["instances"]
    kernels = [k for i in instances for k in i["kernels"]]
    targets = dict.fromkeys(t["name"] for k in kernels for t in k["targets"])
    count = f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}"
    return f"{count} for {', '.join(targets)}; tc.load({Path(path).name!r})"

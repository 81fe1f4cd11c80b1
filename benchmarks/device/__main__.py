"""A GPU that is at hand for minutes, taken to pieces.

    python -m benchmarks.device pack FILE [--arch sm_90] [--random 500] [--maps 6] [--tiny] [--only NAME,…]
    python -m benchmarks.device run FILE --out FOLDER [--budget 600] [--phases sanity,conformance,…]
    python -m benchmarks.device report FOLDER [--save]

`pack` compiles on any machine; `run` needs the pack, this folder, numpy, cuda-bindings and PyTorch, and
writes lines as it goes: run again, it goes on; `report` prints tables of what came back.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

PHASES = ("sanity", "conformance", "sanitizer", "timing", "race", "ncu")


def pack(args: argparse.Namespace) -> int:
    import importlib

    from benchmarks.device import pack as packing
    from benchmarks.device.blob import Writer
    from benchmarks.workloads import CASES, PROGRAMS
    from tc import registry

    packing.quiet()
    registry.load("cuda")
    target = importlib.import_module("tc_backends.gpu.target").of_architecture(args.arch, args.device)
    start, counts = time.perf_counter(), {"conformance": 0, "random": 0, "timing": 0, "odd": 0}

    def chosen(name: str) -> bool:
        return any(n in name for n in args.only.split(","))

    cases = [c for c in (*CASES, *PROGRAMS) if chosen(c.name)]
    with Writer(args.file) as writer:
        writer.add(*packing.microkernels(args.arch))
        for one in packing.workloads(cases, args.maps, target, args.arch, tiny=args.tiny):
            writer.add(*one)
            counts["timing"] += 1
        # The sizes of tests, which no tile divides: whether each map is right.
        for one in () if args.tiny else packing.workloads(cases, args.maps, target, args.arch, True, "odd"):
            writer.add(*one)
            counts["odd"] += 1
        for one in packing.conformance(target, args.arch, chosen):
            writer.add(*one)
            counts["conformance"] += 1
        for one in packing.random_programs(args.random, args.seed, target, args.arch):
            writer.add(*one)
            counts["random"] += 1
    size = args.file.stat().st_size / 1e6
    print(f"{counts}, {size:.1f} MB, {time.perf_counter() - start:.0f} s")
    return 0


def run(args: argparse.Namespace) -> int:
    from benchmarks.device.report import brief
    from benchmarks.device.run import Run, everything

    args.out.mkdir(parents=True, exist_ok=True)
    until = time.time() + args.budget
    it = Run(args.file.resolve(), args.out.resolve(), until, args.driver)
    everything(it, args.phases.split(","), args.warmers)
    print(brief(args.out))
    return 0


def report(args: argparse.Namespace) -> int:
    from benchmarks.device.report import brief, save

    print(brief(args.folder))
    if args.save:
        save(args.folder)
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("pack", help="compile")
    one.add_argument("file", type=Path)
    one.add_argument("--only", default="", help="parts of names of programs, separated by commas")
    one.add_argument("--arch", default="sm_90")
    one.add_argument("--device", default="H200", help="the name of the device, of which a preset is taken")
    one.add_argument("--random", type=int, default=500, help="random programs")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--maps", type=int, default=6, help="of each workload that is one kernel")
    one.add_argument("--tiny", action="store_true", help="workloads at tiny sizes, for the stand-in")
    one.set_defaults(do=pack)
    one = verbs.add_parser("run", help="run on a device")
    one.add_argument("file", type=Path)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--budget", type=float, default=600, help="seconds")
    one.add_argument("--phases", default=",".join(PHASES))
    one.add_argument("--driver", default="cuda", choices=("cuda", "stand-in"))
    one.add_argument("--warmers", type=int, default=6, help="processes that compile for the races")
    one.set_defaults(do=run)
    one = verbs.add_parser("report", help="print what came back")
    one.add_argument("folder", type=Path)
    one.add_argument("--save", action="store_true", help="write benchmarks/results/device_*")
    one.set_defaults(do=report)
    args = parser.parse_args(argv)
    return args.do(args)


if __name__ == "__main__":
    sys.exit(main())

"""Faults that are made in the front end of the SaC notation on purpose, and that random programs find.

    python -m fuzz.sac.faults [--count 200]

Each is a textual change of one module, which an import hook makes in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    """`seed`: the first program that finds it."""

    name: str
    path: str
    before: str
    after: str
    seed: int

    def text(self) -> str:
        source = (ROOT / self.path).read_text(encoding="utf-8")
        if source.count(self.before) != 1:
            raise AssertionError(f"{self.name}: {self.path} has {self.before!r} not once")
        return source.replace(self.before, self.after)


FAULTS = (
    Fault(
        "the last partition that holds an index decides",
        "tc/lang/sac/comprehend.py",
        "return assemble(el, [*pieces, final], frame",
        "return assemble(el, [*reversed(pieces), final], frame",
        18,
    ),
    Fault(
        "an upper bound with <= leaves its last index out",
        "tc/lang/sac/comprehend.py",
        "_settled(upper, not strict[1], 1)",
        "_settled(upper, False, 1)",
        0,
    ),
    Fault(
        "the dots of a pattern take the first axes",
        "tc/lang/sac/comprehend.py",
        "brought = tuple(i for v, i in zip(self.order, frame, strict=True) if v is None)",
        "brought = tuple(reversed([i for v, i in zip(self.order, frame, strict=True) if v is None]))",
        50,
    ),
    Fault(
        "a width counts one index more",
        "tc/lang/sac/withloops.py",
        'out.append(t.relation("<", offset, width, g.span))',
        'out.append(t.relation("<=", offset, width, g.span))',
        9,
    ),
)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, fault: Fault) -> None:
        super().__init__(name, str(ROOT / fault.path))
        self.fault = fault

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.fault.text(), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname.replace(".", "/") + ".py" != self.fault.path:
            return None
        return importlib.util.spec_from_file_location(
            fullname, ROOT / self.fault.path, loader=_Loader(fullname, self.fault)
        )


def search(number: int, seed: int, count: int) -> None:
    """Prints the first program that finds a fault, in a process that has not imported the compiler."""
    sys.meta_path.insert(0, _Finder(FAULTS[number]))
    from fuzz.sac.differential import Report, compared

    report = Report()
    for k in range(seed, seed + count):
        compared(k, ("reference",), report)
        if report.found:
            print(f"seed {k}: {report.found[0][2]}")
            return


def found(number: int, seed: int, count: int) -> str:
    """What finds a fault, or nothing."""
    command = [sys.executable, "-m", "fuzz.sac.faults", "--serve", str(number), str(seed), str(count)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.sac.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--serve", nargs=3, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    if chosen.serve:
        search(*chosen.serve)
        return 0
    missed = 0
    for k, fault in enumerate(FAULTS):
        what = found(k, 0, chosen.count)
        missed += not what
        print(f"{fault.name}: {what or 'nobody'}"[:160], flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())

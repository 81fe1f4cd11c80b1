"""Mutants of the compiler: how many does its verification catch?

    python -m fuzz.mutation [FILE …] [--count 40] [--seed 0] [--jobs 2] [--seconds 120]

A mutant is a copy of the tree with one operator, constant or condition of one module changed.  It is killed
if the battery (`fuzz.battery`: programs with the results of the compiler as it stands, everything verified)
goes wrong, or takes too long.  Printed: the mutants, what killed them, the survivors, the rate.  A survivor
either does the same (a cost of the model, a fallback), or shows what no test looks at.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What decides over results; costs and thresholds (choose, model, lines, …) only decide over speed.
MODULES = (
    *(
        "tc/poly/scan",
        "tc/poly/schedule.py",
        "tc/poly/fusion.py",
        "tc/poly/plan.py",
        "tc/poly/dependences.py",
    ),
    *("tc/poly/scop.py", "tc/poly/accesses.py", "tc/poly/nest.py", "tc/poly/storage.py"),
    *("tc/ir/collapse.py", "tc/ir/inline.py", "tc/ir/rfactor.py", "tc/ir/unswitch.py", "tc/ir/simplify.py"),
    *("tc/ir/lower.py", "tc/ir/specialize.py"),
    *(
        "backends/cpu/emit.py",
        "backends/cpu/expressions.py",
        "backends/cpu/memory.py",
        "backends/cpu/values.py",
    ),
    *("backends/cpu/affine.py", "backends/cpu/dot.py", "backends/cpu/dot_code.py", "backends/cpu/shares.py"),
)
_COPIED = ("tc", "backends", "fuzz", "benchmarks", "tests", "pyproject.toml")
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change: the file, its line, what was and what is."""

    path: str
    line: int
    before: str
    after: str
    text: str  # of the file

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  →  {self.after}"


class _Mutator(ast.NodeTransformer):
    """Counts the places that can be changed, and changes the one with a number."""

    def __init__(self, chosen: int = -1) -> None:
        self.chosen, self.count = chosen, 0
        self.changed: tuple[int, str, str] | None = None

    def change(self, node: ast.expr, other: ast.expr) -> ast.expr:
        self.count += 1
        if self.count - 1 != self.chosen:
            return node
        self.changed = node.lineno, ast.unparse(node), ast.unparse(other)
        return ast.copy_location(other, node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        # Messages and annotations decide over nothing.
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
            return node
        for name in ("annotation", "returns", "decorator_list", "type_params"):
            if getattr(node, name, None):
                kept = getattr(node, name)
                setattr(node, name, [] if isinstance(kept, list) else None)
                super().generic_visit(node)
                setattr(node, name, kept)
                return node
        return super().generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        other = _COMPARISONS.get(type(node.ops[0]))
        if len(node.ops) != 1 or other is None:
            return node
        return self.change(node, ast.Compare(node.left, [other()], node.comparators))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        other = _OPERATORS.get(type(node.op))
        return node if other is None else self.change(node, ast.BinOp(node.left, other(), node.right))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return self.change(node, ast.BoolOp(other, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self.change(node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return self.change(node, ast.IfExp(node.test, node.orelse, node.body))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, bool):
            return self.change(node, ast.Constant(not node.value))
        if isinstance(node.value, int) and abs(node.value) <= 16:
            return self.change(node, ast.Constant(node.value + 1))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            return self.change(node, ast.Call(ast.Name(_NAMES[node.func.id]), node.args, node.keywords))
        return node


def places(source: str) -> int:
    """How many mutants a module has."""
    mutator = _Mutator()
    mutator.visit(ast.parse(source))
    return mutator.count


def mutant(path: str, source: str, number: int) -> Mutant:
    """The mutant of a module with this number, from 0 on."""
    mutator = _Mutator(number)
    tree = ast.fix_missing_locations(mutator.visit(ast.parse(source)))
    assert mutator.changed is not None, number
    return Mutant(path, *mutator.changed, ast.unparse(tree))


def chosen_mutants(paths: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Random mutants of the modules, files or folders."""
    files: list[Path] = []
    for p in paths:
        found = ROOT / p
        files += sorted(found.rglob("*.py")) if found.is_dir() else [found]
    sources = {str(f.relative_to(ROOT)): f.read_text(encoding="utf-8") for f in files}
    everything = [(path, n) for path, text in sources.items() for n in range(places(text))]
    some = random.Random(seed).sample(everything, min(count, len(everything)))
    return [mutant(path, sources[path], n) for path, n in some]


def overlay(folder: Path) -> None:
    """A copy of the tree that Python imports instead of the installed one."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "results")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    (folder / "tc_backends").symlink_to("backends")


def judge(m: Mutant, tree: Path, battery: Path, seconds: float) -> str:
    """What killed a mutant; empty if it survived.  `tree` is an overlay, which is as before afterwards."""
    file = tree / m.path
    before = file.read_text(encoding="utf-8")
    file.write_text(m.text, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TC_NUM_THREADS": "2",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fuzz.battery", str(battery)],
            cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it takes too long"
    finally:
        file.write_text(before, encoding="utf-8")
    if done.returncode == 0:
        return ""
    return (
        done.stdout.strip() or done.stderr.strip()[-200:] or f"it ended with {done.returncode}"
    ).splitlines()[0]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.mutation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", default=list(MODULES), help="modules or folders")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=180.0, help="that a mutant may take")
    chosen = parser.parse_args(argv)
    mutants = chosen_mutants(chosen.files, chosen.count, chosen.seed)
    with tempfile.TemporaryDirectory(prefix="tc-mutants-") as name:
        folder = Path(name)
        battery = folder / "battery.pickle"
        subprocess.run([sys.executable, "-m", "fuzz.battery", str(battery), "--make"], cwd=ROOT, check=True)
        trees = [folder / f"tree-{k}" for k in range(chosen.jobs)]
        for tree in trees:
            tree.mkdir()
            overlay(tree)

        def run(k: int) -> list[tuple[Mutant, str]]:
            out: list[tuple[Mutant, str]] = []
            for m in mutants[k :: chosen.jobs]:
                what = judge(m, trees[k], battery, chosen.seconds)
                print(f"{m}\n    {what or 'SURVIVED'}", flush=True)
                out.append((m, what))
            return out

        with ThreadPoolExecutor(chosen.jobs) as pool:
            judged = [x for part in pool.map(run, range(chosen.jobs)) for x in part]
    survivors = [m for m, what in judged if not what]
    print(f"\n{len(judged) - len(survivors)} of {len(judged)} mutants killed; survivors:")
    for m in survivors:
        print(f"  {m}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

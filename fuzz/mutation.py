"""Mutants of the compiler: how many does its verification catch?

    python -m fuzz.mutation [FILE …] [--count 40] [--seed 0] [--jobs 2] [--seconds 20] [--battery FILE]
                            [--like TEXT …] [--changes FOLDER]

A mutant has one operator, constant or condition of one module changed.  It is killed if one of those programs
of the battery (`fuzz.battery`: programs with their results on all backends, everything verified) that run the
changed line goes wrong, or takes too long.  Each mutant is judged in a process of its own that a clean one
forks (`fuzz.children`).  Printed: the mutants, what killed them, the survivors, the rate.  A survivor either
does the same (a shortcut, a fallback, what is only quicker), or shows what no test looks at.  So it is told
how many of its programs it gives another code, and `--changes` writes how the loops and the code of one
of them changed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuzz.children import ROOT, Ended, Finder, forked, warm_up
from fuzz.kept import Kept, reaching

MODULES = ("tc/ranges", "tc/ir", "tc/transforms", "tc/poly", "tc/codegen", "tc/halide", "backends")
# What is not changed: oracles, which `fuzz.miscompilations` judges; what decides over speed alone, as which
# candidate is chosen (`choose`, `rank`, `cost`, …), how much code it may be (`code_size`), up to where there
# are loops for few points (`size_variants`), which of what is legal is fused or computed again (`fuse`,
# `recompute`), what hardware is like (`target`); what only shows, or runs on devices that are not here.
EXCLUDED = (
    *("tc/poly/trace", "tc/poly/legality.py", "tc/ir/verify.py"),
    *("backends/cpu/search/choose.py", "backends/cpu/search/candidates.py", "backends/cpu/search/rank.py"),
    *("backends/cpu/search/cache_tiles.py", "backends/cpu/search/reduction_blocks.py"),
    *("backends/cpu/cost/cycles.py", "backends/cpu/cost/issue.py", "backends/cpu/cost/cache_lines.py"),
    *("backends/cpu/cost/work.py", "backends/cpu/cost/pack_sizes.py", "backends/cpu/cost/cost.py"),
    *(
        "backends/cpu/emit/spills.py",
        "backends/cpu/target.py",
        "backends/cpu/cost/code_size.py",
        "backends/cpu/search/size_variants.py",
    ),
    *("backends/cpu/policy.py", "backends/gpu/policy.py", "backends/gpu/target.py"),
    *("backends/gpu/search/choose.py", "backends/gpu/search/kernels.py"),
    *("backends/gpu/cost/model.py", "backends/gpu/cost/warps.py", "backends/gpu/cost/traffic.py"),
    *("backends/gpu/cost/lanes.py", "backends/gpu/cost/requests.py", "backends/gpu/cost/sampling.py"),
    *(
        "backends/gpu/cost/instructions.py",
        "backends/gpu/cost/unrolling.py",
        "tc/ir/printer.py",
        "backends/cuda",
    ),
)
# Of others, imported once: they take long, and import nothing of the compiler.
_OTHERS = ("halide", "hypothesis.strategies", "islpy", "lark", "llvmlite.binding", "platformdirs", "pyopencl")
_MEMORY = 6 << 30  # bytes that a mutant may ask for
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
    last: int  # line of what was changed
    inside: bool  # of a function: it runs when that does, not when the module is imported
    before: str
    after: str
    text: str  # of the file

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  →  {self.after}"


class _Mutator(ast.NodeTransformer):
    """Counts the places that can be changed, and changes the one with a number."""

    def __init__(self, chosen: int = -1) -> None:
        self.chosen, self.count, self.depth = chosen, 0, 0
        self.changed: tuple[int, int, bool, str, str] | None = None

    def change(self, node: ast.expr, other: ast.expr) -> ast.expr:
        self.count += 1
        if self.count - 1 != self.chosen:
            return node
        last = node.end_lineno or node.lineno
        self.changed = node.lineno, last, self.depth > 0, ast.unparse(node), ast.unparse(other)
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

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.args = self.visit(node.args)
        self.depth += 1
        node.body = [self.visit(s) for s in node.body]
        self.depth -= 1
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

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
    names = [str(f.relative_to(ROOT)) for f in files]
    names = [n for n in names if n in paths or not n.startswith(EXCLUDED)]
    sources = {n: (ROOT / n).read_text(encoding="utf-8") for n in names}
    everything = [(path, n) for path, text in sources.items() for n in range(places(text))]
    some = random.Random(seed).sample(everything, min(count, len(everything)))
    return [mutant(path, sources[path], n) for path, n in some]


UNREACHED = "no program runs it"


@dataclass(frozen=True)
class Verdict:
    """What killed a mutant, empty if nothing did, `UNREACHED` if no program runs it; of how many programs
    that it survived the code was compared, and where in the battery those are whose code it changes."""

    killed: str
    compared: int = 0
    other: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.killed:
            return self.killed
        return f"SURVIVED, with other code in {len(self.other)} of {self.compared} programs"


def judged(
    mutants: Sequence[Mutant], battery: Sequence[Kept], seconds: float, jobs: int
) -> Iterator[tuple[Mutant, Verdict]]:
    """The verdict of each, as it comes, by programs of about so many seconds.  This process must not have
    imported what is changed."""
    files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    if any(str(ROOT / m.path) in files for m in mutants):
        raise RuntimeError("what is to be changed has been imported here")
    chosen = [
        reaching(battery, m.path, range(m.line, m.last + 1) if m.inside else None, seconds, number)
        for number, m in enumerate(mutants)
    ]

    places = {id(k): n for n, k in enumerate(battery)}

    def work(number: int) -> Verdict:
        m = mutants[number]
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        sys.meta_path.insert(0, Finder(ROOT / m.path, m.text))
        compared, other = 0, list[int]()
        try:
            for k in chosen[number]:
                outcome = pickle.loads(k.trial).run()
                if outcome.wrong:
                    return Verdict(" ".join(outcome.wrong.split())[:160])
                compared += bool(k.code)
                if k.code and outcome.code != k.code:
                    other.append(places[id(k)])
        except Exception as e:  # the compiler cannot even be imported
            return Verdict(f"{type(e).__name__}: {e}")
        return Verdict("" if Finder.used else UNREACHED, compared, tuple(other))

    def patience(number: int) -> float:
        return 60 + 8 * sum(k.seconds for k in chosen[number])

    for number, what in forked(work, len(mutants), patience, jobs):
        yield mutants[number], Verdict(what.how) if isinstance(what, Ended) else what


def change_of_code(m: Mutant, one: Kept) -> str:
    """How the loops and the code of a program differ with a mutant, as a unified diff."""

    def text(number: int) -> str:
        if number:
            sys.meta_path.insert(0, Finder(ROOT / m.path, m.text))
        return pickle.loads(one.trial).text()

    found = dict(forked(text, 2, lambda _: 60 + 8 * one.seconds, 2))
    before, after = (f.how if isinstance(f, Ended) else f for f in (found[0], found[1]))
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "without it", "with it", lineterm=""
    )
    return "\n".join([str(m), "", *lines, ""])


def prepare() -> None:
    """Settings, and what all children share."""
    os.environ.update(TC_VERIFY="1", TC_CACHE="0", TC_NUM_THREADS="2")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for name in _OTHERS:
        importlib.import_module(name)
    warm_up()


def _battery(path: Path, jobs: int) -> list[Kept]:
    if not path.exists():
        command = [sys.executable, "-m", "fuzz.battery", str(path), "--jobs", str(jobs)]
        subprocess.run(command, cwd=ROOT, check=True)
    return pickle.loads(path.read_bytes())


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
    parser.add_argument("--seconds", type=float, default=20.0, help="of programs that a mutant must survive")
    parser.add_argument("--battery", type=Path, help="made where it does not exist; of this tree, unchanged")
    parser.add_argument("--like", nargs="*", default=[""], help="of the mutants those that have such a text")
    parser.add_argument("--changes", type=Path, help="where to write how survivors change a program's code")
    chosen = parser.parse_args(argv)
    mutants = chosen_mutants(chosen.files, chosen.count, chosen.seed)
    mutants = [m for m in mutants if any(text in str(m) for text in chosen.like)]
    with tempfile.TemporaryDirectory(prefix="tc-mutants-") as name:
        battery = _battery(chosen.battery or Path(name) / "battery.pickle", chosen.jobs)
        tempfile.tempdir = name  # for what the compiler writes about its failures
        prepare()
        found: list[tuple[Mutant, Verdict]] = []
        for m, verdict in judged(mutants, battery, chosen.seconds, chosen.jobs):
            print(f"{m}\n    {verdict}", flush=True)
            found.append((m, verdict))
            if verdict.other and not verdict.killed and chosen.changes is not None:
                chosen.changes.mkdir(parents=True, exist_ok=True)
                file = chosen.changes / f"{m.path.replace('/', '.')}.{m.line}.{len(found)}.diff"
                file.write_text(change_of_code(m, battery[verdict.other[0]]), encoding="utf-8")
    print(_summary(found))
    return 0


def _summary(found: Sequence[tuple[Mutant, Verdict]]) -> str:
    def how(what: str) -> str:
        return {"": "survived", UNREACHED: UNREACHED}.get(what, what.split(":")[0])

    folders = sorted({str(Path(m.path).parent) for m, _ in found})
    lines = [f"\n{', '.join(f'{n} {k}' for k, n in Counter(how(v.killed) for _, v in found).most_common())}"]
    for folder in (*folders, ""):
        here = [v.killed for m, v in found if folder in ("", str(Path(m.path).parent))]
        run = [w for w in here if w != UNREACHED]
        killed = sum(map(bool, run))
        share = 100 * killed / max(1, len(run))
        lines.append(
            f"{folder or 'all':24} {killed:4} of {len(run):4} that run killed ({share:.0f} %), "
            f"{len(here) - len(run)} never run"
        )
    same = sorted(f"  {m}  ({v.compared})" for m, v in found if not v.killed and not v.other)
    other = sorted(f"  {m}  ({len(v.other)} of {v.compared})" for m, v in found if not v.killed and v.other)
    lines += ["survivors, with the same code in all their programs:", *same]
    lines += ["survivors, with other code in some:", *other]
    lines += ["never run:", *sorted(f"  {m}" for m, v in found if v.killed == UNREACHED)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

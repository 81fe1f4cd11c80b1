"""A changed compiler on trial: each runs in a process of its own, which a clean one forks.

The parent has imported what the compiler needs of others (NumPy, isl, Halide, LLVM) and the parts of it that
nobody changes.  A child puts a finder first on `sys.meta_path` that gives one module another text, imports
the rest and runs a program: arrays lie beside protected pages, results are full of what must not be read,
every pass is verified.  What is right comes from the interpreter of the tree as it is, in a child that nobody
changed.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import resource
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fuzz.children import PACKAGES, ROOT, Ended, Finder, ending, forked, received, send, warm_up
from fuzz.memory import Array, arranged, poisoned

# Who notices: the oracles of schedules and of loop nests, of the form of programs and of what they compute, a
# check of another kind within the compiler, the results (or an error that should or should not have been), a
# protected page; "unable": this machine cannot run the program.
Kind = Literal[
    "legality", "trace", "structure", "equivalence", "error", "result", "death", "nobody", "unable"
]
_ORACLES: dict[str, Kind] = {
    "TC0904": "legality",
    "TC0905": "trace",
    "TC0908": "structure",
    "TC0909": "equivalence",
}
_PALETTE = (-3, -2, -1, 1, 2, 3)  # small integers: sums are exact; no 0, which would hide a factor
# Imported, with a parser made, by the parent: they take long, and import nothing that decides over code.
_OTHERS = ("halide", "islpy", "lark", "llvmlite.binding", "platformdirs", "decimal", "fractions")
_SHARED = (
    *("tc.lang.check", "tc.codegen.llvm_expr", "tc.codegen.vector_math", "tc.codegen.llvm_jit"),
    *("tc.runtime.arrays", "tc.interpreter", "tc.halide.binding", "tc.registry"),
)
# The model decides on tiles, so it always believes in the same machine.
_MACHINE = {
    "cores": 2,
    "l1": 32 << 10,
    "l2": 1 << 20,
    "l3": 32 << 20,
    "fma_units": 2,
    "loads": 2,
    "l1_ways": 8,
    "l2_ways": 8,
    "l2_bandwidth": 26.0,
    "scattered_store_penalty": 3.0,
    "unprefetched_row_penalty": 20.0,
    "page_stride_penalty": 4.0,
    "conflict_miss_factor": 2.0,
}


@dataclass(frozen=True)
class Trigger:
    """A program that a certain miscompilation spoils, and who is expected to notice.

    `values`: what the elements of a parameter are drawn from, by default small integers.
    """

    source: str
    sizes: Mapping[str, int]
    caught: Kind
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dynamic: tuple[str, ...] = ()
    values: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    isa: str | None = "avx2"  # None: that of this machine, which must have dot products of bytes
    backend: str = "cpu"


def on(
    caught: Kind,
    source: str,
    options: Mapping[str, Any] | None = None,
    dynamic: str = "",
    values: Mapping[str, Sequence[float]] | None = None,
    isa: str | None = "avx2",
    backend: str = "cpu",
    **sizes: int,
) -> Trigger:
    """A trigger; `dynamic` are names."""
    return Trigger(source, sizes, caught, options or {}, tuple(dynamic.split()), values or {}, isa, backend)


@dataclass(frozen=True)
class Miscompilation:
    """`before`, which is once in the function at `place`, becomes `after`.

    A place is the name of a module and that of a function or class in it, as "packs.Packer.fill", or of a
    constant; in which folder the module lies does not matter.
    """

    name: str
    place: str
    before: str
    after: str
    triggers: tuple[Trigger, ...]

    @property
    def path(self) -> str:
        """The file, relative to the root."""
        return str(located(self.place)[0].relative_to(ROOT))

    def text(self) -> str:
        """The changed file."""
        path, first, last = located(self.place)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(lines[first:last])
        if (count := text.count(self.before)) != 1:
            raise AssertionError(f"{self.name}: what is changed is {count} times in {self.place}")
        return "".join([*lines[:first], text.replace(self.before, self.after), *lines[last:]])


@functools.cache
def located(place: str) -> tuple[Path, int, int]:
    """The file of a place, and the range of its lines; AssertionError where there is not exactly one."""
    module, _, name = place.partition(".")
    found: list[tuple[Path, int, int]] = []
    for path in sorted(p for folder in ("tc", "backends") for p in (ROOT / folder).rglob(f"{module}.py")):
        for qualified, node in _definitions(ast.parse(path.read_text(encoding="utf-8")), ""):
            if qualified == name:
                found.append((path, node.lineno - 1, node.end_lineno or node.lineno))
    if len(found) != 1:
        raise AssertionError(f"there are {len(found)} places {place}")
    return found[0]


def _definitions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes and module constants, with qualified names; of a function what is in it, too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not prefix:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((x.id, node) for x in targets if isinstance(x, ast.Name))


@dataclass(frozen=True)
class Verdict:
    """Who noticed, and what."""

    kind: Kind
    text: str
    seconds: float = 0.0


@dataclass(frozen=True)
class _Trial:
    """A trigger with its arguments and results; `wanted` is the code of an error where there is one."""

    trigger: Trigger
    given: Mapping[str, Array]
    inout: Mapping[str, Array]
    wanted: Mapping[str, Array] | str


# In the children.


def _trial(t: Trigger) -> _Trial:
    """The arguments of a program, and what the interpreter makes of them."""
    import tc
    from tc.runtime.arrays import numpy_dtype

    try:
        kernel = tc.compile(t.source, "reference")
    except tc.Error as e:
        return _Trial(t, {}, {}, e.code or "")
    rng = np.random.default_rng(zlib.crc32(t.source.encode()))

    def drawn(name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        palette = t.values.get(name, [abs(x) for x in _PALETTE] if dtype.kind in "ub" else _PALETTE)
        return np.asarray(np.asarray(palette)[rng.integers(0, len(palette), tuple(shape))]).astype(dtype)

    front, given = kernel.front, dict[str, Array]()
    for p in front.checked.params:
        shape = [t.sizes[d.name] for d in p.dims]  # tensors of sizes alone
        given[p.name] = drawn(p.name, shape, numpy_dtype(front.typed.dtype(p)))
    returned = front.checked.returns
    inout: dict[str, Array] = {}
    if any(x.mode != "fresh" for x in returned):
        shapes = kernel.output_shapes(**t.sizes)
        for x in returned:
            if x.mode != "fresh":
                inout[x.name] = drawn(x.name, shapes[x.name], numpy_dtype(front.typed.dtype(x.tensor)))
    try:
        found = tc.interpret(t.source, **given, out={k: v.copy() for k, v in inout.items()} or None)
    except tc.Error as e:
        return _Trial(t, given, inout, e.code or "")
    arrays = found if isinstance(found, tuple) else (found,)
    names = [x.name for x in returned]
    return _Trial(t, given, inout, {n: np.array(a) for n, a in zip(names, arrays, strict=True)})


def _judged(trial: _Trial) -> Verdict:
    """What the compiler that is to be imported makes of a program."""
    try:
        import tc
        from tc_backends.cpu.target import host  # type: ignore[import-not-found]  # noqa: TID251
    except Exception as e:
        return Verdict("error", f"{type(e).__name__}: {e}")
    if trial.trigger.isa is None and not host().isa.dots:
        return Verdict("unable", "the processor has no dot products of bytes")
    try:
        _run(trial)
    except _WrongError as e:
        return Verdict("result", str(e))
    except tc.InternalError as e:
        return Verdict(_ORACLES.get(e.code or "", "error"), str(e))
    except tc.Error as e:
        if e.code == "TC0811":
            return Verdict("unable", str(e))
        return (
            Verdict("nobody", "") if e.code == trial.wanted else Verdict("result", f"refused: {e.code} {e}")
        )
    except Exception as e:
        return Verdict("error", f"{type(e).__name__}: {e}")
    return Verdict("nobody", "")


class _WrongError(Exception):
    """A result is not what it should be."""


def _run(trial: _Trial) -> None:
    import tc

    t, wanted = trial.trigger, trial.wanted
    options = dict(t.options)
    if t.backend == "cpu":
        options = {"isa": t.isa, **options}
        options["machine"] = tuple({**_MACHINE, **options.get("machine", {})}.items())
    kernel = tc.compile(t.source, t.backend, options=options, dynamic=t.dynamic)
    if isinstance(wanted, str) and not trial.given:
        raise _WrongError(f"not refused with {wanted}")
    for at_end in (True, False):
        given = {n: arranged(v, "end" if at_end else "start") for n, v in trial.given.items()}
        if isinstance(wanted, str):
            kernel(**given, out={n: v.copy() for n, v in trial.inout.items()} or None)
            raise _WrongError(f"not refused with {wanted}")
        out = {n: poisoned(w.shape, w.dtype, at_end=at_end) for n, w in wanted.items()}
        for n, v in trial.inout.items():
            out[n][...] = v
        kernel(**given, out=out)
        for n, w in wanted.items():
            equal = out[n] == w if w.dtype.kind in "iub" else (out[n] == w) | (np.isnan(out[n]) & np.isnan(w))
            if not np.all(equal):
                where = np.argwhere(~np.atleast_1d(equal))[0].tolist()
                raise _WrongError(f"{n} is wrong at {where} and {int((~equal).sum()) - 1} more")


# In the parent.


class Judge:
    """Forks the children.  The process that makes one must have imported nothing of the compiler."""

    def __init__(self, seconds: float = 60.0, verify: bool = True) -> None:
        if any(name in sys.modules for name in PACKAGES):
            raise RuntimeError("the compiler has been imported here, so that no other could be in a child")
        self.seconds = seconds
        os.environ.update(TC_VERIFY="1" if verify else "0", TC_CACHE="0", TC_NUM_THREADS="2")
        os.environ.pop("TC_DUMP", None)
        sys.path.insert(0, str(ROOT))
        self.folder = tempfile.TemporaryDirectory(prefix="tc-miscompilations-")
        tempfile.tempdir = self.folder.name  # for what the compiler writes about its failures
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        for name in (*_OTHERS, *_SHARED):
            importlib.import_module(name)
        warm_up()
        self.clean: tuple[int, int] | None = None  # pipes to and from the child that nobody changed
        self.trials: dict[str, tuple[_Trial, Verdict]] = {}  # by the trigger's text

    def unchanged(self, t: Trigger) -> Verdict:
        """Whether the tree as it is gets a program right."""
        return self._trial(t)[1]

    def changed(self, path: str, text: str, t: Trigger) -> Verdict:
        """Who notices that a module has another text; `path` is relative to the root."""
        file = str(ROOT / path)
        if any(getattr(m, "__file__", None) == file for m in list(sys.modules.values())):
            raise AssertionError(f"{path} is imported by what all children share")
        trial, before = self._trial(t)
        if before.kind == "unable":
            return before
        if before.kind != "nobody":
            raise AssertionError(
                f"the tree as it is gets it wrong ({before.kind}: {before.text}): {t.source}"
            )

        def work() -> Verdict:
            sys.meta_path.insert(0, Finder(ROOT / path, text))
            found = _judged(trial)
            return found if Finder.used else Verdict("error", f"{path} is never imported")

        start = time.perf_counter()
        _, found = next(forked(lambda _: work(), 1, lambda _: self.seconds))
        if isinstance(found, Ended):
            found = Verdict("death", found.how)
        return Verdict(found.kind, found.text, time.perf_counter() - start)

    def _trial(self, t: Trigger) -> tuple[_Trial, Verdict]:
        key = repr(t)
        if key not in self.trials:
            if self.clean is None:
                self.clean = self._clean()
            to, back = self.clean
            send(to, t)
            found = received(back, self.seconds)
            if not isinstance(found, tuple):
                self.clean = None
                raise AssertionError(f"the tree as it is ends the process: {t.source}")
            self.trials[key] = found
        return self.trials[key]

    def _clean(self) -> tuple[int, int]:
        there, to = os.pipe()
        back, answer = os.pipe()
        if os.fork():
            os.close(there)
            os.close(answer)
            return to, back
        os.close(to)
        os.close(back)

        def loop() -> None:
            while isinstance(t := received(there, None), Trigger):
                trial = _trial(t)
                send(answer, (trial, _judged(trial)))

        ending(loop)

"""A program of the battery on a backend: prepared by the compiler as it stands, run by any."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tc
from benchmarks import agreement
from fuzz.differential import Wanted, arguments, attempt, into_poisoned, judged
from fuzz.memory import arranged
from fuzz.strategies import Program, fitting
from tc import _native, registry
from tc.runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]


def _rounding(of: Array, ulps: int) -> Array:
    """How far each element may be off."""
    if of.dtype.kind in "iub":
        return np.zeros(of.shape)
    info = ml_dtypes.finfo(of.dtype)
    return ulps * np.maximum(float(info.eps) * np.abs(of.astype(np.float64)), float(info.smallest_subnormal))


@dataclass(frozen=True)
class Case:
    """What is to be compiled and run; `terms` of a sum, of one of the benchmark's programs, or 0.  The
    evaluator judges what has a tree; what has none may be off by `ulps`."""

    program: Program
    backend: str
    options: dict[str, Any]
    bits: int = 0  # one for each size that is dynamic
    terms: int = 0
    ulps: int = 0

    def trial(self) -> Trial | None:
        """With arguments and results; None where the language refuses it or nobody can tell the results."""
        p = self.program
        try:
            kernel = tc.compile(p.source, "reference")
            given, out = arguments(kernel, p)
        except tc.Error:
            return None
        sizes = (
            kernel.front.checked.sizes if getattr(registry.get(self.backend), "dynamic_sizes", False) else ()
        )
        dynamic = tuple(n for i, n in enumerate(sizes) if self.bits >> i & 1)
        first = attempt(lambda **kw: tc.interpret(p.source, **kw), given, out)
        if isinstance(first, str):
            return None
        if self.terms:
            wanted = [Wanted(w, None) for w in first]
        elif p.tree is None:
            wanted = [Wanted(w, _rounding(w, self.ulps)) for w in first]
        else:
            wanted = judged(kernel, p, given, out, first)
        if wanted is None or isinstance(wanted, str):
            return None
        options = fitting(self.options, kernel.front)
        return Trial(p, self.backend, options, dynamic, given, out, wanted, self.terms)


@dataclass(frozen=True)
class Outcome:
    """What went wrong, empty if nothing did, and a digest of the loops and the code that ran: none of
    Halide's, whose names depend on all that the process compiled before."""

    wrong: str
    code: bytes = b""


def _text(kernel: tc.Kernel) -> str:
    """The loops and the code of what a kernel has compiled."""
    compiled = [ready for ready, *_ in kernel._ready.values()]
    return "\n".join(c.artifact(stage) for c in compiled for stage in ("loops", "code"))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


@dataclass(frozen=True)
class Trial:
    """A program with its arguments, options and results."""

    program: Program
    backend: str
    options: dict[str, Any]
    dynamic: tuple[str, ...]
    given: dict[str, Any]
    out: dict[str, Array]
    wanted: list[Wanted]
    terms: int

    def run(self) -> Outcome:
        """Compile it and call it."""
        try:
            kernel = self._kernel()
            got = self.results(kernel)
            code = b"" if self.backend == "halide" else _digest(_text(kernel))
        except Exception as error:  # a mutant may do anything
            return Outcome(f"{getattr(error, 'code', None) or type(error).__name__}: {error}"[:200])
        if isinstance(got, str):
            return Outcome(f"refused: {got}", code)
        return Outcome("" if self._right(got) else f"wrong results: {self.program.source.strip()}", code)

    def text(self) -> str:
        """The loops and the code that run."""
        kernel = self._kernel()
        self.results(kernel)
        return _text(kernel)

    def _kernel(self) -> tc.Kernel:
        return tc.compile(self.program.source, self.backend, options=self.options, dynamic=self.dynamic)

    def results(self, kernel: tc.Kernel) -> list[Array] | str:
        """Of a call whose arrays end before protected pages, those of results and scratch memory full of what
        must not be read; or the code of its error."""
        _native._poison_workspaces(True)
        given = {n: arranged(v, "end") if isinstance(v, np.ndarray) else v for n, v in self.given.items()}
        types = [numpy_dtype(kernel.front.typed.dtype(x.tensor)) for x in kernel.front.checked.returns]
        likes = [(w.of.shape, t) for w, t in zip(self.wanted, types, strict=True)]
        return into_poisoned(kernel, given, self.out, likes)

    def _right(self, got: list[Array]) -> bool:
        """As `benchmarks.agreement` has it, or `fuzz.differential`."""
        if self.terms:
            return agreement.compare(got, [w.of for w in self.wanted], self.terms) is None
        return all(w.met(g, self.program) for w, g in zip(self.wanted, got, strict=True))

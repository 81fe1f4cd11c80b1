"""What a workload is: a program, its inputs and its work.  Others' spellings: `benchmarks.spellings`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

Kind = Literal["compute", "memory", "gather"]
Group = Literal["report", "more", "programs", "polybench", "loops", "drawn"]
Fill = Literal[
    "uniform", "dominant", "positive definite", "small", "decaying", "negative", "sorted", "roots of unity",
    "reversed bits",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Array:
    """An input: floats are uniform in [-1, 1), integers in [0, below) or, without a bound, in [-8, 8).

    `fill` makes of these floats a matrix that its diagonal dominates, one that is also symmetric, numbers
    whose sum is small (each over the extent of the last dimension), factors in [0.5, 1.5), or the same
    negated.  Of integers it makes a sorted array.  The roots of unity of the stages of a Fourier transform,
    and the numbers below the extent with their bits in reversed order, are not drawn at all.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int | None = None
    fill: Fill = "uniform"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def make(self, seed: int, turn: int = 0) -> np.ndarray:
        """The array; `turn` numbers the different sets that a rotating input goes through."""
        rng = np.random.default_rng([seed, turn, *self.name.encode()])
        dtype = np.dtype(self.dtype)
        if self.fill in ("roots of unity", "reversed bits"):
            return self._transform().astype(dtype)
        if dtype.kind in "iu":
            low, high = (-8, 8) if self.below is None else (0, self.below)
            drawn = rng.integers(low, high, self.shape, dtype=dtype)
            return np.sort(drawn) if self.fill == "sorted" else drawn
        if dtype.kind == "c":
            parts = rng.random((*self.shape, 2)) * 2 - 1
            return parts.astype(f"f{dtype.itemsize // 2}").view(dtype)[..., 0]
        if dtype == np.float64:
            return self._filled(rng.random(self.shape) * 2 - 1)
        out = rng.random(self.shape, dtype=np.float32)
        out *= 2
        out -= 1
        return self._filled(out.astype(dtype, copy=False))

    def _filled(self, x: np.ndarray) -> np.ndarray:
        """Uniform numbers made what `fill` says."""
        if self.fill == "uniform":
            return x
        if self.fill == "small":
            return x / x.dtype.type(self.shape[-1])
        if self.fill in ("decaying", "negative"):
            x = x * x.dtype.type(0.5) + x.dtype.type(1)
            return x if self.fill == "decaying" else -x
        if self.fill == "positive definite":
            x = (x + x.T) / 2
        x[np.diag_indices(min(x.shape))] += x.dtype.type(x.shape[-1])
        return x

    def _transform(self) -> np.ndarray:
        """What a Fourier transform needs: roots of unity of a stage a row, or numbers with reversed bits."""
        if self.fill == "roots of unity":
            stage, at = np.arange(self.shape[0])[:, None], np.arange(self.shape[1])
            return np.exp(-1j * np.pi * (at >> stage << stage) / self.shape[1])
        bits = self.shape[0].bit_length() - 1
        return np.array([int(f"{i:0{bits}b}"[::-1], 2) for i in range(self.shape[0])])


@dataclass(frozen=True, slots=True)
class Workload:
    """One program at one set of sizes.

    `family` names the function in the modules of `benchmarks.spellings`.  `flops` counts multiplications,
    additions, comparisons and calls of functions, as little as the formula allows.  `gathered` maps inputs of
    which only some rows are read to the bytes of those; all others are read whole, and results written, once.
    `rotate` names the inputs that differ from call to call, so that look-ups do not find their rows cached.
    `terms` is the length of the longest sum: rounding errors may grow with its root.  `constants` are what
    spellings take before the inputs; `result_bytes` is known of families that are said in indices.  `results`
    and `sizes` (by name) are what a spelling in C needs to know.  `judge` is the library whose spelling says
    in float64 what results should be.
    """

    family: str
    source: str
    inputs: tuple[Array, ...]
    flops: float
    kind: Kind
    terms: int = 1
    gathered: Mapping[str, int] | None = None
    rotate: tuple[str, ...] = ()
    constants: tuple[Any, ...] = ()
    result_bytes: int = 0
    results: tuple[Array, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    judge: Literal["torch", "numpy"] = "torch"

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        return {a.name: a.make(seed) for a in self.inputs}

    def read_bytes(self) -> int:
        """Bytes that must be read at least."""
        gathered = self.gathered or {}
        return sum(gathered.get(a.name, a.nbytes) for a in self.inputs)

    @property
    def precision(self) -> str:
        """What floating-point arithmetic it does, "float" or "double"; empty if none."""
        kinds = {np.dtype(a.dtype) for a in self.inputs}
        if np.dtype(np.float64) in kinds:
            return "double"
        return "float" if any(k.kind == "f" for k in kinds) else ""

    def turns(self, beyond: int) -> int:
        """How many index sets a rotation has so that the rows it touches are `beyond` bytes."""
        if not self.rotate:
            return 1
        return max(1, math.ceil(beyond / max(1, sum((self.gathered or {}).values()) or self.read_bytes())))


@dataclass(frozen=True, slots=True)
class Case:
    """A family at the sizes that are measured, and at tiny ones that a test can afford.  `words` are what a
    family of `benchmarks.workloads.general` takes before the sizes."""

    group: Group
    family: Callable[..., Workload]
    sizes: tuple[int, ...]
    tiny: tuple[int, ...]
    label: str = ""  # in place of the family's name
    words: tuple[str, ...] = ()
    double: bool = False  # its floats are float64

    @property
    def name(self) -> str:
        shown = ",".join(f"{n:g}" if n >= 1_000_000 else str(n) for n in self.sizes)
        double = "f64" if self.double else ""
        return " ".join((self.label or self.family.__name__, *self.words, shown, double)).strip()

    @property
    def key(self) -> str:
        """Family, words and sizes, for another process to find it by."""
        sizes = ",".join(str(n) for n in self.sizes) + (DOUBLE if self.double else "")
        return f"{':'.join((self.family.__name__, *self.words))}@{sizes}"

    def workload(self, *, tiny: bool = False) -> Workload:
        found = self.family(*self.words, *(self.tiny if tiny else self.sizes))
        return in_double(found) if self.double else found


DOUBLE = "@f64"  # behind the sizes of a key


def in_double(w: Workload) -> Workload:
    """The same in float64 where it is in float32."""
    changed = {a.name for a in w.inputs if a.dtype == "float32"}

    def wide(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(replace(a, dtype="float64") if a.dtype == "float32" else a for a in arrays)

    return replace(
        w,
        source=re.sub(r"\bfloat(?:32)?\b", "double", w.source),
        inputs=wide(w.inputs),
        results=wide(w.results),
        result_bytes=w.result_bytes * (2 if changed else 1),
        gathered={n: b * (2 if n in changed else 1) for n, b in (w.gathered or {}).items()} or None,
    )

"""Gradients of random programs, against finite differences of the programs themselves.

    python -m fuzz.gradients [--count 2000] [--seed 0] [--backend cpu] [--kind complex] [--strict]
    python -m fuzz.gradients --count 100 --until 2000 --second 4 --keep wrong.jsonl --strict
    python -m fuzz.gradients --replay wrong.jsonl

For a random direction v and random adjoints w of the results, the sum of the gradient times v must be the
derivative of the sum of the results times w along v.  Of complex numbers the products are inner products of
pairs.  The derivative is a central difference in double.
Where the differences of two step sizes, or to both sides, do not agree there is a kink or a step, and the
program is counted as such.

A random program may be refused itself, for its ranges or for its sizes: such are counted apart from those
that run and whose gradient is refused: by `tc.grad`, or because its text asks for sizes that the program does
not ask for.  With `--strict` the latter stops the run and is shown.

The text of a gradient is a program, too.  With `--second N` that of every N-th program, if it is short, is
checked in the same way: its gradient is the second derivative.  With `--keep` what is wrong is appended to a
file, a program a line, and the run goes on.  `--replay` checks the programs of such a file again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

import tc
from fuzz import complex_gradients
from fuzz.differential import INDEX_LIMIT, sizes_of
from fuzz.saved_gradients import difference
from fuzz.strategies import Program, programs
from tc.autodiff.gradient import Gradient, differentiable, gradient
from tc.dtypes import DType
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]
_STEP = 2.0**-16
_CANCELLED = 2.0**-40  # what is left of sums that cancel, of terms around 1 in size
_PRECISE = (np.float64, np.complex128)
_NARROW = re.compile(r"\b(half|bfloat16|float)\(")  # casts that would round differences away
_LONG = 3000  # signs of a gradient that is not differentiated again: isl takes minutes
_REFUSES = frozenset(("TC0241", "TC0242"))  # what `tc.grad` refuses to differentiate
_UNPROVEN = frozenset(("TC0228", "TC0307", "TC0601"))  # what the text of a gradient may lack a proof of


class WrongGradient(AssertionError):
    """A gradient that is not the derivative."""


@dataclass
class Seen:
    """What became of programs."""

    right: int = 0
    complex: int = 0  # of those that are right, programs of complex numbers
    kinks: int = 0
    wrong: int = 0
    constant: int = 0  # no floating result depends on a floating tensor
    refused: Counter[str] = field(default_factory=Counter[str])  # gradients, by code
    invalid: Counter[str] = field(default_factory=Counter[str])  # programs that do not run themselves
    second: Counter[str] = field(default_factory=Counter[str])  # what became of second derivatives

    def add(self, kind: str, is_complex: bool = False) -> None:
        """Count what `check` says."""
        what, _, code = kind.partition(" ")
        match what:
            case "right":
                self.right += 1
                self.complex += is_complex
            case "kink":
                self.kinks += 1
            case "constant":
                self.constant += 1
            case "invalid":
                self.invalid[code] += 1
            case "wrong":
                self.wrong += 1
            case _:
                self.refused[code] += 1

    def include(self, other: Seen) -> None:
        """Count what another run saw."""
        self.right += other.right
        self.complex += other.complex
        self.kinks += other.kinks
        self.wrong += other.wrong
        self.constant += other.constant
        self.refused += other.refused
        self.invalid += other.invalid
        self.second += other.second

    def __str__(self) -> str:
        differentiable = self.right + self.kinks + self.wrong + self.refused.total()
        second = f"; second derivatives {dict(self.second)}" if self.second else ""
        return (
            f"of {differentiable} programs to differentiate {self.right} gradients right, "
            f"{self.complex} of them of complex numbers, "
            f"{self.kinks} at kinks, "
            f"{self.refused.total()} refused {dict(self.refused)}; "
            f"{self.constant} constant, {self.invalid.total()} no program {dict(self.invalid)}"
            f"{second}; {self.wrong} wrong"
        )


@dataclass(frozen=True)
class Case:
    """A program with the arguments of a call, and the values that its in/out tensors have before."""

    source: str
    values: Mapping[str, Any]
    before: Mapping[str, Array]
    sizes: Mapping[str, int]
    seed: int


def floats(rng: np.random.Generator, shape: Sequence[int], dtype: Any = np.float64) -> Array:
    """Numbers around 1 in size, none near 0, of a floating or complex type."""
    if np.issubdtype(dtype, np.complexfloating):
        found = rng.uniform(0.4, 1.6, shape) * np.exp(1j * rng.uniform(-3, 3, shape))
    else:
        found = rng.uniform(0.4, 1.6, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(found).astype(dtype)


def inner(a: Array, b: Array) -> float:
    """The inner product of arrays of numbers, or of pairs of numbers."""
    return float(np.vdot(a, b).real)


def inputs(
    kernel: tc.Kernel, p: Program, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Arguments of a program, and the values its in/out tensors have before."""
    front = kernel.front
    values: dict[str, Any] = {}
    for param in front.checked.params:
        if isinstance(param, r.ScalarParam):
            values[param.name] = p.scalars[param.name]
            continue
        shape = [p.sizes[d.name] for d in param.dims or () if isinstance(d, r.Size)]
        dtype = front.typed.dtype(param)
        limit = INDEX_LIMIT if param.name == "X" else 2
        values[param.name] = (
            floats(rng, shape, _precise(dtype))
            if dtype.is_inexact
            else rng.integers(0, limit, shape).astype(numpy_dtype(dtype))
        )
    before: dict[str, Array] = {}
    inout = [x for x in front.checked.returns if x.mode == "inout"]
    if inout:
        shapes = kernel.output_shapes(**sizes_of(kernel, p))
        for x in inout:
            dtype = front.typed.dtype(x.tensor)
            before[x.name] = (
                floats(rng, shapes[x.name], _precise(dtype))
                if dtype.is_inexact
                else rng.integers(0, 2, shapes[x.name]).astype(numpy_dtype(dtype))
            )
    return values, before


def _precise(dtype: DType) -> Any:
    return np.complex128 if dtype.is_complex else np.float64


def results(kernel: tc.Kernel, values: Mapping[str, Any], before: Mapping[str, Array]) -> dict[str, Array]:
    found = kernel(**values, out={n: v.copy() for n, v in before.items()} or None)
    found = found if isinstance(found, tuple) else (found,)
    return {x.name: np.asarray(v) for x, v in zip(kernel.front.checked.returns, found, strict=True)}


def check(
    p: Program,
    backend: str = "cpu",
    ties: str = "first",
    strict: bool = False,
    second: Callable[[str], None] | None = None,
) -> str:
    """What became of a program: `"right"`, `"kink"`, `"constant"`, `"invalid CODE"` for one that does not run
    itself, or `"refused CODE"`.  `second` is told what became of its gradient as a program.  Raises
    WrongGradient, if `strict` also for a gradient that does not run."""
    exact = replace(p, source=_NARROW.sub("double(", p.source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        rng = np.random.default_rng(p.seed)
        try:
            kernel = tc.compile(exact.source, backend=backend)
            values, before = inputs(kernel, exact, rng)
        except tc.Error as e:
            return f"invalid {e.code}"
        case = Case(exact.source, values, before, p.sizes, p.seed)
        found, derived = _check(kernel, case, rng, backend, ties, strict)
        if second is not None and derived is not None and len(derived.source) <= _LONG:
            kernel = tc.compile(derived.source, backend=backend)
            second(_check(kernel, derived, rng, backend, ties, strict)[0])
        return found


def _check(
    kernel: tc.Kernel, p: Case, rng: np.random.Generator, backend: str, ties: str, strict: bool
) -> tuple[str, Case | None]:
    """What became of a program, and its gradient, if that is right, at the same arguments."""
    values, before = p.values, p.before
    try:
        primal = results(kernel, values, before)
    except tc.Error as e:
        return f"invalid {e.code}", None
    inout = [n for n, v in before.items() if v.dtype in _PRECISE]
    tensors = [n for n, v in values.items() if isinstance(v, np.ndarray) and v.dtype in _PRECISE]
    try:
        scalars = {n: int(values[n]) for n in kernel.front.specialized}
        g = _gradient(p.source, tensors, inout, scalars, ties)
    except tc.Error as e:
        if e.code == "TC0522":
            return "constant", None
        if e.code in _REFUSES:
            return f"refused {e.code}", None
        raise WrongGradient(f"{p.source}\n{e}") from e
    weights = {n: floats(rng, primal[n].shape, primal[n].dtype) for n in g.seeds}
    given = [values[x.name] for x in kernel.front.checked.params]
    given += [before[n] for n in g.before] + [weights[n] for n in g.seeds]
    try:
        derived = tc.compile(g.source, backend=backend)
        found = derived(*given)
    except tc.Error as e:
        if _is_extreme_of_nothing(e, p) or (e.code in _UNPROVEN and not strict):
            return f"refused {e.code}", None
        raise WrongGradient(f"{p.source}\nat {dict(p.sizes)}\n{g.source}\n{e}") from e
    adjoints = found if isinstance(found, tuple) else (found,)
    if not before and (
        text := difference(p.source, kernel, g, scalars, values, weights, adjoints, backend, ties)
    ):
        raise WrongGradient(f"{p.source}\nat {dict(p.sizes)}, seed {p.seed}, with what is kept\n{text}")
    moving = {n: values[n] if n in values else before[n] for n in g.wrt}
    along = {n: floats(rng, v.shape, v.dtype) for n, v in moving.items()}
    told = sum(inner(np.asarray(a), along[n]) for n, a in zip(g.wrt, adjoints, strict=True))
    size = sum(inner(np.abs(a), np.abs(along[n])) for n, a in zip(g.wrt, adjoints, strict=True))

    def total(t: float) -> float:
        moved = {n: v + t * along[n] if n in along else v for n, v in values.items()}
        start = {n: v + t * along[n] if n in along else v for n, v in before.items()}
        now = results(kernel, moved, start)
        return sum(inner(now[n], w) for n, w in weights.items())

    wanted = _derivative(total, size)
    if wanted is None or not np.isfinite(size):
        return "kink", None
    value, error = wanted
    kind = _check_tangents(p, backend, ties, g, scalars, weights, along, wanted, strict)
    if abs(told - value) > error:
        raise WrongGradient(
            f"{p.source}\nat {dict(p.sizes)}, seed {p.seed}\n{g.source}\nwanted {value} ± {error}, got {told}"
        )
    names = [x.name for x in derived.front.checked.params]
    return kind, Case(g.source, dict(zip(names, given, strict=True)), {}, p.sizes, p.seed)


def _check_tangents(
    p: Case,
    backend: str,
    ties: str,
    g: Gradient,
    scalars: Mapping[str, int],
    weights: Mapping[str, Array],
    along: Mapping[str, Array],
    wanted: tuple[float, float],
    strict: bool,
) -> str:
    """The sum of the tangents of the results times w is the same derivative: `"right"`, or a refusal."""
    source = tc.jvp(p.source, g.wrt, ties=ties, of=tuple(weights), scalars=scalars)
    try:
        kernel = tc.compile(source, backend=backend)
        given = {**p.values, **{f"t_{n}": along[n] for n in g.wrt}}
        first = [x.name for x in kernel.front.checked.params if x.name not in given]
        given |= dict(zip(first, (p.before[n] for n in p.before), strict=False))
        found = results(kernel, given, {})
    except tc.Error as e:
        if _is_extreme_of_nothing(e, p) or (e.code in _UNPROVEN and not strict):
            return f"refused {e.code}"
        raise WrongGradient(f"{p.source}\nat {dict(p.sizes)}\n{source}\n{e}") from e
    told = sum(inner(found[f"t_{n}"], w) for n, w in weights.items())
    value, error = wanted
    if abs(told - value) > error:
        raise WrongGradient(
            f"{p.source}\nat {dict(p.sizes)}, seed {p.seed}\n{source}\nwanted {value} ± {error}, got {told}"
        )
    return "right"


def _is_extreme_of_nothing(e: tc.Error, p: Case) -> bool:
    """A program may take an extreme over a size that is 0, its gradient may not."""
    return "an extreme of nothing" in str(e) and 0 in p.sizes.values()


def _gradient(
    source: str, tensors: Sequence[str], inout: Sequence[str], scalars: Mapping[str, int], ties: str
) -> Gradient:
    """The gradient with respect to those of some tensors that results depend on."""
    reached = differentiable(source, None, scalars)
    kept = [n for n in tensors if n in reached]
    for n in inout:
        try:
            gradient(source, n, ties=ties, scalars=scalars)
        except tc.ArgumentError as e:
            if e.code != "TC0522":
                raise
            continue
        kept.append(n)
    return gradient(source, kept, ties=ties, scalars=scalars)


def _derivative(f: Callable[[float], float], size: float) -> tuple[float, float] | None:
    """The derivative at 0, and how far it may be off; None where there is none."""
    with np.errstate(all="ignore"):
        far = [f(k * _STEP) for k in (-2, -1, 0, 1, 2)]
        if not all(np.isfinite(far)):
            return None
        scale = max(abs(x) for x in far)
        noise = 2.0**-44 * (scale + size) / _STEP + _CANCELLED
        near = (far[3] - far[1]) / (2 * _STEP)
        wide = (far[4] - far[0]) / (4 * _STEP)
        better = near + (near - wide) / 3
        left, right = (far[2] - far[1]) / _STEP, (far[3] - far[2]) / _STEP
        curve = abs(far[3] - 2 * far[2] + far[1]) / _STEP
        wider = abs(far[4] - 2 * far[2] + far[0]) / (4 * _STEP)
        smooth = abs(near - wide) <= 1e-3 * size + noise and abs(left - right) <= 1e-2 * size + noise
        # A second difference grows with the square of the step; at a kink it grows with the step.
        smooth = smooth and curve <= 1.5 * wider + 1e-6 * size + noise
        return (better, abs(near - wide) + 1e-6 * size + noise) if smooth else None


_OF_REALS = programs(("double",), ("double", "double", "int", "uint8", "bool"))
_OF_COMPLEX = complex_gradients.programs()


def run(
    count: int,
    number: int,
    backend: str,
    progress: bool = True,
    shrink: bool = True,
    strict: bool = False,
    kind: str = "both",
    second: int = 0,
    keep: Path | None = None,
) -> Seen:
    """Check `count` programs, of `"real"` numbers, of `"complex"` ones, or of `"both"`, and the second
    derivatives of every one in `second`.  The first that is wrong ends the run, or else goes to `keep`."""
    seen = Seen()
    begun = time.monotonic()

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink and keep is None else [Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(_OF_REALS if kind == "real" else _OF_COMPLEX if kind == "complex" else _OF_REALS | _OF_COMPLEX)
    def examples(p: Program) -> None:
        _examine(p, seen, backend, strict, bool(second) and seen.right % second == 0, keep)
        if progress:
            sys.stderr.write(f"\r{seen.right} right, {seen.kinks} kinks, {seen.refused.total()} refused ")

    try:
        examples()
    finally:
        if progress:
            sys.stderr.write(f"in {time.monotonic() - begun:.0f} s\n")
    return seen


def _examine(p: Program, seen: Seen, backend: str, strict: bool, second: bool, keep: Path | None) -> None:
    """Check a program, and count what became of it."""

    def further(found: str) -> None:
        seen.second[found] += 1

    try:
        found = check(
            p, backend, "split" if p.seed % 4 == 0 else "first", strict, further if second else None
        )
    except Exception as e:
        seen.add("wrong")
        if keep is None:
            raise
        fields = {**asdict(p), "scalars": {n: [z.real, z.imag] for n, z in p.scalars.items()}}
        with keep.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"program": fields, "found": f"{type(e).__name__}: {e}"}) + "\n")
        return
    seen.add(found, "cdouble" in p.source)


def replay(file: Path, backend: str, strict: bool) -> Seen:
    """Check the programs of a file again, second derivatives too, and show those that are still wrong."""
    seen = Seen()
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)["program"]
        fields["scalars"] = {n: complex(*z) if z[1] else z[0] for n, z in fields["scalars"].items()}
        try:
            _examine(Program(**fields), seen, backend, strict, True, None)
        except Exception as e:
            print(f"{e}\n")
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.gradients",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--no-shrink", action="store_true", help="show the first wrong one as it is")
    parser.add_argument("--strict", action="store_true", help="stop at a gradient that does not run")
    parser.add_argument("--kind", choices=("real", "complex", "both"), default="both")
    parser.add_argument(
        "--until",
        type=int,
        default=0,
        metavar="N",
        help="more runs, each of the next seed, until N are right",
    )
    parser.add_argument("--second", type=int, default=0, metavar="N", help="second derivatives of one in N")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append what is wrong, and go on")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="check what was kept again")
    chosen = parser.parse_args()
    if chosen.replay is not None:
        print(replay(chosen.replay, chosen.backend, chosen.strict))
        return
    seen, number = Seen(), chosen.seed
    while number == chosen.seed or seen.right < chosen.until:
        seen.include(
            run(
                chosen.count,
                number,
                chosen.backend,
                shrink=not chosen.no_shrink,
                strict=chosen.strict,
                kind=chosen.kind,
                second=chosen.second,
                keep=chosen.keep,
            )
        )
        number += 1
        print(f"seeds {chosen.seed} to {number - 1}: {seen}", flush=True)


if __name__ == "__main__":
    main()

"""One random program on several backends, twice on each: results must be those of the generator's evaluator
(`fuzz.evaluate`), and the second time the same to the bit, whatever the number of threads and wherever the
arrays lie.  `tc.interpret` is one of the contestants."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tc
from fuzz import evaluate, ranges, tree
from fuzz.memory import Layout, arranged, poisoned, repeated
from fuzz.numbers import FLOATS, Value, exact
from fuzz.strategies import INDEX_LIMIT, Program, fitting
from tc import _native, registry
from tc.ir.evaluate import evaluate as number
from tc.ir.program import Range
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]
HARD = [0.0, -0.0, 1.0, -1.0, 2.0, float("inf"), -float("inf"), float("nan"), 1e-40, 3e38]
EPS = {"float": 2.0**-23, "double": 2.0**-52, "half": 2.0**-10, "bfloat16": 2.0**-7}
_OUT_OF_BOUNDS = "TC0701"
# What Halide cannot follow, and schedules that its autoschedulers make and it cannot compile or run.
CANNOT_FOLLOW = frozenset(("TC0805", "TC0806"))
GAVE_UP = "TC0810"
INTERPRETER = "interpret"


class Disagreement(AssertionError):
    """A backend gives something else than the evaluator."""


@dataclass(frozen=True)
class Wanted:
    """A result, and how far each element may be off; `error` is None if the program's bound says it."""

    of: Array
    error: Array | None

    def met(self, got: Array, p: Program) -> bool:
        if self.error is None:
            return equal(self.of, got, p)
        if self.of.shape != got.shape:
            return False
        if got.dtype.kind in "iub":
            return bool(((self.of == got) | (self.error > 0)).all())
        w, g = self.of.astype(np.float64), got.astype(np.float64)
        same = (w == g) | (np.isnan(w) & np.isnan(g)) | np.isinf(self.error)
        with np.errstate(all="ignore"):
            return bool((same | (np.abs(w - g) <= self.error)).all())


@dataclass(frozen=True)
class Outcome:
    """`refused`: the code of the error that all gave.  `excluded`: backends that cannot follow.  `wanted`:
    results as the evaluator has them, none where it could not say."""

    refused: str | None = None
    excluded: tuple[str, ...] = ()
    slowest: float = 0.0
    wanted: tuple[Wanted, ...] = ()

    @property
    def certain(self) -> tuple[int, int]:
        """Of how many elements the evaluator says what they are, and of all."""
        errors = [w.error for w in self.wanted if w.error is not None]
        return sum(int(np.isfinite(e).sum()) for e in errors), sum(e.size for e in errors)


def values(rng: np.random.Generator, shape: Sequence[int], t: np.dtype[Any], p: Program) -> Array:
    kind = "f" if t.kind == "V" else t.kind  # bfloat16
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(t)
    if p.data == "wide" and kind == "f":
        return wide(rng, shape, t)
    if p.data == "wide":
        info = np.iinfo(t)
        return np.asarray(rng.integers(info.min, info.max, shape, t, endpoint=True)) >> rng.integers(
            0, info.bits, shape
        ).astype(t)
    if p.data == "hard" and kind == "f":
        with np.errstate(over="ignore"):
            return any_nan(rng, np.asarray(np.array(HARD)[rng.integers(0, len(HARD), shape)]).astype(t))
    if p.data == "hard":
        info = np.iinfo(t)
        ends = [info.min, info.max, 0, 1, 2, info.max - 1, info.min + 1, info.max // 2]
        return np.asarray(np.array(ends, t)[rng.integers(0, len(ends), shape)])
    high = 1 if t.itemsize == 2 and kind == "f" else 2
    return np.asarray(rng.integers(0 if kind == "u" else -high, high + 1, shape)).astype(t)


def wide(rng: np.random.Generator, shape: Sequence[int], t: np.dtype[Any]) -> Array:
    """Floats of usual sizes, of all magnitudes, and hard ones."""
    with np.errstate(over="ignore", under="ignore"):
        largest = math.log(float(ml_dtypes.finfo(t).max))
        kinds = [
            rng.uniform(-1, 1, shape),
            rng.normal(0, 8, shape),
            rng.choice([-1, 1], shape) * np.exp(rng.uniform(-largest, largest, shape)),
            np.round(rng.normal(0, 20, shape)) / 2,
            rng.choice(HARD, shape),
        ]
        chosen = np.choose(rng.choice(5, shape, p=[0.3, 0.3, 0.2, 0.1, 0.1]), kinds)
        return any_nan(rng, np.asarray(chosen).astype(t))


def any_nan(rng: np.random.Generator, x: Array) -> Array:
    """The same with quiet NaN of both signs and any payload, which code must not take for exponents."""
    (rng,) = rng.spawn(1)  # all other numbers are what they were
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    payload = (1 << ml_dtypes.finfo(x.dtype).nmant - 1) - 1
    bits = rng.integers(0, payload, x.shape, unsigned, endpoint=True)
    bits |= rng.integers(0, 1, x.shape, unsigned, endpoint=True) << unsigned.type(8 * unsigned.itemsize - 1)
    nan = np.isnan(x.astype(np.float64))
    flipped = np.ascontiguousarray(x).view(unsigned).reshape(x.shape) ^ np.where(nan, bits, unsigned.type(0))
    return np.asarray(flipped).view(x.dtype)


def arguments(kernel: tc.Kernel, p: Program) -> tuple[dict[str, Any], dict[str, Array]]:
    rng = np.random.default_rng(p.seed)
    front = kernel.front
    given: dict[str, Any] = {}
    for param in front.checked.params:
        if isinstance(param, r.ScalarParam):
            given[param.name] = p.scalars[param.name]
            continue
        # The generator writes sizes only.
        shape = [p.sizes[d.name] for d in param.dims or () if isinstance(d, r.Size)]
        t = numpy_dtype(front.typed.dtype(param))
        given[param.name] = (
            rng.integers(0, INDEX_LIMIT, shape).astype(t) if param.name == "X" else values(rng, shape, t, p)
        )
    inout = [x for x in front.checked.returns if x.mode != "fresh"]
    out: dict[str, Array] = {}
    if inout:
        shapes = kernel.output_shapes(**sizes_of(kernel, p))
        for x in inout:
            out[x.name] = values(rng, shapes[x.name], numpy_dtype(front.typed.dtype(x.tensor)), p)
    return given, out


def sizes_of(kernel: tc.Kernel, p: Program) -> dict[str, int]:
    """The sizes and specialised scalars of a program."""
    front = kernel.front
    sizes = {n: p.sizes[n] for n in front.checked.sizes}
    return sizes | {n: int(p.scalars[n]) for n in front.specialized}


def attempt(run: Callable[..., Any], given: Mapping[str, Any], out: Mapping[str, Array]) -> list[Array] | str:
    try:
        found = run(**given, out={k: v.copy() for k, v in out.items()} or None)
    except tc.InternalError:
        raise
    except tc.Error as e:
        return e.code
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]


def into_poisoned(
    kernel: tc.Kernel,
    given: Mapping[str, Any],
    out: Mapping[str, Array],
    likes: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
    *,
    at_end: bool = True,
) -> list[Array] | str:
    """The results of a call in arrays of ours of these shapes and types, beside protected pages, that hold
    what must not be read, or the values of `out`; or the code of its error."""
    buffers: dict[str, Array] = {}
    for x, (shape, dtype) in zip(kernel.front.checked.returns, likes, strict=True):
        buffers[x.name] = poisoned(shape, dtype, at_end=at_end)
        if x.name in out:
            buffers[x.name][...] = out[x.name]
    try:
        kernel(**given, out=buffers)
    except tc.InternalError:
        raise
    except tc.Error as e:
        return e.code
    return list(buffers.values())


def judged(
    kernel: tc.Kernel,
    p: Program,
    given: Mapping[str, Any],
    out: Mapping[str, Array],
    first: list[Array] | str,
) -> list[Wanted] | str | None:
    """What the evaluator says; None where it cannot.  Raises WrongRange, or Disagreement where an element
    is read that does not exist and the interpreter (`first`) does not mind."""
    assert p.tree is not None
    program: tree.Tree = tree.loads(p.tree)
    at = sizes_of(kernel, p)
    ranges_of = kernel.ranges_for(at)

    def pair(b: Any) -> tuple[int, int]:
        assert isinstance(b, Range)
        low = int(number(b.min, at))
        return low, low + int(number(b.extent, at))

    reported = [{n: pair(b) for n, b in found.items()} for found in ranges_of.variables]
    written = {
        n: tuple((x.min, x.min + x.extent) for x in dims) for n, dims in kernel.ranges.at(**at).items()
    }
    found = ranges.check(program, at, at, reported, {n: written[n] for n in program.entry.returns})
    entry = program.entry
    inputs: dict[str, evaluate.Tensor | Value] = {}
    for x in entry.params:
        v = given[x.name]
        if x.dims is None:
            inputs[x.name] = exact(x.type, v)
        else:
            inputs[x.name] = evaluate.Tensor(
                exact(x.type, np.asarray(v).astype(np.float64) if x.type in FLOATS else v), (0,) * v.ndim
            )
    try:
        results = evaluate.run(program, entry.name, inputs, at, out, found)
    except evaluate.OutOfBounds:
        return _OUT_OF_BOUNDS
    except evaluate.Uncertain:
        return None
    except evaluate.Undefined as e:
        if first == _OUT_OF_BOUNDS:  # what cannot be said of the sizes alone is found out by each access
            return first
        raise Disagreement(f"{p.source}\nat {dict(p.sizes)}: {e}, and nothing refuses it") from e
    wanted: list[Wanted] = []
    for n in entry.returns:
        v = results[n].of
        wanted.append(Wanted(np.asarray(v.of), np.broadcast_to(v.error, np.shape(v.of))))
    return wanted


def equal(want: Array, got: Array, p: Program) -> bool:
    """Whether results agree, by the program's bound on all magnitudes."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return False
    if want.dtype.kind in "iub":
        return bool(np.array_equal(want, got))
    w, g = want.astype(np.float64), got.astype(np.float64)
    same = (w == g) | (np.isnan(w) & np.isnan(g))
    with np.errstate(all="ignore"):
        return bool((same | (np.abs(w - g) <= 64 * EPS[p.type] * p.bound)).all())


def same_bits(a: Array, b: Array) -> bool:
    """All NaNs are one."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = (np.ascontiguousarray(v) for v in (a, b))
    if a.dtype.kind in "iub":
        return bool(np.array_equal(x, y))
    bits = f"u{a.dtype.itemsize}"
    nan = np.isnan(x.astype(np.float64)) & np.isnan(y.astype(np.float64))
    return bool(((x.view(bits) == y.view(bits)) | nan).all())


@dataclass(frozen=True)
class Contest:
    """A program with its arguments, laid out as they are passed, and what is wanted."""

    program: Program
    kernel: tc.Kernel
    given: Mapping[str, Any]
    placed: Mapping[str, Any]
    out: Mapping[str, Array]
    first: list[Array] | str  # of the interpreter
    want: list[Wanted] | str
    judged: bool

    def agree(self, who: str, got: list[Array] | str) -> None:
        """Raises Disagreement where that is not what is wanted."""
        if isinstance(self.want, str) or isinstance(got, str):
            right = got == self.want
        else:
            right = all(w.met(g, self.program) for w, g in zip(self.want, got, strict=True))
            if not isinstance(self.first, str):
                right = right and [g.dtype for g in got] == [x.dtype for x in self.first]
        if not right:
            shown = self.want if isinstance(self.want, str) else [w.of for w in self.want]
            raise Disagreement(f"{self.told(who)}\nwanted {shown}\ngot {got}")

    def told(self, who: str) -> str:
        p = self.program
        return (
            f"{who} at {dict(p.sizes)}, {p.data} data of seed {p.seed}\n{p.source}\n"
            f"arguments {dict(self.placed)} {dict(self.out)}"
        )

    def run(
        self,
        who: str,
        compiled: tc.Kernel,
        threads: int,
        refused: AbstractSet[str] = CANNOT_FOLLOW,
        ordered: bool = True,
    ) -> str | None:
        """Two calls of a kernel, the second on so many threads; the code of an error, which may be one of
        `refused` whatever is wanted.  `ordered`: results are the same, bit by bit."""
        got = attempt(compiled, self.placed, self.out)
        if isinstance(got, str) and got in refused:
            return got
        self.agree(who, got)
        if isinstance(got, str):
            return got
        again = self.again(compiled, got, threads)
        if not ordered:
            self.agree(who, again)
        elif isinstance(again, str) or not all(map(same_bits, got, again)):
            raise Disagreement(f"{self.told(who)}\nfirst {got}\nthen {again}, {threads} threads")
        return None

    def again(self, kernel: tc.Kernel, first: Sequence[Array], threads: int) -> list[Array] | str:
        """The results of another call, in arrays of ours that hold what must not be read."""
        likes = [(found.shape, found.dtype) for found in first]
        before = _native.get_num_threads()
        _native.set_num_threads(threads)
        try:
            return into_poisoned(kernel, self.placed, self.out, likes, at_end=threads % 2 == 0)
        finally:
            _native.set_num_threads(before)


def contest(p: Program, layouts: Sequence[Layout]) -> Contest | str:
    """The arguments of a program and what is wanted, by the evaluator if the program has a tree and that can
    tell; or the code with which it is refused."""
    try:
        kernel = tc.compile(p.source, "reference")
        given, out = arguments(kernel, p)
    except tc.InternalError:
        raise
    except tc.Error as e:
        return e.code
    turns = itertools.cycle(layouts or ("end",))
    laid = {n: next(turns) for n, v in given.items() if isinstance(v, np.ndarray)}
    given = {n: repeated(v, laid[n]) if n in laid else v for n, v in given.items()}
    placed = {n: arranged(v, laid[n]) if n in laid else v for n, v in given.items()}
    first = attempt(lambda **kw: tc.interpret(p.source, **kw), given, out)
    want: list[Wanted] | str | None = None
    if p.tree is not None and (not isinstance(first, str) or first == _OUT_OF_BOUNDS):
        want = judged(kernel, p, given, out, first)
    is_judged = want is not None
    if want is None and isinstance(first, str):
        want = first
    elif want is None:
        # Without the evaluator the interpreter is right, unless that could not tell.
        want = [Wanted(w, None if p.tree is None else np.full(w.shape, np.inf)) for w in first]
    return Contest(p, kernel, given, placed, out, first, want, is_judged)


def compare(
    p: Program,
    backends: Sequence[str] = ("reference", "cpu"),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    dynamic: int = 0,
    layouts: Sequence[Layout] = (),
    threads: int = 3,
    seen: Callable[[str, tc.Kernel], None] = lambda backend, kernel: None,
) -> Outcome:
    """Raises Disagreement, WrongRange or InternalError; `options` are those of backends, and `dynamic` has a
    bit for each size that is dynamic on backends that have such sizes.  `layouts` are those of the array
    arguments, in turn; `threads` is how many the second call may use; `seen` is told what ran."""
    excluded: list[str] = []
    slowest = 0.0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        # Scratch memory that is read before it is written must show.
        _native._poison_workspaces(True)
        c = contest(p, layouts)
        if isinstance(c, str):
            return Outcome(c)
        c.agree(INTERPRETER, c.first)
        for backend in backends:
            chosen = fitting((options or {}).get(backend, {}), c.kernel.front)
            sizes = [n for i, n in enumerate(c.kernel.front.checked.sizes) if dynamic >> i & 1]
            if not getattr(registry.get(backend), "dynamic_sizes", False):
                sizes = []
            start = time.perf_counter()
            compiled = tc.compile(p.source, backend, options=chosen, dynamic=sizes)
            refused = CANNOT_FOLLOW | ({GAVE_UP} if "autoschedule" in chosen else set[str]())
            told = f"{backend} {chosen}, {sizes} dynamic, {list(layouts)}"
            code = c.run(told, compiled, threads, refused, not chosen.get("atomics"))
            slowest = max(slowest, time.perf_counter() - start)
            if code in refused:
                excluded.append(backend)
            elif code is None:
                seen(backend, compiled)
    if isinstance(c.want, str):
        return Outcome(c.want, tuple(excluded), slowest)
    return Outcome(None, tuple(excluded), slowest, tuple(c.want) if c.judged else ())


__all__ = [
    "CANNOT_FOLLOW",
    "GAVE_UP",
    "Disagreement",
    "Outcome",
    "Wanted",
    "arguments",
    "attempt",
    "compare",
    "equal",
    "into_poisoned",
    "same_bits",
]

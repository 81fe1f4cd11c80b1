"""One random program on several backends, twice on each: results must be those of the interpreter, and the
second time the same to the bit, whatever the number of threads and wherever the arrays lie."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tc
from fuzz.memory import Layout, arranged, poisoned
from fuzz.strategies import INDEX_LIMIT, Program
from tc import _native, registry
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]
HARD = [0.0, -0.0, 1.0, -1.0, 2.0, float("inf"), -float("inf"), float("nan")]
EPS = {"float": 2.0**-23, "double": 2.0**-52, "half": 2.0**-10, "bfloat16": 2.0**-7}


class Disagreement(AssertionError):
    """A backend gives something else than the interpreter."""


@dataclass(frozen=True)
class Outcome:
    """`refused`: the code of the error that all gave.  `excluded`: backends that cannot follow."""

    refused: str | None = None
    excluded: tuple[str, ...] = ()
    slowest: float = 0.0


def values(rng: np.random.Generator, shape: Sequence[int], t: np.dtype[Any], p: Program) -> Array:
    kind = "f" if t.kind == "V" else t.kind  # bfloat16
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(t)
    if p.data == "hard" and kind == "f":
        return np.asarray(np.array(HARD)[rng.integers(0, len(HARD), shape)]).astype(t)
    if p.data == "hard":
        info = np.iinfo(t)
        ends = [info.min, info.max, 0, 1, 2, info.max - 1, info.min + 1, info.max // 2]
        return np.asarray(np.array(ends, t)[rng.integers(0, len(ends), shape)])
    high = 1 if p.type in ("half", "bfloat16") else 2
    return np.asarray(rng.integers(0 if kind == "u" else -high, high + 1, shape)).astype(t)


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
        shapes = kernel.output_shapes(
            **{n: p.sizes[n] for n in front.checked.sizes}, **{n: p.scalars[n] for n in front.specialized}
        )
        for x in inout:
            out[x.name] = values(rng, shapes[x.name], numpy_dtype(front.typed.dtype(x.tensor)), p)
    return given, out


def attempt(run: Callable[..., Any], given: Mapping[str, Any], out: Mapping[str, Array]) -> list[Array] | str:
    try:
        found = run(**given, out={k: v.copy() for k, v in out.items()} or None)
    except tc.InternalError:
        raise
    except tc.Error as e:
        return e.code
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]


def equal(want: Array, got: Array, p: Program) -> bool:
    if want.shape != got.shape or want.dtype != got.dtype:
        return False
    if want.dtype.kind in "iub":
        return bool(np.array_equal(want, got))
    w, g = want.astype(np.float64), got.astype(np.float64)
    same = (w == g) | (np.isnan(w) & np.isnan(g))
    if p.exact:
        return bool(same.all())
    if p.bound > 1e30 or (p.type == "half" and p.bound > 6e4):
        return True  # where it overflows depends on the order
    with np.errstate(all="ignore"):
        close = np.abs(w - g) <= 64 * EPS[p.type] * p.bound
    return bool((same | close).all())


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


def second(
    kernel: tc.Kernel,
    given: Mapping[str, Any],
    out: Mapping[str, Array],
    first: Sequence[Array],
    threads: int,
) -> list[Array] | str:
    """The results of another call, on so many threads, in arrays of ours that hold what must not be read."""
    buffers: dict[str, Array] = {}
    for x, found in zip(kernel.front.checked.returns, first, strict=True):
        buffers[x.name] = poisoned(found.shape, found.dtype, at_end=threads % 2 == 0)
        if x.name in out:
            buffers[x.name][...] = out[x.name]
    before = _native.get_num_threads()
    _native.set_num_threads(threads)
    try:
        kernel(**given, out=buffers)
    except tc.InternalError:
        raise
    except tc.Error as e:
        return e.code
    finally:
        _native.set_num_threads(before)
    return list(buffers.values())


def compare(
    p: Program,
    backends: Sequence[str] = ("reference", "cpu"),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    dynamic: int = 0,
    layouts: Sequence[Layout] = (),
    threads: int = 3,
) -> Outcome:
    """Raises Disagreement, or InternalError; `options` are those of backends, and `dynamic` has a bit for
    each size that is dynamic on backends that have such sizes.  `layouts` are those of the array arguments,
    in turn; `threads` is how many the second call may use."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            kernel = tc.compile(p.source, "reference")
            given, out = arguments(kernel, p)
        except tc.InternalError:
            raise
        except tc.Error as e:
            return Outcome(e.code)
        want = attempt(lambda **kw: tc.interpret(p.source, **kw), given, out)
        turns = itertools.cycle(layouts or ("end",))
        placed = {n: arranged(v, next(turns)) if isinstance(v, np.ndarray) else v for n, v in given.items()}
        excluded: list[str] = []
        slowest = 0.0
        for backend in backends:
            chosen = dict((options or {}).get(backend, {}))
            start = time.perf_counter()
            sizes = [n for i, n in enumerate(kernel.front.checked.sizes) if dynamic >> i & 1]
            if not getattr(registry.get(backend), "dynamic_sizes", False):
                sizes = []
            compiled = tc.compile(p.source, backend, options=chosen, dynamic=sizes)
            got = attempt(compiled, placed, out)
            slowest = max(slowest, time.perf_counter() - start)
            if got == "TC0805":  # Halide cannot follow
                excluded.append(backend)
                continue
            data = f"{p.data} data of seed {p.seed}, {list(layouts)}"
            where = f"{backend} {chosen} at {dict(p.sizes)}, {sizes} dynamic, {data}\n{p.source}\n"
            if isinstance(want, str) or isinstance(got, str):
                if want != got:
                    raise Disagreement(f"{where}wanted {want}\ngot {got}")
                continue
            for w, g in zip(want, got, strict=True):
                if not equal(w, g, p):
                    raise Disagreement(f"{where}arguments {given} {out}\nwanted {w}\ngot {g}")
            again = second(compiled, placed, out, got, threads)
            if isinstance(again, str) or not all(map(same_bits, got, again)):
                raise Disagreement(
                    f"{where}arguments {given} {out}\nfirst {got}\nthen {again}, {threads} threads"
                )
    return Outcome(want if isinstance(want, str) else None, tuple(excluded), slowest)

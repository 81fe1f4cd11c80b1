"""One kernel for all sizes, called with some: the programs of `fuzz.whole_numbers` with dynamic sizes.

    python -m fuzz.sizes [--count 200] [--seed 0] [--backend NAME …] [--show SEED]

A kernel is compiled once and called with six sets of sizes, none and one among them.  `tc.interpret` judges
results, and that the same calls are refused with the same code.  Half of the calls write into buffers of the
caller with marks before and behind them.  On cpu two fifths of the kernels are made for caches of a few
elements.  The exit code is 1 if anything was found.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tc
from fuzz import by_seeds
from fuzz.loops import SMALL
from fuzz.whole_programs import program

Array = np.ndarray[Any, Any]
_EXTENTS = (0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40, 65)
_ITERATIONS = (0, 1, 2, 5)
_SUBSCRIPTS = {"p": "N", "s": "M", "q": "K"}  # parameters that hold subscripts of these sizes
_CALLS = 6
_MARK, _MARKS = 77, 128


def problem(seed: int, backend: str) -> str:
    """What is wrong with some call of the kernel of a seed's program; empty if nothing is."""
    made = program(seed)
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    options: dict[str, Any] = dict(SMALL) if backend == "cpu" and rng.random() < 0.4 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        try:
            kernel = tc.compile(made.source, backend, options=options, dynamic=True)
        except tc.Error as e:
            return f"seed {seed} on {backend} {options}\n{made.source}\n{e}"
        for call in range(_CALLS):
            sizes = {n: rng.choice(_ITERATIONS if n == "T" else _EXTENTS) for n in kernel.front.checked.sizes}
            args = _arguments(kernel, sizes, numbers)
            if found := _of_call(made.source, made.results, kernel, args, marked=call % 2 == 0):
                return f"seed {seed} on {backend} {options} at {sizes}\n{made.source}\n{found}"
    return ""


def _arguments(kernel: tc.Kernel, sizes: dict[str, int], numbers: np.random.Generator) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for p in kernel.front.checked.params:
        shape = tuple(sizes[d.name] for d in p.dims)  # type: ignore[union-attr]
        low, high = (0, max(sizes[_SUBSCRIPTS[p.name]], 1)) if p.name in _SUBSCRIPTS else (-3, 4)
        found[p.name] = numbers.integers(low, high, shape).astype(p.declared.name)  # type: ignore[union-attr]
    return found


def _of_call(
    source: str, names: tuple[str, ...], kernel: tc.Kernel, args: dict[str, Any], *, marked: bool
) -> str:
    want, code = _run(lambda: tc.interpret(source, **args))
    if marked and not code:
        return _marked(names, kernel, args, want)
    found, other = _run(lambda: kernel(**args))
    if code != other:
        return f"tc.interpret {_ended(code)}, the kernel {_ended(other)}"
    return _compared(names, found, want)


def _marked(names: tuple[str, ...], kernel: tc.Kernel, args: dict[str, Any], want: tuple[Array, ...]) -> str:
    buffers = [np.full(w.size + 2 * _MARKS, _MARK, w.dtype) for w in want]
    out = tuple(b[_MARKS : _MARKS + w.size].reshape(w.shape) for b, w in zip(buffers, want, strict=True))
    given = out if len(out) > 1 else next(iter(out))
    _, code = _run(lambda: kernel(**args, out=given))
    if code:
        return f"tc.interpret ran, the kernel with out= {_ended(code)}"
    for name, b, w in zip(names, buffers, want, strict=True):
        if not ((b[:_MARKS] == _MARK).all() and (b[_MARKS + w.size :] == _MARK).all()):
            return f"the kernel wrote beside {name}"
    return _compared(names, out, want)


def _run(f: Callable[[], Any]) -> tuple[tuple[Array, ...], str]:
    """Results, or the code of the error."""
    try:
        found = f()
    except tc.Error as e:
        return (), str(e.code)
    return (found if isinstance(found, tuple) else (found,)), ""


def _ended(code: str) -> str:
    return f"raised {code}" if code else "ran"


def _compared(names: tuple[str, ...], found: tuple[Array, ...], want: tuple[Array, ...]) -> str:
    for name, a, w in zip(names, found, want, strict=False):
        if a.shape != w.shape:
            return f"{name} has the shape {a.shape} and not {w.shape}"
        if not np.array_equal(a, w):
            where: tuple[int, ...] = tuple(np.argwhere(a != w)[0].tolist())
            return f"{name}{list(where)} is {a[where]} and not {w[where]}"
    return ""


def main(argv: list[str] | None = None) -> int:
    return by_seeds.main(argv, "sizes", __doc__, lambda seed: program(seed).source, problem, ("cpu",))


if __name__ == "__main__":
    sys.exit(main())

"""What the command line's longer commands do: run a kernel, report on the machine, the demo."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from tc.errors import ArgumentError
from tc.ir.evaluate import evaluate
from tc.lang import resolved as r
from tc.runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]


# ---- run


def run_kernel(
    kernel: Any,
    sizes: Mapping[str, int],
    scalars: Mapping[str, int | float],
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    seed: int,
    check: bool,
) -> dict[str, Any]:
    """Run once on files or random data; the report is plain data."""
    files = {name: np.load(path, allow_pickle=False) for name, path in inputs.items()}
    arguments, buffers = make_arguments(kernel, sizes, scalars, files, seed)
    out = {name: b.copy() for name, b in buffers.items()} or None
    start = time.perf_counter()
    results = kernel(**arguments, out=out)
    compiled_at = time.perf_counter()
    out = {name: b.copy() for name, b in buffers.items()} or None
    again = time.perf_counter()
    results = kernel(**arguments, out=out)
    end = time.perf_counter()
    names = [x.name for x in kernel.front.checked.returns]
    values = dict(zip(names, [results] if len(names) == 1 else results, strict=True))
    for name, path in outputs.items():
        if name not in values:
            raise ArgumentError(f"there is no result '{name}'", code="TC0515", help="results: " + ", ".join(names))
        np.save(path, values[name])
    report: dict[str, Any] = {
        "results": {n: _describe(v) for n, v in values.items()},
        "backend": kernel.backend,
        "compile_ms": 1e3 * ((compiled_at - start) - (end - again)),
        "run_us": 1e6 * (end - again),
    }
    if check:
        report |= compare(kernel, arguments, buffers, values)
    return report


def make_arguments(
    kernel: Any,
    sizes: Mapping[str, int],
    scalars: Mapping[str, int | float],
    files: Mapping[str, Array],
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Arguments for a call, random where not given, and buffers for in/out results.

    Integers that are subscripts stay inside what they index; other numbers are small.
    """
    front = kernel.front
    rng = np.random.default_rng(seed)
    known = dict(sizes)
    for p in front.checked.params:
        if isinstance(p, r.Tensor) and p.name in files:
            for d, extent in zip(p.dims or (), files[p.name].shape, strict=False):
                if isinstance(d, r.Size):
                    known.setdefault(d.name, extent)
    missing = [n for n in front.checked.sizes if n not in known]
    if missing:
        raise ArgumentError(
            f"no value for the size {', '.join(missing)}", code="TC0513", help=f"--size {missing[0]}=…"
        )
    arguments: dict[str, Any] = {}
    for p in front.checked.params:
        if isinstance(p, r.ScalarParam):
            if p.name in scalars:
                arguments[p.name] = scalars[p.name]
            elif p.name in sizes:
                arguments[p.name] = sizes[p.name]
            else:
                arguments[p.name] = 1 if not p.dtype.is_float else 0.5
    structural = {n: int(v) for n, v in arguments.items() if n in front.specialized}
    ranges = kernel.ranges_for(structural)
    limits = _subscript_limits(front.checked, ranges, {**known, **structural})
    for p in front.checked.params:
        if isinstance(p, r.Tensor):
            shape = tuple(known[d.name] if isinstance(d, r.Size) else int(d.value) for d in p.dims or ())  # type: ignore[union-attr]
            dtype = front.typed.dtype(p)
            arguments[p.name] = files.get(p.name, None)
            if arguments[p.name] is None:
                arguments[p.name] = random_array(rng, shape, dtype, limits.get(p.name))
    shapes = kernel.output_shapes(**{n: known[n] for n in front.checked.sizes}, **structural)
    buffers = {
        x.name: random_array(rng, shapes[x.name], front.typed.dtype(x.tensor), None)
        for x in front.checked.returns
        if x.mode == "inout"
    }
    return arguments, buffers


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, limit: int | None) -> Array:
    """Small values of a type: exact in any order of summation when `limit` is None and the type floats."""
    if limit is not None:
        return rng.integers(0, max(1, limit), shape).astype(numpy_dtype(dtype))
    low = 0 if dtype.kind in ("uint", "bool") else -4
    return rng.integers(low, 2 if dtype.is_bool else 5, shape).astype(numpy_dtype(dtype))


def _subscript_limits(checked: r.Checked, ranges: Any, known: Mapping[str, int]) -> dict[str, int]:
    """The least extent that a parameter's elements subscript."""
    out: dict[str, int] = {}
    for st in checked.statements:
        for root in st.roots():
            for a in r.accesses(r.expand_lets(root, st)):
                for d, sub in enumerate(a.subscripts):
                    inner = [e for e in r.accesses(sub) if e.tensor.storage.role == "param"]
                    extent = evaluate(ranges.box(a.tensor)[d].extent, known)
                    for e in inner:
                        exact = sub if not isinstance(sub, r.Cast) else sub.operand
                        bound = extent if exact is e else max(1, extent // 2)
                        name = e.tensor.storage.name
                        out[name] = min(out.get(name, bound), bound)
    return out


def compare(
    kernel: Any, arguments: Mapping[str, Any], buffers: Mapping[str, Array], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Results against the oracle: equal where the data are small integers, else within rounding."""
    from tc.api import interpret

    expected = interpret(
        kernel.source, **arguments, entry=kernel.name, out=dict(buffers) or None, exact=True
    )
    names = list(values)
    worst, agrees = 0.0, True
    for name, want in zip(names, [expected] if len(names) == 1 else expected, strict=True):
        got = np.asarray(values[name]).astype(np.float64)
        want = np.asarray(want).astype(np.float64)
        if got.shape != want.shape:
            return {"agrees": False, "difference": f"{name} has shape {got.shape}, not {want.shape}"}
        if not got.size:
            continue
        bits = np.asarray(values[name]).dtype
        eps = float(np.finfo(bits).eps) if bits.kind == "f" else 0.0
        with np.errstate(all="ignore"):
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            gap = np.where(same, 0.0, np.abs(got - want) / np.maximum(np.abs(want), 1.0))
        gap = np.where(np.isnan(gap), np.inf, gap)
        worst = max(worst, float(gap.max()))
        agrees &= bool(gap.max() <= 64 * eps)
    return {"agrees": agrees, "difference": f"largest relative difference {worst:.3g}"}


def _describe(value: Any) -> dict[str, Any]:
    a = np.asarray(value)
    flat = a.reshape(-1)
    head = ", ".join(f"{v:.6g}" if a.dtype.kind == "f" else str(v) for v in flat[:4])
    return {
        "dtype": str(a.dtype),
        "shape": list(a.shape),
        "summary": f"[{head}{', …' if flat.size > 4 else ''}]",
    }


# ---- doctor


def diagnose() -> dict[str, Any]:
    """Versions, backends, and the command that installs what is missing."""
    from tc import __version__
    from tc.registry import availability, names

    packages = ["numpy", "halide", "islpy", "lark", "llvmlite", "torch", "jax", "pycuda", "pyopencl"]
    backends: dict[str, Any] = {}
    for name in names():
        state = availability(name)
        backends[name] = {"available": state.ok, "reason": state.reason, "remedy": state.remedy}
    return {
        "tc": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {p: _version(p) for p in packages},
        "backends": backends,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


# ---- demo

DEMOS: tuple[tuple[str, str, dict[str, int]], ...] = (
    (
        "matrix multiply",
        "def mm(float(M,K) A, float(K,N) B) -> (C) {\n  C(i,j) +=! A(i,k) * B(k,j)\n}\n",
        {"M": 64, "K": 48, "N": 32},
    ),
    (
        "the report's Figure 1: C comes from the caller",
        "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {\n"
        "  C(i,j) = b * C(i,j)               # initialization\n"
        "  C(i,j) += a * A(i,k) * B(k,j)     # accumulation\n}\n",
        {"N": 32, "M": 48, "K": 16},
    ),
    (
        "a convolution whose output extents are inferred",
        "def conv(float(N,C,H,W) I, float(F,C,KH,KW) W1) -> (O) {\n"
        "  O(n,f,h,w) +=! I(n,c,2*h+kh,2*w+kw) * W1(f,c,kh,kw)\n}\n",
        {"N": 2, "C": 3, "H": 17, "W": 17, "F": 4, "KH": 3, "KW": 3},
    ),
    (
        "soft-max, one temporary used twice",
        "def softmax(float(N,D) I) -> (O) {\n"
        "  tmp(n) max=! I(n,d)\n"
        "  O(n,d) = exp(I(n,d) - tmp(n))\n"
        "  tmp(n) +=! O(n,d)\n"
        "  O(n,d) = O(n,d) / tmp(n)\n}\n",
        {"N": 8, "D": 100},
    ),
    (
        "a look-up table: indices are checked when it runs",
        "def 1LUT(float(E,D) LUT, int(B,L) I) -> (O) {\n  O(b,d) +=! LUT(I(b,l), d)\n}\n",
        {"E": 1000, "D": 16, "B": 8, "L": 10},
    ),
)


def demo(backend: str) -> None:
    """Compile and run the demo programs, showing ranges, code and the oracle's verdict."""
    import warnings

    from tc.api import compile_source
    from tc.errors import Source
    from tc.errors import Warning as TcWarning

    out = sys.stdout
    for n, (title, source, sizes) in enumerate(DEMOS, 1):
        out.write(f"\n=== {n}. {title}\n\n{source}\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TcWarning)
            kernel = compile_source(Source(source, "<demo>"), backend)
        out.write("ranges\n")
        for name, dims in kernel.ranges.items():
            out.write(f"  {name}: {', '.join(str(d) for d in dims)}\n")
        for w in kernel.warnings:
            out.write(f"  note: {w.message}\n")
        if n == 1:
            out.write("\nschedule\n" + _indent(kernel.inspect("schedule", **sizes)))
            out.write("\nloops\n" + _indent(kernel.inspect("loops", **sizes)))
        arguments, buffers = make_arguments(kernel, sizes, {}, {})
        given = {k: v.copy() for k, v in buffers.items()} or None
        kernel(**arguments, out=given)
        given = {k: v.copy() for k, v in buffers.items()} or None
        start = time.perf_counter()
        result = kernel(**arguments, out=given)
        spent = time.perf_counter() - start
        names = [x.name for x in kernel.front.checked.returns]
        values = dict(zip(names, [result] if len(names) == 1 else result, strict=True))
        verdict = compare(kernel, arguments, buffers, values)
        shapes = ", ".join(f"{k}{tuple(np.shape(v))}" for k, v in values.items())
        out.write(
            f"\nresult {shapes} in {1e6 * spent:.0f} us on '{kernel.backend}'; the oracle "
            f"{'agrees' if verdict['agrees'] else 'DISAGREES'} ({verdict['difference']})\n"
        )


def _indent(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))

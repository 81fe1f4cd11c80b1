"""What the longer commands do: run a kernel, check a source, report on machine and cache, the demo."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tc.cli.data import arguments_of
from tc.cli.request import Request
from tc.errors import Error, Note, Source, Span, Warning
from tc.tuner.data import epsilon, to_float

Array = np.ndarray[Any, Any]


# ---- run


def run_kernel(kernel: Any, request: Request) -> dict[str, Any]:
    """Run on files or random data, once to compile and once to time; the report is plain data.

    `run_us` is the time of one call in microseconds, the copy of in/out buffers excluded; `compile_ms` what
    the first call took longer.  Raises what `tc.cli.data.arguments_of` does.
    """
    arguments, buffers = arguments_of(kernel, request)
    _, first = timed(kernel, arguments, buffers)
    values, seconds = timed(kernel, arguments, buffers)
    for name, path in request.outputs.items():
        with Path(path).open("wb") as f:
            np.save(f, values[name], allow_pickle=False)
    report: dict[str, Any] = {
        "results": {n: _describe(v) for n, v in values.items()},
        "backend": kernel.backend,
        "compile_ms": 1e3 * max(0.0, first - seconds),
        "run_us": 1e6 * seconds,
    }
    if request.check:
        report |= compare(kernel, arguments, buffers, values)
    return report


def timed(
    kernel: Any, arguments: Mapping[str, Any], buffers: Mapping[str, Array]
) -> tuple[dict[str, Any], float]:
    """The results of a call by name, and its seconds; in/out results start from copies of `buffers`."""
    out = {name: b.copy() for name, b in buffers.items()} or None
    start = time.perf_counter()
    results = kernel(**arguments, out=out)
    spent = time.perf_counter() - start
    names = [x.name for x in kernel.front.checked.returns]
    return dict(zip(names, [results] if len(names) == 1 else results, strict=True)), spent


def compare(
    kernel: Any, arguments: Mapping[str, Any], buffers: Mapping[str, Array], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Results against the oracle: integers equal, floats within 64 eps of max(1, |value|)."""
    from tc.api import interpret

    lang = kernel.front.lang
    entry = kernel.name if lang == "tc" or kernel.front.syntax.bare is None else None
    out = dict(buffers) or None
    expected = interpret(kernel.source, **arguments, entry=entry, out=out, exact=True, lang=lang)
    returns = kernel.front.checked.returns
    worst, agrees = 0.0, True
    for x, want in zip(returns, [expected] if len(returns) == 1 else expected, strict=True):
        dtype = kernel.front.typed.dtype(x.tensor)
        got = np.asarray(values[x.name])
        want = np.asarray(want)
        if got.shape != want.shape:
            return {"agrees": False, "difference": f"{x.name} has shape {got.shape}, not {want.shape}"}
        if not (dtype.is_float or dtype.is_complex):
            if not np.array_equal(got, want):
                return {"agrees": False, "difference": f"{x.name} differs in {np.sum(got != want)} elements"}
            continue
        if not got.size:
            continue
        found = to_float(got, dtype)
        with np.errstate(all="ignore"):
            same = (found == want) | (np.isnan(found) & np.isnan(want))
            gap = np.where(same, 0.0, np.abs(found - want) / np.maximum(np.abs(want), 1.0))
        gap = np.where(np.isnan(gap), np.inf, gap)
        worst = max(worst, float(gap.max()))
        agrees &= bool(gap.max() <= 64 * epsilon(dtype.part))
    return {"agrees": agrees, "difference": f"largest relative difference {worst:.3g}"}


def _describe(value: Any) -> dict[str, Any]:
    a = np.asarray(value)
    flat = a.reshape(-1)
    head = ", ".join(f"{v:.6g}" if a.dtype.kind in "fc" else str(v) for v in flat[:4])
    return {
        "dtype": str(a.dtype),
        "shape": list(a.shape),
        "summary": f"[{head}{', …' if flat.size > 4 else ''}]",
    }


# ---- check


def check_source(source: Source) -> tuple[list[str], list[Error | Warning]]:
    """The names of a source's defs, and the diagnostics of all of them, in the order of the text.

    A def with an error hides those that call it, directly or not, and no others.  Of a SaC source the
    functions that declare all ranks are checked whole, the others as texts.
    """
    if source.name.endswith(".sac"):
        return _check_sac(source)
    from tc.lang.parse import parse
    from tc.lang.type_variables import representative
    from tc.pipeline import front as pipeline

    try:
        defs = parse(source).defs
    except Error as e:
        return [], [e]
    names = list(dict.fromkeys(d.name for d in defs))
    variables = {d.name: d.variables for d in reversed(defs)}
    called = {n: {m for d in defs if d.name == n for m in _names(d.span.text)} for n in names}
    bad: set[str] = set()
    found: list[Error | Warning] = []
    entries = list(names)
    while entries:
        # Blanks keep every place where it is in the text.
        text = source.text
        for d in defs:
            if d.name in bad:
                text = text[: d.span.start] + re.sub(r"[^\n]", " ", d.span.text) + text[d.span.end :]
        entry = entries.pop(0)
        if entry in bad:
            continue
        try:
            known = tuple((n, 0, t) for n, t in representative(variables[entry]).items())
            front = pipeline.front(Source(text, source.name), entry, known=known)
            found += front.warnings
            if front.ranges.complete and not front.specialized:
                pipeline.build(front, pipeline.Variant())
        except Error as e:
            found.append(e)
            at = e.span.start if e.span is not None else -1
            inside = {d.name for d in defs if d.span.start <= at < d.span.end} or {entry}
            while inside:
                bad |= inside
                inside = {n for n in names if n not in bad and called[n] & bad}
            # What came before an error in another def has to be seen again without it.
            entries = [n for n in names if n not in bad]
    original = [_relocated(d, source) for d in found]
    unique = list({str(d): d for d in original}.values())
    return names, sorted(unique, key=lambda d: d.span.start if d.span is not None else -1)


def _check_sac(source: Source) -> tuple[list[str], list[Error | Warning]]:
    from tc.lang.sac.parse import parse
    from tc.lang.sac.program import signature_of
    from tc.pipeline import front as pipeline

    try:
        syntax = parse(source)
    except Error as e:
        return [], [e]
    names = list(dict.fromkeys(f.name for f in syntax.functions)) or ["expression"]
    found: list[Error | Warning] = []
    for entry in names if syntax.functions else [None]:
        try:
            parameters = signature_of(syntax, entry)
            if all(p.rank is not None and p.dtype is not None for p in parameters):
                front = pipeline.front(source, entry, "sac")
                found += front.warnings
                pipeline.build(front, pipeline.Variant())
        except Error as e:
            found.append(e)
    unique = list({str(d): d for d in found}.values())
    return names, sorted(unique, key=lambda d: d.span.start if d.span is not None else -1)


def _names(text: str) -> set[str]:
    return set(re.findall(r"[_a-zA-Z0-9]+", text))


def _relocated(d: Error | Warning, source: Source) -> Error | Warning:
    """A diagnostic of a partly blanked source, shown in the whole one."""

    def place(span: Span | None) -> Span | None:
        return span and Span(source, span.start, span.end)

    notes = [Note(n.message, place(n.span)) for n in d.notes]
    if isinstance(d, Error):
        return type(d)(d.message, place(d.span), code=d.code, help=d.help, notes=notes)
    return type(d)(d.message, place(d.span), help=d.help, notes=notes)


# ---- doctor


def diagnose() -> dict[str, Any]:
    """Versions, backends, and the command that installs what is missing."""
    from tc import __version__
    from tc.pipeline.devices import HasDevices
    from tc.registry import availability, load, names

    cuda = ["cupy", "cuda-bindings", "nvidia-cuda-nvrtc-cu12", "pycuda"]
    packages = ["numpy", "halide", "islpy", "lark", "llvmlite", "torch", "jax", *cuda, "pyopencl"]
    backends: dict[str, Any] = {}
    for name in names():
        state = availability(name)
        backends[name] = {
            "available": state.ok,
            "compiles": state.ok or state.compiles,
            "reason": state.reason,
            "remedy": state.remedy,
        }
        backend = load(name) if state.ok or state.compiles else None
        if isinstance(backend, HasDevices):
            backends[name]["devices"] = backend.devices.describe()
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


# ---- cache


def kept_kernels(*, clear: bool = False) -> dict[str, Any]:
    """Where compiled kernels are kept on disk and how many, sizes in bytes; also with the setting off.

    `clear` removes them first and says how many there were.
    """
    from tc.cache.disk import Store
    from tc.support import settings

    store = Store(settings.cache_directory(), settings.cache_limit())
    removed = {"removed": store.clear()} if clear else {}
    entries = store.entries()
    return {
        "directory": str(store.directory),
        "on": settings.cache(),
        "kernels": len(entries),
        "bytes": sum(e.size for e in entries),
        "limit": store.limit,
        **removed,
    }

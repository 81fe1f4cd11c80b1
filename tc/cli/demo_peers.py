"""The demo's race: programs beside NumPy and PyTorch, a process each, as a table and a bar chart.

    python -m tc.cli.demo_peers LIBRARY BACKEND

is a contestant.
"""

from __future__ import annotations

import pickle
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tc.cli import bench_report, bench_worker
from tc.cli.bench_run import difference
from tc.cli.data import normal
from tc.errors import BackendError, Source
from tc.support.contestants import Contestant, answer, in_turns, serve
from tc.tuner.data import make_arguments

_ROUNDS, _BUDGET = 7, 0.02  # seconds of calls in a turn
COLOURS = {"tc": "#c44e52", "numpy": "#8c8c8c", "torch": "#4c72b0"}


@dataclass(frozen=True, slots=True)
class Program:
    """A program, its sizes, and its spelling in other libraries."""

    title: str
    source: str
    sizes: Mapping[str, int]
    numpy: str
    torch: str

    def spelling(self, library: str) -> str:
        return {"tc": "", "numpy": self.numpy, "torch": self.torch}[library]


PROGRAMS = (
    Program(
        "matrix product",
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        {"M": 512, "K": 512, "N": 512},
        "A @ B",
        "A @ B",
    ),
    Program(
        "linear, bias, ReLU",
        """def f(float(B,I) x, float(O,I) w, float(O) b) -> (y) {
          y(n,o) = b(o)
          y(n,o) += x(n,i) * w(o,i)
          y(n,o) = fmax(y(n,o), 0)
        }""",
        {"B": 128, "I": 1024, "O": 256},
        "np.maximum(x @ w.T + b, 0)",
        "F.relu(F.linear(x, w, b))",
    ),
    Program(
        "soft-max",
        """def f(float(N,D) x) -> (y) {
          m(n) max=! x(n,d)
          y(n,d) = exp(x(n,d) - m(n))
          s(n) +=! y(n,d)
          y(n,d) = y(n,d) / s(n)
        }""",
        {"N": 1024, "D": 512},
        "(lambda e: e / e.sum(1, keepdims=True))(np.exp(x - x.max(1, keepdims=True)))",
        "F.softmax(x, 1)",
    ),
    Program(
        "layer norm",
        """def f(float(N,D) x, float(D) g, float(D) b) -> (y) {
          m(n) +=! x(n,d) / D
          v(n) +=! (x(n,d) - m(n)) * (x(n,d) - m(n)) / D
          y(n,d) = (x(n,d) - m(n)) * rsqrt(v(n) + 1e-5) * g(d) + b(d)
        }""",
        {"N": 1024, "D": 512},
        "(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b",
        "F.layer_norm(x, g.shape, g, b)",
    ),
    Program(
        "convolution 3×3",
        "def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) { O(n,f,h,w) +=! I(n,c,h+i,w+j) * K(f,c,i,j) }",
        {"N": 2, "C": 32, "H": 34, "W": 34, "F": 64, "KH": 3, "KW": 3},
        "np.einsum('nchwij,fcij->nfhw', np.lib.stride_tricks.sliding_window_view(I, K.shape[2:], (2, 3)), K, "
        "optimize=True)",
        "F.conv2d(I, K)",
    ),
    Program(
        "attention",
        """def f(float(H,Q,D) q, float(H,S,D) k, float(H,S,D) v) -> (y) {
          a(h,i,j) +=! q(h,i,d) * k(h,j,d)
          a(h,i,j) = a(h,i,j) / sqrt(float(D))
          m(h,i) max=! a(h,i,j)
          e(h,i,j) = exp(a(h,i,j) - m(h,i))
          s(h,i) +=! e(h,i,j)
          y(h,i,d) +=! e(h,i,j) * v(h,j,d)
          y(h,i,d) = y(h,i,d) / s(h,i)
        }""",
        {"H": 8, "Q": 256, "S": 256, "D": 64},
        "(lambda a: (lambda e: (e / e.sum(2, keepdims=True)) @ v)(np.exp(a - a.max(2, keepdims=True))))"
        "(q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(q.shape[2])))",
        "F.scaled_dot_product_attention(q, k, v)",
    ),
    Program(
        "heat, a step",
        """def f(float(H,W) x) -> (y) {
          y(i,j) = x(i,j) + 0.2 * (x(i-1,j) + x(i+1,j) + x(i,j-1) + x(i,j+1) - 4 * x(i,j))
        }""",
        {"H": 1024, "W": 1024},
        "x[1:-1,1:-1] + 0.2 * (x[:-2,1:-1] + x[2:,1:-1] + x[1:-1,:-2] + x[1:-1,2:] - 4 * x[1:-1,1:-1])",
        "x[1:-1,1:-1] + 0.2 * (x[:-2,1:-1] + x[2:,1:-1] + x[1:-1,:-2] + x[1:-1,2:] - 4 * x[1:-1,1:-1])",
    ),
)


def work(library: str, backend: str) -> None:
    """Serve as the contestant of a library, with a call for each program."""
    from tc.api import compile_source

    calls: dict[str, Callable[[], Any]] = {}
    found: list[list[Any]] = []
    with bench_worker.without_gradients(library):
        for p in PROGRAMS:
            kernel = compile_source(
                Source(p.source, "<demo>"), (backend or None) if library == "tc" else None
            )
            arguments, buffers = make_arguments(kernel, p.sizes, {}, {})
            arguments, buffers = normal(kernel, {}, 0, arguments, buffers)
            call, results = bench_worker.contestant(library, p.spelling(library), kernel, arguments, buffers)
            calls[p.title] = call
            found.append(results())

        def save(file: str) -> None:
            with Path(file).open("wb") as f:
                pickle.dump(found, f)

        serve(calls, save)


def peers(backend: str | None, folder: Path) -> bool:
    """Time the programs in turn, print a table and draw a bar chart; whether all results agree.

    Without PyTorch or matplotlib it says so, and goes on with what there is.
    """
    from tc._native import get_num_threads

    threads = get_num_threads()
    libraries = ["tc", "numpy", *(["torch"] if find_spec("torch") else [])]
    out = sys.stdout
    out.write(
        f"\n=== beside {' and '.join(libraries[1:])}: {threads} threads, {_ROUNDS} rounds, in turns\n\n"
    )
    out.flush()
    if "torch" not in libraries:
        out.write("left out: PyTorch is not installed; pip install 'tensor-comprehensions[demo]'\n")
    contestants: dict[str, Contestant] = {}
    try:
        for n in libraries:
            command = ["-m", "tc.cli.demo_peers", n, backend or ""]
            contestants[n] = Contestant(command, threads)
        for c in contestants.values():
            c.wait()
        wrong = _wrong(contestants)
        with bench_report.progress(len(PROGRAMS) * _ROUNDS * len(libraries)) as done:
            times = in_turns(contestants, [p.title for p in PROGRAMS], _ROUNDS, _BUDGET, done)
    finally:
        for c in contestants.values():
            c.close()
    medians = {t: {n: statistics.median(s) for n, s in row.items()} for t, row in times.items()}
    out.write(table(medians, libraries) + "\n")
    for line in wrong:
        out.write(f"DISAGREES: {line}\n")
    try:
        draw(medians, libraries, folder / "peers.png")
        out.write(f"chart: {folder / 'peers.png'}\n")
    except BackendError as e:
        out.write(f"no chart: {e.message}; {e.help}\n")
    return not wrong


def _wrong(contestants: Mapping[str, Contestant]) -> list[str]:
    """Which results differ from ours, and how."""
    from tc.dtypes import FLOAT32

    found: dict[str, list[list[Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="tc-demo-") as folder:
        for n, c in contestants.items():
            file = Path(folder, n)
            c.ask(file=str(file))
            with file.open("rb") as f:
                found[n] = pickle.load(f)
    return [
        f"{p.title}: {n} {problem}"
        for n in found
        for p, ours, theirs in zip(PROGRAMS, found["tc"], found[n], strict=True)
        if (problem := difference(ours[0], theirs[0], FLOAT32))
    ]


def table(medians: Mapping[str, Mapping[str, float]], libraries: Sequence[str]) -> str:
    """Microseconds of each program and library, and how many times as long as tc the others take."""
    lines = [["us a call, median", *libraries, *(f"{n} / tc" for n in libraries[1:])]]
    for title, row in medians.items():
        ratios = [f"{row[n] / row['tc']:.2f}" for n in libraries[1:]]
        lines.append([title, *(f"{1e6 * row[n]:.1f}" for n in libraries), *ratios])
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def draw(medians: Mapping[str, Mapping[str, float]], libraries: Sequence[str], path: Path) -> None:
    """A bar chart of speeds relative to NumPy; BackendError TC0822 without matplotlib."""
    figure = bench_report.new_figure((9, 4))
    axes = figure.subplots()
    width = 0.8 / len(libraries)
    for k, n in enumerate(libraries):
        heights = [row["numpy"] / row[n] for row in medians.values()]
        bars = axes.bar(
            [at + k * width for at in range(len(medians))], heights, width, label=n, color=COLOURS[n]
        )
        axes.bar_label(bars, fmt="{:.1f}", fontsize=7)
    middle = width * (len(libraries) - 1) / 2
    axes.set_xticks([at + middle for at in range(len(medians))], list(medians), rotation=15)
    axes.set(ylabel="times as fast as NumPy", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.stdout = sys.stderr
    try:
        work(*sys.argv[1:])
    except Exception as e:
        answer({"error": f"{type(e).__name__}: {e}"})

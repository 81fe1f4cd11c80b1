"""A contestant of `python -m tc bench`: the kernel, or an expression of another library.

    python -m tc.cli.bench_worker FOLDER LIBRARY EXPRESSION

The folder holds `arguments`, `buffers` of in/out results and, of the library "tc", the `kernel`, pickled.
"""

from __future__ import annotations

import importlib
import keyword
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np

from tc.cli.bench import NAMESPACES
from tc.support.contestants import answer, serve
from tc.tuner.data import to_float


class Spelling:
    """An expression of a library, ready to call."""

    def __init__(self, library: str, expression: str, arguments: Mapping[str, Any]) -> None:
        self.library = library
        names = [n for n in arguments if n.isidentifier() and not keyword.iskeyword(n)]
        modules = {n: importlib.import_module(m) for n, m in NAMESPACES[library].items()}
        spelled = "".join(f"{n}, " for n in names)
        self.call: Callable[..., Any] = eval(f"lambda {spelled}: (\n{expression}\n)", dict(modules))
        self.torch: Any = importlib.import_module("torch") if library != "numpy" else None
        if library == "inductor":
            self.call = self.torch.compile(self.call)
        self.values = [self._own(arguments[n]) for n in names]

    def _own(self, value: Any) -> Any:
        """A value as the library has it."""
        if self.torch is None or not hasattr(value, "dtype"):
            return value
        if str(value.dtype) == "bfloat16":
            return self.torch.from_numpy(value.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(value)

    def __call__(self) -> Any:
        return self.call(*self.values)

    def results(self) -> list[Any]:
        """The results as arrays of NumPy, 16-bit floats as float32."""
        found = self()
        several = cast("Sequence[Any]", found if isinstance(found, (tuple, list)) else (found,))
        return [self._array(x) for x in several]

    def _array(self, x: Any) -> Any:
        if self.torch is not None and isinstance(x, self.torch.Tensor):
            x = x.detach().resolve_conj().resolve_neg()
            x = (x.float() if x.dtype == self.torch.bfloat16 else x).numpy()
        return np.asarray(x)


def _load(folder: str, name: str) -> Any:
    with Path(folder, name).open("rb") as f:
        return pickle.load(f)


def contestant(
    library: str, expression: str, kernel: Any, arguments: Mapping[str, Any], buffers: Mapping[str, Any]
) -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """What is timed, and what gives the results as arrays of NumPy: of the kernel if the library is "tc"."""
    if library != "tc":
        spelling = Spelling(library, expression, {**arguments, **buffers})
        return spelling, spelling.results
    out = {n: b.copy() for n, b in buffers.items()} or None
    values = tuple(arguments.values())
    returns = kernel.front.checked.returns
    types = [kernel.front.typed.dtype(x.tensor) for x in returns]

    def call() -> Any:
        return kernel(*values, out=out) if out else kernel(*values)

    def results() -> list[Any]:
        found = kernel(*values, out={n: b.copy() for n, b in buffers.items()} or None)
        several = [found] if len(returns) == 1 else list(found)
        arrays = [np.asarray(x) for x in several]
        return [to_float(x, t) if t.is_float else x for x, t in zip(arrays, types, strict=True)]

    return call, results


def main(folder: str, library: str, expression: str) -> None:
    """Serve as the contestant of a folder."""
    kernel = _load(folder, "kernel") if library == "tc" else None
    with without_gradients(library):
        call, results = contestant(
            library, expression, kernel, _load(folder, "arguments"), _load(folder, "buffers")
        )
        found = results()

        def save(file: str) -> None:
            with Path(file).open("wb") as f:
                pickle.dump(found, f)

        serve({"call": call}, save)


def without_gradients(library: str) -> Any:
    """The context in which spellings of a library run."""
    return nullcontext() if library in ("tc", "numpy") else importlib.import_module("torch").no_grad()


if __name__ == "__main__":
    sys.stdout = sys.stderr  # for whatever prints; stdout is for answers
    try:
        main(*sys.argv[1:])
    except Exception as e:
        said = str(e).strip().splitlines() or [""]
        answer({"error": f"{type(e).__name__}: {said[0]}"})

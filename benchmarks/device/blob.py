"""Compiled programs in one file: a manifest, machine code, and for some the arguments and what is wanted.

The file is a zip archive: `manifest.jsonl` has a line for each `Blob`, `images/` their machine code,
`texts/` their CUDA C++, `data/` arrays.  Reading it takes numpy alone.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

Tensor = np.ndarray[Any, Any]


def dtype_of(name: str) -> np.dtype[Any]:
    """A type by its name; bfloat16 is one of ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


@dataclass(frozen=True, slots=True)
class Array:
    """A parameter or a result; `role`: "input", "output", or "inout" for a result that is read, too."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * dtype_of(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and how it is launched; `shared` are the bytes of dynamic shared memory that are asked for.

    `arguments` are pairs of a kind and a name, as of `tc.codegen.gpu_module.Argument`.  `seconds` is the
    predicted time, `bound` what the prediction says it waits for; `registers`, `static_shared` and `stack`
    are the assembler's.
    """

    name: str
    blocks: int
    threads: int
    shared: int
    arguments: tuple[tuple[str, str], ...]
    seconds: float = 0.0
    bound: str = ""
    registers: int = 0
    static_shared: int = 0
    stack: int = 0


@dataclass(frozen=True, slots=True)
class Blob:
    """A program for given sizes.

    `key` is unique.  `phase`: "conformance" or "timing".  `group` and `program` say what it is; `map` which
    of the candidate maps, 0 for the one that the compiler takes.  `scalars` are pairs of a type and a value
    as hexadecimal digits of its bytes.  `fails`: whether a check must fail.  `workload` is the key of a
    workload (`benchmarks.workloads.find`), whose arrays are made where it runs.
    """

    key: str
    phase: str
    group: str
    program: str
    launches: tuple[Launch, ...]
    arrays: tuple[Array, ...]
    scalars: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    workspace: int = 0
    fails: bool = False
    workload: str = ""
    map: int = 0
    map_name: str = ""

    @property
    def outputs(self) -> tuple[Array, ...]:
        return tuple(a for a in self.arrays if a.role != "input")

    @property
    def seconds(self) -> float:
        """Predicted."""
        return sum(x.seconds for x in self.launches)

    @staticmethod
    def of(line: Mapping[str, Any]) -> Blob:
        launches = tuple(
            Launch(**{**x, "arguments": tuple((k, n) for k, n in x["arguments"])}) for x in line["launches"]
        )
        arrays = tuple(Array(**{**x, "shape": tuple(x["shape"])}) for x in line["arrays"])
        scalars = {n: (t, bits) for n, (t, bits) in line["scalars"].items()}
        return Blob(**{**line, "launches": launches, "arrays": arrays, "scalars": scalars})


@dataclass(frozen=True, slots=True)
class Data:
    """Arguments of a blob, those of bfloat16 as their bits; of each result what is wanted, and how far an
    element may be off, in float64 and infinite where nothing is known."""

    inputs: Mapping[str, Tensor]
    wanted: Mapping[str, Tensor]
    allowed: Mapping[str, Tensor]


class Writer:
    """Writes a pack; a context manager."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._blobs: list[Blob] = []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        lines = "".join(json.dumps(asdict(b)) + "\n" for b in self._blobs)
        self._zip.writestr("manifest.jsonl", lines)
        self._zip.close()

    def add(self, blob: Blob, image: bytes, text: str, data: Data | None = None) -> None:
        assert blob.key not in {b.key for b in self._blobs}, blob.key
        self._blobs.append(blob)
        self._zip.writestr(f"images/{blob.key}", image)
        self._zip.writestr(f"texts/{blob.key}", text)
        if data is not None:
            held = io.BytesIO()
            fields = {"inputs": data.inputs, "wanted": data.wanted, "allowed": data.allowed}
            named: dict[str, Any] = {f"{k}.{n}": a for k, x in fields.items() for n, a in x.items()}
            np.savez(held, **named)
            self._zip.writestr(f"data/{blob.key}", held.getvalue())


class Pack:
    """A pack that was written."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)

    @cached_property
    def blobs(self) -> tuple[Blob, ...]:
        lines = self._zip.read("manifest.jsonl").decode().splitlines()
        return tuple(Blob.of(json.loads(line)) for line in lines)

    def of_phase(self, phase: str) -> Iterator[Blob]:
        return (b for b in self.blobs if b.phase == phase)

    def image(self, blob: Blob) -> bytes:
        return self._zip.read(f"images/{blob.key}")

    def text(self, blob: Blob) -> str:
        return self._zip.read(f"texts/{blob.key}").decode()

    def data(self, blob: Blob) -> Data:
        found: dict[str, dict[str, Tensor]] = {"inputs": {}, "wanted": {}, "allowed": {}}
        with np.load(io.BytesIO(self._zip.read(f"data/{blob.key}"))) as arrays:
            for key in arrays.files:
                kind, _, name = key.partition(".")
                found[kind][name] = arrays[key]
        return Data(**found)


def wrong(data: Data, name: str, got: Tensor) -> str | None:
    """What is wrong with a result, or None."""
    want, allowed = data.wanted[name], data.allowed[name]
    if got.shape != want.shape:
        return f"{name} has the shape {got.shape}, not {want.shape}"
    if not got.size:
        return None
    if got.dtype.kind in "iub":
        bad = (got != want) & (allowed <= 0)
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (g == w) | (np.isnan(g) & np.isnan(w)) | np.isinf(allowed)
            bad = ~(same | (np.abs(g - w) <= allowed))
    if not bad.any():
        return None
    first = tuple(int(n) for n in np.argwhere(bad)[0]) if got.ndim else ()
    return f"{name}{list(first)} is {got[first]}, not {want[first]}; {int(bad.sum())} of {got.size} are wrong"

"""The data of a run: arrays of files, and what is drawn where there are none."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tc.cli.request import DATA, Request, check_names
from tc.errors import ArgumentError, did_you_mean
from tc.lang import resolved as r
from tc.tuner.data import make_arguments

Array = np.ndarray[Any, Any]


def arguments_of(kernel: Any, request: Request) -> tuple[dict[str, Any], dict[str, Array]]:
    """The arguments of a call, and buffers for results that need them: from files, else drawn.

    ArgumentError: TC0513 for sizes and scalars that are missing or unknown, TC0515 for other names, TC0516
    for files that cannot be read.
    """
    check_names(kernel, request)
    files, scalars = _archive(kernel, request)
    check_names(kernel, replace(request, scalars=scalars, inputs=dict.fromkeys(files, "")))
    files |= {name: load_array(path) for name, path in request.inputs.items()}
    scalars |= request.scalars
    made = make_arguments(kernel, request.sizes, scalars, files, request.seed, request.dtypes, request.given)
    return normal(kernel, files, request.seed, *made) if request.data == "normal" else made


def normal(
    kernel: Any, files: Mapping[str, Any], seed: int, arguments: dict[str, Any], buffers: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same arguments with normally distributed floats where no file is given."""
    rng: Any = np.random.default_rng(seed)
    front = kernel.front
    tensors = [p for p in front.checked.params if isinstance(p, r.Tensor)]
    types = {p.name: front.typed.dtype(p) for p in tensors}
    types |= {x.name: front.typed.dtype(x.tensor) for x in front.checked.returns}

    def drawn(given: dict[str, Any]) -> dict[str, Any]:
        def one(v: Any) -> Any:
            return rng.standard_normal(v.shape).astype(v.dtype)

        return {
            n: one(v)
            if n in types and n not in files and types[n].kind in ("float", "bfloat") and v.dtype != np.uint16
            else v
            for n, v in given.items()
        }

    return drawn(arguments), drawn(buffers)


def load_array(path: str) -> Array:
    """An array from a .npy file; ArgumentError TC0516 where it holds none."""
    try:
        with Path(path).open("rb") as f:
            return np.lib.format.read_array(f, allow_pickle=False)
    except (ValueError, EOFError) as e:
        raise ArgumentError(
            f"{path} is not a .npy file of numbers: {e}",
            code="TC0516",
            help="write it with np.save(path, array)",
        ) from None


def _archive(kernel: Any, request: Request) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and scalars of `--data FILE.npz`."""
    path = request.data
    if path in DATA:
        return {}, {}
    if not path.endswith(".npz"):
        raise ArgumentError(
            f"--data {path}: it is {' or '.join(DATA)}, or a .npz file",
            code="TC0515",
            help="a .npy file is of one array: --input NAME=FILE.npy"
            if path.endswith(".npy")
            else did_you_mean(path, DATA) or "write a file with np.savez(path, A=…, B=…)",
        )
    scalars = {p.name for p in kernel.front.checked.params if isinstance(p, r.ScalarParam)}
    try:
        with Path(path).open("rb") as f, zipfile.ZipFile(f) as z:
            members = [m for m in z.namelist() if m.endswith(".npy")]
            found = {
                m.removesuffix(".npy"): np.lib.format.read_array(z.open(m), allow_pickle=False)
                for m in members
            }
    except (ValueError, EOFError, zipfile.BadZipFile) as e:
        raise ArgumentError(
            f"{path} is not a .npz file of numbers: {e}",
            code="TC0516",
            help="write it with np.savez(path, A=…, B=…)",
        ) from None
    numbers = {n: v.item() for n, v in found.items() if n in scalars and v.size == 1}
    return {n: v for n, v in found.items() if n not in numbers}, numbers

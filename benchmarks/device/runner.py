"""A program of a pack on a device: loaded, given arrays, launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.device.blob import Array, Blob, Data, Tensor, dtype_of, wrong

ERROR_WORDS = 32  # of 8 bytes, as of tc.codegen.numerics
# Bytes that results and scratch memory hold before a run; what is read of them shows.
POISON = (0xFF, 0x7E)


class Program:
    """The functions of a blob on a device; use it inside `driver.entered()`."""

    def __init__(self, driver: Any, blob: Blob, image: bytes) -> None:
        self.driver, self.blob = driver, blob
        module = driver.load(image)
        self.functions = [driver.function(module, x.name, x.shared) for x in blob.launches]
        kinds = {kind for x in blob.launches for kind, _ in x.arguments}
        self.own: dict[str, Any] = {}  # memory besides arrays, by kind of argument
        if "workspace" in kinds:
            self.own["workspace"] = driver.allocate(max(1, blob.workspace))
        if "error" in kinds:
            self.own["error"] = driver.allocate(8 * ERROR_WORDS)
            driver.fill(self.own["error"], 0, 8 * ERROR_WORDS)

    def close(self) -> None:
        for buffer in self.own.values():
            self.driver.free(buffer)

    def arguments(self, pointers: Mapping[str, Any]) -> list[list[Any]]:
        """The arguments of each launch; `pointers` are the buffers of arrays by name."""
        blob = self.blob

        def value(kind: str, name: str) -> Any:
            match kind:
                case "array":
                    return pointers[name]
                case "scalar":
                    dtype, bits = blob.scalars[name]
                    kind_of = dtype_of(dtype)
                    raw = np.frombuffer(bytes.fromhex(bits), np.uint8)
                    narrow = kind_of.itemsize <= 2 or kind_of.kind == "b"
                    return raw.view(f"u{kind_of.itemsize}" if narrow else kind_of)[0]
                case "size":
                    return np.int64(blob.sizes[name])
                case _:
                    return self.own[kind]

        return [[value(*a) for a in x.arguments] for x in blob.launches]

    def launch(self, arguments: list[list[Any]], stream: int = 0) -> None:
        for x, f, given in zip(self.blob.launches, self.functions, arguments, strict=True):
            self.driver.launch(f, given, x.blocks, x.threads, x.shared, stream)

    def failed(self) -> Tensor:
        """The record of failed checks; zeros if there is none."""
        record = np.zeros(ERROR_WORDS, np.int64)
        if "error" in self.own:
            self.driver.download(record.view(np.uint8), self.own["error"])
        return record


def as_bytes(a: Tensor) -> Tensor:
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)


def buffer_of(driver: Any, array: Array, content: Tensor | None, poison: int) -> Any:
    """A device buffer with the content of an array, or poisoned."""
    size = max(1, array.nbytes)
    made = driver.allocate(size)
    if content is None:
        driver.fill(made, poison, size)
    elif content.size:
        driver.upload(made, as_bytes(content))
    return made


def results(driver: Any, blob: Blob, image: bytes, data: Data, poison: int) -> dict[str, Tensor] | Tensor:
    """The results of a blob for its arguments, or the record of the check that fails."""
    program = Program(driver, blob, image)
    if "workspace" in program.own:
        driver.fill(program.own["workspace"], poison, max(1, blob.workspace))
    buffers = {a.name: buffer_of(driver, a, data.inputs.get(a.name), poison) for a in blob.arrays}
    program.launch(program.arguments(buffers))
    driver.synchronize()
    record = program.failed()
    found: dict[str, Tensor] = {}
    for a in blob.outputs:
        held = np.empty(max(1, a.nbytes), np.uint8)
        driver.download(held, buffers[a.name])
        found[a.name] = held[: a.nbytes].view(dtype_of(a.dtype)).reshape(a.shape)
    for buffer in buffers.values():
        driver.free(buffer)
    program.close()
    return record if record[0] else found


def verdict(driver: Any, blob: Blob, image: bytes, data: Data) -> str | None:
    """What is wrong with two runs of a blob with its arguments, or None."""
    before: dict[str, Tensor] | None = None
    for poison in POISON:
        found = results(driver, blob, image, data, poison)
        if isinstance(found, np.ndarray):
            if not blob.fails:
                return f"check {int(found[0]) - 1} fails: {found[: 4 + int(found[2])].tolist()}"
            continue
        if blob.fails:
            return "no check fails"
        for name, got in found.items():
            what = wrong(data, name, got)
            if what:
                return what
        if before is not None and any(before[n].tobytes() != got.tobytes() for n, got in found.items()):
            return "two runs differ"
        before = found
    return None

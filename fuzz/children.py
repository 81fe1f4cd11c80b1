"""Processes that a clean one forks, some of them with a compiler that is not quite ours.

The parent may import what the compiler needs of others; what is to be changed it must not have imported.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import pickle
import select
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tc", "tc_backends")


# A module with another text.


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads a module whose text is another than that of its file."""

    text: str

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        Finder.used = True
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, one file with another text; to be put first on `sys.meta_path`."""

    used = False

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text = file.resolve(), text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        others = (f for f in sys.meta_path if f is not self)
        spec = next((s for f in others if (s := f.find_spec(fullname, path, target)) is not None), None)
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == self.file:
            spec.loader = loader = _Changed(fullname, spec.origin)
            loader.text = self.text
        return spec


def warm_up() -> None:
    """Make a parser, which takes long, and imports nothing of the compiler that decides over code."""
    importlib.import_module("tc.lang.parse").parse("def f(float(N) A) -> (B) { B(i) = A(i) }")


# Children that do one thing each.


@dataclass(frozen=True)
class Ended:
    """How a child ended that gave no answer."""

    how: str


@dataclass
class _Child:
    number: int
    pid: int
    end: float
    data: bytearray = field(default_factory=bytearray)


def forked(
    work: Callable[[int], object], count: int, seconds: Callable[[int], float], jobs: int = 1
) -> Iterator[tuple[int, Any]]:
    """`work(0)`, `work(1)`, … each in a child of its own, so many at once: their numbers and what they return
    (or `Ended`), as it comes.  A child is killed after so many seconds."""
    following = iter(range(count))
    with selectors.DefaultSelector() as selector:

        def begin() -> None:
            number = next(following, None)
            if number is None:
                return
            back, answer = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(back)
                ending(lambda: send(answer, work(number)))
            os.close(answer)
            child = _Child(number, pid, time.monotonic() + seconds(number))
            selector.register(back, selectors.EVENT_READ, child)

        for _ in range(jobs):
            begin()
        while waited := selector.get_map():
            left = min(k.data.end for k in waited.values()) - time.monotonic()
            ready = {k.fd for k, _ in selector.select(max(0.0, left))}
            for fd, key in [*waited.items()]:
                child: _Child = key.data
                piece = os.read(fd, 1 << 20) if fd in ready else b""
                child.data += piece
                late = time.monotonic() > child.end
                if piece or (fd not in ready and not late):
                    continue
                if late:
                    os.kill(child.pid, signal.SIGKILL)
                selector.unregister(fd)
                os.close(fd)
                _, status = os.waitpid(child.pid, 0)
                begin()
                yield child.number, _answer(child, status, late)


def _answer(child: _Child, status: int, late: bool) -> object:
    if len(child.data) >= 8 and len(child.data) == 8 + int.from_bytes(child.data[:8], "little"):
        return pickle.loads(child.data[8:])
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if late:
        return Ended("it takes too long")
    return Ended(signal.Signals(number).name if number else f"exit code {status >> 8}")


def ending(work: Callable[[], None]) -> Any:
    """Do the work of a child, and end it."""
    status = 1
    try:
        os.dup2(2, 1)  # nothing of a child belongs among the answers
        work()
        status = 0
    except BaseException as e:
        sys.stderr.write(f"{type(e).__name__}: {e}\n")
    finally:
        os._exit(status)


def send(pipe: int, what: object) -> None:
    """Pickled, after its length."""
    data = pickle.dumps(what)
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(pipe, data) :]


def received(pipe: int, seconds: float | None) -> object:
    """What was sent; None if nobody is there any more, or it took too long."""
    end = None if seconds is None else time.monotonic() + seconds
    data = b""
    while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "little"):
        left = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([pipe], [], [], left)[0]:
            return None
        part = os.read(pipe, 1 << 20)
        if not part:
            return None
        data += part
    return pickle.loads(data[8:])

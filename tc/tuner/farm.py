"""Candidates from the side of the process that tunes: the server and its children behind one object.

Every wait has an end.  A server that dies is started again, and the candidates that it had are lost, which
their events say.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tc.errors import BackendError
from tc.tuner.child import Job

Event = dict[str, Any]
_START_SECONDS = 120.0  # until a server is ready, at most
_GPU = ("cuda", "opencl")  # their drivers reserve more addresses than there is memory


@dataclass
class _Running:
    """A candidate: `deadline` on the clock of what it does, None while it waits; `held` since when it is
    stopped."""

    deadline: float | None
    held: float | None = None
    late: bool = False


@dataclass
class Farm:
    """A server with children for one job.  Use it as a context: at its end all processes are gone."""

    job: Job
    memory: int
    cores: Sequence[int] = ()
    nice: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _folder: Path = field(init=False)
    _pending: bytearray = field(default_factory=bytearray, init=False)
    _events: deque[Event] = field(default_factory=deque[Event], init=False)
    _running: dict[int, _Running] = field(default_factory=dict[int, _Running], init=False)
    _next: int = field(default=0, init=False)
    _starting: bool = field(default=False, init=False)

    def __enter__(self) -> Farm:
        shared = Path("/dev/shm")
        parent = str(shared) if os.access(shared, os.W_OK) and _small(self.job, shared) else None
        self._folder = Path(tempfile.mkdtemp(prefix="tc-tune-", dir=parent))
        try:
            self.job = replace(self.job, scratch=self._folder)
            data = pickle.dumps((self.job, self.memory, tuple(self.cores), self.job.backend not in _GPU))
            (self._folder / "job.pickle").write_bytes(data)
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---- the server

    def _start(self) -> None:
        command = [sys.executable, "-m", "tc.tuner.server", str(self._folder / "job.pickle")]
        # The server must find what this process has: the same packages, from the same places.
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": path, "TC_TUNED": "off", "TC_DUMP": ""},
                start_new_session=True,
            )
        self._starting = True
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            self._receive(1.0)
            if any(e.get("event") == "ready" for e in self._events):
                self._events = deque(e for e in self._events if e.get("event") != "ready")
                self._starting = False
                return
            if self._process.poll() is not None:
                break
        said = self._said()
        self._end()
        raise BackendError(
            f"the process that runs candidates does not start{': ' + said if said else ''}",
            code="TC0823",
            help="python -m tc doctor says what is missing here",
        )

    @property
    def kernels(self) -> Path:
        """Where the machine code of candidates is kept."""
        return self._folder / "kernels"

    @property
    def _errors(self) -> Path:
        """Where what the server and its children print goes."""
        return self._folder / "errors"

    def _said(self) -> str:
        """The last line that the server printed."""
        try:
            with self._errors.open("rb") as f:
                f.seek(max(0, self._errors.stat().st_size - 4096))
                lines = f.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._running.clear()

    def _send(self, **request: Any) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):  # it has died, which the next wait sees
            process.stdin.write((json.dumps(request) + "\n").encode())
            process.stdin.flush()

    def _receive(self, timeout: float) -> None:
        """Read what has come, waiting for something at most so long."""
        process = self._process
        if process is None or process.stdout is None:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, timeout)):
                return
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            self._died()
            return
        self._pending += piece
        while b"\n" in self._pending:
            line, _, rest = bytes(self._pending).partition(b"\n")
            self._pending = bytearray(rest)
            with contextlib.suppress(ValueError):
                self._events.append(json.loads(line))

    def _died(self) -> None:
        if self._starting:  # then it is no accident, and the start says so
            return
        lost = list(self._running)
        self._end()
        self._pending = bytearray()
        for number in lost:
            self._events.append({"id": number, "event": "ended", "signal": "", "code": -1, "lost": True})
        self._start()

    # ---- candidates

    def start(
        self,
        options: Mapping[str, Any],
        seconds: float,
        limit: float | None = None,
        cache: Path | None = None,
    ) -> int:
        """Begin to compile a candidate in a child, which has so many seconds for it; its number.  One that is
        predicted to cost more than `limit` is not compiled.  `cache` is where compiled kernels are kept."""
        number = self._next
        self._next += 1
        self._running[number] = _Running(time.monotonic() + seconds)
        where = str(cache or self.kernels)
        self._send(do="start", id=number, options=dict(options), limit=limit, nice=self.nice, cache=where)
        return number

    def tell(self, number: int, seconds: float, **what: Any) -> None:
        """Have a candidate do something, for which it has so many seconds."""
        if number in self._running:
            self._running[number].deadline = time.monotonic() + seconds
            self._send(do="tell", id=number, what=what)

    def kill(self, number: int) -> None:
        """End a candidate."""
        if number in self._running:
            self._send(do="kill", id=number)

    def hold(self, numbers: Sequence[int]) -> None:
        """Stop candidates; their clocks stand still."""
        for n in numbers:
            found = self._running.get(n)
            if found is not None and found.held is None:
                found.held = time.monotonic()
                self._send(do="stop", id=n)

    def release(self, numbers: Sequence[int]) -> None:
        """Let held candidates go on."""
        for n in numbers:
            found = self._running.get(n)
            if found is not None and found.held is not None:
                if found.deadline is not None:
                    found.deadline += time.monotonic() - found.held
                found.held = None
                self._send(do="continue", id=n)

    def poll(self, timeout: float) -> Event | None:
        """The next event, waiting at most so long; candidates that take longer than they have are killed."""
        end = time.monotonic() + timeout
        while True:
            if self._events:
                return self._passed(self._events.popleft())
            now = time.monotonic()
            for number, c in self._running.items():
                if c.deadline is not None and c.held is None and now > c.deadline and not c.late:
                    c.late = True
                    self._send(do="kill", id=number)
            if now >= end:
                return None
            times = [
                c.deadline for c in self._running.values() if c.deadline and c.held is None and not c.late
            ]
            self._receive(min([end, *times]) - now)

    def _passed(self, e: Event) -> Event:
        found = self._running.get(e["id"])
        if found is not None and e["event"] == "ended":
            e["late"] = found.late
            del self._running[e["id"]]
        elif found is not None:
            found.deadline = None
        return e

    def wait(self, number: int, seconds: float, others: list[Event]) -> Event | None:
        """The next event of one candidate; those of others are appended to a list.  None if there is none in
        time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            e = self.poll(left)
            if e is None:
                return None
            if e["id"] == number:
                return e
            others.append(e)
        return None


def _small(job: Job, folder: Path) -> bool:
    """Whether arguments and results fit well into a folder in memory."""
    size = sum(getattr(a, "nbytes", 0) for a in (*job.arrays.values(), *job.buffers.values()))
    return 8 * size < shutil.disk_usage(folder).free

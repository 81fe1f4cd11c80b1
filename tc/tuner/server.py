"""The process that forks a child for each candidate, and stays clean itself.

It holds the front end's results and the arguments, starts no threads, and runs no kernel, so that its
children begin whole.  Requests come as lines of JSON on the standard input, answers leave as such on the
standard output, those of children with their number.  It ends, and with it all children, when its input
ends: when the process that tunes is killed, nothing is left behind.

    {"do": "start", "id": 3, "options": {…}, "limit": 1e9}     a candidate in a child
    {"do": "tell", "id": 3, "what": {"do": "check"}}           passed on to it
    {"do": "kill" | "stop" | "continue", "id": 3}
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import resource
import selectors
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tc.tuner.child import Job

_TICK = 0.05  # seconds between looks at the memory of children
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_PR_SET_PDEATHSIG = 1


@dataclass
class _Child:
    pid: int
    commands: int
    answers: int
    base: int  # bytes of memory that it had at first
    data: bytearray = field(default_factory=bytearray)
    over: bool = False


class Server:
    """The children of one search; `limit` bounds the memory of each, in bytes beyond what it starts with."""

    def __init__(self, job: Job, limit: int, out: int, addresses: bool) -> None:
        self.job, self.limit, self.out, self.addresses = job, limit, out, addresses
        self.children: dict[int, _Child] = {}
        self.selector = selectors.DefaultSelector()

    def serve(self, requests: int) -> None:
        """Until the requests end."""
        self.selector.register(requests, selectors.EVENT_READ, None)
        pending = bytearray()
        looked = 0.0
        while True:
            for key, _ in self.selector.select(_TICK):
                if key.data is None:
                    piece = os.read(requests, 1 << 16)
                    if not piece:
                        return
                    pending += piece
                    while b"\n" in pending:
                        line, _, rest = bytes(pending).partition(b"\n")
                        pending = bytearray(rest)
                        self.handle(json.loads(line))
                else:
                    self.read(key.data)
            now = time.monotonic()
            if now - looked > _TICK:
                looked = now
                self.watch()

    def say(self, **what: Any) -> None:
        data = (json.dumps(what) + "\n").encode()
        while data:
            data = data[os.write(self.out, data) :]

    def handle(self, request: Mapping[str, Any]) -> None:
        number = int(request["id"])
        if request["do"] == "start":
            self.start(number, request)
            return
        child = self.children.get(number)
        if child is None:
            return
        match request["do"]:
            case "tell":
                with contextlib.suppress(OSError):
                    os.write(child.commands, (json.dumps(request["what"]) + "\n").encode())
            case "kill":
                _signal(child.pid, signal.SIGKILL)
            case "stop":
                _signal(child.pid, signal.SIGSTOP)
            case "continue":
                _signal(child.pid, signal.SIGCONT)
            case _:
                pass

    def start(self, number: int, request: Mapping[str, Any]) -> None:
        command_end, commands = os.pipe()
        answers, answer_end = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            self.become_child(request, command_end, answer_end, parent)
        os.close(command_end)
        os.close(answer_end)
        os.set_inheritable(commands, False)
        self.children[number] = _Child(pid, commands, answers, _memory(pid))
        self.selector.register(answers, selectors.EVENT_READ, number)

    def become_child(self, request: Mapping[str, Any], commands: int, answers: int, parent: int) -> None:
        """Never returns."""
        status = 1
        try:
            _die_with(parent)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for child in self.children.values():
                os.close(child.commands)
                os.close(child.answers)
            os.close(self.out)
            os.dup2(2, 1)  # nothing that a library prints belongs among the answers
            if self.addresses:
                _limit_addresses(self.limit)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            from tc.tuner.child import run

            with os.fdopen(commands, "r") as lines:
                run(self.job, request, _lines(lines), answers)
            status = 0
        finally:
            os._exit(status)

    def read(self, number: int) -> None:
        child = self.children[number]
        piece = os.read(child.answers, 1 << 16)
        child.data += piece
        while b"\n" in child.data:
            line, _, rest = bytes(child.data).partition(b"\n")
            child.data = bytearray(rest)
            with contextlib.suppress(ValueError):
                self.say(id=number, **json.loads(line))
        if not piece:
            self.end(number)

    def end(self, number: int) -> None:
        child = self.children.pop(number)
        self.selector.unregister(child.answers)
        os.close(child.answers)
        os.close(child.commands)
        _signal(child.pid, signal.SIGKILL)  # it may have closed its pipe and live on
        _, status, used = os.wait4(child.pid, 0)
        how = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        self.say(
            id=number,
            event="ended",
            signal=signal.Signals(how).name if how else "",
            code=-1 if how else status >> 8,
            peak=used.ru_maxrss << 10,
            over=child.over or (bool(how) and (used.ru_maxrss << 10) - child.base > 0.9 * self.limit),
        )

    def watch(self) -> None:
        """Children that take more memory than they may are killed."""
        for child in self.children.values():
            if not child.over and _memory(child.pid) - child.base > self.limit:
                child.over = True
                _signal(child.pid, signal.SIGKILL)

    def close(self) -> None:
        for child in self.children.values():
            _signal(child.pid, signal.SIGKILL)
        for child in self.children.values():
            with contextlib.suppress(OSError):
                os.waitpid(child.pid, 0)


def _lines(file: Any) -> Iterator[str]:
    """Lines as they come, without reading ahead."""
    while line := file.readline():
        yield line


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _memory(pid: int) -> int:
    """Bytes of a process that lie in memory."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _die_with(parent: int) -> None:
    """This process is killed when its parent ends, where the system can do that."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _limit_addresses(limit: int) -> None:
    """Bound the address space, so that what asks for too much at once is refused and not killed."""
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
        # Threads and arenas reserve addresses that they do not use.
        resource.setrlimit(resource.RLIMIT_AS, (used + 2 * limit + (4 << 30), resource.RLIM_INFINITY))
    except (OSError, ValueError):
        pass


def main(path: str) -> int:
    """Serve the search whose job lies, pickled, in a file."""
    out = os.dup(1)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that tunes says what Ctrl-C means
    job, limit, cores, addresses = pickle.loads(Path(path).read_bytes())
    if cores:
        os.sched_setaffinity(0, cores)
    _warm_up(job)
    server = Server(job, limit, out, addresses)
    server.say(id=-1, event="ready")
    try:
        server.serve(0)
    finally:
        server.close()
    return 0


def _warm_up(job: Job) -> None:
    """Import what children need and check the source, once for all; nothing here starts a thread."""
    import importlib
    import warnings

    from tc import registry
    from tc.api import checked_front
    from tc.errors import Source

    for name in ("tc.kernel", "tc.poly.scop", "tc.codegen.llvm_jit", "tc.tuner.check", "tc.interpreter"):
        importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry.load(job.backend)
        checked_front(Source(job.source, job.name), job.entry, job.lang, job.known)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

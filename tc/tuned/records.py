"""Records of measurements: a line of JSON each, in files that are only ever appended to.

    DIR/<first 16 digits of the program's key>.jsonl

A line is written by one `write` under a lock of the file, so any number of processes may append at once, and
the death of one loses at most its own last line, which later readers skip.  A file that is put beside the
others counts like them: to merge two directories is to concatenate or to copy files.  Lines that are no
records, or of another version, are skipped and counted, and stay where they are.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

from tc.options import Options

VERSION = 1
_ALWAYS = ("program", "extents", "backend", "options", "status")
Status = Literal["ok", "wrong", "crash", "hang", "oom", "refused", "pruned"]
STATUSES: tuple[str, ...] = get_args(Status)
SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Record:
    """One candidate of one program at given sizes, measured on one machine.

    `extents` and `values` are sizes and specialised scalars in the order of the program's key, `sizes` the
    same for people.  `fixed` are the options that were given and not tuned, `options` all of them.  `ns` are
    the times of calls in nanoseconds, `ref_ns` those of the kernel `ref` (its options) between them.
    `status`: `ok`; `wrong` (results differ), `crash`, `hang`, `oom` (more memory than allowed), `refused` (an
    error of the compiler), `pruned` (never run: predicted to be too slow).  `origin` says who proposed the
    options: a strategy, `user`, `default`, or `confirm` for the last pairing of the winner with the default.
    """

    program: str
    extents: tuple[int, ...]
    backend: str
    options: Mapping[str, Any]
    status: Status
    values: tuple[int, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    loops: tuple[int, ...] = ()
    dynamic: tuple[str, ...] = ()
    target: Mapping[str, Any] = field(default_factory=dict[str, Any])
    machine: str = ""
    entry: str = ""
    source: str = ""
    origin: str = ""
    problem: str = ""
    predicted: float | None = None
    compile_s: float | None = None
    code: str = ""
    ns: tuple[int, ...] = ()
    ref: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ref_ns: tuple[int, ...] = ()
    time: float = 0.0
    session: str = ""
    seed: int = 0
    generation: int = 0
    space: str = ""
    tc: str = ""
    versions: str = ""
    load: float = 0.0

    @property
    def median(self) -> float | None:
        """Nanoseconds of a call; None if it has not run."""
        return statistics.median(self.ns) if self.status == "ok" and self.ns else None

    @property
    def ratio(self) -> float | None:
        """Time over that of the kernel it was interleaved with."""
        median = self.median
        return median / statistics.median(self.ref_ns) if median is not None and self.ref_ns else None

    def chosen(self) -> Options:
        """The options; ArgumentError where they are no longer legal."""
        return Options.from_mapping(self.options)

    def to_line(self) -> str:
        """The record as a line of JSON without its end; what is empty is left out."""
        values = {k: v for k, v in asdict(self).items() if k in _ALWAYS or v not in (None, (), {}, "")}
        return json.dumps({"v": VERSION, **values}, separators=(", ", ": "))


class OtherVersionError(ValueError):
    """A record that another version of this format wrote."""


_NAMES = frozenset(f.name for f in fields(Record))
_WORDS = ("program", "backend", "machine", "entry", "source", "origin", "problem", "code", "session")
_COUNTS = ("extents", "values", "loops", "ns", "ref_ns")
_MAPPINGS = ("options", "fixed", "sizes", "dtypes", "target", "ref")
_NUMBERS = ("predicted", "compile_s", "time", "load", "seed", "generation")


def read_line(line: str) -> Record:
    """The record of a line; OtherVersionError, or ValueError for what is no record."""
    try:
        found = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    values = cast("dict[str, Any]", found)
    version = values.pop("v", None)
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("no version")
    if version != VERSION:
        raise OtherVersionError(f"version {version}")
    for name, value in values.items():
        if not _fits(name, value):
            raise ValueError(f"{name} is {value!r}")
    known: dict[str, Any] = {n: v for n, v in values.items() if n in _NAMES}
    known |= {n: tuple(v) for n, v in known.items() if n in _COUNTS or n == "dynamic"}
    try:
        return Record(**known)
    except TypeError as e:  # something is missing
        raise ValueError(str(e)) from None


def _fits(name: str, value: Any) -> bool:
    """Whether a value is of the type of a field; what this version does not know may be anything."""
    if name in _COUNTS or name == "dynamic":
        items = cast("list[Any]", value) if isinstance(value, list) else [None]
        if name == "dynamic":
            return all(isinstance(n, str) for n in items)
        least = 1 if name in ("ns", "ref_ns") else -(1 << 63)
        return all(isinstance(n, int) and n >= least for n in items)
    if name in _MAPPINGS:
        if not isinstance(value, dict):
            return False
        inner = cast("dict[str, Any]", value).values()
        return all(isinstance(n, int) for n in inner) if name == "sizes" else True
    if name in _NUMBERS:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if name == "status":
        return value in STATUSES
    return isinstance(value, str) or name not in _WORDS


@dataclass(frozen=True, slots=True)
class Scan:
    """What a directory holds: records in the order of files and lines, how many lines were skipped because
    they are no records (`foreign`) or of another version (`other`), and files that could not be read."""

    records: tuple[Record, ...]
    foreign: int = 0
    other: int = 0
    unreadable: tuple[str, ...] = ()

    @property
    def skipped(self) -> str:
        """The skipped lines in words, or nothing."""
        counts = ((self.foreign, "no records"), (self.other, "of another version"))
        parts = [f"{n} {what}" for n, what in counts if n]
        parts += [f"{f} cannot be read" for f in self.unreadable]
        return f"skipped lines: {', '.join(parts)}" if parts else ""


def scan_file(path: Path) -> Scan:
    """The records of one file."""
    records: list[Record] = []
    foreign = other = 0
    try:
        data = path.read_bytes()
    except OSError as e:
        return Scan((), unreadable=(f"{path.name} ({e.strerror})",))
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            records.append(read_line(line.decode()))
        except OtherVersionError:
            other += 1
        except ValueError:
            foreign += 1
    return Scan(tuple(records), foreign, other)


def joined(scans: Sequence[Scan]) -> Scan:
    """What several files hold."""
    return Scan(
        tuple(r for s in scans for r in s.records),
        sum(s.foreign for s in scans),
        sum(s.other for s in scans),
        tuple(u for s in scans for u in s.unreadable),
    )


class Records:
    """The records in a directory, which is made when something is appended."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()

    def __repr__(self) -> str:
        return f"Records({str(self.directory)!r})"

    def path(self, program: str) -> Path:
        """The file to which records of a program are appended."""
        return self.directory / f"{program[:16]}{SUFFIX}"

    def files(self) -> list[Path]:
        try:
            return sorted(p for p in self.directory.iterdir() if p.suffix == SUFFIX)
        except OSError:
            return []

    def append(self, record: Record) -> None:
        """Add a record.  Raises OSError where that is impossible; then nothing of it is left in the file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        append_line(self.path(record.program), record.to_line())

    def scan(self) -> Scan:
        """All records."""
        return joined([scan_file(path) for path in self.files()])

    def remove(self, gone: Callable[[Record], bool]) -> int:
        """Remove records; lines that are none stay.  How many were removed.

        A file is replaced as a whole while nobody else appends to it.
        """
        removed = 0
        for path in self.files():
            with locked(path) as f:
                lines: list[bytes] = f.read().split(b"\n")
                kept = [x for x in lines if not _is(x, gone)]
                if len(kept) == len(lines):
                    continue
                new = path.with_name(f".{path.name}.{os.getpid()}")
                try:
                    new.write_bytes(b"\n".join(kept))
                    os.replace(new, path)
                except OSError:
                    with contextlib.suppress(OSError):
                        new.unlink()
                    raise
                removed += len(lines) - len(kept)
        return removed

    def merge(self, others: Iterable[Path]) -> int:
        """Append the records of other directories and files that are not here yet; how many there were."""
        known = {r.to_line() for r in self.scan().records}
        added = 0
        for other in others:
            found = scan_file(other) if other.is_file() else Records(other).scan()
            for r in found.records:
                if (line := r.to_line()) not in known:
                    known.add(line)
                    self.append(r)
                    added += 1
        return added


def _is(line: bytes, wanted: Callable[[Record], bool]) -> bool:
    with contextlib.suppress(ValueError):
        return bool(line.strip()) and wanted(read_line(line.decode()))
    return False


def append_line(path: Path, line: str) -> None:
    """Append a line to a file by one write under its lock.

    A line that a process that died left torn is ended first, so that it spoils no other.
    """
    data = line.encode() + b"\n"
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _lock(fd)
            try:
                if os.fstat(fd).st_ino != os.stat(path).st_ino:  # somebody put another file in its place
                    continue
            except FileNotFoundError:
                continue
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            whole = b"\n" + data if torn else data
            try:
                written = os.write(fd, whole)
                if written != len(whole):
                    raise OSError(28, "no space left on device")
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, size)
                raise
            return
        finally:
            os.close(fd)


@contextlib.contextmanager
def locked(path: Path) -> Generator[Any]:
    """A file open for reading while no other process appends to it."""
    with path.open("rb") as f:
        _lock(f.fileno())
        yield f


def _lock(fd: int) -> None:
    """Wait for the file's lock, which closing it releases; file systems without locks have none."""
    try:
        import fcntl
    except ImportError:
        return
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX)

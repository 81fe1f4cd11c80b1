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
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from tc.errors import Error
from tc.options import Options

VERSION = 1
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
        values = {k: v for k, v in asdict(self).items() if v not in (None, (), {}, "")}
        return json.dumps({"v": VERSION, **values}, separators=(", ", ": "))


class OtherVersionError(ValueError):
    """A record that another version of this format wrote."""


_TUPLES = ("extents", "values", "loops", "dynamic", "ns", "ref_ns")
_NAMES = frozenset(f.name for f in fields(Record))


def read_line(line: str) -> Record:
    """The record of a line; OtherVersionError, or ValueError for what is no record."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    values = cast("dict[str, Any]", found)
    version = values.pop("v", None)
    if not isinstance(version, int):
        raise ValueError("no version")
    if version != VERSION:
        raise OtherVersionError(f"version {version}")
    known = {k: tuple(v) if k in _TUPLES else v for k, v in values.items() if k in _NAMES}
    try:
        record = Record(**known)
    except TypeError as e:
        raise ValueError(str(e)) from None
    if record.status not in STATUSES or not all(map(_is_mapping, (record.options, record.fixed))):
        raise ValueError("not a record")
    if not all(isinstance(n, int) for n in (*record.extents, *record.values, *record.ns, *record.ref_ns)):
        raise ValueError("numbers that are none")
    if not (isinstance(record.program, str) and isinstance(record.backend, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("not a record")
    return record


def _is_mapping(x: object) -> bool:
    return isinstance(x, Mapping)


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

    def scan(self, program: str | None = None) -> Scan:
        """All records, or those of a program."""
        records: list[Record] = []
        foreign = other = 0
        unreadable: list[str] = []
        for path in self.files():
            try:
                data = path.read_bytes()
            except OSError as e:
                unreadable.append(f"{path.name} ({e.strerror})")
                continue
            for line in data.split(b"\n"):
                text = line.strip()
                if not text:
                    continue
                try:
                    record = read_line(text.decode())
                except OtherVersionError:
                    other += 1
                except ValueError:
                    foreign += 1
                else:
                    if program is None or record.program == program:
                        records.append(record)
        return Scan(tuple(records), foreign, other, tuple(unreadable))

    def rewrite(self, keep: Iterable[Record], dropped: Iterable[Record]) -> int:
        """Remove the lines of `dropped` records; lines that are no records stay.  How many were removed."""
        gone = {r.to_line() for r in dropped} - {r.to_line() for r in keep}
        removed = 0
        for path in self.files():
            with locked(path) as f:
                lines = f.read().split(b"\n")
                kept = [x for x in lines if not _in(x, gone)]
                if len(kept) == len(lines):
                    continue
                removed += len(lines) - len(kept)
                new = path.with_name(f".{path.name}.{os.getpid()}")
                new.write_bytes(b"\n".join(kept))
                os.replace(new, path)
        return removed


def _in(line: bytes, gone: set[str]) -> bool:
    with contextlib.suppress(ValueError):
        return bool(line.strip()) and read_line(line.decode()).to_line() in gone
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
def locked(path: Path) -> Iterator[Any]:
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


# ---- queries


def pooled(records: Iterable[Record]) -> dict[Options, Record]:
    """The measurements of each legal set of options as one record, whatever sessions they are from; the
    latest verdict that is not `ok` counts if there is one."""
    out: dict[Options, Record] = {}
    for r in records:
        try:
            options = r.chosen()
        except Error:
            continue
        before = out.get(options)
        if before is None or before.status == "pruned":
            out[options] = r
        elif r.status == "ok" and before.status == "ok":
            times = (*before.ns, *r.ns)
            refs = (*before.ref_ns, *r.ref_ns) if before.ref == r.ref else r.ref_ns
            out[options] = replace(r, ns=times if before.ref == r.ref else r.ns, ref_ns=refs)
        elif r.status != "pruned":
            out[options] = r
    return out


def winner(records: Iterable[Record]) -> Record | None:
    """The best of the records of one program at one place: the latest winner that was paired with the default
    if there is one, else the fastest that is right."""
    confirmed: Record | None = None
    rest: list[Record] = []
    spoiled: set[str] = set()
    for r in records:
        if r.status == "ok" and r.origin in ("confirm", "user") and r.ns:
            confirmed = r if confirmed is None or r.time >= confirmed.time else confirmed
        if r.status == "ok" and r.ns:
            rest.append(r)
        elif r.status not in ("ok", "pruned"):
            spoiled.add(json.dumps(dict(r.options), sort_keys=True))

    def good(r: Record) -> bool:
        return json.dumps(dict(r.options), sort_keys=True) not in spoiled

    if confirmed is not None and good(confirmed):
        return confirmed
    return min(filter(good, rest), key=lambda r: r.median or 0.0, default=None)


def export(records: Iterable[Record]) -> dict[str, Any]:
    """The records in the interchange format of auto-tuning results (T4, version 1.0.0)."""
    invalid = {"ok": "correct", "wrong": "correctness", "hang": "timeout", "refused": "compile"}
    results = [
        {
            "timestamp": r.time,
            "configuration": dict(r.options),
            "objectives": ["time"],
            "times": {
                "compilation_time": 1e3 * (r.compile_s or 0.0),
                "runtimes": [n / 1e6 for n in r.ns],
                "framework": 0,
                "search_algorithm": 0,
                "validation": 0,
            },
            "invalidity": invalid.get(r.status, "constraints" if r.status == "pruned" else "runtime"),
            "correctness": int(r.status == "ok"),
            "measurements": [{"name": "time", "value": (r.median or 0.0) / 1e6, "unit": "milliseconds"}],
        }
        for r in records
    ]
    return {"schema_version": "1.0.0", "results": results}

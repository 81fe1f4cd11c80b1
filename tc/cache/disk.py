"""Blobs of bytes on disk by key: compiled kernels outlive the process that made them.

A key is the SHA-256 of all that determines the blob (`digest`), so an entry is never wrong, only absent, and
any process may write or remove any entry at any time.  Writers make a file beside the entry and rename it;
readers believe what carries this format's header, the entry's own key and the right checksum, and remove the
rest.  Nothing here fails a compile: what cannot be read is absent, what cannot be written is not kept, and
the first such failure of a directory is a warning (`CacheNotice`).

    DIR/ab/cdef…    entry abcdef…: header, blob; its modification time is that of its last use
    DIR/ab/.new-…   being written

What lies here is executed, so a directory serves only if it is the user's own and not everybody's to write.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from tc.errors import CacheNotice, InternalError, warn
from tc.support import settings

Key = str | bytes  # 64 lower-case hexadecimal digits, or the 32 bytes they stand for

_MAGIC, _VERSION = b"tcstore\n", 1
_HEADER = struct.Struct("<8sIQ32s32s")  # magic, version, length of the blob, key, checksum
_PLAIN = struct.Struct("<8sIQ32s")  # the header's part that the checksum covers, with the blob
_SHARD, _REST, _NEW = re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{62}"), ".new-"

_USE_GRAIN = 60.0  # seconds: reading an entry again sooner does not touch its file
_ABANDONED = 3600.0  # seconds: a file this old and still being written has lost its writer


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept under a key: the file's size in bytes, and when it was last used (seconds since 1970)."""

    key: str
    size: int
    used: float


class Store:
    """The blobs in `directory`, some `limit` bytes of them: the least recently used are dropped.

    Safe under any number of threads and processes.  The directory is made, mode 0700, when something is put.
    """

    def __init__(self, directory: str | os.PathLike[str], limit: int = 1 << 30) -> None:
        self.directory = Path(directory).absolute()  # a process may change its directory
        self.limit = limit
        self._trusted: bool | None = None  # None: not looked at, or not there
        self._warned = False
        self._random = random.Random()  # the user's sequence of random numbers is not disturbed

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r}, {self.limit})"

    # ---- one entry

    def get(self, key: Key) -> bytes | None:
        """The blob of a key, or None; a file that is not what was put there is removed."""
        name = _name(key)
        if not self._usable():
            return None
        path = self._path(name)
        try:
            with open(path, "rb", buffering=0, opener=_open_to_read) as f:
                found = os.fstat(f.fileno())
                blob = _checked(f.read(), name) if _ours(found) else None
        except OSError:  # most often there is no such file
            return None
        if blob is None:
            _remove(path)
        elif time.time() - found.st_mtime > _USE_GRAIN:
            with contextlib.suppress(OSError):  # gone, or a file system that is read only
                os.utime(path)
        return blob

    def put(self, key: Key, blob: bytes) -> None:
        """Keep a blob in place of what is there.  One that alone exceeds the limit is not kept."""
        name = _name(key)
        data = _sealed(blob, name)
        if len(data) > self.limit or not self._usable(make=True):
            return
        try:
            self._write(self._path(name), data)
        except FileNotFoundError:  # the store was cleared at this moment
            return
        except OSError as e:
            self._notice(f"cannot be written: {e.strerror}")
            return
        # To look at all entries is slow.  At this rate 1/16 of the limit is written between two looks, by
        # however many processes, and nobody has to keep count.
        if self._random.random() * self.limit < 16 * len(data):
            self.evict()

    def discard(self, key: Key) -> None:
        """Remove an entry, if it is there."""
        if self._usable():
            _remove(self._path(_name(key)))

    # ---- all of them

    def entries(self) -> list[Entry]:
        """What is kept, in no order; entries that others put or remove meanwhile may or may not be listed."""
        return [Entry(key, s.st_size, s.st_mtime) for key, _, s in self._files() if key]

    def size(self) -> int:
        """The bytes that the entries take."""
        return sum(e.size for e in self.entries())

    def evict(self) -> None:
        """If there is more than the limit, drop what was not used for longest, down to 3/4 of it."""
        files: list[tuple[float, int, str]] = []
        for key, path, s in self._files():
            if key:
                files.append((s.st_mtime, s.st_size, path))
            elif time.time() - s.st_mtime > _ABANDONED:
                _remove(path)
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in sorted(files):
            _remove(path)
            total -= size
            if total <= self.limit * 3 // 4:
                return

    def clear(self) -> int:
        """Remove every entry, and nothing that is none; how many there were."""
        if not self._usable():
            return 0
        count = sum([_remove(path) and bool(key) for key, path, _ in self._files()])
        for shard in _scan(self.directory):
            if _SHARD.fullmatch(shard.name):
                with contextlib.suppress(OSError):  # not empty: somebody put something meanwhile
                    os.rmdir(shard.path)
        return count

    # ---- files

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name[:2], name[2:])

    def _files(self) -> Iterator[tuple[str, str, os.stat_result]]:
        """Key (empty for a file being written), path and status of our files."""
        if not self._usable():
            return
        for shard in _scan(self.directory):
            if not _SHARD.fullmatch(shard.name):
                continue
            for f in _scan(shard.path):
                entry = _REST.fullmatch(f.name) is not None
                if not entry and not f.name.startswith(_NEW):
                    continue
                try:
                    found = f.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield (shard.name + f.name if entry else ""), f.path, found

    def _write(self, path: str, data: bytes) -> None:
        """The file appears whole or not at all; OSError where it cannot."""
        shard = os.path.dirname(path)
        temporary = os.path.join(shard, f"{_NEW}{os.getpid()}-{os.urandom(8).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            fd = os.open(temporary, flags, 0o600)
        except FileNotFoundError:  # the first entry of its shard
            os.makedirs(self.directory, 0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(shard, 0o700)
            fd = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise

    # ---- whether the directory may be used

    def _usable(self, *, make: bool = False) -> bool:
        if self._trusted is None:
            self._trusted = self._look(make)
        return bool(self._trusted)

    def _look(self, make: bool) -> bool | None:
        try:
            if make:
                os.makedirs(self.directory, 0o700, exist_ok=True)
            found = os.stat(self.directory)
        except OSError as e:
            if isinstance(e, FileNotFoundError) and not make:
                return None
            self._notice(f"cannot be used: {e.strerror}")
            return False
        if not stat.S_ISDIR(found.st_mode):
            self._notice("is no directory")
        elif _owner(found) != _user():
            self._notice("belongs to another user, who could plant code there")
        elif found.st_mode & stat.S_IWOTH:
            self._notice(
                "can be written by everybody, who could plant code there", f"chmod 700 {self.directory}"
            )
        else:
            return True
        return False

    def _notice(self, problem: str, remedy: str | None = None) -> None:
        if self._warned:
            return
        self._warned = True
        message = f"compiled kernels are not kept: {self.directory} {problem}"
        remedy = remedy or "set TC_CACHE_DIR to a directory of your own, or TC_CACHE=0 to keep nothing"
        warn(CacheNotice(message, help=remedy), stacklevel=4)


def default() -> Store | None:
    """The store that the settings name, None where they turn it off."""
    return _store(settings.cache_directory(), settings.cache_limit()) if settings.cache() else None


@cache
def _store(directory: Path, limit: int) -> Store:
    return Store(directory, limit)


# ---- files of the store


def _name(key: Key) -> str:
    name = key.hex() if isinstance(key, bytes) else key
    if len(name) != 64 or not _REST.fullmatch(name[2:]) or not _SHARD.fullmatch(name[:2]):
        raise InternalError(f"not a key of the store: {key!r}")
    return name


def _checksum(plain: bytes, blob: bytes) -> bytes:
    h = hashlib.blake2b(plain, digest_size=32)
    h.update(blob)
    return h.digest()


def _sealed(blob: bytes, name: str) -> bytes:
    plain = _PLAIN.pack(_MAGIC, _VERSION, len(blob), bytes.fromhex(name))
    return plain + _checksum(plain, blob) + blob


def _checked(data: bytes, name: str) -> bytes | None:
    """The blob in a file, None for a file that is not exactly what `_sealed` made for this key."""
    if len(data) < _HEADER.size:
        return None
    magic, version, length, key, checksum = _HEADER.unpack_from(data)
    blob = data[_HEADER.size :]
    if (magic, version, length, key) != (_MAGIC, _VERSION, len(blob), bytes.fromhex(name)):
        return None
    return blob if checksum == _checksum(data[: _PLAIN.size], blob) else None


def _open_to_read(path: str, flags: int) -> int:
    # A pipe in the place of an entry must not block, a link lead elsewhere.
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _ours(found: os.stat_result) -> bool:
    """Where the directory was exchanged after it was looked at, a file of another user is not believed."""
    return stat.S_ISREG(found.st_mode) and _owner(found) == _user() and not found.st_mode & stat.S_IWOTH


def _owner(found: os.stat_result) -> int:
    return found.st_uid if hasattr(os, "geteuid") else -1


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else -1


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:  # somebody else did, or nobody may
        return False
    return True


def _scan(directory: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


# ---- keys and blobs


def digest(*parts: object) -> str:
    """A key from all that determines a blob: equal for equal parts, in any process; 64 hexadecimal digits.

    Parts are None, bool, int, float, str, bytes, and of those sequences, sets, mappings and dataclasses;
    TypeError for anything else, whose `repr` might not say all.
    """
    return hashlib.sha256(_canonical(parts)).hexdigest()


def _canonical(part: object) -> bytes:
    """Bytes from which a part could be read back: kind, length, contents."""
    match part:
        case None | bool():
            kind, content = b"c", repr(part).encode()
        case int():
            kind, content = b"i", b"%x" % part
        case float():
            kind, content = b"f", part.hex().encode()
        case str():
            kind, content = b"s", part.encode("utf-8", "surrogatepass")
        case bytes():
            kind, content = b"b", part
        case tuple() | list():
            kind, content = b"t", b"".join(map(_canonical, cast("list[object]", part)))
        case set() | frozenset():
            kind, content = b"u", b"".join(sorted(map(_canonical, cast("set[object]", part))))
        case Mapping():
            items = cast("Mapping[object, object]", part).items()
            kind, content = b"m", b"".join(sorted(_canonical(k) + _canonical(v) for k, v in items))
        case _ if is_dataclass(part) and not isinstance(part, type):
            values = tuple((f.name, getattr(part, f.name)) for f in fields(part) if f.compare)
            kind, content = b"d", _canonical(type(part).__qualname__) + _canonical(values)
        case _:
            raise TypeError(f"{type(part).__name__} has no canonical form")
    return kind + b"%d:" % len(content) + content


def pack(facts: Mapping[str, Any], code: bytes) -> bytes:
    """A blob of plain data and bytes, for a backend's `to_blob`; nothing in it runs when it is read."""
    text = json.dumps(facts, separators=(",", ":")).encode()
    return struct.pack("<I", len(text)) + text + code


def unpack(blob: bytes) -> tuple[dict[str, Any], bytes]:
    """The inverse of `pack`; ValueError for bytes that are not its result."""
    if len(blob) < 4:
        raise ValueError("the blob is too short")
    (length,) = struct.unpack_from("<I", blob)
    facts = json.loads(blob[4 : 4 + length])
    if len(blob) < 4 + length or not isinstance(facts, dict):
        raise ValueError("the blob does not begin with a JSON object")
    return cast("dict[str, Any]", facts), blob[4 + length :]


@cache
def sources(directory: str | os.PathLike[str]) -> str:
    """A digest of the sources (Python, grammars, prelude) in a directory as they are now: an edit makes other
    keys.

    Looked at once a process.  To read a hundred files takes milliseconds, so what they come to is kept by
    their status, in which every write to a file shows.
    """
    root = os.fspath(directory)
    status: list[tuple[str, int, int, int]] = []
    pending = [root]
    while pending:
        for f in _scan(pending.pop()):
            if f.is_dir(follow_symlinks=False):
                if f.name != "__pycache__":
                    pending.append(f.path)
            elif f.name.endswith((".py", ".lark", ".sac")) and not f.name.startswith("."):  # an editor's own
                found = f.stat()
                status.append((f.path, found.st_size, found.st_ino, found.st_ctime_ns))
    kept = default()
    status.sort()
    key = digest("sources", repr(status))  # of so many numbers, much faster than one by one
    known = kept.get(key) if kept is not None else None
    if known is None:
        contents = [(os.path.relpath(f, root), Path(f).read_bytes()) for f, *_ in status]
        known = digest(sorted(contents)).encode()
        if kept is not None:
            kept.put(key, known)
    return known.decode()

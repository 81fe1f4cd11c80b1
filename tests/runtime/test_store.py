"""Blobs on disk: what comes back is what was put or nothing, and nothing that goes wrong fails the caller."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.cache import disk as stores
from tc.cache.disk import Store, digest, pack, sources, unpack
from tc.dtypes import FLOAT32, INT32
from tc.errors import InternalError
from tc.pipeline.front import Variant
from tests.runtime import writers

KEY, OTHER = digest("one"), digest("other")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "a" / "kernels")


def file(store: Store, key: str = KEY) -> Path:
    return store.directory / key[:2] / key[2:]


def files(store: Store) -> list[str]:
    return sorted(p.name for p in store.directory.rglob("*") if p.is_file())


# ---- what is put comes back


@pytest.mark.parametrize("blob", [b"", b"x", os.urandom(300_000)], ids=len)
def test_what_is_put_comes_back(store: Store, blob: bytes) -> None:
    assert store.get(KEY) is None
    assert not store.directory.exists()  # to look makes nothing
    store.put(KEY, blob)
    for same in (store, Store(store.directory)):
        assert same.get(KEY) == same.get(bytes.fromhex(KEY)) == blob
        assert same.get(OTHER) is None
    store.put(KEY, b"new")
    assert store.get(KEY) == b"new" and files(store) == [KEY[2:]]
    (entry,) = store.entries()
    assert entry.key == KEY and entry.size == store.size() == file(store).stat().st_size
    store.discard(KEY)
    store.discard(KEY)
    assert store.get(KEY) is None and store.size() == 0


def test_nobody_else_may_look(store: Store) -> None:
    store.put(KEY, b"code")
    modes = [p.stat().st_mode & 0o777 for p in (store.directory, file(store).parent, file(store))]
    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("key", ["", "x" * 64, KEY.upper(), KEY[:-1], "../" + KEY[3:], KEY + "\n", b"short"])
def test_only_digests_are_keys(store: Store, key: str | bytes) -> None:
    with pytest.raises(InternalError, match="not a key"):
        store.put(key, b"")
    with pytest.raises(InternalError, match="not a key"):
        store.get(key)


def test_a_directory_that_vanishes_is_made_again(store: Store) -> None:
    store.put(KEY, b"1")
    store.clear()
    store.directory.rmdir()
    assert store.get(KEY) is None and store.entries() == []
    store.put(KEY, b"2")
    assert store.get(KEY) == b"2" and store.directory.stat().st_mode & 0o777 == 0o700


# ---- files that are not what was put


def truncated(data: bytes) -> bytes:
    return data[:-1]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "short": lambda data: data[:20],
    "header alone": lambda data: data[:84],
    "truncated": truncated,
    "a bit flipped": flipped,
    "in the checksum": lambda data: data[:60] + bytes([data[60] ^ 128]) + data[61:],
    "longer": lambda data: data + b"\0",
    "another format": lambda data: data[:8] + b"\2" + data[9:],
    "foreign": lambda data: b"#!/bin/sh\n" + data,
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_absent_and_removed(store: Store, damage: str) -> None:
    store.put(KEY, b"some code")
    store.put(OTHER, b"other code")
    file(store).write_bytes(DAMAGE[damage](file(store).read_bytes()))
    assert store.get(KEY) is None
    assert not file(store).exists()
    assert store.get(OTHER) == b"other code"
    store.put(KEY, b"again")
    assert store.get(KEY) == b"again"


def test_an_entry_under_another_name_is_not_believed(store: Store) -> None:
    store.put(KEY, b"code")
    store.put(OTHER, b"")
    file(store).rename(file(store, OTHER))
    assert store.get(OTHER) is None


def test_what_others_could_have_written_is_not_believed(store: Store) -> None:
    store.put(KEY, b"code")
    file(store).chmod(0o666)
    assert store.get(KEY) is None and not file(store).exists()


def test_links_and_directories_are_no_entries(store: Store, tmp_path: Path) -> None:
    store.put(KEY, b"code")
    elsewhere = file(store).rename(tmp_path / "elsewhere")
    file(store).symlink_to(elsewhere)
    assert store.get(KEY) is None and store.entries() == []
    file(store).unlink()
    file(store).mkdir()
    assert store.get(KEY) is None
    with pytest.warns(tc.CacheNotice, match="cannot be written"):
        store.put(KEY, b"code")
    file(store, OTHER).parent.mkdir()
    os.mkfifo(file(store, OTHER))
    assert store.get(OTHER) is None


# ---- at the same time


@pytest.mark.parametrize("limit", [1 << 30, 400_000], ids=["roomy", "tight"])
def test_processes_and_threads_at_once(tmp_path: Path, limit: int) -> None:
    directory = str(tmp_path / "kernels")
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        wrong = pool.starmap(writers.work, [(directory, limit, seed) for seed in range(3)])
    assert wrong == [[], [], []]
    store = Store(directory)
    assert not [n for n in files(store) if n.startswith(".new-")]
    for entry in store.entries():
        assert store.get(entry.key) == writers.blob(entry.key)


def test_a_writer_that_fails_leaves_the_old_entry(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(KEY, b"old")

    def interrupted(*paths: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.put(KEY, b"new")
    assert store.get(KEY) == b"old" and files(store) == [KEY[2:]]


# ---- the limit


def aged(store: Store, key: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(file(store, key), (then, then))


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "kernels", limit=5000)
    keys = [digest(n) for n in range(5)]
    for n, key in enumerate(keys):
        store.put(key, bytes(900))
        aged(store, key, 1000 - n)
    assert store.get(keys[0]) is not None  # used: now the youngest
    store.put(digest("more"), bytes(900))
    assert {e.key for e in store.entries()} == {keys[0], keys[4], digest("more")}
    assert store.size() <= 5000 * 3 // 4


def test_what_is_larger_than_the_limit_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "kernels", limit=1000)
    store.put(KEY, bytes(1000))
    assert store.get(KEY) is None and store.entries() == []


def test_the_limit_is_looked_at_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "kernels", limit=1 << 20)
    looks: list[int] = []
    monkeypatch.setattr(store, "evict", lambda: looks.append(1))
    store._random.seed(1)
    for n in range(600):
        store.put(digest(n % 7), bytes(1000))
    assert 1 <= len(looks) <= 30  # 600 * 16 * 1084 / 2**20 is 10


def test_reading_counts_as_use(store: Store) -> None:
    store.put(KEY, b"")
    aged(store, KEY, 1000)
    store.get(KEY)
    assert time.time() - store.entries()[0].used < 500
    aged(store, KEY, 10)
    before = store.entries()[0].used
    store.get(KEY)
    assert store.entries()[0].used == before  # too soon to be worth a write


def test_what_writers_left_behind_goes(store: Store) -> None:
    store.put(KEY, b"")
    fresh, old = file(store).with_name(".new-1-a"), file(store).with_name(".new-1-b")
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    store.evict()
    assert fresh.exists() and not old.exists() and store.get(KEY) == b""


def test_clearing_removes_entries_and_nothing_else(store: Store) -> None:
    for n in range(20):
        store.put(digest(n), b"")
    kept = [
        store.directory / "notes.txt",
        file(store, digest(0)).with_name("notes"),
        store.directory / "zz" / "x",
    ]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    assert store.clear() == 20 and store.clear() == 0
    assert all(p.exists() for p in kept) and store.entries() == []
    assert sorted(p.name for p in store.directory.iterdir()) == sorted(["notes.txt", "zz", digest(0)[:2]])


# ---- directories that cannot or must not be used


def noticed(store: Store, match: str) -> None:
    """The first use warns, once; nothing is kept and nothing fails."""
    with pytest.warns(tc.CacheNotice, match=match) as caught:
        store.put(KEY, b"code")
    assert len(caught) == 1
    store.put(KEY, b"code")
    assert store.get(KEY) is None and store.entries() == [] and store.clear() == 0
    store.evict()
    store.discard(KEY)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "mkdir", "replace"])
def test_a_place_that_cannot_be_written(
    store: Store, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    real = getattr(os, call)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if call == "open" and not args[1] & os.O_CREAT:
            return real(*args, **kwargs)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    noticed(store, os.strerror(code))
    assert not store.directory.exists() or files(store) == []


def test_a_full_disk(store: Store) -> None:
    store.put(OTHER, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        with pytest.warns(tc.CacheNotice, match="File too large"):
            store.put(KEY, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(store) == [OTHER[2:]] and store.get(OTHER) == b"old"


def test_reading_needs_no_right_to_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(KEY, b"code")
    aged(store, KEY, 1000)

    def refuse(*args: Any) -> None:
        raise OSError(errno.EROFS, "read only")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(os, "unlink", refuse)
    assert store.get(KEY) == b"code"
    file(store).write_bytes(b"damaged")
    assert store.get(KEY) is None


def test_no_directory_can_be_there() -> None:
    noticed(Store("/dev/null/kernels"), "cannot be used: Not a directory")
    noticed(Store("/dev/null"), "cannot be used: File exists")


def test_a_directory_of_another_user(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(KEY, b"planted")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    noticed(Store(store.directory), "belongs to another user")
    assert store.get(KEY) is None  # looked at before, and the file is not ours any more


def test_a_directory_that_everybody_can_write(store: Store) -> None:
    store.put(KEY, b"planted")
    store.directory.chmod(0o777)
    noticed(Store(store.directory), "can be written by everybody")
    assert file(store).exists()


# ---- settings


def test_the_default_follows_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TC_CACHE_MIB", "3")
    store = stores.default()
    assert store is not None and store is stores.default()
    assert (store.directory, store.limit) == (tmp_path, 3 << 20)
    monkeypatch.setenv("TC_CACHE", "0")
    assert stores.default() is None
    monkeypatch.setenv("TC_CACHE", "1")
    assert stores.default() is store
    monkeypatch.setenv("TC_CACHE_MIB", "")
    assert getattr(stores.default(), "limit", 0) == 1 << 30
    monkeypatch.delenv("TC_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert getattr(stores.default(), "directory", None) == tmp_path / "xdg" / "tensor-comprehensions"


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "1 GiB", "²"])
def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TC_CACHE_MIB", value)
    with pytest.raises(tc.ArgumentError, match="not a number of MiB") as caught:
        stores.default()
    assert caught.value.code == "TC0512"


# ---- keys and blobs


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0
    shown: str = field(default="", compare=False)


@dataclass(frozen=True)
class Place:
    x: int
    y: float = 0.0


DIFFERENT: list[tuple[object, ...]] = [
    (),
    (None,),
    ("",),
    (b"",),
    ("ab",),
    ("a", "b"),
    (("a", "b"),),
    (("a",), "b"),
    (["ab"],),
    (b"ab",),
    (1,),
    (True,),
    (1.0,),
    ("1",),
    (-1,),
    (0.0,),
    (-0.0,),
    (10**5000,),
    (frozenset({"a", "b"}),),
    ({"a": "b"},),
    ({"b": "a"},),
    (Point(1),),
    (Place(1),),
    (Point(1, 2.0),),
    (Variant(),),
    (Variant(given=frozenset({"C"})),),
    (Variant(integers=(("I", INT32),)),),
    (Variant(integers=(("I", FLOAT32),)),),
    (tc.Options(),),
    (tc.Options(strict=True),),
]


def test_digests_differ_where_parts_do() -> None:
    assert len({digest(*parts) for parts in DIFFERENT}) == len(DIFFERENT)


def test_digests_are_equal_where_parts_are() -> None:
    assert digest("a", 1) == "3b3937cd32b14ce1b7e85f7d21deea8a312083f874d83a69eb888de09723a66b"
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(frozenset("abc")) == digest(set("cba"))
    assert digest(Point(1, shown="here")) == digest(Point(1, shown="there"))


@pytest.mark.parametrize("part", [object(), Point, (1, object()), 1j, len])
def test_what_has_no_canonical_form_is_refused(part: object) -> None:
    with pytest.raises(TypeError, match="no canonical form"):
        digest(part)


def test_packing() -> None:
    facts = {"workspace": 64, "names": ["kernel"], "release": True}
    for code in (b"", b"\0\1\xff" * 100):
        assert unpack(pack(facts, code)) == (facts, code)
    whole = pack(facts, b"")
    for bad in (b"", b"\1\0", whole[:-1], b"\2\0\0\0[]", b"\4\0\0\0null", b"\2\0\0\0\xff\xff"):
        with pytest.raises(ValueError):
            unpack(bad)


@pytest.mark.parametrize("ending", ["py", "lark", "sac"])
def test_an_edit_of_a_source_shows(tmp_path: Path, ending: str) -> None:
    def now() -> str:
        sources.cache_clear()
        return sources(str(tmp_path))

    (tmp_path / "inner" / "__pycache__").mkdir(parents=True)
    a, b = tmp_path / f"a.{ending}", tmp_path / "inner" / f"b.{ending}"
    a.write_text("x = 1\n")
    b.write_text("y = 1\n")
    seen = [now()]
    assert now() == seen[0]
    (tmp_path / "inner" / "__pycache__" / "b.py").write_text("")
    (tmp_path / ".#a.py").symlink_to("nowhere")
    (tmp_path / "notes.txt").write_text("")
    assert now() == seen[0]
    status = b.stat()
    b.write_text("y = 2\n")
    os.utime(b, ns=(status.st_atime_ns, status.st_mtime_ns))
    seen.append(now())
    b.rename(tmp_path / "inner" / f"c.{ending}")
    seen.append(now())
    a.unlink()
    seen.append(now())
    assert len(set(seen)) == 4
    a.write_text("x = 1\n")
    (tmp_path / "inner" / f"c.{ending}").rename(b)
    b.write_text("y = 1\n")
    assert now() == seen[0]  # the contents count

"""The compile cache: one making per key, failures forgotten, the least recently used dropped."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tc.cache.memory import CompileCache


def test_a_value_is_made_once_however_many_ask() -> None:
    cache: CompileCache[object] = CompileCache()
    made: list[int] = []
    barrier = threading.Barrier(8)

    def make() -> object:
        made.append(1)
        time.sleep(0.02)
        return object()

    def ask(_: int) -> object:
        barrier.wait()
        return cache.get("key", make)

    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(ask, range(8)))
    assert len(made) == 1 and len(set(map(id, values))) == 1
    assert (cache.misses, cache.hits) == (1, 7)


def test_a_failure_is_not_remembered() -> None:
    cache: CompileCache[int] = CompileCache()
    with pytest.raises(ZeroDivisionError):
        cache.get("key", lambda: 1 // 0)
    assert cache.get("key", lambda: 5) == 5


def test_the_least_recently_used_goes_first() -> None:
    cache: CompileCache[int] = CompileCache(capacity=2)
    made: list[str] = []

    def value(key: str) -> int:
        def make() -> int:
            made.append(key)
            return len(made)

        return cache.get(key, make)

    for key in ("a", "b", "a", "c", "a", "b"):
        value(key)
    assert made == ["a", "b", "c", "b"]
    cache.clear()
    value("a")
    assert made[-1] == "a"


def test_keys_are_made_at_the_same_time() -> None:
    cache: CompileCache[int] = CompileCache()
    both = threading.Barrier(2, timeout=5)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda k: cache.get(k, lambda: both.wait() * 0 + k), (1, 2))) == [1, 2]

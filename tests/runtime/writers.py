"""What the processes of test_store do: put, get, evict and clear the same few entries, all at once."""

from __future__ import annotations

import random
import threading
import warnings

from tc.cache.disk import Store, digest

KEYS = [digest("entry", n) for n in range(12)]


def blob(key: str) -> bytes:
    """The one blob of a key; sizes from 0 to some hundred kilobytes."""
    n = int(key[:4], 16) * 4
    return (bytes.fromhex(key) * (n // 32 + 1))[:n] if n % 5 else b""


def work(directory: str, limit: int, seed: int) -> list[str]:
    """Three threads on one store; what went wrong, and nothing if nothing did."""
    warnings.simplefilter("error")  # no writer may be in another's way
    store = Store(directory, limit)
    wrong: list[str] = []

    def run(thread: int) -> None:
        rng = random.Random(f"{seed} {thread}")
        try:
            for step in range(150):
                key = rng.choice(KEYS)
                if rng.random() < 0.5:
                    store.put(key, blob(key))
                else:
                    found = store.get(key)
                    if found is not None and found != blob(key):
                        wrong.append(f"{key} holds {len(found)} other bytes")
                if step % 50 == 49 and thread == 0:
                    store.clear()
                    store.evict()
                    store.entries()
        except BaseException as e:
            wrong.append(repr(e))

    threads = [threading.Thread(target=run, args=(t,)) for t in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return wrong

"""What `make test` does of tests that are many alike: a share of them, the same every time.  `make test-all`
does all of it (TC_TESTS=all).

`examples(n)` is for hypothesis.  Of parametrised tests `@pytest.mark.share(k)` runs a k-th part: which one,
the names of the tests decide, so that it is spread over the values of every parameter.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable

import pytest

ALL = os.environ.get("TC_TESTS") == "all"


def examples(n: int, of: int = 3) -> int:
    """How many of `n` examples there are in this run."""
    return n if ALL else -(-n // of)


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Mark what is not in this run's share as slow."""
    alike: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for x in items:
        if x.get_closest_marker("share") is not None:
            alike[x.nodeid.split("[")[0]].append(x)
    for found in alike.values():
        found.sort(key=lambda x: zlib.crc32(x.nodeid.encode()))
        for x in found[examples(len(found), _of(found[0])) :]:
            x.add_marker(pytest.mark.slow)


def _of(x: pytest.Item) -> int:
    marker = x.get_closest_marker("share")
    assert marker is not None
    (of,) = marker.args
    return of

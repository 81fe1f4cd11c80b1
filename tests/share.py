"""What `make test` does of tests that are many alike: a share of them, the same every time.  `make test-all`
does all of it (TC_TESTS=all).

`examples(n)` is for hypothesis.  Of parametrised tests `@pytest.mark.share(k)` runs a k-th part: one in
which as many values of each parameter occur as can be, and among equal ones the names of the tests decide.
Without a mark, a tenth of those run that generate code and of which there are more than a few.  Oracles
follow the passes in every third one of those that run; the results are compared in all of them.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

_FEW = 3
_PART = 10
_VERIFIED = 3
_JUDGED = frozenset(("backends", "conformance", "simt"))  # folders whose tests compare results
_GENERATE_CODE = frozenset(("backends", "codegen", "conformance", "ir", "poly", "simt"))  # folders
ALL = os.environ.get("TC_TESTS") == "all"


def examples(n: int, of: int = 3) -> int:
    """How many of `n` examples there are in this run."""
    return n if ALL else -(-n // of)


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Mark what is not in this run's share as slow.  What is slow anyway is not among what is shared."""
    alike: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for x in items:
        if "[" in x.nodeid and x.get_closest_marker("slow") is None:
            alike[x.nodeid.split("[")[0]].append(x)
    for found in alike.values():
        kept = set(found)
        if found[0].get_closest_marker("share") is not None or _are_many(found):
            kept = _spread(found, examples(len(found), _of(found[0])))
        for x in found:
            if x not in kept:
                x.add_marker(pytest.mark.slow)
        if not ALL and found[0].path.parent.name in _JUDGED:
            ran = [x for x in found if x in kept]
            for x in set(ran) - _spread(ran, -(-len(ran) // _VERIFIED)):
                x.add_marker(pytest.mark.unverified)


def _are_many(found: Sequence[pytest.Item]) -> bool:
    return len(found) > _FEW and found[0].path.parent.name in _GENERATE_CODE


def _spread(found: Iterable[pytest.Item], count: int) -> set[pytest.Item]:
    """So many of the tests, that have as many values of each parameter as can be."""
    left = sorted(found, key=lambda x: zlib.crc32(x.nodeid.encode()))
    kept: set[pytest.Item] = set()
    seen: set[tuple[str, object]] = set()
    while len(kept) < count:
        best = max(left, key=lambda x: len(_values(x) - seen))  # the first of equal ones
        if not _values(best) - seen:
            seen.clear()
            best = left[0]
        seen |= _values(best)
        left.remove(best)
        kept.add(best)
    return kept


def _values(x: pytest.Item) -> set[tuple[str, object]]:
    """The parameters of a test, each with its value, or with what tells it from others."""
    assert isinstance(x, pytest.Function)
    return {(n, v if isinstance(v, str | int | float) else id(v)) for n, v in x.callspec.params.items()}


def _of(x: pytest.Item) -> int:
    marker = x.get_closest_marker("share")
    return _PART if marker is None else marker.args[0]

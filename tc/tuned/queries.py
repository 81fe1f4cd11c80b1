"""What follows from records: the winner of a program at a place, what is known of options, an export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tc.errors import Error
from tc.options import Options
from tc.tuned.pairs import Paired
from tc.tuned.records import Record


def pooled(records: Iterable[Record]) -> dict[Options, Record]:
    """What is known of each legal set of options, whatever sessions it is from: a failure if there was one,
    else the latest measurement."""
    out: dict[Options, Record] = {}
    for r in sorted(records, key=lambda r: r.time):
        try:
            options = r.chosen()
        except Error:
            continue
        before = out.get(options)
        failed = before is not None and before.status not in ("ok", "pruned")
        if not failed and not (before is not None and r.status == "pruned"):
            out[options] = r
    return out


def winner(records: Iterable[Record]) -> Record | None:
    """The best of the records of one program at one place; None where nothing says that it beats the default.

    That is the latest which won its paired rounds, or which was confirmed when a search ended (this may be
    the default).  What failed later is never the best.
    """
    best: Record | None = None
    spoiled: set[str] = set()
    ordered = sorted(records, key=lambda r: r.time)
    for r in ordered:
        if r.status not in ("ok", "pruned"):
            spoiled.add(_key(r))
    for r in ordered:
        if r.status == "ok" and r.ns and _key(r) not in spoiled and (r.origin == "confirm" or won(r)):
            best = r
    return best


def won(r: Record) -> bool:
    """Whether a record's rounds show that it is faster than what it was interleaved with."""
    return bool(r.ref_ns) and len(r.ref_ns) == len(r.ns) and Paired(r.ns, r.ref_ns).won


def _key(r: Record) -> str:
    return json.dumps(dict(r.options), sort_keys=True)


def groups(records: Iterable[Record]) -> dict[tuple[Any, ...], list[Record]]:
    """Records by what their times can be compared within: program, sizes, place."""
    out: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        fixed = json.dumps(dict(r.fixed), sort_keys=True)
        place = (r.program, r.extents, r.values, r.dynamic, r.backend, r.machine, fixed)
        out.setdefault(place, []).append(r)
    return out


_INVALIDITY: Mapping[str, str] = {
    "ok": "correct",
    "wrong": "correctness",
    "hang": "timeout",
    "refused": "compile",
    "pruned": "constraints",
}


def export(records: Iterable[Record]) -> dict[str, Any]:
    """The records in the interchange format of auto-tuning results (T4, version 1.0.0)."""
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
            "invalidity": _INVALIDITY.get(r.status, "runtime"),
            "correctness": int(r.status == "ok"),
            "measurements": [{"name": "time", "value": r.median / 1e6, "unit": "milliseconds"}]
            if r.median is not None
            else [],
        }
        for r in records
    ]
    return {"schema_version": "1.0.0", "results": results}

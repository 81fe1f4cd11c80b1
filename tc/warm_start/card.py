"""Cards: the calls of a kernel that a new process can make at once, in the store of compiled kernels.

A card belongs to a call of `tc.compile`, whose name `tc.warm_start.key` makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tc.cache import disk
from tc.runtime.call_spec import CallSpec
from tc.warm_start.warnings import SavedWarning

MOST = 16  # calls of a card

Known = tuple[tuple[str, int, str], ...]


@dataclass(frozen=True)
class Place:
    """The name of a card.  With `instance` its calls are of instances of a kernel that leaves types or ranks
    open."""

    name: str
    instance: bool = False


@dataclass(frozen=True)
class SavedCall:
    """A kernel and the exact arguments that it is for.

    `sizes`, `scalars`, `integers` (types of arrays that came in another integer type than declared) and
    `given` (results that start from the caller's buffer) are those of `tc.kernel.Kernel.ready`; `dynamic`
    are the values of its dynamic sizes.  `known` says which instance it is of a kernel that leaves types or
    ranks open.  `warnings` are issued at the first such call.  `code` is an object file, `function` the name
    of the kernel in it; `workspace` is in bytes.
    """

    spec: CallSpec
    workspace: int
    release_gil: bool
    sizes: Mapping[str, int]
    scalars: Mapping[str, int]
    dynamic: tuple[int, ...]
    integers: Mapping[str, str]
    given: tuple[str, ...]
    known: Known
    warnings: tuple[SavedWarning, ...]
    function: str
    code: bytes = field(repr=False)


@dataclass(frozen=True)
class Card:
    """The calls of a kernel, those made last in front, and what `tc.compile` warns of.  `open`: the kernel
    leaves types or ranks open."""

    open: bool
    warnings: tuple[SavedWarning, ...]
    calls: tuple[SavedCall, ...]


def read(name: str) -> Card | None:
    """The card of this name, if there is one."""
    kept = disk.default()
    blob = None if kept is None else kept.get(name)
    if blob is None:
        return None
    try:
        facts, codes = disk.unpack(blob)
        calls = tuple(_call(f, codes) for f in facts["calls"])
        return Card(bool(facts["open"]), _warnings(facts["warnings"]), calls) if calls else None
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def add(place: Place, warnings: tuple[SavedWarning, ...], call: SavedCall) -> None:
    """Put a call on a card, in front; the oldest one makes room."""
    kept = disk.default()
    if kept is None:
        return
    before = read(place.name)
    others = before.calls if before is not None else ()
    calls = [call, *(c for c in others if c.spec != call.spec)][:MOST]
    codes: dict[bytes, int] = {}  # calls at dynamic sizes have one
    end = 0
    for c in calls:
        if c.code not in codes:
            codes[c.code] = end
            end += len(c.code)
    facts = {
        "open": place.instance,
        "warnings": [vars(w) for w in warnings],
        "calls": [_facts(c, codes[c.code]) for c in calls],
    }
    kept.put(place.name, disk.pack(facts, b"".join(codes)))


def _facts(c: SavedCall, at: int) -> dict[str, Any]:
    s = c.spec
    return {
        "name": s.name,
        "inputs": s.inputs,
        "outputs": s.outputs,
        "parameters": s.parameters,
        "results": s.results,
        "workspace": c.workspace,
        "release_gil": c.release_gil,
        "sizes": dict(c.sizes),
        "scalars": dict(c.scalars),
        "dynamic": c.dynamic,
        "integers": dict(c.integers),
        "given": c.given,
        "known": c.known,
        "warnings": [vars(w) for w in c.warnings],
        "function": c.function,
        "code": [at, len(c.code)],
    }


def _call(f: Mapping[str, Any], codes: bytes) -> SavedCall:
    at, length = f["code"]
    if at + length > len(codes):
        raise ValueError("the code is cut off")
    spec = CallSpec(
        f["name"],
        tuple((kind, code, bits, tuple(x) if kind == "tensor" else x) for kind, code, bits, x in f["inputs"]),
        tuple((code, bits, tuple(shape), inout) for code, bits, shape, inout in f["outputs"]),
        tuple(f["parameters"]),
        tuple(f["results"]),
    )
    return SavedCall(
        spec,
        f["workspace"],
        f["release_gil"],
        f["sizes"],
        f["scalars"],
        tuple(f["dynamic"]),
        f["integers"],
        tuple(f["given"]),
        tuple((name, rank, dtype) for name, rank, dtype in f["known"]),
        _warnings(f["warnings"]),
        f["function"],
        codes[at : at + length],
    )


def _warnings(facts: Sequence[Mapping[str, Any]]) -> tuple[SavedWarning, ...]:
    return tuple(SavedWarning.of_facts(w) for w in facts)

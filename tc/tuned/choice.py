"""The options cache: which options a kernel takes that was tuned before, here or at near sizes.

    exact    the same program, sizes, types, backend and machine: the winner
    near     of the winners at near sizes, by the sum of |log2| of the ratios of extents, tiles rescaled: the
             one that is expected to be fastest, and not slower than the default.  That is what the model
             predicts, corrected by what it got wrong where the winner was measured
    nothing  the backend's model chooses

`TC_TUNED=exact` keeps to the first, `TC_TUNED=off` to the last.  Records of other machines are never used.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tc.errors import ArgumentError, Error
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import Front
from tc.pipeline.target import Backend
from tc.support import locks, settings
from tc.tuned.key import ProgramKey, program_key
from tc.tuned.queries import winner
from tc.tuned.records import Record, Records, Scan, joined, scan_file
from tc.tuned.target import Tunable, machine_name

TUNED_AWAY = ("strict", "fast_math", "isa", "machine", "mapping")  # options that no tuner changes
FARTHEST = 8.0  # doublings, in all sizes together, up to which sizes are near
_SLACK = 1.02  # expected time over that of the default, up to which near options are taken
_BETTER = 0.97  # expected time, over that of nearer options, from which farther ones are taken


@dataclass(frozen=True, slots=True)
class Choice:
    """Options from records, and a line that says from where."""

    options: Options
    note: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel runs: what records must agree in to be about it, but for sizes."""

    key: ProgramKey
    backend: str
    machine: str
    fixed: Mapping[str, object]
    dynamic: tuple[str, ...]

    def has(self, r: Record) -> bool:
        return (
            r.program == self.key.digest
            and r.backend == self.backend
            and r.machine == self.machine
            and dict(r.fixed) == dict(self.fixed)
            and tuple(r.dynamic) == self.dynamic
        )


def fixed_options(options: Options) -> dict[str, object]:
    """What is said in options that a tuner leaves alone, as plain data."""
    return {k: v for k, v in json.loads(options.replace(fusion=None).to_json()).items() if k in TUNED_AWAY}


def place_of(front: Front, backend: Backend, options: Options, dynamic: Sequence[str] = ()) -> Place | None:
    """Where a kernel with these options is; None for a backend that cannot be tuned."""
    if not isinstance(backend, Tunable):
        return None
    key = program_key(front)
    numbers = {n: str(i) for i, n in enumerate(key.sizes)}
    machine = machine_name(backend.limits(options))
    wide = tuple(sorted(numbers[n] for n in dynamic))
    return Place(key, backend.name, machine, fixed_options(options), wide)


def mode() -> str:
    """What `TC_TUNED` says: "near", "exact" or "off"."""
    text = os.environ.get("TC_TUNED", "") or "near"
    if text not in ("near", "exact", "off"):
        raise ArgumentError(
            f"the environment variable TC_TUNED={text!r} is not valid",
            code="TC0512",
            help="set it to near, exact or off",
        )
    return text


# ---- records, read once


_read: dict[str, tuple[object, Scan]] = {}
_lock = locks.lock()


def scan(directory: str | os.PathLike[str]) -> Scan:
    """The records of a directory; a file is read again only if it has changed."""
    found: list[Scan] = []
    for path in Records(directory).files():
        try:
            status = path.stat()
        except OSError:
            continue
        now = (status.st_ino, status.st_size, status.st_mtime_ns)
        with _lock:
            known = _read.get(str(path))
        if known is None or known[0] != now:
            known = (now, scan_file(path))
            with _lock:
                _read[str(path)] = known
        found.append(known[1])
    return joined(found)


# ---- the choice


def choose(
    front: Front,
    backend: Backend,
    options: Options,
    sizes: Mapping[str, int],
    scalars: Mapping[str, int],
    program: Callable[[], Program | None],
    dynamic: Sequence[str] = (),
) -> Choice | None:
    """The options that records have for a kernel that was given none to tune; None where there are none.

    `program` makes the program at these sizes, for the model's opinion of near ones.  Nothing is ever run,
    and nothing in a records directory can make this fail.
    """
    how = mode()
    if how == "off" or any(n not in TUNED_AWAY for n in options.changed()):
        return None
    known = scan(settings.records_directory()).records
    place = place_of(front, backend, options, dynamic) if known else None
    if place is None:
        return None
    wanted, values = place.key.extents(sizes), place.key.values(scalars)
    taken: tuple[Choice, float] | None = None
    model: _Model | None = None
    by_sizes: dict[tuple[int, ...], list[Record]] = {}
    for r in known:
        if place.has(r) and r.values == values and len(r.extents) == len(wanted):
            by_sizes.setdefault(r.extents, []).append(r)
    for extents in sorted(by_sizes, key=lambda e: (distance(e, wanted), e)):
        far = distance(extents, wanted)
        if far > (FARTHEST if how == "near" else 0.0):
            break
        best = winner(by_sizes[extents])
        if best is None:
            continue
        try:
            found = best.chosen()
            if not far:
                return Choice(found, _note(best, sizes, exact=True))
            model = model or _model(backend, program(), options)
            if model is None:
                return None
            near = _near(best, found, by_sizes[extents], model)
        except Error:
            continue  # options that are no longer legal
        if near is not None and near[1] <= _SLACK and (taken is None or near[1] < _BETTER * taken[1]):
            taken = (Choice(near[0], _note(best, sizes, exact=False)), near[1])
    return None if taken is None else taken[0]


@dataclass(frozen=True, slots=True)
class _Model:
    """What the backend's model says of a program; options that several places have are predicted once."""

    backend: Tunable
    program: Program
    default: Options
    loops: tuple[int, ...]
    costs: dict[Options, float | None] = field(default_factory=dict[Options, float | None])

    def cost(self, options: Options) -> float | None:
        if options not in self.costs:
            self.costs[options] = self.backend.predict(self.program, options)
        return self.costs[options]


def _model(backend: Backend, program: Program | None, default: Options) -> _Model | None:
    """None for a backend without a model, or without a program to ask it about."""
    if program is None or not isinstance(backend, Tunable):
        return None
    return _Model(backend, program, default, tuple(backend.loops(program, default)))


def _near(r: Record, found: Options, place: Sequence[Record], model: _Model) -> tuple[Options, float] | None:
    """The options of a record for a program of other sizes, and the time that is expected of them over that
    of the default; None where the model has no opinion.  `place` are all records of where it was measured."""
    scaled = rescaled(found, r.loops, model.loops)
    if scaled == model.default:
        return scaled, 1.0
    cost, usual = model.cost(scaled), model.cost(model.default)
    return None if not cost or not usual else (scaled, cost / usual * _correction(r, place))


def _correction(winner: Record, place: Sequence[Record]) -> float:
    """Measured over predicted times of a winner, both over those of the default; 1 where a search did not
    note them."""
    usual = dict(winner.fixed)
    predicted = {"won": 0.0, "default": 0.0}
    for r in place:
        for name, options in (("won", dict(winner.options)), ("default", usual)):
            if dict(r.options) == options and r.predicted:
                predicted[name] = r.predicted
    beside_default = dict(winner.ref) == usual and winner.ratio is not None
    if not (beside_default and all(predicted.values())):
        return 1.0
    assert winner.ratio is not None
    return winner.ratio * predicted["default"] / predicted["won"]


def distance(a: Sequence[int], b: Sequence[int]) -> float:
    """How far sizes lie apart: in doublings, all sizes together."""
    return sum(abs(math.log2(max(1, x) / max(1, y))) for x, y in zip(a, b, strict=True))


def rescaled(options: Options, before: Sequence[int], now: Sequence[int]) -> Options:
    """Options that were found where loops had the extents `before`, for loops of other extents: a tile of a
    whole loop stays one, others end with the loop."""
    if len(before) != len(now):
        return options

    def tile(t: int, i: int) -> int:
        if i >= len(now):
            return t
        return max(1, now[i] if t >= before[i] else min(t, now[i]))

    if options.tile is None:
        return options
    return options.replace(tile=tuple(tile(t, i) for i, t in enumerate(options.tile)))


def _note(r: Record, sizes: Mapping[str, int], *, exact: bool) -> str:
    at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
    if not r.options or dict(r.options) == dict(r.fixed):
        what = "the default options, which no others beat"
    else:
        shown = ", ".join(f"{k}={v}" for k, v in r.options.items() if k not in r.fixed)
        what = f"tuned options ({shown})"
    if exact:
        return f"at {at}: {what}, from records"
    other = ", ".join(f"{n} = {v}" for n, v in r.sizes.items()) or str(r.extents)
    return f"at {at}: {what}, from records of near sizes ({other})"

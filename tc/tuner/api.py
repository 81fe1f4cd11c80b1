"""`tc.tune` and `kernel.tune`."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from tc import __version__
from tc.api import compile_source
from tc.errors import ArgumentError, BackendError, Error, Source
from tc.instances.kernel_signature import signature
from tc.kernel import Kernel
from tc.options import Dynamic, Options
from tc.pipeline.load import versions
from tc.support import settings as environment
from tc.tuned.choice import Place, distance, place_of, rescaled, scan
from tc.tuned.queries import pooled, winner
from tc.tuned.records import Record, Records
from tc.tuned.target import Tunable
from tc.tuner import strategies
from tc.tuner.child import Job
from tc.tuner.data import make_arguments
from tc.tuner.display import display
from tc.tuner.farm import Farm
from tc.tuner.search import Search
from tc.tuner.session import Session
from tc.tuner.settings import Settings, settings
from tc.tuner.space import Point, Space, space_for
from tc.tuner.tuned import Tuned

_RANKED = 48  # candidates that the model ranks
_HINTS = 8  # records of other places that a search starts from
_DRAWS_SECONDS = 2.0  # for predictions of random points, where a backend names no candidates


def tune(
    src: str,
    arguments: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    sizes: Mapping[str, Any] | Sequence[Mapping[str, int]] | None = None,
    backend: str | None = None,
    entry: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    dynamic: Dynamic = (),
    types: Mapping[str, str] | None = None,
    out: Any = None,
    **more: Any,
) -> Any:
    """Find faster options for a program than the backend's model chooses, by measuring.

    Give arrays as `arguments` (by name or in order; `out` starts in/out results), or `sizes` for random ones:
    `{"M": 512}`, several of them in a list, or ranges of values, `{"M": [256, 512]}`, of which all
    combinations share the budget.  Returns a `Tuned`, and a tuple of them for several sizes.  All that
    candidates have are the `options` given; `types` are the element types of type variables.  Other settings
    are those of `tc.tuner.settings.Settings`.

    Raises BackendError TC0812 for a backend that cannot be tuned.
    """
    given = settings(more)
    if isinstance(options, Mapping):
        options = Options.from_mapping(options)
    kernel = compile_source(Source(src), backend, entry, options, dynamic=dynamic, types=types)
    if arguments is not None:
        named = isinstance(arguments, Mapping)
        args = () if named else tuple(arguments)
        kwargs = dict(arguments) if isinstance(arguments, Mapping) else {}
        return run(kernel, args, kwargs, out, given)
    if sizes is None:
        raise ArgumentError("no arguments to tune for", code="TC0513", help="pass arrays, or sizes={…}")
    wanted, several = combinations(sizes)
    share = replace(given, budget=None if given.budget is None else given.budget / len(wanted))
    found = [tune_sizes(kernel, at, {}, share) for at in wanted]
    return tuple(found) if several else found[0]


def tune_kernel(kernel: Kernel, args: Sequence[Any], more: Mapping[str, Any]) -> Tuned:
    """`kernel.tune(A, B, budget=60)`."""
    rest = dict(more)
    names = [p.name for p in kernel.__signature__.parameters.values()]
    kwargs = {n: rest.pop(n) for n in names if n in rest and n != "out"}
    return run(kernel, tuple(args), kwargs, rest.pop("out", None), settings(rest))


def tune_sizes(kernel: Any, sizes: Mapping[str, int], scalars: Mapping[str, Any], given: Settings) -> Tuned:
    """Tune a kernel with random arguments of these sizes."""
    arguments, buffers = make_arguments(kernel, sizes, scalars, {}, given.seed)
    return run(kernel, (), arguments, buffers or None, given)


def combinations(sizes: Any) -> tuple[list[dict[str, int]], bool]:
    """The sizes that are meant, and whether these are several."""
    if not isinstance(sizes, Mapping):
        found = [dict(cast("Mapping[str, int]", s)) for s in cast("Sequence[Any]", sizes)]
        if not found:
            raise ArgumentError("sizes=[] names none", code="TC0513", help='write sizes=[{"M": 512}, …]')
        return found, True
    given = cast("Mapping[str, Any]", sizes)
    several = {
        n: list(cast("Sequence[int]", v)) for n, v in given.items() if isinstance(v, (range, list, tuple))
    }
    lists = [several.get(n, [given[n]]) for n in given]
    return [dict(zip(given, values)) for values in itertools.product(*lists)], bool(several)


# ---- one search


@dataclass(frozen=True)
class Plan:
    """All that a search has before its candidates run."""

    kernel: Kernel
    backend: Any
    place: Place
    job: Job
    space: Space
    template: Record
    records: Records | None
    known: dict[Options, Record]
    start: tuple[Options, ...]
    ranked: Callable[[], Sequence[Point]]


def run(kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, given: Settings) -> Tuned:
    """A whole search."""
    begun = time.monotonic()
    plan = planned(kernel, args, kwargs, out, given)
    space = plan.space
    points = [p for o in plan.start if (p := space.point(o)) is not None]
    strategy = strategies.make(given.strategy, space, given.seed, plan.ranked, points, given.genetic)
    backend = plan.backend
    unit = backend.cost_unit if isinstance(backend, Tunable) else "cycles"
    with display(given.show, kernel.name, unit) as show:
        search = Search(
            space,
            strategy,
            given.limits,
            plan.template,
            plan.records,
            plan.known,
            begun,
            frozenset(plan.start),
            show,
        )
        if given.client is not None:
            from tc.tuner.distributed import run_on

            run_on(given.client, search, plan.job)
        else:
            with Farm(plan.job, given.limits.memory) as farm:
                Session(search, farm).run()
    return _tuned(plan, search)


def _tuned(plan: Plan, search: Search) -> Tuned:
    kernel, best = plan.kernel, search.best
    asked = kernel.request()
    made = kernel
    if best != kernel.options:
        made = plan.job.kernel(asked.backend or plan.job.backend, best, asked.checks, asked.dynamic)
    return Tuned(
        made,
        best,
        search.default,
        tuple(search.trials),
        search.final,
        search.elapsed,
        plan.job.sizes,
        {g.name: g.values for g in plan.space.genes},
        plan.records.directory if plan.records is not None else None,
        search.interrupted,
    )


def planned(
    kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, given: Settings
) -> Plan:
    """The space of a kernel at a call, and what records say of it."""
    backend: Any = kernel.backend_object
    front, options = kernel.front, kernel.options
    place = place_of(front, backend, options, kernel.dynamic)
    if place is None:
        raise BackendError(
            f"the backend '{backend.name}' has nothing to tune",
            code="TC0812",
            help="cpu, opencl and cuda have",
        )
    job = job_of(kernel, args, kwargs, out, given.seed)
    program = None if kernel.dynamic else kernel.program({**job.sizes, **job.scalars})
    loops = backend.loops(program, options) if program is not None else ()
    limits = backend.limits(options)
    fixed = options.replace(**given.fix) if all(n in backend.options_used for n in given.fix) else options
    ranking: list[tuple[Options, float]] = []
    if program is not None:
        ranking = list(backend.candidates(program, _RANKED, fixed))
    directory = given.directory(environment.records_directory())
    records = Records(directory) if directory is not None else None
    extents, values = place.key.extents(job.sizes), place.key.values(job.scalars)
    mine, hints = _known(records, place, extents, values, loops, given)
    start = (*given.start, *hints)
    include = [*(o for o, _ in ranking), *start]
    space = space_for(backend, loops, extents, options, limits, front.checked.loops, given.fix, include)
    template = Record(
        place.key.digest,
        extents,
        backend.name,
        {},
        "ok",
        values=values,
        fixed=place.fixed,
        sizes=dict(job.sizes),
        dtypes={n: str(a.dtype) for n, a in job.arrays.items() if hasattr(a, "dtype")},
        loops=tuple(loops),
        dynamic=place.dynamic,
        target={k: v for k, v in limits.items() if isinstance(v, (str, int, float))},
        machine=place.machine,
        entry=kernel.name,
        source=kernel.source if len(kernel.source) < 4096 else "",
        session=f"{os.getpid():x}-{time.time_ns():x}",
        seed=given.seed,
        space=space.fingerprint,
        tc=__version__,
        versions=versions()[1][:16],
    )

    def ranked() -> Sequence[Point]:
        points = [p for o, _ in ranking if (p := space.point(o)) is not None]
        return points or _predicted(space, backend, program, given)

    return Plan(kernel, backend, place, job, space, template, records, pooled(mine), start, ranked)


def _predicted(space: Space, backend: Tunable, program: Any, given: Settings) -> list[Point]:
    """Random points in the order of the model's predictions; those it cannot judge at the end."""
    if program is None:
        return []
    import random

    rng = random.Random(given.seed)
    end = time.monotonic() + min(_DRAWS_SECONDS, 0.1 * (given.budget or 20 * _DRAWS_SECONDS))
    costs: dict[Point, float] = {}
    for _ in range(200):
        point = space.draw(rng)
        try:
            cost = backend.predict(program, space.options(point)) if point not in costs else None
        except Error:
            continue
        if cost is not None:
            costs[point] = cost
        if time.monotonic() > end:
            break
    return sorted(costs, key=lambda p: costs[p])[:_RANKED]


def _known(
    records: Records | None,
    place: Place,
    extents: tuple[int, ...],
    values: tuple[int, ...],
    loops: Sequence[int],
    given: Settings,
) -> tuple[list[Record], list[Options]]:
    """What records say of a place, and options to start from: the winner there, then those of near sizes and
    of other machines, the nearest first, which are hints and no more."""
    if records is None or not given.resume:
        return [], []
    mine: list[Record] = []
    others: dict[tuple[str, tuple[int, ...]], list[Record]] = {}
    for r in scan(records.directory).records:
        if r.program != place.key.digest or r.backend != place.backend or len(r.extents) != len(extents):
            continue
        if place.has(r) and r.extents == extents and r.values == values:
            mine.append(r)
        else:
            others.setdefault((r.machine, r.extents), []).append(r)
    found = [winner(mine)]
    far = sorted(others, key=lambda k: (distance(k[1], extents), k[0] != place.machine, k))
    found += [winner(others[k]) for k in far[:_HINTS]]
    hints: list[Options] = []
    for r in found:
        try:
            if r is not None and r.options:
                hints.append(rescaled(r.chosen(), r.loops, loops))
        except Error:
            continue
    return mine, list(dict.fromkeys(hints))


def job_of(kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, seed: int) -> Job:
    """What the children of a search need of a call."""
    bound = signature(kernel.front).bind(args, kwargs if out is None else {**kwargs, "out": out})
    asked = kernel.request()
    dynamic = asked.dynamic
    known: dict[str, int | None] = {}
    if isinstance(dynamic, Mapping):
        known |= cast("Mapping[str, int | None]", dynamic)
    else:
        known |= dict.fromkeys(cast("Sequence[str]", dynamic))
    arrays: dict[str, Any] = {n: np.array(a.array) for n, a in bound.arrays.items()}
    sac = asked.lang == "sac"
    source = asked.source if sac else kernel.tc_source("tune")
    return Job(
        source.text,
        source.name,
        asked.entry,
        kernel.backend,
        asked.checks,
        known,
        dict(bound.sizes),
        bound.integers(kernel.front.specialized),
        Path(),
        {**arrays, **bound.scalars},
        {n: np.array(a.array) for n, a in bound.out.items()},
        seed=seed,
        lang=asked.lang,
        known=asked.known if sac else (),
    )

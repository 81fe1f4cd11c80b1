"""Execution of a launch: all threads of a block run to the next barrier, one by one, before any continues."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.ir.grouping import Grouping
from tc.ir.loops import Combine, Compute, Launch, Sync
from tc.poly.trace.events import Event, OutOfBoundsError, integer
from tc.poly.trace.shared_memory import Memory


@dataclass(frozen=True, slots=True)
class Arrival:
    """A thread waits for the others of its block.  At a write to a replicated element (`Compute`) it waits
    until the others have read the value before."""

    at: Sync | Combine | Compute


Thread = Iterator[Event | Arrival]


def launch(
    s: Launch,
    env: Mapping[str, int],
    memory: Memory,
    begin: Callable[[dict[str, int]], Thread],
    combine: Callable[[Combine, Sequence[tuple[int, int]]], None],
) -> Iterator[Event]:
    """The events of all blocks.  `begin` starts a thread; `combine` gets pairs of a thread and the thread
    that gets its group's result."""
    memory.epoch = memory.step = 0
    for block, block_variables in enumerate(_points([(v, integer(n, env)) for v, n in s.blocks])):
        places = list(_points(s.threads))
        threads = [begin({**env, **block_variables, **place}) for place in places]
        memory.epoch += 1
        while True:
            arrivals: list[Arrival | None] = [None for _ in threads]
            running = list(range(len(threads)))
            while running:
                for number in running:
                    memory.block, memory.thread = block, number
                    arrivals[number] = None
                    for event in threads[number]:
                        if isinstance(event, Arrival):
                            arrivals[number] = event
                            break
                        yield event
                running = [i for i, a in enumerate(arrivals) if a is not None and isinstance(a.at, Compute)]
            first = arrivals[0].at if arrivals[0] is not None else None
            if any((None if a is None else a.at) is not first for a in arrivals):
                raise OutOfBoundsError(f"not all threads of a block of {s.name} get to the same barrier")
            if first is None:
                break
            if isinstance(first, Sync):
                memory.step += 1
                memory.epoch += not first.warp
                if first.copies:
                    memory.in_flight.clear()
            if isinstance(first, Combine):
                heads = {tuple(sorted(p.items())): n for n, p in enumerate(places)}
                groups = [heads[tuple(sorted({**p, first.thread: 0}.items()))] for p in places]
                combine(first, list(enumerate(groups)))
                if Grouping.of(s.threads, first.thread, shuffles=True).warps > 1:  # it has a barrier
                    memory.step += 1
                    memory.epoch += 1


def _points(dimensions: Sequence[tuple[str, int]]) -> Iterator[dict[str, int]]:
    """All points of a box; the first variable varies fastest."""
    names = [v for v, _ in reversed(dimensions)]
    for point in itertools.product(*(range(n) for _, n in reversed(dimensions))):
        yield dict(zip(names, point, strict=True))

"""Which of the ways to map a region is best: each is built, and the one of the shortest predicted time taken
(model.py).  Nothing is keyed on names or sizes of programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.ir.loops import Compute, LoopNest, statements
from tc.ir.printer import text
from tc.poly import mapping, nest
from tc.poly.mapping.plan import AxisMap, RegionMap
from tc.poly.mapping.shared import LEAST_REUSE, size_of
from tc.poly.plan import Axis, Region
from tc.poly.scop import Scop

from .model import Prediction, predicted
from .target import Target
from .ways import Wanted, candidates

_CLOSE = 1.2  # what the time of a kernel may be of the ideal one, and nothing else is looked at


@dataclass(frozen=True, slots=True)
class Candidate:
    """A map, the kernel that it makes and what is predicted of it; `free`: the number from which on no array
    of it has a name."""

    way: str
    how: RegionMap
    kernel: mapping.Kernel
    prediction: Prediction
    free: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What was taken, and all that was looked at, the best first."""

    taken: Candidate
    all: Sequence[Candidate]


def choose(
    scop: Scop,
    region: Region,
    title: str,
    wanted: Wanted,
    target: Target,
    typical: Mapping[str, int],
    private: bool,
    first: int,
) -> Choice:
    """The kernel `title` of a region.  `private`: whether threads keep what they work on in registers;
    `first`: the number from which on names of arrays are free.  Use it inside `isl_context()`."""
    found: list[Candidate] = []
    reuse = 1.0 if wanted.copies else LEAST_REUSE

    def placed(how: RegionMap, ahead: bool, shared: int, staged: bool) -> tuple[mapping.Placed, int]:
        numbers = itertools.count(first)

        def name(stem: str) -> str:
            return f"{stem}.{next(numbers)}"

        found = mapping.placed(scop, region, how, name, shared, private, reuse, ahead, staged)
        return found, next(numbers)

    def made(way: str, how: RegionMap, p: mapping.Placed, free: int, shared: int) -> Candidate:
        kernel = mapping.kernel(scop, title, how, mapping.mapped(p))
        way += ", copies ahead" if _ahead(kernel) else ""
        way += f", {shared >> 10} KiB shared" if shared < wanted.shared else ""
        return Candidate(way, how, kernel, _predicted(scop, kernel, target, typical), free)

    def variants(way: str, how: RegionMap) -> Iterator[Candidate]:
        """A way with what may go to shared memory there or not."""
        seen: set[frozenset[tuple[str, int]]] = set()
        for staged in (False, True)[wanted.copies :]:
            p, free = placed(how, target.ahead, wanted.shared, staged)
            if p.copied in seen:
                continue
            seen.add(p.copied)
            name = f"{way}, staged" if staged else way
            yield (most := made(name, how, p, free, wanted.shared))
            plain = most
            if _ahead(most.kernel):  # which takes twice the shared memory
                plain = made(name, how, *placed(how, False, wanted.shared, staged), wanted.shared)
                yield plain
            if max(_shared(most.kernel), _shared(plain.kernel)) > wanted.little:
                yield made(name, how, *placed(how, target.ahead, wanted.little, staged), wanted.little)

    for way, how in candidates(scop, region, wanted, target.units):
        here = list(variants(way, how))
        found += here
        best = min((c.prediction for c in here), key=lambda p: p.seconds)
        if not wanted.copies and best.seconds < _CLOSE * best.ideal(target):
            break

    def order(c: Candidate) -> tuple[bool, list[float]]:
        """Of as many seconds those whose next bound is the lowest."""
        return wanted.copies and not _shared(c.kernel), sorted(c.prediction.bounds.values(), reverse=True)

    found.sort(key=order)
    return Choice(found[0], found)


def _ahead(kernel: mapping.Kernel) -> bool:
    return any(isinstance(s, Compute) and s.asynchronous for s in statements(kernel.launch))


def _shared(kernel: mapping.Kernel) -> int:
    """Bytes of shared memory."""
    return sum(size_of(a) for a in kernel.arrays if a.role == "shared")


def _predicted(scop: Scop, kernel: mapping.Kernel, target: Target, typical: Mapping[str, int]) -> Prediction:
    loops: LoopNest = nest.assemble(scop.program, kernel.launch)
    loops = replace(loops, arrays=(*loops.arrays, *kernel.arrays))
    return predicted(loops, kernel.launch, target, typical)


def told(region: Region, choice: Choice) -> str:
    """A choice as text: the map that was taken, and what is predicted of each."""
    kernel = choice.taken.kernel
    lines = [shown(kernel.launch.name, region, choice.taken.how).rstrip("\n")]
    lines += [f"  {c}" for c in kernel.promoted.splitlines()]
    for c in choice.all:
        p = c.prediction
        mark = "*" if c is choice.taken else " "
        lines.append(f"  {mark} {c.way}: {1e6 * p.seconds:.3g} us, {p.binds} binds")
    return "\n".join(lines) + "\n"


def shown(title: str, region: Region, m: RegionMap) -> str:
    """A map as text: what runs where."""
    blocks = " x ".join(f"{v} < {text(n)}" for v, n in m.blocks) or "1"
    threads = " x ".join(f"{v} < {n}" for v, n in m.threads) or "1"
    lines = [f"{title}: blocks {blocks}, threads {threads}"]

    def axis(a: Axis, how: AxisMap) -> str:
        tile = f" tile {how.tile}" if how.tile else ""
        block = f" on {how.block}" if how.block else ""
        thread = f" on {how.thread}" if how.thread else ""
        return f"{a.name} [{text(a.points)}]{tile}{block}{thread}"

    for n, x in zip(region.nests, m.nests, strict=True):
        lines.append(f"  nest {', '.join(axis(a, x.axes[a.name]) for a in n.axes) or 'of one point'}")
        for p, own in zip(n.phases, x.phases, strict=True):
            inner = ", ".join(axis(a, own[a.name]) for a in p.axes)
            lines.append(f"    {', '.join(p.statements)}{f': {inner}' if inner else ''}")
    return "\n".join(lines) + "\n"

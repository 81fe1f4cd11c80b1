"""Which of the ways to map a region is best: each is built, and the one of the shortest predicted time taken
(model.py).  Nothing is keyed on names or sizes of programs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.ir.loops import LoopNest
from tc.ir.printer import text
from tc.poly import gpu, loop_nest
from tc.poly.gpu.mapping import AxisMap, RegionMap
from tc.poly.gpu.shared import LEAST_REUSE, size_of
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis, Region

from ..cost.model import Prediction, predicted
from ..target import Target
from .candidates import Wanted, candidates, weight

_HOPELESS = 2.5  # what a way may take of the best, and its variants are not looked at
_FEW = 0.1  # of all reads, for which staging is not looked at
_WAITING = 0.5  # of the time of a kernel what it waits, from where on copies ahead are looked at
_APART = 0.5  # of all requests to memory that are for neighbours, below which other ways are looked at
_CLOSE = 1.2  # what the time of a kernel may be of the ideal one, and nothing else is looked at


@dataclass(frozen=True, slots=True)
class Candidate:
    """A map, the kernel that it makes and what is predicted of it; `free`: the number from which on no array
    of it has a name."""

    way: str
    how: RegionMap
    kernel: gpu.Kernel
    prediction: Prediction
    free: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What was taken, and all that was looked at, the best first."""

    taken: Candidate
    all: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses for the regions of `scop`, whose dynamic sizes are those of `typical`.  `private`: whether
    threads keep what they work on in registers.  Use it inside `isl_context()`."""

    scop: Scop
    wanted: Wanted
    target: Target
    typical: Mapping[str, int] = field(hash=False)
    private: bool

    def choose(self, region: Region, first: int) -> Choice:
        """The kernel of a region; from the number `first` on names of arrays are free."""
        wanted, found = self.wanted, list[Candidate]()
        best = math.inf
        fewer, worse = math.inf, False  # seconds with fewer shared points a block; whether more took longer
        for way, how in candidates(self.scop, region, wanted, self.target.units):
            if way.inner and worse:
                continue
            here: list[Candidate] = []
            for c in self.variants(region, way.name, how, first):
                here.append(c)
                best = min(best, c.prediction.seconds)
                if not wanted.copies and c.prediction.seconds > _HOPELESS * best:
                    break  # its variants will not be better than what there is
            found += here
            quickest = min((c.prediction for c in here), key=lambda p: p.seconds)
            if way.inner:
                fewer, worse = quickest.seconds, quickest.seconds >= fewer
            enough = quickest.seconds < _CLOSE * quickest.ideal(self.target) and quickest.coalesced > _APART
            if enough and not wanted.copies:
                break

        def order(c: Candidate) -> tuple[bool, float]:
            """Of as many seconds, to three digits, the one that was looked at first, which is simpler."""
            return wanted.copies and not _shared(c.kernel), float(f"{c.prediction.seconds:.3g}")

        found.sort(key=order)
        return Choice(found[0], found)

    def variants(self, region: Region, way: str, how: RegionMap, first: int) -> Iterator[Candidate]:
        """A way with what may go to shared memory there or not."""
        wanted = self.wanted
        reads = [(s, i) for s in region.statements for i in range(len(self.scop.statement(s).reads))]
        seen: frozenset[tuple[str, int]] | None = None
        for staged in (False, True)[wanted.copies :]:
            p, free = self.placed(region, how, first, False, wanted.shared, staged)
            if seen is not None and _times(region, p.copied - seen) < _FEW * _times(region, reads):
                continue
            seen = p.copied
            name = f"{way}, staged" if staged else way
            most = self.made(name, p, free, wanted.shared)
            yield most
            tried = [p]
            # Copies ahead take twice the shared memory, and help who waits.
            bounds = most.prediction.bounds
            ahead = self.target.ahead and bounds["latency"] > _WAITING * bounds[most.prediction.binds]
            largest = _shared(most.kernel)
            if ahead:
                p, free = self.placed(region, how, first, True, wanted.shared, staged)
                if p.ahead:
                    tried.append(p)
                    yield (c := self.made(name, p, free, wanted.shared))
                    largest = max(largest, _shared(c.kernel))
            if largest > wanted.little:
                p, free = self.placed(region, how, first, ahead, wanted.little, staged)
                if all((p.memory, p.local) != (x.memory, x.local) for x in tried):
                    yield self.made(name, p, free, wanted.little)

    def placed(
        self, region: Region, how: RegionMap, first: int, ahead: bool, shared: int, staged: bool
    ) -> tuple[gpu.Placed, int]:
        """What is where, and the next free number."""
        numbers = itertools.count(first)
        reuse = 1.0 if self.wanted.copies else LEAST_REUSE

        def name(stem: str) -> str:
            return f"{stem}.{next(numbers)}"

        found = gpu.placed(self.scop, region, how, name, shared, self.private, reuse, ahead, staged)
        return found, next(numbers)

    def made(self, way: str, p: gpu.Placed, free: int, shared: int) -> Candidate:
        kernel = gpu.kernel(self.scop, self.scop.program.name, p.how, gpu.mapped(p))
        way += ", copies ahead" if p.ahead else ""
        way += f", {shared >> 10} KiB shared" if shared < self.wanted.shared else ""
        return Candidate(way, p.how, kernel, self.predicted(kernel), free)

    def predicted(self, kernel: gpu.Kernel) -> Prediction:
        loops: LoopNest = loop_nest.assemble(self.scop.program, kernel.launch)
        loops = replace(loops, arrays=(*loops.arrays, *kernel.arrays))
        return predicted(loops, kernel.launch, self.target, self.typical)


def _times(region: Region, reads: Collection[tuple[str, int]]) -> int:
    """About how often these are made."""
    of = {s: n for n in region.nests for s in n.statements}
    return sum(weight(of[s], s) for s, _ in reads)


def _shared(kernel: gpu.Kernel) -> int:
    """Bytes of shared memory."""
    return sum(size_of(a) for a in kernel.arrays if a.role == "shared")


def choice_text(region: Region, choice: Choice) -> str:
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

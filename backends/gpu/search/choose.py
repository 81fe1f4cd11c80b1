"""The choice of a mapping for a region: each candidate is built, and the one with the shortest predicted time
(../cost/model.py) taken.  No decision depends on the name of a program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.ir.lines import traced
from tc.ir.loops import LoopNest
from tc.ir.printer import text
from tc.poly import gpu, loop_nest
from tc.poly.gpu.mapping import AxisMap, RegionMap
from tc.poly.gpu.shared import LEAST_REUSE, CopyPolicy, size_of
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis, Region

from ..cost.model import Prediction, predict
from ..target import Target
from .candidates import candidates, weight
from .schemes import MappingOptions

_PRUNE_FACTOR = 2.5  # times the best time, from which variants of a scheme are not built
_MIN_STAGED_SHARE = 0.1  # of all reads, below which staging is not tried
_LATENCY_SHARE = 0.5  # of the longest bound that latency is, from which double buffering is tried
_MIN_COALESCED = 0.5  # of all global requests; if fewer are coalesced, the search continues
_NEAR_IDEAL = 1.2  # times the ideal time, up to which the search ends


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mapping, its kernel and the prediction for it.  No array of it has a name with a number from `free`
    on."""

    name: str
    mapping: RegionMap
    kernel: gpu.Kernel
    prediction: Prediction
    next_number: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate that was taken, and all that were built, the best first."""

    taken: Candidate
    candidates: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses mappings for the regions of `scop`; `typical` are values of its dynamic sizes.  `private`:
    whether buffers are promoted to registers.  Use it inside `isl_context()`."""

    scop: Scop
    options: MappingOptions
    target: Target
    typical: Mapping[str, int] = field(hash=False)
    private: bool

    def choose(self, region: Region, first: int) -> Choice:
        """The kernel of a region.  Names of arrays with numbers from `first` on are free."""
        options, found = self.options, list[Candidate]()
        best = math.inf
        previous, slower = math.inf, False  # seconds with fewer shared points; whether more took longer
        for scheme, mapping in candidates(self.scop, region, options, self.target.units):
            if scheme.shared_points and slower:
                continue
            variants: list[Candidate] = []
            for c in self.variants(region, scheme.name, mapping, first):
                variants.append(c)
                best = min(best, c.prediction.seconds)
                if not options.require_copies and c.prediction.seconds > _PRUNE_FACTOR * best:
                    break
            found += variants
            fastest = min((c.prediction for c in variants), key=lambda p: p.seconds)
            if scheme.shared_points:
                previous, slower = fastest.seconds, fastest.seconds >= previous
            near_ideal = fastest.seconds < _NEAR_IDEAL * fastest.ideal_seconds(self.target)
            if near_ideal and fastest.coalesced > _MIN_COALESCED and not options.require_copies:
                break

        def sort_key(c: Candidate) -> tuple[bool, float]:
            """Times that are equal to three digits are a tie, which the first candidate wins: it is
            simpler."""
            return options.require_copies and not _shared_bytes(c.kernel), float(
                f"{c.prediction.seconds:.3g}"
            )

        found.sort(key=sort_key)
        return Choice(found[0], found)

    def variants(self, region: Region, scheme: str, mapping: RegionMap, first: int) -> Iterator[Candidate]:
        """The candidates of a scheme: with more or less in shared memory, with and without double
        buffering."""
        options = self.options
        reads = [(s, i) for s in region.statements for i in range(len(self.scop.statement(s).reads))]
        seen: frozenset[tuple[str, int]] | None = None
        for staged in (False, True)[options.require_copies :]:
            p, next_number = self.promote(region, mapping, first, False, options.shared, staged)
            least = _MIN_STAGED_SHARE * _executions(region, reads)
            if seen is not None and _executions(region, p.copied - seen) < least:
                continue
            seen = p.copied
            name = f"{scheme}, staged" if staged else scheme
            simple = self.build(name, p, next_number, options.shared)
            yield simple
            built = [p]
            # Double buffering takes twice the shared memory, and hides latency.
            prediction = simple.prediction
            longest = prediction.bounds[prediction.bottleneck]
            double_buffered = (
                self.target.async_copies and prediction.bounds["latency"] > _LATENCY_SHARE * longest
            )
            used = _shared_bytes(simple.kernel)
            if double_buffered:
                p, next_number = self.promote(region, mapping, first, True, options.shared, staged)
                if p.double_buffered:
                    built.append(p)
                    yield (c := self.build(name, p, next_number, options.shared))
                    used = max(used, _shared_bytes(c.kernel))
            if used > options.small_shared:
                p, next_number = self.promote(
                    region, mapping, first, double_buffered, options.small_shared, staged
                )
                if all((p.shared_reads, p.local) != (x.shared_reads, x.local) for x in built):
                    yield self.build(name, p, next_number, options.small_shared)

    def promote(
        self, region: Region, mapping: RegionMap, first: int, double_buffered: bool, shared: int, staged: bool
    ) -> tuple[gpu.PromotedRegion, int]:
        """The region with promoted buffers, and the next free number of names."""
        numbers = itertools.count(first)
        reuse = 1.0 if self.options.require_copies else LEAST_REUSE

        def name(stem: str) -> str:
            return f"{stem}.{next(numbers)}"

        copies = CopyPolicy(reuse, double_buffered, staged)
        found = gpu.promote(self.scop, region, mapping, name, shared, self.private, copies)
        return found, next(numbers)

    def build(self, name: str, p: gpu.PromotedRegion, next_number: int, shared: int) -> Candidate:
        kernel = gpu.kernel(self.scop, self.scop.program.name, p.mapping, gpu.mapped(p))
        name += ", copies ahead" if p.double_buffered else ""
        name += f", {shared >> 10} KiB shared" if shared < self.options.shared else ""
        return Candidate(name, p.mapping, kernel, self.predict(kernel), next_number)

    def predict(self, kernel: gpu.Kernel) -> Prediction:
        loops: LoopNest = loop_nest.assemble(self.scop.program, kernel.launch)
        loops = replace(loops, arrays=(*loops.arrays, *kernel.arrays))
        return predict(loops, kernel.launch, self.target, self.typical)


def _executions(region: Region, reads: Collection[tuple[str, int]]) -> int:
    """The approximate number of executions of these reads."""
    of = {s: n for n in region.nests for s in n.statements}
    return sum(weight(of[s], s) for s, _ in reads)


def _shared_bytes(kernel: gpu.Kernel) -> int:
    """Bytes of shared memory in a block."""
    return sum(size_of(a) for a in kernel.arrays if a.role == "shared")


def choice_text(region: Region, choice: Choice) -> str:
    """A choice as traced text: sentences on it, the mapping that was taken, and the predicted time of each
    candidate."""
    kernel = choice.taken.kernel
    lines = [mapping_text(kernel.launch.name, region, choice.taken.mapping).rstrip("\n")]
    lines[0:0] = [f"{kernel.launch.name} runs {', '.join(region.statements)}.", *_sentences(choice)]
    lines += [f"  {c}" for c in kernel.promoted.splitlines()]
    for c in choice.candidates:
        p = c.prediction
        mark = "*" if c is choice.taken else " "
        lines.append(f"  {mark} {c.name}: {1e6 * p.seconds:.3g} us, {p.bottleneck} binds")
    return traced("\n".join(lines), *region.statements) + "\n"


def _sentences(choice: Choice) -> list[str]:
    """The choice in sentences: what was chosen, why, and what the next best candidate would cost."""
    taken = choice.taken
    p, mapping = taken.prediction, taken.mapping
    blocks = " x ".join(text(n) for _, n in mapping.blocks) or "1"
    threads = " x ".join(str(n) for _, n in mapping.threads) or "1"
    others = sorted((c for c in choice.candidates if c is not taken), key=lambda c: c.prediction.seconds)
    out = [f"  Taken: {taken.name}: {blocks} blocks of {threads} threads."]
    first = all(c.prediction.seconds >= p.seconds for c in others)
    fewest = f", the least of {len(others) + 1} candidates" if others and first else ""
    out.append(f"  Why: the model predicts {1e6 * p.seconds:.3g} us{fewest}; {p.bottleneck} binds.")
    if others:
        more = 100 * (others[0].prediction.seconds / p.seconds - 1) if p.seconds else 0.0
        against = f"{more:.1f} % more" if more >= 0 else f"{-more:.1f} % less"
        out.append(
            f"  Next best: {others[0].name}, which would take {1e6 * others[0].prediction.seconds:.3g} us, "
            f"{against}."
        )
    else:
        out.append("  Next best: there was no other candidate.")
    return out


def mapping_text(title: str, region: Region, m: RegionMap) -> str:
    """A mapping as text: the blocks and threads of each axis."""
    blocks = " x ".join(f"{v} < {text(n)}" for v, n in m.blocks) or "1"
    threads = " x ".join(f"{v} < {n}" for v, n in m.threads) or "1"
    lines = [f"{title}: blocks {blocks}, threads {threads}"]

    def axis(a: Axis, mapping: AxisMap) -> str:
        tile = f" tile {mapping.tile}" if mapping.tile else ""
        block = f" on {mapping.block}" if mapping.block else ""
        thread = f" on {mapping.thread}" if mapping.thread else ""
        return f"{a.name} [{text(a.points)}]{tile}{block}{thread}"

    for n, x in zip(region.nests, m.nests, strict=True):
        lines.append(f"  nest {', '.join(axis(a, x.axes[a.name]) for a in n.axes) or 'of one point'}")
        for p, own in zip(n.phases, x.phases, strict=True):
            inner = ", ".join(axis(a, own[a.name]) for a in p.axes)
            lines.append(f"    {', '.join(p.statements)}{f': {inner}' if inner else ''}")
    return "\n".join(lines) + "\n"

"""The kernels of a program: its regions of fused loops, each mapped as is predicted best (choose.py).

Nests that share nothing but outer loops may be better kernels of their own.  One kernel saves launches, and
what goes through memory between the nests; but its blocks share out no more than the loops that the nests
share: of a product of matrices among them an operand is read again for each few rows, and few rows are few
blocks.  How long either takes is predicted, and the shorter is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tc.poly import tile_plan
from tc.poly.fusion import fusion
from tc.poly.fusion.distances import Distances
from tc.poly.fusion.fusion import FusionPolicy, Group, Strategy
from tc.poly.fusion.fusion_diagnostics import fusion_diagnostics
from tc.poly.tile_plan import Region

from ..cost.model import LAUNCH
from ..policy import within
from ..target import Target
from .choose import Choice, Chooser

_CLOSE = 1.2  # what a kernel may take of the least that several would, and these are not looked at
_CLEARLY = 0.9  # of the time of one kernel that several must take


@dataclass(frozen=True, slots=True)
class Kernels:
    """The fusion tree that was taken, who made it (`fusion.fuse`), its regions and what was chosen for each;
    `apart` tells why kernels are not one."""

    groups: Sequence[Group | str]
    policy: FusionPolicy
    unrelated: bool
    regions: tuple[Region, ...]
    choices: tuple[Choice, ...]
    apart: str = ""

    @property
    def seconds(self) -> float:
        """That all of them are predicted to take."""
        return sum(c.taken.prediction.seconds for c in self.choices)

    def ideal(self, target: Target, moved: float) -> float:
        """What they would take if each had one bound, or one of them did it all and moved so many bytes."""
        each = sum(c.taken.prediction.ideal(target) for c in self.choices)
        computing = sum(c.taken.prediction.computing(target) for c in self.choices)
        return min(each, LAUNCH + max(computing, moved / (1e9 * target.dram)))


@dataclass(slots=True)
class Maker:
    """Makes the kernels of a program; `intra` is the option `intra_tile_fusion`.  Use it inside
    `isl_context()`."""

    chooser: Chooser
    intra: Strategy | None
    free: int = 0
    made: dict[Region, Choice] = field(default_factory=dict[Region, Choice])
    distances: Distances = field(default_factory=Distances)

    def kernels(self, policy: FusionPolicy, *, given: bool) -> Kernels:
        """The kernels of the program, fused by `policy`; `given`: options choose the policy."""
        groups, regions = self.regions(policy, unrelated=given)
        choices = tuple(map(self.choice, regions))
        taken = Kernels(groups, policy, given, regions, choices)
        for r in () if given else regions:
            other = self.split(policy, taken, r)
            taken = taken if other is None else other
        if not given and len(taken.regions) > 1:  # what has nothing in common saves launches
            groups, regions = self.regions(policy, unrelated=True)
            if len(regions) < len(taken.regions):
                fewer = Kernels(groups, policy, True, regions, tuple(map(self.choice, regions)))
                taken = min(taken, fewer, key=lambda k: k.seconds)
        reasons = fusion_diagnostics(
            self.chooser.scop, taken.groups, self.distances, taken.policy, unrelated=taken.unrelated
        )
        return self.titled(replace(taken, apart=taken.apart + "".join(f"{x}\n" for x in reasons)))

    def regions(
        self, policy: FusionPolicy, *, unrelated: bool = False
    ) -> tuple[Sequence[Group | str], tuple[Region, ...]]:
        scop, chunks = self.chooser.scop, self.chooser.wanted.chunks
        groups = fusion.fuse(scop, policy, self.distances, unrelated=unrelated)
        regions = tile_plan.regions(scop.program, groups, self.chooser.typical, chunks)
        if self.intra in ("preserve3coincident", "min"):
            regions = tuple(tile_plan.distributed(r, self.intra) for r in regions)
        return groups, regions

    def choice(self, r: Region) -> Choice:
        if r not in self.made:
            self.made[r] = found = self.chooser.choose(r, self.free)
            self.free = max(self.free, found.taken.free)
        return self.made[r]

    def split(self, policy: FusionPolicy, now: Kernels, region: Region) -> Kernels | None:
        """The kernels with several in the place of a region's own, if these take less time."""
        one = now.choices[now.regions.index(region)].taken.prediction
        shortest, best = _CLEARLY * one.seconds, None
        for pieces in dict.fromkeys((_nests(region), _loops(region))):
            least = one.ideal(self.chooser.target) + (len(pieces) - 1) * LAUNCH
            if len(pieces) == 1 or one.seconds <= _CLOSE * least:
                continue
            number = {s: i for i, r in enumerate(now.regions) for s in r.statements}
            number |= {s: -1 - i for i, piece in enumerate(pieces) for s in piece}
            cut = within(number, policy, "kernels of their own are predicted to be faster")
            groups, regions = self.regions(cut)
            before = {r.statements: c for r, c in zip(now.regions, now.choices, strict=True)}
            new = [r for r in regions if r.statements not in before]
            if {s for r in new for s in r.statements} != set(region.statements) or len(new) == 1:
                continue  # other loops have become others, too
            several = 0.0
            for r in new:
                several += self.choice(r).taken.prediction.seconds
                if several > shortest:
                    break
            else:
                shortest = several
                every = before | {r.statements: self.choice(r) for r in new}
                note = (
                    f"kernels of their own: {', '.join(' '.join(r.statements) for r in new)}; "
                    f"{1e6 * several:.3g} us, one would take {1e6 * one.seconds:.3g} us\n"
                )
                all_of_them = tuple(every[r.statements] for r in regions)
                best = Kernels(groups, cut, False, regions, all_of_them, now.apart + note)
        return best

    def titled(self, k: Kernels) -> Kernels:
        """With names that tell the kernels apart."""
        if len(k.regions) == 1:
            return k
        name = self.chooser.scop.program.name
        named = (_named(c, f"{name}_{i}") for i, c in enumerate(k.choices))
        return replace(k, choices=tuple(named))


def _named(c: Choice, title: str) -> Choice:
    kernel = c.taken.kernel
    taken = replace(c.taken, kernel=replace(kernel, launch=replace(kernel.launch, name=title)))
    return Choice(taken, [taken if x is c.taken else x for x in c.all])


def _nests(r: Region) -> tuple[tuple[str, ...], ...]:
    return tuple(n.statements for n in r.nests)


def _loops(r: Region) -> tuple[tuple[str, ...], ...]:
    """The same with phases apart that have parallel loops of their own: blocks can share these out, too."""
    out: list[tuple[str, ...]] = []
    for n in r.nests:
        run: tuple[str, ...] = ()
        for p in n.phases:
            if p.axes and not any(a.reductions for a in p.axes):
                out += [run] if run else []
                out.append(p.statements)
                run = ()
            else:
                run += p.statements
        out += [run] if run else []
    return tuple(out)

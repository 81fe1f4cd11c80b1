"""The kernels of a program: one for each region of fused loops, with the mapping that choose.py finds.

Nests that share only outer loops may be faster as separate kernels.  One kernel saves launches and traffic
between the nests, but only the shared loops are mapped to blocks.  A matrix product among the nests then
reloads an operand for every few rows, and few rows give few blocks.  The time of both is predicted, and the
shorter one taken.
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

from ..cost.model import LAUNCH_SECONDS
from ..policy import keep_apart
from ..target import Target
from .choose import Choice, Chooser

_NEAR_IDEAL = 1.2  # times the ideal time of several kernels, up to which a kernel is not split
_SPLIT_FACTOR = 0.9  # of the time of one kernel, which several must stay below


@dataclass(frozen=True, slots=True)
class Kernels:
    """The fusion tree that was taken, its regions, and the choice for each.

    `policy` and `unrelated` are the arguments of `fusion.fuse` that gave the tree; `diagnostics` say why
    kernels are not fused.
    """

    groups: Sequence[Group | str]
    policy: FusionPolicy
    unrelated: bool
    regions: tuple[Region, ...]
    choices: tuple[Choice, ...]
    diagnostics: str = ""

    @property
    def seconds(self) -> float:
        """The predicted time of all kernels."""
        return sum(c.taken.prediction.seconds for c in self.choices)

    def ideal_seconds(self, target: Target, moved: float) -> float:
        """The ideal time: that of the kernels one after the other, or of a single one that moves so many
        bytes, whichever is shorter."""
        each = sum(c.taken.prediction.ideal_seconds(target) for c in self.choices)
        compute_seconds = sum(c.taken.prediction.compute_seconds(target) for c in self.choices)
        return min(each, LAUNCH_SECONDS + max(compute_seconds, moved / (1e9 * target.dram)))


@dataclass(slots=True)
class KernelBuilder:
    """Builds the kernels of a program; `intra` is the option `intra_tile_fusion`.  Use it inside
    `isl_context()`."""

    chooser: Chooser
    intra: Strategy | None
    next_number: int = 0
    choices_by_region: dict[Region, Choice] = field(default_factory=dict[Region, Choice])
    distances: Distances = field(default_factory=Distances)

    def kernels(self, policy: FusionPolicy, *, given: bool) -> Kernels:
        """The kernels of the program, fused by `policy`; `given`: options choose the policy."""
        groups, regions = self.regions(policy, unrelated=given)
        choices = tuple(map(self.choice, regions))
        taken = Kernels(groups, policy, given, regions, choices)
        for r in () if given else regions:
            split = self.split(policy, taken, r)
            taken = taken if split is None else split
        if not given and len(taken.regions) > 1:  # fusing unrelated loops saves launches
            groups, regions = self.regions(policy, unrelated=True)
            if len(regions) < len(taken.regions):
                fewer = Kernels(groups, policy, True, regions, tuple(map(self.choice, regions)))
                taken = min(taken, fewer, key=lambda k: k.seconds)
        reasons = fusion_diagnostics(
            self.chooser.scop, taken.groups, self.distances, taken.policy, unrelated=taken.unrelated
        )
        diagnostics = taken.diagnostics + "".join(f"{x}\n" for x in reasons)
        return self.with_distinct_names(replace(taken, diagnostics=diagnostics))

    def regions(
        self, policy: FusionPolicy, *, unrelated: bool = False
    ) -> tuple[Sequence[Group | str], tuple[Region, ...]]:
        scop, chunks = self.chooser.scop, self.chooser.options.chunks
        groups = fusion.fuse(scop, policy, self.distances, unrelated=unrelated)
        regions = tile_plan.regions(scop.program, groups, self.chooser.typical, chunks)
        if self.intra in ("preserve3coincident", "min"):
            regions = tuple(tile_plan.distributed(r, self.intra) for r in regions)
        return groups, regions

    def choice(self, r: Region) -> Choice:
        if r not in self.choices_by_region:
            self.choices_by_region[r] = found = self.chooser.choose(r, self.next_number)
            self.next_number = max(self.next_number, found.taken.next_number)
        return self.choices_by_region[r]

    def split(self, policy: FusionPolicy, current: Kernels, region: Region) -> Kernels | None:
        """The kernels with that of a region split into several, if these are predicted to be faster."""
        single = current.choices[current.regions.index(region)].taken.prediction
        shortest, best = _SPLIT_FACTOR * single.seconds, None
        for parts in dict.fromkeys((_nests(region), _loops(region))):
            ideal = single.ideal_seconds(self.chooser.target) + (len(parts) - 1) * LAUNCH_SECONDS
            if len(parts) == 1 or single.seconds <= _NEAR_IDEAL * ideal:
                continue
            number = {s: i for i, r in enumerate(current.regions) for s in r.statements}
            number |= {s: -1 - i for i, part in enumerate(parts) for s in part}
            split_policy = keep_apart(number, policy, "kernels of their own are predicted to be faster")
            groups, regions = self.regions(split_policy)
            unchanged = {r.statements: c for r, c in zip(current.regions, current.choices, strict=True)}
            changed = [r for r in regions if r.statements not in unchanged]
            if {s for r in changed for s in r.statements} != set(region.statements) or len(changed) == 1:
                continue  # other regions have changed, too
            seconds = 0.0
            for r in changed:
                seconds += self.choice(r).taken.prediction.seconds
                if seconds > shortest:
                    break
            else:
                shortest = seconds
                by_statements = unchanged | {r.statements: self.choice(r) for r in changed}
                diagnostic = (
                    f"kernels of their own: {', '.join(' '.join(r.statements) for r in changed)}; "
                    f"{1e6 * seconds:.3g} us, one would take {1e6 * single.seconds:.3g} us\n"
                )
                choices = tuple(by_statements[r.statements] for r in regions)
                best = Kernels(
                    groups, split_policy, False, regions, choices, current.diagnostics + diagnostic
                )
        return best

    def with_distinct_names(self, k: Kernels) -> Kernels:
        """The kernels with distinct names."""
        if len(k.regions) == 1:
            return k
        name = self.chooser.scop.program.name
        named = (_renamed(c, f"{name}_{i}") for i, c in enumerate(k.choices))
        return replace(k, choices=tuple(named))


def _renamed(c: Choice, title: str) -> Choice:
    kernel = c.taken.kernel
    taken = replace(c.taken, kernel=replace(kernel, launch=replace(kernel.launch, name=title)))
    return Choice(taken, [taken if x is c.taken else x for x in c.candidates])


def _nests(r: Region) -> tuple[tuple[str, ...], ...]:
    return tuple(n.statements for n in r.nests)


def _loops(r: Region) -> tuple[tuple[str, ...], ...]:
    """The statements of each nest, split at phases with parallel loops of their own, which can be mapped to
    blocks, too."""
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

"""The space of a search: which options may be tuned, and the values that each may take.

A *gene* is one number of one option: `tile` of three loops is a gene for how many of its numbers are given,
and one for each of them.  Values are narrowed as the report does (section 6.2): tiles, blocks and threads are
powers of two and ceil-divisors of the extents, unrolling is by powers of two up to 4096.  Every gene has the
value None, with which the backend's model decides.

A *point* is a value for each gene.  Points of the same options are the same candidate.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tc.cache.disk import digest
from tc.errors import ArgumentError, did_you_mean
from tc.options import Options

Value = int | bool | str | None
Point = tuple[Value, ...]

MAX_UNROLL = 4096
_MAX_THREADS = 1024  # where a backend states no limit
_LEAST_THREADS, _MAX_THREAD_Z = 32, 64  # of a block with given threads; of its third dimension
_STRATEGIES: tuple[Value, ...] = (None, "max", "preserve3coincident", "min")
_SWITCH: tuple[Value, ...] = (None, True, False)
_REGISTER = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
_TRIES = 1000  # draws of a valid point, before the search gives up


def powers_and_ceil_divisors(extent: int) -> tuple[int, ...]:
    """The powers of two up to the next one above an extent, and the extent divided by each, rounded up."""
    powers = [1 << i for i in range(max(0, extent - 1).bit_length() + 1)]
    return tuple(sorted({*powers, *(-(-extent // p) for p in powers)}))


def sizes_for(extents: Iterable[int]) -> tuple[int, ...]:
    """The admissible sizes of tiles, blocks and threads for these extents."""
    return tuple(sorted({v for e in extents if e > 0 for v in powers_and_ceil_divisors(e)}))


@dataclass(frozen=True, slots=True)
class Gene:
    """A number of an option: `index` is its place in a tuple, or None for an option that is none."""

    name: str
    option: str
    values: tuple[Value, ...]
    index: int | None = None


@dataclass(frozen=True)
class Space:
    """Genes, and the options that all candidates have (`fixed`).

    `legal` says whether options may be tried at all.  `order` genes choose among permutations by number.
    """

    genes: tuple[Gene, ...]
    fixed: Options = field(default_factory=Options)
    legal: Callable[[Options], bool] = lambda _: True
    permutations: tuple[tuple[int, ...], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(g.name for g in self.genes)

    @property
    def size(self) -> int:
        """The number of points; of options there are fewer."""
        return math.prod(len(g.values) for g in self.genes)

    @property
    def fingerprint(self) -> str:
        """Equal for equal genes and values."""
        return digest("space", [(g.name, [repr(v) for v in g.values]) for g in self.genes])[:16]

    @property
    def default(self) -> Point:
        """Where the model decides everything."""
        return tuple(None for _ in self.genes)

    def options(self, point: Point) -> Options:
        """The options of a point.  Raises ArgumentError for what no options can be."""
        changed: dict[str, Any] = {}
        tuples: dict[str, list[Value]] = {}
        for g, v in zip(self.genes, point, strict=True):
            if g.index is not None:
                tuples.setdefault(g.option, []).append(v)
            elif v is None:
                continue
            elif g.option == "order":
                changed["order"] = self.permutations[int(v)]
            else:
                changed[g.option] = v
        for option, values in tuples.items():
            given = tuple(itertools.takewhile(lambda v: v is not None, values))
            if given:
                changed[option] = given
        return self.fixed.replace(**changed)

    def point(self, options: Options) -> Point | None:
        """The point of options; None for options that lie outside."""
        out: list[Value] = []
        for g in self.genes:
            value: Any = getattr(options, g.option)
            if g.option == "order" and value is not None:
                value = self.permutations.index(value) if value in self.permutations else -1
            elif g.index is not None and value is not None:
                value = value[g.index] if g.index < len(value) else None
            if value not in g.values:
                return None
            out.append(value)
        return tuple(out) if self.options(tuple(out)) == options else None

    def valid(self, point: Point) -> bool:
        """Whether the point has options that may be tried."""
        try:
            return self.legal(self.options(point))
        except ArgumentError:
            return False

    def draw(self, rng: random.Random) -> Point:
        """A random valid point: each gene by itself; the default where none is found."""
        for _ in range(_TRIES):
            found = tuple(rng.choice(g.values) for g in self.genes)
            if self.valid(found):
                return found
        return self.default

    def neighbours(self, point: Point, rng: random.Random) -> Iterator[Point]:
        """Valid points that differ in one gene, those next to its value first, in random order of genes;
        then points that differ in two."""
        order = list(range(len(self.genes)))
        rng.shuffle(order)
        near, far = list[Point](), list[Point]()
        for i in order:
            values = self.genes[i].values
            at = values.index(point[i]) if point[i] in values else 0
            for step, v in enumerate(sorted(range(len(values)), key=lambda j: abs(j - at))[1:]):
                (near if step < 2 else far).append((*point[:i], values[v], *point[i + 1 :]))
        yield from filter(self.valid, near)
        rng.shuffle(far)
        yield from filter(self.valid, far)
        for _ in range(_TRIES if order else 0):
            i, j = rng.randrange(len(order)), rng.randrange(len(order))
            changed = list(point)
            for k in (i, j):
                changed[k] = rng.choice(self.genes[k].values)
            if tuple(changed) != point and self.valid(tuple(changed)):
                yield tuple(changed)


# ---- the space of a program


def space_for(
    backend: Any,
    loops: Sequence[int],
    extents: Sequence[int],
    options: Options,
    limits: Mapping[str, Any],
    most_loops: int | None = None,
    fix: Mapping[str, Any] | None = None,
    include: Iterable[Options] = (),
) -> Space:
    """The space of a program on a backend.

    `loops` are the extents of the loops that tiles are about, `extents` the sizes of the program, `limits`
    what the backend says that the machine allows.  What `options` or `fix` give is not tuned.  The values in
    `include`, options that others propose, are in the space too.
    """
    also = tuple(include)
    fixed = options.replace(**_known(fix or {}, backend))
    used = frozenset(backend.options_used) - fixed.changed().keys() - (fix or {}).keys()
    genes: list[Gene] = []
    general = sizes_for([*extents, *loops])
    count = len(loops) if most_loops is None else min(len(loops), most_loops)

    def add(option: str, values: Sequence[Value], index: int | None = None) -> None:
        if option in used:
            name = option if index is None else f"{option}.{index}"
            wanted = {v for v in values if v is not None}
            for given in (getattr(o, option) for o in also):
                if option != "order" and given is not None and (index is None or index < len(given)):
                    wanted.add(given if index is None else given[index])
            genes.append(Gene(name, option, (None, *sorted(wanted, key=_in_order)), index))

    gpu = "threads" in backend.options_used
    for option in ("fusion", "intra_tile_fusion"):
        add(option, _STRATEGIES)
    for i in range(count):
        add("tile", [v for v in (sizes_for([loops[i]]) if not gpu else general) if v <= 2 * loops[i]], i)
    if gpu:
        threads = [v for v in sizes_for([*extents, *loops, 256]) if v <= limits.get("max_threads", 1024)]
        for i in range(min(3, max(1, count))):
            add("threads", [v for v in threads if i < 2 or v <= _MAX_THREAD_Z], i)
        for i in range(min(3, max(1, count))):
            add("blocks", sizes_for([*extents, *loops, 256]), i)
    vector = int(limits.get("vector_bytes", 64))
    for i in range(count):
        add("register_tile", [v for v in _registers(vector) if v <= 2 * loops[i]], i)
    add("vector", [-1, *range(count)])
    add("unroll", [1 << k for k in range(MAX_UNROLL.bit_length()) if gpu or k <= 6])
    permutations = tuple(itertools.permutations(range(count))) if 2 <= count <= 4 else ()
    add("order", range(len(permutations)))
    for option in ("pack", "parallel", "prefetch", "nontemporal", "atomics"):
        add(option, _SWITCH)
    for option in ("use_shared_memory", "use_private_memory", "unroll_copy_shared"):
        add(option, _SWITCH)
    shared = int(limits.get("shared", 0))
    add("max_shared_memory", [shared >> k for k in range(5) if shared >> k >= 1024])
    add("autoschedule", ("Mullapudi2016", "Adams2019", "Li2018"))
    most = int(limits.get("max_threads", _MAX_THREADS))

    def legal(o: Options) -> bool:
        return _legal(o, most)

    return Space(tuple(g for g in genes if len(g.values) > 1), fixed, legal, permutations)


def _in_order(v: Value) -> tuple[bool, float, str]:
    return (isinstance(v, str), 0.0 if isinstance(v, str) or v is None else -v if v is True else v, str(v))


def _registers(vector_bytes: int) -> tuple[int, ...]:
    most = 2 * vector_bytes
    return tuple(sorted({*(v for v in _REGISTER if v <= most), vector_bytes // 4, vector_bytes}))


def _legal(options: Options, most_threads: int) -> bool:
    """Whether options are within the limits of the machine and worth a try."""
    if options.threads is not None:
        count = math.prod(options.threads)
        if not _LEAST_THREADS <= count <= most_threads:
            return False
        if len(options.threads) > 2 and options.threads[2] > _MAX_THREAD_Z:
            return False
    if options.register_tile is not None and math.prod(options.register_tile) > 4096:
        return False
    return not (options.use_shared_memory is False and options.max_shared_memory is not None)


def _known(fix: Mapping[str, Any], backend: Any) -> dict[str, Any]:
    """Options to be fixed; a name that the backend does not use is refused."""
    for name in fix:
        if name not in backend.options_used:
            raise ArgumentError(
                f"fix: '{name}' is no option of the backend '{backend.name}'",
                code="TC0511",
                help=did_you_mean(name, backend.options_used),
            )
    return dict(fix)

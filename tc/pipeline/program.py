"""The passes over programs, before a schedule exists: one order, which all polyhedral backends share
(`LOOP_PASSES` and `PASSES` below; docs/design.md lists them).

The order matters.  `independent`, `prefix_places`, `prefix_loops`, `planes`, `contract`, `early_sums`,
`delay`, `panel` and `time_tiles` see a program with its sequential loops, the other passes see each
straight-line part of it.  `restrict` is the first of these: it turns guarded operands into plain ones, which
`inline` and `materialize` then judge.  `inline` precedes `materialize`, which may store again what several
inlined values share.
`conditions` follows the passes that move values into other domains.  `collapse` merges dimensions that no
condition tells apart, and needs the loops in the order of the source, so `interchange` follows it.  Long
reductions are split afterwards (`tc.transforms.program.rfactor`): the cpu backend splits them in one way,
GPUs try several.

A target may turn passes off, and decides by its cost model what pays (`ProgramPolicy`); it cannot change the
order.  After every pass, `TC_VERIFY=1` checks the form of the program and runs it in its states before and
after the pass (`equivalence`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tc.dtypes import DType
from tc.ir import verify
from tc.ir.printer import program_text
from tc.ir.program import Program, Stage
from tc.pipeline import equivalence
from tc.pipeline.pass_manager import Pass, changed
from tc.poly import column_panels, conditions, delayed_updates, early_sums, independent_loops, time_tiles
from tc.transforms.program import (
    addends,
    batches,
    columns,
    contract,
    divisors,
    guards,
    inline,
    interchange,
    materialize,
    partial_sums,
    phases,
    planes,
    prefix_factors,
    prefix_loops,
    prefix_places,
    prefixes,
    zero_points,
)
from tc.transforms.program import collapse as collapsing


@dataclass(frozen=True, slots=True)
class ProgramPolicy:
    """The decisions of a target on the passes over programs.

    `recompute` decides whether to compute a temporary at each read, `store` whether to compute an operand
    once; without these functions `inline` and `materialize` change nothing.  `prefix` gives the points of a
    chunk of a prefix reduction, for values of a type; without it prefix reductions stay whole.  `prefix_rows`
    decides which of them go from row to row, `partial` which sums of products are taken in parts, `addends`
    which sums of several products of matrices become an update for each.  With `phases` reductions with a
    stride are split by residues, with `batches` temporaries have batches of products first.
    `interchange_without_operands`: reductions are reordered in every program, not only where operands were
    materialized.  `delay` gives the iterations of a
    block after which an update is applied, `early` those of a block before which a sum begins; 0 for none.
    `panel` decides which columns that a block works on are copied.  `time_tile` gives the iterations and rows
    of a tile of a sequential loop, None for none, for the loops that are `worth_tiles`.  `independent`
    decides which loops become dimensions whose iterations do not depend on each other.
    `constant_temporaries`: new temporaries have constant sizes, as the parts of a program with sequential
    loops need.
    """

    recompute: Callable[[Program, inline.Inlined], bool] | None
    store: Callable[[Program, materialize.Operand], bool] | None
    prefix: Callable[[DType], int] | None = None
    prefix_rows: Callable[[prefix_loops.Columns], bool] | None = None
    partial: Callable[[partial_sums.PartialSums], bool] | None = None
    addends: Callable[[Stage], bool] | None = None
    phases: bool = False
    column: Callable[[columns.Column], bool] | None = None
    batches: bool = False
    collapse: bool = True
    interchange_without_operands: bool = True
    constant_temporaries: bool = False
    early: early_sums.Block | None = None
    delay: delayed_updates.Block | None = None
    panel: column_panels.Worth | None = None
    time_tile: time_tiles.Choice | None = None
    worth_tiles: time_tiles.Worth | None = None
    independent: Callable[[int | None], bool] | None = None


@dataclass(frozen=True, kw_only=True)
class ProgramState:
    """A program on its way through these passes.

    `typical` are values of the sizes that it leaves symbolic. The names of what each pass changed:
    `independent` the loops that became dimensions; `by_rows` the tensors whose prefix reductions go from row
    to row; `planes` the temporaries with separate parts; `contracted` those without the dimension of a loop;
    `early` and `delayed` the tensors that are summed before blocks of iterations and updated after them;
    `panels` those whose columns a block works on in a copy; `time_tiled` the loops in tiles; `phases` and
    `prefixes` the tensors whose reductions are split by residues and into chunks; `divided`, `multiplied` and
    `expanded` those whose sums lost divisors, factors and zero points; `addends` those with an update for
    each product of a sum; `inlined` the temporaries that are gone, `operands` and `columns` the new ones.
    """

    program: Program
    policy: ProgramPolicy
    typical: Mapping[str, int]
    inlined: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    independent: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    by_rows: tuple[str, ...] = ()
    planes: tuple[str, ...] = ()
    contracted: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    time_tiled: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    divided: tuple[str, ...] = ()
    multiplied: tuple[str, ...] = ()
    addends: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    expanded: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()

    @property
    def transformations_text(self) -> str:
        """A line for each kind of transformation that changed the program."""
        lines = (
            ("sequential loops that became dimensions", self.independent),
            ("places of extremes as prefix reductions", self.places),
            ("prefix reductions from row to row", self.by_rows),
            ("complex, with a row of each part", self.planes),
            ("for one iteration alone", self.contracted),
            ("summed before blocks of iterations", self.early),
            ("updated after blocks of iterations", self.delayed),
            ("columns that a block of iterations works on in a copy", self.panels),
            ("loops of which several iterations run on some rows", self.time_tiled),
            ("a reduction for each residue", self.phases),
            ("prefix reductions in chunks", self.prefixes),
            ("divided after the sum, which rounds otherwise", self.divided),
            ("multiplied or divided after the sum, to be a prefix", self.multiplied),
            ("an update for each product of a sum", self.addends),
            ("summed in parts, over one variable after the other", self.partial),
            ("zero points after the sum", self.expanded),
            ("computed where they are read", self.inlined),
            ("computed once, before they are read", self.operands),
            ("columns that are copied before rows read them", self.columns),
            ("batches of products first", self.batches),
        )
        return "".join(f"{what}: {', '.join(names)}\n" for what, names in lines if names)

    @property
    def notes(self) -> tuple[str, ...]:
        """The reasons, besides the order of sums, why results may differ from those of the statements as
        written."""
        divided = (f"{n} is divided after its sum, which rounds once" for n in dict.fromkeys(self.divided))
        how = "is multiplied or divided after its sum, which rounds once"
        multiplied = (f"{n} {how}" for n in dict.fromkeys(self.multiplied))
        parts = (f"{n} is summed in parts, each rounded" for n in dict.fromkeys(self.partial))
        return (*divided, *multiplied, *parts)


P = TypeVar("P", bound=ProgramState)


def show(state: ProgramState) -> str:
    """The program, as every pass over programs shows it."""
    return program_text(state.program)


def same_program(before: ProgramState, after: ProgramState) -> str:
    """The oracle of a pass over programs: the result is well formed and computes the same."""
    if after.program is before.program:
        return ""
    oracles = (verify.program(after.program), equivalence.same_results(before.program, after.program))
    return ", ".join(o for o in oracles if o)


def _independent(state: P) -> P:
    if state.policy.independent is None:
        return state
    program, names = independent_loops.into_dimensions(state.program, state.policy.independent)
    return changed(state, program=program, independent=names)


def _prefix_places(state: P) -> P:
    if state.policy.prefix is None:
        return state
    program, names = prefix_places.into_prefixes(state.program)
    return changed(state, program=program, places=names)


def _prefix_loops(state: P) -> P:
    if state.policy.prefix_rows is None:
        return state
    found = prefix_loops.into_loops(state.program, state.policy.prefix_rows)
    return changed(state, program=found.program, by_rows=found.names, multiplied=found.multiplied)


def _planes(state: P) -> P:
    program, names = planes.separate(state.program)
    return changed(state, program=program, planes=names)


def _contract(state: P) -> P:
    program, names = contract.contract(state.program)
    return changed(state, program=program, contracted=names)


def _early_sums(state: P) -> P:
    if state.policy.early is None:
        return state
    program, names = early_sums.begin_early(state.program, state.policy.early)
    return changed(state, program=program, early=names)


def _delay(state: P) -> P:
    if state.policy.delay is None:
        return state
    program, names = delayed_updates.delay(state.program, state.policy.delay)
    return changed(state, program=program, delayed=names)


def _panel(state: P) -> P:
    if state.policy.panel is None:
        return state
    program, names = column_panels.copy_panels(state.program, state.policy.panel)
    return changed(state, program=program, panels=names)


def _time_tiles(state: P) -> P:
    if state.policy.time_tile is None or state.policy.worth_tiles is None:
        return state
    program, names = time_tiles.tile_time(state.program, state.policy.time_tile, state.policy.worth_tiles)
    return changed(state, program=program, time_tiled=names)


def _restrict(state: P) -> P:
    return changed(state, program=guards.restrict(state.program))


def _phases(state: P) -> P:
    if not state.policy.phases:
        return state
    program, names = phases.split_phases(state.program, state.policy.constant_temporaries)
    return changed(state, program=program, phases=names)


def _prefixes(state: P) -> P:
    if state.policy.prefix is None:
        return state
    constant = state.policy.constant_temporaries
    program, names = prefixes.in_chunks(state.program, state.policy.prefix, state.typical, constant)
    return changed(state, program=program, prefixes=names)


def _divisors(state: P) -> P:
    program, names = divisors.divide_after(state.program)
    return changed(state, program=program, divided=names)


def _factors(state: P) -> P:
    if state.policy.prefix is None:
        return state
    constant = state.policy.constant_temporaries
    program, names = prefix_factors.multiply_after(
        state.program, state.policy.prefix, state.typical, constant
    )
    return changed(state, program=program, multiplied=(*state.multiplied, *names))


def _addends(state: P) -> P:
    if state.policy.addends is None:
        return state
    program, names = addends.separate(state.program, state.policy.addends)
    return changed(state, program=program, addends=names)


def _partial_sums(state: P) -> P:
    if state.policy.partial is None:
        return state
    constant = state.policy.constant_temporaries
    program, names = partial_sums.sum_in_parts(state.program, state.policy.partial, state.typical, constant)
    return changed(state, program=program, partial=names)


def _zero_points(state: P) -> P:
    program, names = zero_points.expand(state.program)
    return changed(state, program=program, expanded=names)


def _inline(state: P) -> P:
    if state.policy.recompute is None:
        return state
    program, names = inline.inline(state.program, state.policy.recompute)
    return changed(state, program=program, inlined=names)


def _materialize(state: P) -> P:
    if state.policy.store is None:
        return state
    program, names = materialize.materialize(state.program, state.policy.store, state.typical)
    return changed(state, program=program, operands=names)


def _columns(state: P) -> P:
    if state.policy.column is None or not state.policy.constant_temporaries:
        return state
    program, names = columns.copy_columns(state.program, state.policy.column, state.typical)
    return changed(state, program=program, columns=names)


def _conditions(state: P) -> P:
    return changed(state, program=conditions.decide(state.program))


def _batches(state: P) -> P:
    if not state.policy.batches:
        return state
    program, names = batches.products_first(state.program, state.typical)
    return changed(state, program=program, batches=names)


def _collapse(state: P) -> P:
    if not state.policy.collapse:
        return state
    return changed(state, program=collapsing.collapse(state.program))


def _interchange(state: P) -> P:
    if not (state.policy.interchange_without_operands or state.operands):
        return state
    return changed(state, program=interchange.interchange(state.program, state.typical))


def _judged(name: str, does: str, file: str, run: Callable[[P], P]) -> Pass[P]:
    return Pass(name, does, file, run, show, same_program)


# The passes over a program with its sequential loops, in their order: what each does, and where.
_OVER_LOOPS: Mapping[str, tuple[str, str, Callable[[Any], Any]]] = {
    "independent": (
        "make sequential loops dimensions whose iterations do not depend on each other",
        "tc/poly/independent_loops.py",
        _independent,
    ),
    "prefix_places": (
        "make arg-reductions over prefixes prefix reductions",
        "tc/transforms/program/prefix_places.py",
        _prefix_places,
    ),
    "prefix_loops": (
        "make prefix reductions down columns or along many rows sequential loops",
        "tc/transforms/program/prefix_loops.py",
        _prefix_loops,
    ),
    "planes": (
        "store the real and the imaginary parts of complex temporaries in separate rows",
        "tc/transforms/program/planes.py",
        _planes,
    ),
    "contract": (
        "remove dimensions of temporaries that only tell the iterations of a sequential loop apart",
        "tc/transforms/program/contract.py",
        _contract,
    ),
    "early_sums": (
        "compute the terms of sums that are known before a block of iterations together, before it",
        "tc/poly/early_sums.py",
        _early_sums,
    ),
    "delay": (
        "apply the updates that no iteration of a block reads together, after it",
        "tc/poly/delayed_updates.py",
        _delay,
    ),
    "panel": (
        "copy the columns that a block of iterations works on to rows of a temporary",
        "tc/poly/column_panels.py",
        _panel,
    ),
    "time_tiles": (
        "tile a sequential loop: several iterations on some rows, then on the next rows",
        "tc/poly/time_tiles.py",
        _time_tiles,
    ),
}


def passes_over_loops(kind: type[P], names: Collection[str] = tuple(_OVER_LOOPS)) -> tuple[Pass[P], ...]:
    """These passes over a program with its sequential loops, before it is split into straight-line parts, on
    a backend's own kind of state."""
    return tuple(_judged(name, *what) for name, what in _OVER_LOOPS.items() if name in names)


def program_passes(kind: type[P]) -> tuple[Pass[P], ...]:
    """The passes over programs, on a backend's own kind of state."""

    return (
        _judged(
            "restrict",
            "move conditions of reductions into their iteration domains",
            "tc/transforms/program/guards.py",
            _restrict,
        ),
        _judged(
            "phases",
            "split reductions with a stride into one reduction for each residue",
            "tc/transforms/program/phases.py",
            _phases,
        ),
        _judged(
            "divisors",
            "divide a sum once instead of each of its terms",
            "tc/transforms/program/divisors.py",
            _divisors,
        ),
        _judged(
            "factors",
            "multiply a sum once that is a prefix without its factors",
            "tc/transforms/program/prefix_factors.py",
            _factors,
        ),
        _judged(
            "addends",
            "give each product of a sum of products of matrices an update of its own",
            "tc/transforms/program/addends.py",
            _addends,
        ),
        _judged(
            "partial_sums",
            "sum products over one variable after the other, where that takes fewer operations",
            "tc/transforms/program/partial_sums.py",
            _partial_sums,
        ),
        _judged(
            "prefixes",
            "compute long prefix reductions in chunks",
            "tc/transforms/program/prefixes.py",
            _prefixes,
        ),
        _judged(
            "zero_points",
            "multiply narrow integers without their zero points, then correct the sums",
            "tc/transforms/program/zero_points.py",
            _zero_points,
        ),
        _judged(
            "inline",
            "compute temporaries at each read, where that is cheaper",
            "tc/transforms/program/inline.py",
            _inline,
        ),
        _judged(
            "materialize",
            "compute operands once, before the loops that read them, where that is cheaper",
            "tc/transforms/program/materialize.py",
            _materialize,
        ),
        _judged(
            "columns",
            "copy columns that many rows read in sequential loops",
            "tc/transforms/program/columns.py",
            _columns,
        ),
        _judged(
            "conditions",
            "remove conditions that hold at all points of a domain, or at none",
            "tc/poly/conditions.py",
            _conditions,
        ),
        _judged(
            "batches",
            "store temporaries with the batch of a product before its rows and columns",
            "tc/transforms/program/batches.py",
            _batches,
        ),
        _judged(
            "collapse",
            "merge neighbouring dimensions that every statement uses together",
            "tc/transforms/program/collapse.py",
            _collapse,
        ),
        _judged(
            "interchange",
            "order the loops of reductions by the memory layout of what they read",
            "tc/transforms/program/interchange.py",
            _interchange,
        ),
    )

"""Programs as sets and relations: iteration domains and accesses (docs/design.md).

Accesses are at the level of buffers: all versions of a tensor share one.  Coordinates are logical, as
in the source, so a buffer with a lower bound of 1 has no element 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

import islpy as isl

from tc.ir.expr import Add, Expr, IntImm, Sub
from tc.ir.intervals import INT32_SUMMANDS
from tc.ir.printer import text
from tc.ir.program import Box, Buffer, IterVar, Program, Stage
from tc.ir.simplify import simplify
from tc.poly.accesses import Read, reads
from tc.poly.affine import OUT, PARAM, SET, Affine, Parameters, declare
from tc.poly.bodies import stage_bodies
from tc.poly.context import Names, isl_context, union_map, union_set

Kind = Literal["read", "update", "write"]


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One reference of a statement.

    `map` goes from the statement's instances that make the access to the elements they may touch
    (exactly those if `must`).  An `update` is the read of the element that an `op` combines with.
    `unknown` lists the dimensions whose subscript isl cannot express: there the map has the whole extent.
    """

    ref: str
    kind: Kind
    buffer: str
    subscripts: tuple[Expr, ...]
    map: isl.Map
    must: bool
    unknown: tuple[int, ...] = ()
    read: Read | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A stage: `domain` holds its instances.

    `residual` are conditions that isl cannot express (they cut nothing from `domain`): they are tested
    when an instance runs.  `reduction`: several instances may update one element, in any order.
    """

    stage: Stage
    index: int
    name: str
    domain: isl.Set
    residual: tuple[Expr, ...]
    accesses: tuple[Access, ...]
    reduction: bool

    @property
    def write(self) -> Access:
        return self.accesses[-1]

    def coordinates(self, dims: Sequence[int]) -> isl.Map:
        """The relation from instances to the values of some of their variables, by number."""
        space = self.domain.get_space()
        local = isl.LocalSpace.from_space(space)
        affs = isl.AffList.alloc(self.domain.get_ctx(), len(dims))
        for d in dims:
            affs = affs.add(isl.Aff.var_on_domain(local, SET, d))
        out = space.from_domain().add_dims(OUT, len(dims))
        return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(out, affs)).intersect_domain(self.domain)

    @property
    def reads(self) -> tuple[Access, ...]:
        """The reads, in the order of the value; the element that an `op` updates is not among them."""
        return tuple(a for a in self.accesses if a.kind == "read")


@dataclass(frozen=True, slots=True, eq=False)
class Scop:
    """A static control part: `statements` in program order; `context`, the constraints on the parameters;
    `bodies`, the value of each stage in terms of elements of buffers (bodies.py)."""

    program: Program
    names: Names
    parameters: Parameters
    context: isl.Set
    statements: tuple[Statement, ...]
    bodies: Mapping[str, Expr]
    named: Mapping[str, Statement] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", {s.name: s for s in self.statements})

    @property
    def ctx(self) -> isl.Context:
        return self.context.get_ctx()

    @property
    def domain(self) -> isl.UnionSet:
        return union_set(self.ctx, (s.domain for s in self.statements))

    def statement(self, name: str) -> Statement:
        """The statement of an isl tuple name."""
        return self.named[name]

    def accesses(self, *kinds: Kind) -> Iterator[tuple[Statement, Access]]:
        return ((s, a) for s in self.statements for a in s.accesses if a.kind in kinds)

    def relation(self, *kinds: Kind, must: bool | None = None) -> isl.UnionMap:
        """The union of the access relations of these kinds, from instances to elements."""
        return union_map(self.ctx, (a.map for _, a in self.accesses(*kinds) if must in (None, a.must)))

    def tagged(self, *kinds: Kind) -> isl.UnionMap:
        """As `relation`, with the reference that makes the access: `[S[i] -> ref[]] -> T[i]`."""
        maps: list[isl.Map] = []
        for _, a in self.accesses(*kinds):
            tag = self.parameters.space("reference", a.ref, (), self.ctx)
            to_tag = isl.Map.from_domain_and_range(a.map.domain(), isl.Set.universe(tag))
            maps.append(to_tag.domain_map().apply_range(a.map))
        return union_map(self.ctx, maps)

    def dump(self) -> str:
        """Context, domains and accesses as text."""
        with isl_context():
            lines = [f"context: {self.context}"]
            for s in self.statements:
                lines.append(f"{s.stage.name}: {' '.join(s.stage.text.split())}")
                lines.append(f"  domain: {s.domain}")
                lines += [f"  tested when run: {text(c)}" for c in s.residual]
                for a in s.accesses:
                    kind = a.kind if a.must else f"may {a.kind}"
                    lines.append(f"  {a.ref} {kind}: {a.map}")
        return "\n".join(lines) + "\n"

    def original_schedule(self) -> isl.UnionMap:
        """Statement order, then each statement's variables in order, padded to one length."""
        depth = max((len(s.stage.domain.vars) for s in self.statements), default=0)
        return union_map(self.ctx, (_timed(s, depth) for s in self.statements))


def _timed(s: Statement, depth: int) -> isl.Map:
    space = s.domain.get_space()
    local = isl.LocalSpace.from_space(space)
    affs = isl.Aff.zero_on_domain(local).set_constant_val(s.index).to_list()
    count = len(s.stage.domain.vars)
    for i in range(depth):
        zero = isl.Aff.zero_on_domain(local)
        affs = affs.add(isl.Aff.var_on_domain(local, SET, i) if i < count else zero)
    out = space.from_domain().add_dims(OUT, depth + 1)
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(out, affs)).intersect_domain(s.domain)


_MAX_CONTEXT = 24  # pieces of a context


def build(program: Program, summands: float = INT32_SUMMANDS) -> Scop:
    """The scop of a program, symbolic in whatever sizes it has left.  Sums in int32 of at most `summands`
    indices of unknown extent do not wrap around.

    Call it, and use the result, inside `isl_context()`.
    """
    with isl_context():
        domains = Domains.of(program, summands)
        builder = _Builder(program, domains)
        statements = tuple(builder.statement(i, s) for i, s in enumerate(program.stages))
        names, parameters, context = domains.names, domains.parameters, domains.context
        return Scop(program, names, parameters, context, statements, stage_bodies(program))


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The iteration domains of a program's stages, over common parameters; use it inside `isl_context()`."""

    names: Names
    parameters: Parameters
    context: isl.Set
    reads: Mapping[str, tuple[Read, ...]]

    @staticmethod
    def of(program: Program, summands: float = INT32_SUMMANDS) -> Domains:
        names = Names()
        parameters = Parameters.of(program, names, summands)
        stage_reads = {s.name: reads(s) for s in program.stages}
        declare(parameters, _index_expressions(program, stage_reads))
        with isl_context() as ctx:
            context = isl.Set.universe(parameters.params_space(ctx))
            for i, e in enumerate(parameters.values.values()):
                if i < len(program.sizes):
                    assert e in parameters.of_expr
                    context = context.lower_bound_val(PARAM, i, 0)
            outer = Affine(parameters, parameters.space("", "", (), ctx), ())
            assumed = [outer.holds(p.condition)[0].params() for p in program.preconditions]
            # Each domain is cut by the context, into as many pieces.  Without a precondition the context has
            # more sizes than calls may have: more is proved than is needed, nothing too little.
            for where in sorted(assumed, key=isl.Set.n_basic_set):
                if context.n_basic_set() * where.n_basic_set() > 8 * _MAX_CONTEXT:
                    continue
                narrower = context.intersect(where).coalesce()
                if narrower.n_basic_set() <= _MAX_CONTEXT:
                    context = narrower
        return Domains(names, parameters, context, stage_reads)

    def of_stage(self, stage: Stage) -> tuple[Affine, isl.Set, tuple[Expr, ...]]:
        """How expressions over a stage's variables become sets; its domain; the conditions of it that isl
        cannot express, which cut nothing from the domain."""
        axes = stage.domain.vars
        dims = [self.names.safe("index", v.name) for v in axes]
        space = self.parameters.space("stage", stage.name, dims, self.context.get_ctx())
        affine = Affine(self.parameters, space, [v.name for v in axes], axes)
        domain, residual = self._domain(affine, axes, stage.domain.conditions)
        return affine, domain, residual

    def _domain(
        self, affine: Affine, axes: tuple[IterVar, ...], conditions: tuple[Expr, ...]
    ) -> tuple[isl.Set, tuple[Expr, ...]]:
        s = isl.Set.universe(affine.space).intersect_params(self.context)
        for i, v in enumerate(axes):
            s = _bounded(affine, s, ("d", i), v.range.min, v.range.extent)
        residual: list[Expr] = []
        for c in conditions:
            where, exact = affine.holds(c)
            s = s.intersect(where)
            if not exact:
                residual.append(c)
        # Bounds of minima and maxima leave many pieces, which most often are one set.
        return s.coalesce(), tuple(residual)


def _index_expressions(program: Program, stage_reads: dict[str, tuple[Read, ...]]) -> Iterator[Expr]:
    for b in program.buffers:
        for r in b.box:
            yield r.min
            yield r.extent
    for s in program.stages:
        for v in s.domain.vars:
            yield v.range.min
            yield v.range.extent
        yield from s.domain.conditions
        yield from s.args
        for read in stage_reads[s.name]:
            yield from read.subscripts
            yield from (c for c, _ in read.guards)
    yield from (p.condition for p in program.preconditions)


class _Builder:
    def __init__(self, program: Program, domains: Domains) -> None:
        self.domains = domains
        self.parameters, self.names = domains.parameters, domains.names
        self.ctx = domains.context.get_ctx()
        self.buffers = {b.name: b for b in program.buffers}
        self.func_buffers = program.func_buffers

    def statement(self, index: int, stage: Stage) -> Statement:
        affine, domain, residual = self.domains.of_stage(stage)
        accesses: list[Access] = []
        same: dict[object, Access] = {}  # equal reads below equal guards are one access
        cuts: dict[tuple[Expr, bool], tuple[isl.Set, bool]] = {}
        for i, read in enumerate(self.domains.reads[stage.name]):
            ref = f"{stage.name}_r{i}"
            buffer = self.buffers[self.func_buffers.get(read.call.name, read.call.name)]
            key = (buffer.name, read.subscripts, read.call.checked, read.guards)
            if key not in same:
                where, exact = domain, not residual
                for guard in read.guards:
                    if guard not in cuts:
                        cuts[guard] = affine.holds(*guard)
                    cut, cut_exact = cuts[guard]
                    where, exact = where.intersect(cut), exact and cut_exact
                same[key] = self.access(ref, "read", affine, buffer, read.subscripts, where, exact, read)
            accesses.append(replace(same[key], ref=ref, read=read))
        own = self.buffers[self.func_buffers[stage.func]]
        if stage.op is not None:
            accesses.append(
                self.access(f"{stage.name}_u", "update", affine, own, stage.args, domain, not residual, None)
            )
        write = self.access(f"{stage.name}_w", "write", affine, own, stage.args, domain, not residual, None)
        accesses.append(write)
        reduction = stage.op is not None and any(v.kind == "reduction" for v in stage.domain.vars)
        if stage.op is not None and not reduction:
            reduction = not write.map.is_injective()
        return Statement(
            stage, index, self.names.safe("stage", stage.name), domain, residual, tuple(accesses), reduction
        )

    def access(
        self, ref: str, kind: Kind, affine: Affine, buffer: Buffer, subscripts: tuple[Expr, ...],
        where: isl.Set, exact: bool, read: Read | None,
    ) -> Access:  # fmt: skip
        simple = tuple(simplify(e, exact=True) for e in subscripts)
        target = self.parameters.space(
            "buffer", buffer.name, [f"o{i}" for i in range(len(subscripts))], self.ctx
        )
        forms = [affine.linear(e) for e in simple]
        checked = read.call.checked if read is not None else ()
        unknown: list[int] = []
        if all(f is not None for f in forms):
            space = affine.space.map_from_domain_and_range(target)
            affs = isl.AffList.alloc(self.ctx, len(forms))
            for f in forms:
                assert f is not None
                affs = affs.add(affine.aff(f))
            relation = isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(space, affs))
        else:
            parts: list[isl.Map] = []
            for i, e in enumerate(simple):
                value = affine.pw_aff(e)
                if value is None:
                    unknown.append(i)
                    line = isl.Set.universe(self.parameters.space("", "", ("o",), self.ctx))
                    parts.append(isl.Map.from_domain_and_range(isl.Set.universe(affine.space), line))
                else:
                    parts.append(isl.Map.from_pw_aff(value))
            relation = reduce(lambda a, b: a.flat_range_product(b), parts).set_tuple_name(
                OUT, target.get_tuple_name(SET)
            )
        if unknown or checked:
            clip = isl.Set.universe(target)
            inner = Affine(self.parameters, target, ())
            for i in {*unknown, *checked}:
                clip = _bounded(inner, clip, ("d", i), buffer.box[i].min, buffer.box[i].extent)
            relation = relation.intersect_range(clip)
        relation = relation.intersect_domain(where)
        return Access(ref, kind, buffer.name, simple, relation, exact and not unknown, tuple(unknown), read)


def _bounded(affine: Affine, s: isl.Set, dim: tuple[str, int], low: Expr, extent: Expr) -> isl.Set:
    """`s` with `low <= dim < low + extent`; a bound that isl cannot express is left out."""
    s, _ = affine.where_nonneg(s, {dim: 1}, Sub(IntImm(0), low))
    s, _ = affine.where_nonneg(s, {dim: -1}, Sub(Add(low, extent), IntImm(1)))
    return s


def box_set(scop: Scop, buffer: Buffer) -> isl.Set:
    """The elements of a buffer."""
    return _box(scop.parameters, buffer.name, buffer.box, scop.ctx)


def _box(parameters: Parameters, name: str, box: Box, ctx: isl.Context) -> isl.Set:
    space = parameters.space("buffer", name, [f"o{i}" for i in range(len(box))], ctx)
    inner = Affine(parameters, space, ())
    s = isl.Set.universe(space)
    for i, r in enumerate(box):
        s = _bounded(inner, s, ("d", i), r.min, r.extent)
    return s

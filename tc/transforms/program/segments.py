"""A program with sequential loops as straight-line programs in loops.

    part    : Segment(program) | Repeat(loop, part*)

A segment consists of consecutive stages without a sequential loop between them.  In its program the counters
of the loops around it are sizes, and preconditions say that the iteration exists.  So every pass and every
backend that supports dynamic sizes can compile it, and only the composition of the parts knows about the
loops.  A tensor that other segments or other iterations use is a parameter or an in-out result of the
segment.

`in_domains` is another view, for questions about all iterations at once: counters are variables of domains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.ir.evaluate import evaluate
from tc.ir.expr import LT, ZERO, Call, Expr, Variable, rebuild
from tc.ir.program import Buffer, Domain, Func, IterVar, Loop, Precondition, Program, Range, Stage


@dataclass(frozen=True, slots=True)
class Segment:
    """A straight-line program that runs once in each iteration of the loops around it.  A `serial` one
    contains scatters and runs in the order of the source."""

    program: Program
    serial: bool = False


@dataclass(frozen=True, slots=True)
class Repeat:
    """Parts that run one after the other in each iteration of a loop."""

    loop: Loop
    body: tuple[Part, ...]


Part = Segment | Repeat


def parts(program: Program) -> tuple[Part, ...]:
    """The parts of a program; a single segment, the program itself, if it has no loops and no scatters."""
    if not program.composite:
        return (Segment(program),)
    return tuple(_parts(program, program.stages, ()))


def segments(found: Collection[Part]) -> Iterator[Segment]:
    """The segments of parts, in order."""
    for p in found:
        if isinstance(p, Segment):
            yield p
        else:
            yield from segments(p.body)


def _parts(program: Program, stages: Sequence[Stage], around: tuple[Loop, ...]) -> Iterator[Part]:
    depth = len(around)
    k = 0
    while k < len(stages):
        loop = stages[k].loops[depth] if len(stages[k].loops) > depth else None
        last = k
        serial = loop is None and stages[k].scatters
        while last < len(stages) and _loop_at(stages[last], depth) == loop:
            if loop is None and stages[last].scatters != serial:
                break
            last += 1
        run = stages[k:last]
        if loop is None:
            yield Segment(_segment(program, run, around), serial)
        else:
            yield Repeat(loop, tuple(_parts(program, run, (*around, loop))))
        k = last


def _loop_at(s: Stage, depth: int) -> Loop | None:
    return s.loops[depth] if len(s.loops) > depth else None


# ---- one segment


def _segment(program: Program, stages: Sequence[Stage], around: tuple[Loop, ...]) -> Program:
    buffers = _buffers(program, stages)
    versions = _Versions(program, buffers)
    made = tuple(versions.stage(s, stages[k + 1 : k + 2]) for k, s in enumerate(stages))
    inputs = {b.name for b in buffers if b.role == "input"}
    scalars = {s.name for s in program.scalars}
    order = (*program.params, *(b.name for b in buffers if b.name not in program.params))
    return replace(
        program,
        sizes=(*program.sizes, *(loop.name for loop in around)),
        params=tuple(n for n in order if n in inputs or n in scalars),
        buffers=buffers,
        outputs=tuple(b.name for b in buffers if b.role == "output"),
        funcs=versions.ordered(made),
        stages=made,
        preconditions=(*program.preconditions, *map(_runs, around)),
        counters=tuple(loop.name for loop in around),
    )


def _runs(loop: Loop) -> Precondition:
    return Precondition(LT(Variable(loop.name), loop.trips), "an iteration", None)


def _buffers(program: Program, stages: Sequence[Stage]) -> tuple[Buffer, ...]:
    """The buffers that a segment uses, each with its role in the segment."""
    buffer_of = program.func_buffers
    used = {buffer_of.get(e.name, e.name) for s in stages for e in s.calls} | {
        buffer_of[s.func] for s in stages
    }
    written = {buffer_of[s.func] for s in stages}
    own = {id(s) for s in stages}
    elsewhere = {buffer_of.get(e.name, e.name) for s in program.stages if id(s) not in own for e in s.calls}
    elsewhere |= {buffer_of[s.func] for s in program.stages if id(s) not in own}
    out: list[Buffer] = []
    for b in program.buffers:
        if b.name not in used:
            continue
        if b.name not in written:
            out.append(replace(b, role="input", inout=False))
        elif b.role == "temporary" and b.name not in elsewhere and _starts_anew(b, stages, buffer_of):
            out.append(b)
        else:
            out.append(replace(b, role="output", inout=True))
    return tuple(out)


def _starts_anew(b: Buffer, stages: Sequence[Stage], buffer_of: Mapping[str, str]) -> bool:
    """Whether the first of these stages that accesses a buffer defines all of it."""
    for s in stages:
        reads = any(buffer_of.get(e.name, e.name) == b.name for e in s.calls)
        if reads or buffer_of[s.func] == b.name:
            return not reads and _defines(s, b)
    return False


def _defines(s: Stage, b: Buffer) -> bool:
    """Whether a stage writes each element of a buffer once, independently of the old values."""
    ranges = {v.name: v.range for v in s.domain.vars}
    names = [a.name for a in s.args if isinstance(a, Variable)]
    whole = len(names) == len(s.args) and len(set(names)) == len(names)
    return s.op is None and not s.domain.conditions and whole and tuple(ranges.get(n) for n in names) == b.box


class _Versions:
    """The versions of a segment's tensors: a new one starts where a tensor is redefined after another has
    read it, or defined anew (as `tc.ir.lower` numbers those of a program without loops)."""

    def __init__(self, program: Program, buffers: Sequence[Buffer]) -> None:
        self.buffer_of = program.func_buffers
        self.buffers = {b.name: b for b in buffers}
        self.funcs: list[Func] = []
        self.current: dict[str, str] = {}
        self.count: dict[str, int] = {}
        self.read: set[str] = set()
        for b in buffers:
            if b.inout:
                self.begin(b, None)

    def begin(self, b: Buffer, previous: str | None) -> str:
        n = self.count[b.name] = self.count.get(b.name, -1) + 1
        name = b.name if n == 0 else f"{b.name}.{n}"
        self.funcs.append(Func(name, b.name, b.dtype, b.box, previous))
        self.current[b.name] = name
        self.read.discard(b.name)
        return name

    def stage(self, s: Stage, following: Sequence[Stage]) -> Stage:
        b = self.buffers[self.buffer_of[s.func]]
        # A reduction and the stage that sets its neutral elements are one statement.
        own = (s, *(f for f in following if s.init and f.func == s.func))
        reads_self = any(self.buffer_of.get(e.name, e.name) == b.name for f in own for e in f.calls)
        value, args = self.renamed(s.value), tuple(map(self.renamed, s.args))
        for e in s.calls:
            buffer = self.buffer_of.get(e.name, e.name)
            if buffer != b.name:
                self.read.add(buffer)
        anew = _defines(s, b) and not reads_self
        if b.name not in self.current:
            func = self.begin(b, None)
        elif b.name in self.read or anew:
            func = self.begin(b, None if anew else self.current[b.name])
        else:
            func = self.current[b.name]
        return replace(s, func=func, args=args, value=value, loops=())

    def renamed(self, e: Expr) -> Expr:
        e = rebuild(e, self.renamed)
        if not isinstance(e, Call) or e.kind not in ("func", "image"):
            return e
        buffer = self.buffer_of.get(e.name, e.name)
        if self.buffers[buffer].role == "input":
            return replace(e, name=buffer, kind="image")
        return replace(e, name=self.current[buffer], kind="func")

    def ordered(self, stages: Sequence[Stage]) -> tuple[Func, ...]:
        last = {s.func: n for n, s in enumerate(stages)}
        return tuple(sorted(self.funcs, key=lambda f: last.get(f.name, -1)))


# ---- all iterations at once


def in_domains(program: Program) -> Program:
    """The program with counters as the first variables of domains: the same instances, without their
    order."""

    def inside(s: Stage) -> Stage:
        counters = tuple(IterVar(loop.name, Range(ZERO, loop.trips), "pure") for loop in s.loops)
        domain = Domain((*counters, *s.domain.vars), s.domain.conditions)
        return replace(s, domain=domain, loops=())

    return replace(program, stages=tuple(map(inside, program.stages)))


def positions(stages: Sequence[Stage]) -> list[tuple[int, ...]]:
    """The place of each stage: its number, or that of its loop, in the block of each loop around it and in
    the innermost block."""
    out: list[tuple[int, ...]] = []

    def visit(first: int, last: int, depth: int, path: tuple[int, ...]) -> None:
        k, n = first, 0
        while k < last:
            loop = _loop_at(stages[k], depth)
            end = k + 1
            if loop is None:
                out.append((*path, n))
            else:
                while end < last and _loop_at(stages[end], depth) == loop:
                    end += 1
                visit(k, end, depth + 1, (*path, n))
            k, n = end, n + 1

    visit(0, len(stages), 0, ())
    return out


def typical_counters(found: Collection[Part], typical: Mapping[str, int]) -> dict[str, int]:
    """Values of counters for which segments are optimised: half of the iterations."""
    out: dict[str, int] = {}
    for p in found:
        if isinstance(p, Repeat):
            trips = evaluate(p.loop.trips, {**typical, **out})
            out[p.loop.name] = max(0, trips // 2)
            out |= typical_counters(p.body, {**typical, **out})
    return out

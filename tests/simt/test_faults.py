"""Deliberate faults in mapped code, each of which the shim or wrong results must show.

A fault changes the loop nest of a kernel, from which the CUDA text is then made, or that text.  If it no
longer applies anywhere, its test fails and has to be adapted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tc.codegen import gpu_source
from tc.codegen.dialect import CUDA
from tc.codegen.gpu_module import Module
from tc.ir.expr import EQ, Add, Expr, IfThenElse, IntImm, Load, Min, Sub, Variable, imm, substitute
from tc.ir.loops import Block, Combine, Compute, For, If, Launch, LoopNest, Stmt, Sync, copied, statements
from tests.simt import mapped
from tests.simt import shim as simt
from tests.simt.fixed import PROGRAMS, right, same
from tests.simt.shim import Kind

if TYPE_CHECKING:
    import numpy as np

# A change yields a kernel's code with a fault, once for each place where it applies.
Change = Callable[[LoopNest], Iterator[Module]]


def in_statements(at: Callable[[LoopNest, Stmt], Iterable[Stmt]]) -> Change:
    """`at` gives what may replace a statement."""

    def places(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
        yield from at(n, s)
        match s:
            case Block():
                for i, c in enumerate(s.body):
                    for x in places(n, c):
                        yield replace(s, body=(*s.body[:i], x, *s.body[i + 1 :]))
            case For() | Launch():
                for x in places(n, s.body):
                    yield replace(s, body=x)
            case If():
                for x in places(n, s.then):
                    yield replace(s, then=x)
            case _:
                pass

    def changed(n: LoopNest) -> Iterator[Module]:
        for body in places(n, n.body):
            yield gpu_source.emit(replace(n, body=body), CUDA)

    return changed


def in_text(pattern: str, replacement: str) -> Change:
    """Replaces each match of a regular expression in the CUDA text."""

    def changed(n: LoopNest) -> Iterator[Module]:
        made = gpu_source.emit(n, CUDA)
        for m in re.finditer(pattern, made.text):
            new = made.text[: m.start()] + m.expand(replacement) + made.text[m.end() :]
            assert new != made.text
            yield replace(made, text=new)

    return changed


def writes(n: LoopNest, s: Stmt, role: str) -> bool:
    """Whether a statement, or one below it, writes an array of this role."""
    return any(isinstance(x, Compute) and n.array(x.buffer).role == role for x in statements(s))


def dropped(which: Callable[[LoopNest, Stmt], bool]) -> Change:
    return in_statements(lambda n, s: [Block(())] if which(n, s) else [])


def barrier(after_a_copy: bool | None) -> Change:
    """A missing barrier: right after a copy to shared memory, or elsewhere in the loop that copies; or, of a
    program without copies, any."""

    def at(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
        if not isinstance(s, Block):
            return
        copies = [writes(n, x, "shared") for x in s.body]
        for i, x in enumerate(s.body):
            if isinstance(x, Sync) and (
                not any(copies) if after_a_copy is None else any(copies) and copies[i - 1] == after_a_copy
            ):
                yield replace(s, body=(*s.body[:i], *s.body[i + 1 :]))

    return in_statements(at)


def guard(role: str) -> Change:
    """A missing condition around statements that write an array of this role."""
    return in_statements(lambda n, s: [s.then] if isinstance(s, If) and writes(n, s, role) else [])


def copies(change: Callable[[For, Compute], Stmt | None]) -> Change:
    """A changed copy to shared memory: a loop whose body is one statement."""

    def at(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
        if isinstance(s, For) and isinstance(s.body, Compute) and n.array(s.body.buffer).role == "shared":
            found = change(s, s.body)
            if found is not None:
                yield found

    return in_statements(at)


def vectors(change: Callable[[Compute, Load], Compute]) -> Change:
    """A changed vector copy."""

    def at(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
        if isinstance(s, Compute) and s.width > 1:
            yield change(s, copied(s)[0])

    return in_statements(at)


def further(subscripts: tuple[Expr, ...], n: int) -> tuple[Expr, ...]:
    return (*subscripts[:-1], Add(subscripts[-1], IntImm(n)))


def reading(c: Compute, load: Load) -> Compute:
    """A copy that reads other elements."""
    e = c.value
    return replace(c, value=replace(e, then_value=load) if isinstance(e, IfThenElse) else load)


def untested(s: For, c: Compute) -> Stmt:
    assert isinstance(c.value, IfThenElse)
    return replace(s, body=replace(c, value=c.value.then_value))


def untested_vectors(c: Compute, load: Load) -> Compute:
    return replace(c, value=load)


def overlapping(s: For, c: Compute) -> Stmt | None:
    return replace(s, step=s.step // 2) if s.step > 1 else None


def from_the_next(s: For, c: Compute) -> Stmt:
    """Elements are copied from the place of the next element; so is the test."""
    moved = Add(Variable(s.var), IntImm(1))
    return replace(s, body=replace(c, value=substitute(c.value, {s.var: moved})))


def one_less(role: str, dimension: int) -> Change:
    """Arrays that are declared too small."""

    def changed(n: LoopNest) -> Iterator[Module]:
        for i, a in enumerate(n.arrays):
            if a.role != role:
                continue
            shape = list(a.shape)
            extent = shape[dimension]
            assert isinstance(extent, IntImm)
            shape[dimension] = IntImm(extent.value - 1 - (a.padding if dimension == -1 else 0))
            arrays = (*n.arrays[:i], replace(a, shape=tuple(shape)), *n.arrays[i + 1 :])
            yield gpu_source.emit(replace(n, arrays=arrays), CUDA)

    return changed


def unmasked(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
    """The sum of a point beyond the results is added to one of them."""
    if isinstance(s, If) and isinstance(s.then, Compute) and writes(n, s, "register"):
        yield s.then


def stored_elsewhere(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
    """The element next to the result, in each dimension."""
    if isinstance(s, Compute) and n.array(s.buffer).role == "output":
        for d, e in enumerate(s.subscripts):
            moved = (*s.subscripts[:d], Add(e, IntImm(1)), *s.subscripts[d + 1 :])
            yield replace(s, subscripts=moved)


def other_threads(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
    if isinstance(s, Combine):
        (launch,) = (x for x in statements(n.body) if isinstance(x, Launch))
        for v, _ in launch.threads:
            if v != s.thread:
                yield replace(s, thread=v)


def other_start(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
    """A partial sum that starts from 1."""
    if isinstance(s, Compute) and n.array(s.buffer).partial_of is not None and s.op is None:
        yield replace(s, value=imm(1, n.array(s.buffer).dtype))


def blocks_less(n: LoopNest) -> Iterator[Module]:
    made = gpu_source.emit(n, CUDA)
    for i, k in enumerate(made.kernels):
        less = replace(k, blocks=Sub(k.blocks, IntImm(1)))
        yield replace(made, kernels=(*made.kernels[:i], less, *made.kernels[i + 1 :]))


def unguarded(n: LoopNest) -> LoopNest:
    """Without the conditions and bounds of partial tiles where only registers are written: these compute
    with the zeros that copies have beyond the ends of arrays."""

    def opened(s: Stmt) -> Stmt:
        written = [n.array(x.buffer).role for x in statements(s) if isinstance(x, Compute)]
        inside = set(written) == {"register"} and not any(isinstance(x, Combine) for x in statements(s))
        match s:
            case Block():
                return Block(tuple(map(opened, s.body)))
            case For(upper=Min(a=IntImm() as whole)) if inside:
                return replace(s, upper=whole, body=opened(s.body))
            case For() | Launch():
                return replace(s, body=opened(s.body))
            case If():
                return opened(s.then) if inside else replace(s, then=opened(s.then))
            case _:
                return s

    return replace(n, body=opened(n.body))


def unfilled(s: For, c: Compute) -> Stmt:
    """No zeros where copies should write them."""
    assert isinstance(c.value, IfThenElse)
    return replace(s, body=If(c.value.condition, replace(c, value=c.value.then_value)))


def for_the_first(n: LoopNest, s: Stmt) -> Iterator[Stmt]:
    """Only one thread gets the result of a reduction across threads."""
    if isinstance(s, Compute) and n.array(s.buffer).replicas and not s.stage:
        yield If(EQ(Variable("t0"), IntImm(0)), s)


@dataclass(frozen=True)
class Fault:
    """`seen`: the kinds of findings, one of which there must be; empty: no finding, but wrong results."""

    name: str
    program: str
    change: Change
    seen: tuple[Kind, ...] = ()


OUTSIDE = (Kind.INDEX, Kind.OUT_OF_BOUNDS)
BARRIER = r"__sync(threads|warp)\(\);"
SHUFFLE = r"__shfl_xor_sync\(0xffffffffu, held, step\)"

FAULTS = (
    # Barriers.
    Fault("no barrier between units", "in memory", barrier(None), (Kind.RACE,)),
    Fault("no barrier after a copy", "gemm", barrier(True), (Kind.RACE,)),
    Fault("no barrier after the use of a copy", "gemm", barrier(False), (Kind.RACE,)),
    Fault("no barrier in a combination", "tree", in_text(BARRIER, ""), (Kind.RACE,)),
    Fault("no barrier before what few have is read", "in a row", in_text(BARRIER, ""), (Kind.RACE,)),
    Fault(
        "a barrier for some threads",
        "in memory",
        in_text(BARRIER, r"if (t0 < 8) \g<0>"),
        (Kind.BARRIER, Kind.WARP, Kind.RACE),
    ),
    # Guards.
    Fault("points beyond the last", "gemm", guard("output"), OUTSIDE),
    Fault("every thread does what the first should", "in memory", guard("temporary"), (Kind.RACE,)),
    Fault("every thread writes a result", "shuffles", guard("output"), (Kind.RACE,)),
    Fault("results where a condition says none", "syrk", in_statements(unmasked)),
    # Copies to shared memory.
    Fault("copies from beyond an array", "gemm", copies(untested), OUTSIDE),
    Fault("copies from the next element", "gemm", copies(from_the_next)),
    Fault("copies half", "gemm", copies(lambda s, c: replace(s, step=2 * s.step)), (Kind.UNINITIALISED,)),
    Fault("copies twice", "gemm", copies(overlapping), (Kind.RACE,)),
    Fault("a shared array of short rows", "gemm", one_less("shared", -1), (Kind.INDEX, Kind.MISALIGNED)),
    Fault("a shared array of too few rows", "gemm", one_less("shared", 0), (Kind.INDEX,)),
    # Vectors.
    Fault(
        "vectors from the next element",
        "vectors",
        vectors(lambda c, e: reading(c, replace(e, subscripts=further(e.subscripts, 1)))),
        (Kind.MISALIGNED, Kind.OUT_OF_BOUNDS),
    ),
    Fault(
        "vectors to the next element",
        "vectors",
        vectors(lambda c, e: replace(c, subscripts=further(c.subscripts, 1))),
        (Kind.MISALIGNED,),
    ),
    Fault(
        "vectors to the place of the next",
        "vectors",
        vectors(lambda c, e: replace(c, subscripts=further(c.subscripts, c.width))),
        (Kind.UNINITIALISED, Kind.RACE, *OUTSIDE),
    ),
    Fault(
        "vectors of half the elements",
        "vectors",
        vectors(lambda c, e: replace(c, width=c.width // 2)),
        (Kind.UNINITIALISED,),
    ),
    Fault("vectors from beyond an array", "edges", vectors(untested_vectors), (Kind.OUT_OF_BOUNDS,)),
    Fault("rows too short for vectors", "vectors", one_less("shared", -1), (Kind.MISALIGNED, Kind.INDEX)),
    Fault(
        "shared memory that need not be aligned",
        "vectors",
        in_text(r"__align__\(16\) ", ""),
        (Kind.MISALIGNED,),
    ),
    # Results in shared memory.
    Fault("no barrier before results are stored", "rows", barrier(True), (Kind.RACE,)),
    Fault("results of rows beyond the last", "rows", guard("output"), OUTSIDE),
    Fault("results that are not stored", "rows", dropped(lambda n, s: writes(n, s, "output"))),
    # Registers and results.
    Fault(
        "registers that are not stored",
        "gemm",
        dropped(lambda n, s: isinstance(s, Compute) and writes(n, s, "output")),
    ),
    Fault("too few registers", "gemm", one_less("register", 0), (Kind.INDEX,)),
    Fault("results go to the next element", "gemm", in_statements(stored_elsewhere), OUTSIDE),
    # Reductions across threads.
    Fault("no combination", "shuffles", dropped(lambda n, s: isinstance(s, Combine))),
    Fault("a combination over other threads", "shuffles", in_statements(other_threads)),
    Fault("a combination over other threads, in memory", "tree", in_statements(other_threads)),
    Fault("a combination over other threads, of few", "in a row", in_statements(other_threads)),
    Fault("one of few threads less", "in a row", in_text("part < 12", "part < 11")),
    Fault(
        "a result for all of few",
        "in a row",
        in_text(r"if \(t0 == 0\) \{\n    const", "{\n    const"),
        OUTSIDE,
    ),
    Fault("parts that start from 1", "shuffles", in_statements(other_start)),
    Fault("a step less of shuffles", "shuffles", in_text("step > 0;", "step > 1;")),
    Fault("twice the distance", "shuffles", in_text(r"held, step\)", "held, step * 2)")),
    Fault("a mask of half the warp", "shuffles", in_text("0xffffffffu", "0xffffu"), (Kind.WARP,)),
    Fault("a shuffle for some lanes", "in memory", in_text(SHUFFLE, r"(t1 < 3 ? \g<0> : 0)"), (Kind.WARP,)),
    Fault("what all threads should have, for the first", "softmax", in_statements(for_the_first)),
    Fault("partners beyond the last thread", "tree", in_text(r" && t0 \+ step < 36", ""), (Kind.INDEX,)),
    # Numbers of blocks and threads.
    Fault("too few values of a thread variable", "gemm", in_text("thread % 4;", "thread % 2;"), (Kind.RACE,)),
    Fault("too few values of a block variable", "gemm", in_text("block % 3;", "block % 2;"), (Kind.RACE,)),
    Fault("a block less", "gemm", blocks_less),
    # Checks of subscripts.
    Fault(
        "no claim of the error record",
        "strays",
        in_text(r"if \(!\(atomicCAS.*", "*error = site;"),
        (Kind.RACE,),
    ),
    Fault("a check too lax", "strays", in_text("at < 3", "at < 4"), (Kind.OUT_OF_BOUNDS,)),
)


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_correct_kernels_have_no_findings(name: str) -> None:
    call, wanted = right(name)
    result = call.run()
    assert not result.found, simt.report(result.found)
    assert (wanted is None) == bool(result.error[0])
    assert wanted is None or same(result.values, wanted)


@pytest.mark.share(24)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("fault", FAULTS, ids=[f.name for f in FAULTS])
def test_every_fault_is_found(fault: Fault) -> None:
    call, wanted = right(fault.program)
    places = list(fault.change(call.nest))
    assert places, "there is no place for this fault any more"
    for module in places:
        result = call.run(module)
        told = f"{simt.report(result.found)}\n{module.text}"
        kinds = {f.kind for f in result.found}
        if fault.seen:
            assert kinds & set(fault.seen), told
        else:
            assert wanted is not None and not kinds, told
            assert not same(result.values, wanted), told


def test_zeros_in_copies_replace_guards() -> None:
    """Inner loops may run beyond the ends of arrays if the copies have zeros there."""
    call, wanted = right("gemm")
    nest = unguarded(call.nest)
    result = call.run(gpu_source.emit(nest, CUDA))
    assert wanted is not None and same(result.values, wanted)
    assert not result.found, simt.report(result.found)
    places = list(copies(unfilled)(nest))
    assert places
    for module in places:
        assert Kind.UNINITIALISED in {f.kind for f in call.run(module).found}, module.text


def test_unaligned_arrays_of_vectors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that launches kernels guarantees alignment; the shim finds violations."""
    call, _ = right("vectors")
    promised = mapped.aligned

    def elsewhere(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        return promised((math.prod(shape) + 1,), dtype)[1:].reshape(shape)

    monkeypatch.setattr(mapped, "aligned", elsewhere)
    assert Kind.MISALIGNED in {f.kind for f in call.run().found}


def test_padding_does_not_change_results() -> None:
    """Subscripts depend on the declaration, so that results without padding are the same."""
    call, wanted = right("gemm")
    padded = [a for a in call.nest.arrays if a.padding]
    assert padded and wanted is not None
    bare = tuple(replace(a, padding=0) for a in call.nest.arrays)
    module = gpu_source.emit(replace(call.nest, arrays=bare), CUDA)
    assert module.kernels[0].shared < call.module.kernels[0].shared
    result = call.run(module)
    assert not result.found, simt.report(result.found)
    assert same(result.values, wanted)

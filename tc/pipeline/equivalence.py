"""The oracle of passes over programs and over whole loop nests: the program computes the same results before
and after a pass.

Both programs are compiled as the reference backend does it, statement by statement and without any
transformation between, and run on the same random data.  Nothing is shared with the passes that are judged.

A program of symbolic sizes is run at a few tiny ones, a specialised program at its own if that takes no more
than `MOST_INSTANCES`.  Data are small integers, so that sums and products of them are exact in every order;
functions are not, and results may differ by the rounding of reassociated sums.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from tc.codegen import llvm_ir, llvm_jit
from tc.dtypes import DType
from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import Add, Call, Div, Expr, FloorDiv, IntImm, Load, Mul, rebuild, variables, walk
from tc.ir.loops import Array, Block, For, If, Launch, LoopNest, Promote, Stmt, statements, with_values
from tc.ir.program import Program, Stage
from tc.poly import exponents, fractions
from tc.poly.identity import identity_nest

MOST_INSTANCES = 1 << 18  # about a millisecond of machine code for each program
_MOST_BYTES = 32 << 20
_SIZES = (5, 1, 37)  # of dynamic sizes; several, as tiles and parts leave rests at some of them only
# Bytes around each array: a wrong program may access memory beyond its arrays, and must be recognised by its
# results.
_MARGIN = 1 << 20
# No 0, which would hide a factor; of one sign alone, since extrema that start from 0 hide among both.
_INDICES = (0, 1)  # of arrays that index others: most extents are larger
_PALETTES = ((-2, -1, 1, 2, 3), (3, 5, 7), (-5, -3))

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]
Results = tuple[tuple[str, Numbers], ...] | None  # None: a checked subscript was out of range


def same_results(before: Program, after: Program) -> str:
    """Runs both programs; returns what was compared, for the list of passes, or "" if the program did not
    change.  Raises InternalError (TC0909) where results differ."""
    if after is before or after == before:
        return ""
    ran = False
    for sizes in _sizes(before):
        if _affordable(before, sizes) and _affordable(after, sizes):
            ran = True
            _compare(_kernel(before), _kernel(after), sizes)
    return "reference" if ran else "reference (too large to run)"


def same_loops(program: Program, before: LoopNest, after: LoopNest) -> str:
    """The same for two nests of a program, which run their statements in order, without registers."""
    if after is before or after == before:
        return ""
    ran = False
    for sizes in _sizes(program):
        if _instances_of(before, sizes) <= MOST_INSTANCES and _fits(program, sizes):
            ran = True
            _compare(_kernel_of(program, before), _kernel_of(program, after), sizes)
    return "scalar loops" if ran else "scalar loops (too large to run)"


def _sizes(program: Program) -> Iterator[dict[str, int]]:
    """Sizes to run a program at, which its preconditions allow."""
    if not program.sizes:
        yield {}
        return
    for n in _SIZES:
        sizes = {name: n + 2 * k for k, name in enumerate(program.sizes)}
        if all(evaluate(p.condition, sizes) for p in program.preconditions):
            yield sizes


def _affordable(program: Program, sizes: Mapping[str, int]) -> bool:
    instances = sum(_instances(s, sizes) for s in program.stages)
    return instances <= MOST_INSTANCES and _fits(program, sizes)


def _fits(program: Program, sizes: Mapping[str, int]) -> bool:
    return sum(_sizes_in_bytes(program, sizes).values()) <= _MOST_BYTES


def _instances(stage: Stage, sizes: Mapping[str, int]) -> int:
    """The instances of a stage, roughly where extents depend on counters of loops."""
    most = 0
    for last in (False, True):
        at, count = dict(sizes), 1
        for x in stage.loops:
            trips = max(0, evaluate(x.trips, at))
            at[x.name] = trips - 1 if last and trips else 0
            count *= trips
        most = max(
            most, math.prod((max(0, evaluate(v.range.extent, at)) for v in stage.domain.vars), start=count)
        )
    return most


def _instances_of(nest: LoopNest, sizes: Mapping[str, int]) -> int:
    """The instances of a nest's statements."""

    def of(s: Stmt, at: Mapping[str, int]) -> int:
        match s:
            case Block():
                return sum(of(c, at) for c in s.body)
            case For():
                places = range(evaluate(s.lower, at), evaluate(s.upper, at), s.step)
                if s.var in _decisive(s.body):
                    return sum(of(s.body, {**at, s.var: i}) for i in places)
                return len(places) * of(s.body, {**at, s.var: places.start}) if places else 0
            case If():
                otherwise = Block(()) if s.otherwise is None else s.otherwise
                if any(isinstance(e, Load) for e in walk(s.condition)):
                    return of(s.then, at) + of(otherwise, at)
                return of(s.then if evaluate(s.condition, at) else otherwise, at)
            case Promote() | Launch():
                return of(s.body, at)
            case _:
                return 1

    return of(nest.body, sizes)


def _decisive(s: Stmt) -> set[str]:
    """The variables in bounds and conditions below a statement."""
    loops = {v for x in statements(s) if isinstance(x, For) for e in (x.lower, x.upper) for v in variables(e)}
    return loops | {v for x in statements(s) if isinstance(x, If) for v in variables(x.condition)}


def _sizes_in_bytes(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    return {
        b.name: b.dtype.itemsize * math.prod(max(0, evaluate(r.extent, sizes)) for r in b.box)
        for b in program.buffers
    }


def _compare(first: _Kernel, second: _Kernel, sizes: Mapping[str, int]) -> None:
    for palette in _PALETTES:
        wanted, found = first.run(sizes, palette), second.run(sizes, palette)
        _same(first.program, wanted, found, sizes)


def _same(before: Program, wanted: Results, found: Results, sizes: Mapping[str, int]) -> None:
    where = f" for {', '.join(f'{n} = {v}' for n, v in sizes.items())}" if sizes else ""
    if (wanted is None) != (found is None):
        which = "after" if found is None else "before"
        raise _wrong(before, f"a checked subscript is out of range only {which} it{where}")
    for (name, a), (_, b) in zip(wanted or (), found or (), strict=True):
        dtype = before.buffer(name).dtype
        if a.shape != b.shape:
            raise _wrong(before, f"{name} has {b.size} elements and had {a.size}{where}")
        different = ~_close(a, b, dtype)
        if different.any():
            k = int(np.argmax(different))
            raise _wrong(
                before,
                f"{int(different.sum())} of {a.size} elements of {name} differ{where}: element {k} was "
                f"{a[k]:g} and is {b[k]:g}",
            )


def _wrong(program: Program, problem: str) -> InternalError:
    return InternalError(f"a pass changed what {program.name} computes: {problem}", code="TC0909")


def _close(a: Numbers, b: Numbers, dtype: DType) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Elements that agree: exactly, or for floating types within what reassociated sums may differ by."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not dtype.is_float or same.all():
        return same
    tolerance = {16: 3e-2, 32: 1e-3, 64: 1e-9}[dtype.bits]
    finite = np.abs(a[np.isfinite(a)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    with np.errstate(all="ignore"):
        return same | (np.abs(a - b) <= tolerance * scale)


# ---- running


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A program as machine code of a loop nest."""

    program: Program
    nest: LoopNest
    code: llvm_jit.MachineCode

    def run(self, at: Mapping[str, int], palette: Sequence[int]) -> Results:
        """The results at these sizes, on data of a palette that the names of parameters determine."""
        program = self.program
        count = _sizes_in_bytes(program, at)
        arrays: dict[str, Bytes] = {}
        scalars = {s.name: s for s in program.scalars}
        indices = _indices(program)
        for name in (*program.params, *program.outputs):
            if name in scalars:
                s = scalars[name]
                arrays[name] = _data(name, s.dtype, s.dtype.itemsize, palette, s.value)
            elif name not in arrays:
                # Otherwise data are out of range, which both programs are to notice.
                chosen = _INDICES if name in indices and palette is _PALETTES[0] else palette
                arrays[name] = _room(_data(name, program.buffer(name).dtype, count[name], chosen))
        error = np.zeros(32, np.int64)
        workspace = _room(np.zeros(evaluate(self.nest.workspace, at) + 64, np.uint8))
        values = np.array([at[n] for n in program.sizes], np.int64)
        aligned = -workspace.ctypes.data % 64
        addresses = [arrays[n].ctypes.data for n in (*program.params, *program.outputs)]
        addresses += [error.ctypes.data, workspace.ctypes.data + aligned, values.ctypes.data]
        arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self.code.address)
        if call(ctypes.addressof(arguments)):
            return None
        return tuple((n, _numbers(arrays[n], program.buffer(n).dtype)) for n in program.outputs)


@functools.lru_cache(8)  # the program after a pass is the one before the next
def _kernel(program: Program) -> _Kernel:
    return _kernel_of(program, identity_nest(program))


def _kernel_of(program: Program, nest: LoopNest) -> _Kernel:
    nest = _in_memory(replace(nest, body=with_values(nest.body, _plain)))
    return _Kernel(program, nest, llvm_jit.compile_text(llvm_ir.emit(nest), llvm_ir.KERNEL, level=0))


def _plain(e: Expr) -> Expr:
    """An expression without what passes have found out about operands of its functions."""
    e = rebuild(e, _plain)
    if isinstance(e, Call) and e.name == exponents.NAME:
        return replace(e, name="exp")
    return Div(*e.args) if isinstance(e, Call) and e.name == fractions.NAME else e


def _in_memory(nest: LoopNest) -> LoopNest:
    """A nest whose registers have places of their own in the workspace."""
    arrays: list[Array] = []
    end = nest.workspace
    for a in nest.arrays:
        if a.role == "register":
            a = replace(a, offset=end)
            size = reduce(Mul, a.shape, IntImm(a.dtype.itemsize))
            end = Add(end, Mul(FloorDiv(Add(size, IntImm(63)), IntImm(64)), IntImm(64)))
        arrays.append(a)
    return replace(nest, arrays=tuple(arrays), workspace=end)


def _indices(program: Program) -> set[str]:
    """The buffers of which elements are subscripts."""
    buffer_of = program.func_buffers
    places = [a for s in program.stages for a in s.args]
    places += [a for s in program.stages for e in s.calls for a in e.args]
    found = [e for a in places for e in walk(a) if isinstance(e, Call) and e.kind != "intrinsic"]
    return {buffer_of.get(e.name, e.name) for e in found}


def _room(content: Bytes) -> Bytes:
    """The content in memory of its own, with margins that nothing else lies in."""
    memory = np.zeros(content.size + 2 * _MARGIN, np.uint8)
    room = memory[_MARGIN : _MARGIN + content.size]
    room[:] = content
    return room


def _data(name: str, dtype: DType, count: int, palette: Sequence[int], value: float | None = None) -> Bytes:
    """So many bytes of numbers of a type: all the given one, or small ones at random."""
    rng = np.random.default_rng(list(name.encode()))
    elements = count // dtype.itemsize
    numbers = rng.choice(palette, elements) if value is None else np.full(elements, value)
    if dtype.is_bool:
        return (np.abs(numbers) % 2).astype(np.uint8)
    if not dtype.is_float and not dtype.is_signed:
        numbers = np.abs(numbers)
    if dtype.kind == "bfloat":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return numbers.astype(dtype.name).view(np.uint8)


def _numbers(data: Bytes, dtype: DType) -> Numbers:
    """The elements as float64; integers of 64 bits lose what decides nothing here."""
    if dtype.is_bool:
        return data.astype(np.float64)
    if dtype.kind == "bfloat":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return data.view(dtype.name).astype(np.float64)

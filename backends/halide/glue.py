"""The kernel of the calling convention around Halide's function, as LLVM IR.

    int32_t tc_kernel(void *const *args)       parameters, outputs, int64_t error[32], workspace

It describes each dense array by a `halide_buffer_t` on the stack (shapes are constants), passes scalars on by
address, the error record as user context, and the values an in/out result starts from as a copy in the
workspace: Halide may write a result before another stage has read them.  It returns 0, 1 where a checked
subscript was out of range, 2 where Halide reported anything else (`runtime` says how).

Halide 21 loads and stores vectors under a predicate as if every buffer were aligned to a vector, and the
process dies where it is not.  Only schedules vectorise: for those (`align`) an array that is not aligned is
replaced, when the kernel runs, by an aligned copy in the workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tc.dtypes import DType
from tc.errors import InternalError, unreachable
from tc.halide.funcs import Lowered
from tc.ir import expr as x
from tc.ir.program import Buffer

KERNEL = "tc_kernel"
_ALIGNMENT = 64

# HalideRuntime.h: { device, interface, host, flags, type { code, bits, lanes }, dimensions, dim, padding }.
_BUFFER = "{ i64, ptr, ptr, i64, i8, i8, i16, i32, ptr, ptr }"


@dataclass(frozen=True, slots=True)
class Glue:
    """The text of `tc_kernel`, calling `function`, and the bytes of workspace it needs."""

    text: str
    workspace: int


def shape(b: Buffer) -> tuple[int, ...]:
    """The extents of a specialised buffer."""
    return tuple(max(0, _constant(r.extent)) for r in b.box)


def size(b: Buffer) -> int:
    """The bytes of a specialised buffer."""
    total = b.dtype.itemsize
    for n in shape(b):
        total *= n
    return total


def glue(lowered: Lowered, function: str, *, align: bool) -> Glue:
    """The kernel for a specialised program whose pipeline was compiled as `function`."""
    writer = _Writer(lowered, function, align)
    return Glue("".join(f"{line}\n" for line in writer.lines()), writer.workspace)


def arguments(lowered: Lowered) -> list[str]:
    """The names of the pipeline's inputs in the order `glue` passes them: images and scalars by parameter,
    then the images that hold what in/out results start from."""
    program = lowered.program
    passed = [n for n in program.params if n in lowered.images or n in lowered.params]
    return passed + [n for n in program.outputs if n in lowered.images]


class _Writer:
    def __init__(self, lowered: Lowered, function: str, align: bool) -> None:
        self.lowered = lowered
        self.program = lowered.program
        self.function = function
        self.align = align
        self.places = {n: k for k, n in enumerate((*self.program.params, *self.program.outputs))}
        self.workspace = 0

    def lines(self) -> Iterator[str]:
        body = list(self._body())
        yield f"declare i32 @{self.function}_argv(ptr)"
        yield "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        for n in dict.fromkeys((*arguments(self.lowered), *self.program.outputs)):
            if n in self.places and n not in self.lowered.params:
                yield from self._dimensions(self.program.buffer(n))
        yield f"define i32 @{KERNEL}(ptr %args) {{"
        for line in body:
            yield f"  {line}" if not line.endswith(":") else line
        yield "}"

    def _dimensions(self, b: Buffer) -> Iterator[str]:
        """The dimensions of a buffer, innermost first: { min, extent, stride, flags }."""
        parts: list[str] = []
        stride = 1
        for r, extent in reversed(list(zip(b.box, shape(b), strict=True))):
            parts += [f"i32 {_constant(r.min)}", f"i32 {extent}", f"i32 {stride}", "i32 0"]
            stride *= max(extent, 1)
        yield f"@dims{self.places[b.name]} = private global [{len(parts)} x i32] [{', '.join(parts)}]"

    def _body(self) -> Iterator[str]:
        count = len(self.program.params) + len(self.program.outputs)
        yield from self._load("error", count)
        yield from self._load("workspace", count + 1)
        yield "store i64 0, ptr %error"
        yield "%context = alloca ptr"
        yield "store ptr %error, ptr %context"
        passed = ["%context"]
        for n in arguments(self.lowered):
            place = self.places[n]
            if n in self.lowered.params:
                yield from self._load(f"scalar{place}", place)
                passed.append(f"%scalar{place}")
            elif n in self.program.outputs:
                b = self.program.buffer(n)
                yield from self._load(f"given{place}", place)
                yield from self._reserve(f"start.copy{place}", size(b))
                yield _copy(f"%start.copy{place}", f"%given{place}", str(size(b)))
                yield from self._buffer(b, f"start{place}", f"%start.copy{place}")
                passed.append(f"%start{place}")
            else:
                yield from self._array(n, place)
                passed.append(f"%array{place}")
        for n in self.program.outputs:
            yield from self._array(n, self.places[n])
            passed.append(f"%array{self.places[n]}")
        yield f"%argv = alloca [{len(passed)} x ptr]"
        for k, p in enumerate(passed):
            yield f"%argv{k} = getelementptr ptr, ptr %argv, i64 {k}"
            yield f"store ptr {p}, ptr %argv{k}"
        yield f"%code = call i32 @{self.function}_argv(ptr %argv)"
        yield "%good = icmp eq i32 %code, 0"
        if self.align:
            for n in self.program.outputs:
                place = self.places[n]
                yield f"%back{place} = select i1 %good, i64 %bytes{place}, i64 0"
                yield _copy(f"%data{place}", f"%used{place}", f"%back{place}")
        yield "%recorded = load i64, ptr %error"
        yield "%other = icmp eq i64 %recorded, 0"
        yield "%failure = select i1 %other, i32 2, i32 1"
        yield "%result = select i1 %good, i32 0, i32 %failure"
        yield "ret i32 %result"

    def _load(self, name: str, place: int) -> Iterator[str]:
        yield f"%{name}.p = getelementptr ptr, ptr %args, i64 {place}"
        yield f"%{name} = load ptr, ptr %{name}.p"

    def _reserve(self, name: str, count: int) -> Iterator[str]:
        offset, self.workspace = self.workspace, self.workspace + _aligned(count)
        yield f"%{name} = getelementptr i8, ptr %workspace, i64 {offset}"

    def _array(self, name: str, place: int) -> Iterator[str]:
        b = self.program.buffer(name)
        yield from self._load(f"data{place}", place)
        if not self.align:
            yield from self._buffer(b, f"array{place}", f"%data{place}")
            return
        yield from self._reserve(f"copy{place}", size(b))
        yield f"%at{place} = ptrtoint ptr %data{place} to i64"
        yield f"%rest{place} = and i64 %at{place}, {_ALIGNMENT - 1}"
        yield f"%fine{place} = icmp eq i64 %rest{place}, 0"
        yield f"%used{place} = select i1 %fine{place}, ptr %data{place}, ptr %copy{place}"
        yield f"%bytes{place} = select i1 %fine{place}, i64 0, i64 {size(b)}"
        if b.role == "input":
            yield _copy(f"%copy{place}", f"%data{place}", f"%bytes{place}")
        yield from self._buffer(b, f"array{place}", f"%used{place}")

    def _buffer(self, b: Buffer, name: str, host: str) -> Iterator[str]:
        if size(b) == 0:
            host = "%args"  # nothing is read or written there, but Halide wants an address
        code, bits = _type(b.dtype)
        fields = (
            "i64 0", "ptr null", f"ptr {host}", "i64 0", f"i8 {code}", f"i8 {bits}", "i16 1",
            f"i32 {len(b.box)}", f"ptr @dims{self.places[b.name]}", "ptr null",
        )  # fmt: skip
        yield f"%{name} = alloca {_BUFFER}"
        for k, field in enumerate(fields):
            yield f"%{name}.{k} = getelementptr {_BUFFER}, ptr %{name}, i32 0, i32 {k}"
            yield f"store {field}, ptr %{name}.{k}"


def _type(dtype: DType) -> tuple[int, int]:
    """`halide_type_t`'s code and bits of how a type is stored (`tc.halide.binding.storage`)."""
    match dtype.kind:
        case "int":
            return 0, dtype.bits
        case "bool" | "uint":
            return 1, max(8, dtype.bits)
        case "float" | "bfloat":
            return (1, 16) if dtype.is_half else (2, dtype.bits)
        case _:
            unreachable(dtype.kind)


def _copy(to: str, source: str, count: str) -> str:
    return f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {count}, i1 false)"


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT


def _constant(e: x.Expr) -> int:
    value = x.constant(e)
    if value is None:
        raise InternalError(f"not specialised: {e!r}")
    return int(value)

"""The text of one launch: a kernel in OpenCL C or CUDA C++."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from tc.codegen.c_family import Printer
from tc.codegen.c_helpers import Helpers
from tc.codegen.combine import Team, emit_combine
from tc.codegen.dialect import CUDA
from tc.codegen.exchanged import exchanged
from tc.codegen.expr import TERNARY, UNARY, CExpr, Text
from tc.codegen.gpu_module import Argument
from tc.codegen.late_checks import checks_alone, grouped, has_checks, is_reported_late
from tc.codegen.names import Recording, identifier
from tc.codegen.numerics import MAX_POINT
from tc.codegen.scratch import Area, Scratch, scratch
from tc.dtypes import BOOL, INT32, INT64, accumulator
from tc.errors import InternalError
from tc.ir.expr import Add, IntImm, Load, walk
from tc.ir.loops import (
    VECTOR,
    Array,
    Block,
    Combine,
    Compute,
    For,
    Launch,
    LoopKind,
    LoopNest,
    Stmt,
    Sync,
    copied,
    statements,
)
from tc.ir.simplify import simplify


@dataclass(slots=True)
class _GpuExpr(CExpr):
    """Expressions with checks that do not return, and with subscripts that may be int32.  `inside` has the
    variables that say whether the subscripts of a load are in range; `failed` is one that notes whether any
    check has failed (empty: each check is reported where it is made).  With `again` the checks run for a
    second time, up to the one that has failed."""

    inside: dict[Load, list[str]] = field(default_factory=dict[Load, list[str]])
    failed: str = ""
    again: bool = False

    def load(self, e: Load, env: Mapping[str, str]) -> Text:
        if not e.checked:
            return CExpr.load(self, e, env)
        array = self.arrays[e.buffer]
        subscripts, tests = self.subscripts(e, env)
        at = self.element(array, subscripts, env)
        return self.read(array, f"({' && '.join(tests)} ? {at} : 0)" if tests else at)

    def subscripts(self, e: Load, env: Mapping[str, str]) -> tuple[list[Text], list[str]]:
        """The subscripts of a load, and variables that have to be true for it.

        Where checks are reported later, subscripts out of range become 0, so that the load, of an array that
        is not empty, depends on no condition and may be moved before others.
        """
        subscripts = [self.value(s, env) for s in e.subscripts]
        inside: list[str] = []
        extents = self.arrays[e.buffer].shape
        notes = self.failed and not self.again
        always = notes and all(isinstance(n, IntImm) and n.value > 0 for n in extents)
        for d in e.checked:
            self.fails = True
            name, extent, logical = self.checked_subscript(subscripts[d], e, d, env)
            in_range = self.fresh("inside")
            self.line(f"const bool {in_range} = {name} >= 0 && {name} < {extent};")
            if notes:
                self.line(f"{self.failed} |= !{in_range};")
            else:
                self.report(in_range, e, d, logical)
            subscripts[d] = Text(f"{in_range} ? {name} : 0", TERNARY) if always else Text(name)
            inside.append(in_range)
        self.inside[e] = inside
        return subscripts, [] if always else inside

    def report(self, in_range: str, e: Load, dimension: int, logical: str) -> None:
        """The lines that record a check if it fails."""
        long, count = self.type(INT64), len(self.point)
        place = self.arrays[e.buffer].source_dimension(dimension)
        self.line(f"if (!{in_range}) {{")
        self.line(f"  const {long} point[] = {{{', '.join(self.point) or '0'}}};")
        self.line(f"  {self.helpers.fail()}(error, {e.site}, {logical}, {place}, {count}, point);")
        if self.again:
            self.line(f"  {self.failed} = false;")
        self.line("}")

    def checked_subscript(
        self, subscript: Text, e: Load, dimension: int, env: Mapping[str, str]
    ) -> tuple[str, str, str]:
        name, extent, logical = CExpr.checked_subscript(self, subscript, e, dimension, env)
        return name, extent, logical if logical == name else f"({self.type(INT64)}){logical}"

    def element(self, array: Array, subscripts: Sequence[Text], env: Mapping[str, str]) -> str:
        if len(subscripts) > 1 and not self.styles[array.name].nested:
            first = Text(f"({self.type(INT64)}){subscripts[0].at(UNARY)}", UNARY)
            subscripts = [first, *subscripts[1:]]
        return CExpr.element(self, array, subscripts, env)


@dataclass(frozen=True, slots=True)
class _SharedArray:
    """An array in shared memory; `vectors`: contiguous elements of a row may be copied as vectors."""

    name: str
    kind: str
    itemsize: int
    shape: tuple[int, ...]
    vectors: bool = True

    @property
    def extents(self) -> str:
        return "".join(f"[{n}]" for n in self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.itemsize

    @property
    def alignment(self) -> int:
        """The alignment that vectors need, in bytes; 0: that of the elements."""
        size = math.gcd(self.shape[-1] * self.itemsize, VECTOR)
        return size if self.vectors and size > self.itemsize else 0


class KernelPrinter(Printer):
    """The kernel of a launch; `function` sets the other attributes."""

    def __init__(self, nest: LoopNest, helpers: Helpers, name: str, traces: bool) -> None:
        super().__init__(nest, helpers, _GpuExpr, name, traces)
        self.name = name
        self.arguments: list[Argument] = []
        self.shared_bytes = self.dynamic_shared_bytes = 0
        self.threads: tuple[tuple[str, int], ...] = ()
        self.checked = False  # whether the launch checks subscripts
        self.areas = Scratch()
        self.thread = self.expr.fresh("thread")
        # The scratch arrays of reductions across threads, with their lengths, by type and area.
        self.scratch: dict[Area, tuple[str, int]] = {}

    def function(self, launch: Launch) -> str:
        """The text of the launch, whose index arithmetic has been narrowed."""
        block = self.expr.fresh("block")
        inner = {v: self.expr.fresh(identifier(v)) for v, _ in (*launch.blocks, *launch.threads)}
        env = Recording({**self.environment(), **inner}, self.uses)
        self.threads, self.checked = launch.threads, has_checks(launch)
        self.areas = scratch(launch, self.expr.arrays, self.dialect is CUDA)
        self.statement(launch.body, env, "  ")
        written = {s.buffer for s in statements(launch) if isinstance(s, Compute)}
        # Extents, offsets and ids use sizes, so the parameters, which declare these, are made last.
        local = self.local_arrays(written)
        blocks = [(v, self.plain(n)) for v, n in launch.blocks]
        ids = [
            *self.ids(block, self.dialect.block, blocks, inner, False),
            *self.ids(
                self.thread,
                self.dialect.thread,
                [(v, str(n)) for v, n in launch.threads],
                inner,
                bool(self.scratch),
            ),
        ]
        parameters, casts = self.parameters(written, exchanged(launch))
        count = reduce(int.__mul__, (n for _, n in launch.threads), 1)
        head = f"{self.dialect.kernel.format(threads=count)} {self.name}({', '.join(parameters)}) {{"
        if len(head.splitlines()[-1]) > 110:
            head = f"{self.dialect.kernel.format(threads=count)} {self.name}(\n    "
            head += ",\n    ".join(parameters) + ") {"
        return "\n".join([head, *casts, *local, *ids, *self.out, "}"])

    # ---- before the body

    def ids(
        self,
        number: str,
        own_number: str,
        mapped: Sequence[tuple[str, str]],
        names: Mapping[str, str],
        keep: bool,
    ) -> list[str]:
        """The declarations of mapped variables, computed from the number of the block or thread; the first
        variable varies fastest.  `keep`: the number itself is used, too."""
        kind = self.dialect.type(INT32)
        used = [v for v, n in mapped if v in self.uses and n != "1"]
        lines = [f"  const {kind} {names[v]} = 0;" for v, n in mapped if v in self.uses and n == "1"]
        wide = [(v, n) for v, n in mapped if n != "1"]
        if len(wide) == 1 and used and not keep:
            return [*lines, f"  const {kind} {names[used[0]]} = {own_number};"]
        if used or keep:
            lines.append(f"  const {kind} {number} = {own_number};")
        before: list[str] = []
        for v, n in wide:
            factor = n if re.fullmatch(r"\w+", n) else f"({n})"
            if v in used:
                scaled = number + "".join(f" / {x}" for x in before)
                last = v == wide[-1][0]
                lines.append(f"  const {kind} {names[v]} = {scaled}{'' if last else f' % {factor}'};")
            before.append(factor)
        return lines

    def parameters(self, written: set[str], passed: frozenset[str]) -> tuple[list[str], list[str]]:
        """The declarations of the arguments that the body uses, and the lines that derive variables from
        them; `passed` are the arrays through which threads pass values to others."""
        d = self.dialect
        parameters: list[str] = []
        casts: list[str] = []
        scalars = {s.name: s.dtype for s in self.nest.scalars}
        restrict = d.restrict + " "

        def space(a: Array) -> str:
            return d.global_space + ("" if a.name in written else "const ")

        for name in self.nest.params:
            if name in scalars:
                if name not in self.uses:
                    continue
                t, local = scalars[name], self.scalars[name]
                if t == BOOL:
                    given = self.expr.fresh(f"{local}_given")
                    casts.append(f"  const bool {local} = {given} != 0;")
                    local = given
                parameters.append(f"const {d.storage(t)} {local}")
                self.arguments.append(Argument("scalar", name))
            elif name in self.expr.used_buffers:
                a = self.expr.arrays[name]
                alone = "" if name in passed else restrict
                parameters.append(self.pointer(a, space(a), alone)[0])
                self.arguments.append(Argument("array", name))
        temporaries = [
            a for a in self.nest.arrays if a.offset is not None and a.name in self.expr.used_buffers
        ]
        for a in temporaries:
            declared, kind = self.pointer(a, space(a))
            place = self.plain(a.offset or IntImm(0))
            start = "workspace" if place == "0" else f"(workspace + {place})"
            casts.append(f"  {declared} = ({kind}){start};")
        for n in self.nest.sizes:
            if n in self.uses:
                parameters.append(f"const {d.type(INT64)} {self.sizes[n]}")
                self.arguments.append(Argument("size", n))
        if self.expr.fails:
            parameters.append(f"{d.global_space}{d.type(INT64)} *error")
            self.arguments.append(Argument("error"))
        if temporaries:
            alone = "" if any(a.name in passed for a in temporaries) else restrict
            parameters.append(f"{d.global_space}char *{alone}workspace")
            self.arguments.append(Argument("workspace"))
        return parameters, casts

    def local_arrays(self, written: set[str]) -> list[str]:
        """Shared and register arrays of the body, and the scratch arrays of reductions."""
        lines: list[str] = []
        shared: list[_SharedArray] = []
        for a in self.nest.arrays:
            if a.name not in self.expr.used_buffers or a.role in ("input", "output", "temporary"):
                continue
            if a.role not in ("shared", "register"):
                raise InternalError(f"a GPU has no {a.role} arrays")
            shape = [n.value for n in a.shape if isinstance(n, IntImm)]
            if len(shape) < len(a.shape):
                raise InternalError(f"the extents of the {a.role} array {a.name} are not constant")
            shape = [*shape[:-1], shape[-1] + a.padding] if shape else [1]
            name, kind = self.styles[a.name].name, self.dialect.storage(a.dtype)
            if a.role == "shared":
                shared.append(_SharedArray(name, kind, a.dtype.itemsize, tuple(shape)))
            else:
                lines.append(f"  {kind} {name}{''.join(f'[{n}]' for n in shape)};")
        for (t, _), (name, count) in self.scratch.items():
            shared.append(_SharedArray(name, self.dialect.storage(t), t.itemsize, (count,), vectors=False))
        return [*self.declare_shared(shared), *lines]

    def declare_shared(self, arrays: Sequence[_SharedArray]) -> list[str]:
        """The declarations of shared arrays, which are parts of dynamic shared memory if they exceed the
        static limit."""
        d = self.dialect
        self.shared_bytes = sum(a.size for a in arrays)
        if self.shared_bytes <= d.static_shared_limit or not d.dynamic_shared:
            return [
                f"  {d.shared}{d.alignment.replace('BYTES', str(a.alignment)) if a.alignment else ''}"
                f"{a.kind} {a.name}{a.extents};"
                for a in arrays
            ]
        lines, offset = [f"  {d.dynamic_shared}"], 0
        for a in arrays:
            part = (
                d.dynamic_array.replace("TYPE", a.kind).replace("NAME", a.name).replace("EXTENTS", a.extents)
            )
            lines.append(f"  {part.replace('OFFSET', str(offset))}")
            offset += -(-a.size // VECTOR) * VECTOR
        self.shared_bytes = self.dynamic_shared_bytes = offset
        return lines

    # ---- statements

    def _statement(self, s: Stmt, env: Mapping[str, str], pad: str) -> None:
        e = self.expr
        assert isinstance(e, _GpuExpr)
        if e.failed or not self.checked:
            super()._statement(s, env, pad)
            return
        if not is_reported_late(s):
            super()._statement(Block(grouped(s)) if isinstance(s, Block) else s, env, pad)
            return
        e.failed = e.fresh("failed")
        self.out.append(f"{pad}bool {e.failed} = false;")
        super()._statement(s, env, pad)
        names_before = set(e.used_names)
        registers = frozenset(a.name for a in self.nest.arrays if a.role == "register")
        e.again = True
        self.out.append(f"{pad}if ({e.failed}) {{  /* which check was the first */")
        super()._statement(checks_alone(s, registers), env, pad + "  ")
        self.out.append(f"{pad}}}")
        e.failed, e.again, e.used_names = "", False, names_before

    def goes_on(self, s: For) -> str:
        """Loops around repeated checks end with the first that fails.  So ptxas cannot unroll them, which it
        would do in spite of a pragma, and keep the values of all checks in registers."""
        assert isinstance(self.expr, _GpuExpr)
        return f"{self.expr.failed} && " if self.expr.again and s.kind is not LoopKind.UNROLLED else ""

    def mark(self, s: For) -> tuple[str, str]:
        if s.kind is LoopKind.UNROLLED:
            return "#pragma unroll", ""
        return (f"#pragma unroll {s.unroll}" if s.unroll else ""), ""

    def compute(self, s: Compute, env: Mapping[str, str], pad: str) -> None:
        assert isinstance(self.expr, _GpuExpr)
        if s.asynchronous or s.width > 1:
            self.out += [] if self.expr.again else self.comment(s, pad)
            self.emit_copy(s, env, pad)
        elif self.expr.again:
            lines, _ = self.computed(s, env, pad)
            self.out += [f"{pad}{{", *lines, f"{pad}}}"]
        else:
            super().compute(s, env, pad)

    def assignment(self, s: Compute, array: Array, target: str, v: Text) -> str:
        if not s.atomic:
            inside = self._checks_of(s)
            stored = super().assignment(s, array, target, v)
            return f"if ({' && '.join(inside)}) {stored}" if inside else stored
        assert s.op is not None
        op, t = s.op, array.dtype
        if accumulator(t, s.value.dtype) != t or t.bits not in (32, 64):
            raise InternalError(f"{t} has no atomic updates")
        function = self.helpers.atomic(op, t, lambda a, b: self.expr.combine(op, Text(a), Text(b), t).text)
        return f"{function}(&{target}, {self.expr.cast(v, s.value.dtype, t).text});"

    def _checks_of(self, s: Compute) -> list[str]:
        """The variables that tell whether a scatter stays in its tensor: the checks of its load of the old
        value."""
        assert isinstance(self.expr, _GpuExpr)
        for e in walk(s.value):
            if isinstance(e, Load) and e.buffer == s.buffer and e.checked and e.subscripts == s.subscripts:
                return self.expr.inside[e]
        return []

    def emit_copy(self, s: Compute, env: Mapping[str, str], pad: str) -> None:
        """A vector copy, or an asynchronous one."""
        assert isinstance(self.expr, _GpuExpr)
        load, condition = copied(s)
        if load is None:
            self.emit_zeros(s, env, pad)
            return
        target, array = self.expr.arrays[s.buffer], self.expr.arrays[load.buffer]
        size = s.width * target.dtype.itemsize
        if s.asynchronous and (load.checked or not self.dialect.async_copy):
            raise InternalError(f"{s.buffer} cannot be copied to asynchronously")
        if s.asynchronous:
            function = self.helpers.async_copy(size)
        elif target.dtype != array.dtype:
            function = self.helpers.convert(array.dtype, s.width)
        else:
            function = self.helpers.move(size)
        place = self.expr.element(target, [self.expr.value(x, env) for x in s.subscripts], env)
        self.expr.used_buffers.add(load.buffer)
        self.expr.used_names |= set(env.values())
        element = f"{self.dialect.global_space}const {self.dialect.storage(array.dtype)}"
        start = f"({element} *){self.styles[array.name].name}"
        if condition is not None and load.checked:  # only copied elements are checked
            self.out.append(f"{pad}if ({self.pure(condition, env)}) {{")
            self.emit_copy(replace(s, value=load), env, pad + "  ")
            if not self.expr.again:
                self.out += [f"{pad}}} else {{", f"{pad}  {function}(&{place}, {start}, false);"]
            self.out.append(f"{pad}}}")
            return
        self.expr.point = [self.pure(p, env) for p in s.point[:MAX_POINT]]
        self.expr.pad = pad
        subscripts, tests = self.expr.subscripts(load, env)
        source = self.expr.element(array, subscripts, env)
        if condition is not None:
            tests.append(self.expr.fresh("inside"))
            self.expr.line(f"const bool {tests[-1]} = {self.expr.value(condition, env).text};")
        self.out += self.expr.lines
        self.expr.lines = []
        if self.expr.again:
            return
        inside = " && ".join(tests)
        address = f"{inside} ? &{source} : {start}" if inside else f"&{source}"
        self.out.append(f"{pad}{function}(&{place}, {address}, {inside or 'true'});")

    def emit_zeros(self, s: Compute, env: Mapping[str, str], pad: str) -> None:
        """The elements of a vector copy that reads nothing."""
        for k in range(s.width):
            at = (*s.subscripts[:-1], simplify(Add(s.subscripts[-1], IntImm(k))))
            super().compute(replace(s, subscripts=at, width=1, asynchronous=False, text=""), env, pad)

    def cooperative(self, s: Launch | Combine | Sync, env: Mapping[str, str], pad: str) -> None:
        match s:
            case Launch():
                raise InternalError("a launch inside a launch")
            case Sync():
                if s.copies:
                    self.out.append(f"{pad}{self.dialect.wait_copies}")
                barrier = self.dialect.warp_barrier if s.warp else ""
                self.out.append(f"{pad}{barrier or self.dialect.barrier}")
            case Combine():
                self.expr.used_buffers.add(s.buffer)
                team = Team(self.expr, self.threads, self.thread, self.scratch, self.areas)
                lines = emit_combine(s, team, env)
                self.out += [pad + line for line in lines]

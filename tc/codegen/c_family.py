"""Loop nests to readable, self-contained text in dialects of C: the statements, and kernels in C99.

A kernel in C is `int32_t NAME(void *const *args)`.  `args` has the addresses of the parameters in order, of
the outputs, of the error record (`int64_t[32]`, zeroed) and of the workspace (64-byte aligned); then, with
symbolic sizes, of an array of their values (`int64_t`).  It returns 0, or 1 after a failed check: then the
record has the site + 1, the subscript, the number of iteration variables, their values, and the dimension.
Compile with -fwrapv: integers wrap.

Kernels of GPUs are in `tc.codegen.gpu_source`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tc.codegen.c_helpers import Helpers
from tc.codegen.check_points import source_points
from tc.codegen.dialect import C99, Dialect
from tc.codegen.expr import SUM, ArrayStyle, CExpr, Text
from tc.codegen.names import Recording, bound, identifier
from tc.codegen.numerics import MAX_POINT
from tc.dtypes import BOOL, accumulator
from tc.errors import InternalError, unreachable
from tc.ir.expr import Expr, IntImm
from tc.ir.lines import traced
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
)
from tc.ir.traces import Traces


def emit(nest: LoopNest, name: str | None = None, *, traces: bool = False) -> str:
    """The C99 text of a kernel; its name is the program's, or `name`.  With `traces` lines end in their
    stage, as `tc.ir.lines.split` reads it."""
    name = name or identifier(nest.name)
    nest = source_points(nest)
    return _CKernel(nest, Helpers(C99), CExpr, name, traces).module(name)


class Printer:
    """The statements of a nest as lines of text (`out`)."""

    def __init__(
        self, nest: LoopNest, helpers: Helpers, expressions: type[CExpr], name: str, traces: bool = False
    ) -> None:
        self.nest, self.helpers = nest, helpers
        self.traces = Traces(nest.body) if traces else None
        self.dialect: Dialect = helpers.dialect
        self.out: list[str] = []
        arrays = {a.name: a for a in nest.arrays}
        self.styles: dict[str, ArrayStyle] = {}
        self.expr = expressions(arrays, self.styles, helpers)
        self.expr.fresh(name)
        for a in nest.arrays:
            inner = a.shape[1:]
            nested = all(isinstance(n, IntImm) and n.value > 0 for n in inner)
            self.styles[a.name] = ArrayStyle(self.expr.fresh(identifier(a.name)), nested)
        self.scalars = {s.name: self.expr.fresh(identifier(s.name)) for s in nest.scalars}
        self.sizes = {n: self.expr.fresh(identifier(n)) for n in nest.sizes}
        self.uses: set[str] = set()

    def environment(self) -> Recording:
        return Recording({**self.sizes, **self.scalars}, self.uses)

    def plain(self, e: Expr) -> str:
        """An extent or an offset, which is an expression over sizes."""
        return self.expr.value(e, Recording(dict(self.sizes), self.uses)).text

    def pointer(self, a: Array, qualifiers: str = "", restrict: str = "") -> tuple[str, str]:
        """The declaration of an array's name as a pointer to its rows, and the type without the name."""
        style = self.styles[a.name]
        element = f"{qualifiers}{self.dialect.storage(a.dtype)}"
        rows = "".join(f"[{self.plain(n)}]" for n in a.shape[1:]) if style.nested else ""
        if rows:
            return f"{element} (*{restrict}{style.name}){rows}", f"{element} (*){rows}"
        return f"{element} *{restrict}{style.name}", f"{element} *"

    def statement(self, s: Stmt, env: Mapping[str, str], pad: str) -> None:
        """Write a statement; what is written for one stage is traced to it."""
        start = len(self.out)
        self._statement(s, env, pad)
        if self.traces is not None and (stage := self.traces.only(s)):
            self.out[start:] = [traced(line, stage) for line in self.out[start:]]

    def _statement(self, s: Stmt, env: Mapping[str, str], pad: str) -> None:
        self.expr.pad = pad
        match s:
            case Block():
                for c in s.body:
                    self.statement(c, env, pad)
            case For():
                self.loop(s, env, pad)
            case If():
                condition = self.pure(s.condition, env)
                self.out.append(f"{pad}if ({condition}) {{")
                self.statement(s.then, env, pad + "  ")
                if s.otherwise is not None:
                    self.out.append(f"{pad}}} else {{")
                    self.statement(s.otherwise, env, pad + "  ")
                self.out.append(f"{pad}}}")
            case Compute():
                self.compute(s, env, pad)
            case Promote():  # C compilers allocate registers themselves
                self.statement(s.body, env, pad)
            case Prefetch():
                pass
            case Launch() | Combine() | Sync():
                self.cooperative(s, env, pad)
            case _:
                unreachable(s)

    def cooperative(self, s: Launch | Combine | Sync, env: Mapping[str, str], pad: str) -> None:
        """A statement that several threads execute together."""
        raise InternalError(f"{self.dialect.name} code for one thread has no {type(s).__name__}")

    def mark(self, s: For) -> tuple[str, str]:
        """A line before a loop, and a comment after its head."""
        return "", "" if s.kind is LoopKind.SERIAL else f" /* {s.kind.value} */"

    def goes_on(self, s: For) -> str:
        """What else must hold for an iteration of a loop, as the first operand of `&&`."""
        return ""

    def pure(self, e: Expr, env: Mapping[str, str]) -> str:
        """The text of a bound or a guard, which has neither lets nor checks."""
        text = self.expr.value(e, env).text
        if self.expr.lines:
            raise InternalError("a bound or guard of a loop nest needs statements")
        return text

    def loop(self, s: For, env: Mapping[str, str], pad: str) -> None:
        taken = {*self.expr.used_names, *env.values()}
        var, count = identifier(s.var), 0
        while var in taken:
            count += 1
            var = f"{identifier(s.var)}{count}"
        lower, upper = self.expr.value(s.lower, env), self.expr.value(s.upper, env)
        advance = f"{var}++" if s.step == 1 else f"{var} += {s.step}"
        before, note = self.mark(s)
        if before:
            self.out.append(f"{pad}{before}")
        start = f"{self.dialect.type(s.lower.dtype)} {var} = {lower.text}"
        again = f"{self.goes_on(s)}{var} < {upper.at(SUM)}"
        self.out.append(f"{pad}for ({start}; {again}; {advance}) {{{note}")
        self.statement(s.body, bound(env, s.var, var), pad + "  ")
        self.out.append(f"{pad}}}")

    def compute(self, s: Compute, env: Mapping[str, str], pad: str) -> None:
        lines, assignment = self.computed(s, env, pad)
        self.out += self.comment(s, pad)
        if lines:
            self.out += [f"{pad}{{", *lines, f"{pad}  {assignment}", f"{pad}}}"]
        else:
            self.out.append(f"{pad}{assignment}")

    def computed(self, s: Compute, env: Mapping[str, str], pad: str) -> tuple[list[str], str]:
        """The lines that must run before the assignment of a statement, and the assignment."""
        names_before = set(self.expr.used_names)
        self.expr.used_names |= set(env.values())
        self.expr.point = [self.pure(p, env) for p in s.point[:MAX_POINT]]
        self.expr.pad = pad + "  "
        array = self.expr.arrays[s.buffer]
        v = self.expr.value(s.value, env)
        target = self.expr.element(array, [self.expr.value(x, env) for x in s.subscripts], env)
        lines, self.expr.lines = self.expr.lines, []
        self.expr.used_names = names_before
        return lines, self.assignment(s, array, target, v)

    def comment(self, s: Compute, pad: str) -> list[str]:
        """A comment with the source of the statement, or with what it copies."""
        text = " ".join(s.text.split()).replace("*/", "* /").replace("/*", "/ *")
        return [f"{pad}/* {s.stage}: {text} */" if s.stage else f"{pad}/* {text} */"] if text else []

    def assignment(self, s: Compute, array: Array, target: str, v: Text) -> str:
        if s.op is None:
            return f"{target} = {self.expr.cast(v, s.value.dtype, array.dtype).text};"
        t = accumulator(array.dtype, s.value.dtype)
        if t == array.dtype and s.op in ("+", "*") and not (t.is_bool or self.expr.overflows(t)):
            return f"{target} {s.op}= {self.expr.cast(v, s.value.dtype, t).text};"
        old = self.expr.cast(self.expr.read(array, target), array.dtype, t)
        new = self.expr.combine(s.op, old, self.expr.cast(v, s.value.dtype, t), t)
        return f"{target} = {self.expr.cast(new, t, array.dtype).text};"


class _CKernel(Printer):
    def module(self, name: str) -> str:
        self.statement(self.nest.body, self.environment(), "  ")
        prologue = self.prologue()
        headers = [*self.dialect.headers, *(["string.h"] if self.helpers.uses_memcpy else [])]
        parts = [f"/* {self.nest.name}: made by tc. */", *(f"#include <{h}>" for h in headers), ""]
        parts += sorted(self.expr.prototypes)
        helpers = self.helpers.text()
        if helpers:
            parts += [helpers, ""]
        parts += [f"int32_t {name}(void *const *args);", f"int32_t {name}(void *const *args) {{"]
        parts += [*prologue, *self.out, "  return 0;", "}"]
        return "\n".join(parts) + "\n"

    def prologue(self) -> list[str]:
        """Declarations of the arguments that the body uses."""
        lines: list[str] = []
        error = len(self.nest.params)
        offsets = {a.name: a.offset for a in self.nest.arrays if a.offset is not None}
        by_scalar = {s.name: s for s in self.nest.scalars}
        for position, param in enumerate(self.nest.params):
            if param in by_scalar:
                if param in self.uses:
                    t = by_scalar[param].dtype
                    read = f"*(const {self.dialect.storage(t)} *)args[{position}]"
                    shown = f"{read} != 0" if t == BOOL else read
                    lines.append(f"  const {self.dialect.type(t)} {self.scalars[param]} = {shown};")
            elif param in self.expr.used_buffers:
                lines.append(self.declare(self.expr.arrays[param], f"args[{position}]"))
        if self.expr.fails:
            lines.append(f"  int64_t *const error = args[{error}];")
        for a in self.nest.arrays:
            if a.name in offsets and a.name in self.expr.used_buffers:
                offset = self.plain(offsets[a.name] or IntImm(0))
                place = f"args[{error + 1}]"
                lines.append(
                    self.declare(a, place if offset == "0" else f"(void *)((char *){place} + {offset})")
                )
        place = f"((const int64_t *)args[{error + 2}])"
        used_sizes = [n for n in self.nest.sizes if n in self.uses]
        sizes = [
            f"  const int64_t {self.sizes[n]} = {place}[{self.nest.sizes.index(n)}];" for n in used_sizes
        ]
        return [*sizes, *lines] or ["  (void)args;"]

    def declare(self, a: Array, place: str) -> str:
        return f"  {self.pointer(a, 'const ' if a.role == 'input' else '')[0]} = {place};"

"""Complex numbers are split: after this pass all tensors of a program are real.

A complex tensor of n dimensions becomes a real one of n + 1, whose last dimension holds the real and the
imaginary part, which are adjacent in memory.  A complex scalar parameter becomes an array of two numbers.  A
statement becomes

    one over both parts, if each part of its value depends only on the same part of what it reads, as in
    sums and in products with real numbers;
    otherwise one for the real and one for the imaginary parts.

Where a statement reads the tensor that it writes, both parts are computed into a temporary first, so that
neither reads a new value of the other.  A product over an index becomes a sequential loop, each of whose
iterations multiplies once, since reductions of real numbers cannot express it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from tc.dtypes import DType
from tc.errors import SemanticError
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import (
    Buffer,
    Domain,
    Func,
    IterVar,
    Loop,
    Program,
    Range,
    Stage,
    fresh,
)
from tc.ir.simplify import simplify
from tc.transforms.program.complex_products import PAIR, Factors, by_columns, by_rows, factors
from tc.transforms.program.complex_values import Values, by_part, has_complex


def split_complex(program: Program) -> Program:
    """The program without complex numbers; unchanged if it has none."""
    scalars = any(s.dtype.is_complex for s in program.scalars)
    buffers = any(b.dtype.is_complex for b in program.buffers)
    if not (scalars or buffers or any(has_complex(e) for s in program.stages for e in _roots(s))):
        return program
    return _Splitting(program).run()


def _is_func(e: Expr) -> TypeGuard[x.Call]:
    return isinstance(e, x.Call) and e.kind == "func"


def _roots(s: Stage) -> Iterator[Expr]:
    yield s.value
    yield from s.args


class _Splitting:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.complex = {b.name for b in program.buffers if b.dtype.is_complex}
        self.scalars = frozenset(s.name for s in program.scalars if s.dtype.is_complex)
        self.buffer_of = dict(program.func_buffers)
        self.current: dict[
            str, str
        ] = {}  # the versions of tensors that the pass adds, by the versions that they follow
        self.stages: list[Stage] = []
        self.funcs: list[Func] = []
        self.buffers: list[Buffer] = []
        self.sites = list(program.sites)
        names = {n for s in program.stages for n in (*s.domain.names, *(loop.name for loop in s.loops))}
        kept = {f.name for f in program.funcs} | {b.name for b in program.buffers}
        self.names = {*names, *kept, *program.sizes, *program.params}
        self.part = self.fresh("part")

    def fresh(self, name: str) -> str:
        name = fresh(name, self.names)
        self.names.add(name)
        return name

    def run(self) -> Program:
        program = self.program
        for name in sorted(self.scalars):
            dtype = next(s.dtype for s in program.scalars if s.name == name)
            self.buffers.append(Buffer(name, dtype.part, (PAIR,), "input", pairs=True))
        for b in program.buffers:
            pairs = b.dtype.is_complex
            self.buffers.append(
                replace(b, dtype=b.dtype.part, box=(*b.box, PAIR), pairs=True) if pairs else b
            )
        for f in program.funcs:
            of_complex = f.dtype.is_complex
            self.funcs.append(replace(f, dtype=f.dtype.part, box=(*f.box, PAIR)) if of_complex else f)
        for s in program.stages:
            self._stage(self._renamed(s))
        made = replace(
            program,
            scalars=tuple(s for s in program.scalars if not s.dtype.is_complex),
            buffers=tuple(self.buffers),
            stages=tuple(replace(s, name=f"S{k}") for k, s in enumerate(self.stages)),
            sites=tuple(self.sites),
        )
        last = {s.func: k for k, s in enumerate(made.stages)}
        return replace(made, funcs=tuple(sorted(self.funcs, key=lambda f: last.get(f.name, -1))))

    # ---- statements

    def _stage(self, s: Stage) -> None:
        if not any(has_complex(e) for e in _roots(s)):
            self.stages.append(s)
        elif not s.value.dtype.is_complex:
            values = self._values()
            args = tuple(values.wrapped(values.real(a)) for a in s.args)
            value = values.real(s.value)
            self.stages.append(replace(s, args=args, value=values.wrapped(value)))
        elif s.op == "*":
            self._product(s)
        else:
            self._complex(s)

    def _complex(self, s: Stage) -> None:
        """A statement that assigns or adds complex numbers."""
        values = self._values()
        both = by_part(s.value, x.Variable(self.part), values)
        value = None if both is None else values.wrapped(both)
        if value is not None and not self._meets_other_part(s, value):
            self._add(s, PAIR, value)
            return
        found = None if self._reads_own(s) else factors(self.program, s)
        if found is not None:
            self._sum_of_products(s, found)
        elif self._reads_own(s):
            self._through_temporary(s)
        else:
            self._both(s)

    def _both(self, s: Stage) -> None:
        """A statement that chooses between the parts.  It is unrolled over these, so that each operand is
        read once."""
        values = self._values()
        re, im = values.pair(s.value).both(s.value.dtype.part)
        is_real = x.EQ(x.Variable(self.part), x.ZERO)
        self._add(s, PAIR, values.wrapped(x.IfThenElse(is_real, re, im)))

    def _add(self, s: Stage, parts: Range, value: Expr, name: str | None = None) -> None:
        """The statement `s` for some parts, with a value of its own."""
        pure = tuple(v for v in s.domain.vars if v.kind == "pure")
        rest = tuple(v for v in s.domain.vars if v.kind != "pure")
        own = IterVar(self.part, parts, "pure")
        values = self._values()
        args = (*(values.wrapped(values.real(a)) for a in s.args), x.Variable(self.part))
        domain = Domain((*pure, own, *rest), s.domain.conditions)
        made = replace(s, func=name or s.func, args=args, value=value, domain=domain)
        self._keep_sites(s, made, {})
        self.stages.append(made)

    def _through_temporary(self, s: Stage) -> None:
        """Both parts are computed into a temporary like the tensor, then stored."""
        buffer = self.program.buffer(self.buffer_of[s.func])
        name = self.fresh(f"{buffer.name}_parts")
        dtype = buffer.dtype
        self._temporary(name, dtype, buffer.box)
        stored = x.Call(name, s.args, dtype, "func")
        reductions = any(v.kind == "reduction" for v in s.domain.vars)
        pure = tuple(v for v in s.domain.vars if v.kind == "pure")
        if s.op is None or not reductions:
            own = x.Call(s.func, s.args, dtype, "func")
            value = s.value if s.op is None else x.Add(own, s.value)
            self._both(replace(s, func=name, op=None, value=value))
            self._complex(replace(s, func=self._version(s), op=None, value=stored, checked=()))
            return
        start = f"{s.text}  # starts from the neutral element"
        zero = x.imm(0, dtype)
        whole = Domain(pure)
        self._complex(replace(s, func=name, op=None, value=zero, domain=whole, text=start, init=True))
        self._both(replace(s, func=name))
        self._complex(replace(s, func=self._version(s), value=stored, domain=whole))

    def _version(self, s: Stage) -> str:
        """A version of a tensor that begins where the temporary has read the one before it; with sequential
        loops there is one (`tc.transforms.program.segments`)."""
        func = s.func
        if self.program.loops or s.loops:
            return func
        f = next(f for f in self.funcs if f.name == func)
        first = next((old for old, now in self.current.items() if now == func), func)
        name = self.fresh(f"{func}.1")
        self.funcs.append(replace(f, name=name, previous=func))
        self.buffer_of[name] = f.buffer
        self.current[first] = name
        return name

    def _renamed(self, s: Stage) -> Stage:
        """A statement with the current versions of tensors."""
        if not self.current:
            return s

        def visit(e: Expr) -> Expr:
            e = x.rebuild(e, visit)
            return replace(e, name=self.current.get(e.name, e.name)) if _is_func(e) else e

        func = self.current.get(s.func, s.func)
        return replace(s, func=func, args=tuple(map(visit, s.args)), value=visit(s.value))

    def _temporary(self, name: str, dtype: DType, box: tuple[Range, ...]) -> None:
        self.buffer_of[name] = name
        self.buffers.append(Buffer(name, dtype.part, (*box, PAIR), "temporary", pairs=True))
        self.funcs.append(Func(name, name, dtype.part, (*box, PAIR), None))

    def _product(self, s: Stage) -> None:
        """`y(i) *= v(i,k)`: y(i) = y(i) * v(i,k) in a sequential loop over k."""
        if s.scatters:
            raise SemanticError(
                "a product of complex numbers into elements that data choose is not compiled",
                s.span,
                code="TC0231",
                help="tc.interpret computes it; in a kernel, loop over the factors and choose by ternaries",
            )
        at: dict[str, Expr] = {}
        loops = list(s.loops)
        for v in s.domain.vars:
            if v.kind == "reduction":
                counter = self.fresh(f"{v.name}_step")
                loops.append(Loop(counter, v.range.extent))
                at[v.name] = simplify(x.Add(v.range.min, x.Variable(counter)), exact=True)
        conditions = tuple(x.substitute(c, at) for c in s.domain.conditions)
        pure = tuple(v for v in s.domain.vars if v.kind == "pure")
        args = tuple(x.substitute(a, at) for a in s.args)
        own = x.Call(s.func, args, s.value.dtype, "func")
        value = x.Mul(own, x.substitute(s.value, at))
        domain = Domain(pure, conditions)
        made = replace(s, args=args, op=None, value=value, domain=domain, loops=tuple(loops))
        self._keep_sites(s, made, at)
        self._complex(made)

    def _sum_of_products(self, s: Stage, found: Factors) -> None:
        boxes = {b.name: b.box for b in self.program.buffers}
        if found.columns:
            target = self.buffer_of[s.func]
            name = self.fresh(f"{target}_sums")
            box, stages = by_columns(s, found, boxes[target], name, self.fresh("of"))
            self._temporary(name, s.value.dtype, box)
            for made in stages:
                self._complex(made)
            return
        source = self.buffer_of.get(found.second.name, found.second.name)
        name = self.fresh(f"{source}_parts")
        made = by_rows(s, found, boxes[source], name, self.part, self.fresh("of"), self._values)
        self.buffer_of[name] = name
        self.buffers.append(made.buffer)
        self.funcs.append(Func(name, name, made.buffer.dtype, made.buffer.box, None))
        self.stages += made.stages

    # ---- names

    def _reads_own(self, s: Stage) -> bool:
        own = self.buffer_of[s.func]
        return any(_is_func(e) and self.buffer_of[e.name] == own for e in x.walk(s.value))

    def _meets_other_part(self, s: Stage, value: Expr) -> bool:
        """Whether a part of a result is computed from the other part of a result, as in `z(i) = z(i) *
        real(z(i))`."""
        own, part = self.buffer_of[s.func], x.Variable(self.part)
        return any(
            _is_func(e) and self.buffer_of[e.name] == own and e.args[-1] != part for e in x.walk(value)
        )

    def _values(self) -> Values:
        return Values(self.scalars, set(self.names))

    def _keep_sites(self, before: Stage, after: Stage, at: dict[str, Expr]) -> None:
        """Update the loops of the sites of a statement."""
        numbers = {e.site for e in x.walk(before.value) if isinstance(e, x.Call) and e.checked}
        for n in numbers | {n for _, n in before.checked}:
            self.sites[n] = self.sites[n].moved(after, at)

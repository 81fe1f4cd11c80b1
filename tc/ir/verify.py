"""Structural invariants of programs and loop nests: what every pass may rely on and must leave intact.

`program` and `loop_nest` raise InternalError (TC0908) at the first violation.  They look at form alone: names
are defined once and before use, ranks and types agree, variables are in scope, sites exist.  Whether a pass
kept the meaning is for other oracles (`tc.pipeline.equivalence`, `tc.poly.legality`, `tc.poly.trace`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from tc.dtypes import BOOL, FLOAT32, DType
from tc.errors import InternalError, unreachable
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
)
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
from tc.ir.program import Box, Program, Stage

ALL_KINDS = frozenset(LoopKind)
_ROLES = frozenset(["input", "output", "temporary", "private", "register", "shared"])


def program(p: Program) -> str:
    """Check a program: buffers, Funcs, stages, sites; returns the name of this oracle."""
    _Programs(p).check()
    return "structure"


def loop_nest(n: LoopNest, kinds: Collection[LoopKind] = ALL_KINDS, *, launches: bool = True) -> str:
    """Check a loop nest, whose loops must be of these `kinds`; without `launches` it is for a processor."""
    _Nests(n, frozenset(kinds), launches).check()
    return "structure"


# ---- expressions


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names that expressions may use: variables with their types; and the number of sites."""

    what: str
    variables: Mapping[str, DType]
    sites: int

    def fail(self, problem: str) -> NoReturn:
        raise InternalError(f"{self.what} is malformed: {problem}", code="TC0908")

    def with_variables(self, more: Mapping[str, DType]) -> _Scope:
        return _Scope(self.what, {**self.variables, **more}, self.sites)

    def access(self, name: str, args: Collection[Expr], rank: int, checked: Iterable[int], site: int) -> None:
        """Check an access of a tensor of so many dimensions."""
        if len(args) != rank:
            self.fail(f"{name} has {rank} dimensions and is read with {len(args)} subscripts")
        if any(not 0 <= d < rank for d in checked):
            self.fail(f"a dimension that {name} does not have is checked")
        if not -1 <= site < self.sites or (checked and site < 0):
            self.fail(f"an access of {name} has the site {site}, and there are {self.sites}")
        for a in args:
            if not (a.dtype.is_int or a.dtype.is_bool):
                self.fail(f"a subscript of {name} is {a.dtype}")


class _Typed:
    """The types of an expression's nodes agree, and its names are in scope."""

    def __init__(self, scope: _Scope) -> None:
        self.scope = scope

    def read(self, e: Call | Load) -> None:
        raise NotImplementedError

    def typed(self, e: Expr, scope: _Scope | None = None) -> None:
        scope = scope or self.scope
        match e:
            case IntImm() | UIntImm() | FloatImm():
                pass
            case Variable():
                if e.name not in scope.variables:
                    scope.fail(f"the variable {e.name} is not defined")
                if e.dtype != scope.variables[e.name]:
                    scope.fail(f"the variable {e.name} is {scope.variables[e.name]} and is used as {e.dtype}")
            case Cast():
                self.typed(e.value, scope)
            case Add() | Sub() | Mul() | Div() | FloorDiv() | FloorMod() | Min() | Max():
                self._same(e, e.a, e.b, scope)
                inexact = e.dtype.is_float or e.dtype.is_complex
                if isinstance(e, Div) != inexact and isinstance(e, Div | FloorDiv | FloorMod):
                    scope.fail(f"{type(e).__name__} of {e.dtype}")
            case EQ() | NE() | LT() | LE() | GT() | GE():
                self._same(e, e.a, e.b, scope)
            case And() | Or():
                self._condition(e.a, scope)
                self._condition(e.b, scope)
            case Not():
                self._condition(e.a, scope)
            case Select():
                self._condition(e.condition, scope)
                self._same(e, e.true_value, e.false_value, scope)
            case IfThenElse():
                self._condition(e.condition, scope)
                self._same(e, e.then_value, e.else_value, scope)
            case Let():
                self.typed(e.value, scope)
                self.typed(e.body, scope.with_variables({e.name: e.value.dtype}))
            case Call() | Load():
                for a in e.args if isinstance(e, Call) else e.subscripts:
                    self.typed(a, scope)
                self.read(e)
            case _:
                unreachable(e)

    def _same(self, e: Expr, a: Expr, b: Expr, scope: _Scope) -> None:
        self.typed(a, scope)
        self.typed(b, scope)
        if a.dtype != b.dtype:
            scope.fail(f"{type(e).__name__} of {a.dtype} and {b.dtype}")

    def _condition(self, e: Expr, scope: _Scope) -> None:
        self.typed(e, scope)
        if e.dtype != BOOL:
            scope.fail(f"a condition is {e.dtype}")


def _unique(names: Iterable[str], kind: str, what: str) -> None:
    seen: set[str] = set()
    for n in names:
        if n in seen:
            raise InternalError(f"{what} is malformed: two {kind} are named {n}", code="TC0908")
        seen.add(n)


# ---- programs


class _Programs(_Typed):
    def __init__(self, p: Program) -> None:
        known = dict.fromkeys(p.sizes, INDEX)
        # A specialised integer scalar is a number in index arithmetic too, before it is substituted.
        super().__init__(_Scope(f"the program {p.name}", known, len(p.sites)))
        self.p = p
        self.scalars = {s.name: s.dtype for s in p.scalars}
        self.buffers = {b.name: b for b in p.buffers}
        self.funcs = {f.name: f for f in p.funcs}

    def check(self) -> None:
        p, fail = self.p, self.scope.fail
        what = self.scope.what
        _unique((b.name for b in p.buffers), "buffers", what)
        _unique((f.name for f in p.funcs), "Funcs", what)
        _unique((s.name for s in p.stages), "stages", what)
        _unique((*p.sizes, *(s.name for s in p.scalars)), "sizes or scalars", what)
        for name in p.params:
            if name not in self.scalars and (name not in self.buffers or self.buffers[name].role != "input"):
                fail(f"the parameter {name} is no input")
        outputs = [b.name for b in p.buffers if b.role == "output"]
        if sorted(outputs) != sorted(p.outputs):
            fail(f"its results are {', '.join(p.outputs)}, and its output buffers {', '.join(outputs)}")
        for b in p.buffers:
            self._box(b.box, {})
        for f in p.funcs:
            self._func(f.name)
        # With loops a tensor has one version, which the caller's values may have defined.
        defined = {f.name for f in p.funcs if f.name == f.buffer and self.buffers[f.buffer].inout}
        written = {s.func for s in p.stages}
        for s in p.stages:
            if not s.name.isidentifier():
                fail(f"the name of the stage {s.name} is no identifier, which isl needs")
            self._stage(s)
            for name in self._read:
                # In a loop, what an earlier iteration has defined may be read first.
                if name in written - defined - {s.func} and not s.loops:
                    fail(f"{s.name} reads {name} before any stage defines it")
            defined.add(s.func)

    def _func(self, name: str) -> None:
        f, fail = self.funcs[name], self.scope.fail
        if f.buffer not in self.buffers:
            fail(f"the Func {name} lives in {f.buffer}, which is no buffer")
        b = self.buffers[f.buffer]
        if len(b.box) != len(f.box):
            fail(f"the Func {name} has {len(f.box)} dimensions, its buffer {len(b.box)}")
        if b.dtype != f.dtype:
            fail(f"the Func {name} is {f.dtype}, its buffer {b.dtype}")
        if f.previous is not None and (
            f.previous not in self.funcs or self.funcs[f.previous].buffer != f.buffer
        ):
            fail(f"the Func {name} starts from {f.previous}, which is no version of {f.buffer}")
        self._box(f.box, {})

    def _box(self, box: Box, more: Mapping[str, DType]) -> None:
        for r in box:
            for e in (r.min, r.extent):
                self._index(e, self.scope.with_variables(more))

    def _index(self, e: Expr, scope: _Scope) -> None:
        self.typed(e, scope.with_variables({n: INDEX for n, t in self.scalars.items() if t.is_int}))
        if e.dtype != INDEX:
            scope.fail(f"an index expression is {e.dtype}")

    def _stage(self, s: Stage) -> None:
        counters = {**self.scope.variables, **{loop.name: INDEX for loop in s.loops}}
        scope = _Scope(f"{self.scope.what}, stage {s.name},", counters, self.scope.sites)
        self.scope, outer = scope, self.scope
        self._read: list[str] = []
        if s.func not in self.funcs:
            scope.fail(f"it defines {s.func}, which is no Func")
        f = self.funcs[s.func]
        for loop in s.loops:
            self._index(loop.trips, scope)
        names = s.domain.names
        _unique(names, "variables", scope.what)
        own = {**dict.fromkeys(names, INDEX)}
        inner = scope.with_variables({**self.scalars, **own})
        for v in s.domain.vars:
            self._box((v.range,), {})
        if len(s.args) != len(f.box):
            scope.fail(f"{s.func} has {len(f.box)} dimensions and is written with {len(s.args)} subscripts")
        pure = {v.name: INDEX for v in s.domain.vars if v.kind == "pure"}
        for a in s.args:
            self._index(a, inner if s.scatters else scope.with_variables(pure))
        for c in s.domain.conditions:
            self.typed(
                c, scope.with_variables({**own, **{n: INDEX for n, t in self.scalars.items() if t.is_int}})
            )
            if c.dtype != BOOL:
                scope.fail(f"a condition of its domain is {c.dtype}")
        self.typed(s.value, inner)
        if s.op is None and s.value.dtype not in (f.dtype, FLOAT32 if f.dtype.is_half else f.dtype):
            scope.fail(f"{s.func} is {f.dtype}, and its value {s.value.dtype}")
        if s.init and s.op is not None:
            scope.fail("it sets neutral elements by an update")
        self.scope = outer

    def read(self, e: Call | Load) -> None:
        scope = self.scope
        if isinstance(e, Load):
            scope.fail(f"it has a load of {e.buffer}")
        if e.kind == "intrinsic":
            return
        known = self.funcs if e.kind == "func" else self.buffers
        if e.name not in known:
            scope.fail(f"{e.name} is read, which is no {'Func' if e.kind == 'func' else 'buffer'}")
        if e.kind == "image" and self.buffers[e.name].role != "input":
            scope.fail(f"{e.name} is read as an image, and is no input")
        scope.access(e.name, e.args, len(known[e.name].box), e.checked, e.site)
        if e.dtype != known[e.name].dtype:
            scope.fail(f"{e.name} is {known[e.name].dtype} and is read as {e.dtype}")
        if e.kind == "func":
            self._read.append(e.name)


# ---- loop nests


class _Nests(_Typed):
    def __init__(self, n: LoopNest, kinds: frozenset[LoopKind], launches: bool) -> None:
        known = {**dict.fromkeys(n.sizes, INDEX), **{s.name: s.dtype for s in n.scalars}}
        super().__init__(_Scope(f"the loop nest of {n.name}", known, len(n.sites)))
        self.n, self.kinds, self.launches = n, kinds, launches
        self.arrays = {a.name: a for a in n.arrays}

    def check(self) -> None:
        n, fail = self.n, self.scope.fail
        _unique((a.name for a in n.arrays), "arrays", self.scope.what)
        scalars = {s.name for s in n.scalars}
        for name in n.params:
            if name not in scalars and name not in self.arrays:
                fail(f"the parameter {name} is neither an array nor a scalar")
        for name in n.outputs:
            if name not in self.arrays or self.arrays[name].role != "output":
                fail(f"the result {name} is no output array")
        for a in n.arrays:
            self._array(a)
        self.typed(n.workspace)
        self._statement(n.body, self.scope, None)

    def _array(self, a: Array) -> None:
        fail = self.scope.fail
        if a.role not in _ROLES:
            fail(f"the array {a.name} has the role {a.role}")
        for e in (*a.shape, *a.lower):
            self.typed(e)
        if a.lower and len(a.lower) != len(a.shape):
            fail(f"the array {a.name} has {len(a.shape)} dimensions and {len(a.lower)} lower bounds")
        if a.offset is not None:
            self.typed(a.offset)
        if a.partial_of is not None and a.partial_of not in self.arrays:
            fail(f"the array {a.name} holds parts of {a.partial_of}, which is no array")
        if a.role == "shared" and not self.launches:
            fail(f"the array {a.name} is shared by threads of a block, and there are no blocks")

    def _statement(self, s: Stmt, scope: _Scope, launch: Launch | None) -> None:
        match s:
            case Block():
                for c in s.body:
                    self._statement(c, scope, launch)
            case For():
                if s.kind not in self.kinds:
                    scope.fail(f"the loop {s.var} is {s.kind.value}, which the target has not")
                if s.var in scope.variables:
                    scope.fail(f"the loop {s.var} hides another variable of that name")
                if s.step < 1:
                    scope.fail(f"the loop {s.var} has the step {s.step}")
                self.typed(s.lower, scope)
                self.typed(s.upper, scope)
                self._statement(s.body, scope.with_variables({s.var: INDEX}), launch)
            case If():
                self._condition(s.condition, scope)
                self._statement(s.then, scope, launch)
                if s.otherwise is not None:
                    self._statement(s.otherwise, scope, launch)
            case Compute():
                self._compute(s, scope)
            case Promote():
                for name in s.buffers | s.dead:
                    self._known(name, scope)
                self._statement(s.body, scope, launch)
            case Prefetch():
                scope.access(s.buffer, s.subscripts, len(self._known(s.buffer, scope).shape), (), -1)
                for e in s.subscripts:
                    self.typed(e, scope)
            case Launch():
                if launch is not None or not self.launches:
                    scope.fail(f"the launch {s.name} is where none can be")
                for _, extent in s.blocks:
                    self.typed(extent, scope)
                own = dict.fromkeys([*(n for n, _ in s.blocks), *(n for n, _ in s.threads)], INDEX)
                self._statement(s.body, scope.with_variables(own), s)
            case Combine():
                self._known(s.buffer, scope)
                if launch is None or s.thread not in {n for n, _ in launch.threads}:
                    scope.fail(f"values are combined along {s.thread}, which is no thread of the launch")
            case Sync():
                if launch is None:
                    scope.fail("a barrier is outside of launches")
            case _:
                unreachable(s)

    def _compute(self, s: Compute, scope: _Scope) -> None:
        array = self._known(s.buffer, scope)
        scope.access(s.buffer, s.subscripts, len(array.shape), (), -1)
        for e in (*s.subscripts, *s.point):
            self.typed(e, scope)
        self.typed(s.value, scope)

    def _known(self, name: str, scope: _Scope) -> Array:
        if name not in self.arrays:
            scope.fail(f"{name} is no array")
        return self.arrays[name]

    def read(self, e: Call | Load) -> None:
        scope = self.scope
        if isinstance(e, Load):
            scope.access(e.buffer, e.subscripts, len(self._known(e.buffer, scope).shape), e.checked, e.site)
        elif e.kind != "intrinsic":
            scope.fail(f"it reads the Func or image {e.name}")

"""`tc.vmap`: a def for a batch of its arguments, as a def.

A tensor is batched where it depends on what is: it gets one more dimension, the first, and each access to it
one more subscript.  This works on the syntax tree, so that loops, modes and calls stay as they are written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tc.dtypes import INT32
from tc.errors import ArgumentError, Source, Span, did_you_mean
from tc.lang import syntax as s
from tc.lang.builtins import BUILTINS
from tc.lang.check import check
from tc.lang.format import format_program
from tc.lang.parse import parse
from tc.lang.type_variables import entry_of

InAxes = Sequence[int | None] | Mapping[str, int | None] | int | None


def vmap(src: str, in_axes: InAxes = 0, entry: str | None = None, *, size: str = "B") -> str:
    """The source of a def that does for each element of a batch what `entry`, by default the last, does.

    `in_axes` says which parameters are batched, along a first dimension of the extent `size`: 0 for all
    tensors, a sequence with 0 or None for each parameter, or a mapping from their names.  A batched scalar
    becomes a tensor of rank 1.  Results that depend on what is batched have that dimension first, too.

    Raises the errors of `tc.compile`, and ArgumentError (TC0527) for parameters that do not exist, other axes
    than 0, or a batch of nothing.
    """
    program = parse(Source(src))
    top = entry_of(program, entry)
    batched = _parameters(top, in_axes)
    check(program, entry)
    names = {n for d in program.defs for n in _names(d)} | set(BUILTINS)
    extent, index = _fresh(size, names), _fresh("b", names)
    made = _Batch(program, extent, index, names | {extent, index})
    last = made.of(top, batched, made.fresh(f"{top.name}_vmap"))
    return format_program(replace(program, defs=(*made.defs.values(), last)))


def _fresh(name: str, taken: Collection[str]) -> str:
    found, k = name, 2
    while found in taken:
        found, k = f"{name}_{k}", k + 1
    return found


def _names(node: Any) -> Iterator[str]:
    """All names in a piece of a tree."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, tuple):
        for x in node:  # pyright: ignore[reportUnknownVariableType]
            yield from _names(x)
    elif hasattr(node, "__dataclass_fields__"):
        for f in node.__dataclass_fields__:
            if not f.endswith("span"):
                yield from _names(getattr(node, f))


def _parameters(d: s.Def, in_axes: InAxes) -> frozenset[str]:
    """The names of the parameters that are batched."""
    params = [p.name for p in d.params]
    tensors = [p.name for p in d.params if p.type.dims]
    axes: dict[str, int | None]
    if in_axes is None or isinstance(in_axes, int):
        axes = dict.fromkeys(tensors, in_axes)
    elif isinstance(in_axes, Mapping):
        axes = dict(in_axes)
        for n in axes:
            if n not in params:
                raise ArgumentError(
                    f"'{n}' in in_axes is no parameter of '{d.name}'",
                    code="TC0527",
                    help=did_you_mean(n, params) or f"its parameters are {', '.join(params)}",
                )
    else:
        if len(in_axes) != len(params):
            raise ArgumentError(
                f"in_axes has {len(in_axes)} entries, and '{d.name}' {len(params)} parameters",
                code="TC0527",
                help="give 0 or None for each parameter, or a mapping from their names",
            )
        axes = dict(zip(params, in_axes, strict=True))
    for n, axis in axes.items():
        if axis not in (0, None):
            raise ArgumentError(
                f"in_axes gives axis {axis} for '{n}'",
                code="TC0527",
                help="a batch is the first dimension: 0",
            )
    found = frozenset(n for n, axis in axes.items() if axis == 0)
    if not found:
        raise ArgumentError(
            f"no parameter of '{d.name}' is batched", code="TC0527", help="in_axes gives 0 for some of them"
        )
    return found


@dataclass(frozen=True, slots=True)
class _Inside:
    """What is batched in a def: tensors and scalars.  `ranks`: those of all of its tensors and scalars.
    `bound`: names that a statement gives to indices and lets."""

    batched: frozenset[str]
    ranks: Mapping[str, int]
    bound: frozenset[str] = frozenset()

    def of(self, st: s.Assign) -> _Inside:
        named = (c.name for c in st.clauses if isinstance(c, (s.RangeClause, s.LetClause)))
        return replace(self, bound=frozenset(named))

    def value(self, name: str) -> bool:
        """Whether a bare name is a value that is batched."""
        return name in self.batched and self.ranks.get(name) == 0 and name not in self.bound

    def depends(self, e: s.Exp) -> bool:
        """Whether an expression has another value for each element of the batch."""
        if isinstance(e, s.Name):
            return self.value(e.id)
        read = isinstance(e, s.Call) and e.name in self.batched
        return read or any(map(self.depends, s.parts(e)))


@dataclass(frozen=True, slots=True)
class _Called:
    """A call of a def.  `passed`: the parameters of it that are batched, `forced`: its results that are, as
    they are named in it, since the caller has them so."""

    callee: s.Def
    args: tuple[s.Exp, ...]
    targets: tuple[str, ...]
    passed: frozenset[str]
    forced: frozenset[str]


@dataclass
class _Batch:
    program: s.Program
    extent: str
    index: str
    names: set[str]

    def __post_init__(self) -> None:
        self.by_name = {d.name: d for d in self.program.defs}
        self.defs: dict[str, s.Def] = {}
        self.made: dict[tuple[str, frozenset[str], frozenset[str]], str] = {}
        self.ranks = {d.name: {p.name: len(p.type.dims) for p in d.params} for d in self.program.defs}
        for d in self.program.defs:
            self._rank(d)

    def fresh(self, name: str) -> str:
        found = _fresh(name, self.names)
        self.names.add(found)
        return found

    def of(self, d: s.Def, params: frozenset[str], name: str, forced: frozenset[str] = frozenset()) -> s.Def:
        """A def with these parameters and results batched.  It takes the extent of the batch as a number if
        no parameter has it."""
        scope = _Inside(self._closure(d, params | forced), self.ranks[d.name])
        made = tuple(replace(p, type=self._type(p.type)) if p.name in scope.batched else p for p in d.params)
        if not params:
            made = (*made, s.Param(s.Type(INT32, (), d.span), self.extent, d.span))
        return replace(
            d,
            name=name,
            params=made,
            returns=tuple(self._return(x, bool(params)) if x.name in scope.batched else x for x in d.returns),
            body=tuple(self._body(d.body, scope)),
        )

    def _type(self, t: s.Type) -> s.Type:
        return replace(t, dims=(s.DimDecl(self.extent, t.span), *t.dims))

    def _return(self, x: s.Return, has_extent: bool) -> s.Return:
        if x.type is None or not x.has_dims:
            return x
        if has_extent:
            return replace(x, type=self._type(x.type))
        return replace(x, type=replace(x.type, dims=()), has_dims=False)

    # ---- what is batched

    def _rank(self, d: s.Def) -> dict[str, int]:
        """The ranks of the tensors of a def, as far as statements have given them."""
        ranks = self.ranks[d.name]
        if all(x.name in ranks for x in d.returns):
            return ranks
        for st in s.assignments(d.body):
            called = self._call(st, ranks)
            if called is not None:
                callee, _, targets = called
                inner = self._rank(callee)
                for t, x in zip(targets, callee.returns, strict=False):
                    ranks.setdefault(t, inner[x.name])
            elif isinstance(st, s.Assign) and _is_concat(st):
                first = st.value.args[0] if isinstance(st.value, s.Call) and st.value.args else None
                ranks.setdefault(st.lhs.name, ranks.get(first.id, 1) if isinstance(first, s.Name) else 1)
            elif isinstance(st, s.Assign):
                ranks.setdefault(st.lhs.name, len(st.lhs.subscripts or ()))
        return ranks

    def _call(
        self, st: s.Assign | s.TupleCall, ranks: Mapping[str, int]
    ) -> tuple[s.Def, tuple[s.Exp, ...], tuple[str, ...]] | None:
        """The def that a statement calls, with what arguments and for which results."""
        if isinstance(st, s.TupleCall):
            return self.by_name[st.callee], st.args, tuple(t.name for t in st.targets)
        value = st.value
        if st.lhs.subscripts is not None or not isinstance(value, s.Call):
            return None
        if value.name in ranks or value.name not in self.by_name:
            return None
        return self.by_name[value.name], value.args, (st.lhs.name,)

    def _closure(self, d: s.Def, params: frozenset[str]) -> frozenset[str]:
        """The tensors of a def that depend on batched parameters."""
        scope = _Inside(params, self.ranks[d.name])
        while True:
            found = scope.batched.union(*(self._defined(st, scope) for st in s.assignments(d.body)))
            if found == scope.batched:
                return found
            scope = replace(scope, batched=found)

    def _defined(self, st: s.Assign | s.TupleCall, scope: _Inside) -> set[str]:
        """Which tensors a statement makes batched."""
        called = self._called(st, scope)
        if called is not None:
            inside = self._closure(called.callee, called.passed | called.forced)
            pairs = zip(called.targets, called.callee.returns, strict=True)
            return {t for t, x in pairs if x.name in inside}
        assert isinstance(st, s.Assign)
        if _is_concat(st):
            args = st.value.args if isinstance(st.value, s.Call) else ()
            read = any(isinstance(a, s.Name) and a.id in scope.batched for a in args)
        else:
            inner = scope.of(st)
            read = any(map(inner.depends, _expressions(st)))
        return {st.lhs.name} if read else set()

    def _called(self, st: s.Assign | s.TupleCall, scope: _Inside) -> _Called | None:
        call = self._call(st, scope.ranks)
        if call is None:
            return None
        callee, args, targets = call

        def passed(p: s.Param, a: s.Exp) -> bool:
            if p.type.dims:
                return isinstance(a, s.Name) and a.id in scope.batched
            return scope.depends(a)

        return _Called(
            callee,
            args,
            targets,
            frozenset(p.name for p, a in zip(callee.params, args, strict=True) if passed(p, a)),
            frozenset(x.name for t, x in zip(targets, callee.returns, strict=True) if t in scope.batched),
        )

    # ---- statements

    def _body(self, body: Sequence[s.Stmt], scope: _Inside) -> Iterator[s.Stmt]:
        for st in body:
            if isinstance(st, s.For):
                first, last = self._exp(st.first, scope), self._exp(st.last, scope)
                yield replace(st, first=first, last=last, body=tuple(self._body(st.body, scope)))
                continue
            called = self._called(st, scope)
            if called is not None:
                yield from self._called_statement(st, called, scope)
            elif isinstance(st, s.Assign) and _is_concat(st):
                yield from self._concat(st, scope)
            elif isinstance(st, s.Assign):
                yield self._assign(st, scope)

    def _called_statement(
        self, st: s.Assign | s.TupleCall, called: _Called, scope: _Inside
    ) -> Iterator[s.Stmt]:
        """A call of the batched form of a def, after what its batched scalar arguments are."""
        if not called.passed and not called.forced:
            self._keep(called.callee)
            yield self._with_call(st, called.callee.name, [self._exp(a, scope) for a in called.args])
            return
        args: list[s.Exp] = []
        for p, a in zip(called.callee.params, called.args, strict=True):
            if p.type.dims:
                args.append(a)
            elif p.name in called.passed:
                value = self._exp(a, scope)
                value = value if p.type.variable else s.Cast(p.type.dtype, value, a.span)
                name = self.fresh(f"{p.name}_each")
                yield self._each(name, (), value, a.span)
                args.append(s.Name(name, a.span))
            else:
                args.append(self._exp(a, scope))
        if not called.passed:
            args.append(s.Name(self.extent, st.span))
        yield self._with_call(st, self._callee(called), args)

    def _with_call(self, st: s.Assign | s.TupleCall, name: str, args: Sequence[s.Exp]) -> s.Stmt:
        if isinstance(st, s.TupleCall):
            return replace(st, callee=name, args=tuple(args))
        assert isinstance(st.value, s.Call)
        return replace(st, value=replace(st.value, name=name, args=tuple(args)))

    def _callee(self, called: _Called) -> str:
        """The batched form of a def that is called, which is made if there is none yet."""
        d = called.callee
        key = (d.name, called.passed, called.forced)
        if key not in self.made:
            self.made[key] = name = self.fresh(f"{d.name}_vmap")
            self.defs[name] = d
            self.defs[name] = self.of(d, called.passed, name, called.forced)
        return self.made[key]

    def _keep(self, d: s.Def) -> None:
        """Keep a def as it is, with those that it calls."""
        self.defs[d.name] = d
        for st in s.assignments(d.body):
            call = self._call(st, self.ranks[d.name])
            if call is not None:
                self._keep(call[0])

    def _concat(self, st: s.Assign, scope: _Inside) -> Iterator[s.Stmt]:
        """Tensors joined, those that are not batched after each has been repeated for the batch."""
        assert isinstance(st.value, s.Call)
        args: list[s.Exp] = []
        for a in st.value.args:
            if st.lhs.name not in scope.batched or not isinstance(a, s.Name) or a.id in scope.batched:
                args.append(a)
                continue
            name = self.fresh(f"{a.id}_each")
            indices = tuple(
                s.Name(_fresh(f"i{d}", self.names), a.span) for d in range(scope.ranks.get(a.id, 1))
            )
            yield self._each(name, indices, s.Call(a.id, indices, a.span, a.span), a.span)
            args.append(s.Name(name, a.span))
        yield replace(st, value=replace(st.value, args=tuple(args)))

    def _each(self, name: str, indices: tuple[s.Exp, ...], value: s.Exp, span: Span) -> s.Assign:
        """A temporary with a value for each element of the batch."""
        lhs = s.Lhs(name, (s.Name(self.index, span), *indices), span, span)
        return s.Assign(lhs, "=", value, (self._range(span),), span)

    def _range(self, span: Span) -> s.RangeClause:
        return s.RangeClause(self.index, s.IntLit(0, span), s.Name(self.extent, span), span, span)

    def _assign(self, st: s.Assign, scope: _Inside) -> s.Assign:
        inner = scope.of(st)
        made = s.rebuild_assign(st, lambda e: self._exp(e, inner))
        if st.lhs.name not in scope.batched:
            return made
        b = s.Name(self.index, st.span)
        return replace(
            made,
            lhs=replace(made.lhs, subscripts=(b, *(made.lhs.subscripts or ()))),
            clauses=(self._range(st.span), *made.clauses),
        )

    def _exp(self, e: s.Exp, scope: _Inside) -> s.Exp:
        match e:
            case s.Name() if scope.value(e.id):
                return s.Call(e.id, (s.Name(self.index, e.span),), e.span, e.span)
            case s.Dim() if e.tensor in scope.batched:
                return replace(e, axis=e.axis + 1)
            case _:
                made = s.rebuild(e, lambda x: self._exp(x, scope))
                if not isinstance(made, s.Call) or made.name not in scope.batched:
                    return made
                modes = made.modes * len(made.args) if len(made.modes) == 1 else made.modes
                return replace(
                    made,
                    args=(s.Name(self.index, made.span), *made.args),
                    modes=(s.Mode("none", None, made.span), *modes) if modes else (),
                )


def _is_concat(st: s.Assign) -> bool:
    called = isinstance(st.value, s.Call) and st.lhs.subscripts is None
    return called and isinstance(st.value, s.Call) and st.value.name == "concat"


def _expressions(st: s.Assign) -> Iterator[s.Exp]:
    """What a statement reads."""
    yield st.value
    yield from st.lhs.subscripts or ()
    for c in st.clauses:
        if isinstance(c, s.RangeClause):
            yield from (c.lo, c.hi)
        else:
            yield c.value

"""Walks the statements of a def and, through calls, of the defs it uses: one flat list of statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tc.dtypes import BY_NAME, SPELLINGS
from tc.errors import Note, SemanticError, Span, UninitializedReduction, Warning, did_you_mean
from tc.lang import calls, extremes, reductions
from tc.lang import resolved as r
from tc.lang import syntax as s
from tc.lang.builtins import find
from tc.lang.reductions import check_scatter
from tc.lang.resolve import StatementResolver, count
from tc.lang.scope import Scope, reject_builtin, size_from_parameter


class Flattener:
    """The entry's def and, while it is walked, everything that accumulates."""

    def __init__(self, defs: dict[str, s.Def], entry: s.Def) -> None:
        self.defs = defs
        self.entry = entry
        self.statements: list[r.Statement] = []
        self.equalities: list[r.Equality] = []
        self.arguments: list[r.Argument] = []
        self.warnings: list[Warning] = []
        self.modes: dict[r.Tensor, str] = {}  # storage -> inout | accumulate
        self.taken: dict[str, int] = {}
        self.written = frozenset(re.findall(r"\w+", entry.span.source.text))  # no made name is one of these
        self.loops: tuple[r.Loop, ...] = ()  # around the statement in hand
        # The last arg-reduction, and its reduction to extremes.
        self.extremes_found: tuple[r.Statement, r.Statement] | None = None

    def run(self) -> r.Checked:
        d = self.entry
        scope = self.scope(d)
        params: list[r.Tensor | r.ScalarParam] = []
        sizes: dict[str, None] = {}
        for p in d.params:
            for dim in p.type.dims:
                if isinstance(dim.value, str):
                    sizes.setdefault(dim.value)
        scope.sizes = {n: r.Size(n, d.span) for n in sizes}
        self.taken |= {p.name: 1 for p in d.params if not p.type.dims}
        for p in d.params:
            if p.type.dims:
                dims = tuple(
                    scope.sizes[x.value] if isinstance(x.value, str) else r.Const(x.value, False, x.span)
                    for x in p.type.dims
                )
                t = r.Tensor(self.unique(p.name), len(dims), "param", p.type.dtype, dims, p.span)
                scope.tensors[p.name] = t
                params.append(t)
            else:
                scope.scalars[p.name] = r.Scalar(p.name, p.type.dtype, p.span)
                params.append(r.ScalarParam(p.name, p.type.dtype, False, p.span))
        self.check_sizes(d, scope)
        self.predeclare(d, scope)
        self.body(d, scope, (d.name,))
        returns = tuple(self._returned(x, scope) for x in d.returns)
        for st in self.statements:
            reductions.check_reduction(st)
            reductions.check_own_reads(st)
        self._number_accesses()
        special = {name for st in self.statements for name in reductions.structural_scalars(st)}
        self.warnings += reductions.warnings(self.statements)
        return r.Checked(
            d.name,
            tuple(
                replace(p, specialized=p.name in special) if isinstance(p, r.ScalarParam) else p
                for p in params
            ),
            returns,
            tuple(self.statements),
            tuple(sizes),
            tuple(self.equalities),
            tuple(self.arguments),
            tuple(self.warnings),
            d.span,
        )

    def scope(self, d: s.Def) -> Scope:
        scope = Scope(d, defs=self.defs)
        seen: dict[str, Span] = {}
        for p in d.params:
            reject_builtin(p.name, p.span, "a parameter")
            if p.name in seen:
                raise SemanticError(
                    f"parameter '{p.name}' is declared twice",
                    p.span,
                    code="TC0204",
                    notes=[Note("first here", seen[p.name])],
                    help="rename one of them",
                )
            seen[p.name] = p.span
        for x in d.returns:
            reject_builtin(x.name, x.span, "a returned tensor")
            if x.name in seen:
                raise SemanticError(
                    f"'{x.name}' is already a parameter or a returned tensor",
                    x.span,
                    code="TC0204",
                    notes=[Note("first here", seen[x.name])],
                    help="parameters are immutable: return the result under another name"
                    if any(p.name == x.name for p in d.params)
                    else None,
                )
            seen[x.name] = x.span
            scope.returns[x.name] = x
        for st in s.assignments(d.body):
            for name, span in calls.targets(st):
                scope.later.setdefault(name, span)
        if not d.returns:
            raise SemanticError(
                f"'{d.name}' returns nothing", d.name_span, code="TC0218", help="name its results: -> (B)"
            )
        for x in d.returns:
            if x.name not in scope.later:
                near = did_you_mean(x.name, set(scope.later))
                raise SemanticError(
                    f"the returned tensor '{x.name}' is never assigned", x.span, code="TC0218", help=near
                )
        return scope

    def check_sizes(self, d: s.Def, scope: Scope) -> None:
        for p in d.params:
            for dim in p.type.dims:
                if isinstance(dim.value, str):
                    if find(dim.value) is not None:
                        reject_builtin(dim.value, dim.span, "a size")
                    if dim.value in scope.scalars:
                        raise SemanticError(
                            f"'{dim.value}' is both a size and a scalar parameter",
                            dim.span,
                            code="TC0204",
                            help="rename one of them",
                        )
        for x in d.returns:
            for dim in x.type.dims if x.type else ():
                if isinstance(dim.value, str) and dim.value not in scope.sizes:
                    raise SemanticError(
                        f"no parameter has the size '{dim.value}'",
                        dim.span,
                        code="TC0201",
                        help="it is a scalar: leave out the sizes of the result, and give the range, "
                        f"where v in 0:{dim.value}"
                        if dim.value in scope.scalars
                        else did_you_mean(dim.value, set(scope.sizes)) or size_from_parameter(dim.value),
                    )

    def predeclare(self, d: s.Def, scope: Scope) -> None:
        for x in d.returns:
            if x.type is not None and x.has_dims:
                dims = tuple(
                    scope.sizes[i.value] if isinstance(i.value, str) else r.Const(i.value, False, i.span)
                    for i in x.type.dims
                )
                scope.predeclared[x.name] = r.Tensor(
                    self.unique(x.name), len(dims), "return", x.type.dtype, dims, x.span
                )

    def body(self, d: s.Def, scope: Scope, stack: tuple[str, ...]) -> None:
        temporaries: dict[str, Span] = {}
        self._statements(d.body, scope, stack, temporaries)
        for name, span in temporaries.items():
            if name not in scope.read:
                near = did_you_mean(name, set(scope.returns) | set(scope.tensors))
                raise SemanticError(
                    f"the temporary '{name}' is never read",
                    span,
                    code="TC0219",
                    help=near
                    or f"return it, or remove the statement; the returns are {', '.join(scope.returns)}",
                )

    def _statements(
        self, body: tuple[s.Stmt, ...], scope: Scope, stack: tuple[str, ...], temporaries: dict[str, Span]
    ) -> None:
        for st in body:
            if isinstance(st, s.For):
                self._loop(st, scope, stack, temporaries)
            elif isinstance(st, s.Assign):
                name = st.lhs.name
                called = st.value if isinstance(st.value, s.Call) and st.lhs.subscripts is None else None
                if called and called.name not in scope.tensors and called.name in self.defs:
                    calls.reject_clauses(st, f"the call of '{called.name}'")
                    target = s.Target(name, st.lhs.name_span)
                    call = s.TupleCall((target,), called.name, called.args, st.span, called.name_span)
                    calls.require_plain(st)
                    calls.call(self, call, scope, stack)
                elif called and called.name == "concat":
                    calls.reject_clauses(st, "concat")
                    calls.require_plain(st)
                    calls.concat(self, st, called, scope)
                else:
                    self._assign(st, scope)
                if name not in scope.returns:
                    temporaries.setdefault(name, st.lhs.name_span)
            else:
                calls.call(self, st, scope, stack)

    def _loop(self, st: s.For, scope: Scope, stack: tuple[str, ...], temporaries: dict[str, Span]) -> None:
        """A sequential loop: its statements, with the loop around them."""
        reject_builtin(st.name, st.name_span, "the variable of a loop")
        for taken, what in (
            (scope.sizes, "a size"),
            (scope.scalars, "a scalar"),
            (scope.counters, "the variable of a loop around this one"),
            ({*scope.tensors, *scope.later}, "a tensor"),
        ):
            if st.name in taken:
                raise SemanticError(
                    f"'{st.name}' is {what} and cannot be the variable of a loop",
                    st.name_span,
                    code="TC0204",
                    help="rename it",
                )
        resolver = StatementResolver(scope, _no_statement(st), None)
        first, last = (resolver.bound(e, "a bound of a loop") for e in (st.first, st.last))
        outermost = not scope.counters  # of this def, which may be called in a loop
        if outermost:
            scope.recurrent = dict(self._first_assigned(st, scope))
        loop = r.Loop(self.unique(st.name), first, last, st.down, st.span)
        scope.counters[st.name] = r.Counter(loop, st.name_span)
        self.loops = (*self.loops, loop)
        self._statements(st.body, scope, stack, temporaries)
        self.loops = self.loops[:-1]
        del scope.counters[st.name]
        if outermost:
            scope.recurrent = {}

    def _first_assigned(self, loop: s.For, scope: Scope) -> Iterator[tuple[str, r.Tensor]]:
        """The tensors that a loop is the first to assign."""
        seen = {*scope.tensors, *scope.scalars}
        for st in s.assignments(loop.body):
            if isinstance(st, s.Assign) and st.lhs.subscripts is not None and st.lhs.name not in seen:
                seen.add(st.lhs.name)
                rank = len(st.lhs.subscripts)
                yield st.lhs.name, self.target(st.lhs.name, rank, st.lhs.name_span, scope)

    def _returned(self, x: s.Return, scope: Scope) -> r.Returned:
        tensor = scope.tensors[x.name]
        if x.has_dims and x.type is not None and len(x.type.dims) != tensor.rank:
            raise SemanticError(
                f"'{x.name}' is declared with {count(len(x.type.dims), 'dimension')} but "
                f"assigned with {tensor.rank}",
                x.span,
                code="TC0206",
                help="declare as many sizes as it has subscripts",
            )
        declared = scope.predeclared.get(x.name)
        mode = self.modes.get(tensor.storage, "fresh")
        dims = declared.dims if declared else None
        recurrent = mode == "inout" and x.name in scope.iterated
        return r.Returned(x.name, tensor, mode, dims, x.span, recurrent)  # type: ignore[arg-type]

    def unique(self, name: str) -> str:
        """A name like this one that no other tensor, loop or scalar has."""
        while True:
            n = self.taken[name] = self.taken.get(name, 0) + 1
            found = name if n == 1 else f"{name}_{n}"
            if n == 1 or found not in self.written:
                return found

    def target(self, name: str, rank: int, span: Span, scope: Scope) -> r.Tensor:
        """The tensor a statement writes, made if this is its first definition."""
        if name in scope.scalars or (name in scope.tensors and scope.tensors[name].role == "param"):
            raise SemanticError(
                f"'{name}' is a parameter, and TC inputs are immutable",
                span,
                code="TC0220",
                help="assign to another name and return that",
            )
        reject_builtin(name, span, "a tensor")
        if name in SPELLINGS or name in BY_NAME:
            raise SemanticError(
                f"'{name}' is a type and cannot name a tensor", span, code="TC0202", help="rename it"
            )
        existing = scope.tensors.get(name) or scope.predeclared.get(name) or scope.recurrent.get(name)
        if existing is not None:
            if existing.rank != rank:
                raise SemanticError(
                    f"'{name}' has {count(existing.rank, 'dimension')} but is assigned with "
                    f"{count(rank, 'subscript')}",
                    span,
                    code="TC0206",
                    notes=[Note("first defined here", existing.span)],
                    help="a tensor keeps its rank; use another name",
                )
            return existing
        declared = scope.returns.get(name)
        dtype = declared.type.dtype if declared and declared.type else None
        role = "return" if declared else "temporary"
        return r.Tensor(self.unique(name), rank, role, dtype, None, span)

    def _assign(self, st: s.Assign, scope: Scope) -> None:
        name = st.lhs.name
        known = name in scope.tensors
        target = self.target(name, len(st.lhs.subscripts or ()), st.lhs.name_span, scope)
        res = StatementResolver(scope, st, None if known else target)
        res.collect()
        ranges: list[r.IndexRange] = []
        exists: list[r.Exp] = []
        conditions: list[r.Exp] = []
        subscripts: list[r.Subscript] = []
        # Left-hand-side offsets may use lets, so clauses come first; the order of occurrence that
        # matters for loops (left-hand side, then right-hand side) is restored below.
        for c in st.clauses:
            match c:
                case s.RangeClause():
                    ranges.append(res.range(c))
                case s.LetClause():
                    res.let(c)
                case s.ExistsClause():
                    before = len(res.seen)
                    exists.append(res.exp(c.value))
                    del res.seen[before:]
                case s.Condition():
                    conditions.append(res.condition(c))
        from_clauses, res.seen = res.seen, []
        subscripts = [res.subscript(e) for e in st.lhs.subscripts or ()]
        value = res.exp(st.value)
        res.measure(value)
        for i, sub in enumerate(subscripts):
            for other in subscripts[:i]:
                if other.index == sub.index and sub.data is None:
                    raise SemanticError(
                        f"'{sub.index}' subscripts '{name}' twice",
                        sub.span,
                        code="TC0205",
                        help="a diagonal is written with a condition: O(i,j) = … where i == j",
                    )
        seen = [*res.seen, *from_clauses]
        lhs = {sub.index for sub in subscripts if sub.data is None}
        reductions = tuple(dict.fromkeys(n for n, _ in seen if n not in lhs))
        in_exists = {x.name for e in exists for x in r.walk(e) if isinstance(x, r.Index)}
        auxiliary = tuple(sorted(in_exists - lhs - set(reductions)))
        statement = r.Statement(
            target,
            tuple(subscripts),
            st.op,
            value,
            reductions,
            auxiliary,
            (*ranges, *res.points),
            tuple(res.let_list),
            tuple(exists),
            tuple(conditions),
            st.span,
            index_spans=tuple(seen)
            + tuple((x.name, x.span) for e in exists for x in r.walk(e) if isinstance(x, r.Index)),
        )
        if statement.scattered:
            check_scatter(statement, known or name in scope.predeclared)
        statement = self._with_extremes(replace(statement, loops=self.loops))
        self.define(name, target, statement, scope, known, st.lhs.span)

    def _with_extremes(self, statement: r.Statement) -> r.Statement:
        """An arg-reduction written out, but for the last of its statements, which is returned; and where the
        extremes themselves are reduced to beside it, they are taken from there."""
        found, self.extremes_found = self.extremes_found, None
        if statement.op not in extremes.OPERATORS:
            beside = found is not None and self.statements[-1].target is found[0].target
            if found is not None and beside and extremes.has_extreme_of(statement, found[0]):
                return extremes.taken_from(statement, found[1])
            return statement
        *before, last = extremes.written_out(statement, self.unique)
        extreme = before[-1]
        if self.statements and extremes.has_extreme_of(self.statements[-1], statement):
            before.append(extremes.taken_from(self.statements.pop(), extreme))
        self.statements += before
        self.extremes_found = statement, extreme
        return last

    def define(
        self, name: str, target: r.Tensor, statement: r.Statement, scope: Scope, known: bool, span: Span
    ) -> None:
        starts = statement.op in ("+=", "*=", "min=", "max=") and not known  # from what the caller has
        if starts:
            scope.iterated.discard(name)
        if name in scope.iterated and scope.owner is not self.entry:
            pass  # as any tensor of an iteration: what it reads has been defined, or is an error (TC0228)
        elif name in scope.inout:
            self.modes.setdefault(target.storage, "inout")
        elif starts:
            if target.role == "return" and scope.owner is self.entry:
                self.modes.setdefault(target.storage, "accumulate")
            self.warnings.append(
                UninitializedReduction(
                    f"'{name}' is reduced into before anything defines it",
                    span,
                    help=f"did you mean '{statement.op}!'? With '{statement.op}' the result starts from "
                    "the caller's out= buffer, or from the neutral element when none is given",
                )
            )
        scope.tensors[name] = target
        self.statements.append(replace(statement, loops=self.loops))

    def _number_accesses(self) -> None:
        count = 0

        def number(e: r.Exp) -> r.Exp:
            nonlocal count
            e = r.rebuild(e, number)
            if isinstance(e, r.Access):
                e = replace(e, site=count)
                count += 1
            return e

        def numbered(sub: r.Subscript) -> r.Subscript:
            nonlocal count
            if sub.data is None:
                return sub
            count += 1
            return replace(sub, site=count - 1)

        for k, st in enumerate(self.statements):
            st = r.map_statement(st, number)
            self.statements[k] = replace(st, subscripts=tuple(map(numbered, st.subscripts)))


def _no_statement(st: s.For) -> s.Assign:
    """A statement without names, for what stands outside of statements."""
    at = st.name_span
    return s.Assign(s.Lhs("", None, at, at), "=", s.IntLit(0, at), (), at)

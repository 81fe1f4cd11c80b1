"""Names, calls between defs, and reductions: a syntax tree becomes a checked def.

The result is flat: calls are inlined, so that everything later sees one list of statements.  Checks run
by kind, names before reductions; ranges and types follow in their own passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tc.dtypes import BY_NAME, SPELLINGS
from tc.errors import (
    DataDependentAccess,
    Error,
    LoneReduction,
    Note,
    SemanticError,
    Span,
    UninitializedReduction,
    Warning,
    did_you_mean,
)
from tc.lang import resolved as r
from tc.lang import syntax as s
from tc.lang.builtins import find
from tc.lang.resolve import Scope, StatementResolver, reject_builtin


def check(program: s.Program, entry: str | None = None) -> r.Checked:
    """The entry def (by default the last), flattened, with names and reductions checked.

    Every other def is checked too.  Raises `SemanticError`; the warnings of the entry are in the result.
    """
    defs = _defs(program)
    if entry is None:
        chosen = program.defs[-1]
    elif entry in defs:
        chosen = defs[entry]
    else:
        raise SemanticError(
            f"there is no def '{entry}'",
            program.span,
            code="TC0216",
            help=did_you_mean(entry, defs) or "the defs are " + ", ".join(defs),
        )
    for d in program.defs:
        if d is not chosen:
            _Flattener(defs, d).run()
    return _Flattener(defs, chosen).run()


def _defs(program: s.Program) -> dict[str, s.Def]:
    out: dict[str, s.Def] = {}
    for d in program.defs:
        if d.name in out:
            raise SemanticError(
                f"'{d.name}' is defined twice",
                d.name_span,
                code="TC0217",
                notes=[Note("first here", out[d.name].name_span)],
            )
        reject_builtin(d.name, d.name_span, "a def")
        out[d.name] = d
    return out


class _Flattener:
    """Walks the statements of the entry and, through calls, of the defs it uses."""

    def __init__(self, defs: dict[str, s.Def], entry: s.Def) -> None:
        self.defs = defs
        self.entry = entry
        self.statements: list[r.Statement] = []
        self.equalities: list[r.Equality] = []
        self.arguments: list[r.Argument] = []
        self.warnings: list[Warning] = []
        self.modes: dict[r.Tensor, str] = {}  # storage -> inout | accumulate
        self.taken: dict[str, int] = {}

    def run(self) -> r.Checked:
        d = self.entry
        scope = self._scope(d)
        params: list[r.Tensor | r.ScalarParam] = []
        sizes: dict[str, None] = {}
        for p in d.params:
            for dim in p.type.dims:
                if isinstance(dim.value, str):
                    sizes.setdefault(dim.value)
        scope.sizes = {n: r.Size(n, d.span) for n in sizes}
        for p in d.params:
            if p.type.dims:
                dims = tuple(
                    scope.sizes[x.value] if isinstance(x.value, str) else r.Const(x.value, False, x.span)
                    for x in p.type.dims
                )
                t = r.Tensor(self._unique(p.name), len(dims), "param", p.type.dtype, dims, p.span)
                scope.tensors[p.name] = t
                params.append(t)
            else:
                scope.scalars[p.name] = r.Scalar(p.name, p.type.dtype, p.span)
                params.append(r.ScalarParam(p.name, p.type.dtype, False, p.span))
        self._check_sizes(d, scope)
        self._predeclare(d, scope)
        self._body(d, scope, (d.name,))
        returns = tuple(self._returned(x, scope) for x in d.returns)
        for st in self.statements:
            _check_reduction(st)
            _check_own_reads(st)
        self._number_accesses()
        special = {name for st in self.statements for name in _structural_scalars(st)}
        self._lone_reductions()
        self._data_dependent()
        return r.Checked(
            d.name,
            tuple(
                replace(p, specialized=p.name in special) if isinstance(p, r.ScalarParam) else p for p in params
            ),
            returns,
            tuple(self.statements),
            tuple(sizes),
            tuple(self.equalities),
            tuple(self.arguments),
            tuple(self.warnings),
            d.span,
        )

    # ---- a def

    def _scope(self, d: s.Def) -> Scope:
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
        for st in d.body:
            for name, span in _targets(st):
                scope.later.setdefault(name, span)
        for x in d.returns:
            if x.name not in scope.later:
                near = did_you_mean(x.name, set(scope.later))
                raise SemanticError(
                    f"the returned tensor '{x.name}' is never assigned", x.span, code="TC0218", help=near
                )
        return scope

    def _check_sizes(self, d: s.Def, scope: Scope) -> None:
        for p in d.params:
            for dim in p.type.dims:
                if isinstance(dim.value, str):
                    if find(dim.value) is not None:
                        reject_builtin(dim.value, dim.span, "a size")
                    if dim.value in scope.scalars:
                        raise SemanticError(
                            f"'{dim.value}' is both a size and a scalar parameter", dim.span, code="TC0204"
                        )
        for x in d.returns:
            for dim in x.type.dims if x.type else ():
                if isinstance(dim.value, str) and dim.value not in scope.sizes:
                    raise SemanticError(
                        f"no parameter has the size '{dim.value}'",
                        dim.span,
                        code="TC0201",
                        help=did_you_mean(dim.value, set(scope.sizes)),
                    )

    def _predeclare(self, d: s.Def, scope: Scope) -> None:
        for x in d.returns:
            if x.type is not None and x.has_dims:
                dims = tuple(
                    scope.sizes[i.value] if isinstance(i.value, str) else r.Const(i.value, False, i.span)
                    for i in x.type.dims
                )
                scope.predeclared[x.name] = r.Tensor(
                    self._unique(x.name), len(dims), "return", x.type.dtype, dims, x.span
                )

    def _body(self, d: s.Def, scope: Scope, stack: tuple[str, ...]) -> None:
        temporaries: dict[str, Span] = {}
        for st in d.body:
            if isinstance(st, s.Assign):
                name = st.lhs.name
                called = st.value if isinstance(st.value, s.Call) and st.lhs.subscripts is None else None
                if called and called.name not in scope.tensors and called.name in self.defs:
                    self._reject_clauses(st, f"the call of '{called.name}'")
                    target = s.Target(name, st.lhs.name_span)
                    call = s.TupleCall((target,), called.name, called.args, st.span, called.name_span)
                    self._require_plain(st)
                    self._call(call, scope, stack)
                elif called and called.name == "concat":
                    self._reject_clauses(st, "concat")
                    self._require_plain(st)
                    self._concat(st, called, scope)
                else:
                    self._assign(st, scope)
                if name not in scope.returns:
                    temporaries.setdefault(name, st.lhs.name_span)
            else:
                self._call(st, scope, stack)
        for name, span in temporaries.items():
            if name not in scope.read:
                near = did_you_mean(name, set(scope.returns) | set(scope.tensors))
                raise SemanticError(
                    f"the temporary '{name}' is never read",
                    span,
                    code="TC0219",
                    help=near or f"return it, or remove the statement; the returns are {', '.join(scope.returns)}",
                )

    def _returned(self, x: s.Return, scope: Scope) -> r.Returned:
        tensor = scope.tensors[x.name]
        if x.has_dims and x.type is not None and len(x.type.dims) != tensor.rank:
            raise SemanticError(
                f"'{x.name}' is declared with {len(x.type.dims)} dimensions but assigned with {tensor.rank}",
                x.span,
                code="TC0206",
            )
        declared = scope.predeclared.get(x.name)
        mode = self.modes.get(tensor.storage, "fresh")
        dims = declared.dims if declared else None
        return r.Returned(x.name, tensor, mode, dims, x.span)  # type: ignore[arg-type]

    def _unique(self, name: str) -> str:
        n = self.taken[name] = self.taken.get(name, 0) + 1
        return name if n == 1 else f"{name}_{n}"

    # ---- assignments

    def _target(self, name: str, rank: int, span: Span, scope: Scope) -> r.Tensor:
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
            raise SemanticError(f"'{name}' is a type and cannot name a tensor", span, code="TC0202")
        existing = scope.tensors.get(name) or scope.predeclared.get(name)
        if existing is not None:
            if existing.rank != rank:
                raise SemanticError(
                    f"'{name}' has {existing.rank} dimensions but is assigned with {rank} subscripts",
                    span,
                    code="TC0206",
                    notes=[Note("first defined here", existing.span)],
                )
            return existing
        declared = scope.returns.get(name)
        dtype = declared.type.dtype if declared and declared.type else None
        role = "return" if declared else "temporary"
        return r.Tensor(self._unique(name), rank, role, dtype, None, span)

    def _assign(self, st: s.Assign, scope: Scope) -> None:
        name = st.lhs.name
        known = name in scope.tensors
        target = self._target(name, len(st.lhs.subscripts or ()), st.lhs.name_span, scope)
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
                if other.index == sub.index:
                    raise SemanticError(
                        f"'{sub.index}' subscripts '{name}' twice",
                        sub.span,
                        code="TC0205",
                        help="a diagonal is written with a condition: O(i,j) = … where i == j",
                    )
        seen = [*res.seen, *from_clauses]
        lhs = {sub.index for sub in subscripts}
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
            tuple(ranges),
            tuple(res.let_list),
            tuple(exists),
            tuple(conditions),
            st.span,
            index_spans=tuple(seen) + tuple(
                (x.name, x.span) for e in exists for x in r.walk(e) if isinstance(x, r.Index)
            ),
        )
        self._define(name, target, statement, scope, known, st.lhs.span)

    def _define(
        self, name: str, target: r.Tensor, statement: r.Statement, scope: Scope, known: bool, span: Span
    ) -> None:
        if name in scope.inout:
            self.modes.setdefault(target.storage, "inout")
        elif not known and statement.op in ("+=", "*=", "min=", "max="):
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
        self.statements.append(statement)

    # ---- calls and concat

    def _reject_clauses(self, st: s.Assign, what: str) -> None:
        if st.clauses:
            raise SemanticError(f"{what} takes no 'where'", st.clauses[0].span, code="TC0221")

    def _require_plain(self, st: s.Assign) -> None:
        if st.op != "=":
            raise SemanticError(
                f"a call's result is assigned with '=', not '{st.op}'",
                st.span,
                code="TC0221",
                help=f"t = …, then {st.lhs.name}(…) {st.op} t(…)",
            )

    def _call(self, call: s.TupleCall, scope: Scope, stack: tuple[str, ...]) -> None:
        callee = self.defs.get(call.callee)
        if callee is None:
            raise SemanticError(
                f"there is no def '{call.callee}'",
                call.callee_span,
                code="TC0216",
                help=did_you_mean(call.callee, self.defs),
            )
        if callee.name in stack:
            raise SemanticError(
                f"'{callee.name}' calls itself ({' -> '.join([*stack, callee.name])})",
                call.callee_span,
                code="TC0222",
                help="recursion has no finite flat form; unroll it in the source",
            )
        if len(call.args) != len(callee.params):
            raise SemanticError(
                f"'{callee.name}' takes {len(callee.params)} arguments but {len(call.args)} were given",
                call.span,
                code="TC0209",
                notes=[Note("defined here", callee.name_span)],
            )
        if len(call.targets) != len(callee.returns):
            raise SemanticError(
                f"'{callee.name}' returns {len(callee.returns)} tensors but {len(call.targets)} are assigned",
                call.span,
                code="TC0209",
                notes=[Note("defined here", callee.name_span)],
            )
        names = [t.name for t in call.targets]
        for t in call.targets:
            if names.count(t.name) > 1:
                raise SemanticError(f"'{t.name}' is assigned twice by one call", t.span, code="TC0204")
        inner = self._scope(callee)
        self._bind(callee, call, scope, inner)
        self._predeclare(callee, inner)
        for t, x in zip(call.targets, callee.returns, strict=True):
            known = scope.tensors.get(t.name)
            if known is not None and known.role != "param" and _starts_from_caller(callee, x.name, self.defs):
                inner.tensors[x.name] = known.view(x.name, t.span)
        self._body(callee, inner, (*stack, callee.name))
        if inner.inout:
            missing = next(t for t, x in zip(call.targets, callee.returns, strict=True) if x.name in inner.inout)
            raise SemanticError(
                f"'{callee.name}' reads its result before defining it, so '{missing.name}' must be defined "
                "before this call",
                missing.span,
                code="TC0208",
                help=f"define '{missing.name}' first",
            )
        for t, x in zip(call.targets, callee.returns, strict=True):
            self._receive(t, inner.tensors[x.name], scope, call)

    def _bind(self, callee: s.Def, call: s.TupleCall, scope: Scope, inner: Scope) -> None:
        """Bind the callee's parameters and sizes to the caller's tensors and scalars."""
        for p, arg in zip(callee.params, call.args, strict=True):
            if not p.type.dims:
                res = StatementResolver(scope, s.Assign(s.Lhs("", None, arg.span, arg.span), "=", arg, (), arg.span), None)
                value = res.exp(arg)
                res.measure(value)
                inner.scalars[p.name] = r.Cast(p.type.dtype, value, False, arg.span)
                continue
            tensor = scope.tensors.get(arg.id) if isinstance(arg, s.Name) else None
            if tensor is None or tensor.rank == 0:
                known = sorted(n for n, t in scope.tensors.items() if t.rank)
                raise SemanticError(
                    f"the argument for '{p.name}' must be the name of a tensor",
                    arg.span,
                    code="TC0223",
                    help=(did_you_mean(arg.id, known) if isinstance(arg, s.Name) else None)
                    or "compute it into a temporary tensor first",
                )
            scope.read.add(arg.id)  # type: ignore[union-attr]
            if tensor.rank != len(p.type.dims):
                raise SemanticError(
                    f"'{p.name}' has {len(p.type.dims)} dimensions but '{tensor.name}' has {tensor.rank}",
                    arg.span,
                    code="TC0206",
                    notes=[Note("the parameter", p.span)],
                )
            # Parameters are immutable, also the caller's output seen through one.
            view = replace(tensor.view(p.name, p.span), role="param")
            inner.tensors[p.name] = view
            self.arguments.append(r.Argument(tensor, p.type.dtype, p.name, arg.span))
            for axis, dim in enumerate(p.type.dims):
                extent = r.ExtentOf(view, axis, arg.span)
                if isinstance(dim.value, int):
                    bound: r.Exp | None = r.Const(dim.value, False, dim.span)
                else:
                    bound = inner.sizes.get(dim.value)
                if bound is None:
                    inner.sizes[str(dim.value)] = extent
                else:
                    reason = f"'{callee.name}' needs dimension {axis} of '{p.name}' to be {dim.value}"
                    self.equalities.append(r.Equality(bound, extent, reason, arg.span))
        self._check_sizes(callee, inner)

    def _receive(self, t: s.Target, result: r.Tensor, scope: Scope, call: s.TupleCall) -> None:
        """Give a result of a call its name in the caller."""
        known = scope.tensors.get(t.name)
        if known is not None and known.role != "param" and result.storage is known.storage:
            return  # updated in place through a view
        declared = scope.returns.get(t.name)
        annotated = declared is not None and declared.type is not None
        target = self._target(t.name, result.rank, t.span, scope)
        if known is None and not annotated and t.name not in scope.predeclared:
            owner = result.storage
            scope.tensors[t.name] = replace(
                result.view(t.name, t.span), role="return" if declared else "temporary"
            )
            del owner
            return
        self._copy(t, target, result, call.span, scope, known is not None)

    def _copy(
        self, t: s.Target, target: r.Tensor, source: r.Tensor, span: Span, scope: Scope, known: bool
    ) -> None:
        names = tuple(f"i{d}" for d in range(source.rank))
        seen = source.view(source.name, span)
        statement = r.Statement(
            target,
            tuple(r.Subscript(n, None, span) for n in names),
            "=",
            r.Access(seen, tuple(r.Index(n, span) for n in names), span),
            (),
            (),
            tuple(r.IndexRange(n, r.Const(0, False, span), r.ExtentOf(seen, d, span), span) for d, n in enumerate(names)),
            (),
            (),
            (),
            span,
        )
        self._define(t.name, target, statement, scope, known, t.span)

    def _concat(self, st: s.Assign, call: s.Call, scope: Scope) -> None:
        parts: list[r.Tensor] = []
        for arg in call.args:
            tensor = scope.tensors.get(arg.id) if isinstance(arg, s.Name) else None
            if tensor is None or tensor.rank == 0:
                raise SemanticError(
                    "the arguments of concat must be names of tensors with dimensions",
                    arg.span,
                    code="TC0223",
                    help=did_you_mean(arg.id, set(scope.tensors)) if isinstance(arg, s.Name) else None,
                )
            scope.read.add(tensor.name)
            scope.read.add(arg.id)  # type: ignore[union-attr]
            parts.append(tensor.view(tensor.name, arg.span))
            if tensor.rank != parts[0].rank:
                raise SemanticError(
                    f"concat joins tensors of one rank, but '{tensor.name}' has {tensor.rank} dimensions and "
                    f"'{parts[0].name}' has {parts[0].rank}",
                    arg.span,
                    code="TC0206",
                )
        rank, span = parts[0].rank, st.span
        names = tuple(f"i{d}" for d in range(rank))
        known = st.lhs.name in scope.tensors
        target = self._target(st.lhs.name, rank, st.lhs.name_span, scope)
        if any(p.storage is target.storage for p in parts):
            raise SemanticError(
                "concat cannot write a tensor that it reads", st.span, code="TC0224", help="use another name"
            )
        zero = r.Const(0, False, span)
        offset: r.Exp | None = None
        ends: list[r.Exp] = []
        for p in parts:
            last = r.ExtentOf(p, rank - 1, span)
            ends.append(last if offset is None else r.Binary("+", offset, last, span))
            offset = ends[-1]
            for d in range(rank - 1):
                if p is not parts[0]:
                    self.equalities.append(
                        r.Equality(
                            r.ExtentOf(parts[0], d, span),
                            r.ExtentOf(p, d, span),
                            f"concat needs '{parts[0].name}' and '{p.name}' to agree in dimension {d}",
                            p.span,
                        )
                    )
        box = (*((zero, r.ExtentOf(parts[0], d, span)) for d in range(rank - 1)), (zero, ends[-1]))
        for n, p in enumerate(parts):
            subs = [r.Subscript(i, None, span) for i in names]
            if n:
                subs[-1] = r.Subscript(names[-1], ends[n - 1], span)
            statement = r.Statement(
                target,
                tuple(subs),
                "=",
                r.Access(p, tuple(r.Index(i, span) for i in names), p.span),
                (),
                (),
                tuple(r.IndexRange(i, zero, r.ExtentOf(p, d, span), span) for d, i in enumerate(names)),
                (),
                (),
                (),
                span,
                box,
            )
            self._define(st.lhs.name, target, statement, scope, known or n > 0, st.lhs.span)

    # ---- after all names are known

    def _number_accesses(self) -> None:
        count = 0

        def number(e: r.Exp) -> r.Exp:
            nonlocal count
            e = r.rebuild(e, number)
            if isinstance(e, r.Access):
                e = replace(e, site=count)
                count += 1
            return e

        self.statements = [r.map_statement(st, number) for st in self.statements]

    def _lone_reductions(self) -> None:
        for st in self.statements:
            ranged = {x.name for x in st.ranges}
            for v in st.reductions:
                if v in ranged:
                    continue
                lone = _lone_factor(r.expand_lets(st.value, st), v)
                if lone is not None:
                    self.warnings.append(
                        LoneReduction(
                            f"the reduction variable '{v}' occurs in one access only, "
                            f"a factor that the others do not depend on",
                            lone.span,
                            help=f"if the sum over '{v}' is meant, give it a range: where {v} in 0:…",
                        )
                    )

    def _data_dependent(self) -> None:
        """Clamped accesses are told apart by range inference, which drops their warnings."""
        for st in self.statements:
            for e in (*st.roots(), *st.exists):
                for a in r.accesses(e):
                    for sub in a.subscripts:
                        full = r.expand_lets(sub, st)
                        if any(isinstance(x, r.Access) for x in r.walk(full)):
                            self.warnings.append(
                                DataDependentAccess(
                                    f"a subscript of '{a.tensor.name}' depends on data and is checked when the "
                                    "kernel runs",
                                    sub.span,
                                    help="clamp it, e.g. max(min(…, N-1), 0), to make it safe without a check",
                                )
                            )


def _targets(st: s.Stmt) -> Sequence[tuple[str, Span]]:
    if isinstance(st, s.Assign):
        return [(st.lhs.name, st.lhs.name_span)]
    return [(t.name, t.span) for t in st.targets]


def _starts_from_caller(callee: s.Def, name: str, defs: dict[str, s.Def]) -> bool:
    """Whether a def reads or accumulates into a result before it has defined it."""
    for st in callee.body:
        if isinstance(st, s.Assign):
            if _mentions(st.value, name):
                return True
            if st.lhs.name == name:
                return st.op in ("+=", "*=", "min=", "max=")
        else:
            if any(_mentions(a, name) for a in st.args):
                return True
            for t, x in zip(st.targets, defs[st.callee].returns if st.callee in defs else (), strict=False):
                if t.name == name:
                    return _starts_from_caller(defs[st.callee], x.name, defs)
    return False


def _mentions(e: s.Exp, name: str) -> bool:
    from tc.lang.resolve import _parts

    if isinstance(e, (s.Name, s.Call)) and (e.id if isinstance(e, s.Name) else e.name) == name:
        return True
    return any(_mentions(p, name) for p in _parts(e))


def _check_reduction(st: r.Statement) -> None:
    if st.op == "=" and st.reductions:
        v = st.reductions[0]
        raise SemanticError(
            f"the statement has the reduction variable '{v}' but does not specify a reduction",
            st.span_of(v),
            code="TC0225",
            help="write '+=!' instead of '=' to sum over it, or another reduction: *=! min=! max=!",
        )


def _check_own_reads(st: r.Statement) -> None:
    """Data-dependent reads of the tensor a statement writes have no exact legality test."""
    for root in st.roots():
        for a in r.accesses(root):
            if a.tensor.storage is not st.target.storage:
                continue
            for sub in a.subscripts:
                if any(isinstance(x, r.Access) for x in r.walk(r.expand_lets(sub, st))):
                    raise SemanticError(
                        f"the statement writes '{st.target.name}' and reads it at a subscript that depends on data",
                        a.span,
                        code="TC0226",
                        help="write the result to another tensor",
                    )


def _structural_scalars(st: r.Statement) -> set[str]:
    """Scalars that shape the iteration domain or an address: they are part of the compile key."""
    roots: list[r.Exp] = [x for g in st.ranges for x in (g.lo, g.hi)]
    roots += [x.offset for x in st.subscripts if x.offset is not None]
    roots += st.conditions
    for e in (*st.roots(), *st.exists):
        roots += [sub for a in r.accesses(e) for sub in a.subscripts]
    out: set[str] = set()
    for e in roots:
        for x in r.walk(r.expand_lets(e, st)):
            if isinstance(x, r.Scalar) and not x.declared.is_float:
                out.add(x.name)
    return out


def _lone_factor(e: r.Exp, v: str) -> r.Access | None:
    """The only access of a product that mentions `v`, if another factor reads a tensor too.

    Such a sum could be pulled out of the product, which nobody writes on purpose; a row sum or a
    soft-max denominator, where the variable stands in one access as well, is not a product.
    """
    if not (isinstance(e, r.Binary) and e.op == "*"):
        return None
    mentioning = [a for a in r.accesses(e) if _uses(a, v)]
    outside = any(_uses(x, v) for x in r.walk(e) if isinstance(x, r.Index)) and not mentioning
    if len(mentioning) != 1 or outside:
        return None
    for side, other in ((e.left, e.right), (e.right, e.left)):
        if mentioning[0] in list(r.accesses(side)):
            if any(True for _ in r.accesses(other)):
                return mentioning[0]
            return _lone_factor(side, v)
    return None


def _uses(e: r.Exp, v: str) -> bool:
    return any(isinstance(x, r.Index) and x.name == v for x in r.walk(e))


__all__ = ["Error", "check"]

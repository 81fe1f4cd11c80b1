"""Calls between defs, and concat: inlined, with arguments and results seen through views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tc.errors import Note, SemanticError, Span, did_you_mean
from tc.lang import resolved as r
from tc.lang import syntax as s
from tc.lang.resolve import StatementResolver, count
from tc.lang.scope import Scope

if TYPE_CHECKING:
    from tc.lang.flatten import Flattener


def reject_clauses(st: s.Assign, what: str) -> None:
    if st.clauses:
        raise SemanticError(
            f"{what} takes no 'where'",
            st.clauses[0].span,
            code="TC0221",
            help="put it on a statement that copies the result",
        )


def require_plain(st: s.Assign) -> None:
    if st.op != "=":
        raise SemanticError(
            f"a call's result is assigned with '=', not '{st.op}'",
            st.span,
            code="TC0221",
            help=f"t = …, then {st.lhs.name}(…) {st.op} t(…)",
        )


def call(fl: Flattener, call: s.TupleCall, scope: Scope, stack: tuple[str, ...]) -> None:
    callee = fl.defs.get(call.callee)
    if callee is None:
        raise SemanticError(
            f"there is no def '{call.callee}'",
            call.callee_span,
            code="TC0216",
            help=did_you_mean(call.callee, fl.defs),
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
            f"'{callee.name}' takes {count(len(callee.params), 'argument')} but {len(call.args)} were given",
            call.span,
            code="TC0209",
            notes=[Note("defined here", callee.name_span)],
            help="its parameters are " + ", ".join(p.name for p in callee.params),
        )
    if len(call.targets) != len(callee.returns):
        raise SemanticError(
            f"'{callee.name}' returns {len(callee.returns)} tensors but {len(call.targets)} are assigned",
            call.span,
            code="TC0209",
            notes=[Note("defined here", callee.name_span)],
            help="its results are " + ", ".join(x.name for x in callee.returns),
        )
    names = [t.name for t in call.targets]
    for t in call.targets:
        if names.count(t.name) > 1:
            raise SemanticError(
                f"'{t.name}' is assigned twice by one call",
                t.span,
                code="TC0204",
                help="give each result a name of its own",
            )
    inner = fl.scope(callee)
    _bind(fl, callee, call, scope, inner)
    fl.predeclare(callee, inner)
    for t, x in zip(call.targets, callee.returns, strict=True):
        known = scope.tensors.get(t.name)
        if known is not None and known.role != "param" and _starts_from_caller(callee, x.name, fl.defs):
            inner.tensors[x.name] = known.view(x.name, t.span)
    fl.body(callee, inner, (*stack, callee.name))
    if early := inner.inout - inner.iterated:
        missing = next(t for t, x in zip(call.targets, callee.returns, strict=True) if x.name in early)
        raise SemanticError(
            f"'{callee.name}' reads its result before defining it, so '{missing.name}' must be defined "
            "before this call",
            missing.span,
            code="TC0208",
            help=f"define '{missing.name}' first",
        )
    for t, x in zip(call.targets, callee.returns, strict=True):
        _receive(fl, t, inner.tensors[x.name], scope, call)


def _bind(fl: Flattener, callee: s.Def, call: s.TupleCall, scope: Scope, inner: Scope) -> None:
    """Bind the callee's parameters and sizes to the caller's tensors and scalars."""
    for p, arg in zip(callee.params, call.args, strict=True):
        if not p.type.dims:
            res = StatementResolver(
                scope, s.Assign(s.Lhs("", None, arg.span, arg.span), "=", arg, (), arg.span), None
            )
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
                f"'{p.name}' has {count(len(p.type.dims), 'dimension')} but '{tensor.name}' "
                f"has {tensor.rank}",
                arg.span,
                code="TC0206",
                notes=[Note("the parameter", p.span)],
                help="pass a tensor of that rank",
            )
        # Parameters are immutable, also the caller's output seen through one.
        view = replace(tensor.view(p.name, p.span), role="param")
        inner.tensors[p.name] = view
        fl.arguments.append(r.Argument(tensor, p.type.dtype, p.name, arg.span))
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
                fl.equalities.append(r.Equality(bound, extent, reason, arg.span))
    fl.check_sizes(callee, inner)


def _receive(fl: Flattener, t: s.Target, result: r.Tensor, scope: Scope, call: s.TupleCall) -> None:
    """Give a result of a call its name in the caller."""
    known = scope.tensors.get(t.name)
    if known is not None and known.role != "param" and result.storage is known.storage:
        return  # updated in place through a view
    declared = scope.returns.get(t.name)
    annotated = declared is not None and declared.type is not None
    target = fl.target(t.name, result.rank, t.span, scope)
    if known is None and not annotated and t.name not in scope.predeclared:
        scope.tensors[t.name] = replace(
            result.view(t.name, t.span), role="return" if declared else "temporary"
        )
        return
    _copy(fl, t, target, result, call.span, scope, known is not None)


def _copy(
    fl: Flattener, t: s.Target, target: r.Tensor, source: r.Tensor, span: Span, scope: Scope, known: bool
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
        tuple(
            r.IndexRange(n, r.Const(0, False, span), r.ExtentOf(seen, d, span), span)
            for d, n in enumerate(names)
        ),
        (),
        (),
        (),
        span,
    )
    fl.define(t.name, target, statement, scope, known, t.span)


def concat(fl: Flattener, st: s.Assign, call: s.Call, scope: Scope) -> None:
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
                f"concat joins tensors of one rank, but '{tensor.name}' has "
                f"{count(tensor.rank, 'dimension')} and "
                f"'{parts[0].name}' has {parts[0].rank}",
                arg.span,
                code="TC0206",
                help="all parts need the same rank",
            )
    rank, span = parts[0].rank, st.span
    names = tuple(f"i{d}" for d in range(rank))
    known = st.lhs.name in scope.tensors
    target = fl.target(st.lhs.name, rank, st.lhs.name_span, scope)
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
                fl.equalities.append(
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
        fl.define(st.lhs.name, target, statement, scope, known or n > 0, st.lhs.span)


def targets(st: s.Assign | s.TupleCall) -> Sequence[tuple[str, Span]]:
    if isinstance(st, s.Assign):
        return [(st.lhs.name, st.lhs.name_span)]
    return [(t.name, t.span) for t in st.targets]


def _starts_from_caller(callee: s.Def, name: str, defs: dict[str, s.Def]) -> bool:
    """Whether a def reads or accumulates into a result before it has defined it."""
    for st in s.assignments(callee.body):
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
    if isinstance(e, (s.Name, s.Call)) and (e.id if isinstance(e, s.Name) else e.name) == name:
        return True
    return any(_mentions(p, name) for p in s.parts(e))

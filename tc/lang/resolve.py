"""Names to meanings, one statement at a time, in the scope of its def."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tc.errors import Note, SemanticError, Span, did_you_mean
from tc.lang import habits, occurrences
from tc.lang import resolved as r
from tc.lang import syntax as s
from tc.lang.builtins import SUFFIXED, find
from tc.lang.scope import CONSTANTS, Scope, reject_builtin, size_from_parameter

MAX_HEIGHT = 200  # of an expression with its lets substituted
MAX_NODES = 20_000


class StatementResolver:
    """Resolves the parts of one assignment; collects its index variables in order of occurrence."""

    def __init__(self, scope: Scope, statement: s.Assign, owner: r.Tensor | None) -> None:
        self.scope = scope
        self.statement = statement
        self.target_name = statement.lhs.name
        self.lets: dict[str, tuple[int, int]] = {}  # let -> height, nodes when substituted
        self.let_list: list[r.LetBinding] = []
        self.ranged: dict[str, Span] = {}
        self.seen: list[tuple[str, Span]] = []  # index variables, first occurrences first
        self.declared: set[str] = set()  # by the left-hand side or a range
        self.owner = owner
        self.subscript_names: set[str] = set()
        self.points: list[r.IndexRange] = []  # of left-hand-side subscripts without an index variable

    # ---- which names are index variables

    def collect(self) -> None:
        st = self.statement
        let_names = {c.name for c in st.clauses if isinstance(c, s.LetClause)}
        roots: list[s.Exp] = [st.value]
        for sub in st.lhs.subscripts or ():
            if self._reads_tensor(sub):
                roots.append(sub)
                continue
            for name in occurrences.names(sub):
                if name.id not in let_names and not self._is_value(name.id):
                    self.declared.add(name.id)
        self.declared |= {c.name for c in st.clauses if isinstance(c, s.RangeClause)}
        for c in st.clauses:
            match c:
                case s.LetClause() | s.ExistsClause() | s.Condition():
                    roots.append(c.value)
                case s.RangeClause():
                    pass
        for root in roots:
            for call in occurrences.calls(root):
                if find(call.name) is None and call.name not in self.scope.defs:
                    for arg in call.args:
                        self.subscript_names |= {n.id for n in occurrences.indices(arg)}
        self.subscript_names -= let_names

    def _reads_tensor(self, e: s.Exp) -> bool:
        """Whether a left-hand-side subscript reads a tensor, if only one without dimensions by its name."""
        tensors = {*self.scope.tensors, *self.scope.later}
        if any(c.name in tensors for c in occurrences.calls(e)):
            return True
        own = {c.name for c in self.statement.clauses if isinstance(c, s.RangeClause | s.LetClause)}
        known = {n: self.scope.tensors.get(n) for n in {x.id for x in occurrences.names(e)} - own}
        return any(t is not None and t.rank == 0 for t in known.values())

    def _is_value(self, name: str) -> bool:
        return name in self.scope.sizes or name in self.scope.scalars or name in self.scope.counters

    def is_index(self, name: str) -> bool:
        if name in self.declared:
            return True
        return name in self.subscript_names and name not in self.scope.value_names()

    def _clash(self, name: str, span: Span) -> None:
        scope = self.scope
        what = "a size" if name in scope.sizes else "a scalar" if name in scope.scalars else None
        what = "the variable of a loop" if name in scope.counters else what
        if what:
            raise SemanticError(
                f"'{name}' is {what} and cannot be an index variable", span, code="TC0203", help="rename it"
            )
        reject_builtin(name, span, "an index variable")

    # ---- expressions

    def exp(self, e: s.Exp) -> r.Exp:
        match e:
            case s.IntLit():
                return r.Const(e.value, False, e.span)
            case s.FloatLit():
                return r.Const(e.value, e.single, e.span)
            case s.ImaginaryLit():
                return r.Imaginary(e.value, e.span)
            case s.Name():
                return self._name(e)
            case s.Dim():
                return r.ExtentOf(self._tensor(e.tensor, e.span, axis=e.axis), e.axis, e.span)
            case s.Call():
                return self._call(e)
            case s.Unary():
                return r.Unary(e.op, self.exp(e.operand), e.span)
            case s.Binary():
                return r.Binary(e.op, self.exp(e.left), self.exp(e.right), e.span)
            case s.Ternary():
                return r.If(self.exp(e.condition), self.exp(e.then), self.exp(e.otherwise), e.span)
            case s.Cast():
                return r.Cast(e.dtype, self.exp(e.operand), True, e.span)

    def _name(self, e: s.Name) -> r.Exp:
        name, scope = e.id, self.scope
        if name in self.lets:
            return r.Let(name, e.span)
        if name in scope.counters and name not in self.declared:
            return replace(scope.counters[name], span=e.span)
        if self.is_index(name):
            self._clash(name, e.span)
            self.seen.append((name, e.span))
            return r.Index(name, e.span)
        if name in scope.scalars:
            return scope.scalars[name]
        tensor = scope.tensors.get(name) or (self.owner if name == self.target_name else None)
        size = name in scope.sizes and (tensor is None or tensor.rank > 0)  # which has the name of a tensor
        if (name in scope.tensors or name in scope.later) and not size:
            tensor = self._tensor(name, e.span)
            if tensor.rank:
                raise SemanticError(
                    f"expected a scalar but found the tensor '{name}' with {count(tensor.rank, 'dimension')}",
                    e.span,
                    code="TC0207",
                    help=f"write its subscripts: {name}({', '.join('ijklmnopq'[: tensor.rank])})",
                )
            return r.Access(tensor, (), e.span)
        if name in scope.sizes:
            return replace(scope.sizes[name], span=e.span)
        if name in CONSTANTS:
            return r.Const(CONSTANTS[name], False, e.span)
        raise self._unknown(name, e.span)

    def _unknown(self, name: str, span: Span) -> SemanticError:
        pool = {*self.scope.value_names(), *self.lets, *self.declared, *self.subscript_names}
        return SemanticError(
            f"unknown name '{name}'",
            span,
            code="TC0201",
            help=habits.of_name(name)
            or did_you_mean(name, pool - {name})
            or "an index variable subscripts a tensor or has a 'where' range",
        )

    def _bound(self, e: s.Exp) -> r.Exp:
        """A bound of a range; TC0201 for names that are no size, scalar or loop."""
        for n in occurrences.names(e):
            known = n.id in self.lets or n.id in CONSTANTS or self.is_index(n.id)
            if not known and n.id not in self.scope.value_names():
                near = did_you_mean(n.id, {*self.scope.sizes, *self.scope.scalars, *self.scope.counters})
                raise SemanticError(
                    f"unknown name '{n.id}'", n.span, code="TC0201", help=near or size_from_parameter(n.id)
                )
        return self.exp(e)

    def _call(self, e: s.Call) -> r.Exp:
        name, scope = e.name, self.scope
        if name in scope.tensors or name in scope.later:
            tensor = self._tensor(name, e.name_span)
            if len(e.args) != tensor.rank:
                raise SemanticError(
                    f"expected {count(tensor.rank, 'subscript')} for '{name}' but found {len(e.args)}",
                    e.span,
                    code="TC0206",
                    notes=[Note(f"'{name}' has {count(tensor.rank, 'dimension')}", tensor.span)],
                    help="every dimension takes one subscript",
                )
            subscripts = tuple(self.exp(a) for a in e.args)
            return r.Access(tensor, subscripts, e.span, modes=self._modes(e, tensor))
        if e.modes:
            raise SemanticError(
                f"'{name}' is no tensor that is defined here, and takes no boundary mode",
                e.modes[0].span,
                code="TC0229",
                help="a mode stands between the name of a tensor and its subscripts: X[clamp](i-1)",
            )
        if name in scope.scalars:
            raise SemanticError(
                f"'{name}' is a scalar and takes no subscripts", e.span, code="TC0206", help=f"write {name}"
            )
        if name in scope.defs:
            raise SemanticError(
                f"a call of the def '{name}' must be the whole right-hand side of a statement",
                e.span,
                code="TC0210",
                help=f"give the result a name first: t = {name}(…)",
            )
        b = find(name)
        if b is None:
            near = habits.of_function(name) or did_you_mean(name, {*scope.callable_names(), *SUFFIXED})
            raise SemanticError(f"unknown tensor or function '{name}'", e.name_span, code="TC0201", help=near)
        if b.kind == "concat":
            raise SemanticError(
                "concat must be the whole right-hand side of a statement on a bare name",
                e.span,
                code="TC0211",
                help="write T = concat(A, B) first",
            )
        if len(e.args) < b.arity or (len(e.args) > b.arity and not b.variadic):
            least = "at least " if b.variadic else ""
            one_of_many = b.name in ("min", "max") and len(e.args) == 1
            raise SemanticError(
                f"'{name}' takes {least}{count(b.arity, 'argument')} but {_given(len(e.args))}",
                e.span,
                code="TC0209",
                help=f"a reduction is a statement of its own: m(i) {b.name}=! x(i,k)"
                if one_of_many
                else "the built-ins and their arguments are in docs/language.md",
            )
        return r.Apply(b.name, tuple(self.exp(a) for a in e.args), e.span)

    def _modes(self, e: s.Call, tensor: r.Tensor) -> tuple[r.Mode, ...]:
        """The boundary modes of an access, one for each dimension."""
        if len(e.modes) not in (0, 1, tensor.rank):
            raise SemanticError(
                f"expected one boundary mode or {count(tensor.rank, 'mode')} for '{e.name}' but found "
                f"{len(e.modes)}",
                Span(e.span.source, e.modes[0].span.start, e.modes[-1].span.end),
                code="TC0229",
                help="one mode is for all dimensions; 'none' leaves a dimension without",
            )
        found = tuple(self._mode(m) for m in e.modes)
        return found * tensor.rank if len(found) == 1 else found

    def _mode(self, m: s.Mode) -> r.Mode:
        if m.name not in r.MODES or (m.name == "fill") != (m.value is not None):
            what = "needs a value" if m.name == "fill" else "takes no value"
            known, usual = m.name in r.MODES, habits.USUAL_MODES.get(m.name)
            raise SemanticError(
                f"the boundary mode '{m.name}' {what}" if known else f"'{m.name}' is no boundary mode",
                m.span,
                code="TC0229",
                help=(f"it is called {usual} here" if usual else None)
                or (None if known else did_you_mean(m.name, r.MODES))
                or "the modes are none, zero, fill=value, clamp, reflect, symmetric and wrap",
            )
        if m.name == "zero":
            return r.Mode("fill", r.Const(0, False, m.span))
        if m.value is None:
            return r.Mode(m.name)  # type: ignore[arg-type]
        value = self.exp(m.value)
        for x in self._with_lets(value):
            if isinstance(x, r.Access | r.Index):
                raise SemanticError(
                    "the value outside a tensor is a constant, or one of sizes and scalars",
                    x.span,
                    code="TC0229",
                    help="write a ternary for one that varies: i >= 0 && i < N ? X(i) : Y(i)",
                )
        return r.Mode("fill", value)

    def _tensor(self, name: str, span: Span, axis: int | None = None) -> r.Tensor:
        scope = self.scope
        scope.read.add(name)
        tensor = scope.tensors.get(name)
        if tensor is None and (name != self.target_name or name not in scope.returns):
            tensor = scope.recurrent.get(name)
        if tensor is None and name in scope.predeclared:
            tensor = scope.predeclared[name]
            self._early_read(name, span)
        if tensor is None and name == self.target_name and self.owner is not None:
            tensor = self.owner
            self._early_read(name, span)
        if tensor is None and name in scope.later:
            self._early_read(name, span)
            raise SemanticError(
                f"'{name}' is read before its rank is known",
                span,
                code="TC0208",
                help=f"declare it in the returns with its sizes: float(N) {name}",
            )
        if tensor is None:
            if name in scope.scalars:
                raise SemanticError(
                    f"'{name}' is a scalar and has no dimensions",
                    span,
                    code="TC0206",
                    help=f"write {name} alone",
                )
            near = did_you_mean(name, {*scope.tensors, *scope.later})
            raise SemanticError(f"unknown tensor '{name}'", span, code="TC0201", help=near)
        if axis is not None and axis >= tensor.rank:
            raise SemanticError(
                f"'{name}' has {count(tensor.rank, 'dimension')}, there is no {name}.{axis}",
                span,
                code="TC0206",
                help="dimensions count from 0",
            )
        return tensor

    def _early_read(self, name: str, span: Span) -> None:
        """A read of a tensor that nothing has defined yet: it must come from the caller."""
        if name not in self.scope.returns:
            raise SemanticError(
                f"'{name}' is read before it is defined",
                span,
                code="TC0208",
                notes=[Note("it is defined here", self.scope.later[name])],
                help="only a returned tensor may be read first; the caller passes it as out=",
            )
        if name not in self.scope.inout and name in self.scope.recurrent:
            self.scope.iterated.add(name)
        self.scope.inout.add(name)

    # ---- left-hand side and clauses

    def subscript(self, e: s.Exp) -> r.Subscript:
        if self._reads_tensor(e):
            return r.Subscript("", None, e.span, data=self.exp(e))
        names = [n for n in occurrences.names(e) if n.id in self.declared and not self._is_value(n.id)]
        if not names:
            return self._point(e)
        index = names[0]
        offset = occurrences.offset(e, index.id) if len(names) == 1 else None
        if len(names) > 1 or offset is None:
            raise SemanticError(
                "a left-hand-side subscript is an index variable, or one plus or minus constants, sizes "
                "and integer scalars",
                e.span,
                code="TC0205",
                help="write for example O(i + 1), and shift the right-hand side instead; places that a "
                "tensor holds make a scatter: O(P(i)) += …",
            )
        self._clash(index.id, index.span)
        self.seen.append((index.id, index.span))
        if isinstance(offset, s.IntLit) and offset.value == 0:
            return r.Subscript(index.id, None, e.span)
        value = self.exp(offset)
        self._check_bound(value, offset.span, "a left-hand-side offset")
        return r.Subscript(index.id, value, e.span)

    def _point(self, e: s.Exp) -> r.Subscript:
        """A subscript without an index variable, such as 0 or the variable of a loop: one of its own takes
        the only value."""
        value = self.exp(e)
        self._check_bound(value, e.span, "a left-hand-side subscript")
        for x in self._with_lets(value):
            if isinstance(x, r.Imaginary) or (isinstance(x, r.Const) and isinstance(x.value, float)):
                raise SemanticError(
                    "a left-hand-side subscript is an integer", x.span, code="TC0205", help="write an integer"
                )
        name = f"at{len(self.points)}_"
        while name in self.declared or name in self.subscript_names or name in self.scope.value_names():
            name += "_"
        following = r.Binary("+", value, r.Const(1, False, e.span), e.span)
        self.points.append(r.IndexRange(name, value, following, e.span))
        self.seen.append((name, e.span))
        return r.Subscript(name, None, e.span, value)

    def range(self, c: s.RangeClause) -> r.IndexRange:
        self._clash(c.name, c.name_span)
        if c.name in self.ranged or c.name in self.lets:
            raise SemanticError(
                f"'{c.name}' is defined twice in this 'where'",
                c.name_span,
                code="TC0204",
                notes=[Note("first here", self.ranged[c.name])] if c.name in self.ranged else (),
                help="rename one of them",
            )
        lo, hi = self._bound(c.lo), self._bound(c.hi)
        for bound, at in ((lo, c.lo.span), (hi, c.hi.span)):
            self._check_bound(bound, at, "a range")
        self.ranged[c.name] = c.name_span
        self.seen.append((c.name, c.name_span))
        return r.IndexRange(c.name, lo, hi, c.span)

    def bound(self, e: s.Exp, what: str) -> r.Exp:
        """A bound outside of any statement, which sizes, integer scalars and loops around it may enter."""
        value = self._bound(e)
        self._check_bound(value, e.span, what)
        return value

    def _check_bound(self, e: r.Exp, span: Span, what: str) -> None:
        for x in self._with_lets(e):
            if isinstance(x, r.Imaginary) or (isinstance(x, r.Scalar) and x.declared.is_complex):
                raise SemanticError(
                    f"a complex number cannot be used in {what}",
                    x.span,
                    code="TC0212",
                    help="pass the value as an integer scalar parameter",
                )
            if isinstance(x, r.Access):
                raise SemanticError(
                    "tensor accesses cannot be used in this context: "
                    f"{what} must be known before data is read",
                    span,
                    code="TC0212",
                    help="pass the value as an integer scalar parameter",
                )
            if isinstance(x, r.Index):
                raise SemanticError(
                    f"the index variable '{x.name}' cannot be used in {what}",
                    span,
                    code="TC0213",
                    help="write the relation as a condition, e.g. where i <= j",
                )

    def _with_lets(self, e: r.Exp) -> Iterable[r.Exp]:
        for x in r.walk(e):
            if isinstance(x, r.Let):
                yield from self._with_lets(next(b.value for b in self.let_list if b.name == x.name))
            yield x

    def let(self, c: s.LetClause) -> None:
        for taken, what in (
            (self.lets, "a let"),
            (self.ranged, "an index variable"),
            (self.scope.sizes, "a size"),
            (self.scope.scalars, "a scalar"),
            (self.scope.counters, "the variable of a loop"),
        ):
            if c.name in taken:
                raise SemanticError(
                    f"'{c.name}' is already defined as {what}", c.name_span, code="TC0204", help="rename it"
                )
        if c.name in self.declared:
            if any(isinstance(x, s.RangeClause) and x.name == c.name for x in self.statement.clauses):
                raise SemanticError(
                    f"'{c.name}' is a name for a value here and cannot also have a range",
                    c.name_span,
                    code="TC0204",
                    help="choose another name for the value",
                )
            raise SemanticError(
                f"'{c.name}' is an index variable", c.name_span, code="TC0204", help="rename it"
            )
        reject_builtin(c.name, c.name_span, "a value")
        value = self.exp(c.value)
        self.measure(value)
        self.lets[c.name] = self._size(value)
        self.let_list.append(r.LetBinding(c.name, value, c.span))

    def condition(self, c: s.Condition) -> r.Exp:
        value = self.exp(c.value)
        self.measure(value)
        if not _is_relation(value):
            raise SemanticError(
                "a 'where' clause is a range, a name = value, 'exists' or a relation such as i <= j",
                c.span,
                code="TC0214",
                help="write for example i in 0:N, x = A(i), exists A(i) or i <= j",
            )
        for x in self._with_lets(value):
            if isinstance(x, r.Access | r.Imaginary) or (
                isinstance(x, r.Const) and isinstance(x.value, float)
            ):
                raise SemanticError(
                    "a condition relates index variables, sizes and integers only",
                    x.span,
                    code="TC0214",
                    help="select by data with a ternary: c ? a : b",
                )
        return value

    def measure(self, e: r.Exp) -> None:
        height, nodes = self._size(e)
        if height > MAX_HEIGHT or nodes > MAX_NODES:
            raise SemanticError(
                f"with its lets substituted this expression has {nodes} nodes, {height} deep; the limits "
                f"are {MAX_NODES} and {MAX_HEIGHT}",
                e.span,
                code="TC0215",
                help="put a part of it into a temporary tensor",
            )

    def _size(self, e: r.Exp) -> tuple[int, int]:
        if isinstance(e, r.Let):
            return self.lets[e.name]
        parts = [self._size(c) for c in r.children(e)]
        return 1 + max((h for h, _ in parts), default=0), 1 + sum(n for _, n in parts)


def _is_relation(e: r.Exp) -> bool:
    match e:
        case r.Binary(op="&&" | "||"):
            return _is_relation(e.left) and _is_relation(e.right)
        case r.Binary(op="==" | "!=" | "<" | ">" | "<=" | ">="):
            return True
        case r.Unary(op="!"):
            return _is_relation(e.operand)
        case _:
            return False


def _given(n: int) -> str:
    return f"{n} {'was' if n == 1 else 'were'} given"


def count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"

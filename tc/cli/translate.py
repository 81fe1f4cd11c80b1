"""Programs of one notation in the other, from what the front end knows of them.

A SaC program is translated for given ranks, since those of a def are fixed.  What has no counterpart is an
error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tc.dtypes import DType
from tc.errors import SemanticError, Span
from tc.lang import resolved as r
from tc.lang.sac.show import exp_text
from tc.lang.sac.syntax import BASES
from tc.pipeline.front import Front
from tc.range_table import Range, shown

_SAC_NAMES = {t.name: base for base, t in BASES.items() if base != "_T"}
_TO = {"int8": "tob", "int16": "tos", "int32": "toi", "int64": "tol", "float32": "tof", "float64": "tod"}
_SAC_FUNCTIONS = {
    **{n: n for n in ("sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh")},
    **{n: n for n in ("tanh", "floor", "ceil", "fabs", "erf", "pow", "atan2", "fmod", "min", "max", "abs")},
}
_FOLDS = {"+": ("sum", "+"), "*": ("prod", "*"), "min": ("minval", "min"), "max": ("maxval", "max")}


def _nothing(
    what: str, span: Span, help: str = "rewrite it first, or keep it in its own notation"
) -> NoReturn:
    raise SemanticError(f"{what} has no counterpart in the other notation", span, code="TC0267", help=help)


# ---- SaC to TC


def to_tc(front: Front) -> str:
    """A SaC program at given ranks as a def."""
    c = front.checked
    renamed = _unified(c)

    def exp(e: Any) -> str:
        return exp_text(_with_sizes(e, renamed))

    params: list[str] = []
    for p in c.params:
        if isinstance(p, r.ScalarParam):
            params.append(f"{p.dtype.name} {p.name}")
        else:
            dims = ", ".join(exp(d) for d in p.dims or ())
            params.append(f"{front.typed.dtype(p).name}({dims}) {p.name}")
    lines = [f"def {c.name}({', '.join(params)}) -> ({', '.join(x.name for x in c.returns)}) {{"]
    started: set[r.Tensor] = set()
    for st in c.statements:
        if st.box is not None and st.target not in started:
            lines.append(_zeros(st, front.typed.dtype(st.target), exp))
        started.add(st.target)
        left = st.target.name + (f"({', '.join(s.index for s in st.subscripts)})" if st.subscripts else "")
        where: list[str] = []
        conditions = [exp(x) for x in st.conditions]
        for d, g in enumerate(st.ranges):
            lo, hi = exp(g.lo), exp(g.hi)
            if st.box is not None and d < len(st.box):  # a part of a tensor: conditions cut its box
                low, end = (exp(x) for x in st.box[d])
                conditions += [f"{g.name} >= {lo}"] * (lo != low) + [f"{g.name} < {hi}"] * (hi != end)
                lo, hi = low, end
            where.append(f"{g.name} in {lo}:{hi}")
        where += [f"{b.name} = {exp(b.value)}" for b in st.lets] + conditions
        lines.append(f"  {left} {st.op} {exp(st.value)}" + (f" where {', '.join(where)}" if where else ""))
    return "\n".join([*lines, "}", ""])


def _zeros(st: r.Statement, dtype: DType, exp: Any) -> str:
    """The statement that defines a whole tensor before its parts do."""
    names = [s.index for s in st.subscripts]
    where = [f"{n} in {exp(lo)}:{exp(hi)}" for n, (lo, hi) in zip(names, st.box or (), strict=True)]
    value = "bool(0)" if dtype.is_bool else "0"
    return f"  {st.target.name}({', '.join(names)}) = {value} where {', '.join(where)}"


def _unified(c: r.Checked) -> Mapping[str, Any]:
    """Sizes that must be equal, by one of them or their number."""
    out: dict[str, Any] = {}

    def found(e: Any) -> Any:
        while isinstance(e, r.Size) and e.name in out:
            e = out[e.name]
        return e

    for q in c.equalities:
        a, b = found(q.left), found(q.right)
        if a == b:
            continue
        if not isinstance(a, r.Size):
            a, b = b, a
        if not isinstance(a, r.Size) or not isinstance(b, r.Size | r.Const):
            _nothing(f"the condition {exp_text(q.left)} == {exp_text(q.right)} ({q.reason})", q.span)
        out[a.name] = b
    return {n: found(e) for n, e in out.items()}


def _with_sizes(e: Any, renamed: Mapping[str, Any]) -> Any:
    if isinstance(e, r.Size):
        return renamed.get(e.name, e)
    return r.rebuild(e, lambda x: _with_sizes(x, renamed))


# ---- TC to SaC


def to_sac(front: Front) -> str:
    """A def as a SaC function."""
    return _ToSac(front).run()


class _ToSac:
    def __init__(self, front: Front) -> None:
        self.front, self.typed = front, front.typed.checked
        self.ranges = front.ranges
        self.defined: set[r.Tensor] = set()

    def run(self) -> str:
        c = self.typed
        if not c.name[0].isalpha():
            _nothing(f"the name {c.name}", c.span)
        if not self.ranges.complete:
            _nothing("a range that depends on scalars", c.span)
        params: list[str] = []
        sizes: dict[str, str] = {}
        for p in c.params:
            if isinstance(p, r.ScalarParam):
                params.append(f"{self.base(p.dtype, p.span)} {p.name}")
                continue
            self.defined.add(p)
            params.append(f"{self.declared(p)} {p.name}")
            for d, n in enumerate(p.dims or ()):
                if isinstance(n, r.Size):
                    sizes.setdefault(n.name, f"shape({p.name})[{d}]")
        for n in c.sizes:
            if n not in sizes:
                _nothing(f"the size {n}, which is no extent by itself,", c.span)
        lines = [f"  {n} = {e};" for n, e in sizes.items()]
        for k, st in enumerate(c.statements):
            lines.append(f"  {st.target.name} = {self.statement(k, st)};")
            self.defined.add(st.target.storage)
        for x in c.returns:
            if x.mode != "fresh":
                _nothing(f"'{x.name}', which starts from what the caller passes,", x.span)
        types = ", ".join(self.declared(x.tensor) for x in c.returns)
        results = ", ".join(x.tensor.storage.name for x in c.returns)
        returned = f"({results})" if len(c.returns) > 1 else results
        head = f"{types} {c.name}({', '.join(params)}) {{"
        return "\n".join([head, *lines, f"  return {returned};", "}", ""])

    def base(self, t: DType, span: Span) -> str:
        if t.name not in _SAC_NAMES:
            _nothing(f"the element type {t.name}", span)
        return _SAC_NAMES[t.name]

    def declared(self, t: r.Tensor) -> str:
        dims = [str(d.value) if isinstance(d, r.Const) else "." for d in t.dims or ()]
        dims = dims if t.dims is not None else ["."] * t.rank
        return self.base(self.front.typed.dtype(t), t.span) + (f"[{','.join(dims)}]" if t.rank else "")

    # ---- statements

    def statement(self, k: int, st: r.Statement) -> str:
        for wrong, what in (
            (bool(st.loops), "a sequential loop"),
            (bool(st.exists), "'exists'"),
            (any(x.data is not None for x in st.subscripts), "a scatter"),
            (st.target.base is not None, "a result that another def wrote"),
        ):
            if wrong:
                _nothing(what, st.span)
        value = r.expand_lets(st.value, st)
        conditions = [r.expand_lets(c, st) for c in st.conditions]
        names = [x.index for x in st.subscripts]
        moved = {x.index: self.place(st, d) for d, x in enumerate(st.subscripts)}
        element = self.reduced(k, st, value, conditions, moved) if st.reduces else self.exp(value, moved)
        old = self.element(st, names) if st.target.storage in self.defined else None
        if conditions and not st.reduces:
            test = self.all(conditions, moved)
            if old is None:
                _nothing("a condition on elements that nothing defines before", st.span)
            element = f"{test} ? {element} : {old}"
        if not names:
            return element
        box = self.box(st.target)
        lows: list[str] = []
        ends: list[str] = []
        for d, n in enumerate(names):
            low, end = self.variable(k, n)
            offset, origin = self.shift(st, d)
            same = offset == "0" and str(self.origins(st.target)[d].end) == end
            lows.append(_moved(low, offset, origin))
            ends.append(box[d][1] if same else _moved(end, offset, origin))
        pattern = f"[{', '.join(names)}]"
        whole = lows == ["0"] * len(lows) and ends == [e for _, e in box]
        part = f"{pattern} -> {element} | "
        if whole:
            return f"{{ {part}{pattern} < [{', '.join(ends)}] }}"
        part += f"[{', '.join(lows)}] <= {pattern} < [{', '.join(ends)}]"
        if old is not None:
            return f"{{ {part}; iv -> {st.target.storage.name}[iv] }}"
        zero = self.zero(self.front.typed.dtype(st.target))
        return f"{{ {part}; iv -> {zero} | iv < [{', '.join(e for _, e in box)}] }}"

    def variable(self, k: int, name: str) -> tuple[str, str]:
        """The first value of a variable, and the end."""
        found = shown(self.ranges.variables[k][name])
        assert not isinstance(found, str)
        return str(found.min), str(found.end)

    def box(self, t: r.Tensor) -> list[tuple[str, str]]:
        """The origin and the extent of each dimension."""
        return [(str(b.min), str(b.extent)) for b in self.origins(t)]

    def origins(self, t: r.Tensor) -> list[Range]:
        return [b for b in map(shown, self.ranges.box(t.storage)) if not isinstance(b, str)]

    def shift(self, st: r.Statement, d: int) -> tuple[str, str]:
        """What is added to a variable, and what is taken from it, for the index of an array from 0 on."""
        x = st.subscripts[d]
        if x.point is not None:
            _nothing("a subscript that is no variable", st.span)
        return "0" if x.offset is None else self.exp(x.offset, {}), self.box(st.target)[d][0]

    def place(self, st: r.Statement, d: int) -> str:
        """The value of a variable for an index of the array."""
        offset, origin = self.shift(st, d)
        moved = _moved(st.subscripts[d].index, origin, offset)
        return moved if moved == st.subscripts[d].index else f"({moved})"

    def element(self, st: r.Statement, names: list[str]) -> str:
        return f"{st.target.storage.name}[{', '.join(names)}]" if names else st.target.storage.name

    def reduced(
        self, k: int, st: r.Statement, value: Any, conditions: list[Any], moved: Mapping[str, str]
    ) -> str:
        op = st.op.rstrip("!").rstrip("=")
        fold, combine = _FOLDS[op]
        dtype = self.front.typed.dtype(st.target)
        inner = self.exp(value, moved)
        if conditions:
            if op not in "+*":
                _nothing(f"a condition of a reduction with {op}", st.span)
            one = self.constant(0 if op == "+" else 1, dtype)
            inner = f"({self.all(conditions, moved)} ? {inner} : {one})"
        if st.reductions:
            lows: list[str] = []
            ends: list[str] = []
            for n in st.reductions:
                first, end = self.variable(k, n)
                lows.append(first)
                ends.append(end)
            pattern = f"[{', '.join(st.reductions)}]"
            low = "" if set(lows) == {"0"} else f"[{', '.join(lows)}] <= "
            inner = f"{fold}({{ {pattern} -> {inner} | {low}{pattern} < [{', '.join(ends)}] }})"
        if st.initializes:
            return inner
        names = [x.index for x in st.subscripts]
        if st.target.storage not in self.defined:
            _nothing("a reduction into what the caller passes", st.span)
        old = self.element(st, names)
        return f"{old} {combine} {inner}" if op in "+*" else f"{combine}({old}, {inner})"

    # ---- expressions

    def all(self, conditions: list[Any], moved: Mapping[str, str]) -> str:
        return " && ".join(self.exp(c, moved) for c in conditions)

    def zero(self, t: DType) -> str:
        return self.constant(0, t)

    def constant(self, value: float, t: DType) -> str:
        if t.is_bool:
            return "true" if value else "false"
        if t.is_float:
            return f"{float(value)!r}{'f' if t.name == 'float32' else ''}"
        return str(int(value)) if t.name == "int32" else f"{_TO.get(t.name, 'toi')}({int(value)})"

    def exp(self, e: Any, moved: Mapping[str, str]) -> str:
        if e.dtype is not None and e.dtype.is_complex:
            _nothing("a complex number", e.span)
        match e:
            case r.Const():
                if e.dtype is None or (isinstance(e.value, int) and e.dtype.is_int):
                    return repr(e.value)
                if e.value != e.value or e.value in (float("inf"), -float("inf")):
                    _nothing(f"the number {e.value}", e.span)
                return self.constant(e.value, e.dtype)
            case r.Index():
                return moved.get(e.name, e.name)
            case r.Size() | r.Scalar():
                return e.name
            case r.ExtentOf():
                return f"shape({e.tensor.storage.name})[{e.axis}]"
            case r.Access():
                return self.access(e, moved)
            case r.Unary():
                return f"{e.op}({self.exp(e.operand, moved)})"
            case r.Binary():
                a, b = self.exp(e.left, moved), self.exp(e.right, moved)
                integral = e.left.dtype is None or not e.left.dtype.is_float
                if e.op == "%" and integral:
                    return f"mod({a}, {b})"
                if e.op == "/" and integral:
                    return f"((({a}) - mod({a}, {b})) / ({b}))"  # it rounds down, SaC's towards zero
                return f"({a} {e.op} {b})"
            case r.If():
                return (
                    f"({self.exp(e.condition, moved)} ? {self.exp(e.then, moved)} : "
                    f"{self.exp(e.otherwise, moved)})"
                )
            case r.Cast():
                inner = self.exp(e.operand, moved)
                if e.target.is_bool:
                    return f"({inner} != 0)"
                if e.operand.dtype is not None and e.operand.dtype.is_bool:
                    inner = f"({inner} ? 1 : 0)"
                if e.target.name not in _TO:
                    _nothing(f"a conversion to {e.target.name}", e.span)
                return f"{_TO[e.target.name]}({inner})"
            case r.Apply():
                if e.function not in _SAC_FUNCTIONS:
                    _nothing(f"the function '{e.function}'", e.span)
                return f"{_SAC_FUNCTIONS[e.function]}({', '.join(self.exp(a, moved) for a in e.args)})"
            case _:
                _nothing("this", e.span)

    def access(self, e: r.Access, moved: Mapping[str, str]) -> str:
        if any(m.name != "none" for m in e.modes):
            _nothing("a boundary mode", e.span)
        name = e.tensor.storage.name
        if not e.subscripts:
            return name
        origins = [o for o, _ in self.box(e.tensor)] if e.tensor.base is None else ["0"] * len(e.subscripts)
        index = [
            self.exp(x, moved) if o == "0" else f"{self.exp(x, moved)} - ({o})"
            for x, o in zip(e.subscripts, origins, strict=True)
        ]
        return f"{name}[{', '.join(index)}]"


def _moved(a: str, up: str, down: str) -> str:
    """`a + up - down`."""
    if up == "0" and a == down:
        return "0"
    a = a if up == "0" else f"{a} + {up}"
    return a if down == "0" else f"{a} - ({down})" if " " in down else f"{a} - {down}"

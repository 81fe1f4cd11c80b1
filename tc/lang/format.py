"""The formatter: a syntax tree as text that parses back to the same tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tc.dtypes import SPELLINGS, DType
from tc.errors import Source
from tc.lang import syntax as s
from tc.lang.parse import parse

_LEVEL = {
    "||": 2,
    "&&": 3,
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 4),
    **dict.fromkeys("+-", 5),
    **dict.fromkeys("*/%", 6),
}
_TERNARY, _UNARY, _PRIMARY = 1, 7, 8
# The spelling of each type that reads best: without a width where there is one, else the shortest.
_TYPES = {
    t: min((n for n, u in SPELLINGS.items() if u == t), key=lambda n: (n[-1].isdigit(), len(n)))
    for t in SPELLINGS.values()
}


def format_program(p: s.Program) -> str:
    """The whole program, one statement a line, with a final newline.

    Comments are not part of the tree; `format_source` keeps them.
    """
    return "\n".join(format_def(d) for d in p.defs)


def format_source(text: str, name: str = "<string>") -> str:
    """A source, formatted, with its comments: those on lines of their own before what follows them, those
    behind a statement behind it.  Raises `ParseError`."""
    source = Source(text, name)
    comments = _Comments(source)
    out: list[str] = []
    for d in parse(source).defs:
        out += comments.before(d.span.start, "")
        out.append(_head(d))
        for line in _body(d.body, "  "):
            out += comments.before(line.before, line.pad)
            out.append(line.pad + line.text + comments.behind(line.end))
        out += comments.before(d.span.end, "  ")
        out += ["}" + comments.behind(d.span.end), ""]
    out += comments.before(len(text) + 1, "")
    return "\n".join(out).rstrip("\n") + "\n"


class _Comments:
    """The comments of a source, handed out in order."""

    def __init__(self, source: Source) -> None:
        self.source = source
        # The language has no strings: every "#" starts a comment.
        self.left = [(m.start(), m.group().rstrip()) for m in re.finditer(r"#[^\n]*", source.text)]

    def before(self, offset: int, indent: str) -> Iterator[str]:
        while self.left and self.left[0][0] < offset:
            yield indent + self.left.pop(0)[1]

    def behind(self, end: int) -> str:
        """The comment on the line where something ends, if nothing else follows there."""
        if (
            self.left
            and "\n" not in (gap := self.source.text[end : self.left[0][0]])
            and not gap.strip(" \t;")
        ):
            return "  " + self.left.pop(0)[1]
        return ""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a def: comments that start `before` an offset stand above it, those of the line that ends at
    `end` in the source behind it."""

    pad: str
    text: str
    before: int
    end: int


def format_def(d: s.Def) -> str:
    lines = "".join(f"{line.pad}{line.text}\n" for line in _body(d.body, "  "))
    return f"{_head(d)}\n{lines}}}\n"


def _head(d: s.Def) -> str:
    params = ", ".join(f"{_type(p.type, bool(p.type.dims))} {p.name}" for p in d.params)
    returns = ", ".join(f"{_type(x.type, x.has_dims)} {x.name}" if x.type else x.name for x in d.returns)
    variables = ", ".join(v.name if v.bound == "number" else f"{v.name}: {v.bound}" for v in d.variables)
    return f"def {d.name}{f'<{variables}>' if variables else ''}({params}) -> ({returns}) {{"


def _body(body: tuple[s.Stmt, ...], pad: str) -> Iterator[_Line]:
    for k, st in enumerate(body):
        if isinstance(st, s.For):
            opened = st.span.source.text.find("{", st.last.span.end) + 1
            yield _Line(pad, f"{format_loop(st)} {{", opened, opened)
            yield from _body(st.body, pad + "  ")
            yield _Line(pad, "}", st.span.end - 1, st.span.end)
            continue
        # Only where a statement starts with "(" can it be taken for the arguments of the name before it.
        following = body[k + 1] if k + 1 < len(body) else None
        end = ";" if isinstance(following, s.TupleCall) else ""
        yield _Line(pad, format_stmt(st) + end, st.span.end, st.span.end)


def format_loop(st: s.For) -> str:
    """The head of a loop, without its brace."""
    return f"for {st.name} in {format_exp(st.first)}:{format_exp(st.last)}" + (":-1" if st.down else "")


def _type(t: s.Type, dims: bool) -> str:
    name = t.variable or type_name(t.dtype)
    return f"{name}({','.join(str(d.value) for d in t.dims)})" if dims else name


def type_name(t: DType) -> str:
    """The spelling of a type that reads best."""
    return _TYPES[t]


def format_stmt(st: s.Assign | s.TupleCall) -> str:
    match st:
        case s.TupleCall():
            targets = ", ".join(t.name for t in st.targets)
            args = ", ".join(format_exp(a) for a in st.args)
            return f"({targets}) = {st.callee}({args})"
        case s.Assign():
            lhs = st.lhs.name
            if st.lhs.subscripts is not None:
                lhs += f"({','.join(format_exp(e) for e in st.lhs.subscripts)})"
            where = ", ".join(_clause(c) for c in st.clauses)
            return f"{lhs} {st.op} {format_exp(st.value)}" + (f" where {where}" if where else "")


def _clause(c: s.Clause) -> str:
    match c:
        case s.RangeClause():
            return f"{c.name} in {format_exp(c.lo)}:{format_exp(c.hi)}"
        case s.LetClause():
            return f"{c.name} = {format_exp(c.value)}"
        case s.ExistsClause():
            return f"exists {format_exp(c.value)}"
        case s.Condition():
            return format_exp(c.value)


def _mode(m: s.Mode) -> str:
    return m.name if m.value is None else f"{m.name}={format_exp(m.value)}"


def format_exp(e: s.Exp, level: int = 0) -> str:
    """An expression, with the parentheses that a context of binding strength `level` needs."""
    text, mine = _exp(e)
    return f"({text})" if mine < level else text


def _exp(e: s.Exp) -> tuple[str, int]:
    match e:
        case s.IntLit():
            return str(e.value), _PRIMARY
        case s.FloatLit():
            return _float(e), _PRIMARY
        case s.ImaginaryLit():
            return f"{_float(s.FloatLit(e.value, False, e.span))}j", _PRIMARY
        case s.Name():
            return e.id, _PRIMARY
        case s.Dim():
            return f"{e.tensor}.{e.axis}", _PRIMARY
        case s.Call():
            modes = f"[{','.join(map(_mode, e.modes))}]" if e.modes else ""
            return f"{e.name}{modes}({','.join(format_exp(a) for a in e.args)})", _PRIMARY
        case s.Cast():
            return f"{type_name(e.dtype)}({format_exp(e.operand)})", _PRIMARY
        case s.Unary():
            return f"{e.op}{format_exp(e.operand, _UNARY)}", _UNARY
        case s.Binary():
            mine = _LEVEL[e.op]
            return f"{format_exp(e.left, mine)} {e.op} {format_exp(e.right, mine + 1)}", mine
        case s.Ternary():
            condition = format_exp(e.condition, _TERNARY + 1)
            return f"{condition} ? {format_exp(e.then)} : {format_exp(e.otherwise, _TERNARY)}", _TERNARY


def _float(e: s.FloatLit) -> str:
    if e.value == float("inf"):
        return "1e999f" if e.single else "1e999"
    text = repr(e.value)
    return f"{text}f" if e.single else text

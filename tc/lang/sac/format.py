"""The formatter of the SaC notation: a syntax tree as text that parses back to the same tree."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tc.errors import Source
from tc.lang.sac import syntax as s
from tc.lang.sac.parse import parse

_LEVEL = {
    "||": 2,
    "&&": 3,
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 4),
    "++": 5,
    **dict.fromkeys("+-", 6),
    **dict.fromkeys("*/%", 7),
}
_TERNARY, _CAT, _UNARY, _POSTFIX = 1, 5, 8, 9
_COMMENT = re.compile(r"//[^\n]*|/\*(?:.|\n)*?\*/")


def format_program(p: s.Program) -> str:
    """The whole program with a final newline, without comments, which `format_source` keeps."""
    return _formatted(p, _Comments(None))


def format_source(text: str, name: str = "<string>") -> str:
    """A source, formatted, with its comments: each before the line that follows it, or behind the line on
    which it stands.  Raises `ParseError`."""
    source = Source(text, name)
    return _formatted(parse(source), _Comments(source))


class _Comments:
    """The comments of a source, handed out in order."""

    def __init__(self, source: Source | None) -> None:
        self.source = source
        found = () if source is None else _COMMENT.finditer(source.text)
        self.left = [(m.start(), m.end(), m.group().rstrip()) for m in found]

    def before(self, offset: int, indent: str) -> Iterator[str]:
        while self.left and self.left[0][0] < offset:
            yield indent + self.left.pop(0)[2]

    def behind(self, end: int) -> str:
        """The comment on the line where something ends, if nothing else follows there."""
        if not self.left or self.source is None or self.left[0][0] < end:
            return ""
        start, stop, text = self.left[0]
        gap, rest = self.source.text[end:start], self.source.text[stop:].split("\n")[0]
        if "\n" in gap or gap.strip(" \t;") or (text.startswith("/*") and rest.strip()):
            return ""
        self.left.pop(0)
        return "  " + text


def _formatted(p: s.Program, comments: _Comments) -> str:
    out: list[str] = []
    if p.bare is not None:
        out += comments.before(p.bare.span.end, "")
        out.append(format_exp(p.bare) + comments.behind(p.bare.span.end))
    for f in p.functions:
        out += comments.before(f.span.start, "")
        out.append(_head(f))
        for a in f.body:
            out += comments.before(a.span.end, "  ")
            out.append(f"  {a.name} = {format_exp(a.value)};" + comments.behind(a.span.end))
        out += comments.before(f.return_span.end, "  ")
        results = ", ".join(map(format_exp, f.results))
        out.append(f"  return {results};" + comments.behind(f.return_span.end))
        out += comments.before(f.span.end, "  ")
        out += ["}" + comments.behind(f.span.end), ""]
    out += comments.before(1 << 62, "")
    return "\n".join(out).rstrip("\n") + "\n"


def _head(f: s.Function) -> str:
    params = ", ".join(f"{_type(p.type)} {p.name}" for p in f.params)
    return f"{', '.join(map(_type, f.types))} {f.name}({params}) {{"


def signature(f: s.Function) -> str:
    """A function as a message lists it."""
    return f"{f.name}({', '.join(map(_type, (p.type for p in f.params)))})"


def _type(t: s.Type) -> str:
    if t.dims is None:
        return t.base
    dims = t.dims if isinstance(t.dims, str) else ",".join("." if d is None else str(d) for d in t.dims)
    return f"{t.base}[{dims}]"


def format_exp(e: s.Exp, level: int = 0) -> str:
    """An expression, with the parentheses that a context of binding strength `level` needs."""
    text, mine = _exp(e)
    return f"({text})" if mine < level else text


def _exp(e: s.Exp) -> tuple[str, int]:
    match e:
        case s.Int():
            return str(e.value), _POSTFIX
        case s.Float():
            text = "1e999" if e.value == float("inf") else repr(e.value)
            return f"{text}f" if e.single else text, _POSTFIX
        case s.Bool():
            return str(e.value).lower(), _POSTFIX
        case s.Name():
            return e.id, _POSTFIX
        case s.Vector():
            return f"[{', '.join(map(format_exp, e.items))}]", _POSTFIX
        case s.Call():
            return f"{e.name}({', '.join(map(format_exp, e.args))})", _POSTFIX
        case s.Select():
            return f"{format_exp(e.array, _POSTFIX)}[{', '.join(map(format_exp, e.index))}]", _POSTFIX
        case s.Unary():
            return f"{e.op}{format_exp(e.operand, _UNARY)}", _UNARY
        case s.Binary():
            mine = _LEVEL[e.op]
            return f"{format_exp(e.left, mine)} {e.op} {format_exp(e.right, mine + 1)}", mine
        case s.Ternary():
            condition = format_exp(e.condition, _TERNARY + 1)
            return f"{condition} ? {format_exp(e.then)} : {format_exp(e.otherwise, _TERNARY)}", _TERNARY
        case s.Comprehension():
            return f"{{ {'; '.join(map(_partition, e.partitions))} }}", _POSTFIX
        case s.WithLoop():
            generators = "".join(_generator(g) + "; " for g in e.generators)
            args = ", ".join([*([e.function] if e.operator == "fold" else []), *map(format_exp, e.args)])
            return f"with {{ {generators}}} : {e.operator}({args})", _POSTFIX


def _index(p: s.Pattern, dots: bool = True) -> str:
    if p.name is not None:
        return p.name
    return f"[{', '.join(x.name for x in (p.slots if dots else p.variables))}]"


def _bound(b: s.Exp | s.Dot) -> str:
    return "." if isinstance(b, s.Dot) else format_exp(b, _CAT)


def _relations(b: s.Bounds, index: str) -> str:
    lower = "" if b.lower is None else f"{_bound(b.lower)} {'<' if b.strict[0] else '<='} "
    upper = "" if b.upper is None else f" {'<' if b.strict[1] else '<='} {_bound(b.upper)}"
    return lower + index + upper


def _partition(p: s.Partition) -> str:
    bounds = "" if p.bounds is None else f" | {_relations(p.bounds, _index(p.index, dots=False))}"
    return f"{_index(p.index)} -> {format_exp(p.body)}{bounds}"


def _generator(g: s.Generator) -> str:
    step = "" if g.step is None else f" step {format_exp(g.step, _CAT)}"
    width = "" if g.width is None else f" width {format_exp(g.width, _CAT)}"
    body = "" if g.body is None else f" : {format_exp(g.body)}"
    return f"({_relations(g.bounds, _index(g.index))}{step}{width}){body}"

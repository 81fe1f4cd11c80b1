# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Text in the SaC notation to its syntax tree (Lark, LALR(1), contextual lexer).

The nodes are built while the parser reduces, so that neither a long nor a deep source exhausts the stack.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from threading import local
from typing import TYPE_CHECKING, Any

from tc.dtypes import INT64
from tc.errors import InternalError, Note, ParseError, Source, Span
from tc.lang.sac import habits
from tc.lang.sac import syntax as s
from tc.lang.tables import kept_lark

if TYPE_CHECKING:
    from lark import Lark

MAX_SOURCE = 1 << 20  # characters
MAX_HEIGHT = 200  # of an expression: nesting, or operators in a chain
_HELP = "the grammar is in docs/sac.md"


class _Builder:
    """The actions of the grammar, one method a rule; children arrive with their punctuation."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.heights: dict[int, int] = {}  # id(expression) -> height; `alive` keeps the ids
        self.alive: list[Any] = []

    def span(self, children: list[Any]) -> Span:
        return Span(self.source, _start(children[0]), _end(children[-1]))

    def token(self, t: Any) -> Span:
        return Span(self.source, t.start_pos, t.end_pos)

    def tall(self, node: Any, *below: Any) -> Any:
        height = 1 + max((self.heights.get(id(b), 0) for b in below), default=0)
        if height > MAX_HEIGHT:
            raise ParseError(
                f"expression nested or chained deeper than {MAX_HEIGHT}",
                Span(self.source, node.span.start, node.span.start + 1),
                code="TC0153",
                help="give parts of it a name in a function: x = …;",
            )
        self.heights[id(node)] = height
        self.alive.append(node)
        return node

    # ---- expressions

    def int_literal(self, c: list[Any]) -> s.Int:
        return self.tall(s.Int(self.integer(c[0]), self.token(c[0])))

    def integer(self, token: Any) -> int:
        text = str(token)
        value = int(text, 0) if text[:2] in ("0x", "0X") else int(text) if len(text) < 100 else 1 << 64
        if value > INT64.max:
            raise ParseError(
                "integer literal does not fit 64 bits", self.token(token), code="TC0154", help=_HELP
            )
        return value

    def float_literal(self, c: list[Any]) -> s.Float:
        text = str(c[0])
        return self.tall(s.Float(float(text.rstrip("fF")), text[-1] in "fF", self.token(c[0])))

    def bool_literal(self, c: list[Any]) -> s.Bool:
        return self.tall(s.Bool(str(c[0]) == "true", self.token(c[0])))

    def name(self, c: list[Any]) -> s.Name:
        return self.tall(s.Name(str(c[0]), self.token(c[0])))

    def parenthesised(self, c: list[Any]) -> Any:
        return self.tall(replace(c[1], span=self.span(c)), c[1])

    def args(self, c: list[Any]) -> tuple[Any, ...]:
        return tuple(c[::2])

    def call(self, c: list[Any]) -> s.Call:
        args = next((a for a in c if isinstance(a, tuple)), ())
        return self.tall(s.Call(str(c[0]), args, self.span(c), self.token(c[0])), *args)

    def select(self, c: list[Any]) -> s.Select:
        return self.tall(s.Select(c[0], tuple(c[2:-1:2]), self.span(c)), c[0], *c[2:-1:2])

    def unary(self, c: list[Any]) -> s.Unary:
        return self.tall(s.Unary(str(c[0]), c[1], self.span(c)), c[1])  # type: ignore[arg-type]

    def binary(self, c: list[Any]) -> s.Binary:
        return self.tall(s.Binary(str(c[1]), c[0], c[2], self.span(c)), c[0], c[2])

    def ternary(self, c: list[Any]) -> s.Ternary:
        return self.tall(s.Ternary(c[0], c[2], c[4], self.span(c)), c[0], c[2], c[4])

    def dot(self, c: list[Any]) -> s.Dot:
        return s.Dot(self.token(c[0]))

    def dots(self, c: list[Any]) -> s.Slot:
        return s.Slot("...", self.token(c[0]))

    def vector(self, c: list[Any]) -> _RawVector:
        items = (x for x in c[1:-1] if not _is_token(x))
        inner = tuple(self.plain(x) if isinstance(x, _RawVector) else x for x in items)
        return _RawVector(inner, self.span(c))

    def plain(self, raw: _RawVector) -> s.Vector:
        """A vector that is an expression."""
        for x in raw.items:
            if isinstance(x, (s.Dot, s.Slot)):
                raise ParseError(
                    f"'{x.span.text}' stands for axes of a result, and only in the index of a partition",
                    x.span,
                    code="TC0156",
                    help="write the index out: [i, j]",
                )
        return self.tall(s.Vector(raw.items, raw.span), *raw.items)

    # ---- comprehensions

    def pattern(self, index: Any) -> s.Pattern:
        """An index: a vector variable, or a list of names and dots."""
        if not isinstance(index, _RawVector):
            return s.Pattern(self._variable(str(index), self.token(index)), (), self.token(index))
        slots: list[s.Slot] = []
        for x in index.items:
            match x:
                case s.Dot():
                    slots.append(s.Slot(".", x.span))
                case s.Slot():
                    slots.append(x)
                case s.Name():
                    slots.append(s.Slot(self._variable(x.id, x.span), x.span))
                case _:
                    raise ParseError(
                        "an index is a name, or a list of names and dots",
                        x.span,
                        code="TC0155",
                        help="write conditions on it as bounds: | [0] <= [i] < [5]",
                    )
        seen: dict[str, Span] = {}
        for x in slots:
            if x.name != "." and x.name in seen:
                what = "'...' stands" if x.name == "..." else f"the variable '{x.name}' stands"
                raise ParseError(
                    f"{what} twice in an index",
                    x.span,
                    code="TC0155",
                    notes=[Note("first here", seen[x.name])],
                    help="one '...' takes all axes that are left; every variable has its own name",
                )
            seen[x.name] = x.span
        return s.Pattern(None, tuple(slots), index.span)

    def _variable(self, name: str, span: Span) -> str:
        if name == "_":
            raise ParseError(
                "'_' is no index variable", span, code="TC0155", help="give it a name, used or not"
            )
        return name

    def index(self, c: list[Any]) -> s.Pattern:
        return self.pattern(c[0])

    def bounds(self, c: list[Any]) -> Any:
        return _RawBounds(tuple(c[::2]), tuple(str(op) for op in c[1::2]), self.span(c))

    def partition(self, c: list[Any]) -> s.Partition:
        body = c[2]
        bounds = self._bounds(c[4], c[0]) if len(c) > 3 else None
        return s.Partition(c[0], body, bounds, self.span(c))

    def _is_index(self, e: Any, index: s.Pattern) -> bool:
        """Whether a bound is the index, with or without its dots."""
        if index.name is not None:
            return isinstance(e, s.Name) and e.id == index.name
        if not isinstance(e, _RawVector):
            return False
        names = tuple(
            x.id if isinstance(x, s.Name) else "." if isinstance(x, s.Dot) else getattr(x, "name", "")
            for x in e.items
        )
        return names in (tuple(x.name for x in index.slots), tuple(x.name for x in index.variables))

    def _bounds(self, raw: _RawBounds, index: s.Pattern) -> s.Bounds:
        sides, strict = raw.sides, tuple(op == "<" for op in raw.ops)
        at = 1 if len(sides) == 3 else 0 if self._is_index(sides[0], index) else 1
        if not self._is_index(sides[at], index):
            shown = index.span.text if index.name else f"[{', '.join(x.name for x in index.variables)}]"
            raise ParseError(
                f"bounds are relations to the index {shown}",
                raw.span,
                code="TC0157",
                help=f"write lower <= {shown} < upper, or one side of it",
            )
        lower = self._side(sides[0]) if at == 1 else None
        upper = self._side(sides[at + 1]) if len(sides) > at + 1 else None
        first = strict[0] if at == 1 else False
        last = strict[at] if len(strict) > at else True
        return s.Bounds(lower, upper, (first, last), raw.span)

    def _side(self, e: Any) -> Any:
        return self.plain(e) if isinstance(e, _RawVector) else e

    def comprehension(self, c: list[Any]) -> s.Comprehension:
        parts = tuple(p for p in c if isinstance(p, s.Partition))
        below = [x for p in parts for x in (p.body, *s.sides(p.bounds))]
        return self.tall(s.Comprehension(parts, self.span(c)), *below)

    def generator(self, c: list[Any]) -> s.Generator:
        index = c[3]
        bounds = s.Bounds(
            self._side(c[1]),
            self._side(c[5]),
            (str(c[2]) == "<", str(c[4]) == "<"),
            self.span(c[1:6]),
        )
        words = [k for k in range(6, len(c)) if str(c[k]) in ("step", "width", ":")]
        named = {str(c[k]): self._side(c[k + 1]) for k in words}
        return s.Generator(index, bounds, named.get("step"), named.get("width"), named.get(":"), self.span(c))

    def operator(self, c: list[Any]) -> _RawOperator:
        kind = str(c[0])
        args = tuple(x for x in c[2:] if not _is_token(x))
        function = str(c[2]) if kind == "fold" else ""
        return _RawOperator(kind, function, args, self.span(c))

    genarray = modarray = fold = operator

    def fun(self, c: list[Any]) -> Any:
        return c[0]

    def with_loop(self, c: list[Any]) -> s.WithLoop:
        op = c[-1]
        generators = tuple(g for g in c if isinstance(g, s.Generator))
        loop = s.WithLoop(generators, op.kind, op.function, op.args, self.span(c), op.span)
        return self.tall(loop, *s.children(loop))

    # ---- functions

    def type(self, c: list[Any]) -> s.Type:
        inner = [x for x in c[2:-1] if str(x) != ","]
        dims: Any = None
        if len(c) > 1:
            star = len(inner) == 1 and str(inner[0]) in ("*", "+")
            dims = str(inner[0]) if star else tuple(x.value for x in inner)
        return s.Type(str(c[0]), dims, self.span(c))

    def dim(self, c: list[Any]) -> _Extent:
        return _Extent(None if str(c[0]) == "." else self.integer(c[0]))

    def types(self, c: list[Any]) -> tuple[s.Type, ...]:
        return tuple(c[::2])

    def param(self, c: list[Any]) -> s.Param:
        return s.Param(c[0], str(c[1]), self.token(c[1]))

    def params(self, c: list[Any]) -> tuple[s.Param, ...]:
        return tuple(c[::2])

    def assign(self, c: list[Any]) -> s.Assign:
        return s.Assign(str(c[0]), c[2], self.span(c), self.token(c[0]))

    def returned(self, c: list[Any]) -> tuple[Any, ...]:
        return tuple(x for x in c if not _is_token(x))

    def fundef(self, c: list[Any]) -> s.Function:
        params = c[3] if isinstance(c[3], tuple) else ()
        body = tuple(x for x in c if isinstance(x, s.Assign))
        at = next(x for x in c if getattr(x, "type", "") == "RETURN")
        results = c[-3]
        place = Span(self.source, at.start_pos, results[-1].span.end)
        return s.Function(c[0], str(c[1]), params, body, results, self.span(c), self.token(c[1]), place)

    def functions(self, c: list[Any]) -> s.Program:
        return s.Program(tuple(c), None, self.span(c))

    def bare(self, c: list[Any]) -> s.Program:
        return s.Program((), c[0], c[0].span)


class _RawVector:
    """A vector that may hold dots, before it is known to be an expression or an index."""

    def __init__(self, items: tuple[Any, ...], span: Span) -> None:
        self.items, self.span = items, span


class _RawBounds:
    def __init__(self, sides: tuple[Any, ...], ops: tuple[str, ...], span: Span) -> None:
        self.sides, self.ops, self.span = sides, ops, span


class _RawOperator:
    def __init__(self, kind: Any, function: str, args: tuple[Any, ...], span: Span) -> None:
        self.kind, self.function, self.args, self.span = kind, function, args, span


class _Extent:
    def __init__(self, value: int | None) -> None:
        self.value = value

    def __str__(self) -> str:
        return "." if self.value is None else str(self.value)


# Where a vector is an expression; elsewhere it may still be an index.
_RAW = frozenset(["index", "bounds", "generator", "vector"])


def _is_token(x: Any) -> bool:
    return hasattr(x, "start_pos")


def _start(child: Any) -> int:
    return child.start_pos if hasattr(child, "start_pos") else _first(child).span.start


def _end(child: Any) -> int:
    return child.end_pos if hasattr(child, "end_pos") else _first(child, -1).span.end


def _first(child: Any, at: int = 0) -> Any:
    return child[at] if isinstance(child, tuple) else child


class _Relay:
    """Lark's callbacks, each to the builder of the parse that this thread is in."""

    def __init__(self) -> None:
        self.local = local()

    def __getattr__(self, rule: str) -> Any:
        if not hasattr(_Builder, rule):
            raise AttributeError(rule)

        def act(children: list[Any]) -> Any:
            builder = self.local.builder
            if rule not in _RAW:
                children = [builder.plain(x) if isinstance(x, _RawVector) else x for x in children]
            return getattr(builder, rule)(children)

        return act


@cache
def _parser() -> tuple[Lark, _Relay]:
    relay = _Relay()
    return kept_lark("tc.lang.sac", relay), relay


def parse(text: str | Source, name: str = "<string>") -> s.Program:
    """The syntax tree of a source; raises `ParseError`."""
    source = text if isinstance(text, Source) else Source(text, name)
    if len(source.text) > MAX_SOURCE:
        raise ParseError(
            f"the source has {len(source.text)} characters, more than {MAX_SOURCE}",
            code="TC0152",
            help="split it into several sources",
        )
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

    lark, relay = _parser()
    outer = getattr(relay.local, "builder", None)
    relay.local.builder = _Builder(source)
    try:
        tree = lark.parse(source.text)
    except UnexpectedToken as e:
        raise _unexpected_token(source, e) from None
    except UnexpectedCharacters as e:
        raise _unexpected_character(source, e) from None
    except UnexpectedEOF as e:
        raise _at_end(source, set(e.expected)) from None
    except VisitError as e:
        raise e.orig_exc from None
    finally:
        relay.local.builder = outer
    if not isinstance(tree, s.Program):
        raise InternalError(f"the parser returned {type(tree).__name__}")
    return tree


_SHOWN = {
    "NAME": "a name", "INT": "an integer", "FLOAT": "a number", "BASE": "a type", "ASSIGN": "'='",
    "ARROW": "'->'", "__ANON_0": "'->'", "LPAR": "'('", "RPAR": "')'", "LBRACE": "'{'", "RBRACE": "'}'",
    "LSQB": "'['", "RSQB": "']'", "COMMA": "','", "COLON": "':'", "SEMICOLON": "';'", "VBAR": "'|'",
    "QMARK": "'?'", "RETURN": "'return'", "STEP": "'step'", "WIDTH": "'width'", "LT": "'<'", "LE": "'<='",
    "GENARRAY": "'genarray'", "MODARRAY": "'modarray'", "FOLD": "'fold'", "STAR": "'*'", "PLUS": "'+'",
    "DOT": "'.'", "DOTS": "'...'", "$END": "the end of the source", "WITH": "'with'", "MINUS": "'-'",
    "OR": "'||'", "AND": "'&&'", "CAT": "'++'",
}  # fmt: skip
_EXPRESSION = {"INT", "FLOAT", "TRUE", "FALSE", "NAME", "LPAR", "LSQB", "LBRACE", "WITH", "MINUS", "NOT"}
_OPERATORS = {"OR", "AND", "EQ", "LE", "LT", "CAT", "PLUS", "MINUS", "STAR", "MUL", "QMARK", "LSQB"}


def _expected(names: set[str]) -> str:
    first: list[str] = []
    if names >= _EXPRESSION:
        names, first = names - _EXPRESSION, ["an expression"]
    elif names >= {"PLUS", "MUL", "CAT"}:
        names, first = names - _OPERATORS, ["an operator"]
    shown = first + sorted(_SHOWN.get(n, n) for n in names)
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1] if shown else "nothing"


def _unexpected_token(source: Source, e: Any) -> ParseError:
    token = e.token
    expected = set(e.accepts or e.expected)
    if token.type == "$END":
        return _at_end(source, expected)
    span = Span(source, token.start_pos, token.end_pos)
    if source.text[span.start - 1 : span.start + 1] == "/*":
        return _open_comment(Span(source, span.start - 1, span.end))
    if source.text[span.start : span.start + 2] == "/*":
        return _open_comment(Span(source, span.start, span.start + 2))
    message = f"unexpected '{_shorten(str(token))}', expected {_expected(expected)}"
    help = _help(source, str(token), expected) or habits.at(source.text, span.start, expected)
    return ParseError(message, span, code="TC0150", help=help)


def _open_comment(span: Span) -> ParseError:
    return ParseError("this comment does not end", span, code="TC0151", help="close it with */")


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"


def _help(source: Source, text: str, expected: set[str]) -> str | None:
    if text == "<" and "EQ" not in expected:
        return "a relation that is part of a bound stands in parentheses"
    if source.text.lstrip().startswith("def "):
        return 'this is the TC notation: compile it without lang="sac"'
    return None


def _unexpected_character(source: Source, e: Any) -> ParseError:
    at = e.pos_in_stream
    char = source.text[at]
    span = Span(source, at, at + 1)
    if source.text[at : at + 2] == "/*":
        return _open_comment(Span(source, at, at + 2))
    if char.isascii() and (char.isalnum() or char in "_()[]{},.:;?!=<>+-*/%&|"):
        return ParseError(
            f"unexpected '{char}', expected {_expected(set(e.allowed or ()))}", span, code="TC0150"
        )
    shown = f"'{char}'" if char.isprintable() else f"U+{ord(char):04X}"
    message = f"character {shown} does not belong to the notation"
    return ParseError(message, span, code="TC0151", help=habits.character(char) or _HELP)


def _at_end(source: Source, expected: set[str]) -> ParseError:
    end = len(source.text.rstrip())
    message = f"the source ends where {_expected(expected)} was expected"
    if not source.text.strip():
        message = "the source is empty; a program is an expression or one or more functions"
    return ParseError(message, Span(source, max(0, end - 1), max(1, end)), code="TC0158", help=_HELP)

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Text to syntax tree (Lark, LALR(1), contextual lexer).

The nodes are built while the parser reduces, bottom-up, so that neither a long nor a deep source can
exhaust the stack: the height of every expression is known when it is made and one above
`MAX_HEIGHT` is refused there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from tc.dtypes import SPELLINGS, UINT64, DType
from tc.errors import InternalError, ParseError, Source, Span, did_you_mean
from tc.lang import habits
from tc.lang import syntax as s
from tc.lang.tables import kept_lark
from tc.lang.type_variables import BOUNDS

if TYPE_CHECKING:
    from lark import Lark

MAX_SOURCE = 1 << 20  # characters
MAX_HEIGHT = 200  # of an expression: nesting, or operators in a chain
MAX_LOOPS = 100  # around a statement


class _Builder:
    """The actions of the grammar, one method a rule; children arrive with their punctuation."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.variables: dict[str, DType] = {}  # the type variables of the def in hand, and a type of each
        self.heights: dict[int, int] = {}  # id(expression) -> height; the tree keeps the ids alive

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
                code="TC0105",
                help="give parts of it a name with 'where NAME = …' or a temporary tensor",
            )
        self.heights[id(node)] = height
        return node

    # ---- expressions

    def integer(self, token: Any) -> int:
        """The value of an integer as it is written."""
        text = str(token)
        # int() of very long digit strings is quadratic and limited by Python itself.
        value = int(text, 0) if text[:2] in ("0x", "0X") else int(text) if len(text) < 100 else 1 << 64
        if value > UINT64.max:
            raise ParseError(
                "integer literal does not fit 64 bits",
                self.token(token),
                code="TC0106",
                help="write it as a floating literal, or split it",
            )
        return value

    def int_literal(self, c: list[Any]) -> s.IntLit:
        return self.tall(s.IntLit(self.integer(c[0]), self.token(c[0])))

    def float_literal(self, c: list[Any]) -> s.FloatLit:
        text = str(c[0])
        single = text[-1] in "fF"
        return self.tall(s.FloatLit(float(text.rstrip("fF")), single, self.token(c[0])))

    def imaginary_literal(self, c: list[Any]) -> s.ImaginaryLit:
        return self.tall(s.ImaginaryLit(float(str(c[0])[:-1]), self.token(c[0])))

    def name(self, c: list[Any]) -> s.Name:
        return self.tall(s.Name(str(c[0]), self.token(c[0])))

    def extent(self, c: list[Any]) -> s.Dim:
        return self.tall(s.Dim(str(c[0]), self.integer(c[2]), self.span(c)))

    def parenthesised(self, c: list[Any]) -> Any:
        # Parentheses leave no trace but in the span, so that the text of what they are part of is whole; they
        # count as a level.
        return self.tall(replace(c[1], span=self.span(c)), c[1])

    def cast(self, c: list[Any]) -> s.Cast:
        return self.tall(s.Cast(SPELLINGS[str(c[0])], c[2], self.span(c)), c[2])

    def call(self, c: list[Any]) -> s.Call:
        args = _args(c)
        return self.tall(s.Call(str(c[0]), args, self.span(c), self.token(c[0])), *args)

    def mode(self, c: list[Any]) -> s.Mode:
        return s.Mode(str(c[0]), c[2] if len(c) > 1 else None, self.span(c))

    def moded_call(self, c: list[Any]) -> s.Call:
        modes = tuple(m for m in c if isinstance(m, s.Mode))
        args = next((a for a in c if isinstance(a, tuple)), ())
        below = (*args, *(m.value for m in modes if m.value is not None))
        return self.tall(s.Call(str(c[0]), args, self.span(c), self.token(c[0]), modes), *below)

    def unary(self, c: list[Any]) -> s.Unary:
        return self.tall(s.Unary(str(c[0]), c[1], self.span(c)), c[1])  # type: ignore[arg-type]

    def binary(self, c: list[Any]) -> s.Binary:
        return self.tall(s.Binary(str(c[1]), c[0], c[2], self.span(c)), c[0], c[2])

    def ternary(self, c: list[Any]) -> s.Ternary:
        return self.tall(s.Ternary(c[0], c[2], c[4], self.span(c)), c[0], c[2], c[4])

    def args(self, c: list[Any]) -> tuple[Any, ...]:
        return tuple(c[::2])

    # ---- statements

    def range_clause(self, c: list[Any]) -> s.RangeClause:
        lo, hi = (c[3], c[5]) if str(c[2]) == "[" else (c[2], c[4])
        return s.RangeClause(str(c[0]), lo, hi, self.span(c), self.token(c[0]))

    def let_clause(self, c: list[Any]) -> s.LetClause:
        return s.LetClause(str(c[0]), c[2], self.span(c), self.token(c[0]))

    def exists_clause(self, c: list[Any]) -> s.ExistsClause:
        return s.ExistsClause(c[1], self.span(c))

    def condition(self, c: list[Any]) -> s.Condition:
        return s.Condition(c[0], self.span(c))

    def clauses(self, c: list[Any]) -> tuple[s.Clause, ...]:
        return tuple(c[::2])

    def lhs_name(self, c: list[Any]) -> s.Lhs:
        return s.Lhs(str(c[0]), None, self.token(c[0]), self.token(c[0]))

    def lhs_access(self, c: list[Any]) -> s.Lhs:
        return s.Lhs(str(c[0]), _args(c), self.span(c), self.token(c[0]))

    def assign(self, c: list[Any]) -> s.Assign:
        clauses = c[4] if len(c) > 3 else ()
        last = clauses[-1] if clauses else c[2]
        return s.Assign(c[0], str(c[1]), c[2], clauses, self.span([c[0], last]))

    def outs(self, c: list[Any]) -> tuple[s.Target, ...]:
        return tuple(s.Target(str(t), self.token(t)) for t in c if t.type == "NAME")

    def tuple_call(self, c: list[Any]) -> s.TupleCall:
        callee = c[2]
        span = Span(self.source, c[0][0].span.start, _end(c[-1]))
        return s.TupleCall(c[0], str(callee), _args(c[2:]), span, self.token(callee))

    def loop(self, c: list[Any]) -> s.For:
        steps = next((c[k + 1 : k + 3] for k in range(6, 8) if str(c[k]) == ":"), None)
        if steps is not None and str(steps[1]) != "1":
            raise ParseError(
                "a loop counts by 1 or by -1",
                self.token(steps[1]),
                code="TC0102",
                help="write for t in 0:N, or for t in N-1:-1:-1; multiply t where other steps are meant",
            )
        body = tuple(x for x in c[6:] if isinstance(x, (s.Assign, s.TupleCall, s.For)))
        loop = s.For(str(c[1]), c[3], c[5], steps is not None, body, self.span(c), self.token(c[1]))
        depth = 1 + max((self.heights[id(x)] for x in body if isinstance(x, s.For)), default=0)
        if depth > MAX_LOOPS:
            raise ParseError(
                f"loops nested deeper than {MAX_LOOPS}",
                self.token(c[1]),
                code="TC0105",
                help="give indices ranges with 'where', which need no loops",
            )
        self.heights[id(loop)] = depth
        return loop

    # ---- definitions

    def dim(self, c: list[Any]) -> s.DimDecl:
        t = c[0]
        return s.DimDecl(self.integer(t) if t.type == "INT" else str(t), self.token(t))

    def type(self, c: list[Any]) -> s.Type:
        dims = tuple(d for d in c[1:] if isinstance(d, s.DimDecl))
        name = str(c[0])
        if c[0].type == "SCALAR":
            return s.Type(SPELLINGS[name], dims, self.span(c))
        if name not in self.variables:
            raise ParseError(
                f"'{name}' is no type",
                self.token(c[0]),
                code="TC0102",
                help=habits.of_type(name)
                or did_you_mean(name, (*SPELLINGS, *self.variables))
                or "types are float, double, int, …; a type variable stands behind the name of a def: "
                f"def f<{name}>(…)",
            )
        return s.Type(self.variables[name], dims, self.span(c), name)

    def variable(self, c: list[Any]) -> s.TypeVariable:
        name, bound = str(c[0]), str(c[2]) if len(c) > 1 else "number"
        if bound not in BOUNDS:
            raise ParseError(
                f"'{bound}' is no bound of a type variable",
                self.token(c[2]),
                code="TC0102",
                help=did_you_mean(bound, BOUNDS) or f"bounds are {', '.join(BOUNDS)}",
            )
        if name in SPELLINGS or name in self.variables:
            what = "a type" if name in SPELLINGS else "a type variable already"
            raise ParseError(
                f"'{name}' is {what}", self.token(c[0]), code="TC0102", help="give the variable another name"
            )
        self.variables[name] = BOUNDS[bound][0]
        return s.TypeVariable(name, bound, self.token(c[0]))  # type: ignore[arg-type]

    def param(self, c: list[Any]) -> s.Param:
        return s.Param(c[0], str(c[1]), self.token(c[1]))

    def params(self, c: list[Any]) -> tuple[s.Param, ...]:
        return tuple(c[::2])

    def ret(self, c: list[Any]) -> s.Return:
        t = c[0] if len(c) == 2 else None
        has_dims = t is not None and t.span.text.endswith(")")
        return s.Return(t, str(c[-1]), has_dims, self.token(c[-1]))

    def returns(self, c: list[Any]) -> tuple[s.Return, ...]:
        return tuple(r for r in c if isinstance(r, s.Return))

    def callee(self, c: list[Any]) -> Any:
        return c[0]

    def variables_(self, c: list[Any]) -> list[s.TypeVariable]:
        return [x for x in c if isinstance(x, s.TypeVariable)]

    def def_(self, c: list[Any]) -> s.Def:
        variables = next((tuple(x) for x in c if isinstance(x, list)), ())
        rest = [x for x in c[2:] if not isinstance(x, list)]
        params = rest[1] if isinstance(rest[1], tuple) else ()
        returns = next(x for x in rest[2:] if isinstance(x, tuple))
        body = tuple(x for x in c if isinstance(x, (s.Assign, s.TupleCall, s.For)))
        self.variables = {}
        return s.Def(str(c[1]), params, returns, body, self.span(c), self.token(c[1]), variables)

    def program(self, c: list[Any]) -> s.Program:
        return s.Program(tuple(c), self.span(c))


def _args(c: list[Any]) -> tuple[Any, ...]:
    return c[2] if len(c) > 3 else ()


def _start(child: Any) -> int:
    return child.start_pos if hasattr(child, "start_pos") else child.span.start


def _end(child: Any) -> int:
    return child.end_pos if hasattr(child, "end_pos") else child.span.end


class _Relay:
    """The callbacks Lark is built with; they act for the parse in progress of the calling thread."""

    def __init__(self) -> None:
        import threading

        self.local = threading.local()

    def __getattr__(self, rule: str) -> Callable[[list[Any]], Any]:
        method = {"def": "def_", "variables": "variables_"}.get(rule, rule)
        if not hasattr(_Builder, method):
            raise AttributeError(rule)
        local = self.local
        return lambda children: getattr(local.builder, method)(children)


@cache
def _parser() -> tuple[Lark, _Relay]:
    relay = _Relay()
    return kept_lark("tc.lang", relay), relay


def parse(text: str | Source, name: str = "<string>") -> s.Program:
    """Parse a program: one or more defs.

    Raises `ParseError` with the place of the first thing that does not fit.
    """
    source = text if isinstance(text, Source) else Source(text, name)
    if len(source.text) > MAX_SOURCE:
        raise ParseError(
            f"the source has {len(source.text)} characters, more than {MAX_SOURCE}",
            code="TC0104",
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
    "CALLEE": "a name followed by '('",
    "MODED": "an access with boundary modes",
    "NAME": "a name",
    "INT": "an integer",
    "FLOAT": "a number",
    "IMAGINARY": "an imaginary number",
    "SCALAR": "a type",
    "ASSIGN": "'=' or a reduction such as '+=!'",
    "EQ": "'='",
    "ARROW": "'->'",
    "LESS": "'('",
    "GREATER": "'>'",
    "WHERE": "'where'",
    "IN": "'in'",
    "EXISTS": "'exists'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "COLON": "':'",
    "SEMICOLON": "';'",
    "DOT": "'.'",
    "QMARK": "'?'",
    "DEF": "'def'",
    "FOR": "'for'",
    "MINUS": "'-'",
    "$END": "the end of the source",
}
_EXPRESSION = {"INT", "FLOAT", "IMAGINARY", "SCALAR", "NAME", "CALLEE", "MODED", "LPAR", "MINUS", "NOT"}
_OPERATORS = {"PLUS", "MINUS", "MUL", "CMP", "AND", "OR", "QMARK", "DOT"}


def _expected(names: set[str]) -> str:
    if names >= _EXPRESSION:
        names = names - _EXPRESSION
        first = ["an expression"]
    elif names >= {"PLUS", "MUL"}:
        names = names - _OPERATORS - {"WHERE", "SEMICOLON"}
        first = ["an operator"]
    else:
        first = []
    shown = first + sorted(_SHOWN.get(n, n) for n in names)
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1] if shown else "nothing"


def _unexpected_token(source: Source, e: Any) -> ParseError:
    token = e.token
    expected = set(e.accepts or e.expected)
    if token.type == "$END":
        return _at_end(source, expected)
    span = Span(source, token.start_pos, token.end_pos)
    before = source.text[: token.start_pos]
    if expected == {"LESS"}:
        name = before.split()[-1]
        end = len(before.rstrip())
        return ParseError(
            f"expected ( after '{name}'",
            Span(source, end, end + 1),
            code="TC0102",
            help="a def is written def NAME(parameters) -> (returns) { statements }",
        )
    help = None
    if str(token) == "=" and re.search(r"[_a-zA-Z0-9]\s*\([^()]*\)\s*$", before):
        help = (
            "a name directly followed by '(' is an access; end the statement before one that starts "
            "with '(' by ';'"
        )
    elif str(token) in ("-=", "/=") or (str(token) in ("-", "/") and source.text[token.end_pos :][:1] == "="):
        help = (
            "reductions are += *= min= max= and, starting from the neutral element, +=! *=! min=! max=! "
            "argmin=! argmax=!"
        )
    help = help or habits.at(source.text, token.start_pos, str(token))
    return ParseError(f"unexpected '{token}', expected {_expected(expected)}", span, code="TC0102", help=help)


def _unexpected_character(source: Source, e: Any) -> ParseError:
    at = e.pos_in_stream
    char = source.text[at]
    span = Span(source, at, at + 1)
    if char.isprintable() and re.match(r"[\w\s()\[\]{},.:;?!=<>+\-*/%&|#]", char) and char.isascii():
        message = f"unexpected '{char}', expected {_expected(set(e.allowed or ()))}"
        return ParseError(message, span, code="TC0102", help=habits.at(source.text, at, char))
    shown = f"'{char}'" if char.isprintable() else f"U+{ord(char):04X}"
    return ParseError(
        f"character {shown} does not belong to the language",
        span,
        code="TC0101",
        help=habits.at(source.text, at, char) or "the grammar is in docs/language.md, section 1",
    )


def _at_end(source: Source, expected: set[str]) -> ParseError:
    end = len(source.text.rstrip())
    span = Span(source, max(0, end - 1), max(1, end))
    message = f"the source ends where {_expected(expected)} was expected"
    if not source.text.strip():
        message = "the source is empty; a program is one or more 'def NAME(…) -> (…) { … }'"
    return ParseError(message, span, code="TC0103", help="the grammar is in docs/language.md, section 1")

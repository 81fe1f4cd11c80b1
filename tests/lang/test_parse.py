"""Text to syntax tree: tokens, precedence, both spellings of the seeds, what is no program."""

from __future__ import annotations

import pytest

from tc.errors import ParseError
from tc.lang import syntax as s
from tc.lang.format import format_exp
from tc.lang.parse import MAX_HEIGHT, parse
from tc.lang.tables import make_lark


def statements(body: str) -> tuple[s.Stmt, ...]:
    return parse(f"def f(float(N) A) -> (B) {{ {body} }}").defs[0].body


def value(text: str) -> s.Exp:
    (st,) = statements(f"B = {text}")
    assert isinstance(st, s.Assign)
    return st.value


def test_the_grammar_is_unambiguous() -> None:
    # strict=True refuses shift/reduce conflicts and terminals that match the same text with one priority.
    make_lark("tc.lang", strict=True)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("-3 % 2 + 4 * 5 + 7 - a", "-3 % 2 + 4 * 5 + 7 - a"),
        ("((-3) % 2)", "-3 % 2"),
        ("a + b + c", "a + b + c"),
        ("a + (b + c)", "a + (b + c)"),
        ("a - (b - c)", "a - (b - c)"),
        ("a ? 3 : b ? 3 : 4", "a ? 3 : b ? 3 : 4"),
        ("(a ? 1 : 2) ? 3 : 4", "(a ? 1 : 2) ? 3 : 4"),
        ("a < b == c", "a < b == c"),
        ("!a || b && c", "!a || b && c"),
        ("(a || b) && c", "(a || b) && c"),
        ("foo(3,4,5+6,a)", "foo(3,4,5 + 6,a)"),
        ("-a * b", "-a * b"),
        ("-(a * b)", "-(a * b)"),
        ("int32(a)", "int(a)"),
        ("A.0 * 2", "A.0 * 2"),
        ("A.1*.5", "A.1 * 0.5"),
    ],
)
def test_precedence(text: str, tree: str) -> None:
    assert format_exp(value(text)) == tree
    assert value(tree) == value(text)


def test_left_and_right_associativity() -> None:
    chain = value("a - b - c")
    assert isinstance(chain, s.Binary) and isinstance(chain.left, s.Binary)
    nested = value("a ? b : c ? d : e")
    assert isinstance(nested, s.Ternary) and isinstance(nested.otherwise, s.Ternary)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3), ("0x1F", 31), ("010", 10), ("1.4", 1.4), (".3", 0.3), ("3.", 3.0), ("3e-3", 3e-3),
        (".5e-7", 0.5e-7), ("3E-5", 3e-5), ("1e5", 1e5), ("18446744073709551615", 2**64 - 1), ("1e-12", 1e-12),
    ],
)  # fmt: skip
def test_literals(text: str, expected: float) -> None:
    e = value(text)
    assert isinstance(e, (s.IntLit, s.FloatLit)) and e.value == expected
    assert isinstance(e, s.IntLit) == isinstance(expected, int)


@pytest.mark.parametrize("text", ["1.f", "0.5f", "3.e2F", "1e5f"])
def test_the_suffix_f_fixes_float32(text: str) -> None:
    e = value(text)
    assert isinstance(e, s.FloatLit) and e.single


@pytest.mark.parametrize(
    "name", ["2LUT", "3x", "1f", "1e5x", "_", "info", "nano", "inner", "where2", "int32_t", "0x"]
)
def test_names_that_start_with_digits_or_keywords(name: str) -> None:
    assert value(name) == s.Name(name, value(name).span)


def test_keywords_are_names_where_the_grammar_does_not_admit_them() -> None:
    source = "def where(float(in) in) -> exists { exists(def) = in(def) where def in 0:in }"
    d = parse(source).defs[0]
    assert d.name == "where" and d.params[0].name == "in" and d.returns[0].name == "exists"


def test_both_spellings_of_returns_ranges_and_scalars() -> None:
    a = parse(
        "def f(float(N) A, float() s) -> B { B(i) = A(i) where i in 0:3, k = [0, 2[, j in [1, 4[ }"
    ).defs[0]
    b = parse("def f(float(N) A, float s) -> (B) { B(i) = A(i) where i in 0:3, k in 0:2, j in 1:4 }").defs[0]
    assert a == b


def test_statements_need_no_separator() -> None:
    two = statements("c(i)=a(i) b(i)=c(i)")
    assert [st.lhs.name for st in two if isinstance(st, s.Assign)] == ["c", "b"]
    assert statements("c(i)=a(i); b(i)=c(i);") == two


def test_a_semicolon_ends_a_name_before_a_parenthesis() -> None:
    one, two = statements("s = a; (x,y) = f(b)")
    assert isinstance(one, s.Assign) and isinstance(two, s.TupleCall)
    with pytest.raises(ParseError) as e:
        statements("s = a (x,y) = f(b)")
    assert "';'" in str(e.value.help) and e.value.span is not None and e.value.span.text == "="


def test_results_of_a_call_with_and_without_parentheses() -> None:
    assert statements("(x, y) = f(b)") == statements("x, y = f(b)")


def test_assignment_operators_are_single_tokens() -> None:
    ops = ["=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"]
    assert [st.op for op in ops for st in statements(f"b(i) {op} a(i)") if isinstance(st, s.Assign)] == ops
    (st,) = statements("c += !a")
    assert (
        isinstance(st, s.Assign) and st.op == "+=" and st.value == s.Unary("!", s.Name("a", st.span), st.span)
    )


def test_newlines_between_all_tokens() -> None:
    text = "def f ( float ( N ) A ) -> ( B ) { B ( i ) = A ( i ) + 1 B ( i ) += 2 }"
    assert parse(text) == parse(text.replace(" ", "\n")) == parse(text.replace(" ", " # comment (\n"))


def test_maximal_heights_pass_and_the_next_does_not() -> None:
    assert value("(" * (MAX_HEIGHT - 1) + "a" + ")" * (MAX_HEIGHT - 1))
    assert value("+".join(["a"] * MAX_HEIGHT))
    for text in (
        "(" * MAX_HEIGHT + "a" + ")" * MAX_HEIGHT,
        "+".join(["a"] * (MAX_HEIGHT + 1)),
        "-" * 5000 + "a",
    ):
        with pytest.raises(ParseError, match="deeper than 200"):
            value(text)


def test_a_source_above_a_mebibyte_is_refused() -> None:
    with pytest.raises(ParseError, match="more than 1048576"):
        parse("# " + "x" * (1 << 20))


@pytest.mark.parametrize(
    ("source", "code", "line", "column", "message"),
    [
        ("def f{} {}", "TC0102", 1, 6, "expected ( after 'f'"),
        ("", "TC0103", 1, 1, "the source is empty"),
        ("def f(float(N) A) -> (B) {\n  B(i) = A(i)\n", "TC0103", 2, 13, "the source ends where"),
        ("def f(float a) -> (x) { x = a $ 2 }", "TC0101", 1, 31, "'$'"),
        ("def f(float a) -> (x) { x -= a }", "TC0102", 1, 27, "unexpected '-'"),
        ("def f(float a) -> (x) { x = 99999999999999999999 }", "TC0106", 1, 29, "64 bits"),
        ("def f(float a) -> (x) {\n\tx = a(\n}", "TC0102", 3, 1, "unexpected '}'"),
        ("def f(flot a) -> (x) { x = a }", "TC0102", 1, 7, "'flot' is no type"),
    ],
)
def test_messages_and_places(source: str, code: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as e:
        parse(source)
    assert e.value.code == code and message in e.value.message
    assert e.value.span is not None and e.value.span.location == (line, column)


def test_parsing_is_reentrant_across_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    sources = [f"def f{n}(float(N) A) -> (B) {{ B(i) = A(i) + {n} }}" for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        parsed = list(pool.map(parse, sources))
    assert [p.defs[0].name for p in parsed] == [f"f{n}" for n in range(40)]
    assert all(p.defs[0].span.source.text == t for p, t in zip(parsed, sources, strict=True))


@pytest.mark.parametrize("depth", [100, 101, 5000])
def test_loops_nested_too_deeply(depth: int) -> None:
    heads = " ".join(f"for t{k} in 0:1 {{" for k in range(depth))
    text = f"def f(float(N) x) -> (s) {{ s = 0.0 {heads} s = s + x(0) {'}' * depth} }}"
    if depth == 100:
        assert len(parse(text).defs) == 1
        return
    with pytest.raises(ParseError, match="loops nested deeper than 100") as caught:
        parse(text)
    assert caught.value.code == "TC0105"

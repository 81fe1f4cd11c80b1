"""The formatter: what it prints parses back to the same tree, and comments stay."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tc import dtypes
from tc.errors import Source, Span
from tc.lang import syntax as s
from tc.lang.format import format_program, format_source
from tc.lang.parse import parse
from tests.share import examples

SPAN = Span(Source(""), 0, 0)
NAMES = st.sampled_from(["a", "B", "2LUT", "in", "where", "x1", "_", "tmp"])

literals = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda v: s.IntLit(v, SPAN)),
    st.floats(0, 1e300, allow_nan=False).map(lambda v: s.FloatLit(abs(v), False, SPAN)),
    st.floats(0, 2.0**99, width=32).map(lambda v: s.FloatLit(abs(v), True, SPAN)),
)
leaves = st.one_of(
    literals,
    NAMES.filter(lambda n: n not in ("in", "where")).map(lambda n: s.Name(n, SPAN)),
    st.builds(lambda n, k: s.Dim(n, k, SPAN), NAMES.filter(lambda n: n != "where"), st.integers(0, 12)),
)


def grow(inner: st.SearchStrategy[s.Exp]) -> st.SearchStrategy[s.Exp]:
    ops = st.sampled_from(["||", "&&", "==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%"])
    return st.one_of(
        st.builds(lambda o, a, b: s.Binary(o, a, b, SPAN), ops, inner, inner),
        st.builds(lambda o, a: s.Unary(o, a, SPAN), st.sampled_from(["-", "!"]), inner),
        st.builds(lambda c, a, b: s.Ternary(c, a, b, SPAN), inner, inner, inner),
        st.builds(lambda t, a: s.Cast(t, a, SPAN), st.sampled_from(dtypes.ALL), inner),
        st.builds(
            lambda n, a: s.Call(n, tuple(a), SPAN, SPAN),
            NAMES.filter(lambda n: n != "where"),
            st.lists(inner, max_size=3),
        ),
    )


expressions = st.recursive(leaves, grow, max_leaves=25)
identifiers = st.sampled_from(["a", "B", "2LUT", "x1", "_", "tmp"])
clauses = st.one_of(
    st.builds(lambda n, a, b: s.RangeClause(n, a, b, SPAN, SPAN), identifiers, expressions, expressions),
    st.builds(lambda n, a: s.LetClause(n, a, SPAN, SPAN), identifiers, expressions),
    st.builds(lambda a: s.ExistsClause(a, SPAN), expressions),
    st.builds(lambda a: s.Condition(a, SPAN), expressions),
)
assigns = st.builds(
    lambda n, subs, op, v, cs: s.Assign(
        s.Lhs(n, None if subs is None else tuple(subs), SPAN, SPAN), op, v, tuple(cs), SPAN
    ),
    identifiers,
    st.none() | st.lists(expressions, max_size=3),
    st.sampled_from(["=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"]),
    expressions,
    st.lists(clauses, max_size=3),
)
calls = st.builds(
    lambda ts, f, args: s.TupleCall(tuple(s.Target(t, SPAN) for t in ts), f, tuple(args), SPAN, SPAN),
    st.lists(identifiers, min_size=1, max_size=3),
    identifiers,
    st.lists(expressions, max_size=3),
)
types = st.builds(
    lambda t, ds: s.Type(t, tuple(s.DimDecl(d, SPAN) for d in ds), SPAN),
    st.sampled_from(dtypes.ALL),
    st.lists(st.integers(0, 9) | identifiers, max_size=3),
)
defs = st.builds(
    lambda n, ps, rs, body: s.Def(n, tuple(ps), tuple(rs), tuple(body), SPAN, SPAN),
    identifiers,
    st.lists(st.builds(lambda t, n: s.Param(t, n, SPAN), types, identifiers), max_size=3),
    st.lists(
        st.builds(lambda t, n: s.Return(t, n, bool(t and t.dims), SPAN), st.none() | types, identifiers),
        max_size=3,
    ),
    st.lists(assigns | calls, max_size=4),
)
programs = st.lists(defs, min_size=1, max_size=3).map(lambda ds: s.Program(tuple(ds), SPAN))


@given(programs)
@settings(max_examples=examples(300), deadline=None)
def test_formatted_text_parses_back_to_the_same_tree(program: s.Program) -> None:
    text = format_program(program)
    again = parse(text)
    assert again == program
    assert format_program(again) == text


def test_comments_stay_where_they_belong() -> None:
    source = """# head
def f(float(N) A) -> B {  # after the brace
  # own line
  B(i)=A(i)   # behind
  B(i) = B(i) + # inside
     1;  # behind the semicolon
  # last
} # end
# tail
def g(float(N) A) -> B { B(i)=A(i) }
# fin"""
    formatted = format_source(source)
    assert (
        formatted
        == """# head
def f(float(N) A) -> (B) {
  # after the brace
  # own line
  B(i) = A(i)  # behind
  # inside
  B(i) = B(i) + 1  # behind the semicolon
  # last
}  # end

# tail
def g(float(N) A) -> (B) {
  B(i) = A(i)
}

# fin
"""
    )
    assert format_source(formatted) == formatted

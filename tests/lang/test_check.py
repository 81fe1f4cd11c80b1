"""Names, calls and reductions: what is refused, where the caret stands, what is warned about."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import DTypeError, Error, SemanticError
from tc.lang import resolved as r
from tc.lang.check import check
from tc.lang.parse import parse
from tc.lang.types import Typed, assign_types, subscript_only


def checked(source: str, entry: str | None = None) -> r.Checked:
    return check(parse(source), entry)


def typed(source: str) -> Typed:
    return assign_types(checked(source))


def types_of(source: str) -> dict[str, str]:
    return {t.name: d.name for t, d in typed(source).dtypes.items()}


# source (the caret's text is between « »), code, part of the message, part of the help
REFUSED = [
    ("def f(float(N) A) -> (B) { B(i) = «Abd»(i) }", "TC0201", "unknown tensor or function 'Abd'", None),
    ("def f(float(X) A) -> (B) { B(i) = A(i) + «x» }", "TC0201", "unknown name 'x'", "did you mean 'X'?"),
    ("def f(float(N) A) -> (B) { B(i) = «tahn»(A(i)) }", "TC0201", "unknown tensor", "did you mean 'tanh'?"),
    ("def f(float(N) A) -> (float(«M») B) { B(i) = A(i) }", "TC0201", "no parameter has the size 'M'", None),
    ("def f(float(N) «exp») -> (B) { B(i) = 1 }", "TC0202", "'exp' is a built-in", "rename"),
    ("def f(float(N) A) -> («fmaxf») { fmaxf(i) = A(i) }", "TC0202", "built-in", None),
    ("def f(float(N) A) -> (B) { B(i) = A(i) where «N» in 0:3 }", "TC0203", "'N' is a size", None),
    ("def f(int s, float(N) A) -> (B) { B(i) = A(i) where «s» in 0:3 }", "TC0203", "'s' is a scalar", None),
    ("def f(float(N) A, float(N) «A») -> (B) { B(i) = A(i) }", "TC0204", "declared twice", None),
    ("def f(float(N) A) -> («A») { A(i) = A(i) + 1 }", "TC0204", "already a parameter", "immutable"),
    ("def f(float(N) A) -> (B) { B(i) = A(i) where «foo» = A(i), foo in 1:2 }", "TC0204", "a name for a value", None),
    ("def f(float(N) A) -> (B) { B(i) = A(i) where i in 0:2, «i» in 1:2 }", "TC0204", "defined twice", None),
    ("def f(float(N) A) -> (B) { B(«0.5») +=! A(i) }", "TC0205", "is an integer", "integer"),
    ("def f(float(N) A) -> (B) { B(«A(0)») +=! A(i) }", "TC0231", "the first statement of a tensor", "define it first"),
    ("def f(float(N) A) -> (B) { B(«2*i») = A(i) }", "TC0205", "plus or minus constants", None),
    ("def f(float(N) A) -> (B) { B(i,«i») = A(i) }", "TC0205", "twice", "where i == j"),
    ("def f(float(N,M) A) -> (B) { B(i) = «A(i)» }", "TC0206", "expected 2 subscripts for 'A' but found 1", None),
    ("def f(float(N) A) -> (B) { B(i) = A(i) «B»(i,j) = 1 }", "TC0206", "1 dimension but is assigned with 2", None),
    ("def f(float(N) A) -> (B) { B(i) = A(i) + «A.1» }", "TC0206", "there is no A.1", None),
    ("def f(float(N) A) -> (B) { B(i) = A(i) + «A» }", "TC0207", "expected a scalar but found the tensor", "A(i)"),
    ("def f(float(N) A) -> (B) { B(i) = «t»(i) t(i) = A(i) }", "TC0208", "read before it is defined", "out="),
    ("def f(float(N) A) -> (B) { B(i) = «exp(A(i), 2)» }", "TC0209", "takes 1 argument but 2", None),
    ("def g(float(N) A) -> (B) { B(i) = A(i) } def f(float(N) A) -> (B) { B(i) = «g(A)» + 1 }",
     "TC0210", "must be the whole right-hand side", None),
    ("def f(float(N) A) -> (B) { B(i) = «concat(A, A)» }", "TC0211", "whole right-hand side", None),
    ("def f(float(N) A, int s) -> (B) { B(i) +=! A(j) where i in 0:2, j in 0:«A(0)» }", "TC0212",
     "tensor accesses cannot be used in this context", None),
    ("def f(float(N) A) -> (B) { B(i) +=! A(j) where i in 0:2, j in 0:«i» }", "TC0213", "cannot be used in a range",
     "where i <= j"),
    ("def f(float(N) A) -> (B) { B(i) = A(i) where «i + 1» }", "TC0214", "a 'where' clause is", None),
    ("def f(float(N) A) -> (B) { B(i) = A(i) where «A(i)» > 0 }", "TC0214", "index variables, sizes and integers", None),
    ("def f(float(N) A) -> (B) { B(i) = A(i) } def «f»(float(N) A) -> (B) { B(i) = A(i) }", "TC0217", "twice", None),
    ("def «f»(float(N) A) -> () { }", "TC0218", "'f' returns nothing", "-> (B)"),
    ("def f(float(N) A) -> («BB») { B(i) = A(i) }", "TC0218", "never assigned", "did you mean 'B'?"),
    ("def f(float(N) A) -> (Out) { Out(i) = A(i) «Outt»(i) = A(i) }", "TC0219", "never read", "did you mean 'Out'?"),
    ("def f(float(N) A) -> (B) { B(i) = A(i) «A»(i) = B(i) }", "TC0220", "TC inputs are immutable", None),
    ("def g(float(N) A) -> (B) { B(i) = A(i) } def f(float(N) A) -> (B) { B = g(A) where «i in 0:2» }",
     "TC0221", "takes no 'where'", None),
    ("def f(float(N) A) -> (B) { B = «f»(A) }", "TC0222", "calls itself", "unroll"),
    ("def g(float(N) A) -> (B) { B = f(A) } def f(float(N) A) -> (B) { B = «g»(A) }", "TC0222", "f -> g", None),
    ("def g(float(N) A) -> (B) { B(i) = A(i) } def f(float(N) A) -> (B) { B = g(«A + 1») }", "TC0223",
     "must be the name of a tensor", None),
    ("def f(float(N,M) A) -> (B) { B(i) = A(i,«j») }", "TC0225", "reduction variable 'j'", "+=!"),
    ("def f(float(N) A, int(N) I) -> (B) { B(i) = A(i) B(i) = «B(I(i))» }", "TC0226", "depends on data", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "code", "message", "help"), REFUSED, ids=[f"{r[1]}-{n}" for n, r in enumerate(REFUSED)]
)
def test_refused(source: str, code: str, message: str, help: str | None) -> None:
    start = source.index("«")
    end = source.index("»") - 1
    text = source.replace("«", "").replace("»", "")
    with pytest.raises(SemanticError) as e:
        checked(text)
    error = e.value
    assert error.code == code and message in error.message, str(error)
    if error.code != "TC0222" or "f -> g" not in message:
        assert error.span is not None and (error.span.start, error.span.end) == (start, end), str(error)
    if help is not None:
        assert help in (error.help or ""), str(error)


def test_names_come_before_reductions() -> None:
    with pytest.raises(SemanticError) as e:
        checked("def f(float(N,M) A) -> (B) { B(i) = A(i,j) C(i) = Q(i) }")
    assert e.value.code == "TC0201"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("O(i) +=! A(i,j)", []),
        ("O(i) = B(i) O(i) *= A(i,j)", []),
        ("O(i) max=! A(i,j) O(i) min= B(i)", []),
        ("O(i) += A(i,j)", ["did you mean '+=!'?"]),
        ("O(i) *= A(i,j)", ["did you mean '*=!'?"]),
        ("O(i) max= A(i,j)", ["did you mean 'max=!'?"]),
        ("O(i) min= A(i,j)", ["did you mean 'min=!'?"]),
    ],
)
def test_reductions_into_nothing_are_warned_about(body: str, expected: list[str]) -> None:
    found = checked(f"def f(float(N,M) A, float(N) B) -> (O) {{ {body} }}").warnings
    assert [w.help.split(" With")[0] for w in found if w.help] == expected


def test_a_lone_factor_is_warned_about_but_row_sums_are_not() -> None:
    lone = checked("def mm(float(X,Y) A, float(Y,Z) B) -> (R) { R(i,j) +=! A(i,j) * B(j,k) }").warnings
    assert [type(w).__name__ for w in lone] == ["LoneReduction"]
    assert lone[0].span is not None and lone[0].span.text == "B(j,k)"
    quiet = [
        "R(i) +=! A(i,j)",
        "M(i) max=! A(i,j) R(i) +=! exp(A(i,j) - M(i))",
        "R(i) +=! A(i,j) * A(i,j)",
        "R(i,j) +=! A(i,j) * A(j,k) where k in 0:3",
    ]
    for body in quiet:
        assert checked(f"def f(float(X,Y) A) -> (R) {{ {body} }}").warnings == ()


def test_modes_of_results() -> None:
    source = """def f(float(N) A) -> (C, D, E) { C(i) = 2 * C(i) C(i) += A(i) D(i) += A(i) E(i) = A(i) }"""
    assert [x.mode for x in checked(source).returns] == ["inout", "accumulate", "fresh"]


def test_calls_are_inlined_with_sizes_bound() -> None:
    source = """
    def inner(float(M) P, float(M) Q) -> (R) { R(i) = P(i) + Q(i) }
    def outer(float(N) A, float(K) B) -> (R) { R = inner(A, B) }"""
    c = checked(source)
    assert [st.target.name for st in c.statements] == ["R"]
    assert len(c.equalities) == 1 and "dimension 0 of 'Q'" in c.equalities[0].reason


def test_every_def_is_checked_and_the_entry_chosen() -> None:
    source = "def a(float(N) A) -> (B) { B(i) = A(i) } def b(float(N) A) -> (B) { B(i) = 2*A(i) }"
    assert checked(source).name == "b" and checked(source, "a").name == "a"
    with pytest.raises(SemanticError) as e:
        checked(source, "c")
    assert e.value.code == "TC0216"
    with pytest.raises(Error):
        checked("def a(float(N) A) -> (B) { B(i) = Q(i) } " + source.split("} ", 1)[1])


def test_which_scalars_are_specialised() -> None:
    source = "def f(int s, int t, float u, float(N) A) -> (O) { O(i) = u * A(s*i) + t where i in 0:4 }"
    params = {p.name: p.specialized for p in checked(source).params if isinstance(p, r.ScalarParam)}
    assert params == {"s": True, "t": False, "u": False}


def test_lets_that_would_explode_are_refused() -> None:
    lets = ", ".join(f"x{n} = x{n - 1} + x{n - 1}" for n in range(1, 40))
    with pytest.raises(SemanticError) as e:
        checked(f"def f(float(N) A) -> (O) {{ O(i) = x39 where x0 = A(i), {lets} }}")
    assert e.value.code == "TC0215"


# ---- types


@pytest.mark.parametrize(
    ("params", "body", "out"),
    [
        ("float(N) A", "O(i) = A(i)", "float32"),
        ("double(N) A", "O(i) = A(i) * 0.1", "float64"),
        ("double(N) A", "O(i) = 0 O(i) += A(i)", "float64"),
        ("half(N) A", "O(i) = A(i) * 2", "float16"),
        ("bfloat16(N) A, half(N) B", "O(i) = A(i) + B(i)", "float32"),
        ("int8(N) A, uint8(N) B", "O(i) = A(i) + B(i)", "int8"),
        ("uint16(N) A, uint8(N) B", "O(i) = A(i) + B(i)", "uint16"),
        ("uint8(N) A", "O(i) = A(i) + A(i)", "uint8"),
        ("int(N) A", "O(i) = A(i) * 0.5", "float32"),
        ("int64(N) A, half(N) B", "O(i) = A(i) * B(i)", "float16"),
        ("bool(N) A", "O(i) = A(i) + A(i)", "int32"),
        ("float(N) A", "O(i) = A(i) > 0", "bool"),
        ("bool(N) A", "O +=! A(i)", "int32"),
        ("int8(N) A", "O *=! 1 T(i) = O + A(i) O +=! T(i)", "int8"),
        ("int8(N) A", "O = 1 T = O O += T", "int32"),
        ("double(N) A", "O = 1 T = O U = T O += U + 0.5 O += A(i)", "float64"),
        ("bool(N) A", "O(i) = A(i) O2 max=! A(i) O(i) = O2 > 0", "bool"),
        ("float(N) A", "O(i) = i where exists A(i)", "int32"),
        ("float(N) A", "O(i) = 3 where exists A(i)", "int32"),
        ("float(N) A", "O(i) = 3000000000 where exists A(i)", "int64"),
        ("float(N) A", "O(i) = 1.5 where exists A(i)", "float32"),
        ("int(N) A", "O(i) = exp(A(i))", "float32"),
        ("double(N) A", "O(i) = exp(A(i))", "float64"),
        ("int(N) A", "O(i) = min(A(i), 3, A(i))", "int32"),
        ("float(N) A", "O(i) = A(i) > 0 ? 1 : A(i)", "float32"),
        ("float(N) A", "O(i) = int8(A(i))", "int8"),
        ("float(N) A", "O(i) = double(0.1) * A(i)", "float64"),
    ],
)
def test_the_type_of_an_output(params: str, body: str, out: str) -> None:
    assert types_of(f"def f({params}) -> (O) {{ {body} }}")["O"] == out


@pytest.mark.parametrize(
    ("params", "body", "code", "message"),
    [
        ("float(J) B, float(I) C", "O(i) = B(C(i))", "TC0401", "expected integral type for a subscript"),
        ("float(N) A", "O(i) = A(i + .5)", "TC0401", "expected integral type"),
        ("float(N) A", "O(i) = A(i) ? 1 : 0", "TC0402", "expected bool"),
        ("float(N) A", "O(i) = !A(i)", "TC0402", "expected bool"),
        ("float(N) A", "O(i) = A(i) % 2", "TC0403", "'%' is for integers"),
        ("float(N) A, int(N) B", "O(i) = B(i) O(i) = A(i)", "TC0404", "narrowed"),
        ("bool(N) A", "O(i) = A(i) O(i) += A(i)", "TC0407", "'+=' is arithmetic"),
        ("uint8(N) A", "O(i) = A(i) + 300", "TC0406", "does not fit uint8"),
        ("uint8(N) A", "O(i) = A(i) * -1", "TC0406", "does not fit uint8"),
    ],
)
def test_type_errors(params: str, body: str, code: str, message: str) -> None:
    with pytest.raises(DTypeError) as e:
        typed(f"def f({params}) -> (O) {{ {body} }}")
    assert e.value.code == code and message in e.value.message
    assert e.value.span is not None and e.value.help is not None


def test_arguments_of_calls_keep_their_types() -> None:
    with pytest.raises(DTypeError) as e:
        typed(
            """def g(double(N) P) -> (R) { R(i) = P(i) }
               def f(float(N) A) -> (R) { R = g(A) }"""
        )
    assert e.value.code == "TC0405"


def test_subscript_only_integers() -> None:
    c = checked("def f(float(E,D) L, int(N) I, int(N) V) -> (O) { O(i,d) = L(I(i) + 1, d) * V(i) }")
    assert subscript_only(c) == {"I"}


def test_names_of_loops_are_told_apart_from_names_in_the_source() -> None:
    source = """def f(double(N) x) -> (y) {
      y(i) = x(i)
      for t in 0:N { y(t) = y(t) * 2 }
      for t in 0:N { y(t) = y(t) + t }
      for t_2 in 0:N { y(t_2) = y(t_2) * t_2 }
    }"""
    loops = [st.loops[0].name for st in checked(source).statements if st.loops]
    assert len(set(loops)) == 3


def test_a_loop_of_a_called_def_may_have_the_name_of_a_scalar() -> None:
    source = """def step(double(N) x, double a) -> (y) { y(i) = x(i) for t in 0:3 { y(i) = y(i) * a } }
    def f(double(N) x, double t) -> (z) { w = step(x, t) z(i) = w(i) + t }"""
    assert [st.loops[0].name for st in checked(source).statements if st.loops] == ["t_2"]


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("def f(float(N) N) -> (y) { y(i) = N(i) * N where i in 0:N }", [0, 3, 6]),
        ("def f(float(N) x) -> (N) { N(i) = x(i) * N }", [0, 3, 6]),
        ("def f(float(N) x) -> (y) { N(i) = x(i) * x(i) y(i) = N(i) * N }", [0, 3, 12]),
        ("def f(float(N) x) -> (y) { y(i) = x(i) * N N(i) = x(i) y(i) = y(i) + N(i) }", [0, 4, 8]),
        # Without dimensions a tensor hides the size, once it is defined.
        ("def f(float(N) x) -> (y) { y(i) = x(i) * N N +=! x(i) y(i) = y(i) - N }", [-3, 0, 3]),
    ],
)
def test_a_bare_name_of_a_tensor_with_dimensions_is_the_size(source: str, want: list[int]) -> None:
    x = np.arange(3, dtype="f4")
    np.testing.assert_array_equal(tc.interpret(source, x), want)
    np.testing.assert_array_equal(tc.compile(source, "reference")(x), want)
    if "+=!" not in source:
        for derived in (tc.grad(source), tc.jvp(source)):
            tc.compile(derived, "reference")

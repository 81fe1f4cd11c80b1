"""What people type from habit: the error says what to write instead."""

from __future__ import annotations

import pytest

import tc
from tc.dtypes import SPELLINGS
from tc.lang import habits
from tc.lang.builtins import find

TYPED = [
    ("y(i) = x(wrap(i-1))", "behind a tensor: x[wrap](i-1)"),
    ("y(i) = x(periodic(i-1))", "behind a tensor: x[wrap](i-1)"),
    ("y(i) = x(mirror(i-1))", "behind a tensor: x[reflect](i-1)"),
    ("for i in 0:N: y(i) = x(i)", "stand in braces: for t in 0:N { ... }"),
    ("y(j,i) = x(i,j).T", "its subscripts exchanged"),
    ("y = x(i).sum()", "s(i) +=! x(i,k)"),
    ("y(i) = x[i]", "parentheses: x(i,j)"),
    ("y[i] = x(i)", "parentheses: x(i,j)"),
    ("y(i) = x(i)**2", "pow(x, y), or x * x"),
    ("y(i) = x(i)^2", "pow(x, y), or x * x"),
    ("y(i) = x(i)//2", "rounds down; a comment starts with #"),
    ("y(i) = x(i) // a comment", "a comment starts with #"),
    ("y(i) = relu(x(i))", "fmax(x, 0)"),
    ("y = sum(x(i))", "s(i) +=! x(i,k)"),
    ("y = max(x(i))", "m(i) max=! x(i,k)"),
    ("y = argmax(x(i))", "argmax=! x(i,k)"),
    ("y(i) = where(x(i) > 0, x(i), 0)", "c ? a : b"),
    ("y(i) = x(i) if x(i) > 0 else 0", "c ? a : b"),
    ("y(i) = x(i) > 0 and x(i) < 2 ? 1 : 0", "&& and ||"),
    ("y(i) = not x(i) > 0", "&& and ||"),
    ("y(i) = x(i) & 1", "&& and ||"),
    ("y(i) = True ? 1 : 0", "a condition"),
    ("for i in range(4) { y(i) = x(i) }", "for t in 0:N"),
    ("y(i) = rand()", "no random numbers"),
    ("y(i) = x(i) @ x(i)", "C(i,j) +=! A(i,k) * B(k,j)"),
    ("y(i) = f32(x(i))", "write float"),
    ("y(i) := x(i)", "an assignment is written ="),
    ("let y(i) = x(i)", "needs no keyword"),
    ("return x", "behind ->"),
    ("y(i) = x(:)", "an index variable"),
    ("y(i) = x.shape", "A.0"),
    ("y(i) = len(x)", "A.0"),
    ("y(i) = clip(x(i), 0, 1)", "min(max(x, lo), hi)"),
    ("float t = 2; y(i) = x(i) * t", "behind where: y(i) = a * x(i) where a = 2"),
    ("y(i) = x(i); float(N) t; ", "need no declaration"),
    ("y(i) = x(0:3)", "where i in 0:3"),
    ("y(i) argmax= x(k)", "write argmax=!"),
    ("y argmin= x(k)", "write argmin=!"),
    ("(m, y) argmax=! x(k)", "two statements"),
    ("(m(i), y(i)) argmax=! x(k)", "two statements"),
    ("(m(i), y(i)) = f(x)", "without subscripts"),
    ("y(i) = x[fill(1)](i-1) where i in 0:4", "x[fill=1](i-1)"),
    ("y(i) = x[constant(1)](i-1) where i in 0:4", "x[fill=1](i-1)"),
    ("z(i) = x(i), y(i) = z(i)", "separated by ;"),
    ("z(i) = x(i), y(i) +=! z(j)", "separated by ;"),
    ("y(i) = x(i) where i in 0:4:2", "no step"),
    ("y(i) = x(i) where i in 0:4:2, a = 3", "no step"),
    ("for t in 0:4:2 { y(t) = x(t) }", "no step"),
    ("y(k) = x(k) where k in 0:V", "pass it, int V"),
    ("for (int i = 0; i < N; i++) y(i) = x(i)", "a loop has a range: for t in 0:N"),
    ("for i = 0:N { y(i) = x(i) }", "a loop has a range: for t in 0:N"),
    ("y mean=! x(i)", "reductions +=! *=! min=! max=!"),
    ("y(i) sum= x(i)", "reductions +=! *=! min=! max=!"),
    ("y(i) = x(i) * exp(-2i * pi)", "an imaginary number is written 2j"),
    ("y(i) == x(i)", "an assignment is written ="),
    ("y(i) -> x(i)", "an assignment is written ="),
    ("y(i) => x(i)", "an assignment is written ="),
    ("y(i) <- x(i)", "an assignment is written ="),
    ("y(i) = x(i) === 2 ? 1 : 0", "compared by =="),
    ("const a = 3; y(i) = a * x(i)", "behind where: y(i) = a * x(i) where a = 2"),
    ("y(i) = x(i) } y(i) = 2", "one def after another"),
    ("y(i/2) += x(i)", "make a scatter: O(P(i)) += …"),
]


@pytest.mark.parametrize(("body", "help"), TYPED)
def test_the_help_says_what_to_write(body: str, help: str) -> None:
    with pytest.raises(tc.Error) as caught:
        tc.compile(f"def f(float(N) x) -> (y) {{ {body} }}", "reference")
    assert caught.value.help is not None and help in caught.value.help, caught.value


@pytest.mark.parametrize(
    ("header", "help"),
    [
        ("def f(float(N) x)", "results are named: -> (y)"),
        ("def f<T>(T(N) x)", "results are named: -> (y)"),
        ("def f(x: float(N)) -> (y)", "before its name: float(N) x"),
        ("def f(float(N) x, z: float(N)) -> (y)", "before its name: float(N) x"),
        ("def f(float(N) x, float eps=1e-5) -> (y)", "parameters have no default values"),
        ("def f(x)", "before its name: float(N) x"),
        ("def f(x, z) -> (y)", "before its name: float(N) x"),
        ("def f(float[N] x) -> (y)", "in parentheses behind the type: float(N,M) x"),
        ("def f(float x[N]) -> (y)", "in parentheses behind the type: float(N,M) x"),
        ("def f<T>(T[N, M] x) -> (y)", "in parentheses behind the type: float(N,M) x"),
        ("fn f(float(N) x) -> (y)", "one def after another"),
        ("void f(float(N) x)", "one def after another"),
    ],
)
def test_headers_of_other_languages(header: str, help: str) -> None:
    with pytest.raises(tc.ParseError) as caught:
        tc.compile(header + " { y(i) = x(i) }")
    assert help in (caught.value.help or "")


@pytest.mark.parametrize(("name", "expected"), [("f32", "write float"), ("int64_t", "write int64")])
def test_types_of_other_languages(name: str, expected: str) -> None:
    with pytest.raises(tc.ParseError) as caught:
        tc.compile(f"def f({name}(N) x) -> (y) {{ y(i) = x(i) }}", "reference")
    assert caught.value.help == expected


def test_no_habit_is_of_the_language() -> None:
    assert not [n for n in habits.FUNCTIONS if find(n) is not None or n in SPELLINGS]
    assert not [n for n in habits.NAMES if find(n) is not None or n in SPELLINGS]


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl", "halide"])
def test_constants(backend: str) -> None:
    import numpy as np

    x = np.arange(4, dtype=np.float32)
    cases = [
        ("float", "x(i) > 1 ? inf : -inf", np.where(x > 1, np.inf, -np.inf)),
        ("float", "x(i) > 1 ? nan : x(i)", np.where(x > 1, np.nan, x)),
        ("float", "pi * x(i)", np.float32(np.pi) * x),
        ("double", "pi * x(i)", np.pi * x.astype(np.float64)),
    ]
    for dtype, value, want in cases:
        source = f"def f({dtype}(N) x) -> (y) {{ y(i) = {value} }}"
        given = x.astype(np.float64) if dtype == "double" else x
        found = tc.interpret(source, given) if backend == "interpret" else tc.compile(source, backend)(given)
        np.testing.assert_array_equal(found, want.astype(given.dtype))


def test_other_meanings_hide_constants() -> None:
    import numpy as np

    x = np.arange(4, dtype=np.float32)
    scalar = tc.compile("def f(float(N) x, float pi) -> (y) { y(i) = pi * x(i) }", "reference")
    np.testing.assert_array_equal(scalar(x, 2.0), 2 * x)
    let = tc.compile("def f(float(N) x) -> (y) { y(i) = inf where inf = 2 * x(i) }", "reference")
    np.testing.assert_array_equal(let(x), 2 * x)
    index = tc.compile("def f(float(N) x) -> (y) { y(pi) = x(pi) }", "reference")
    np.testing.assert_array_equal(index(x), x)

"""Range inference on the cases of the original's table and of the range-inference page, at sizes.

Expected ranges are Python expressions over the sizes, written down here independently of the solver.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tc
from tc.errors import RangeError
from tc.ir.evaluate import evaluate
from tc.lang.check import check
from tc.lang.parse import parse
from tc.poly.implication import implies
from tc.ranges import Obligation, Range, Ranges, infer


def ranges_of(source: str, **scalars: int) -> tuple[Ranges, dict[str, list[Range]]]:
    checked = check(parse(source))
    ranges = infer(checked, scalars, implies=implies)
    return ranges, {out.name: list(ranges.box(out.tensor)) for out in checked.returns}  # type: ignore[misc]


# name: (source, {output: [(min, extent) per dimension]}, the sizes tried, a filter on them)
CASES: dict[str, tuple[str, dict[str, list[tuple[str, str]]], str]] = {
    "copy 1-D": ("def f(float(N) I) -> (O) { O(i) = I(i) }", {"O": [("0", "N")]}, "N"),
    "transpose 4-D": (
        "def f(float(A,B,C,D) I) -> (O) { O(i,j,l,k) = I(j,i,k,l) }",
        {"O": [("0", "B"), ("0", "A"), ("0", "D"), ("0", "C")]},
        "A B C D",
    ),
    "scale by 123": ("def f(float(N) I) -> (O) { O(i) = I(123*i) }", {"O": [("0", "(N+122)//123")]}, "N"),
    "shift down": ("def f(float(N) I) -> (O) { O(i) = I(i-1) }", {"O": [("1", "N")]}, "N"),
    "shift up": ("def f(float(N) I) -> (O) { O(i) = I(i+5) }", {"O": [("-5", "N")]}, "N"),
    "reversal": ("def f(float(N) B) -> (A) { A(i) = B(10-i) }", {"A": [("11-N", "N")]}, "N"),
    "subsample": ("def f(float(N) B) -> (A) { A(i) = B(2*i) }", {"A": [("0", "(N+1)//2")]}, "N"),
    "average pool": ("def f(float(N) B) -> (A) { A(i) = B(2*i) + B(2*i + 1) }", {"A": [("0", "N//2")]}, "N"),
    "average pool with a reduction": (
        "def f(float(N) B) -> (A) { A(i) +=! B(2*i + k) where k = [0, 2[ }",
        {"A": [("0", "N//2")]},
        "N",
    ),
    "stencil": (
        "def f(float(N) B, float(M) K) -> (A) { A(i) +=! B(i+k) * K(k) }",
        {"A": [("0", "N-M+1")]},
        "N M",
    ),
    "convolution": (
        """def f(float(N,C,H,W) I, float(M,C,KH,KW) W1, float(M) B) -> (tmp, O) {
             tmp(n,m,h,w) +=! I(n,c,h+kh,w+kw) * W1(m,c,kh,kw)
             O(n,m,h,w) +=! tmp(n,m,h,w) + B(m) }""",
        {t: [("0", "N"), ("0", "M"), ("0", "H-KH+1"), ("0", "W-KW+1")] for t in ("tmp", "O")},
        "N M C H W KH KW",
    ),
    "gradient of a convolution": (
        """def f(float(N,C,H,W) I, float(M,C,KH,KW) W1, float(N,M,OH,OW) d_O) -> (d_I, d_W1, d_B) {
             d_I(n,c,h,w) +=! d_O(n,m,h-kh,w-kw) * W1(m,c,kh,kw)
             d_W1(m,c,kh,kw) +=! d_O(n,m,h-kh,w-kw) * I(n,c,h,w)
             d_B(m) +=! d_O(n,m,h,w) }""",
        {
            "d_I": [("0", "N"), ("0", "C"), ("KH-1", "OH-KH+1"), ("KW-1", "OW-KW+1")],
            "d_W1": [("0", "M"), ("0", "C"), ("H-OH", "OH-H+1"), ("W-OW", "OW-W+1")],
            "d_B": [("0", "M")],
        },
        "N M C H W KH KW OH OW",
    ),
    "padded strided convolution": (
        """def f(float(N,C,H,W) I, float(M,C,KH,KW) W1) -> (pad, tmp) {
             pad(n,c,h,w) = I(n,c,h-2-3,w-3-4)
             tmp(n,m,h,w) +=! pad(n,c,2*h+kh,3*w+kw) * W1(m,c,kh,kw) }""",
        {
            "pad": [("0", "N"), ("0", "C"), ("5", "H"), ("7", "W")],
            "tmp": [("0", "N"), ("0", "M"), ("3", "(H-KH+1)//2"), ("3", "(W-KW+1)//3")],
        },
        "N M C H W KH KW",
    ),
    "convolution with mixed subscripts": (
        """def f(float(B,IP,H,W) input, float(OP,IP,KH,KW) weight) -> (output) {
             output(b,op,h,w) +=! input(b,ip,2*h+3*w+kh,2*w+kw) * weight(op,ip,kh,kw) }""",
        {"output": [("0", "B"), ("0", "OP"), ("0", "((H-KH)-((W-KW)//2)*3)//2+1"), ("0", "(W-KW)//2+1")]},
        "B OP IP H W KH KW",
    ),
    "partial copy": (
        "def f(float(N,M) I) -> (O) { O(i,j) = I(i,j) where i in 3:N-1 }",
        {"O": [("3", "N-4"), ("0", "M")]},
        "N M",
    ),
    "unambiguous rotation": (
        "def f(float(N,M) I) -> (O) { O(i,j) = I(10+i-j,i+j) where i in 0:10 }",
        {"O": [("0", "10"), ("20-min(N,20)", "min(M-10,10)+min(N,20)-19")]},
        "N M",
    ),
    "where without inputs": (
        "def f() -> (O) { O(i,j) = 3 where i in 4:8, j in 3:20 }",
        {"O": [("4", "4"), ("3", "17")]},
        "",
    ),
    "chain A": ("def f(float(P,Q,R) I) -> (O) { O(i) +=! I(j,i+j,k) }", {"O": [("0", "Q-P+1")]}, "P Q R"),
    "chain F": (
        """def f(float(A0,A1,A2) A, float(B0,B1,B2) B, float(C0,C1,C2) C) -> (O2, O3) {
             O2(j,k,l) +=! B(j,k,l) + A(i,j,k)
             O3(k,l,m) +=! C(k,l,m) + O2(j,k,l) }""",
        {
            "O2": [("0", "min(B0,A1)"), ("0", "min(B1,A2)"), ("0", "B2")],
            "O3": [("0", "min(C0,min(B1,A2))"), ("0", "min(C1,B2)"), ("0", "C2")],
        },
        "A0 A1 A2 B0 B1 B2 C0 C1 C2",
    ),
    "chain G": (
        """def f(float(A0,A1,A2) A, float(B0,B1,B2) B, float(C0,C1,C2) C) -> (O1, O2, O3) {
             O1(i,j) +=! A(i,j,k)
             O2(j,k,l) +=! B(j,k,l) + O1(i,j)
             O3(k,l,m) +=! C(k,l,m) + O2(j,k,l) }""",
        {
            "O1": [("0", "A0"), ("0", "A1")],
            "O2": [("0", "min(B0,A1)"), ("0", "B1"), ("0", "B2")],
            "O3": [("0", "min(C0,B1)"), ("0", "min(C1,B2)"), ("0", "C2")],
        },
        "A0 A1 A2 B0 B1 B2 C0 C1 C2",
    ),
    "clamped gather": (
        "def f(float(J) B, int(I) C) -> (A) { A(i) = B(max(min(C(i),J-1),0)) }",
        {"A": [("0", "I")]},
        "I J",
    ),
    "exists": ("def f(float c, float(I) B) -> (A) { A(i) = c where exists B(i) }", {"A": [("0", "I")]}, "I"),
    "a floor in the subscript": ("def f(float(I) B) -> (A) { A(i) = B(i/2) }", {"A": [("0", "2*I")]}, "I"),
    "a maximum below": (
        "def f(float(I) A, float(J) B) -> (O) { O(i) = A(max(i-1,0)) * B(i) }",
        {"O": [("0", "min(I+1,J)")]},
        "I J",
    ),
    "a magnitude": (
        "def f(float(I) A, float(J) B) -> (O) { O(i) = A(abs(i-40)) * B(i) }",
        {"O": [("max(0,41-I)", "min(J,I+40)-max(0,41-I)")]},
        "I J",
    ),
    "a maximum below sums of variables": (
        """def f(float(I) A, float(J) B) -> (O) {
             O(i) +=! A(max(i-1,0)+j+k) * B(i) where j in 0:2, k in 0:3 }""",
        {"O": [("0", "min(max(I-2,0),J)")]},
        "I J",
    ),
    "what must exist bounds as what is read does": (
        "def f(float(I) A, float(J) B) -> (O) { O(i) = A(i) where exists B(i) }",
        {"O": [("0", "min(I,J)")]},
        "I J",
    ),
    "what must exist bounds, a branch does not": (
        "def f(float(I) A, float(J) B) -> (O) { O(i) = i < 2 ? A(i) : 0 where exists B(i) }",
        {"O": [("0", "J")]},
        "I J",
    ),
    "a condition bounds, its branches do not": (
        "def f(float(I) A, float(J) B, float(K) C) -> (O) { O(i) = C(i) > 0 ? A(i) : B(i) }",
        {"O": [("0", "K")]},
        "I J K",
    ),
    "broadcast initialisation waits for the reduction": (
        "def f(float(B,M) I, float(N,M) W, float(N) B1) -> (O) { O(b,n) = B1(n) O(b,n) += I(b,m) * W(n,m) }",
        {"O": [("0", "B"), ("0", "N")]},
        "B N M",
    ),
    "figure 1 waits for the accumulation": (
        """def f(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
             C(i,j) = b * C(i,j)
             C(i,j) += a * A(i,k) * B(k,j) }""",
        {"C": [("0", "N"), ("0", "K")]},
        "N M K",
    ),
    "zero first": (
        "def f(float(M,K) A, float(K) x) -> (C) { C(i) = 0 C(i) += A(i,k) * x(k) }",
        {"C": [("0", "M")]},
        "M K",
    ),
    "a left-hand-side offset": ("def f(float(N) A) -> (O) { O(i+3) = A(i) }", {"O": [("3", "N")]}, "N"),
    "later coordinates stay": (
        "def f(float(N) A) -> (B, C) { B(i) = A(i-2) C(i) = B(i+1) }",
        {"B": [("2", "N")], "C": [("1", "N")]},
        "N",
    ),
    "a call crosses at zero": (
        """def shift(float(N) A) -> (B) { B(i) = A(i-2) }
           def f(float(N) A) -> (C) { B = shift(A) C(i) = B(i) }""",
        {"C": [("0", "N")]},
        "N",
    ),
    "concat": (
        "def f(float(N,A) X, float(N,B) Y) -> (Z) { Z = concat(X, Y) }",
        {"Z": [("0", "N"), ("0", "A+B")]},
        "N A B",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_symbolic_ranges_evaluate_to_the_expected(name: str) -> None:
    source, expected, sizes = CASES[name]
    _, found = ranges_of(source)
    assert found.keys() == expected.keys()
    names = sizes.split()
    for values in itertools.islice(itertools.product((23, 30, 41), repeat=len(names)), 0, 2000, 7):
        env = dict(zip(names, values, strict=True))
        for kernel in ("KH", "KW", "M", "P"):
            if kernel in env and kernel in ("KH", "KW"):
                env[kernel] %= 7
        for tensor, dims in expected.items():
            for (low, extent), got in zip(dims, found[tensor], strict=True):
                want = (eval(low, {"min": min}, env), eval(extent, {"min": min}, env))
                assert (evaluate(got.min, env), evaluate(got.extent, env)) == want, (tensor, env)


REFUSED = {
    "diagonal of five dimensions": (
        "def f(float(A,B,C,D,E) I) -> (O) { O(i,j,k,l,m) = I(j,i,k,i,l) }",
        "the range of 'm' is unconstrained",
        "TC0301",
    ),
    "only sums": ("def f(float(A,B,C) A) -> (O) { O(i,j) = A(i+j,i+j,i+j) }", "ambiguous", "TC0302"),
    "rotation": ("def f(float(N,M) I) -> (O) { O(i,j) = I(10+i-j,i+j) }", "ambiguous", "TC0302"),
    "no inputs": ("def f() -> (O) { O(i,j) = 3 }", "the range of 'i' is unconstrained", "TC0301"),
    "empty where": (
        "def f() -> (O) { O(i,j) = 3 where i in 8:4, j in 3:20 }",
        "the range of 'i' is 8:4, which has the negative extent -4",
        "TC0304",
    ),
    "run-time stride": (
        "def f(float(I) B, int(1) S) -> (A) { A(i) = B(S(0)*i) }",
        "holds 'i' and data",
        "TC0303",
    ),
    "pool without where": (
        "def f(float(B,C,H,W) in) -> (out) { out(b,c,i,j) max=! in(b,c,2*i+kw,2*j+kh) }",
        "ambiguous",
        "TC0302",
    ),
    "provably outside": (
        "def f(float(N) A) -> (O) { O(i) = A(i) where i in 0:5 O(i) += 1 where i in 0:6 }",
        "outside its range 0:5",
        "TC0305",
    ),
    "unequal concat": (
        "def f(float(3,A) X, float(4,B) Y) -> (Z) { Z = concat(X, Y) }",
        "must be equal",
        "TC0309",
    ),
    "a constant beyond 32 bits": (
        "def f(float(N) A) -> (O) { O(i) = A(i + 5000000000) }",
        "leaves 32 bits",
        "TC0308",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    source, message, code = REFUSED[name]
    with pytest.raises(RangeError, match=None) as e:
        ranges_of(source)
    assert message in e.value.message and e.value.code == code


def test_scalars_leave_a_range_open_until_they_are_known() -> None:
    source = """def sconv2d(int sh, int sw, float(N,C,H,W) I, float(F,C,KH,KW) W, float(F) B) -> (O) {
      O(n,f,h,w) = B(f)
      O(n,f,h,w) += I(n,c,sh*h+kh,sw*w+kw) * W(f,c,kh,kw) }"""
    ranges, found = ranges_of(source)
    assert not ranges.complete
    assert [str(b) for b in found["O"][2:]] == ["depends on sh", "depends on sw"]
    ranges, found = ranges_of(source, sh=2, sw=3)
    assert ranges.complete
    env = {"H": 20, "KH": 4, "W": 21, "KW": 2}
    assert [evaluate(b.extent, env) for b in found["O"][2:]] == [9, 7]


def test_the_derivation_names_accesses_rounds_and_results() -> None:
    ranges, _ = ranges_of("def f(float(N) B, float(M) K) -> (A) { A(i) +=! B(i+k) * K(k) }")
    steps = [(s.round, s.variable, s.access, s.hi) for s in ranges.steps if s.hi != "+inf"]
    assert steps == [(1, "k", "K(k)", "M - 1"), (2, "i", "B(i+k)", "N - M")]


def test_order_of_variables_and_accesses_does_not_matter() -> None:
    import random

    factors = ["I(n,c,h+kh,w+kw)", "W1(m,c,kh,kw)", "B(m)"]
    texts = set()
    for seed in range(6):
        random.Random(seed).shuffle(factors)
        _, found = ranges_of(
            "def f(float(N,C,H,W) I, float(M,C,KH,KW) W1, float(M) B) -> (O) { O(n,m,h,w) +=! "
            + " * ".join(factors)
            + " }"
        )
        texts.add(str(found))
    assert len(texts) == 1


def test_reads_of_a_tensor_whose_range_comes_later_are_checked_too() -> None:
    # When the second statement is solved, nothing has given T its range yet; it then gives it itself.
    source = """def f(float(K) A) -> (T) {
      T(i) += A(max(i-1,0))
      T(i) +=! T(2*i) where i in 1:2 }"""
    ranges, _ = ranges_of(source)
    left = [(o.statement, o.tensor, o.condition) for o in ranges.obligations if o.tensor == "T"]
    assert left == [(1, "T", None)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(float(N) T, int(M) I) -> (O) { O(i) = T(I(i)) }", {(None, True)}),
        ("def f(float(N) T, int(M) I) -> (O) { O(i) = T(min(I(i), 5)) }", {(6, False), (None, True)}),
        ("def f(float(N) T, int(M) I) -> (O) { O(i) = T(min(max(I(i), 2), 5)) }", {(6, False)}),
        # No size makes it right, but it is no data.
        ("def f(float(N) T) -> (O) { O(i) = T(i + N) where i in 0:2 }", {(None, False)}),
    ],
)
def test_only_data_that_nothing_bounds_is_checked_when_read(
    source: str, expected: set[tuple[int | None, bool]]
) -> None:
    """A clamp to constants needs a tensor of so many elements at the call."""
    ranges, _ = ranges_of(source)

    def needed(o: Obligation) -> int | None:
        if o.condition is None:
            return None
        return next(n for n in range(1, 20) if evaluate(o.condition, {"N": n, "M": 4}))

    assert {(needed(o), o.data_dependent) for o in ranges.obligations} == expected


@pytest.mark.parametrize(
    ("subscript", "allowed"),
    [
        ("min(X(i) % (2 * N), 2 * N - 1 - X(i) % (2 * N))", True),
        ("min(X(i) % (2 * N - 2), 2 * N - 2 - X(i) % (2 * N - 2))", True),
        ("N - 1 - min(X(i) % (2 * N), 2 * N - 1 - X(i) % (2 * N))", True),
        ("max(X(i) % N, N - X(i) % N) - (N + 1) / 2", True),
        ("max(X(i) % N, N - X(i) % N) - N / 2 - 1", False),  # -1 where N is even and X(i) is N / 2
        ("min(X(i) % (2 * N), 2 * N - X(i) % (2 * N))", False),  # may be N
        ("min(X(i) % (2 * N), 2 * N - 1 - Y(i) % (2 * N))", False),
        ("min(X(i) % (2 * N), 2 * N - 1 - X(i + 1) % (2 * N))", False),
    ],
)
def test_of_two_values_with_a_known_sum_one_is_at_most_half_of_it(subscript: str, allowed: bool) -> None:
    """What `reflect` and `symmetric` map subscripts to, written out."""
    source = f"def f(float(N) T, int(M) X, int(M) Y) -> (O) {{ O(i) = T({subscript}) where i in 0:M-1 }}"
    ranges, _ = ranges_of(source)
    left = [o.condition for o in ranges.obligations if o.tensor == "T"]
    holds = [all(c is not None and evaluate(c, {"N": n, "M": 4}) for c in left) for n in range(1, 12)]
    assert all(holds) if allowed else not all(holds[4:])


@pytest.mark.parametrize(
    ("subscript", "guard", "necessary"),
    [
        ("i * j", "", True),
        ("i * K - j", "", True),
        ("i / K + j", "", True),
        ("i * i - i", "", False),  # of i in 0:3 it is 0, 0, 2: intervals give -2 to 4
        ("i * j + j - i", "", False),
        ("(i * j) % K", "", False),  # may be less than K - 1
        ("i * j", "i < K", False),
    ],
)
def test_what_sizes_cannot_tell_is_checked_when_read(subscript: str, guard: str, necessary: bool) -> None:
    """A call that breaks a condition is refused only if it certainly reads what is not there."""
    read = f"{guard} ? T({subscript}) : 0" if guard else f"T({subscript})"
    source = f"def f(float(N) T, float(M) A, float(K) B) -> (O) {{ O(i,j) = {read} + A(i) + B(j) }}"
    ranges, _ = ranges_of(source)
    assert {o.necessary for o in ranges.obligations} == {necessary}
    kernel = tc.compile(source, "reference")
    assert any("T(" in p.reason for p in kernel.preconditions) == necessary


def test_a_subscript_that_is_not_affine_is_refused_only_where_it_reads_too_far() -> None:
    kernel = tc.compile(
        "def f(float(N) T, float(M) A) -> (O) { O(i) = T(i*i - i) * A(i) where i in 0:M }", "reference"
    )
    t, a = np.arange(10, dtype=np.float32), np.ones(3, np.float32)
    np.testing.assert_array_equal(kernel(t, a), [0, 0, 2])
    assert kernel.notes == ("T(i*i - i) is checked when the kernel runs",)
    with pytest.raises(tc.BoundsError, match="index 2 is out of range for dimension 0 of 'T'"):
        kernel(t[:2], a)


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_a_choice_below_a_guard_is_checked_when_read() -> None:
    """Its bounds over all values of the variable are not those of what is read."""
    source = """def f(float(N) T, int(M) X) -> (O) {
      O(i) = i >= 2 && i < N + 2 ? T(select(X(i) > 0, i - 2, 0)) : 0.0 where i in 0:M
    }"""
    t, x = np.arange(3, dtype=np.float32), np.ones(9, np.int32)
    np.testing.assert_array_equal(tc.compile(source, "reference")(t, x), [0, 0, 0, 1, 2, 0, 0, 0, 0])
    kernel = tc.compile(source.replace(" && i < N + 2", ""), "reference")
    x[5:] = 0
    np.testing.assert_array_equal(kernel(t, x), [0, 0, 0, 1, 2, 0, 0, 0, 0])
    x[5:] = 1
    with pytest.raises(tc.BoundsError, match="index 3 is out of range for dimension 0 of 'T'"):
        kernel(t, x)


@pytest.mark.parametrize("other", ["k in 0:K", "k in 1:min((P + 1)/5, min(K, P, N, M, 4) - 1) + 1"])
def test_conditions_keep_a_target_in_its_range_whatever_other_variables_do(other: str) -> None:
    """The solver missed it among many facts."""
    between = "min(P, T - min(K, P, N, M, 4) + 6)"
    kernel = tc.compile(
        f"""def f(int(K,P,N) A, int(K,M) B, int(T) t) -> (d) {{
          d(l,u) = 0 where l in 0:P, u in 0:N
          d(l,j-2) += B(k,j) * A(i,l,0) + t(0)
            where l in min(max(0, 6 - min(K, P, N, M, 4)), {between}):{between}, {other},
              i in 1:K, j in 0:min(N + 2, M), k <= i, j - 2 >= 2 - j
        }}""",
        "reference",
    )
    ones = [np.ones(shape, np.int32) for shape in ((5, 9, 5), (5, 8), (6,))]
    first = 0 if other == "k in 0:K" else 1
    count = sum(k <= i for i in range(1, 5) for k in range(first, 5 if first == 0 else 3))
    want = np.zeros((9, 5))
    want[2:8] = 2 * count
    np.testing.assert_array_equal(kernel(*ones), want)


def test_the_text_of_a_subscript_has_its_parentheses() -> None:
    source = "def f(float(N) T, float(M) A) -> (O) { O(i) = T((i + 1) * (2 + 1)) * A(i) where i in 0:M }"
    kernel = tc.compile(source, "reference")
    assert {p.reason for p in kernel.preconditions} == {"T((i + 1) * (2 + 1)) would be out of bounds"}
    assert {p.span.text for p in kernel.preconditions} == {"(i + 1) * (2 + 1)"}

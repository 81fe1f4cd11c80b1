"""Gradients and tangents of sequential loops."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tc
from fuzz.gradients import check
from fuzz.strategies import Program

PROGRAMS: dict[str, tuple[str, Mapping[str, int]]] = {
    "rnn in rows": (
        """def f(double(T,I) x, double(H,I) w, double(H,H) u, double(H) h0) -> (h) {
             h(0,j) = h0(j)
             for t in 0:T {
               z(j) +=! w(j,i) * x(t,i)
               z(j) += u(j,k) * h(t,k)
               h(t + 1,j) = tanh(z(j))
             }
           }""",
        {"T": 4, "I": 3, "H": 2},
    ),
    "rnn with a state": (
        """def f(double(T,I) x, double(H,I) w, double(H,H) u, double(H) h0) -> (h, o) {
             h(j) = h0(j)
             for t in 0:T {
               z(j) +=! w(j,i) * x(t,i)
               z(j) += u(j,k) * h(k)
               h(j) = tanh(z(j))
               o(t) +=! h(j)
             }
           }""",
        {"T": 4, "I": 3, "H": 2},
    ),
    "lstm": (
        """def f(double(T,B,I) x, double(Q,H,I) w, double(Q,H,H) u) -> (o, c) {
             h(b,j) = 0.0 where b in 0:B, j in 0:H
             c(b,j) = 0.0 where b in 0:B, j in 0:H
             for t in 0:T {
               g(b,q,j) +=! x(t,b,i) * w(q,j,i)
               g(b,q,j) += h(b,k) * u(q,j,k)
               c(b,j) = sigmoid(g(b,1,j)) * c(b,j) + sigmoid(g(b,0,j)) * tanh(g(b,2,j))
               h(b,j) = sigmoid(g(b,3,j)) * tanh(c(b,j))
               o(t,b,j) = h(b,j)
             }
           }""",
        {"T": 3, "B": 2, "I": 3, "H": 2, "Q": 4},
    ),
    "running sum": (
        """def f(double(N) x) -> (y) {
             y(0) = x(0)
             for i in 1:N {
               y(i) = y(i - 1) + x(i) * x(i)
             }
           }""",
        {"N": 6},
    ),
    "running product": (
        """def f(double(N) x) -> (y) {
             y(0) = x(0)
             for i in 1:N {
               y(i) = y(i - 1) * x(i)
             }
           }""",
        {"N": 6},
    ),
    "scalar recurrence": (
        """def f(double(N) x, double(N) a) -> (s) {
             s = 0.0
             for i in 0:N {
               s = a(i) * s + x(i)
             }
           }""",
        {"N": 6},
    ),
    "selective scan": (
        """def f(double(T,D) x, double(T,D) dt, double(D,S) A, double(T,S) B, double(T,S) C) -> (y) {
             h(d,s) = 0.0 where d in 0:D, s in 0:S
             for t in 0:T {
               h(d,s) = exp(dt(t,d) * A(d,s)) * h(d,s) + dt(t,d) * B(t,s) * x(t,d)
               y(t,d) +=! h(d,s) * C(t,s)
             }
           }""",
        {"T": 4, "D": 3, "S": 2},
    ),
    "lu in place": (
        """def f(double(N,N) X) -> (A) {
             A(i,j) = X(i,j) + (i == j ? 5.0 : 0.0)
             for k in 0:N {
               A(i,j) += -A(i,k) * A(k,j) / A(k,k) where i in k + 1:N, j in k + 1:N
             }
           }""",
        {"N": 4},
    ),
    "lu scaled": (
        """def f(double(N,N) X) -> (A) {
             A(i,j) = X(i,j) + (i == j ? 5.0 : 0.0)
             for k in 0:N {
               A(i,k) = A(i,k) / A(k,k) where i in k + 1:N
               A(i,j) += -A(i,k) * A(k,j) where i in k + 1:N, j in k + 1:N
             }
           }""",
        {"N": 4},
    ),
    "triangular solve": (
        """def f(double(N,N) L, double(N) b) -> (x) {
             for k in 0:N {
               s +=! L(k,j) * x(j) where j in 0:k
               x(k) = (b(k) - s) / (L(k,k) + 3)
             }
           }""",
        {"N": 5},
    ),
    "back substitution": (
        """def f(double(N,N) L, double(N) b) -> (x) {
             for k in N - 1:-1:-1 {
               s +=! L(k,j) * x(j) where j in k + 1:N
               x(k) = (b(k) - s) / (L(k,k) + 3)
             }
           }""",
        {"N": 5},
    ),
    "cholesky": (
        """def f(double(N,N) X) -> (L) {
             A(i,j) +=! X(i,k) * X(j,k)
             L(i,j) = 0.0 where i in 0:N, j in 0:N
             for k in 0:N {
               d +=! L(k,j) * L(k,j) where j in 0:k
               L(k,k) = sqrt(A(k,k) + 4 - d)
               s(i) +=! L(i,j) * L(k,j) where i in 0:N, j in 0:k
               L(i,k) = (A(i,k) - s(i)) / L(k,k) where i in k + 1:N
             }
           }""",
        {"N": 4},
    ),
    "heat in rows": (
        """def f(double(N) u0) -> (u) {
             u(0,i) = u0(i)
             for t in 0:4 {
               l(i) = u[clamp](t,i - 1) - 2 * u(t,i) + u[clamp](t,i + 1) where i in 0:N
               u(t + 1,i) = u(t,i) + 0.2 * l(i) * u(t,i)
             }
           }""",
        {"N": 6},
    ),
    "heat with a state": (
        """def f(double(N) u0) -> (u) {
             u(i) = u0(i)
             for t in 0:4 {
               l(i) = u[zero](i - 1) - 2 * u(i) + u[zero](i + 1) where i in 0:N
               u(i) = u(i) + 0.2 * l(i) * u(i)
             }
           }""",
        {"N": 6},
    ),
    "floyd-warshall": (
        """def f(double(N,N) W) -> (D) {
             D(i,j) = fabs(W(i,j)) + (i == j ? 0.0 : 1.0)
             for k in 0:N {
               r(j) = D(k,j)
               c(i) = D(i,k)
               D(i,j) min= c(i) + r(j)
             }
           }""",
        {"N": 4},
    ),
    "viterbi": (
        """def f(double(T,S) x, double(S,S) A) -> (v) {
             v(0,s) = x(0,s)
             for t in 1:T {
               v(t,s) max=! v(t - 1,r) + A(r,s)
               v(t,s) += x(t,s)
             }
           }""",
        {"T": 4, "S": 3},
    ),
    "viterbi with a state": (
        """def f(double(T,S) x, double(S,S) A) -> (v) {
             v(s) = x(0,s)
             for t in 1:T {
               m(s) max=! v(r) + A(r,s)
               v(s) = m(s) + x(t,s)
             }
           }""",
        {"T": 4, "S": 3},
    ),
    "nested": (
        """def f(double(T,N) x) -> (s) {
             s = 0.0
             for t in 0:T {
               y(0) = x(t,0)
               for k in 1:N {
                 y(k) = y(k - 1) * x(t,k) + s
               }
               s = s + y(N - 1)
             }
           }""",
        {"T": 3, "N": 4},
    ),
    "nested triangular": (
        """def f(double(N) x) -> (s) {
             s = 1.0
             for t in 0:N {
               for k in t:N {
                 s = s * x(k) + x(t)
               }
             }
           }""",
        {"N": 4},
    ),
    "overwritten rows": (
        """def f(double(N,M) x, double(M) b) -> (y) {
             y(i,j) = x(i,j) * b(j)
             for k in 0:N {
               y(k,j) = x(k,j) * x(k,j) where j in 0:M / 2
             }
           }""",
        {"N": 3, "M": 5},
    ),
    "last one wins": (
        """def f(double(T,N) x) -> (y) {
             y(i) = x(0,i) * 2
             for t in 1:T {
               y(i) = x(t,i) * x(t,i)
             }
           }""",
        {"T": 3, "N": 4},
    ),
    "loop only reads": (
        """def f(double(T,N) x, double(N) w) -> (y) {
             e(i) = exp(w(i))
             for t in 0:T {
               y(t) +=! x(t,i) * e(i)
             }
           }""",
        {"T": 3, "N": 4},
    ),
    "accumulates": (
        """def f(double(T,N) x, double(N) w) -> (y) {
             y(i) = 0.0 where i in 0:N
             for t in 0:T {
               y(i) += x(t,i) * w(i)
             }
           }""",
        {"T": 3, "N": 4},
    ),
    "read, then overwritten": (
        """def f(double(N) x) -> (z, o) {
             y(i) = x(i) * 2
             o +=! y(i) * y(i)
             for k in 1:N {
               y(k) = y(k - 1) * x(k)
             }
             z(i) = y(i) * x(i)
           }""",
        {"N": 5},
    ),
    "product of a row": (
        """def f(double(T,N) x) -> (y) {
             y(0) = 1.0
             for t in 0:T {
               p *=! x(t,i)
               y(t + 1) = y(t) * p
             }
           }""",
        {"T": 3, "N": 3},
    ),
    "counter in values": (
        """def f(double(T) x) -> (s) {
             s = 0.0
             for t in 0:T {
               s = s * (t + 1) + x(t) * t
             }
           }""",
        {"T": 4},
    ),
    "two loops": (
        """def f(double(T,N) x) -> (z) {
             h(0,i) = x(0,i)
             for t in 1:T {
               h(t,i) = h(t - 1,i) * x(t,i)
             }
             g(T - 1,i) = h(T - 1,i)
             for t in T - 2:-1:-1 {
               g(t,i) = g(t + 1,i) * 0.5 + h(t,i) * x(t,i)
             }
             z(t,i) = g(t,i) * h(t,i)
           }""",
        {"T": 4, "N": 3},
    ),
    "all of the history": (
        """def f(double(T,T) a, double(T) x) -> (y) {
             for t in 0:T {
               s +=! a(t,k) * y(k) where k in 0:t
               y(t) = x(t) + s * x(t)
             }
           }""",
        {"T": 5},
    ),
    "gauss-seidel": (
        """def f(double(N,N) A, double(N) b) -> (x) {
             x(i) = 0.0 where i in 0:N
             for s in 0:2 {
               for i in 0:N {
                 r +=! (j == i ? 0.0 : A(i,j)) * x(j)
                 x(i) = (b(i) - r) / (A(i,i) + 4)
               }
             }
           }""",
        {"N": 3},
    ),
    "before the loop": (
        """def f(double(N) x) -> (y, o) {
             y(0) = x(0) * x(0)
             o = y(0) * x(1)
             for i in 1:N {
               y(i) = y(i - 1) * x(i)
             }
           }""",
        {"N": 5},
    ),
    "after the loop": (
        """def f(double(N) x) -> (y) {
             for i in 0:N {
               y(i) = x(i) * x(i)
             }
             y(N) = 3.0 * x(0)
           }""",
        {"N": 5},
    ),
    "fold of a matrix": (
        """def f(double(T,N,N) M, double(N) v) -> (y) {
             y(i) = v(i)
             for t in 0:T {
               n(i) +=! M(t,i,j) * y(j)
               y(i) = n(i)
             }
           }""",
        {"T": 3, "N": 3},
    ),
    "gathered rows": (
        """def f(double(V,H) E, int(T) w, double(H,H) u) -> (h) {
             h(j) = 0.0 where j in 0:H
             for t in 0:T {
               z(j) +=! u(j,k) * h(k)
               h(j) = tanh(z(j) + E(w(t),j))
             }
           }""",
        {"V": 2, "H": 2, "T": 4},
    ),
    "scattered": (
        """def f(double(T,H) x, int(T) w) -> (y) {
             y(i) = 0.0 where i in 0:4
             for t in 0:T {
               y(w(t)) += x(t,j) * x(t,0)
             }
           }""",
        {"T": 3, "H": 2},
    ),
    "rows that an extreme goes on": (
        """def f(double(T,K,N) x) -> (h) {
             for t in 0:T {
               h(t,k) = x(t,k,0) * x(t,k,1)
               h(t,k) max= x(t,k,n) * x(t,k,n)
             }
           }""",
        {"T": 3, "K": 2, "N": 3},
    ),
    "in halves": (
        """def f(double(T,N) x) -> (y) {
             h(i) = x(0,i)
             for t in 1:T {
               h(i) = h(i) * x(t,i) where i in 0:N / 2
               h(i) = h(i) + x(t,i) where i in N / 2:N
             }
             y(i) = h(i) * h(i)
           }""",
        {"T": 4, "N": 5},
    ),
}


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.share(48)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_gradients_and_tangents_are_derivatives(name: str, backend: str) -> None:
    source, sizes = PROGRAMS[name]
    for ties in ("first", "split"):
        assert check(Program(source, sizes, "small", 1), backend, ties) == "right"


def test_weights_of_a_recurrent_layer_get_one_product_after_the_loop() -> None:
    source = tc.grad(PROGRAMS["rnn in rows"][0])
    after = source[source.rindex("}\n  d_h_2_at_2") :]
    assert "d_u(j,k) +=! d_z(t_, j) * h(t_, k) where j in 0:H, k in 0:H, t_ in 0:T" in after
    assert "d_w" not in source[: source.index("  }\n  d_h_2_at_2")].split("{", 1)[1]


def test_a_loop_that_is_not_read_later_needs_no_states() -> None:
    """What a loop leaves behind is read of the tensor itself: rows are kept as they are."""
    source = tc.grad(PROGRAMS["lu in place"][0])
    assert "A(i,j) += " in source
    assert "A(k" not in source.split("for k")[0]


def test_an_iteration_keeps_what_the_next_does_not_read() -> None:
    source = tc.grad(PROGRAMS["rnn with a state"][0])
    assert "z(j) +=! w(j, i) * x(t, i)" in source  # and no row of z in each iteration


def test_extents_that_are_no_sums_of_counters() -> None:
    with pytest.raises(tc.SemanticError, match="how 't' decides t \\* t is beyond") as e:
        tc.grad(
            """def f(double(N) x) -> (s) {
                 s = 0.0
                 for t in 0:N { for k in 0:t*t { q = s * x(t) s = s + q*q } }
               }"""
        )
    assert e.value.code == "TC0242"


def test_no_iterations() -> None:
    source = PROGRAMS["rnn with a state"][0]
    x, w, u, h0 = np.ones((0, 3)), np.ones((2, 3)), np.ones((2, 2)), np.ones(2)
    d_x, d_w, d_u, d_h0 = tc.compile(tc.grad(source))(x, w, u, h0, np.array([2.0, 3.0]), np.ones(0))
    assert d_x.shape == (0, 3)
    np.testing.assert_array_equal(d_h0, [2, 3])
    assert not d_w.any()
    assert not d_u.any()


def test_it_is_float32_where_the_def_is() -> None:
    source = "def f(float(N) x) -> (s) { s = 0.0 for t in 0:N { s = s * x(t) + 1 } }"
    d = tc.compile(tc.grad(source))(np.full(3, 2, "f4"), np.float32(1))
    assert d.dtype == np.float32
    np.testing.assert_array_equal(d, [0, 2, 3])  # s before: 0, 1, 3


def test_gates_of_a_cell_define_the_parts_of_the_adjoint() -> None:
    source = tc.grad(
        """def f(double(N,G) a, double(N,H) c) -> (h) {
             h(n,j) = sigmoid(a(n,j)) * c(n,j) + sigmoid(a(n,H+j)) where j in 0:H
           }""",
        "a",
    )
    lines = [line for line in source.splitlines() if line.startswith("  d_a(n,j) =")]
    ranges = [line.rpartition("j in ")[2].partition(", e = ")[0] for line in lines]
    assert ranges == ["0:min(H, G)", "min(H, G):min(2 * H, G)"]
    assert "?" not in source


def test_reads_of_the_same_elements_stay_one_sum() -> None:
    source = tc.grad("def f(double(N) x) -> (y) { y(i) = x(i) * x(N-1-i) + x(i+1) where i in 0:N-1 }")
    assert source.count("  d_x(") == 1


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_an_extreme_of_the_iterations_before_leaves_the_first_one_nothing(backend: str) -> None:
    source = "def f(double(N) x) -> (m) { for t in 0:N { m(t) max=! x(k) * x(t) where k in 0:t } }"
    x, d_m = np.array([3.0, 1.0, 4.0, 2.0]), np.array([1.0, 10.0, 100.0, 1000.0])
    found = tc.compile(tc.grad(source), backend=backend)(x, d_m)
    np.testing.assert_array_equal(found, [1 * 10 + 4 * 100, 3 * 10, 3 * 100 + 2 * 1000, 4 * 1000])

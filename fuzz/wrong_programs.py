"""Miscompilations of the passes over programs: a fault in each, which running the program before and after
the pass shows (`tc.pipeline.equivalence`), or the form of the program (`tc.ir.verify`)."""
# ruff: noqa: E501 - a table of programs

from __future__ import annotations

from typing import Any

from fuzz.judging import Miscompilation, on

# Caches so small that a temporary of a few kilobytes is worth computing again.
SMALL: dict[str, Any] = {"machine": {"l2": 1024, "l3": 4096}}
EARLY: dict[str, Any] = {"machine": {"l1": 64}}
# One block of one thread updates results atomically with another one.
ATOMIC: dict[str, Any] = {"atomics": True, "threads": (32,), "blocks": (4,)}
TIME_STEPS = (
    "def f(float(N,M) A) -> (u) { u(i,j) = A(i,j) for t in 0:6 {"
    " v(i,j) = 0.5 * (u[clamp](i-1,j) + u[clamp](i+1,j)) where i in 0:N, j in 0:M u(i,j) = v(i,j) } }"
)
AROUND = "def f(float(N,M) A) -> (B) { B(i,j) = A(i,j) for t in 1:N { B(t,j) = B[none,wrap](t-1,j+1) + B[none,wrap](t-1,j-1) where j in 0:M } }"
TOTAL = "def f(float(N) A) -> (S) { S +=! A(i) }"
LEAST = "def f(float(N) A) -> (S) { S min=! A(i) }"
DIFFERENCE_OF_PRODUCTS = (
    "def f(float(I,K) A, float(K,J) B, float(K,J) C) -> (y) { y(i,j) +=! A(i,k) * B(k,j) - A(i,k) * C(k,j) }"
)
DIFFERENCE = (
    "def f(float(N) A, float(M,K) B) -> (O) { O(i,j) +=! (A(i-k+7) * 2 - 1) * B(j,k) where i in 0:12 }"
)
STENCIL = """def f(float(N,M) A) -> (C) {
  t(i,j) = A(i,j) * A(i,j+1) where i in 0:N, j in 0:M-1
  C(i,j) = t(i,j) + t(i+1,j) + t(i,j+2)
}"""
PADDED = """def f(float(N,C,H) I, float(F,C,K) W) -> (O) {
  O(n,f,h) +=! (h + k >= 1 && h + k <= H ? I(n,c,h+k-1) : 0) * W(f,c,k) where h in 0:H
}"""
PREFIX = "def f(float(N,D) A) -> (y) { y(n,d) +=! A(n,k) where k <= d, d in 0:D }"
STRIDED = "def f(float(C,N) x, float(C,K) w) -> (y) { y(h) +=! (h-i) % 2 == 0 && h >= i && h-i < 2*N ? x(c,(h-i)/2) * w(c,i) : 0 where h in 0:2*N+1 }"
QUANTIZED = "def f(int8(M,K) a, uint8(K,N) b, int(M) p) -> (c) { c(i,j) +=! (int32(a(i,k)) - p(i)) * (int32(b(k,j)) + 128) }"
RESIZED = "def f(float(N) A) -> (y) { y(i) = A[clamp]((i + 1) / 2 - 1) where i in 0:2*N }"
BATCHED = """def f(float(N,C,W) X, float(H,C,A,B) K, float(A,A) T) -> (Y) {
  V(n,c,a,b) +=! T(a,p) * X(n,c,p+b)
  Y(n,h,a,b) +=! V(n,c,a,b) * K(h,c,a,b)
}"""
PRODUCTS = """def f(float(F,C,A) u, float(N,C,I,J,B) x, float(A,B) T, float(P,A) d) -> (y) {
  v(n,c,i,j,a) +=! x(n,c,i,j,b) * T(a,b)
  m(n,f,i,j,a) +=! u(f,c,a) * v(n,c,i,j,a)
  t(n,f,i,j,p) +=! m(n,f,i,j,a) * d(p,a)
  y(n,f,h,g,p) = t(n,f,h/2,g/2,p) where h in 0:2*I, g in 0:2*J
}"""
MANY = {"F": 17, "C": 3, "A": 5, "B": 2, "N": 2, "I": 3, "J": 4, "P": 2}
TRANSFORM = "def f(complex64(B,N) x) -> (y) { a(b,i) = x(b,i) for s in 0:2 { u(b,i) = a(b,i) * x(b,i) a(b,i) = u(b,i) - x(b,i) } y(b,i) = a(b,N-1-i) }"

WRONG_PROGRAMS = (
    Miscompilation(
        "a negated condition goes to the iteration domain as it is",
        "guards._conjuncts",
        "return [_NEGATED[type(c)](c.a, c.b)]",
        "return [c]",
        (
            on(
                "equivalence",
                "def f(float(N,M) A) -> (s) { s(i) +=! j < 3 ? 0 : A(i,j) }",
                N=5,
                M=9,
            ),
        ),
    ),
    Miscompilation(
        "a temporary that is computed where it is read has its coordinates the wrong way round",
        "inline._inlined",
        "dict(zip(names, c.args, strict=True))",
        "dict(zip(reversed(names), c.args, strict=True))",
        (on("equivalence", STENCIL, SMALL, N=40, M=40),),
    ),
    Miscompilation(
        "an operand that is computed once is read at coordinates without their constants",
        "coordinates.moved",
        "rest = substitute(x, nothing)",
        "rest = substitute(x, nothing) if x.dtype != INDEX else ZERO",
        (on("equivalence", PADDED, N=4, C=8, H=40, F=64, K=3),),
    ),
    Miscompilation(
        "a loop of a reduction is lost where loops change places",
        "interchange._ordered",
        "Domain((*pure, *out), stage.domain.conditions)",
        "Domain((*pure, *out[1:]), stage.domain.conditions)",
        (
            on(
                "structure",
                "def f(float(N,M,K) A, float(K) W) -> (s) { s(n) +=! W(i) * A(n,j,i) }",
                N=5,
                M=9,
                K=7,
            ),
        ),
    ),
    Miscompilation(
        "chunks that blocks update atomically all begin where the first does",
        "rfactor.chunked_reductions",
        "value=substitute(stage.value, dict(cut.at))",
        "value=substitute(stage.value, {n: simplify(substitute(e, {v.name: IntImm(0) for v in cut.outer}), exact=True) for n, e in cut.at.items()})",
        (on("equivalence", "def f(float(N) A) -> (S) { S +=! A(i) }", ATOMIC, backend="opencl", N=5_003),),
    ),
    Miscompilation(
        "a temporary is inlined with its indices in the order of their names",
        "inline._inlined.value",
        "dict(zip(names, c.args, strict=True))",
        "dict(zip(sorted(names), c.args, strict=True))",
        (
            on(
                "equivalence",
                "def f(float(N,M) A) -> (C) { t(j,i) = A(i,j) * 2\nC(i,j) = t(j,i) + t(j+1,i) where i in 0:N, j in 0:M-1 }",
                {"machine": {"l2": 64}},
                N=9,
                M=9,
            ),
        ),
    ),
    Miscompilation(
        "a temporary is inlined into a statement that overwrites what it is made of",
        "inline._rewritten",
        "program.stages[start : end + 1]",
        "program.stages[start:end]",
        (
            on(
                "equivalence",
                "def f(float(N) A) -> (B) { B(i) = A(i)\nt(i) = B(i) * 2\nB(i) = t(i) + t(i-1) where i in 1:N }",
                {"machine": {"l2": 16}},
                N=9,
            ),
            on(
                "equivalence",
                "def f(float(N) A) -> (B) { B(i) = A(i)\nt(i) = B(i) * 2\nB(i) = t(i) + t(i-1) where i in 1:N }",
                {"machine": {"l2": 16}},
                N=3000,
            ),
        ),
    ),
    Miscompilation(
        "an operand begins where no difference is negative",
        "coordinates.domain_of",
        "least = ranges[n].min if c > 0 else Add(ranges[n].min, last)",
        "least = ranges[n].min",
        (on("equivalence", DIFFERENCE, N=20, M=64, K=8),),
    ),
    Miscompilation(
        "an operand of results that are not there yet",
        "coordinates.movable",
        "if data or x.checked or program.func_buffers.get(x.name) == own:",
        "if data or x.checked:",
        (
            on(
                "structure",
                "def f(float(N) A, float(M,M) B) -> (O) { O(i) = A(i)\nO(i) += (O(k) * 2 - 1) * B(i,j) where i in 0:8, k in 8:16, j in 0:M }",
                N=16,
                M=64,
            ),
        ),
    ),
    Miscompilation(
        "an operand is read where the sum of two loops is, not their difference",
        "coordinates.sum_of",
        "        total = Add(total, Mul(IntImm(c), Variable(n)))",
        "        total = Add(total, Variable(n))",
        (on("equivalence", DIFFERENCE, N=20, M=64, K=8),),
    ),
    Miscompilation(
        "a product that is subtracted is added",
        "addends._addends",
        "*map(_negated, _addends(e.b))",
        "*_addends(e.b)",
        (on("equivalence", DIFFERENCE_OF_PRODUCTS, I=18, J=17, K=70),),
    ),
    Miscompilation(
        "the first of several products is lost",
        "addends.separate",
        "stages += made",
        "stages += made[1:]",
        (on("equivalence", DIFFERENCE_OF_PRODUCTS, I=18, J=17, K=70),),
    ),
    Miscompilation(
        "factors before those that are summed first are lost",
        "partial_sums._Search.step",
        "factors = [*path.factors[:first], read, *others]",
        "factors = [read, *others]",
        (
            on(
                "equivalence",
                "def f(float(I,J) A, float(J,K) B, float(K,L) C) -> (y) { y(i,l) +=! A(i,j) * B(j,k) * C(k,l) }",
                I=40,
                J=40,
                K=40,
                L=4,
            ),
        ),
    ),
    Miscompilation(
        "the parts of a maximum begin with 0",
        "partial_sums._rewritten",
        "value=neutral(stage.op, t)",
        'value=neutral("+", t)',
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (y) { y(i,j) max=! -abs(A(i+p,j+q)) - 1 where p in 0:7, q in 0:7 }",
                N=40,
            ),
        ),
    ),
    Miscompilation(
        "part of a row is merged with the rows",
        "collapse._merge",
        "if (ranges[i], ranges[j]) != buffers[a.buffer].box[d : d + 2]:",
        "if False:",
        (
            on(
                "equivalence",
                "def f(float(N,M) A, float(N,M) B) -> (C) { C(i,j) = A(i,j) + B(i,j) where j in 0:M-1 }",
                N=5,
                M=9,
            ),
        ),
    ),
    Miscompilation(
        "loops that run the other way round are merged",
        "collapse._together",
        "if len(kinds) > 1 or order.index(i) > order.index(j):\n        return False",
        "if len(kinds) > 1 or order.index(i) > order.index(j):\n        return True",
        (on("structure", "def f(float(N) B, float(M,N) A) -> (S) { S +=! B(i) * A(j,i) }", N=9, M=7),),
    ),
    Miscompilation(
        "the last part of a long reduction is lost",
        "rfactor._parts",
        "FloorDiv(Add(extent, IntImm(size - 1)), IntImm(size))",
        "FloorDiv(extent, IntImm(size))",
        (on("equivalence", TOTAL, N=150_001),),
    ),
    Miscompilation(
        "the last part of a long reduction is as long as the others",
        "rfactor._parts",
        "if not isinstance(extent, IntImm) or extent.value % size:",
        "if False:",
        (on("death", TOTAL, N=150_001),),
    ),
    Miscompilation(
        "parts of every long reduction start from 0",
        "rfactor._factored",
        "start_value = neutral(stage.op, dtype)",
        'start_value = neutral("+", dtype)',
        (on("equivalence", LEAST, values={"A": (5, 7, 9)}, N=150_001),),
    ),
    Miscompilation(
        "the last chunk of a prefix is as long as the others",
        "prefixes._Rewriter.chunks",
        "return [] if whole else [LT(at, extent)]",
        "return []",
        (on("equivalence", PREFIX.replace("k <= d", "k >= d"), N=3, D=99),),
    ),
    Miscompilation(
        "what is before a chunk has the chunk",
        "prefixes._Rewriter.chunks",
        "(GT if p.suffix else LT)",
        "(GE if p.suffix else LE)",
        (on("equivalence", PREFIX, N=3, D=99),),
    ),
    Miscompilation(
        "a prefix that ends before a point has the point",
        "prefixes._Rewriter.chunks",
        "strict = p.offset != 0",
        "strict = False",
        (on("equivalence", PREFIX.replace("k <= d", "k < d"), N=3, D=99),),
    ),
    Miscompilation(
        "a shifted prefix begins with the first point",
        "prefixes._Rewriter.from_prefixes",
        "Min(p.bound, last), GE(p.bound, first)",
        "Min(p.bound, last), GE(last, first)",
        (on("equivalence", PREFIX.replace("k <= d", "k <= d - 7"), N=3, D=99),),
    ),
    Miscompilation(
        "sums of nothing are divided by 0",
        "divisors._is_positive",
        "return bounds is not None and bounds[0] > 0 and bounds[1] <= _LARGEST",
        "return True",
        (
            on(
                "equivalence",
                "def f(float(N,K) A) -> (C) { C(i) +=! A(i,k) / i where k < i, i in 0:N }",
                N=3,
                K=9,
            ),
        ),
    ),
    Miscompilation(
        "all phases have windows of one length",
        "phases.Phase.groups",
        "Group(0, more, length + 1)",
        "Group(0, more, length)",
        (on("equivalence", STRIDED, C=2, N=9, K=3),),
    ),
    Miscompilation(
        "a result takes the phase of its neighbour",
        "phases.Phase.back",
        "Sub(Variable(self.result.name), IntImm(self.origin))",
        "Sub(Variable(self.result.name), IntImm(self.origin - 1))",
        (on("equivalence", STRIDED, C=2, N=9, K=3),),
    ),
    Miscompilation(
        "the last place is that of the last phase",
        "phases.Phase.places",
        "self.origin + self.spread[0]",
        "self.origin + self.spread[1]",
        (on("equivalence", STRIDED, C=2, N=9, K=3),),
    ),
    Miscompilation(
        "a condition that holds at some points holds at all",
        "conditions._Decider.decided",
        "where.is_subset(holds)",
        "not where.is_disjoint(holds)",
        (on("equivalence", RESIZED, N=9),),
    ),
    Miscompilation(
        "a condition holds where its other branch is evaluated",
        "conditions._Decider.value",
        "self.cut(where, condition, False, lets)",
        "self.cut(where, condition, True, lets)",
        (on("equivalence", "def f(float(N) A) -> (y) { y(i) = i > 3 ? A(i) : (i > 2 ? 1.0 : A(i)) }", N=9),),
    ),
    Miscompilation(
        "of two comparisons that a condition becomes the first is left",
        "conditions._Decider.as_sums",
        "for c in found",
        "for c in found[:1]",
        (on("equivalence", "def f(float(N) A) -> (y) { y(i) = (i + 1) / 3 == 2 ? A(i) : 0.0 }", N=9),),
    ),
    Miscompilation(
        "merged short rows have the length of the other dimension",
        "collapse._merged",
        "yield Add(Mul(extents[buffer, d + 1], visit(e)), visit(old[d + 1]))",
        "yield Add(Mul(extents[buffer, d], visit(e)), visit(old[d + 1]))",
        (on("equivalence", BATCHED, N=3, C=4, H=5, W=6, A=4, B=3),),
    ),
    Miscompilation(
        "a merged row that a subscript with a quotient reads has the length of the other dimension",
        "collapse._merged",
        "yield Add(Mul(extents[buffer, d + 1], visit(e)), visit(old[d + 1]))",
        "yield Add(Mul(extents[buffer, d + 1 - (not isinstance(e, Variable))], visit(e)), visit(old[d + 1]))",
        (on("equivalence", PRODUCTS, **MANY),),
    ),
    Miscompilation(
        "the products of a batch are first where they are stored and not where they are written",
        "layout.permuted.stage",
        "return _in_order(replace(s, args=_ordered(s.args, order), checked=checked))",
        "return _in_order(s)",
        (on("equivalence", PRODUCTS, **MANY),),
    ),
    Miscompilation(
        "what is computed of a batch of products has the variables of these alone",
        "batches._following",
        "(*first, *last)",
        "last",
        (on("equivalence", PRODUCTS, **MANY),),
    ),
    Miscompilation(
        "parts are apart where a temporary is written and not where it is read",
        "layout.permuted.read",
        "return replace(e, args=_ordered(e.args, order), checked=tuple(sorted(map(order.index, e.checked))))",
        "return e",
        (on("equivalence", TRANSFORM, B=2, N=8), on("equivalence", TRANSFORM, B=3, N=2)),
    ),
    Miscompilation(
        "a subscript is checked against the number of parts",
        "layout.permuted.read",
        "checked=tuple(sorted(map(order.index, e.checked)))",
        "checked=e.checked",
        (
            on(
                "equivalence",
                "def f(complex64(N) x, int(N) r) -> (y) { a(i) = x(i) * x(i) y(i) = a(r(i)) * a(i) }",
                N=40,
            ),
        ),
    ),
    Miscompilation(
        "a temporary that the next iteration reads is one of one iteration",
        "contract._tells_iterations",
        "len(subscripts) != 1",
        "not subscripts",
        (
            on(
                "equivalence",
                "def f(float(T,N) e, float(N) x) -> (d) { d(j) = x(j) for t in 0:T { p(t,j) = d(j) + e(t,j) d(j) = p(t,j) + (t >= 1 ? p(t-1,j) : 0.0) } }",
                T=5,
                N=3,
            ),
        ),
    ),
    Miscompilation(
        "a temporary that is read behind the loop is one of an iteration",
        "contract._tells_iterations",
        "return loops[0] is not None and all(x == loops[0] for x in loops)",
        "return True",
        (
            on(
                "equivalence",
                "def f(float(T,N) e, float(N) x) -> (d) { d(j) = x(j) for t in 0:T { p(t,j) = d(j) + e(t,j) d(j) = p(t,j) } d(j) = 0.0 d(j) += p(t,j) where t in 0:T }",
                T=5,
                N=3,
            ),
        ),
    ),
    Miscompilation(
        "a sum begins before the block writes what it reads",
        "early_sums._is_known",
        "return False",
        "return True",
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (float(N,N) X) { X(i,m) = A(i,m) for i in 0:N { s(m) +=! A(i,k) * X(k,m) where k in 0:i+1, m in 0:N X(i,m) = min(max(A(m,i) - s(m), -3.0), 3.0) } }",
                EARLY,
                N=37,
            ),
        ),
    ),
    Miscompilation(
        "some summands are added before the block and in it",
        "early_sums._blocked",
        "(end, u.growing.range.end) if _stays",
        "(low, u.growing.range.end) if _stays",
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (float(N,N) X) { for i in 0:N { s(m) +=! A(i,k) * X(k,m) where k in 0:i, m in 0:N X(i,m) = min(max(A(m,i) - s(m), -3.0), 3.0) } }",
                EARLY,
                N=37,
            ),
        ),
    ),
    Miscompilation(
        "an update waits that the next iteration reads",
        "delayed_updates._legal",
        "waiting.is_disjoint(relation.domain())",
        "relation is not None",
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (float(N,N) F, float(N) s) { F(i,j) = A(i,j) s(i) = 0.0 where i in 0:N for k in 0:N { F(i,j) += A(i,k) * A(k,j) where i > k, j > k s(k) +=! F(N-1,q) } }",
                SMALL,
                N=37,
            ),
        ),
    ),
    Miscompilation(
        "some updates are made at once and after the block",
        "delayed_updates._at_once",
        "if x.name in earlier",
        "if not x.name",
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (float(N,N) F) { F(i,j) = A(i,j) for k in 0:N { F(i,j) += A(i,k) * A(k,j) where i > k, j > k } }",
                SMALL,
                N=37,
            ),
        ),
    ),
    Miscompilation(
        "what runs behind a panel is read in it",
        "column_panels._may_wait",
        "not relation.intersect(later).is_empty()",
        "relation is None",
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (float(N,N) F) { F(i,j) = A(i,j) for t in 0:3 { for k in 0:4 { w(j) = F(k,j) where j in k+1:N F(i,k) = min(max(F(i,k) + w(N-1), -3.0), 3.0) where i in 0:N F(i,j) += F(i,k) * w(j) where i in 4:N, j in k+1:N } } }",
                SMALL,
                N=9,
            ),
        ),
    ),
    Miscompilation(
        "a panel lacks a column that the block reads",
        "column_panels._separated",
        "GE(args[-1], last)",
        "GE(args[-1], Add(last, ONE))",
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (float(N,N) F) { F(i,j) = A(i,j) for t in 0:3 { for k in 0:4 { F(i,k) = min(max(F(i,k) + F(i,k+1), -3.0), 3.0) where i in 0:N F(i,j) += F(i,k) * F(k,j) where i in 4:N, j in k+1:4 } } }",
                SMALL,
                N=9,
            ),
        ),
    ),
    Miscompilation(
        "a product runs before its operands are copied",
        "delayed_updates._blocked",
        "[*copies, late]",
        "[late, *copies]",
        (
            on(
                "equivalence",
                "def f(float(N,N) A) -> (float(N,N) F) { F(i,j) = A(i,j) for k in 0:N { F(i,k) = min(max(F(i,k), -3.0), 3.0) where i in k+1:N F(k,j) = min(max(F(k,j), -3.0), 3.0) where j in k:N F(i,j) += -F(i,k) * F(k,j) where i in k+1:N, j in k+1:N } }",
                SMALL,
                N=37,
            ),
        ),
    ),
    Miscompilation(
        "an iteration of a tile is behind the one before it by too few rows",
        "time_tiles._solved",
        "by[a] - distance - skew * several",
        "by[a] - distance - (skew + 1) * several",
        (on("equivalence", TIME_STEPS, SMALL, N=100, M=8),),
    ),
    Miscompilation(
        "a statement overwrites rows that one in a later tile reads",
        "time_tiles._distances",
        "if not several and s.index > other.index:",
        "if s.index > other.index or not several:",
        (on("equivalence", TIME_STEPS, SMALL, N=100, M=8),),
    ),
    Miscompilation(
        "iterations that read what an earlier one wrote are independent",
        "independent_loops._is_independent",
        "for d in range(depth):",
        "for d in range(depth + 1):",
        (
            on(
                "equivalence",
                "def f(float(T,D) x) -> (y) { y(t,d) = x(t,d) for t in T-2:-1:-1 { y(t,d) = 2*y(t+1,d) - x(t,d) } }",
                T=5,
                D=20,
            ),
        ),
    ),
    Miscompilation(
        "the iterations of a loop downwards begin one too early",
        "independent_loops._carrier",
        "simplify(Add(Sub(rest, loop.trips), ONE), exact=True)",
        "simplify(Sub(rest, loop.trips), exact=True)",
        (
            on(
                "equivalence",
                "def f(float(T,D) x) -> (y) { y(t,d) = x(t,d) for t in T-1:1:-1 { y(t,d) = 2*x(t-1,d) } }",
                T=5,
                D=20,
            ),
        ),
    ),
    Miscompilation(
        "of several divisors of a sum the first is left",
        "product_terms.Product.after",
        "for e in self.divisors:",
        "for e in self.divisors[:1]:",
        (
            on(
                "equivalence",
                "def f(float(N,K) A, float(N) s, float(N) r) -> (C) { C(i) +=! A(i,k) / s(i) / r(i) }",
                values={"s": (1, 2, -4), "r": (2, -1, 4)},
                N=5,
                K=9,
            ),
        ),
    ),
    Miscompilation(
        "the place of an extreme moves on at an equal value",
        "prefix_places._rewritten",
        "found = NE(here, before)",
        "found = EQ(p.value, here)",
        (
            on(
                "equivalence",
                "def f(int(N) x) -> (i) { i(d) argmax=! x(k) where k <= d, d in 0:N, k in 0:N }",
                N=40,
            ),
        ),
    ),
    Miscompilation(
        "the place of an extreme that is no number moves on",
        "prefix_places._rewritten",
        "if here.dtype.is_float:",
        "if False:",
        (
            on(
                "result",
                "def f(float(N) x) -> (i) { i(d) argmax=! x(k) where k <= d, d in 0:N, k in 0:N }",
                values={"x": (1, 2, float("nan"), 3)},
                N=40,
            ),
        ),
    ),
    Miscompilation(
        "a row of prefixes without their own value has it",
        "prefix_loops._loop",
        "exclusive = p.offset != 0",
        "exclusive = False",
        (
            on(
                "equivalence",
                "def f(float(N,M) x) -> (y) { y(d,m) +=! x(k,m) where k < d, d in 0:N, k in 0:N }",
                N=9,
                M=40,
            ),
        ),
    ),
    Miscompilation(
        "many rows of prefixes begin with their second value",
        "prefix_loops._loop",
        'stages.append(made("", first, op, value(first), True, ()))',
        'stages.append(made("", first, op, value(simplify(Add(first, step), exact=True)), True, ()))',
        (
            on(
                "equivalence",
                "def f(float(M,N) x) -> (y) { y(m,d) +=! x(m,k) where k <= d, d in 0:N, k in 0:N }",
                {"machine": {"cores": 2}},
                N=9,
                M=64,
            ),
        ),
    ),
    Miscompilation(
        "suffixes down columns begin in the first row",
        "prefix_loops._loop",
        "Sub(d.range.end, ONE) if p.suffix else d.range.min",
        "d.range.min",
        (
            on(
                "equivalence",
                "def f(float(N,M) x) -> (y) { y(d,m) +=! x(k,m) where k >= d, d in 0:N, k in 0:N }",
                N=9,
                M=40,
            ),
        ),
    ),
    Miscompilation(
        "of several factors of a prefix the first is left",
        "product_terms.Product.after",
        "for e in self.factors:",
        "for e in self.factors[:1]:",
        (
            on(
                "equivalence",
                "def f(float(N) x, float(N) w, float(N) v) -> (y) { y(d) +=! x(k) * w(d) * v(d) where k <= d }",
                N=300,
            ),
        ),
    ),
    Miscompilation(
        "sums of nothing are multiplied by what is no number",
        "prefix_factors.Split.conditions",
        "return (*p.of_results, simplify(some, exact=True))",
        "return p.of_results",
        (
            on(
                "equivalence",
                "def f(float(N) x) -> (y) { y(d) +=! x(k) * (d == 0 ? inf : 2) where k < d, d in 0:N }",
                N=300,
            ),
        ),
    ),
    Miscompilation(
        "a sum that starts from another number is divided with it",
        "reductions.neutral_start",
        "found != nothing",
        "False",
        (
            on(
                "equivalence",
                "def f(float(N,K) A, float(N) s) -> (C) { C(i) = 3.0 C(i) += A(i,k) / s(i) }",
                values={"s": (1, 2, -4)},
                N=5,
                K=9,
            ),
        ),
    ),
    Miscompilation(
        "a zero point that is added counts as one that is subtracted",
        "zero_points._factor",
        "_Factor(e.a, Sub(imm(0, INT32), e.b))",
        "_Factor(e.a, e.b)",
        (on("equivalence", QUANTIZED, M=3, N=5, K=7),),
    ),
    Miscompilation(
        "the product of two zero points is added once for each row",
        "zero_points._expanded",
        "imm(INT32.wrap(count), INT32)",
        "imm(1, INT32)",
        (on("equivalence", QUANTIZED, M=3, N=5, K=7),),
    ),
    Miscompilation(
        "all reads of a tensor are those of the column that is copied",
        "columns._copied.visit",
        "there if e == column.read",
        "there if isinstance(e, Call) and e.name == column.read.name",
        (
            on(
                "equivalence",
                "def f(int(N,N) A) -> (int(N,N) L) { L(i,j) = A(i,j) for k in 0:N { L(i,j) += -L(i,k) * L(j,k) where i in k+1:N, j in k+1:N, j <= i } }",
                N=40,
            ),
        ),
    ),
    Miscompilation(
        "a remainder is left out whose dividend may be as large as the divisor",
        "small_dividends._small",
        "LT(e.a, e.b)",
        "LT(e.a, Add(e.b, IntImm(1)))",
        (on("equivalence", AROUND, N=5, M=4),),
    ),
    Miscompilation(
        "a remainder is left out whose dividend may be negative",
        "small_dividends._small",
        "GE(e.a, ZERO)",
        "GE(Add(e.a, e.b), ZERO)",
        (on("equivalence", AROUND, N=5, M=4),),
    ),
)

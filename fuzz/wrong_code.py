"""Miscompilations before and after the polyhedral part: of programs, of vector code and of values."""
# ruff: noqa: E501 - a table of programs

from __future__ import annotations

from typing import Any

from fuzz.judging import Miscompilation, on

INF, NAN = float("inf"), float("nan")
MM_T = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
SUM = "def f(float(N,M) A, float(M,N) B) -> (C) { C(i,j) = A(i,j) + B(j,i) }"
BYTES = "def f(int8(M,K) A, int8(K,N) B) -> (C) { C(m,n) +=! int(A(m,k)) * int(B(k,n)) }"
LEAST = "def f(float(N) A) -> (S) { S min=! A(i) }"
CONV = "def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) { O(n,f,y,x) +=! I(n,c,y+ky,x+kx) * K(f,c,ky,kx) }"
PREFIX = "def f(float(N,D) x) -> (y) { y(n,d) +=! x(n,k) where k <= d, d in 0:D }"
WINDOW = "def f(float(M,N) x, float(K) u) -> (y) {{ y(h,w) +=! x[none,{}](h,w+k-1)*u(k) where w in 0:N }}"
PACKED: dict[str, Any] = {"vector": 1, "register_tile": (1, 16, 1, 4), "pack": True}
TURNED: dict[str, Any] = {"vector": 0, "register_tile": (32, 4)}
TURNS = "def f(float(N) a, float(N) b) -> (y) { y(i) = i % 2 == 0 ? a(i/2) : b(i/2) where i in 0:2*N }"
MAX: dict[str, Any] = {"fusion": "max"}
ONE_ROW: dict[str, Any] = {"fusion": "max", "vector": -1, "register_tile": (1,)}
ONE_OF_MANY = "def f(float(E,D) t, int32(B,L) ix) -> (y) { y(b,d) +=! t(ix(b,l) - (l == 2 ? 9 : 0), d) }"
IN_PLACE = "def f(int32(E) t, int32(N,M) q) -> (p) { p(i,j) = t(p(i,j)) + q(i,j) }"
POINTS: dict[str, Any] = {"tile": (4, 64), "threads": (32, 2), "use_shared_memory": False}
STREAMED: dict[str, Any] = {"machine": {"l3": 64}}

WRONG_CODE = (
    # Masks and memory.
    Miscompilation(
        "a mask of dynamic length has one lane too many",
        "shuffles.ShuffleEmitter.leading_mask",
        'f"icmp ult {type_text(INT32, lanes)} {steps.text}, {count.text}"',
        'f"icmp ule {type_text(INT32, lanes)} {steps.text}, {count.text}"',
        (on("death", SUM, dynamic="N M", N=37, M=41),),
    ),
    Miscompilation(
        "the last vector has no mask",
        "kernel.NestEmitter.vectors",
        "None if lanes == trips else self.tail_mask(trips, lanes)",
        "None",
        (on("death", "def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) * B(i) }", N=13),),
    ),
    Miscompilation(
        "loads have no mask",
        "load_store.MemoryEmitter._load",
        '            if self.mask is None:\n                return self.from_storage(t, self.op(f"load {st}, ptr {p}, align',
        '            if self.mask is None or self.mask.active is not None:\n                return self.from_storage(t, self.op(f"load {st}, ptr {p}, align',
        (on("death", "def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) * B(i) }", N=13),),
    ),
    Miscompilation(
        "the last vector is stored in pieces that are too long",
        "load_store._power_of_two_pieces",
        "n = min(most, 1 << ((lanes - first).bit_length() - 1))",
        "n = min(most, 1 << (lanes - first - 1).bit_length())",
        (on("death", "def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) * B(i) }", N=13),),
    ),
    Miscompilation(
        "every second element is picked from loads that end too late",
        "strided_loads.picked",
        "start = min(j * lanes, (lanes - 1) * stride + 1 - lanes)",
        "start = j * lanes",
        (on("death", "def f(float(N) A) -> (C) { C(i) = A(2*i) where i in 0:16 }", N=31),),
    ),
    Miscompilation(
        "a condition replaces the mask of the last vector",
        "expressions.ExpressionEmitter.where",
        'c if mask is None else self.logical("and", self.widen(mask, c.lanes), c)',
        "c",
        (
            on(
                "death",
                "def f(float(N,N) A) -> (C) { C(i,j) = 0 where i in 0:N, j in 0:N\nC(i,j) = A(i,j) where i <= j }",
                N=13,
            ),
        ),
    ),
    Miscompilation(
        "a choice by lanes takes the other side",
        "lane_conditions.choose",
        "yes += [i] * holds",
        "yes += [i] * (not holds)",
        (on("result", TURNS, N=32),),
    ),
    Miscompilation(
        "a remainder of indices that the type does not hold is taken as if it did",
        "lane_conditions._fits",
        "return (-_INT32_MAX if typed.dtype.is_signed else 0) <= least and greatest <= _INT32_MAX",
        "return True",
        (
            on(
                "result",
                "def f(float(N) a, float(N) b) -> (y) { y(i) = (2147483632 + int(i)) % 3 == 0 ? a(i) : b(i) where i in 0:32 }",
                N=32,
            ),
        ),
    ),
    Miscompilation(
        "a vector with one lane inside is read as if all were",
        "lane_conditions.mostly_all",
        'f"icmp eq i{c.lanes} {whole}, -1"',
        'f"icmp ne i{c.lanes} {whole}, 0"',
        (
            on(
                "result",
                "def f(float(N) x) -> (y) { y(w) = x[clamp]((w+1)/2-1) where w in 0:2*N }",
                N=64,
            ),
        ),
    ),
    Miscompilation(
        "lanes below a clamped subscript read what the last lane reads",
        "border_loads._clamped",
        "return e.select(below, e.widen(e.load(array, first), e.lanes), v)",
        "return e.select(below, e.widen(e.load(array, last), e.lanes), v)",
        (on("result", WINDOW.format("clamp"), N=56, M=3, K=3),),
    ),
    Miscompilation(
        "a reflection is one element too late",
        "border_loads._pieces",
        "_Piece(center, p, -1, offset + q)",
        "_Piece(center, p, -1, offset + q + -1)",
        (
            on(
                "result",
                "def f(float(N) x) -> (y) { y(w) = x[symmetric](w+5) where w in 0:N }",
                dynamic="N",
                N=64,
            ),
        ),
    ),
    Miscompilation(
        "lanes that are more than a period away are wrapped once",
        "border_loads._folded",
        "if e.value_range(before)[1] <= 0 and e.value_range(beyond)[1] <= 0:",
        "if True:",
        (on("result", "def f(float(N) x) -> (y) { y(w) = x[wrap](w-90) where w in 0:1024 }", N=40),),
    ),
    Miscompilation(
        "a row that is read backwards ends a lane too early",
        "strided_loads.backwards",
        "first + (1 - e.lanes)",
        "first + (2 - e.lanes)",
        (on("result", "def f(float(N) x) -> (y) { y(w) = x[reflect](w-3) where w in 0:N }", N=1024),),
    ),
    Miscompilation(
        "a subscript clamped to a part of a row is as if it were clamped to all of it",
        "lane_conditions._leaves_alone",
        "if a is None or n is None or (n - a).terms or (n - a).constant > room:",
        "if a is None or n is None or (n - a).terms:",
        (
            on(
                "result",
                "def f(float(N) x) -> (y) { y(w) = w % 7 < 5 ? x(w) : x(min(w, 20)) where w in 0:N }",
                N=64,
            ),
        ),
    ),
    Miscompilation(
        "prefixes of vectors combine values of other lanes",
        "lane_prefixes._is_same_in_a_chunk",
        "return not isinstance(e, Variable) and all(",
        "return isinstance(e, Variable) or all(",
        (
            on(
                "result",
                "def f(float(N) x, float(N) u) -> (y) { y(d) +=! x(8*(d/8)+k) * u(d) where k in 0:8, k <= d % 8, d in 0:N }",
                {"vector": 0, "register_tile": (16,)},
                N=64,
            ),
        ),
    ),
    Miscompilation(
        "prefixes of vectors leave out every second step",
        "lane_prefixes.prefixes",
        "distance *= 2",
        "distance *= 4",
        (on("result", PREFIX, N=3, D=99),),
    ),
    Miscompilation(
        "prefixes that end before a lane have the lane",
        "lane_prefixes.prefixes",
        "env.bind(s.var, Affine.of(LANE) + -1)",
        "env.bind(s.var, Affine.of(LANE))",
        (on("result", PREFIX.replace("k <= d", "k < d"), N=3, D=99),),
    ),
    Miscompilation(
        "lanes are loaded from where the leading ones are",
        "load_by_shuffle._shuffled",
        "own = {i: p - start for i, p in offsets.items() if start <= p < start + width}",
        "own = {i: p - start for i, p in enumerate(offsets.values()) if start <= p < start + width}",
        (on("result", TURNS, N=32),),
    ),
    Miscompilation(
        "two images have one padding",
        "load_store.MemoryEmitter._choice_key",
        'f"{array.name} if {c.text} else {constant.text}"',
        'f"{array.name} if {c.text}"',
        (
            on(
                "result",
                "def f(float(N,M) A) -> (C) { C(i,j) = (i > 0 ? A(i-1,j) : 7) + (i > 1 ? A(i-2,j) : 7) + (i > 2 ? A(i-3,j) : 7) * (i > 2 ? A(i-3,j) : 9) where i in 0:N }",
                N=5,
                M=16,
            ),
        ),
    ),
    Miscompilation(
        "lanes beyond the end of a reduction are reduced too",
        "promotion.PromotionEmitter._store_slot",
        "varying = self.mask is not None and (slot.mask is None or slot.mask.text != self.mask.text)",
        "varying = False",
        (on("result", LEAST, values={"A": (5, 7, 9)}, N=99),),
    ),
    Miscompilation(
        "an element in registers that a condition leaves alone is not loaded",
        "promotion.PromotionEmitter._store_slot",
        "if fresh and (varying or self.conditional):",
        "if fresh and varying:",
        (
            on(
                "result",
                "def f(float(N,M) A) -> (C) { C(i,j) = 1 where i in 0:N, j in 0:M\nC(i,j) = A(i,j) where i * i > 9 }",
                {"fusion": "min", "register_tile": (3, 8)},
                N=9,
                M=8,
            ),
        ),
    ),
    Miscompilation(
        "loads from before a loop are used after it",
        "kernel.NestEmitter.invalidate_loads",
        "for buffer in self.written[id(s)]:",
        "for buffer in ():",
        (
            on(
                "result",
                "def f(float(M,N) A, float(N) B) -> (C, E) { C(i) = C(i) + B(i) where i >= 2\nE(i) = C(i)\nC(i) += A(j,i) }",
                MAX,
                dynamic="N",
                N=45,
                M=40,
            ),
        ),
    ),
    Miscompilation(
        "a result is stored past the caches where it starts on no line",
        "load_store.MemoryEmitter._write_leading",
        "self.emit_either(self.is_line_aligned(array), nontemporal, plain)",
        'self.emit_either("true", nontemporal, plain)',
        (
            on(
                "death",
                "def f(float(M,N) A, float(M,N) B) -> (C) { C(i,j) = A(i,j) + B(i,j) }",
                STREAMED,
                M=7,
                N=25,
            ),
        ),
    ),
    Miscompilation(
        "results are stored past the caches in rows that start on no line",
        "load_store._nontemporal_piece",
        "return piece if piece >= _MIN_NONTEMPORAL and width <= LINE else 0",
        "return width if width <= LINE else 0",
        (
            on(
                "death",
                "def f(float(M,N) A, float(N) B) -> (C) { C(i,j) = A(i,j) + B(j) }",
                STREAMED,
                M=64,
                N=25,
            ),
        ),
    ),
    Miscompilation(
        "rows are transposed in blocks the wrong way round",
        "shuffles.ShuffleEmitter.transpose",
        "group = [f(a, b) for a, b in pairs for f in (low, high)]",
        "group = [f(a, b) for f in (low, high) for a, b in pairs]",
        (on("result", "def f(float(N,M) A) -> (B) { B(j,i) = A(i,j) }", N=11, M=13),),
    ),
    Miscompilation(
        "columns that are turned by a function begin where the first ones did",
        "promotion.PromotionEmitter._call_write_rows",
        "at = self.materialize(first.address.uniform)",
        "at = 0",
        (
            on(
                "result",
                "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
                options=TURNED,
                M=96,
                K=80,
                N=12,
            ),
        ),
    ),
    Miscompilation(
        "what was loaded under a mask is used without one",
        "load_store.MemoryEmitter.load",
        "if mask is None or (self.mask is not None and mask.text == self.mask.text):",
        "if True:",
        (
            on(
                "result",
                "def f(float(N,M) A) -> (C) { C(i,j) = (j % 3 < 2 ? A(i,j) : 7) + A(i,j) }",
                N=5,
                M=16,
            ),
        ),
    ),
    # Values.
    Miscompilation(
        "the neutral element of max= is 0",
        "lower.neutral",
        "return x.imm(dtype.min, dtype)",
        "return x.imm(0, dtype)",
        (on("result", "def f(float(N) A) -> (S) { S max=! A(i) }", values={"A": (-5, -7)}, N=99),),
    ),
    Miscompilation(
        "the neutral element of min= is the greatest number, not infinity",
        "lower.neutral",
        "return x.imm(dtype.max, dtype)",
        "return x.imm(min(dtype.max, 3.4028234663852886e38), dtype)",
        (on("result", LEAST, values={"A": (INF,)}, N=99),),
    ),
    Miscompilation(
        "max= drops a NaN",
        "values.ValueEmitter.extremum",
        'return Value(self.pure(f"select {ct} {nan}, {ty} {b.text}, {ty} {best}"), t, lanes)',
        "return Value(best, t, lanes)",
        (
            on(
                "result",
                "def f(float(N,M) A) -> (S) { S(i) max=! A(i,j) }",
                values={"A": (1, 2, NAN)},
                N=9,
                M=3,
            ),
        ),
    ),
    Miscompilation(
        "division by a constant truncates",
        "values.ValueEmitter.division",
        'return Value(self.pure(f"add {ty} {q}, {negative}"), t, lanes)',
        "return Value(q, t, lanes)",
        (on("result", "def f(int(N) A) -> (B) { B(i) = A(i) / 5 }", N=9),),
    ),
    Miscompilation(
        "unsigned integers are compared as signed ones",
        "values.ValueEmitter.compare",
        "predicate[1 if t.is_signed else 2]",
        "predicate[1]",
        (
            on(
                "result",
                "def f(uint8(N) A, uint8(N) B) -> (C) { C(i) = A(i) < B(i) ? 1 : 2 }",
                values={"A": (3, 200), "B": (4, 250)},
                N=40,
            ),
        ),
    ),
    Miscompilation(
        "floats beyond the greatest integer wrap",
        "values.ValueEmitter._saturated",
        'for bound, beyond in ((target.min, "olt"), (top, "ogt")):',
        'for bound, beyond in ((target.min, "olt"),):',
        (
            on(
                "result",
                "def f(float(N) A) -> (B) { B(i) = uint8(A(i)) }",
                values={"A": (-9, 100, 200, 300)},
                N=9,
            ),
        ),
    ),
    Miscompilation(
        "sums of halves are kept as halves",
        "lower._Lowering._make_storage",
        "if dtype.is_half and reduces:",
        "if False:",
        (
            on(
                "result",
                "def f(half(K,M) A, half(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }",
                values={"A": (1,), "B": (1,)},
                M=3,
                N=16,
                K=3000,
            ),
        ),
    ),
    Miscompilation(
        "the extremum of unsigned integers is that of signed ones",
        "values.ValueEmitter.extremum",
        """name = f"{'s' if t.is_signed else 'u'}{'min' if least else 'max'}\"""",
        """name = f"s{'min' if least else 'max'}\"""",
        (on("result", "def f(uint8(N) A) -> (S) { S max=! A(i) }", values={"A": (3, 200)}, N=40),),
    ),
    Miscompilation(
        "unsigned integers are widened with their sign",
        "values.ValueEmitter.cast",
        """f"{'sext' if signed else 'zext'} {a} {v.text} to {b}\"""",
        'f"sext {a} {v.text} to {b}"',
        (on("result", "def f(uint8(N) A) -> (B) { B(i) = int(A(i)) * 3 }", values={"A": (3, 200)}, N=40),),
    ),
    # Index arithmetic and checks.
    Miscompilation(
        "the remainder of an index is taken to stay within lanes where it does not",
        "index_forms.IndexEmitter._divide_form",
        "if low < 0 or high >= divisor:",
        "if low < 0 or high > divisor:",
        (
            on(
                "result",
                "def f(float(M,N) A) -> (B) { B(m,i) = A(m,i) > 0 ? A(m,i % 7) : 9 where i in 0:8 }",
                M=9,
                N=8,
            ),
        ),
    ),
    Miscompilation(
        "a negative index passes the check",
        "bounds_checks.check",
        'bad = emitter.compare(("", "uge", "uge"), subscript, extent)',
        'bad = emitter.compare(("", "sge", "sge"), subscript, extent)',
        (
            on(
                "result",
                "def f(float(N) A, int(M) X) -> (B) { B(i) = A(X(i)) }",
                values={"X": (0, 1, 2, -1)},
                N=9,
                M=20,
            ),
        ),
    ),
    Miscompilation(
        "an index beyond the end passes the check",
        "bounds_checks.check",
        'bad = emitter.compare(("", "uge", "uge"), subscript, extent)',
        'bad = emitter.compare(("", "ugt", "ugt"), subscript, extent)',
        (
            on(
                "death",
                "def f(float(N) A, int(M) X) -> (B) { B(i) = A(X(i)) }",
                values={"X": (0, 1, 2, 9)},
                N=9,
                M=20,
            ),
        ),
    ),
    # Programs made into others.
    Miscompilation(
        "the offset of a sum that is divided counts twice",
        "simplify._division",
        "rest = from_terms({t: c for t, c in terms.items() if c % b}, offset % b)",
        "rest = from_terms({t: c for t, c in terms.items() if c % b}, offset)",
        (on("trace", "def f(float(N) A) -> (B) { B(i) = A((2*i + 3) / 2) where i in 0:8 }", N=20),),
    ),
    Miscompilation(
        "a tile is unswitched as if < were <=",
        "unswitch._Box._comparison",
        "least = 1 if isinstance(c, LT | GT) else 0",
        "least = 0",
        (
            on(
                "trace",
                "def f(float(N) A) -> (C) { C(i,j) = i + j < 20 ? A(i+j) : 2 where i in 0:9, j in 0:16 }",
                N=20,
            ),
            on("result", "def f(float(N,M) A) -> (C) { C(i,j) = (i + j < 20 ? 1 : 2) * A(i,j) }", N=9, M=16),
        ),
    ),
    Miscompilation(
        "a tile is unswitched as if || were &&",
        "unswitch._Box.verdict",
        "both, either = (And, Or) if isinstance(c, And) else (Or, And)",
        "both, either = And, Or",
        (
            on(
                "result",
                "def f(float(N,M) A) -> (C) { C(i,j) = (i < 3 || j > 4 ? 1 : 2) * A(i,j) }",
                N=9,
                M=16,
            ),
        ),
    ),
    Miscompilation(
        "sizes that the program excludes are let in",
        "specialize.specialize.precondition",
        "if condition == FALSE:",
        "if condition == TRUE:",
        (
            on(
                "result",
                "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i) * B(i+3) where i in 0:N }",
                N=8,
                M=9,
            ),
        ),
    ),
    Miscompilation(
        "remainders and quotients that are an index again, but one element apart",
        "index_forms._combine_quotients",
        "return [(m, factor) for (m, _), factor in left.items()] if whole else terms",
        "return [(m, 1) for (m, _), factor in left.items()] if whole else terms",
        (on("result", CONV, PACKED, N=1, C=40, H=6, W=9, F=37, KH=3, KW=3),),
    ),
    Miscompilation(
        "the workspace is that of the nest that was made last",
        "loop_passes.scan",
        "count, most = builder.count, max(most, builder.workspace)",
        "count, most = builder.count, builder.workspace",
        (on("trace", MM_T, dynamic="M", M=70, N=70, K=70),),
    ),
    Miscompilation(
        "integers are rounded twice on their way to bfloat16",
        "values.ValueEmitter._integers_to_half",
        "if v.dtype.is_int and v.dtype.bits >= 32:",
        "if v.dtype.is_int and v.dtype.bits > 32:",
        (
            on(
                "result",
                "def f(int(N) A) -> (B) { B(i) = bfloat16(A(i)) }",
                values={"A": (2**30 + 2**22 + 1,)},
                N=9,
            ),
        ),
    ),
    Miscompilation(
        "a condition on data is tested before these are there",
        "unswitch._reads",
        "return any(isinstance(x, Load) for x in walk(e))",
        "return False",
        (
            on(
                "trace",
                "def f(float(N,M) A) -> (D) { t(i) +=! A(i,j)\nD(i,j) = t(i) > 0 ? A(i,j) : 0 }",
                ONE_ROW,
                N=9,
                M=16,
            ),
            on(
                "result",
                "def f(float(N,M) A) -> (D) { t(i) +=! A(i,j)\nD(i,j) = t(i) > 0 ? A(i,j) : 0 }",
                ONE_ROW,
                N=99,
                M=64,
            ),
        ),
    ),
    Miscompilation(
        "a tile is unswitched as if narrow integers did not wrap around",
        "unswitch._form",
        "return out if least <= low and high < most else None",
        "return out",
        (on("result", "def f(float(N) A) -> (B) { B(i) = (uint8(i) < 5 ? 1 : 2) * A(i) }", N=300),),
    ),
    Miscompilation(
        "a constant float wraps around where it becomes an integer",
        "simplify.to_integer",
        "return min(max(math.trunc(value), low), high)",
        "return math.trunc(value)",
        (on("result", "def f(uint8(N) A) -> (B) { B(i) = A(i) - uint8(300.7) }", N=9),),
    ),
    # Products of bytes.
    Miscompilation(
        "sums of bytes read a whole group where a row ends before",
        "dot_code.DotEmitter._group",
        "for i in range(points):\n            v = self.op",
        "for i in range(size):\n            v = self.op",
        (on("death", BYTES, isa=None, M=5, K=23, N=40),),
    ),
    Miscompilation(
        "the factors of a product of bytes change places",
        "dot_code.DotEmitter._dot_sum",
        "unsigned, signed = found if a == UINT8 else found[::-1]",
        "unsigned, signed = found",
        (on("result", BYTES, isa=None, M=5, K=23, N=40),),
    ),
    Miscompilation(
        "packed bytes are shifted by one too few",
        "dot._dot",
        "kind, shift = (UINT8, 128)",
        "kind, shift = (UINT8, 127)",
        (on("result", BYTES, values={"B": (-128, 127, 5)}, isa=None, M=5, K=23, N=40),),
    ),
    # Checks of GPUs.
    Miscompilation(
        "the last check of a thread hides the failure of those before it",
        "gpu_kernel._GpuExpr.subscripts",
        "{self.failed} |= !{in_range};",
        "{self.failed} = !{in_range};",
        (on("result", ONE_OF_MANY, POINTS, values={"ix": (0, 1)}, backend="opencl", E=4, D=30, B=7, L=16),),
    ),
    Miscompilation(
        "checks under a condition are not repeated",
        "late_checks.checks_alone",
        "then = checks_alone(s.then, registers) if has_checks(s.then) else Block(())",
        "then = Block(())",
        (on("result", ONE_OF_MANY, POINTS, values={"ix": (0, 1)}, backend="opencl", E=4, D=30, B=7, L=16),),
    ),
    Miscompilation(
        "checks are repeated after their subscripts have changed",
        "late_checks._is_repeatable",
        "x.buffer in written",
        "x.buffer in ()",
        (
            on(
                "result",
                IN_PLACE,
                POINTS,
                values={"t": (0, 1), "q": (0, 1), "p": (0, 1, 9)},
                backend="opencl",
                E=4,
                N=16,
                M=64,
            ),
        ),
    ),
)

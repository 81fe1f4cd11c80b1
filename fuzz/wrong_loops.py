"""Miscompilations of the polyhedral part: schedules, tiles, packs, what lives where."""
# ruff: noqa: E501 - a table of programs

from __future__ import annotations

from typing import Any

from fuzz.judging import Miscompilation, on

MM = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
MM_T = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
CONV = "def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) { O(n,f,y,x) +=! I(n,c,y+ky,x+kx) * K(f,c,ky,kx) }"
PACKED: dict[str, Any] = {"vector": 1, "register_tile": (1, 16, 1, 4), "pack": True}
SUM = "def f(float(N,M) A, float(M,N) B) -> (C) { C(i,j) = A(i,j) + B(j,i) }"
BYTES = "def f(int8(M,K) A, int8(K,N) B) -> (C) { C(m,n) +=! int(A(m,k)) * int(B(k,n)) }"
TOTAL = "def f(float(N) A) -> (S) { S +=! A(i) }"
TILES: dict[str, Any] = {"tile": (8, 8), "register_tile": (3, 8)}
# More than 64 of them, which chunks share, with 23 rows of 24 points.
TASKS: dict[str, Any] = {"tile": (1, 8), "register_tile": (1, 8), "vector": 1}
MAX: dict[str, Any] = {"fusion": "max"}
MIN: dict[str, Any] = {"fusion": "min"}
CUMULATIVE = "def f(double(N,D) x) -> (y) { y(n,0) = x(n,0) for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) } }"
SMOOTHED = "def f(double(N,D) x) -> (y) { y(n,0) = x(n,0) for d in 1:D { y(n,d) = 2*y(n,d-1) - x(n,d) } }"
GUARDED = "def f(int(N,D) x) -> (s) { s(n) = 0 where n in 0:N for d in 0:D { s(n) = 3*s(n) + (d >= 1 ? x(n,d) : 7) where n in 0:N } }"
SCATTER = "def f(float(N,D) x, int(N) I, float(M,D) z) -> (y) { y(m,d) = z(m,d) y(I(n),d) += x(n,d) }"
# Rows that read elements of the row below, and a choice between elements of which one may not exist.
BELOW = """def f(float(N,M) x) -> (y) {
  y(i,j) = x(i,j)
  for i in 0:N-1 { for j in 3:M { y(i,j) = y(i,j-1) + 2*y(i,j) - y(i+1,j-3) } }
}"""
CHOSEN = """def f(int(N,M) x) -> (y) {
  y(i,j) = x(i,j)
  for i in 1:N { for j in 1:M { y(i,j) = y(i,j-1) + (k : x(i,j)) } }
}"""
SMALL_CACHES: dict[str, Any] = {"machine": {"l1": 64, "l2": 1024, "l3": 64}}
LANES_N: dict[str, Any] = {"vector": 1, "register_tile": (3, 8)}

WRONG_LOOPS = (
    # Dependences and fusion.
    Miscompilation(
        "fusion forgets what must be read before it is overwritten",
        "dependences.conflicts",
        'if a.buffer != b.buffer or "write" not in (a.kind, b.kind):',
        'if a.buffer != b.buffer or a.kind != "write":',
        (
            on(
                "legality",
                "def f(float(N) A) -> (B, C) { B(i) = A(i)\nC(i) = B(N-1-i) + A(i)\nB(i) = A(i) * 2 }",
                MAX,
                N=8,
            ),
        ),
    ),
    Miscompilation(
        "fusion needs only one of several distances to be zero",
        "distances.Distances.zero_distance",
        "a & b",
        "a | b",
        (on("legality", "def f(float(N) A) -> (B, C) { B(i) = A(i)\nC(i) = B(i) + B(N-1-i) }", MAX, N=8),),
    ),
    Miscompilation(
        "fusion moves a statement past one that it depends on",
        "fusion.Fuser._join",
        "            if self.depends(item, new):\n                return False\n",
        "",
        (
            on(
                "legality",
                "def f(float(N) A) -> (B, C, D) { B(i) = A(i)\nC(i) = B(N-1-i)\nD(i) = A(i) + C(N-1-i) }",
                MAX,
                N=8,
            ),
        ),
    ),
    Miscompilation(
        "fusion of loops that do not run alike",
        "fusion.Fuser.same_range",
        "return self._range(m) == self._range(v)",
        "return True",
        (on("trace", "def f(float(N) A) -> (B, C) { B(i) = A(i)\nC(i) = B(i) where i in 0:5 }", MAX, N=8),),
    ),
    Miscompilation(
        "a guarded read is taken to happen where its guard does not hold",
        "scop._Builder.statement",
        "cuts[guard] = affine.holds(*guard)",
        "cuts[guard] = affine.holds(guard[0], not guard[1])",
        (
            on(
                "trace",
                "def f(float(N) A) -> (B, C) { B(i) = A(i)\nC(i) = i < 50 ? B(i + 50 - i/50*50) : A(i) }",
                MAX,
                N=100,
            ),
        ),
    ),
    Miscompilation(
        "a statement without loops goes as early as it may not",
        "fusion.Fuser._place",
        "while at and not self.depends(items[at - 1], Item([s], [])):",
        "while at:",
        (
            on(
                "legality",
                "def f(float(N,M) A) -> (S, D) { S(i) +=! A(i,j)\nD(i) = 2 * S(i) }",
                MAX,
                N=8,
                M=9,
            ),
        ),
    ),
    # Nests and what they keep.
    Miscompilation(
        "loops start at 0, wherever their range does",
        "tile_plan._axis",
        "        evaluate(low, source.typical),\n",
        "        0 * evaluate(low, source.typical),\n",
        (
            on("trace", "def f(float(N) A) -> (B) { B(i) = A(i-3) }", N=8),
            on("result", "def f(float(N) A) -> (B) { B(i) = A(i-3) }", N=3000),
        ),
    ),
    Miscompilation(
        "temporaries of wide elements overlap",
        "loop_nest.assemble",
        "reduce(Mul, shape, IntImm(b.dtype.itemsize))",
        "reduce(Mul, shape, IntImm(4))",
        (
            on(
                "trace",
                "def f(double(N) A) -> (C) { s(i) = A(N-1-i) * 2\nt(i) = A(i) + s(N-1-i)\nC(i) = s(i) + t(N-1-i) }",
                MIN,
                N=100,
            ),
        ),
    ),
    Miscompilation(
        "what conditions guard is loaded into registers all the same",
        "register_promotion.promotion",
        "s.stage.domain.conditions or (a.read is not None and (a.read.guards or a.read.call.checked))",
        "s.stage.domain.conditions or (a.read is not None and a.read.call.checked)",
        (
            on(
                "death",
                "def f(float(N) A, float(M) B) -> (C) { C(i) +=! (i < N ? A(i) : 2) * B(j) where i in 0:N+9 }",
                {"vector": 1},
                N=1020,
                M=5,
            ),
        ),
    ),
    Miscompilation(
        "what a later nest reads stays in registers",
        "register_promotion.promotion",
        'if roles[buffer] == "temporary" and buffer not in used_elsewhere:',
        'if roles[buffer] == "temporary":',
        (
            on("trace", "def f(float(N) A) -> (C) { t(i) = A(i) * 2\nC(i) = t(N-1-i) }", MIN, N=9),
            on("result", "def f(float(N) A) -> (C) { t(i) = A(i) * 2\nC(i) = t(N-1-i) }", MIN, N=3000),
        ),
    ),
    Miscompilation(
        "a nest runs before the one whose results it reads",
        "tile_plan._nests",
        "        elif any(isinstance(c, Group) for c in child.body):\n            close()\n",
        "        elif any(isinstance(c, Group) for c in child.body):\n",
        (
            on(
                "trace",
                "def f(float(N,M) A, float(M,K) B) -> (E) { m(i) max=! A(i,j)\nd(i,j) = A(i,j) - m(i)\nE(i,k) +=! d(i,j) * B(j,k) }",
                MAX,
                N=5,
                M=6,
                K=7,
            ),
        ),
    ),
    Miscompilation(
        "a temporary loses what does not fill a line",
        "loop_nest.assemble",
        "lines = FloorDiv(Add(size, IntImm(ALIGNMENT - 1)), IntImm(ALIGNMENT))",
        "lines = FloorDiv(size, IntImm(ALIGNMENT))",
        (
            on(
                "trace",
                "def f(float(N) A) -> (C) { s(i) = A(N-1-i) * 2\nt(i) = A(i) + s(N-1-i)\nC(i) = s(i) + t(N-1-i) }",
                MIN,
                N=19,
            ),
        ),
    ),
    # Cache tiles and tasks.
    Miscompilation(
        "the last cache tile is lost where it is short",
        "nests.TiledLoops.axis_tiles",
        "n = -(-a.typical_extent // size)",
        "n = max(1, a.typical_extent // size)",
        (
            on("trace", SUM, TILES, N=21, M=22),
            on("result", SUM, TILES, N=60, M=61),
        ),
    ),
    Miscompilation(
        "what is left over at the end of an axis runs in every cache tile",
        "nests.TiledLoops.register_tiles.level",
        "parts.append(If(span.last, level(rest, start, {**extents, name: short}, axis_parts)))",
        "parts.append(level(rest, start, {**extents, name: short}, axis_parts))",
        (on("trace", SUM, TILES, N=20, M=22),),
    ),
    Miscompilation(
        "the last cache tile has as many register tiles as the others",
        "nests.TiledLoops.register_tiles.level",
        "count = Min(IntImm(whole), FloorDiv(end, IntImm(size)))",
        "count = Min(IntImm(whole), FloorDiv(Add(end, IntImm(size - 1)), IntImm(size)))",
        (
            on("trace", SUM, TILES, N=20, M=22),
            on("death", SUM, TILES, N=60, M=61),
        ),
    ),
    Miscompilation(
        "chunks lose the tasks that do not divide",
        "nests._run.before",
        "return Add(whole, Min(c, rest)) if rest != IntImm(0) else whole",
        "return whole",
        (
            on("trace", SUM, TASKS, N=23, M=24),
            on("result", SUM, {"tile": (12, 24), "register_tile": (1, 8)}, N=368, M=72),
        ),
    ),
    Miscompilation(
        "chunks run the first task of the next",
        "nests._run",
        "return before(c), before(Add(c, IntImm(1)))",
        "return before(c), Min(Add(before(Add(c, IntImm(1))), IntImm(1)), tasks)",
        (on("trace", SUM, TASKS, N=23, M=24),),
    ),
    Miscompilation(
        "the third of three parallel loops has the stride of the second",
        "nests.TiledLoops.tasks",
        "place = _product([place, n])",
        "place = n",
        (
            on(
                "trace",
                "def f(float(A,B,C) X, float(C,B,A) Y) -> (Z) { Z(a,b,c) = X(a,b,c) + Y(c,b,a) }",
                {"tile": (2, 2, 8), "register_tile": (1, 1, 8)},
                A=5,
                B=6,
                C=16,
            ),
        ),
    ),
    # Register tiles.
    Miscompilation(
        "a loop of a reduction runs in parallel",
        "phase_loops._loops",
        "count = IntImm(extent) if isinstance(extent, int) else extent\n        return For(var, ZERO, count, 1, LoopKind.SERIAL, inner)",
        "count = IntImm(extent) if isinstance(extent, int) else extent\n        return For(var, ZERO, count, 1, LoopKind.PARALLEL, inner)",
        (on("trace", "def f(float(N,M) A, float(M) B) -> (S) { S +=! A(i,j) * B(j) }", N=9, M=11),),
    ),
    Miscompilation(
        "accumulators in lanes are not initialised",
        "phase_loops.phase_loops",
        "before = [initialize_partial(tile, s, a, t) for s, a in partial.items()]",
        "before = list[Stmt]()",
        (
            on("trace", TOTAL, N=99),
            on("error", TOTAL, N=3000),
        ),
    ),
    Miscompilation(
        "one of several accumulators is not added",
        "partial_results.combine_partial",
        "_each_partial(tile, statement, t, 1, add_accumulator)",
        "_each_partial(tile, statement, t, 2, add_accumulator)",
        (
            on("trace", TOTAL, N=99),
            on("result", TOTAL, N=3000),
        ),
    ),
    Miscompilation(
        "a condition on indices is dropped",
        "register_tile.RegisterTile.instance",
        "if stage.domain.conditions:",
        "if False:",
        (
            on("trace", "def f(float(N,N) A) -> (S) { S(i) +=! A(i,j) where j <= i }", N=9),
            on("result", "def f(float(N,N) A) -> (S) { S(i) +=! A(i,j) where j <= i }", N=99),
        ),
    ),
    Miscompilation(
        "a pack is read at the wrong lanes in what is left over",
        "register_tile.RegisterTile.instance",
        "n: (p.split[0], simplify(Add(p.split[1], offsets[n]), exact=True))",
        "n: (p.split[0], offsets[n])",
        (on("result", MM_T, {"vector": 1, "register_tile": (3, 16)}, dynamic="N", M=6, N=29, K=40),),
    ),
    Miscompilation(
        "one vector of a reduction of dynamic length is lost",
        "phase_loops._dynamic_vectors",
        "low = Mul(Variable(several), IntImm(t.accumulators))",
        "low = Add(Mul(Variable(several), IntImm(t.accumulators)), IntImm(1))",
        (on("trace", TOTAL, dynamic="N", N=29),),
    ),
    # Packs.
    Miscompilation(
        "a pack is one block of lanes short",
        "pack_filling._Filler.packed",
        "blocks = -(-self.spans[vector.name].bound // width)",
        "blocks = max(1, self.spans[vector.name].bound // width)",
        (on("trace", MM_T, LANES_N, M=6, N=20, K=12),),
    ),
    Miscompilation(
        "a pack is read in its first block only",
        "packs.Packed.at",
        "else (FloorDiv(v, width), FloorMod(v, width))",
        "else (IntImm(0), FloorMod(v, width))",
        (
            on("trace", MM_T, LANES_N, M=6, N=20, K=12),
            on("result", MM_T, LANES_N, M=16, N=70, K=40),
        ),
    ),
    Miscompilation(
        "rows of a pack that go on over several loops, these in the wrong order",
        "pack_filling._Filler.places",
        "out[a.name], at = FloorMod(at, extent), FloorDiv(at, extent)",
        "out[a.name], at = FloorDiv(at, extent), FloorMod(at, extent)",
        (on("result", CONV, PACKED, N=1, C=5, H=4, W=7, F=19, KH=2, KW=3),),
    ),
    Miscompilation(
        "the last part of a long row of a pack is as long as the others",
        "pack_filling._Filler.transposed.columns",
        "most = Min(Add(low, IntImm(each)), IntImm(whole))",
        "most = Add(low, IntImm(each))",
        (on("death", MM_T, {"vector": 1, "register_tile": (4, 64), "pack": True}, M=8, K=528, N=64),),
    ),
    Miscompilation(
        "a pack is filled only where it is made",
        "pack_filling.fill_packs",
        "            packed = filler.packed(chunk)\n            fills = [filler.copy(packed)]\n",
        "            known = {a.name for a in builder.arrays}\n            packed = filler.packed(chunk)\n            fills = [] if packed.array.name in known else [filler.copy(packed)]\n",
        (
            on(
                "result",
                MM_T,
                {"machine": {"l2": 65536}, "vector": 1, "register_tile": (4, 8)},
                M=4,
                N=16,
                K=1100,
            ),
        ),
    ),
    Miscompilation(
        "a pack is filled beside a loop that has no iterations",
        "pack_filling._Filler.where_read",
        "                fill = If(GT(a.points, ZERO), fill)\n",
        "                pass\n",
        (
            on(
                "trace",
                "def f(float(K,N) A) -> (T, C) { T(i,j) = A(j,j) where i in 0:K\nC(i,k) +=! T(j,k) * A(2 * i,i-3) where k in 0:N }",
                {**LANES_N, "pack": True, "machine": {"l1": 2048, "l2": 8192, "l3": 65536}},
                dynamic="K",
                K=9,
                N=9,
            ),
        ),
    ),
    Miscompilation(
        "chunks share the memory of their packs",
        "builder.Builder.private",
        "self.workspace += stride * (self.chunks if chunk is not None else 1)",
        "self.workspace += stride",
        (on("trace", MM_T, {"tile": (6, 8), "register_tile": (3, 8), "vector": 1}, M=6, N=20, K=12),),
    ),
    Miscompilation(
        "what a shift adds at the end of a row is not taken away",
        "dots._Shifter.made",
        "parts.append(For(step, ZERO, IntImm(rest), 1, LoopKind.SERIAL, compute(array, where, value)))",
        "pass",
        (on("result", BYTES, isa=None, M=5, K=87, N=40),),
    ),
    # Axes of dynamic extent.
    Miscompilation(
        "a share is as long as the others where less is left",
        "dynamic.cache_tiles",
        "((points, Min(length, left)),)",
        "((points, length),)",
        (on("trace", SUM, dynamic="N M", N=37, M=41),),
    ),
    Miscompilation(
        "the last share is lost",
        "dynamic.cache_tiles",
        "before.append((number, ceil_div(a.points, length)))",
        "before.append((number, FloorDiv(a.points, length)))",
        (on("trace", SUM, dynamic="N M", N=37, M=41),),
    ),
    Miscompilation(
        "half a register tile is not left over",
        "dynamic._power_of_two",
        "return If(GE(inside, IntImm(step)), s)",
        "return If(GT(inside, IntImm(step)), s)",
        (on("result", MM, {"vector": 1, "register_tile": (3, 16)}, dynamic="N", M=6, N=24, K=5),),
    ),
    # Checks of the language.
    Miscompilation(
        "an update in place reads what it overwrites",
        "checks._in_place_access",
        "if init is None and a.subscripts == s.write.subscripts and not s.reduction:",
        "if init is None:",
        (on("result", "def f(float(N) A) -> (B) { B(i) = A(i)\nB(i) = B(N-1-i) where i in 0:N }", N=8),),
    ),
    Miscompilation(
        "an element behind the last one exists",
        "inside._inside",
        "within(found, (0, int(extent) - 1))",
        "within(found, (0, int(extent)))",
        (
            on(
                "structure",
                "def f(float(N) A) -> (B) { B(i) +=! A(i+j) where i in 0:N, j in 0:2, i + j < N }",
                N=9,
            ),
        ),
    ),
    Miscompilation(
        "all elements of a dimension of symbolic size exist",
        "inside._inside",
        "room is not None and room >= 0",
        "room is not None",
        (
            on(
                "structure",
                "def f(float(N) A, float(M) W) -> (B) { B(i) +=! A(j) * W(i) where i in 0:M, j in 0:N+1, j < N }",
                dynamic="N",
                N=9,
                M=5,
            ),
        ),
    ),
    Miscompilation(
        "two iterations share a part of a private array",
        "private_arrays._distinct",
        "return implied(reduce(And, same), facts, sizes)",
        "return True",
        (
            on(
                "equivalence",
                """
                def f(float(N,D) x) -> (y) {
                  for n in 0:N {
                    h(n,d) = n > d % 2 ? 0.5 * h(n-1,d) + x(n,d) : x(n,d)
                    y(n,d) = h(n,d) * 2
                  }
                }
                """,
                SMALL_CACHES,
                N=9,
                D=40,
            ),
        ),
    ),
    Miscompilation(
        "a private array is thought to be read where it is written",
        "private_arrays._dimension",
        "if added is None or (common is not None and outer != common):",
        "if added is None:",
        (
            on(
                "equivalence",
                "def f(float(N,D) x) -> (y) { for n in 0:N { h(n,d) = x(n,d) * 2 y(n,d) = h(n/2,d) + h(n,d) } }",
                SMALL_CACHES,
                N=9,
                D=40,
            ),
        ),
    ),
    Miscompilation(
        "an element of two iterations before is carried",
        "carried._reads_carried",
        "Sub(Variable(loop.var), ONE)",
        "Sub(Variable(loop.var), IntImm(2))",
        (
            on(
                "equivalence",
                "def f(float(D) x) -> (y) { y(d) = x(d) for d in 2:D { y(d) = y(d-2) + x(d) } }",
                D=9,
            ),
        ),
    ),
    Miscompilation(
        "the first iteration reads what the last one does",
        "carried._Carrier.loop",
        "simplify(substitute(x, {loop.var: loop.lower}), exact=True)",
        "simplify(substitute(x, {loop.var: Sub(loop.upper, ONE)}), exact=True)",
        (on("equivalence", CUMULATIVE, isa="sse4.2", N=5, D=9),),
    ),
    Miscompilation(
        "rows that are left are not computed",
        "interleaved_rows.interleaved",
        "If(enough, replace(loop, body=several), rest)",
        "If(enough, replace(loop, body=several))",
        (on("equivalence", CUMULATIVE, isa="sse4.2", N=9, D=4000),),
    ),
    Miscompilation(
        "vectors that become rows are as many rows",
        "serial_rows._merged",
        "IntImm(s.upper.value * lanes.value)",
        "s.upper",
        (on("equivalence", SMOOTHED, isa="sse4.2", N=128, D=12),),
    ),
    Miscompilation(
        "rows that are computed at a time are one row",
        "interleaved_rows.interleaved",
        "{rows.var: Add(row, IntImm(i))}",
        "{rows.var: row}",
        (on("equivalence", SMOOTHED, isa="sse4.2", N=128, D=12),),
    ),
    Miscompilation(
        "a loop moves into rows that read each other",
        "inward._own_dimension",
        "high - low >= factor",
        "False",
        (
            on(
                "equivalence",
                "def f(float(N,D) x) -> (y) { y(n,d) = x(n,d) for d in 1:D { y(n,d) = y(n+1,d-1) + x(n,d) where n in 0:N-1 } }",
                N=257,
                D=20,
            ),
        ),
    ),
    Miscompilation(
        "of loops over the same rows the last one runs first",
        "inward._fused",
        "(*flattened(last.body), *flattened(body))",
        "(*flattened(body), *flattened(last.body))",
        (
            on(
                "equivalence",
                "def f(complex64(B,N) x, complex64(S,H) w) -> (a) { a(b,i) = x(b,i) for s in 0:S { u(b,i) = a(b,i) + a(b,i+H) where i in 0:H v(b,i) = (a(b,i) - a(b,i+H)) * w(s,i) a(b,i) = i % 2 == 0 ? u(b,i/2) : v(b,i/2) where i in 0:N } }",
                B=8,
                N=64,
                S=3,
                H=32,
            ),
        ),
    ),
    Miscompilation(
        "the remainder of the last thread is left out",
        "inward._one_iteration_apart",
        "s.then if x is s else x for x in parts",
        "x for x in parts if x is not s",
        (
            on(
                "equivalence",
                "def f(float(N,D) x) -> (y) { y(n,0) = x(n,0) for d in 1:D { y(n,d) = max(y(n,d-1), x(n,d)) } }",
                {"vector": 0},
                N=2600,
                D=20,
            ),
        ),
    ),
    Miscompilation(
        "the condition of the first iteration holds in all others, too",
        "peeled_iterations._beyond",
        "(kind in (GT, GE)) == (factor > 0)",
        "(kind in (GT, GE)) != (factor > 0)",
        (on("equivalence", GUARDED, N=9, D=12),),
    ),
    Miscompilation(
        "an iteration that was peeled runs in the loop again",
        "peeled_iterations._peeled",
        "start, end = _plus(loop.lower, before)",
        "start, end = _plus(loop.lower, before - 1)",
        (on("equivalence", GUARDED, N=9, D=12),),
    ),
    Miscompilation(
        "a statement takes the element that another has stored for the one before it",
        "rows_in_lanes._Plan.known",
        "found[e] = j, distance",
        "found[e] = j, distance if j >= at else 0",
        (
            on(
                "equivalence",
                "def f(int(N,M) x) -> (y, z) { y(n,j) = x(n,j) z(n,j) = x(n,j) for j in 1:M { y(n,j) = y(n,j-1) - x(n,j) z(n,j) = max(z(n,j-1), y(n,j-1)) } }",
                N=16,
                M=21,
            ),
        ),
    ),
    Miscompilation(
        "the last of the rows that fill no vector is left out",
        "rows_in_lanes._Writer.rows",
        "last = _exact(Min(Add(row, IntImm(count)), rows.upper))",
        "last = _exact(Sub(Min(Add(row, IntImm(count)), rows.upper), IntImm(1)))",
        (
            on(
                "equivalence",
                "def f(int(N,M) x) -> (y) { y(n,j) = x(n,j) for j in 1:M { y(n,j) = y(n,j-1) - x(n,j) } }",
                N=173,
                M=201,
            ),
        ),
    ),
    Miscompilation(
        "a row overwrites what the row above it has yet to read",
        "skewed_rows._skew",
        "if rows < 0:",
        "if rows < 0 and columns < 0:",
        (on("equivalence", BELOW, N=12, M=70),),
    ),
    Miscompilation(
        "the last columns of a row are those of the row above it",
        "skewed_rows._blocks",
        "For(index.name, IntImm(1), IntImm(count), 1, LoopKind.SERIAL, tail)",
        "For(index.name, IntImm(0), IntImm(count - 1), 1, LoopKind.SERIAL, tail)",
        (on("equivalence", BELOW, N=12, M=70),),
    ),
    Miscompilation(
        "an element behind the last one is read",
        "existing_reads.marked",
        "f[1] < n",
        "f[1] <= n",
        (on("structure", CHOSEN.replace("k", "j + i < M ? y(i-1,j+1)"), N=9, M=7),),
    ),
    Miscompilation(
        "an element before the first one is read",
        "existing_reads.marked",
        "f[0] >= 0",
        "f[0] >= -99",
        (on("structure", CHOSEN.replace("k", "j > i ? y(i-1,j-2)"), N=9, M=7),),
    ),
    Miscompilation(
        "a statement reads what it will store",
        "carried._Carrier.loop",
        "if k < i",
        "if k <= i",
        (on("equivalence", BELOW, N=12, M=70),),
    ),
    Miscompilation(
        "the rest of a row is not scattered",
        "scatters._vectors",
        "if count % lanes:",
        "if count % lanes > lanes:",
        (on("equivalence", SCATTER, values={"I": (0, 1, 2)}, N=9, D=21, M=4),),
    ),
    Miscompilation(
        "the rest of a row begins where the row does",
        "scatters._vectors",
        "rest = simplify(Add(low, IntImm(whole * lanes)), exact=True)",
        "rest = low",
        (on("equivalence", SCATTER, values={"I": (0, 1, 2)}, N=9, D=21, M=4),),
    ),
    Miscompilation(
        "threads scatter the columns that are left from the first one on",
        "scatters._column_parts",
        "first + whole * width, rest, found.statement",
        "first, rest, found.statement",
        (on("equivalence", SCATTER, values={"I": (0, 1, 2)}, N=1500, D=40, M=4000),),
    ),
    Miscompilation(
        "no thread scatters the columns that are left",
        "scatters._column_parts",
        "IntImm(whole + (rest > 0))",
        "IntImm(whole)",
        (on("equivalence", SCATTER, values={"I": (0, 1, 2)}, N=1500, D=40, M=4000),),
    ),
    Miscompilation(
        "parts of a scatter begin with what their copies had",
        "scatter_copies.in_copies",
        "whole = Block((_over(shape, elements, start, row), update))",
        "whole = update",
        (on("result", SCATTER, values={"I": (0, 1, 2)}, N=1500, D=40, M=4),),
    ),
    Miscompilation(
        "the last part of a scatter is not combined",
        "scatter_copies.in_copies",
        "LoopKind.SERIAL, _over(shape, elements, end, row)",
        "LoopKind.SERIAL, _over(shape[:-1] + [shape[-1] // 2], elements, end, row)",
        (on("equivalence", SCATTER, values={"I": (0, 1, 2)}, N=1500, D=40, M=4),),
    ),
)

"""Shuffles of lanes: transpositions and parts of vectors; masks of leading lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tc.dtypes import BOOL, INT32, DType

from .values import Value, ValueEmitter, type_text


class ShuffleEmitter(ValueEmitter):
    """Emits shuffles of vectors of any type and width."""

    def tail_mask(self, active: int, lanes: int) -> Value:
        """The mask of the first `active` lanes."""
        text = "<" + ", ".join(f"i1 {'true' if i < active else 'false'}" for i in range(lanes)) + ">"
        return Value(text, BOOL, lanes, None, active)

    def lanes_mask(self, places: Sequence[int], lanes: int) -> Value:
        """The mask of these lanes, in ascending order."""
        if list(places) == list(range(len(places))):
            return self.tail_mask(len(places), lanes)
        text = "<" + ", ".join(f"i1 {'true' if i in places else 'false'}" for i in range(lanes)) + ">"
        return Value(text, BOOL, lanes, some=0 in places, places=tuple(places))

    def leading_mask(self, active: str, lanes: int) -> Value:
        """The mask of the first `active` lanes, at least one; `active` is an i64 operand."""
        count = Value(self.pure(f"trunc i64 {active} to i32"), INT32)
        steps, count = self.steps(INT32, lanes, 1), self.widen(count, lanes)
        text = self.pure(f"icmp ult {type_text(INT32, lanes)} {steps.text}, {count.text}")
        return Value(text, BOOL, lanes, None, None, True)

    def transpose(self, rows: list[Value], lanes: int) -> list[Value]:
        """Lane i of row j becomes lane j of row i.  The results have the least power of two of lanes that
        holds all rows.

        The method is that of perfect shuffles (Stone, "Parallel processing with the perfect shuffle", 1971):
        first of elements within 128 bits, then of 128-bit lanes where there are more rows.  So most shuffles
        are instructions that need no operand for the order.
        """
        n = 1 << max(1, (len(rows) - 1).bit_length())
        t = rows[0].dtype
        each = min(16 // t.itemsize, lanes)  # elements in 128 bits
        m = min(n, each)
        texts = [*(r.text for r in rows), *["poison"] * (n - len(rows))]
        blocks = range(0, lanes, each)

        def picked(order: Sequence[int]) -> Callable[[str, str], str]:
            return lambda a, b: self.shuffled(type_text(t, lanes), a, b, order)

        near = [b + i + j * lanes for b in blocks for i in range(each // 2) for j in (0, 1)]
        low, high = picked(near), picked([i + each // 2 for i in near])
        groups: list[list[str]] = []
        for first in range(0, n, m):
            group = texts[first : first + m]
            for _ in range(m.bit_length() - 1):
                pairs = list(zip(group[: m // 2], group[m // 2 :], strict=True))
                group = [f(a, b) for a, b in pairs for f in (low, high)]
            groups.append(group)
        if n <= each:  # several rows fit 128 bits
            parts = each // n
            places = [(i % each // parts, i // each * each + i % parts * n) for i in range(lanes)]
            return [Value(self._part(t, lanes, groups[0][v], at, n), t, n) for v, at in places]
        evens = picked([b + i for b in range(0, 2 * lanes, 2 * each) for i in range(each)])
        odds = picked([b + each + i for b in range(0, 2 * lanes, 2 * each) for i in range(each)])
        out = [""] * lanes
        for i in range(each):
            found = [g[i] for g in groups]
            for _ in range(len(blocks).bit_length() - 1):
                pairs = list(zip(found[::2], found[1::2], strict=True))
                found = [f(a, b) for f in (evens, odds) for a, b in pairs]
            for k in range(len(blocks)):
                v, at = divmod(k * n, lanes)
                if n <= lanes:
                    out[k * each + i] = self._part(t, lanes, found[v], at, n)
                else:
                    out[k * each + i] = self._concatenate(t, lanes, found[v : v + n // lanes])
        return [Value(x, t, n) for x in out]

    def shuffled(self, ty: str, a: str, b: str, order: Sequence[int | None]) -> str:
        """The elements of two vectors of one type, by number; undefined where the number is None."""
        if a == b == "poison":
            return a
        picked = ", ".join("i32 poison" if i is None else f"i32 {i}" for i in order)
        return self.pure(f"shufflevector {ty} {a}, {ty} {b}, <{len(order)} x i32> <{picked}>")

    def _part(self, t: DType, lanes: int, v: str, first: int, count: int) -> str:
        """Contiguous lanes of a vector."""
        whole = type_text(t, lanes)
        return v if count == lanes else self.shuffled(whole, v, "poison", range(first, first + count))

    def _concatenate(self, t: DType, lanes: int, vectors: Sequence[str]) -> str:
        """Vectors, one after the other, as one."""
        out = list(vectors)
        while len(out) > 1:
            pairs = zip(out[::2], out[1::2], strict=True)
            out = [self.shuffled(type_text(t, lanes), a, b, range(2 * lanes)) for a, b in pairs]
            lanes *= 2
        return out[0]

"""Bound inference (§5.2): how far index variables go, from the selections that they occur in.

A subscript that is a sum with whole coefficients bounds its variables in rounds: in each, a selection with
a single variable that is still open bounds it, for all values of those that are known.  Selections below
conditions are asked for what is open then, and last those that their condition alone keeps in bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tc.lang import resolved as r
from tc.lang.sac import terms as t
from tc.lang.sac.elaborate import Selection

Interval = tuple[Any, Any]  # low and end


def infer(
    names: Sequence[str], trace: Sequence[Selection], known: Mapping[str, Interval]
) -> tuple[dict[str, Interval], dict[str, str]]:
    """The intervals that the selections of a body leave the variables, cut to indices from 0 on, and the
    selections that each came from; variables that nothing bounds are not among them."""
    found: dict[str, Interval] = {}
    why: dict[str, str] = {}
    for turn in range(3):
        while True:
            new: dict[str, list[tuple[Interval, Selection]]] = {}
            for x in trace:
                if x.guarded + (x.guarded and x.protected) > turn:
                    continue
                bound = _bound(x, names, {**known, **found})
                if bound is not None:
                    new.setdefault(bound[0], []).append((bound[1], x))
            if not new:
                break
            for name, intervals in new.items():
                found[name] = _meet([i for i, _ in intervals])
                why[name] = ", ".join(dict.fromkeys(x.text for _, x in intervals))
    return found, why


def _meet(intervals: Sequence[Interval]) -> Interval:
    lows = tuple(dict.fromkeys(lo for lo, _ in intervals))
    ends = tuple(dict.fromkeys(hi for _, hi in intervals))
    return t.greatest(*lows), t.least(*ends)


def _bound(x: Selection, names: Sequence[str], known: Mapping[str, Interval]) -> tuple[str, Interval] | None:
    """The open variable of a selection, and the values with which it stays in bounds."""
    terms, k = t.linear(x.subscript)
    open_here = [
        n
        for n in names
        if n not in known and any(isinstance(e, r.Index) and e.name == n for e in t.walk(x.subscript))
    ]
    if len(open_here) != 1:
        return None
    (name,) = open_here
    mine = [a for a in terms if isinstance(a, r.Index) and a.name == name]
    if len(mine) != 1:
        return None
    c = terms[mine[0]]
    rest = t.written({a: n for a, n in terms.items() if a is not mine[0]}, k, x.span)
    if any(isinstance(e, r.Index) and e.name == name for e in t.walk(rest)):
        return None
    if any(isinstance(e, r.Index) and e.name not in known for e in t.walk(rest)):
        return None
    if any(isinstance(e, (r.Access, t.Pick, t.Reduce)) for e in t.walk(rest)):
        return None
    least, most = (t.extreme(rest, known, upper) for upper in (False, True))
    if least is None or most is None:
        return None
    # 0 <= c * v + rest < extent for all values of rest
    zero, one = t.const(0, x.span), t.const(1, x.span)
    below, above = t.minus(zero, least), t.minus(t.minus(x.extent, one), most)  # below <= c v <= above
    if c > 0:
        lo, hi = _ceil(below, c), _floor(above, c)
    else:
        lo, hi = _ceil(t.minus(zero, above), -c), _floor(t.minus(zero, below), -c)
    return name, (t.greatest(lo, zero), t.plus(hi, one))


def _floor(e: Any, c: int) -> Any:
    if c == 1:
        return e
    return t.simplify(r.Binary("/", e, t.const(c, e.span), e.span))


def _ceil(e: Any, c: int) -> Any:
    if c == 1:
        return e
    return _floor(t.plus(e, t.const(c - 1, e.span)), c)

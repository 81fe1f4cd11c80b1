"""Boundary modes, written out: what an access yields outside its tensor (docs/language.md, "Boundary modes").

    X[fill=v](e)     e is inside ? X(e) : v
    X[clamp](e)      e is inside ? X(e) : X(the nearest subscript that is)

and so on: with the mapped subscript alone a compiler could not tell that most points need no mapping.  Where
several dimensions have modes, all of their subscripts are inside, or all are mapped.

The mapped subscripts are those of NumPy's `pad`.  With n elements from `lo` on and d = e - lo:

    clamp       lo + max(min(d, n - 1), 0)
    wrap        lo + d mod n
    reflect     lo + min(m, p - m), m = d mod p, p = 2 n - 2     about the edge elements
    symmetric   lo + min(m, p - 1 - m), m = d mod p, p = 2 n     about the edges
"""

from __future__ import annotations

from dataclasses import replace

from tc.lang import resolved as r


def expanded(e: r.Access) -> r.Exp:
    """An access without modes, or the conditional expression that one with modes stands for."""
    plain = replace(e, modes=())
    moded = [d for d in range(e.tensor.rank) if not e.constrained(d)]
    if not moded:
        return plain
    filled = [d for d in moded if e.modes[d].name == "fill"]
    mapped = [d for d in moded if e.modes[d].name != "fill"]
    outside: r.Exp = plain
    if mapped:
        subscripts = tuple(_mapped(e, d) if d in mapped else sub for d, sub in enumerate(e.subscripts))
        outside = replace(plain, subscripts=subscripts)
    for d in reversed(filled):
        value = e.modes[d].value
        assert value is not None
        inside = outside if mapped or d != filled[-1] else plain
        outside = r.If(_inside(e, d), inside, value, e.span)
    if not mapped:
        return outside
    condition = _inside(e, moded[0])
    for d in moded[1:]:
        condition = r.Binary("&&", condition, _inside(e, d), e.span)
    return r.If(condition, plain, outside, e.span)


def _inside(e: r.Access, d: int) -> r.Exp:
    """Whether a subscript is one of the tensor."""
    low, high = _origin(e, d), _plus(_origin(e, d), r.ExtentOf(e.tensor, d, e.span))
    at = e.subscripts[d]
    return r.Binary("&&", r.Binary(">=", at, low, e.span), r.Binary("<", at, high, e.span), e.span)


def _origin(e: r.Access, d: int) -> r.Exp:
    if e.tensor.base is not None or e.tensor.role == "param":
        return r.Const(0, False, e.span)
    return r.OriginOf(e.tensor, d, e.span)


def _plus(a: r.Exp, b: r.Exp) -> r.Exp:
    return b if isinstance(a, r.Const) and a.value == 0 else r.Binary("+", a, b, a.span)


def _mapped(e: r.Access, d: int) -> r.Exp:
    """The subscript of the element that a mode yields."""
    span, low, n = e.span, _origin(e, d), r.ExtentOf(e.tensor, d, e.span)
    at = e.subscripts[d]
    offset = at if isinstance(low, r.Const) else r.Binary("-", at, low, span)

    def number(value: int) -> r.Exp:
        return r.Const(value, False, span)

    def binary(op: str, a: r.Exp, b: r.Exp) -> r.Exp:
        return r.Binary(op, a, b, span)

    def least(a: r.Exp, b: r.Exp) -> r.Exp:
        return r.Apply("min", (a, b), span)

    match e.modes[d].name:
        case "clamp":
            found: r.Exp = r.Apply("max", (least(offset, binary("-", n, number(1))), number(0)), span)
        case "wrap":
            found = binary("%", offset, n)
        case "reflect":
            period = binary("-", binary("*", number(2), n), number(2))
            rest = binary("%", offset, period)
            found = least(rest, binary("-", period, rest))
        case _:
            period = binary("*", number(2), n)
            rest = binary("%", offset, period)
            found = least(rest, binary("-", binary("-", period, number(1)), rest))
    return _plus(low, found)

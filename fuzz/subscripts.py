"""Random subscripts."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from fuzz.tree import Access, Binary, Call, Cast, Choice, Exp, Index, Number, Scalar, Unary

_EXACT = ["+", "-", "*", "++", "*+", "/", "%", "max", "abs", "n-", "s", "0"]
_KINDS = [*_EXACT, "float", "narrow", "compared", "X", "X+"]


def number(n: int) -> Exp:
    return Number(str(n)) if n >= 0 else Unary("-", Number(str(-n)))


@st.composite
def subscripts(draw: st.DrawFn, scalars: Mapping[str, str], indirect: bool, pool: str) -> Exp:
    """Affine, clamped, divided, computed in another type, or read from X (if `indirect`)."""
    v = Index(draw(st.sampled_from(pool)))
    kind = draw(st.sampled_from(["v"] * 10 + _KINDS))
    n = number(draw(st.integers(1, 3)))
    w = Index(draw(st.sampled_from(pool)))
    more = number(draw(st.integers(2, 4)))
    match kind:
        case "+" | "-":
            return Binary(kind, v, n)
        case "*":
            return Binary("*", more, v)
        case "++":
            return Binary("+", v, w)
        case "*+":
            return Binary("-", Binary("+", Binary("*", more, v), w), n)
        case "/" | "%":
            return Binary(kind, v, more)
        case "max":
            return Call("max", (Binary("-", v, n), number(0)))
        case "abs":
            return Call("abs", (Binary("-", v, n),))
        case "float":
            factor = draw(st.sampled_from(["0.25", "0.5", "0.75", "1.5"]))
            return Cast(
                "int", Binary("*", Cast(draw(st.sampled_from(["float", "double"])), v), Number(factor))
            )
        case "narrow":
            return Cast(draw(st.sampled_from(["int8", "uint8", "int16"])), v)
        case "compared":
            return Choice(Binary("<", Binary("*", v, Number("0.5")), n), v, number(0), False)
        case "n-":
            return Binary("-", number(draw(st.integers(4, 9))), v)
        case "s" if scalars.get("s") == "int":
            return Binary("+", v, Scalar("s"))
        case "0":
            return number(draw(st.integers(0, 1)))
        case "X" if indirect:
            return Access("X", (v,))
        case "X+" if indirect:
            return Binary("+", Access("X", (v,)), Access("X", (w,)))
        case _:
            return v

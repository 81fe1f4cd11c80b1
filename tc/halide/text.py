"""Lowered programs as text, in Halide's notation: what was built, printed by Halide and made readable."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tc.halide.binding import HlExpr

if TYPE_CHECKING:
    from tc.halide.funcs import Definition, Lowered

_SHOWN = re.compile(r"<halide\.\w+ of type [^:]+: (.*)>\Z", re.DOTALL)
_TYPE_OF_CALL = re.compile(r"\((?:uint|int|float)\d+\)(?=[A-Za-z_][\w$]*\()")
_NAME = re.compile(r"\btc_\w+(?:\$\d+)?")
_RVAR = re.compile(r"\br\$(\w+)")
_FLOAT = re.compile(r"(\d+\.\d*?)0+(?=f|\b)")


def render(lowered: Lowered) -> str:
    """One declaration or definition a line, each definition with its source behind it."""
    names = _names(lowered)
    lines: list[str] = []
    for image in lowered.images.values():
        lines.append(f"ImageParam {names[image.name()]}({_type(image)}, {image.dimensions()})")
    for name, param in lowered.params.items():
        lines.append(f"Param {name}({_type(param)})")
    left = [_definition(d, names) for d in lowered.definitions]
    width = max((len(t[-1]) for t in left), default=0)
    for d, text in zip(lowered.definitions, left, strict=True):
        lines += text[:-1]
        lines.append(f"{text[-1]:<{width}}  // {d.text}" if d.text else text[-1])
    outputs = ", ".join(names[f.name()] for f in lowered.outputs)
    return "\n".join([*lines, f"Pipeline({{{outputs}}})"]) + "\n"


def _names(lowered: Lowered) -> dict[str, str]:
    """How each of Halide's names is shown: an image is called through its own Func, whose name ends in _im."""
    out: dict[str, str] = {}
    for made, name in lowered.names.items():
        out[made] = out[f"{made}_im"] = re.sub(r"\W", "_", name)
    return out


def _definition(d: Definition, names: dict[str, str]) -> list[str]:
    lines: list[str] = []
    if d.ranges:
        ranges = ", ".join(f"{expression(lo, names)}, {expression(extent, names)}" for lo, extent in d.ranges)
        lines.append(f"RDom r({ranges})")
    lines += [f"r.where({expression(c, names)})" for c in d.predicates]
    args = ", ".join(expression(a, names) for a in reversed(d.args))
    target = f"{names[d.func.name()]}({args})"
    value = expression(d.value, names)
    if value.startswith(f"{target} + "):
        lines.append(f"{target} += {_bare(value.removeprefix(f'{target} + '))}")
    else:
        lines.append(f"{target} = {value}")
    return lines


def expression(e: HlExpr, names: dict[str, str]) -> str:
    """An expression, without the types of reads, uniquifying suffixes and outer parentheses."""
    text = repr(e)
    shown = _SHOWN.match(text)
    text = shown[1] if shown else str(e.name()) if hasattr(e, "name") else str(e)
    text = _TYPE_OF_CALL.sub("", text)
    text = _NAME.sub(lambda m: names.get(m[0], m[0]), text)
    text = _RVAR.sub(r"r.\1", text)
    text = _FLOAT.sub(lambda m: m[1] + ("0" if m[1].endswith(".") else ""), text)
    return _bare(text)


def _bare(text: str) -> str:
    """Without the parentheses that enclose all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if k == len(text) - 1 else text
    return text


def _type(p: HlExpr) -> str:
    return str(p.type())

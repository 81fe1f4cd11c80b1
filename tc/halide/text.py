"""Lowered programs as text: the structure is Halide's (Funcs, RDoms, argument order), expressions are the
language's.

Operators and functions have the language's meaning, however many Halide nodes spell it; what is added to
reads is shown: `clamp(i, 0, N - 1)` where a subscript is only right under a condition or cannot be bounded,
`check(i, 0, N - 1)` where it is checked when the kernel runs.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tc.halide.expressions import Scope, SubscriptForm
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.printer import text
from tc.ir.program import Box

if TYPE_CHECKING:
    from tc.halide.funcs import Definition, Lowered

_SYMBOL = {"+": "+=", "*": "*="}


def render(lowered: Lowered) -> str:
    """One declaration or definition a line, each definition with its source behind it."""
    program = lowered.program
    names = {made: re.sub(r"\W", "_", name) for made, name in lowered.names.items()}
    lines: list[str] = []
    for name, image in lowered.images.items():
        lines.append(f"ImageParam {names[image.name()]}({program.buffer(name).dtype}, {image.dimensions()})")
    types = {s.name: s.dtype.name for s in program.scalars}
    lines += [f"Param {name}({types.get(name, 'int32')})" for name in lowered.params]
    shown = [_definition(d, names) for d in lowered.definitions]
    width = max((len(made[-1]) for made in shown), default=0)
    for d, made in zip(lowered.definitions, shown, strict=True):
        lines += made[:-1]
        lines.append(f"{made[-1]:<{width}}  // {d.text}" if d.text else made[-1])
    outputs = ", ".join(names[f.name()] for f in lowered.outputs)
    return "\n".join([*lines, f"Pipeline({{{outputs}}})"]) + "\n"


def _definition(d: Definition, names: dict[str, str]) -> list[str]:
    name = names[d.func.name()]
    s = d.stage
    if s is None:
        args = ", ".join(reversed(d.axes))
        return [f"{name}({args}) = {f'{names[d.start]}({args})' if d.start else 'undef()'}"]
    reduced = [v for v in s.domain.vars if v.name in d.reduced]
    lines: list[str] = []
    index = {v: x.Variable(new) for v, new in d.axis_names.items()}
    if reduced:
        where = (f"{text(v.range.min)}, {text(v.range.extent)}" for v in reversed(reduced))
        lines.append(f"RDom r({', '.join(where)})")
        parts = "xyzw" if len(reduced) <= 4 else ""
        for k, v in enumerate(reversed(reduced)):
            index[v.name] = x.Variable(f"r.{parts[k]}" if parts else f"r[{k}]")
        lines += [f"r.where({text(x.substitute(c, dict(index)))})" for c in s.domain.conditions]
    shown = _Shown(names, d.sources)
    target = f"{name}({', '.join(text(x.substitute(a, dict(index))) for a in reversed(s.args))})"
    value = text(x.substitute(shown.value(s.value, d.scope), dict(index)))
    if s.op in _SYMBOL:
        return [*lines, f"{target} {_SYMBOL[s.op]} {value}"]
    return [*lines, f"{target} = {f'{s.op}({target}, {value})' if s.op else value}"]


class _Shown:
    """Values with reads as Halide gets them: innermost subscript first, clamps and checks in place."""

    def __init__(self, names: dict[str, str], sources: dict[str, str]) -> None:
        self.names = names
        self.sources = sources

    def value(self, e: Expr, scope: Scope) -> Expr:
        match e:
            case x.IfThenElse():
                inner = replace(scope, guarded=True)
                return x.Select(
                    self.value(e.condition, scope),
                    self.value(e.then_value, inner),
                    self.value(e.else_value, inner),
                )
            case x.Let():
                hidden = replace(scope, lets={**scope.lets, e.name: None})
                return x.Let(e.name, self.value(e.value, scope), self.value(e.body, hidden))
            case x.Call(kind="func" | "image"):
                box = scope.tensors[e.name].box
                subscripts = [
                    _subscript(self.value(sub, scope), scope.form(e, d), box, d)
                    for d, sub in enumerate(e.args)
                ]
                name = self.names[self.sources[e.name]]
                return replace(e, name=name, args=tuple(reversed(subscripts)), checked=())
            case _:
                return x.rebuild(e, lambda c: self.value(c, scope))


def _subscript(e: Expr, form: SubscriptForm, box: Box, d: int) -> Expr:
    if form == "plain":
        return e
    last = x.Sub(box[d].end, x.ONE)
    return x.Call("clamp" if form == "clamp" else "check", (e, box[d].min, last), e.dtype, "intrinsic")

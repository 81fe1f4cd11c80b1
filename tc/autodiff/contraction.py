"""Tensors without the iterations of loops that they do not outlive.

On a tape a tensor that is made in an iteration of a loop has the counter as a dimension.  Where all that
defines and reads it is in the same iteration of the same loop, one value of it at a time will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.autodiff.loops import Loop
from tc.autodiff.tape import Definition, Version, mapped, reads
from tc.ir.expr import Call, Expr, rebuild


def contracted(definitions: Sequence[Definition], versions: Mapping[str, Version]) -> list[Definition]:
    """The definitions with as few dimensions for iterations as they need."""
    needless: dict[str, int] = {}  # how many of the first dimensions
    around: dict[str, tuple[Loop, ...]] = {}
    for d in definitions:
        for name, args in [(d.target, d.args), *((c.name, c.args) for c in reads(d))]:
            v = versions.get(name)
            if v is None or not v.loops or v.role != "temporary":
                continue
            common = _common(around.setdefault(name, d.loops), d.loops)
            around[name] = d.loops[:common]
            most = min(needless.get(name, len(v.loops)), common)
            needless[name] = next((k for k in range(most) if args[k] != d.loops[k].at), most)
    dropped = {name: k for name, k in needless.items() if k}

    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        return replace(e, args=e.args[dropped[e.name] :]) if isinstance(e, Call) and e.name in dropped else e

    def without(d: Definition) -> Definition:
        made = mapped(d, visit)
        return replace(made, args=made.args[dropped.get(d.target, 0) :])

    return list(map(without, definitions)) if dropped else list(definitions)


def _common(a: tuple[Loop, ...], b: tuple[Loop, ...]) -> int:
    k = 0
    while k < min(len(a), len(b)) and a[k] == b[k]:
        k += 1
    return k

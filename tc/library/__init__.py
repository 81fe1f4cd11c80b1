"""A library of ready TCs: products, convolutions, normalisations, attention, losses and others.

    y = tc.library.conv2d(x, w, stride=2, padding=1)  # arrays of NumPy, PyTorch or JAX
    tc.library.list()                                  # what there is
    print(tc.library.conv2d.source)                    # the program, to copy and to change

Each is a `.tc` file in a folder beside this one.  With tensors of PyTorch and arrays of JAX that require
gradients an operator is differentiable.  `docs/library.md` has a table.
"""

from __future__ import annotations

import builtins
import functools
from pathlib import Path
from types import MappingProxyType

from tc.errors import did_you_mean
from tc.library.operator import Operator

__all__ = ["Operator", "list", "operators"]

_ROOT = Path(__file__).parent


@functools.cache
def _files() -> MappingProxyType[str, Path]:
    found = sorted(_ROOT.glob("*/*.tc"))
    return MappingProxyType({p.stem: p for p in sorted(found, key=lambda p: p.stem)})


@functools.cache
def _operator(name: str) -> Operator:
    path = _files()[name]
    return Operator(name, path.parent.name, path.read_text(encoding="utf-8"))


def operators() -> dict[str, Operator]:
    """All operators by name."""
    return {name: _operator(name) for name in _files()}


class Listing(tuple[Operator, ...]):
    """Operators, which print as a table: name, arguments and results, and what they compute."""

    __slots__ = ()

    def __repr__(self) -> str:
        rows = [(x.name, x.shapes, x.summary) for x in self]
        widths = [max((len(r[k]) for r in rows), default=0) for k in range(2)]
        lines: builtins.list[str] = []
        for group in dict.fromkeys(x.group for x in self):
            lines += ["", f"{group}:"] if lines else [f"{group}:"]
            for x, r in zip(self, rows, strict=True):
                if x.group == group:
                    lines.append(f"  {r[0]:<{widths[0]}}  {r[2]}\n  {'':<{widths[0]}}  {r[1]}")
        return "\n".join(lines)


def list(group: str | None = None) -> Listing:
    """The operators, by kind and then by name; those of one kind if `group` names one."""
    found = sorted(operators().values(), key=lambda x: (x.group, x.name))
    return Listing(x for x in found if group in (None, x.group))


def __getattr__(name: str) -> Operator:
    if name in _files():
        return _operator(name)
    near = did_you_mean(name, _files())
    raise AttributeError(f"tc.library has no '{name}'" + (f"; {near}" if near else ""))


def __dir__() -> builtins.list[str]:
    return sorted([*__all__, *_files()])

"""Affine functions of instances as text for isl: their tile, thread and step.

An instance is one of a statement, or a point of axes at which a transfer runs (`Tuple`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from tc.poly.gpu.mapping import AxisMap, alone, several, steps
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of isl, the instances of a name: dimension i is `di`, the index `variables[i]`."""

    name: str
    variables: tuple[str, ...]
    axes: Mapping[str, int] = field(hash=False)  # by name of the axis, the dimension that it is

    @property
    def text(self) -> str:
        return f"{self.name}[{', '.join(f'd{i}' for i in range(len(self.variables)))}]"

    def point(self, axis: Axis) -> str:
        """The number of the point along an axis, from 0 (from an arbitrary one if its first point varies)."""
        position = f"d{self.axes[axis.name]}"
        return (
            position
            if axis.typical_min == 0 or axis.first is not None
            else f"({position} - {axis.typical_min})"
        )

    def tile(self, axis: Axis, m: AxisMap) -> str:
        return f"floor({self.point(axis)}/{m.tile})"

    def turn(self, axis: Axis, m: AxisMap) -> str:
        """The value of the block variable of the block that runs a tile."""
        # Omit redundant modulo operations, which cost isl time.
        return self.tile(axis, m) if alone(axis, m) else f"({self.tile(axis, m)}) mod {m.blocks}"

    def thread(self, axis: Axis, m: AxisMap) -> str:
        fits = axis.size is None and axis.first is None and axis.typical_extent <= m.threads
        return self.point(axis) if fits else f"({self.point(axis)}) mod {m.threads}"

    def step(self, axis: Axis, m: AxisMap) -> str | None:
        """The number of a point among those of its thread in its tile; None if there is only one."""
        if steps(axis, m) == 1:
            return None
        whole = not m.tile or (axis.size is None and m.tile >= axis.typical_extent)
        inside = self.point(axis) if whole else f"({self.point(axis)}) mod {m.tile}"
        return f"floor(({inside})/{m.threads})" if m.threads > 1 else inside


def of_statement(scop: Scop, name: str, axes: Iterable[Axis]) -> Tuple:
    variables = scop.statement(name).stage.domain.names
    found = {a.name: variables.index(a.vars[name]) for a in axes if name in a.vars}
    return Tuple(name, variables, found)


def of_axes(name: str, axes: Sequence[Axis]) -> Tuple:
    """The points of axes; the variables are named for the axes."""
    names = tuple(a.name for a in axes)
    return Tuple(name, names, {n: i for i, n in enumerate(names)})


def threads_of(
    t: Tuple, axes: Sequence[tuple[Axis, AxisMap]], variables: Sequence[str], everywhere: bool = False
) -> dict[str, str]:
    """The values of the thread variables of the thread that runs an instance.

    Variables that no axis uses are 0, or with `everywhere` arbitrary and left out.
    """
    found = {m.thread: t.thread(a, m) for a, m in axes if m.thread is not None}
    return {v: found.get(v, "0") for v in variables if v in found or not everywhere}


def to_tile_points(ctx: isl.Context, t: Tuple, axes: Iterable[tuple[Axis, AxisMap, int]]) -> isl.Map:
    """The relation from an instance to all points of its tile along `axes`, each with the number of points of
    a tile, which is used for axes with only one tile."""
    conditions = {i: f"e{i} = d{i}" for i in range(len(t.variables))}
    for a, m, size in axes:
        i = t.axes[a.name]
        if several(a, m):
            conditions[i] = (
                f"floor((e{i} - {a.typical_min})/{m.tile}) = floor((d{i} - {a.typical_min})/{m.tile})"
            )
        else:
            conditions[i] = f"{a.typical_min} <= e{i} < {a.typical_min + size}"
    target = t.text.replace("[d", "[e").replace(" d", " e")
    where = " and ".join(conditions.values())
    return isl.Map.read_from_str(ctx, f"{{ {t.text} -> {target}" + (f" : {where} }}" if where else " }"))


def band(ctx: isl.Context, members: Sequence[Mapping[Tuple, str]]) -> isl.MultiUnionPwAff:
    """A band: for each member a function of all tuples, given as text by tuple."""
    parts = ("{ " + "; ".join(f"{t.text} -> [({e})]" for t, e in m.items()) + " }" for m in members)
    return isl.MultiUnionPwAff.read_from_str(ctx, f"[{', '.join(parts)}]")


def where(
    ctx: isl.Context, conditions: Mapping[Tuple, Sequence[str]], parameters: Sequence[str] = ()
) -> isl.UnionSet:
    """The set of instances of each tuple that satisfy its conditions."""
    parts = (f"{t.text}" + (f" : {' and '.join(c)}" if c else "") for t, c in conditions.items())
    return isl.UnionSet.read_from_str(ctx, f"[{', '.join(parameters)}] -> {{ {'; '.join(parts)} }}")


def function(ctx: isl.Context, t: Tuple, values: Sequence[str], name: str = "place") -> isl.PwMultiAff:
    """The function from an instance to these values, in the space `name`."""
    return isl.PwMultiAff.read_from_str(
        ctx, f"{{ {t.text} -> {name}[{', '.join(f'({v})' for v in values)}] }}"
    )


def relation(ctx: isl.Context, t: Tuple, values: Sequence[str], name: str = "") -> isl.Map:
    return isl.Map.from_pw_multi_aff(function(ctx, t, values, name))

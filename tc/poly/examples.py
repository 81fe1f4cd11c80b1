"""Example points of sets and relations, for messages: the smallest sizes, then the first instances."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from tc.ir.expr import Variable
from tc.poly.affine import PARAM, SET, Parameters
from tc.poly.context import exhausted
from tc.poly.scop import Scop


@dataclass(frozen=True, slots=True)
class Example:
    """A point of a set: the values of sizes and scalars, with those that are given, and its coordinates."""

    sizes: dict[str, int]
    point: tuple[int, ...]

    @property
    def for_sizes(self) -> str:
        """` for M = 2, N = 3`, or nothing where there are none."""
        return f" for {assignments(self.sizes)}" if self.sizes else ""


def assignments(values: dict[str, int]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in values.items())


def example(parameters: Parameters, where: isl.Set) -> Example | None:
    """A point of a set (its parameters first made as small as they can be), or None if it is empty."""
    if where.is_empty():
        return None
    names = [where.get_dim_name(PARAM, i) or "" for i in range(where.dim(PARAM))]
    flat = where.flatten() if where.is_wrapping() else where
    flat = flat.move_dims(SET, 0, PARAM, 0, len(names))
    try:
        chosen = flat.lexmin()
    except isl.Error:
        if exhausted():
            raise
        chosen = flat  # there is no least element
    p = chosen.sample_point()
    values = [int(p.get_coordinate_val(SET, i).to_python()) for i in range(flat.dim(SET))]
    sizes: dict[str, int] = {}
    for n, v in zip(names, values, strict=False):
        e = parameters.values.get(n)
        if isinstance(e, Variable):
            sizes[e.name] = v
    return Example({**sizes, **parameters.given}, tuple(values[len(names) :]))


def pair(parameters: Parameters, relation: isl.Map) -> tuple[Example, Example] | None:
    """A pair of a relation."""
    found = example(parameters, relation.wrap())
    if found is None:
        return None
    n = relation.dim(isl.dim_type.in_)
    return Example(found.sizes, found.point[:n]), Example(found.sizes, found.point[n:])


def instance_text(scop: Scop, name: str, point: tuple[int, ...]) -> str:
    """`S1 at i = 0, k = 2`."""
    statement = scop.statement(name)
    where = assignments(dict(zip(statement.stage.domain.names, point, strict=True)))
    return f"{statement.stage.name} at {where}" if where else statement.stage.name

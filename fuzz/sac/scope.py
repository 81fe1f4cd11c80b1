"""What a random SaC program may refer to where it is being written."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzz.sac import tree as s
from fuzz.sac.evaluate import STORED

BASES = {"int": np.int32, "long": np.int64, "double": np.float64, "bool": np.bool_}


@dataclass(frozen=True, slots=True)
class Variable:
    """An index variable, or an index vector of `len(box)` components; `hidden`: it may select from nothing,
    because that would give it another range."""

    name: str
    box: tuple[tuple[int, int], ...]
    vector: bool
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    variables: tuple[Variable, ...] = ()
    arrays: tuple[s.Name, ...] = ()

    def within(self, *new: Variable) -> Context:
        names = {v.name for v in new}
        kept = tuple(v for v in self.variables if v.name not in names)
        arrays = tuple(a for a in self.arrays if a.id not in names)
        return Context((*kept, *new), arrays)

    def naming(self, name: s.Name) -> Context:
        kept = tuple(a for a in self.arrays if a.id != name.id)
        return replace(self, arrays=(*kept, name))


@dataclass(slots=True)
class Scope:
    """The parameters of the function that is being written, made as they are needed."""

    prefix: str
    inner: bool  # it is called by another: parameters hold what the call passes
    params: dict[str, s.Name] = field(default_factory=dict[str, s.Name])
    data: dict[str, Any] = field(default_factory=dict[str, Any])


class Names:
    """Parameters and their data, names, and numbers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.scopes = [Scope("", False)]
        self.count = 0
        self.left = rng.choice((6, 12, 25, 40))  # nodes that may still branch

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def parameter(self, shape: s.Shape, type: str, most: int | None = None) -> s.Name:
        """A parameter of the function, one that there is or a new one; `most`: its values are indices below
        this."""
        if most is None:
            fitting = [p for p in self.scope.params.values() if (p.shape, p.type) == (shape, type)]
            if fitting and self.chance(0.6):
                return self.rng.choice(fitting)
        name = self.fresh(self.scope.prefix + ("n" if not shape else "A" if most is None else "X"))
        made = s.Name(shape, type, name)
        if most is None:
            self.scope.params[name] = made
        self.scope.data[name] = (made, self._values(shape, type, most))
        return made

    def _values(self, shape: s.Shape, type: str, most: int | None) -> Any:
        size = int(np.prod(shape))
        low, high = (0, max(0, most - 1)) if most is not None else (0, 1) if type == "bool" else (-3, 4)
        found = np.array([self.rng.randint(low, high) for _ in range(size)], STORED[type])
        return found.reshape(shape).astype(BASES[type])

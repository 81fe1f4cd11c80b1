"""Affine forms of index expressions, over operands and one symbol for the number of the lane."""

from __future__ import annotations

from dataclasses import dataclass

LANE = "@lane"

Terms = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Affine:
    """The form `constant + sum(factor * operand)`, where the operand `LANE` is the number of the lane.

    An operand may be a product of operands, `a*b` with the names in order, such as a stride over dynamic
    sizes times an index.  So equal addresses have equal forms.
    """

    terms: Terms = ()
    constant: int = 0

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        if not other.terms:
            return Affine(self.terms, self.constant + other.constant)
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total.get(name, 0) + factor
        terms = tuple(sorted((n, f) for n, f in total.items() if f))
        return Affine(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Affine:
        if not factor:
            return Affine()
        if factor == 1:
            return self
        return Affine(tuple((n, f * factor) for n, f in self.terms), self.constant * factor)

    def __sub__(self, other: Affine) -> Affine:
        return self + other * -1

    def times(self, other: Affine) -> Affine | None:
        """The product of two forms; None where the stride between lanes would not be a constant."""
        if not other.terms:
            return self * other.constant
        if not self.terms:
            return other * self.constant
        if self.lane or other.lane:
            return None
        total: dict[str, int] = {}
        for n, f in (*self.terms, ("", self.constant)):
            for m, g in (*other.terms, ("", other.constant)):
                name = "*".join(sorted([*factors(n), *factors(m)]))
                total[name] = total.get(name, 0) + f * g
        constant = total.pop("")
        return Affine(tuple(sorted((n, f) for n, f in total.items() if f)), constant)

    @property
    def lane(self) -> int:
        """The factor of the lane: the stride from lane to lane."""
        return next((f for n, f in self.terms if n == LANE), 0)

    @property
    def uniform(self) -> Affine:
        """The form at lane 0."""
        return Affine(tuple(t for t in self.terms if t[0] != LANE), self.constant)

    def at_lane(self, number: int) -> Affine:
        """The form at one lane."""
        lane = self.lane
        return self if not lane else self.uniform + lane * number

    @staticmethod
    def of(name: str) -> Affine:
        """The form of one operand."""
        return Affine(((name, 1),), 0)


def factors(operand: str) -> list[str]:
    """The operands of a product."""
    return operand.split("*") if operand else []

"""Which temporaries a program is scheduled with: some of its own are computed where they are read (`inline`),
operands get some (`materialize`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tc.ir.program import Program
from tc.transforms.program.inline import Inlined, inline
from tc.transforms.program.materialize import Operand, materialize


@dataclass(frozen=True, slots=True)
class Temporaries:
    """A program, the temporaries that it does without, and those that it has besides."""

    program: Program
    inlined: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """A line for each kind that there is."""
        lines = (
            ("computed where they are read", self.inlined),
            ("computed once, before they are read", self.operands),
        )
        return "".join(f"{what}: {', '.join(names)}\n" for what, names in lines if names)


def temporaries(
    program: Program,
    again: Callable[[Program, Inlined], bool],
    once: Callable[[Program, Operand], bool],
    typical: Mapping[str, int],
) -> Temporaries:
    """The program with those that a backend's predicates say are worth it, at `typical` dynamic sizes."""
    program, inlined = inline(program, again)
    program, operands = materialize(program, once, typical)
    return Temporaries(program, inlined, operands)

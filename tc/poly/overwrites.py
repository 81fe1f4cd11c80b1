"""Which tensors of a program with sequential loops are overwritten after they are read, decided by isl for
all sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import islpy as isl

from tc.ir.program import Program
from tc.poly.affine import OUT
from tc.poly.context import isl_context
from tc.poly.scop import Access, Scop, Statement, build
from tc.poly.times import execution_times
from tc.transforms.program.segments import in_domains


@dataclass(frozen=True, slots=True, eq=False)
class Overwrites:
    """Questions about the stages of a program and their loops.

    `stages` are names of stages; `depth` is a number of outer loops around all of them: an answer holds
    within one iteration of these.
    """

    scop: Scop
    times: Mapping[str, isl.Map]

    @classmethod
    def of(cls, program: Program) -> Overwrites:
        with isl_context():
            scop = build(in_domains(program))
            return cls(scop, execution_times(scop, program.stages))

    def kept(self, buffer: str, stages: Collection[str], depth: int) -> bool:
        """Whether no element of a buffer that an instance reads is written by that instance or a later
        one."""
        with isl_context():
            reads = [(s, a) for s in self._of(stages) for a in s.accesses if _is(a, "read", buffer)]
            writes = [(s, s.write) for s in self._of(stages) if s.write.buffer == buffer]
            return not any(self._meet(s, a, t, w, depth, strictly=False) for s, a in reads for t, w in writes)

    def once(self, buffer: str, stages: Collection[str], depth: int) -> bool:
        """Whether no `=` writes an element of a buffer that has been written before."""
        with isl_context():
            writes = [(s, s.write) for s in self._of(stages) if s.write.buffer == buffer]
            defined = [(s, w) for s, w in writes if s.stage.op is None]
            return not any(
                self._meet(s, a, t, w, depth, strictly=True) for s, a in writes for t, w in defined
            )

    def anew(self, buffer: str, stages: Collection[str], depth: int) -> bool:
        """Whether an iteration of the outer loops itself defines each element of a buffer that it reads."""
        with isl_context():
            made: isl.Map | None = None  # from times to elements
            for s in self._of(stages):
                if s.write.buffer == buffer and s.stage.op is None and s.write.must:
                    found = self.times[s.name].reverse().apply_range(s.write.map)
                    made = found if made is None else made.union(found)
            for s in self._of(stages):
                for a in s.accesses:
                    if a.buffer != buffer or a.kind == "write":
                        continue
                    if made is None:
                        return False
                    at = self.times[s.name]
                    earlier = isl.Map.lex_gt(at.get_space().range())
                    for k in range(2 * depth):
                        earlier = earlier.equate(isl.dim_type.in_, k, OUT, k)
                    lacking = a.map.subtract(at.apply_range(earlier).apply_range(made))
                    if not lacking.intersect_params(self.scop.context).is_empty():
                        return False
            return True

    def _of(self, stages: Collection[str]) -> list[Statement]:
        return [s for s in self.scop.statements if s.stage.name in stages]

    def _meet(self, s: Statement, a: Access, t: Statement, b: Access, depth: int, strictly: bool) -> bool:
        """Whether `b` accesses an element that `a` has accessed, at a later time or, if not `strictly`, at
        the same time."""
        first, second = self.times[s.name], self.times[t.name]
        pairs = first.reverse().apply_range(a.map).apply_range(b.map.reverse()).apply_range(second)
        space = pairs.get_space()
        order = isl.Map.lex_lt(space.domain()) if strictly else isl.Map.lex_le(space.domain())
        pairs = pairs.intersect(order)
        for k in range(min(2 * depth, space.dim(OUT))):
            pairs = pairs.equate(isl.dim_type.in_, k, OUT, k)
        return not pairs.intersect_params(self.scop.context).is_empty()


def _is(a: Access, kind: str, buffer: str) -> bool:
    return a.kind == kind and a.buffer == buffer

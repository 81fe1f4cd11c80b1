"""What keeps statements in order."""

from __future__ import annotations

import tc
from tc.poly import scop
from tc.poly.context import isl_context
from tc.poly.dependences import conflicts


def test_only_pairs_of_which_one_writes_conflict() -> None:
    source = "def f(float(N) A) -> (B, C) { B(i) = A(i) C(i) = A(i) + B(i) }"
    program = tc.compile(source, "reference").program({"N": 4})
    with isl_context():
        first, second = scop.build(program).statements
        found = [(a.buffer, a.kind, b.kind) for a, b, _ in conflicts(first, second)]
    assert found == [("B", "write", "read")]

"""Which instruction sets the cpu backend can run here."""

from __future__ import annotations

import functools

import tc


@functools.cache
def available_isas() -> tuple[str, ...]:
    """Their names, the widest first."""
    found: list[str] = []
    for name in ("avx512", "avx2", "sse4.2", "neon"):
        try:
            tc.compile(
                "def f(float(N) A) -> (B) { B(i) = A(i) }", "cpu", options={"isa": name}, sizes={"N": 1}
            )
        except tc.errors.BackendError as e:
            assert e.code == "TC0811"
        else:
            found.append(name)
    return tuple(found)

"""The nest of a program without any transformation."""

from __future__ import annotations

import pytest

from tc.ir import verify
from tc.ir.printer import nest_text
from tc.poly.identity import identity_nest
from tests.backends.cpu_cases import compiled

SCATTER = "g(p(i)) += x(i)"


@pytest.mark.parametrize(
    "body",
    [
        f"g(k) = 0 where k in 0:K {SCATTER}",
        f"g(k) = 0 where k in 0:K for t in 0:3 {{ {SCATTER} }}",
        f"for t in 0:3 {{ g(k) = z(k) * t {SCATTER} {SCATTER} y(k) = g(k) where k in 0:K }}",
    ],
)
def test_scatters_are_parts_of_their_own(body: str) -> None:
    """Their part of a program is again one with scatters."""
    returned = "g, y" if "y(k)" in body else "g"
    source = f"def f(float(N) x, int(N) p, float(K) z) -> ({returned}) {{ {body} }}"
    nest = identity_nest(compiled(source).program({"N": 6, "K": 4}))
    assert verify.loop_nest(nest) == "structure"
    assert nest_text(nest).count("+ x[i]") == body.count(SCATTER)

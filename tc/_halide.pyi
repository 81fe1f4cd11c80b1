from collections.abc import Mapping

from tc.halide.solve import Bounds, Term

HALIDE_VERSION: str
MAX_DEPTH: int

def simplify(expr: Term, bounds: Mapping[str, Bounds] | None = None) -> Term: ...
def can_prove(condition: Term, bounds: Mapping[str, Bounds] | None = None) -> bool: ...
def solve_for_inner_interval(
    condition: Term, variable: str, bounds: Mapping[str, Bounds] | None = None
) -> Bounds | None: ...
def and_condition_over_domain(
    condition: Term, domain: Mapping[str, Bounds], bounds: Mapping[str, Bounds] | None = None
) -> Term: ...
def bounds_of_expr_in_scope(
    expr: Term, domain: Mapping[str, Bounds], bounds: Mapping[str, Bounds] | None = None
) -> Bounds: ...

"""The check that barriers are not divergent: all threads of a block reach a barrier, or none does.  A barrier
under a condition, or in a loop with bounds, that differ between threads would hang, or worse."""

from __future__ import annotations

from tc.errors import InternalError
from tc.ir.expr import Expr, Load, variables, walk
from tc.ir.loops import Block, Combine, Compute, For, If, Launch, LoopNest, Prefetch, Promote, Stmt, Sync


def check_uniform(nest: LoopNest, launch: Launch) -> None:
    """Raises InternalError for a barrier under a condition or in a loop that is divergent."""
    private = frozenset(a.name for a in nest.arrays if a.role == "register")

    def is_divergent(e: Expr, names: frozenset[str]) -> bool:
        """Whether a value depends on the thread; a load from memory does if its subscripts do."""
        return bool(variables(e) & names) or any(isinstance(x, Load) and x.buffer in private for x in walk(e))

    def visit(s: Stmt, names: frozenset[str], divergent: str) -> None:
        match s:
            case Block():
                for c in s.body:
                    visit(c, names, divergent)
            case For():
                if is_divergent(s.lower, names) or is_divergent(s.upper, names):
                    visit(s.body, names | {s.var}, divergent or f"the loop {s.var}")
                else:
                    visit(s.body, names - {s.var}, divergent)
            case If():
                if is_divergent(s.condition, names):
                    divergent = divergent or "a condition"
                visit(s.then, names, divergent)
                if s.otherwise is not None:
                    visit(s.otherwise, names, divergent)
            case Promote():
                visit(s.body, names, divergent)
            case Sync() | Combine():
                if divergent:
                    what = "a barrier" if isinstance(s, Sync) else "a combination"
                    raise InternalError(
                        f"{what} of {launch.name} is below {divergent}, which differs between threads"
                    )
            case Compute() | Prefetch():
                pass
            case Launch():
                raise InternalError("a launch inside a launch")

    visit(launch.body, frozenset(v for v, _ in launch.threads), "")

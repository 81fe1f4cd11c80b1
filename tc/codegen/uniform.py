"""All threads of a block get to a barrier, or none: one under a condition or in a loop whose bounds differ
between threads would hang, or worse."""

from __future__ import annotations

from tc.errors import InternalError
from tc.ir.expr import Expr, Load, variables, walk
from tc.ir.loops import Block, Combine, Compute, For, If, Launch, LoopNest, Prefetch, Promote, Stmt, Sync


def check_uniform(nest: LoopNest, launch: Launch) -> None:
    """Raises InternalError where a barrier stands below what may differ between the threads of a block."""
    own = frozenset(a.name for a in nest.arrays if a.role == "register")

    def differs(e: Expr, names: frozenset[str]) -> bool:
        """Whether a value depends on the thread; what arrays hold counts by where it is read."""
        return bool(variables(e) & names) or any(isinstance(x, Load) and x.buffer in own for x in walk(e))

    def visit(s: Stmt, names: frozenset[str], divergent: str) -> None:
        match s:
            case Block():
                for c in s.body:
                    visit(c, names, divergent)
            case For():
                if differs(s.lower, names) or differs(s.upper, names):
                    visit(s.body, names | {s.var}, divergent or f"the loop {s.var}")
                else:
                    visit(s.body, names - {s.var}, divergent)
            case If():
                if differs(s.condition, names):
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

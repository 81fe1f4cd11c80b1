"""A checked program as text, statement by statement (for tests and for people)."""

from __future__ import annotations

from typing import Any

from tc.lang import resolved as r


def checked_text(c: r.Checked) -> str:
    lines = [f"{q.reason}: {exp_text(q.left)} == {exp_text(q.right)}" for q in c.equalities]
    for st in c.statements:
        left = st.target.name + (f"({', '.join(s.index for s in st.subscripts)})" if st.subscripts else "")
        where = [f"{g.name} in {exp_text(g.lo)}:{exp_text(g.hi)}" for g in st.ranges]
        where += [f"{b.name} = {exp_text(b.value)}" for b in st.lets] + [exp_text(x) for x in st.conditions]
        lines.append(f"{left} {st.op} {exp_text(st.value)}" + (f" where {', '.join(where)}" if where else ""))
    return "\n".join(lines) + "\n"


def exp_text(e: Any) -> str:
    match e:
        case r.Const():
            return repr(e.value)
        case r.Index() | r.Size() | r.Scalar() | r.Let():
            return e.name
        case r.Access():
            return (
                f"{e.tensor.name}({', '.join(map(exp_text, e.subscripts))})"
                if e.subscripts
                else e.tensor.name
            )
        case r.Apply():
            return f"{e.function}({', '.join(map(exp_text, e.args))})"
        case r.Unary():
            return (
                f"{e.op}{exp_text(e.operand)}"
                if not _compound(e.operand)
                else f"{e.op}({exp_text(e.operand)})"
            )
        case r.Binary():
            left, right = (f"({exp_text(x)})" if _compound(x) else exp_text(x) for x in (e.left, e.right))
            return f"{left} {e.op} {right}"
        case r.If():
            return f"({exp_text(e.condition)} ? {exp_text(e.then)} : {exp_text(e.otherwise)})"
        case r.Cast():
            return f"{e.target}({exp_text(e.operand)})"
        case _:
            return type(e).__name__


def _compound(e: Any) -> bool:
    return isinstance(e, r.Binary)

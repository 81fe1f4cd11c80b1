"""Random SaC programs as text."""

from __future__ import annotations

from fuzz.sac import tree as s

_LEVEL = {
    "||": 2,
    "&&": 3,
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 4),
    "++": 5,
    **dict.fromkeys("+-", 6),
    **dict.fromkeys("*/%", 7),
}


def program(p: s.Program) -> str:
    if p.body is not None:
        return exp(p.body)
    return "\n".join(x for f in p.functions for x in (*f.decoys, function(f))) + "\n"


def function(f: s.Function) -> str:
    params = ", ".join(f"{t} {n}" for n, t in f.params)
    lines = [f"{', '.join(f.types)} {f.name}({params}) {{"]
    lines += [f"  {n} = {exp(e)};" for n, e in f.lets]
    results = ", ".join(map(exp, f.results))
    return "\n".join(
        [*lines, f"  return ({results});" if len(f.results) > 1 else f"  return {results};", "}"]
    )


def exp(e: s.Node, level: int = 0) -> str:
    """`e` as an operand of something that binds as strongly as `level`."""
    match e:
        case s.Literal():
            if e.type == "bool":
                return str(e.value).lower()
            text = str(e.value)
            return f"({text})" if text.startswith("-") and level > 7 else text
        case s.Name():
            return e.id
        case s.Vector():
            return f"[{_list(e.items)}]"
        case s.Unary():
            return _wrapped(f"{e.op}{exp(e.operand, 9)}", level > 8)
        case s.Binary():
            own = _LEVEL[e.op]
            # A bound is no comparison, and `++` binds looser than `+`, so operands are written as tight.
            text = f"{exp(e.left, own)} {e.op} {exp(e.right, own + 1)}"
            return _wrapped(text, level > own)
        case s.Ternary():
            text = f"{exp(e.condition, 2)} ? {exp(e.then)} : {exp(e.otherwise)}"
            return _wrapped(text, level > 0)
        case s.Select():
            return f"{exp(e.array, 9)}[{_list(e.index)}]"
        case s.Call():
            return f"{e.name}({_list(e.args)})"
        case s.Comprehension():
            return f"{{ {'; '.join(map(_partition, e.parts))} }}"
        case s.WithLoop():
            inner = " ".join(f"{_generator(p)};" for p in e.parts)
            args = [*([e.fold] if e.operator == "fold" else []), *map(exp, e.args)]
            return f"with {{ {inner} }} : {e.operator}({', '.join(args)})"
        case _:
            raise AssertionError(e)


def _wrapped(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _list(items: tuple[s.Node, ...]) -> str:
    return ", ".join(map(exp, items))


def _index(p: s.Part, dots: bool = True) -> str:
    return p.vector or f"[{', '.join(p.slots if dots else p.names)}]"


def _bound(b: s.Bound) -> str:
    return b.node if isinstance(b.node, str) else exp(b.node, 5) if b.node is not None else ""


def _partition(p: s.Part) -> str:
    text = f"{_index(p)} -> {exp(p.body) if p.body is not None else ''}"
    if p.low.node is None and p.high.node is None:
        return text
    low = f"{_bound(p.low)} {'<' if p.low.strict else '<='} " if p.low.node is not None else ""
    high = f" {'<' if p.high.strict else '<='} {_bound(p.high)}" if p.high.node is not None else ""
    return f"{text} | {low}{_index(p, False)}{high}"


def _generator(p: s.Part) -> str:
    low, high = ("<" if b.strict else "<=" for b in (p.low, p.high))
    grid = f" step {list(p.step)}" if p.step else ""
    grid += f" width {list(p.width)}" if p.width else ""
    head = f"({_bound(p.low)} {low} {_index(p)} {high} {_bound(p.high)}{grid})"
    return head if p.body is None else f"{head} : {exp(p.body)}"

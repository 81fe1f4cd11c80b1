"""What is known of a SaC program before ranks: its functions, that every name stands for something, and that
nothing calls itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tc.errors import Note, SemanticError, Source, did_you_mean
from tc.lang.sac import habits
from tc.lang.sac import syntax as s
from tc.lang.sac.format import signature
from tc.lang.sac.parse import parse

# What elaboration knows by itself, with the number of arguments; the rest of the prelude is written in the
# notation (prelude.sac).
MATH = {
    **dict.fromkeys(
        [
            "sqrt",
            "exp",
            "log",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "floor",
            "ceil",
            "fabs",
            "erf",
        ],
        1,
    ),
    **dict.fromkeys(["pow", "atan2", "fmod"], 2),
}
CONVERSIONS = {"tob": "byte", "tos": "short", "toi": "int", "tol": "long", "tof": "float", "tod": "double"}
PRIMITIVES: dict[str, int] = {
    "shape": 1, "dim": 1, "take": 2, "drop": 2, "reshape": 2, "sum": 1, "prod": 1, "minval": 1, "maxval": 1,
    "min": 2, "max": 2, "abs": 1, "where": 3, "mod": 2, **MATH, **dict.fromkeys(CONVERSIONS, 1),
}  # fmt: skip

PRELUDE = "prelude.sac"
EXPRESSION = "expression"  # the name of a program that is one


@dataclass(frozen=True, slots=True)
class Names:
    """The functions by name, the program's own before the prelude's."""

    functions: Mapping[str, tuple[s.Function, ...]]
    prelude: Mapping[str, tuple[s.Function, ...]]
    entry: s.Function | None

    def overloads(self, name: str) -> tuple[s.Function, ...]:
        return (*self.functions.get(name, ()), *self.prelude.get(name, ()))


@cache
def prelude() -> Mapping[str, tuple[s.Function, ...]]:
    text = resources.files("tc.lang.sac").joinpath(PRELUDE).read_text(encoding="utf-8")
    return _grouped(parse(Source(text, PRELUDE)).functions)


def _grouped(functions: Iterable[s.Function]) -> dict[str, tuple[s.Function, ...]]:
    out: dict[str, tuple[s.Function, ...]] = {}
    for f in functions:
        out[f.name] = (*out.get(f.name, ()), f)
    return out


def check(program: s.Program, entry: str | None = None) -> Names:
    """Names and calls checked; `entry` is by default the last function.  Raises `SemanticError`."""
    functions = _grouped(program.functions)
    for overloads in functions.values():
        _distinct(overloads)
    known = Names(functions, prelude(), _entry(program, functions, entry))
    for f in program.functions:
        _function(f, known)
    if program.bare is not None:
        _expression(program.bare, None, known)
    _no_recursion(program, functions)
    return known


def _distinct(overloads: Sequence[s.Function]) -> None:
    """TC0217 where two functions of one name take the same types, of which a call could mean either."""
    first: dict[str, s.Function] = {}
    for f in overloads:
        taken = first.setdefault(signature(f), f)
        if taken is not f:
            raise SemanticError(
                f"'{signature(f)}' is defined twice",
                f.name_span,
                code="TC0217",
                notes=[Note("first here", taken.name_span)],
                help="rename one of them, or give it parameters of other ranks",
            )


def _entry(
    program: s.Program, functions: Mapping[str, tuple[s.Function, ...]], entry: str | None
) -> s.Function | None:
    if program.bare is not None:
        if entry not in (None, EXPRESSION):
            raise SemanticError(
                "an expression has no functions to choose from",
                program.bare.span,
                code="TC0250",
                help="leave entry= away",
            )
        return None
    if entry is None:
        return program.functions[-1]
    if entry not in functions:
        raise SemanticError(
            f"there is no function '{entry}'",
            program.functions[0].name_span,
            code="TC0250",
            help=did_you_mean(entry, functions) or "the functions are " + ", ".join(functions),
        )
    return functions[entry][-1]


def _function(f: s.Function, known: Names) -> None:
    for t in (*f.types, *(p.type for p in f.params)):
        if t.base == "_T":
            raise SemanticError("'_T' is the prelude's own type", t.span, code="TC0251", help="name a type")
    scope: dict[str, s.Param] = {}
    for p in f.params:
        if p.name in scope:
            raise SemanticError(
                f"two parameters of '{f.name}' are called '{p.name}'",
                p.span,
                code="TC0251",
                notes=[Note("first here", scope[p.name].span)],
                help="rename one of them",
            )
        scope[p.name] = p
    if len(f.types) != len(f.results):
        raise SemanticError(
            f"'{f.name}' declares {len(f.types)} results and returns {len(f.results)}",
            f.return_span,
            code="TC0251",
            help="a type for each: int, double f(…)",
        )
    names = set(scope)
    for a in f.body:
        _expression(a.value, names, known)
        names.add(a.name)
    for e in f.results:
        _expression(e, names, known)


def _expression(e: s.Exp, scope: set[str] | None, known: Names) -> None:
    """`scope`: the variables in reach; None where free names are parameters."""
    match e:
        case s.Name() if scope is not None and e.id not in scope:
            raise SemanticError(
                f"unknown name '{e.id}'",
                e.span,
                code="TC0252",
                help=did_you_mean(e.id, scope)
                or (
                    f"'{e.id}' is a function: {e.id}(…)"
                    if known.overloads(e.id) or e.id in PRIMITIVES
                    else None
                )
                or "a name is a parameter, an index variable or assigned before",
            )
        case s.Call():
            if e.name not in PRIMITIVES and not known.overloads(e.name):
                pool = {*PRIMITIVES, *known.functions, *known.prelude}
                raise SemanticError(
                    f"unknown function '{e.name}'",
                    e.name_span,
                    code="TC0252",
                    help=habits.FUNCTIONS.get(e.name)
                    or did_you_mean(e.name, pool)
                    or "docs/sac.md lists the prelude",
                )
            for a in e.args:
                _expression(a, scope, known)
        case s.Comprehension():
            for p in e.partitions:
                for b in s.sides(p.bounds):
                    _expression(b, scope, known)
                _expression(p.body, _with(scope, p.index), known)
        case s.WithLoop():
            for g in e.generators:
                for b in (*s.sides(g.bounds), *(x for x in (g.step, g.width) if x is not None)):
                    _expression(b, scope, known)
                if g.body is not None:
                    _expression(g.body, _with(scope, g.index), known)
            for a in e.args:
                _expression(a, scope, known)
        case _:
            for c in s.children(e):
                _expression(c, scope, known)


def variables(index: s.Pattern) -> tuple[str, ...]:
    return (index.name,) if index.name is not None else tuple(x.name for x in index.variables)


def _with(scope: set[str] | None, index: s.Pattern) -> set[str] | None:
    return None if scope is None else scope | set(variables(index))


def parameters(bare: s.Exp) -> tuple[s.Name, ...]:
    """The free names of an expression, in order of first occurrence."""
    out: dict[str, s.Name] = {}

    def visit(e: s.Exp, bound: frozenset[str]) -> None:
        match e:
            case s.Name():
                if e.id not in bound:
                    out.setdefault(e.id, e)
            case s.Comprehension():
                for p in e.partitions:
                    visit(p.body, bound | set(variables(p.index)))
                    for b in s.sides(p.bounds):
                        visit(b, bound)
            case s.WithLoop():
                for g in e.generators:
                    for b in (*s.sides(g.bounds), *(x for x in (g.step, g.width) if x is not None)):
                        visit(b, bound)
                    if g.body is not None:
                        visit(g.body, bound | set(variables(g.index)))
                for a in e.args:
                    visit(a, bound)
            case _:
                for c in s.children(e):
                    visit(c, bound)

    visit(bare, frozenset())
    return tuple(sorted(out.values(), key=lambda n: n.span.start))


def calls(f: s.Function) -> Iterable[s.Call]:
    for e in (*(a.value for a in f.body), *f.results):
        for x in s.walk(e):
            if isinstance(x, s.Call):
                yield x


def _no_recursion(program: s.Program, functions: Mapping[str, Sequence[s.Function]]) -> None:
    done: set[str] = set()
    for root in program.functions:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(root.name, False)]
        while stack:
            name, leave = stack.pop()
            if leave:
                done.add(path.pop())
                continue
            if name in done:
                continue
            path.append(name)
            stack.append((name, True))
            for f in functions.get(name, ()):
                for c in calls(f):
                    if c.name in path and c.name in functions:
                        raise SemanticError(
                            f"'{c.name}' calls itself",
                            c.name_span,
                            code="TC0253",
                            help="programs have no recursion: write a comprehension or a with-loop",
                        )
                    if c.name in functions:
                        stack.append((c.name, False))

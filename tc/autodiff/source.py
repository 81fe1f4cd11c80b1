"""Definitions of a tape as a def of the language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from tc.autodiff.arithmetic import literal
from tc.autodiff.loops import Loop
from tc.autodiff.names import Names
from tc.autodiff.sharing import shared
from tc.autodiff.tape import Definition, Version, mapped
from tc.dtypes import FLOAT32, INT32, INT64
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    ONE,
    ZERO,
    Add,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    Mul,
    Select,
    Sub,
    UIntImm,
    Variable,
    children,
    rebuild,
    substitute,
    variables,
    walk,
)
from tc.ir.intervals import INT32_SUMMANDS
from tc.ir.printer import text
from tc.ir.program import Box, Domain
from tc.ir.simplify import linear_terms, simplify
from tc.lang.format import type_name


def parameter(name: str, v: Version, names: Names, known: set[str], tensor: bool = False) -> str:
    """A parameter that holds a version: extents that are a size or a number are given as such.  One of rank 0
    is a scalar, or, as a `tensor`, has one element."""
    if tensor and not v.box:
        return f"{type_name(v.dtype)}(1) {name}"
    dims: list[str] = []
    for k, r in enumerate(v.box):
        match simplify(r.extent, exact=True):
            case IntImm(value=n):
                dims.append(str(n))
            case Variable(name=n) if n in known:
                dims.append(n)
            case _:
                dims.append(names.fresh(f"{v.tensor}{k}"))
    return f"{type_name(v.dtype)}({','.join(dims)}) {name}" if dims else f"{type_name(v.dtype)} {name}"


def returned(v: Version, dims: Sequence[Expr]) -> str:
    """A returned tensor with its type and, where they can be said, its sizes."""
    return f"{type_name(v.dtype)}({','.join(map(text, dims))}) {v.name}"


def definition(
    name: str, params: Sequence[str], returned: Sequence[str], definitions: Sequence[Definition], names: Names
) -> str:
    """A def of these definitions."""
    body = "".join(f"  {line}\n" for line in statements(definitions, names))
    return f"def {name}({', '.join(params)}) -> ({', '.join(returned)}) {{\n{body}}}\n"


def statements(definitions: Sequence[Definition], names: Names) -> list[str]:
    """One line each, and those that open and close loops; a reduction from its neutral element is one
    statement."""
    definitions = _typed(definitions)
    out: list[str] = []
    merged: set[int] = set()
    around: tuple[Loop, ...] = ()
    for k, d in enumerate(definitions):
        if k in merged:
            continue
        out += _between(around, d.loops)
        around = d.loops
        later = k + 1
        if d.neutral and later < len(definitions) and _continues(d, definitions[later]):
            merged.add(later)
            d = definitions[later]
            op = f"{d.op}=!"
        else:
            op = f"{d.arg}=!" if d.arg else "=" if d.op is None else f"{d.op}="
        out.append("  " * len(around) + _statement(d, op, names))
    return out + _between(around, ())


def _typed(definitions: Sequence[Definition]) -> list[Definition]:
    """The definitions with the types of numbers written out, where nothing else tells them."""
    defined = {d.target for d in definitions}
    told: set[str] = set()
    before = -1
    while before != len(told):
        before = len(told)
        told |= {
            d.target for d in definitions if any(_tells(e, defined, told) for e in _of_its_type(d.value))
        }

    def typed(d: Definition) -> Definition:
        dtype = d.value.dtype
        if d.arg is not None or not dtype.is_float or dtype == FLOAT32:
            return d
        literal = isinstance(d.value, FloatImm) and d.target in told  # takes the type of the tensor
        numbers = not any(_tells(e, set(), told) for e in _of_its_type(d.value))
        return replace(d, value=Cast(dtype, d.value)) if numbers and not literal else d

    return list(map(typed, definitions))


def _of_its_type(e: Expr) -> Iterator[Expr]:
    """The parts of a value that give it its type: neither conditions nor subscripts."""
    yield e
    if isinstance(e, Cast) or e.dtype.is_bool or (isinstance(e, Call) and e.kind != "intrinsic"):
        return
    for part in children(e)[-2:] if isinstance(e, Select | IfThenElse) else children(e):
        yield from _of_its_type(part)


def _tells(e: Expr, defined: Set[str], told: Set[str]) -> bool:
    """Whether the type of a read is known: of a parameter, or of a tensor whose type is told."""
    if isinstance(e, Variable):
        return e.dtype != INDEX
    if isinstance(e, Cast):
        return not e.dtype.is_int
    return isinstance(e, Call) and e.kind != "intrinsic" and (e.name not in defined or e.name in told)


def _between(before: tuple[Loop, ...], after: tuple[Loop, ...]) -> list[str]:
    """The lines between definitions in some loops and those in others."""
    same = 0
    while before[same : same + 1] == after[same : same + 1] and same < len(before):
        same += 1
    closed = ["  " * k + "}" for k in reversed(range(same, len(before)))]
    return closed + ["  " * k + _head(after[k]) for k in range(same, len(after))]


def _head(loop: Loop) -> str:
    if not loop.down:
        return f"for {loop.name} in 0:{text(simplify(loop.trips, exact=True))} {{"
    return f"for {loop.name} in {text(simplify(Sub(loop.trips, ONE), exact=True))}:-1:-1 {{"


def from_zero(d: Definition, arguments: Mapping[str, Box], tensors: bool = False) -> Definition:
    """A definition with reads of arguments as these count, from 0 where their boxes begin; those of rank 0
    are scalars, or `tensors` of one element."""

    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        if isinstance(e, Call) and e.kind != "intrinsic" and e.name in arguments:
            box = arguments[e.name]
            if not box:
                return replace(e, args=(ZERO,)) if tensors else Variable(e.name, e.dtype)
            at = tuple(simplify(Sub(a, r.min), exact=True) for a, r in zip(e.args, box, strict=True))
            return replace(e, args=at)
        return e

    if all(box and all(r.min == ZERO for r in box) for box in arguments.values()):
        return d
    return mapped(d, visit)


def _continues(start: Definition, d: Definition) -> bool:
    """Whether `d` reduces onto the elements that `start` sets to the neutral element, and onto no others."""
    if d.target != start.target or d.op is None or d.loops != start.loops or len(start.args) != len(d.args):
        return False
    own = {v.name: v.range for v in d.domain.vars}
    names = {v.name for v in start.domain.vars}
    known = 0  # subscripts that the loops around decide
    while (
        known < len(start.args)
        and not variables(start.args[known]) & names
        and not (variables(d.args[known]) & own.keys())
    ):
        if start.args[known] != d.args[known]:
            return False
        known += 1
    for a, b, v in zip(start.args[known:], d.args[known:], start.domain.vars, strict=False):
        if not isinstance(a, Variable) or not isinstance(b, Variable) or own.get(b.name) != v.range:
            return False
    return len(start.domain.vars) + known == len(start.args)


def _statement(d: Definition, op: str, names: Names) -> str:
    d = _without_clashes(d, names)
    args = f"({','.join(text(subscript(a)) for a in d.args)})" if d.args else ""
    clauses = [
        f"{v.name} in {text(simplify(v.range.min, exact=True))}:{text(simplify(v.range.end, exact=True))}"
        for v in d.domain.vars
    ]
    clauses += [text(subscript(c)) for c in d.domain.conditions]
    value, lets = shared(plain(d.value), names.local(v.name for v in d.domain.vars))
    clauses += [f"{name} = {text(part)}" for name, part in lets]
    where = f" where {', '.join(clauses)}" if clauses else ""
    return f"{d.target}{args} {op} {text(value)}{where}"


def _without_clashes(d: Definition, names: Names) -> Definition:
    """Index variables that have the name of a tensor or a size get another."""
    taken = [v.name for v in d.domain.vars if v.name in names.taken]
    if not taken:
        return d
    fresh = names.local(v.name for v in d.domain.vars)
    at: dict[str, Expr] = {n: Variable(fresh(f"{n.lower()}_")) for n in taken}
    renamed = {n: v.name for n, v in at.items() if isinstance(v, Variable)}
    return replace(
        d,
        args=tuple(substitute(a, at) for a in d.args),
        value=substitute(d.value, at),
        domain=Domain(
            tuple(replace(v, name=renamed.get(v.name, v.name)) for v in d.domain.vars),
            tuple(substitute(c, at) for c in d.domain.conditions),
        ),
    )


def subscript(e: Expr) -> Expr:
    """Index arithmetic without the conversions that the language implies."""

    def visit(e: Expr) -> Expr:
        match e:
            case Cast(dtype=dtype, value=value) if dtype == INDEX and value.dtype.is_int:
                return visit(value)
            case Call() if e.kind != "intrinsic":
                return replace(e, args=tuple(map(visit, e.args)))
            case _:
                return rebuild(e, visit)

    return visit(plain(e))


def _adds_up(e: Expr) -> int:
    """How many indices and sizes an integer expression adds up, in magnitude; 0 where it reads data."""
    if not e.dtype.is_int or any(isinstance(x, Call) for x in walk(e)):
        return 0
    terms, _ = linear_terms(e)
    return sum(map(abs, terms.values()))


def _wide(e: Expr) -> Expr:
    """Index arithmetic in int64: in int32 a sum of many indices counts as one that may wrap around."""
    match e:
        case Cast(dtype=dtype, value=value) if dtype.is_int and value.dtype.is_int:
            return _wide(value)
        case Variable():
            return Cast(
                INT64, Variable(e.name, INT32)
            )  # of another type than an index, so that it is printed
        case _:
            return rebuild(e, _wide)


def _adapts(e: Expr) -> bool:
    """Whether one of two operands is a complex number as it is written, which takes the type of the other."""
    a, b = children(e)[-2:]
    return a.dtype.is_complex and _is_number(a) != _is_number(b)


def _is_number(e: Expr) -> bool:
    imaginary = isinstance(e, Call) and e.name == "imaginary" and e.kind == "intrinsic"
    return e.dtype.is_complex and (imaginary or literal(e) is not None)


def _number(e: Expr) -> Expr:
    """A complex number as it is written, without its type."""
    while isinstance(e, Cast):
        e = e.value
    return e


def plain(e: Expr) -> Expr:
    """A value without the conversions that the language implies."""
    match e:
        case LT() | LE() | GT() | GE() | EQ() | NE() if _adds_up(e.a) + _adds_up(e.b) > INT32_SUMMANDS:
            return replace(e, a=_wide(e.a), b=_wide(e.b))
        case Cast(value=Variable() as v) if v.dtype == INDEX and e.dtype in (INT32, INT64):
            return v
        case UIntImm() if e.dtype.is_bool:
            return EQ(ONE if e.value else ZERO, ONE)
        case Sub(a=FloatImm(value=0.0), b=b) | Mul(a=b, b=FloatImm(value=-1.0)):
            return Sub(IntImm(0, INT32), plain(b))  # printed as -b
        case Mul(a=b, b=Cast(dtype=dtype) as c) if dtype.is_complex and literal(c) == -1:
            return Sub(IntImm(0, INT32), plain(b))
        case Call(name="imaginary", kind="intrinsic"):
            return Cast(e.dtype, e)  # alone it would be complex64
        case Add() | Sub() | Mul() | Div() | EQ() | NE() | Select() | IfThenElse() if _adapts(e):
            return rebuild(e, lambda c: _number(c) if _is_number(c) else plain(c))
        case Call() if e.kind != "intrinsic":
            return replace(e, args=tuple(map(subscript, e.args)))
        case _:
            return rebuild(e, plain)

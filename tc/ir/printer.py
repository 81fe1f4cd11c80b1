"""IR as text: expressions in the language's spelling, programs (stage `ir`), loop nests (stage `loops`), and
index expressions as Python that computes them exactly."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tc.dtypes import FLOAT32
from tc.errors import InternalError, unreachable
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Call,
    Cast,
    Compare,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
    children,
    inline_lets,
)
from tc.ir.lines import Line, Lines, joined
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
)
from tc.ir.program import Buffer, Domain, Program, Range, Stage
from tc.ir.simplify import floor_div, floor_mod, from_terms, linear_terms, simplify
from tc.ir.traces import Traces

# Precedences, as in the language: ?: < || < && < comparisons < + - < * / % < unary.
_TERNARY, _OR, _AND, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)

_OPERATORS: dict[type, tuple[str, int]] = {
    Add: ("+", _SUM), Sub: ("-", _SUM), Mul: ("*", _PRODUCT), Div: ("/", _PRODUCT),
    FloorDiv: ("/", _PRODUCT), FloorMod: ("%", _PRODUCT),
    EQ: ("==", _COMPARE), NE: ("!=", _COMPARE), LT: ("<", _COMPARE), LE: ("<=", _COMPARE),
    GT: (">", _COMPARE), GE: (">=", _COMPARE), And: ("&&", _AND), Or: ("||", _OR),
}  # fmt: skip


def text(e: Expr) -> str:
    """An expression as people write it: `(H - KH + 1)/2`, `min(I, J)`, `exp(I(n, d) - tmp(n))`."""
    return _text(e, _TERNARY)


def float_text(value: float, single: bool) -> str:
    """The shortest decimal that reads back as the value."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if single:
        for digits in range(1, 10):
            short = f"{value:.{digits}g}"
            try:
                if struct.pack("<f", float(short)) == struct.pack("<f", value):
                    return repr(float(short))
            except OverflowError:
                break
    return repr(value)


def _text(e: Expr, outer: int) -> str:
    match e:
        case IntImm() | UIntImm():
            if e.dtype.is_bool:
                return "true" if e.value else "false"
            return f"({e.value})" if e.value < 0 and outer > _SUM else str(e.value)
        case FloatImm():
            shown = float_text(e.value, e.dtype == FLOAT32)
            return f"({shown})" if shown.startswith("-") and outer > _SUM else shown
        case Variable():
            return e.name
        case Cast():
            return f"{e.dtype}({_text(e.value, _TERNARY)})"
        case Min() | Max():
            name = "min" if isinstance(e, Min) else "max"
            return f"{name}({', '.join(_text(x, _TERNARY) for x in _flat(e))})"
        case Not():
            return f"!{_text(e.a, _UNARY)}"
        case Select():
            return f"select({', '.join(_text(x, _TERNARY) for x in children(e))})"
        case IfThenElse():
            shown = (
                f"{_text(e.condition, _OR)} ? {_text(e.then_value, _OR)} : {_text(e.else_value, _TERNARY)}"
            )
            return f"({shown})" if outer > _TERNARY else shown
        case Let():
            shown = f"let {e.name} = {_text(e.value, _TERNARY)} in {_text(e.body, _TERNARY)}"
            return f"({shown})" if outer > _TERNARY else shown
        case Call(name="imaginary", kind="intrinsic", args=(FloatImm() as size,)):
            return f"({_text(size, _TERNARY)}j)" if size.value < 0 else f"{_text(size, _TERNARY)}j"
        case Call():
            return f"{e.name}({', '.join(_text(a, _TERNARY) for a in e.args)})"
        case Load():
            return f"{e.buffer}[{', '.join(_text(a, _TERNARY) for a in e.subscripts)}]"
        case (
            Add() | Sub() | Mul() | Div() | FloorDiv() | FloorMod()
            | EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or()
        ):  # fmt: skip
            return _binary(e, outer)
        case _:
            unreachable(e)


def _flat(e: Min | Max) -> Iterable[Expr]:
    """`min(min(a, b), c)` as `a, b, c`."""
    for x in (e.a, e.b):
        if isinstance(x, (Min, Max)) and type(x) is type(e):
            yield from _flat(x)
        else:
            yield x


def _binary(e: Binary | Compare | And | Or, outer: int) -> str:
    symbol, level = _OPERATORS[type(e)]
    if isinstance(e, (Add, Sub)) and e.dtype == INDEX:
        terms, offset = linear_terms(e)
        tidy = from_terms(terms, offset)
        if tidy != e:
            return _text(tidy, outer)
    if isinstance(e, Sub) and e.a == IntImm(0, e.dtype):
        shown = f"-{_text(e.b, _UNARY)}"
        return f"({shown})" if outer > _SUM else shown
    # Only exact integers and truth values may be regrouped: a * (b / c) and float sums stay as they are.
    flat = type(e.b) is type(e) and (
        isinstance(e, (And, Or)) or (isinstance(e, (Add, Mul)) and e.dtype.is_int)
    )
    left = _text(e.a, level + (level == _COMPARE))
    right = _text(e.b, level + (not flat))
    tight = isinstance(e, FloorDiv) and e.dtype == INDEX
    shown = f"{left}/{right}" if tight else f"{left} {symbol} {right}"
    return f"({shown})" if level < outer else shown


# Programs.


def range_text(r: Range) -> str:
    """`[0, N)`."""
    return f"[{text(simplify(r.min, exact=True))}, {text(simplify(r.end, exact=True))})"


def stage_text(stage: Stage) -> str:
    """`S1: C(i, j) += A(i, k) * B(k, j)   for i in [0, N), j in [0, K); reduce k in [0, M)`."""
    loops = "".join(f"for {loop.name} < {text(loop.trips)}: " for loop in stage.loops)
    return f"{loops}{stage.name}: {assignment_text(stage)}{_domain_text(stage.domain)}"


def assignment_text(stage: Stage) -> str:
    """`C(i, j) += A(i, k) * B(k, j)`."""
    assign = "=" if stage.op is None else f"{stage.op}="
    return f"{stage.func}({', '.join(map(text, stage.args))}) {assign} {text(stage.value)}"


def _domain_text(domain: Domain) -> str:
    def ranges(kind: str) -> str:
        return ", ".join(f"{v.name} in {range_text(v.range)}" for v in domain.vars if v.kind == kind)

    pure, reduced = ranges("pure"), ranges("reduction")
    out = f"   for {pure}" if pure else ""
    if reduced:
        out += f"{';' if pure else '  '} reduce {reduced}"
    if domain.conditions:
        out += f" where {', '.join(map(text, domain.conditions))}"
    return out


def _buffer_text(b: Buffer) -> str:
    ranges = [
        text(simplify(r.extent, exact=True)) if simplify(r.min, exact=True) == IntImm(0) else range_text(r)
        for r in b.box
    ]
    shape = f"({', '.join(ranges)})" if ranges else ""
    return f"{'inout' if b.inout else b.role} {b.dtype}{shape} {b.name}"


def program_text(program: Program) -> str:
    """A program, one line for each size, argument, buffer, precondition and stage."""
    return joined(program_lines(program))


def program_lines(program: Program) -> Lines:
    """The lines of `program_text`, with their stages."""
    lines = [f"program {program.name}"]
    if program.sizes:
        lines.append(f"  sizes {', '.join(program.sizes)}")
    for s in program.scalars:
        value = f" = {s.value}" if s.value is not None else ""
        lines.append(f"  scalar {s.dtype} {s.name}{value}{' (specialized)' if s.specialized else ''}")
    lines += [f"  {_buffer_text(b)}" for b in program.buffers]
    lines += [f"  require {text(p.display)}" for p in program.preconditions]
    for f in program.funcs:
        if f.previous is not None:
            lines.append(f"  func {f.name} updates {f.previous} in {f.buffer}")
    stages = (Line(f"  {stage_text(s)}", frozenset([s.name])) for s in program.stages)
    return (*map(Line, lines), *stages)


# Loop nests.


def nest_text(nest: LoopNest) -> str:
    """A loop nest: its arrays, then loops and statements, two columns of indentation a level."""
    return joined(nest_lines(nest))


def nest_lines(nest: LoopNest) -> Lines:
    """The lines of `nest_text`, with their stages."""
    lines = [f"kernel {nest.name}({', '.join(nest.params)})"]
    if nest.sizes:
        lines.append(f"  sizes {', '.join(nest.sizes)}")
    lines += [f"  scalar {s.dtype} {s.name}" for s in nest.scalars]
    lines += [f"  {_array_text(a)}" for a in nest.arrays]
    if nest.workspace != IntImm(0):
        lines.append(f"  workspace {text(nest.workspace)} bytes")
    out = [*map(Line, lines)]
    _statement_lines(nest.body, "  ", out, Traces(nest.body))
    return tuple(out)


def _array_text(a: Array) -> str:
    place = f" at workspace + {text(a.offset)}" if a.offset is not None else ""
    stores = (
        ", nontemporal" + " at cache lines" * a.line_aligned
        if a.nontemporal
        else f", rows {a.padding} apart"
        if a.padding
        else ""
    )
    return f"{a.role} {a.dtype} {a.name}[{', '.join(map(text, a.shape))}]{place}{stores}"


def _statement_lines(s: Stmt, pad: str, lines: list[Line], traces: Traces) -> None:
    def opens(text: str, inside: Stmt = s) -> None:
        lines.append(Line(pad + text, around=traces.stages(inside)))

    match s:
        case Block():
            for c in s.body:
                _statement_lines(c, pad, lines, traces)
        case For() if s.kind is LoopKind.SERIAL and s.upper == Add(s.lower, IntImm(1)):
            opens(f"let {s.var} = {text(s.lower)}")
            _statement_lines(s.body, pad, lines, traces)
        case For():
            step = f" by {s.step}" if s.step != 1 else ""
            serial = s.kind is LoopKind.SERIAL
            kind = "" if serial else f"{s.kind.value} "
            step += f", {s.unroll} at once" if s.unroll else ""
            opens(f"{kind}for {s.var} in [{text(s.lower)}, {text(s.upper)}){step}")
            _statement_lines(s.body, pad + "  ", lines, traces)
        case If():
            opens(f"if {text(s.condition)}")
            _statement_lines(s.then, pad + "  ", lines, traces)
            if s.otherwise is not None:
                opens("else", s.otherwise)
                _statement_lines(s.otherwise, pad + "  ", lines, traces)
        case Compute():
            target = f"{s.buffer}[{', '.join(map(text, s.subscripts))}]"
            assign = "=" if s.op is None else f"{s.op}={' at once' if s.atomic else ''}"
            assign += f" {s.width} of" if s.width > 1 else ""
            lines.append(Line(f"{pad}{s.stage}: {target} {assign} {text(s.value)}", traces.stages(s)))
        case Promote():
            kept = sorted(s.buffers - s.dead)
            opens(f"registers {', '.join([*kept, *(f'{d} (dead after)' for d in sorted(s.dead))])}")
            _statement_lines(s.body, pad + "  ", lines, traces)
        case Prefetch():
            lines.append(Line(f"{pad}prefetch {s.buffer}[{', '.join(map(text, s.subscripts))}]"))
        case Launch():
            blocks = " x ".join(f"{v} < {text(n)}" for v, n in s.blocks) or "1"
            threads = " x ".join(f"{v} < {n}" for v, n in s.threads) or "1"
            opens(f"launch {s.name}: blocks {blocks}, threads {threads}")
            _statement_lines(s.body, pad + "  ", lines, traces)
        case Combine():
            everywhere = " everywhere" if s.everywhere else ""
            lines.append(
                Line(f"{pad}combine {s.buffer} by {s.op} over {s.thread}{everywhere}", traces.stages(s))
            )
        case Sync():
            lines.append(Line(f"{pad}sync{' of warps' if s.warp else ''}{' and copies' if s.copies else ''}"))
        case _:
            unreachable(s)


# Index expressions as Python.


def python(e: Expr, names: dict[str, str] | None = None) -> str:
    """An index expression or condition as Python text, fully parenthesised; integers are exact.

    `names` renames variables.  Divisions by what may be 0 call `floor_div` and `floor_mod`.  Raises
    InternalError for what is no index arithmetic (floating values, reads).
    """
    return _python(inline_lets(e), names or {})


_PYTHON: dict[type, str] = {
    Add: "+", Sub: "-", Mul: "*", EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=",
    And: "and", Or: "or",
}  # fmt: skip


def _python(e: Expr, names: dict[str, str]) -> str:
    match e:
        case IntImm():
            return str(e.value) if e.value >= 0 else f"({e.value})"
        case UIntImm():
            return ("True" if e.value else "False") if e.dtype.is_bool else str(e.value)
        case Variable():
            return names.get(e.name, e.name)
        case Cast(value=x) if e.dtype.is_int and x.dtype.is_int:
            return _python(x, names)
        case Add() | Sub() | Mul() | EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or():
            return f"({_python(e.a, names)} {_PYTHON[type(e)]} {_python(e.b, names)})"
        case FloorDiv() | FloorMod():
            a, b = _python(e.a, names), _python(e.b, names)
            if isinstance(e.b, IntImm) and e.b.value != 0:
                return f"({a} {'//' if isinstance(e, FloorDiv) else '%'} {b})"
            return f"{'floor_div' if isinstance(e, FloorDiv) else 'floor_mod'}({a}, {b})"
        case Min() | Max():
            name = "min" if isinstance(e, Min) else "max"
            return f"{name}({', '.join(_python(x, names) for x in _flat(e))})"
        case Not():
            return f"(not {_python(e.a, names)})"
        case Select():
            return (
                f"({_python(e.true_value, names)} if {_python(e.condition, names)}"
                f" else {_python(e.false_value, names)})"
            )
        case IfThenElse():
            return (
                f"({_python(e.then_value, names)} if {_python(e.condition, names)}"
                f" else {_python(e.else_value, names)})"
            )
        case _:
            raise InternalError(f"not index arithmetic: {text(e)}")


_SCOPE: dict[str, Any] = {
    "floor_div": floor_div,
    "floor_mod": floor_mod,
    "min": min,
    "max": max,
    "__builtins__": {},
}


def _argument(number: int) -> Callable[..., int]:
    return lambda *args: args[number]


def compile_python(e: Expr, names: Sequence[str]) -> Callable[..., int]:
    """A function of `names`, in order, that gives the expression's exact value in about a microsecond."""
    if isinstance(e, IntImm):  # most bounds are constants or sizes, which need no code
        value = e.value
        return lambda *_: value
    if isinstance(e, Variable) and e.name in names:
        return _argument(list(names).index(e.name))
    renamed = {n: f"v{i}" for i, n in enumerate(names)}
    code = f"lambda {', '.join(renamed.values())}: {python(e, renamed)}"
    return eval(code, _SCOPE)  # the text is made of our own operators, literals and v0, v1, …

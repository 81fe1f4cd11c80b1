"""Which checks of subscripts a thread of a GPU notes in a variable, and reports behind the loops around them.

A check that branches to its report separates the load behind it from those of the next iterations, so that
each waits for the one before.  Where only a variable notes that some check has failed, the loads overlap.
Which one it was is found out afterwards, and only if there was one: the same loops run again with nothing but
the checks, up to the first that fails.  They have the same outcome if nothing that they depend on has
changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tc.ir.expr import (
    Add,
    Call,
    Div,
    Expr,
    IfThenElse,
    Let,
    Load,
    Mul,
    Sub,
    inline_lets,
    variables,
    walk,
)
from tc.ir.loops import (
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    Prefetch,
    Promote,
    Stmt,
    Sync,
    expressions,
)
from tc.ir.loops import statements as statements_of


def is_reported_late(s: Stmt) -> bool:
    """Whether the checks of a statement are noted, and reported behind it.

    It has several of them, which overlap then, no barriers, and its checks can be repeated.
    """
    match s:
        case Compute():
            several = _number_of_checks(s) > 1
        case For():
            several = has_checks(s)
        case If():
            several = all(map(has_checks, _parts(s))) and s.otherwise is not None
        case Block():
            several = len(s.body) > 1 and has_checks(s.body[0]) and has_checks(s.body[-1])
        case _:
            return False
    return several and not any(isinstance(c, Sync | Combine) for c in statements_of(s)) and _is_repeatable(s)


def grouped(s: Block) -> tuple[Stmt, ...]:
    """The parts of a block, and as a block of their own neighbours whose checks are reported together."""
    out: list[Stmt] = []
    run: list[Stmt] = []  # begins with checks
    for c in (*s.body, None):
        if c is not None and run and (not has_checks(c) or is_reported_late(Block((*run, c)))):
            run.append(c)
            continue
        count = max((i + 1 for i, x in enumerate(run) if has_checks(x)), default=0)
        out += [Block(tuple(run[:count]))] if count > 1 else run[:count]
        out += run[count:]
        run = []
        if c is not None:
            (run if has_checks(c) else out).append(c)
    return tuple(out)


def reported_at_once(s: Stmt) -> Iterator[Compute]:
    """The statements whose checks branch to their report."""
    if not has_checks(s) or is_reported_late(s):
        return
    if isinstance(s, Compute):
        yield s
    for c in grouped(s) if isinstance(s, Block) else _parts(s):
        yield from reported_at_once(c)


def has_checks(s: Stmt) -> bool:
    return any(isinstance(c, Compute) and _number_of_checks(c) > 0 for c in statements_of(s))


def checks_alone(s: Stmt, registers: frozenset[str]) -> Stmt:
    """A statement without the parts that have no checks.

    It hardly ever runs, so a compiler need not unroll its loops, unless one selects elements of `registers`,
    which have no addresses.
    """
    match s:
        case Block():
            return Block(tuple(checks_alone(c, registers) for c in s.body if has_checks(c)))
        case If():
            then = checks_alone(s.then, registers) if has_checks(s.then) else Block(())
            otherwise = s.otherwise
            if otherwise is not None:
                otherwise = checks_alone(otherwise, registers) if has_checks(otherwise) else None
            return If(s.condition, then, otherwise)
        case For():
            body = checks_alone(s.body, registers)
            if s.kind is LoopKind.UNROLLED and _is_constant_in(s.var, body, registers):
                return replace(s, body=body)
            return replace(s, kind=LoopKind.SERIAL, unroll=1, body=body)
        case Promote():
            return replace(s, body=checks_alone(s.body, registers))
        case _:
            return s


def _is_constant_in(var: str, body: Stmt, registers: frozenset[str]) -> bool:
    """Whether a loop variable has to be a constant: for a subscript of a register, or for the bounds of
    another loop that is unrolled."""
    for c in statements_of(body):
        if (
            isinstance(c, For)
            and c.kind is LoopKind.UNROLLED
            and var in variables(c.lower) | variables(c.upper)
        ):
            return True
        for e in expressions(c):
            for x in walk(inline_lets(e)):
                if (
                    isinstance(x, Load)
                    and x.buffer in registers
                    and any(var in variables(i) for i in x.subscripts)
                ):
                    return True
    return False


def _is_repeatable(s: Stmt) -> bool:
    """Whether checks that run again behind a statement have the same outcome: it writes nothing that they
    depend on, and they depend on no arithmetic that a compiler may round differently in another place."""
    written = {c.buffer for c in statements_of(s) if isinstance(c, Compute)}
    for c in filter(has_checks, statements_of(s)):
        for e in expressions(c):
            for x in walk(e):
                if isinstance(x, Let) and x.name not in variables(x.body) and _checked(x.value):
                    return False  # a check alone, which inlining loses
        for e in _deciding(c):
            for x in walk(e):
                if isinstance(x, Load) and x.buffer in written:
                    return False
                if isinstance(x, Add | Sub | Mul | Div | Call) and x.dtype.is_float:
                    return False
    return True


def _deciding(s: Stmt) -> Iterator[Expr]:
    """The expressions that decide which checks a statement makes, and whether they fail."""
    if not isinstance(s, Compute):
        yield from expressions(s)
        return
    for v in expressions(s):
        for e in walk(inline_lets(v)):
            if isinstance(e, Load):
                yield from (e.subscripts[d] for d in e.checked)
            elif isinstance(e, IfThenElse) and any(map(_checked, (e.then_value, e.else_value))):
                yield e.condition


def _parts(s: Stmt) -> tuple[Stmt, ...]:
    match s:
        case Block():
            return s.body
        case If():
            return (s.then,) if s.otherwise is None else (s.then, s.otherwise)
        case For() | Promote() | Launch():
            return (s.body,)
        case Compute() | Combine() | Sync() | Prefetch():
            return ()


def _checked(e: Expr) -> bool:
    return any(isinstance(x, Load) and x.checked for x in walk(e))


def _number_of_checks(s: Compute) -> int:
    return sum(len(x.checked) for e in expressions(s) for x in walk(e) if isinstance(x, Load))

"""Defs with type variables, `def mm<T>(T(M,K) A, T(K,N) B) -> (C)`: instances for given element types.

The entry's variables are bound by the arrays of a call, or by name.  Those of a def that is called are bound
by what is passed: the types of tensors in the caller are found as those of any program, first with guesses
where they depend on results of other calls of such defs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tc.dtypes import DType
from tc.errors import Source
from tc.lang import syntax as s
from tc.lang.check import check
from tc.lang.format import format_program
from tc.lang.parse import parse
from tc.lang.type_variables import (
    BOUNDS,
    Binding,
    binding_from,
    check_bound,
    entry_of,
    generic,
    representative,
    unbound,
)
from tc.lang.types import argument_types


def monomorphic(source: Source, entry: str | None, types: Mapping[str, Any]) -> str:
    """A source with its type variables bound by name, as text."""
    program = parse(source)
    known = binding_from(entry_of(program, entry), types)
    return format_program(instantiated(program, entry, {n: t for n, _, t in known}))


def instantiated(program: s.Program, entry: str | None, given: Binding) -> s.Program:
    """The program without type variables: the entry with its variables as `given`, of the defs that it calls
    an instance for each of their types; other defs for types that stand for all.

    Raises DTypeError, code TC0410, for a variable of the entry that is not given.
    """
    if not generic(program):
        return program
    if len({d.name for d in program.defs}) < len(program.defs):
        return program  # which is refused
    top = entry_of(program, entry)
    for v in top.variables:
        if v.name not in given:
            raise unbound(top, v)
        check_bound(v, given[v.name], "types=")
    guesses = _Guesses()
    while True:
        made = _Instances(program, guesses).of(top, {v.name: given[v.name] for v in top.variables})
        if not guesses.open or not _corrected(made, guesses):
            return made


@dataclass
class _Guesses:
    """The binding of each call of a generic def, by the place of the call; `open` are those that depend on
    tensors without a declared type: by the place of the argument the call and the variable."""

    types: dict[tuple[int, str], DType] = field(default_factory=dict[tuple[int, str], DType])
    open: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])


def _corrected(made: s.Program, guesses: _Guesses) -> bool:
    """Whether the types of tensors in the program differ from guesses, which are then these types."""
    changed = False
    seen: set[tuple[int, str]] = set()
    checked = check(made, made.defs[-1].name)
    for a, dtype in argument_types(checked):
        call = guesses.open.get(a.span.start)
        if call is None or call in seen:
            continue
        seen.add(call)
        changed |= guesses.types.get(call) != dtype
        guesses.types[call] = dtype
    return changed


class _Instances:
    def __init__(self, program: s.Program, guesses: _Guesses) -> None:
        self.program = program
        self.defs = {d.name: d for d in program.defs}
        self.guesses = guesses
        self.made: dict[str, s.Def] = {}
        self.called: set[str] = set()

    def of(self, top: s.Def, binding: Binding) -> s.Program:
        """The whole program, its entry last."""
        last = self.instance(top, binding, top.name)
        for d in self.program.defs:
            if d is not top and d.name not in self.called:
                self.made[d.name] = self.instance(d, representative(d.variables), d.name)
        return replace(self.program, defs=(*self.made.values(), last))

    def instance(self, d: s.Def, binding: Binding, name: str) -> s.Def:
        """A def for given types."""
        types = {p.name: _bound(p.type, binding).dtype for p in d.params if p.type.dims}
        types |= {x.name: _bound(x.type, binding).dtype for x in d.returns if x.type is not None}
        body = tuple(self._stmt(st, binding, types) for st in d.body)
        params = tuple(replace(p, type=_bound(p.type, binding)) for p in d.params)
        returns = tuple(x if x.type is None else replace(x, type=_bound(x.type, binding)) for x in d.returns)
        return replace(d, name=name, params=params, returns=returns, body=body, variables=())

    def _stmt(self, st: s.Stmt, binding: Binding, types: dict[str, DType]) -> s.Stmt:
        match st:
            case s.For():
                return replace(st, body=tuple(self._stmt(x, binding, types) for x in st.body))
            case s.TupleCall():
                names = [t.name for t in st.targets]
                callee = self._called(st.callee, st.args, names, st.callee_span.start, binding, types)
                args = tuple(self._exp(a, binding) for a in st.args)
                return replace(st, callee=callee, args=args)
            case s.Assign():
                value = st.value
                if isinstance(value, s.Call) and value.name in self.defs:
                    place = value.name_span.start
                    name = self._called(value.name, value.args, [st.lhs.name], place, binding, types)
                    value = replace(value, name=name)
                return s.rebuild_assign(replace(st, value=value), lambda e: self._exp(e, binding))

    def _called(
        self,
        name: str,
        args: Sequence[s.Exp],
        targets: Sequence[str],
        place: int,
        binding: Binding,
        types: dict[str, DType],
    ) -> str:
        """The name of the def that a call of `name` calls, which is made if there is none yet."""
        callee = self.defs.get(name)
        if callee is None:
            return name
        self.called.add(name)
        bound = self._binding(callee, args, place, binding, types)
        full = name
        if callee.variables:
            full = "_".join((name, *(bound[v.name].name for v in callee.variables)))
            while full in self.defs:
                full += "_"
        if full not in self.made:
            self.made[full] = replace(callee, name=full)  # a def that calls itself is refused by its check
            self.made[full] = self.instance(callee, bound, full)
        for t, x in zip(targets, callee.returns, strict=False):
            if x.type is not None:
                types.setdefault(t, _bound(x.type, bound).dtype)
        return full

    def _binding(
        self, callee: s.Def, args: Sequence[s.Exp], place: int, binding: Binding, types: Mapping[str, DType]
    ) -> Binding:
        out: dict[str, DType] = {}
        for p, a in zip(callee.params, args, strict=False):
            v = p.type.variable
            if v is None or v in out or not p.type.dims or not isinstance(a, s.Name):
                continue
            if a.id in types:
                out[v] = types[a.id]
                continue
            call = (place, v)
            self.guesses.open[a.span.start] = call
            guess = self.guesses.types.get(call)
            if guess is not None:
                out[v] = guess
        for v in callee.variables:
            if v.name in out:
                check_bound(v, out[v.name], f"the call of '{callee.name}'")
            else:
                same = binding.get(v.name)
                stands = BOUNDS[v.bound]
                out[v.name] = same if same in stands else stands[0]
        return out

    def _exp(self, e: s.Exp, binding: Binding) -> s.Exp:
        """An expression with casts to type variables as casts to their types."""
        made = s.rebuild(e, lambda x: self._exp(x, binding))
        if isinstance(made, s.Call) and made.name in binding and len(made.args) == 1 and not made.modes:
            return s.Cast(binding[made.name], made.args[0], made.span)
        return made


def _bound(t: s.Type, binding: Binding) -> s.Type:
    return t if t.variable is None else replace(t, dtype=binding[t.variable], variable=None)

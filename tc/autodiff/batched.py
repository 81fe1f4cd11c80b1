"""`tc.vmap`: a def for a batch of its arguments, as a def.

A tensor is batched where it depends on what is: it gets one more dimension, the first, and each access to it
one more subscript.  This works on the syntax tree, so that loops, modes and calls stay as they are written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tc.errors import ArgumentError, Source, did_you_mean
from tc.lang import syntax as s
from tc.lang.builtins import BUILTINS
from tc.lang.format import format_program
from tc.lang.parse import parse
from tc.lang.type_variables import entry_of

InAxes = Sequence[int | None] | Mapping[str, int | None] | int | None


def vmap(src: str, in_axes: InAxes = 0, entry: str | None = None, *, size: str = "B") -> str:
    """The source of a def that does for each element of a batch what `entry`, by default the last, does.

    `in_axes` says which parameters are batched, along a first dimension of the extent `size`: 0 for all
    tensors, a sequence with 0 or None for each parameter, or a mapping from their names.  A batched scalar
    becomes a tensor of rank 1.  Results that depend on what is batched have that dimension first, too.

    Raises the errors of `tc.compile`, and ArgumentError (TC0527) for parameters that do not exist, other axes
    than 0, or a batch of nothing.
    """
    program = parse(Source(src))
    top = entry_of(program, entry)
    batched = _parameters(top, in_axes)
    names = {n for d in program.defs for n in _names(d)} | set(BUILTINS)
    extent, index = _fresh(size, names), _fresh("b", names)
    made = _Batch(program, extent, index)
    last = made.of(top, batched, _fresh(f"{top.name}_vmap", names))
    return format_program(replace(program, defs=(*made.defs.values(), last)))


def _fresh(name: str, taken: Collection[str]) -> str:
    found, k = name, 2
    while found in taken:
        found, k = f"{name}_{k}", k + 1
    return found


def _names(node: Any) -> Iterator[str]:
    """All names in a piece of a tree."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, tuple):
        for x in node:  # pyright: ignore[reportUnknownVariableType]
            yield from _names(x)
    elif hasattr(node, "__dataclass_fields__"):
        for f in node.__dataclass_fields__:
            if not f.endswith("span"):
                yield from _names(getattr(node, f))


def _parameters(d: s.Def, in_axes: InAxes) -> frozenset[str]:
    """The names of the parameters that are batched."""
    params = [p.name for p in d.params]
    tensors = [p.name for p in d.params if p.type.dims]
    axes: dict[str, int | None]
    if in_axes is None or isinstance(in_axes, int):
        axes = dict.fromkeys(tensors, in_axes)
    elif isinstance(in_axes, Mapping):
        axes = dict(in_axes)
        for n in axes:
            if n not in params:
                raise ArgumentError(
                    f"'{n}' in in_axes is no parameter of '{d.name}'",
                    code="TC0527",
                    help=did_you_mean(n, params) or f"its parameters are {', '.join(params)}",
                )
    else:
        if len(in_axes) != len(params):
            raise ArgumentError(
                f"in_axes has {len(in_axes)} entries, and '{d.name}' {len(params)} parameters",
                code="TC0527",
                help="give 0 or None for each parameter, or a mapping from their names",
            )
        axes = dict(zip(params, in_axes, strict=True))
    for n, axis in axes.items():
        if axis not in (0, None):
            raise ArgumentError(
                f"in_axes gives axis {axis} for '{n}'",
                code="TC0527",
                help="a batch is the first dimension: 0",
            )
    found = frozenset(n for n, axis in axes.items() if axis == 0)
    if not found:
        raise ArgumentError(
            f"no parameter of '{d.name}' is batched", code="TC0527", help="in_axes gives 0 for some of them"
        )
    return found


@dataclass
class _Batch:
    program: s.Program
    extent: str
    index: str

    def __post_init__(self) -> None:
        self.by_name = {d.name: d for d in self.program.defs}
        self.defs: dict[str, s.Def] = {}
        self.made: dict[tuple[str, frozenset[str]], tuple[str, frozenset[str]]] = {}

    def of(self, d: s.Def, params: frozenset[str], name: str) -> s.Def:
        """A def with these parameters batched."""
        batched = self._closure(d, params)
        return replace(
            d,
            name=name,
            params=tuple(replace(p, type=self._type(p.type)) if p.name in batched else p for p in d.params),
            returns=tuple(
                replace(x, type=self._type(x.type))
                if x.type is not None and x.has_dims and x.name in batched
                else x
                for x in d.returns
            ),
            body=tuple(self._stmt(st, batched) for st in d.body),
        )

    def _type(self, t: s.Type) -> s.Type:
        return replace(t, dims=(s.DimDecl(self.extent, t.span), *t.dims))

    def _closure(self, d: s.Def, params: frozenset[str]) -> frozenset[str]:
        """The tensors of a def that depend on batched parameters."""
        found = set(params)
        changed = True
        while changed:
            before = len(found)
            for st in s.assignments(d.body):
                found |= self._defined(st, found)
            changed = len(found) > before
        return frozenset(found)

    def _defined(self, st: s.Assign | s.TupleCall, batched: Collection[str]) -> set[str]:
        """Which tensors a statement makes batched."""
        if isinstance(st, s.TupleCall):
            return self._results(st.callee, st.args, [t.name for t in st.targets], batched)
        if isinstance(st.value, s.Call) and st.value.name in self.by_name:
            return self._results(st.value.name, st.value.args, [st.lhs.name], batched)
        read = set(_names((st.value, st.clauses, st.lhs.subscripts or ())))
        return {st.lhs.name} if read & set(batched) or st.lhs.name in batched else set()

    def _results(
        self, callee: str, args: Sequence[s.Exp], targets: Sequence[str], batched: Collection[str]
    ) -> set[str]:
        d = self.by_name.get(callee)
        if d is None:
            return set()
        inside = self._closure(d, self._passed(d, args, batched))
        return {t for t, x in zip(targets, d.returns, strict=False) if x.name in inside}

    def _passed(self, d: s.Def, args: Sequence[s.Exp], batched: Collection[str]) -> frozenset[str]:
        pairs = zip(d.params, args, strict=False)
        return frozenset(p.name for p, a in pairs if set(_names(a)) & set(batched))

    def _callee(self, name: str, args: Sequence[s.Exp], batched: Collection[str]) -> str:
        """The batched form of a def that is called, which is made if there is none yet."""
        d = self.by_name.get(name)
        if d is None:
            return name
        passed = self._passed(d, args, batched)
        key = (name, passed)
        if key not in self.made:
            made = name if not passed else _fresh(f"{name}_vmap", {*self.by_name, *self.defs})
            self.made[key] = (made, passed)
            self.defs[made] = d
            self.defs[made] = self.of(d, passed, made)
        return self.made[key][0]

    # ---- statements

    def _stmt(self, st: s.Stmt, batched: frozenset[str]) -> s.Stmt:
        match st:
            case s.For():
                return replace(st, body=tuple(self._stmt(x, batched) for x in st.body))
            case s.TupleCall():
                return replace(st, callee=self._callee(st.callee, st.args, batched))
            case s.Assign():
                return self._assign(st, batched)

    def _assign(self, st: s.Assign, batched: frozenset[str]) -> s.Assign:
        value = st.value
        if isinstance(value, s.Call) and (value.name in self.by_name or value.name == "concat"):
            return replace(st, value=replace(value, name=self._callee(value.name, value.args, batched)))
        made = s.rebuild_assign(st, lambda e: self._exp(e, batched))
        if st.lhs.name not in batched:
            return made
        b = s.Name(self.index, st.span)
        zero, end = s.IntLit(0, st.span), s.Name(self.extent, st.span)
        return replace(
            made,
            lhs=replace(made.lhs, subscripts=(b, *(made.lhs.subscripts or ()))),
            clauses=(s.RangeClause(self.index, zero, end, st.span, st.span), *made.clauses),
        )

    def _exp(self, e: s.Exp, batched: frozenset[str]) -> s.Exp:
        match e:
            case s.Name() if e.id in batched:
                return s.Call(e.id, (s.Name(self.index, e.span),), e.span, e.span)
            case s.Dim() if e.tensor in batched:
                return replace(e, axis=e.axis + 1)
            case _:
                made = s.rebuild(e, lambda x: self._exp(x, batched))
                if not isinstance(made, s.Call) or made.name not in batched:
                    return made
                modes = made.modes * len(made.args) if len(made.modes) == 1 else made.modes
                return replace(
                    made,
                    args=(s.Name(self.index, made.span), *made.args),
                    modes=(s.Mode("none", None, made.span), *modes) if modes else (),
                )

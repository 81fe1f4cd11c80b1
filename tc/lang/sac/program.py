"""A SaC program at given ranks and element types, as a checked program of `tc.lang.resolved`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tc.dtypes import DType
from tc.errors import DataDependentAccess, SemanticError, Span
from tc.lang import reductions
from tc.lang import resolved as r
from tc.lang.sac import syntax as s
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, scalar
from tc.lang.sac.calls import inline
from tc.lang.sac.comprehend import comprehension
from tc.lang.sac.elaborate import Elaborator, TooLong
from tc.lang.sac.emit import Emitter, Scope
from tc.lang.sac.names import Names, check, parameters
from tc.lang.sac.regions import converted_array
from tc.lang.sac.withloops import with_loop


@dataclass(frozen=True, slots=True)
class Given:
    """What an argument is known to be: a rank, and for a bare expression an element type."""

    rank: int
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the entry; None for a rank or type that the arguments decide."""

    name: str
    rank: int | None
    dtype: DType | None
    least: int  # rank
    span: Span


def signature_of(program: s.Program, entry: str | None = None) -> tuple[Parameter, ...]:
    """The parameters of the entry.  Raises `SemanticError`."""
    names = check(program, entry)
    if names.entry is None:
        assert program.bare is not None
        return tuple(Parameter(n.id, None, None, 0, n.span) for n in parameters(program.bare))
    return tuple(
        Parameter(p.name, p.type.rank, p.type.dtype, 1 if p.type.dims == "+" else 0, p.span)
        for p in names.entry.params
    )


def elaborate(
    program: s.Program, entry: str | None = None, given: Mapping[str, Given] | None = None
) -> r.Checked:
    """The entry at given ranks: calls inlined, bounds inferred, every partition a statement."""
    names = check(program, entry)
    try:
        with t.remembering():
            return _Elaboration(program, names, given or {}).run()
    except TooLong as e:
        raise SemanticError(e.message, e.span, code="TC0254", help=e.help) from None
    except RecursionError:
        raise SemanticError(
            "this program is nested too deeply to be elaborated",
            program.span,
            code="TC0265",
            help="give parts of it names in functions",
        ) from None


class _Elaboration:
    def __init__(self, program: s.Program, names: Names, given: Mapping[str, Given]) -> None:
        self.program, self.names, self.given = program, names, given
        self.el = Elaborator(names, comprehension, with_loop)
        self.params: list[r.Tensor | r.ScalarParam] = []
        self.sizes: list[str] = []

    def run(self) -> r.Checked:
        f = self.names.entry
        arrays = self._parameters()
        if f is None:
            assert self.program.bare is not None
            results = [self.el.exp(self.program.bare, arrays)]
            texts: tuple[s.Exp, ...] = (self.program.bare,)
            name, span = "expression", self.program.span
        else:
            results = inline(self.el, f, list(arrays.values()))
            texts, name, span = f.results, f.name, f.span
        emitter = Emitter(self.el)
        returns: list[r.Returned] = []
        for a, e in zip(results, texts, strict=True):
            wanted = e.id if isinstance(e, s.Name) and e.id not in arrays else "result"
            out = _settled(a)
            made = emitter.tensor(out, (), Scope(), (), self.el.fresh(wanted), "return", out.element)
            returns.append(r.Returned(made.name, made, "fresh", None, e.span))
        statements = _numbered(emitter.statements)
        found = tuple(w for w in reductions.warnings(statements) if isinstance(w, DataDependentAccess))
        return r.Checked(
            name,
            tuple(self._specialized(statements)),
            tuple(returns),
            statements,
            tuple(self.sizes),
            tuple(self._equalities()),
            (),
            found,
            span,
            tuple(dict.fromkeys(self.el.derivation)),
        )

    def _equalities(self) -> list[r.Equality]:
        return list(dict.fromkeys(self.el.equalities))

    def _parameters(self) -> dict[str, Array]:
        out: dict[str, Array] = {}
        f = self.names.entry
        listed: list[tuple[str, s.Type | None, Span]] = []
        if f is None:
            assert self.program.bare is not None
            listed = [(n.id, None, n.span) for n in parameters(self.program.bare)]
        else:
            listed = [(p.name, p.type, p.span) for p in f.params]
        self.el.used |= {n for n, _, _ in listed}
        for name, declared, span in listed:
            known = self.given.get(name)
            rank = declared.rank if declared is not None and declared.rank is not None else None
            if rank is None:
                assert known is not None, name
                rank = known.rank
            dtype = declared.dtype if declared is not None else known.dtype if known is not None else None
            assert dtype is not None
            if not rank:
                self.params.append(r.ScalarParam(name, dtype, False, span))
                out[name] = scalar(r.Scalar(name, dtype, span), dtype, span)
                continue
            dims: list[Any] = []
            fixed = (
                declared.dims if declared is not None and isinstance(declared.dims, tuple) else (None,) * rank
            )
            for d, n in enumerate(fixed):
                if n is not None:
                    dims.append(t.const(n, span))
                    continue
                size = self.el.fresh(f"{name}_{d}")
                self.sizes.append(size)
                dims.append(r.Size(size, span))
            tensor = r.Tensor(name, rank, "param", dtype, tuple(dims), span)
            self.params.append(tensor)
            out[name] = Array(
                tuple(dims), dtype, lambda index, x=tensor: r.Access(x, index, x.span), span, tensor=tensor
            )
        return out

    def _specialized(self, statements: tuple[r.Statement, ...]) -> list[r.Tensor | r.ScalarParam]:
        """The parameters; scalars in shapes, subscripts or conditions are part of the compile key."""
        used: set[str] = set()

        def scan(e: Any) -> None:
            used.update(x.name for x in r.walk(e) if isinstance(x, r.Scalar))

        for st in statements:
            for g in st.ranges:
                scan(g.lo)
                scan(g.hi)
            for lo, hi in st.box or ():
                scan(lo)
                scan(hi)
            for c in st.conditions:
                scan(c)
            for e in st.roots():
                for a in r.accesses(e):
                    for sub in a.subscripts:
                        scan(r.expand_lets(sub, st))
        for q in self.el.equalities:
            scan(q.left)
            scan(q.right)
        return [
            replace(p, specialized=p.name in used) if isinstance(p, r.ScalarParam) else p for p in self.params
        ]


def _settled(a: Array) -> Array:
    return converted_array(a, a.dtype, a.element) if isinstance(a.dtype, str) else a


def _numbered(statements: list[r.Statement]) -> tuple[r.Statement, ...]:
    """The statements with their accesses numbered."""
    count = 0

    def number(e: Any) -> Any:
        nonlocal count
        e = r.rebuild(e, number)
        if isinstance(e, r.Access):
            e = replace(e, site=count)
            count += 1
        return e

    return tuple(r.map_statement(st, number) for st in statements)

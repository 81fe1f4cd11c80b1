"""A def that returns, besides its results, what its gradient would otherwise compute again.

Of the temporaries that adjoints read it returns

* those that sequential loops make: without them a pass backward goes through the loops forwards first, and
  keeps the same values;
* sums and extremes that have no more elements than one of the tensors that come in or go out, such as the
  mean and the variance of rows.

Others, such as exponentials of elements or the scores of an attention, are computed again, which takes less
time or less memory than to keep them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tc.autodiff import source as write
from tc.autodiff.contraction import contracted
from tc.autodiff.gradient import (
    live_of,
    needed_of,
    parameters,
    recorded_tape,
    results_of,
    returns,
    wrt_of,
)
from tc.autodiff.names import Names
from tc.autodiff.reverse import adjoints
from tc.autodiff.tape import Definition, Tape, Version
from tc.errors import SemanticError, Source
from tc.ir.expr import Call, Expr, Variable, imm, rebuild
from tc.ir.program import Domain, IterVar
from tc.ir.simplify import simplify
from tc.pipeline.front import Variant, build, front


@dataclass(frozen=True, slots=True)
class Saving:
    """`source` returns what the def does and then `saved`, which are names for `save=` of `tc.grad`."""

    source: str
    saved: tuple[str, ...]


def saving(
    src: str,
    wrt: Sequence[str],
    entry: str,
    *,
    ties: str = "first",
    scalars: Mapping[str, int] | None = None,
    drop: bool = False,
) -> Saving | None:
    """Such a def for the gradient of all results of `entry` with respect to `wrt`; None if there is nothing
    to return.  Arguments and errors are those of `tc.grad`."""
    f, recorded, names = recorded_tape(src, entry, scalars, "gradient", drop)
    results = results_of(f, recorded, None)
    chosen = wrt_of(f, recorded, wrt, results)
    found = adjoints(recorded, chosen, results, names, ties)
    live = live_of(found.definitions, found.of.values())
    needed = needed_of(recorded, live, frozenset(recorded.outputs))
    worth = [n for n in recorded.versions if n in needed and _is_worth_memory(recorded, n)]
    # What is read to compute others again is needed only if those are.
    saved = tuple(n for n in worth if n in needed_of(recorded, live, frozenset((*recorded.outputs, *worth))))
    if not saved or any(recorded.versions[o].role == "input" for o in recorded.outputs):
        return None
    kept = {n: replace(recorded.versions[n], role="output") for n in saved}
    versions = {**recorded.versions, **kept}
    definitions = live_of(recorded.definitions, (*recorded.outputs, *saved))
    definitions = contracted([write.from_zero(d, {}) for d in definitions], versions)
    known = set(recorded.sizes)
    params = parameters(f, recorded, names, known)
    returned = [returns(versions[n], known) for n in (*recorded.outputs, *saved)]
    name = names.fresh(f"{f.checked.name}_saving")
    text = write.definition(name, params, returned, definitions, names)
    for n in _read_first(text, saved):
        definitions, versions = _copied(n, definitions, versions, names)
        text = write.definition(name, params, returned, definitions, names)
    if not _all_defined(text, scalars or {}):
        returned_too = {*saved, *(set(versions) - set(recorded.versions))}
        partly = dict.fromkeys(d.target for d in definitions if d.loops and d.target in returned_too)
        definitions = [*(_zeros(versions[n], names) for n in partly), *definitions]
        text = write.definition(name, params, returned, definitions, names)
    return Saving(text, saved)


def _all_defined(text: str, scalars: Mapping[str, int]) -> bool:
    """Whether a def defines all of its results; loops may define a triangle, which is all that they read."""
    f = front(Source(text))
    values = tuple((n, scalars[n]) for n in f.keyed if n in scalars)
    try:
        build(f, Variant(values))
    except SemanticError as e:
        if e.code != "TC0228":
            raise
        return False
    return True


def _zeros(v: Version, names: Names) -> Definition:
    local = names.local()
    pure = tuple(IterVar(local(f"i{k}"), r, "pure") for k, r in enumerate(v.box))
    return Definition(v.name, tuple(Variable(x.name) for x in pure), None, imm(0, v.dtype), Domain(pure))


def _read_first(text: str, saved: Sequence[str]) -> list[str]:
    """The tensors that the text of a def reads before all of their elements are defined: as results these
    would have to come from the caller."""
    returned = front(Source(text)).checked.returns
    return [o.name for o in returned if o.name in saved and o.mode != "fresh"]


def _copied(
    name: str, definitions: Sequence[Definition], versions: Mapping[str, Version], names: Names
) -> tuple[list[Definition], dict[str, Version]]:
    """Definitions that compute a tensor under another name, and copy it to its own at the end."""
    v, inner = versions[name], names.fresh(name)

    def renamed(e: Expr) -> Expr:
        e = rebuild(e, renamed)
        return (
            replace(e, name=inner) if isinstance(e, Call) and e.kind != "intrinsic" and e.name == name else e
        )

    found = [
        replace(
            d,
            target=inner if d.target == name else d.target,
            args=tuple(map(renamed, d.args)),
            value=renamed(d.value),
            domain=replace(d.domain, conditions=tuple(map(renamed, d.domain.conditions))),
        )
        for d in definitions
    ]
    local = names.local()
    pure = tuple(IterVar(local(f"i{k}"), r, "pure") for k, r in enumerate(v.box))
    at = tuple(Variable(x.name) for x in pure)
    found.append(Definition(name, at, None, Call(inner, at, v.dtype, "func"), Domain(pure)))
    return found, {**versions, inner: replace(v, name=inner, role="temporary")}


def _is_worth_memory(tape: Tape, name: str) -> bool:
    v = tape.versions[name]
    if v.role != "temporary":
        return False
    if v.loops or v.carrier is not None or v.in_place:
        return True
    reduces = any(x.kind == "reduction" for d in tape.of(name) for x in d.domain.vars)
    own = _extents(v)
    passed = (w for w in tape.versions.values() if w.role != "temporary")
    return reduces and any(own <= _extents(w) for w in passed)


def _extents(v: Version) -> Counter[Expr]:
    return Counter(simplify(r.extent, exact=True) for r in v.box)

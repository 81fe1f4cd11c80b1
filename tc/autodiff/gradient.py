"""`tc.grad`: the gradient of a def as a def of the same language."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tc.autodiff import source as write
from tc.autodiff.contraction import contracted
from tc.autodiff.existing_reads import reads_exist
from tc.autodiff.extents import with_named_extents, without_names
from tc.autodiff.index_conditions import within
from tc.autodiff.like_terms import combined
from tc.autodiff.names import Names
from tc.autodiff.recorder import tape
from tc.autodiff.reverse import Adjoints, adjoints, reached
from tc.autodiff.settled import settled
from tc.autodiff.shared_sums import with_shared_sums
from tc.autodiff.tape import Definition, Tape, Version, depends_on, reads
from tc.errors import ArgumentError, Source, did_you_mean
from tc.ir.expr import Expr, IntImm, Variable, variables
from tc.ir.program import IterVar, Program
from tc.ir.simplify import simplify
from tc.lang import resolved as r
from tc.lang.builtins import BUILTINS
from tc.lang.format import type_name
from tc.lang.generic import monomorphic
from tc.pipeline.front import Front, Variant, build, front


@dataclass(frozen=True, slots=True)
class Gradient:
    """A gradient.

    `source` defines `name`, whose parameters are those of the def, then the values that in/out tensors had
    before (`before`, by tensor), then what `saved` names, then the adjoints of its results (`seeds`, by
    result); it returns the adjoints of `wrt`, in this order.
    """

    name: str
    source: str
    wrt: tuple[str, ...]
    before: Mapping[str, str]
    saved: tuple[str, ...]
    seeds: Mapping[str, str]


def grad(
    src: str,
    wrt: Sequence[str] | str | None = None,
    entry: str | None = None,
    *,
    ties: str = "first",
    of: Sequence[str] | str | None = None,
    save: Collection[str] = (),
    scalars: Mapping[str, int] | None = None,
    types: Mapping[str, str] | None = None,
    drop: bool = False,
) -> str:
    """The source of the gradient of a def: `entry`, by default the last one.

    It takes the parameters of the def, then the adjoint d_y of each result y in `of` (of the shape of y), by
    default of every floating or complex one.  It returns the adjoint d_x of each x in `wrt`, by default of
    every floating or complex tensor parameter that these results depend on.  What it needs of the results it
    computes again, but those in `save` (results, or temporaries by name), which it takes between the
    parameters and the adjoints.  The values y_1 that an in/out tensor y had before are taken there, too,
    where they are needed; in `wrt`, y stands for them.

    The adjoint of a complex number x + iy, for a real loss L, is dL/dx + i dL/dy, as in PyTorch.

    `ties` says what several equal elements get of the adjoint of a minimum or maximum over them: the whole to
    the `"first"`, or each the same part (`"split"`).  `scalars` has values of integer parameters on which
    ranges depend, `types` the element types of type variables.  With `drop` it is the gradient of what
    `tc.compile(…, checks="drop")` computes: what scatters leave out has a derivative of 0.

    Raises the errors of `tc.compile`; ArgumentError for a name in `wrt` that is no such tensor parameter,
    or on which no result depends; SemanticError, code TC0241, for an operator without derivative on the way.
    """
    src = src if types is None else monomorphic(Source(src), entry, types)
    return gradient(src, wrt, entry, ties=ties, of=of, save=save, scalars=scalars, drop=drop).source


def gradient(
    src: str,
    wrt: Sequence[str] | str | None = None,
    entry: str | None = None,
    *,
    ties: str = "first",
    of: Sequence[str] | str | None = None,
    save: Collection[str] = (),
    scalars: Mapping[str, int] | None = None,
    tensors: bool = False,
    drop: bool = False,
) -> Gradient:
    """`grad`, with what its parameters and results stand for.

    With `tensors` adjoints and saved values of rank 0 are passed as tensors of one element, not as numbers.
    """
    check_ties(ties)
    f, recorded, names = recorded_tape(src, entry, scalars, "gradient", drop)
    results = results_of(f, recorded, of)
    chosen = wrt_of(f, recorded, wrt, results)
    _check_saved(f, recorded, save)
    initial = [n for n, v in recorded.versions.items() if v.role == "input"]
    recorded, extents = with_named_extents(recorded, [*initial, *save, *results], names)
    found = adjoints(recorded, chosen, results, names, ties)
    return _written(f, recorded, found, chosen, tuple(save), names, extents, tensors)


def check_ties(ties: str) -> None:
    if ties not in ("first", "split"):
        raise ArgumentError(f"ties={ties!r} is not valid", code="TC0511", help='ties is "first" or "split"')


def recorded_tape(
    src: str, entry: str | None, scalars: Mapping[str, int] | None, what: str, drop: bool = False
) -> tuple[Front, Tape, Names]:
    """The tape of a def, and what gives names beside those that it has."""
    f = front(Source(src), entry)
    program = _program(f, scalars or {}, what, drop)
    recorded = tape(program)
    taken = {*program.sizes, *program.params, *recorded.versions, *BUILTINS}
    taken |= {loop.name for d in recorded.definitions for loop in d.loops}
    return f, recorded, Names(taken | {s.name for s in program.scalars})


def _program(f: Front, scalars: Mapping[str, int], what: str = "gradient", drop: bool = False) -> Program:
    """The program that is differentiated, with values of the integer parameters on which ranges depend."""
    missing = [] if f.ranges.complete else [n for n in f.specialized if n not in scalars]
    if missing:
        raise ArgumentError(
            f"the {what} of {f.checked.name} depends on the value of {', '.join(missing)}",
            code="TC0513",
            help=f'pass scalars={{"{missing[0]}": …}}',
        )
    return build(f, Variant(scalars=tuple(scalars.items()), checks=False, drop=drop)).program


def differentiable(
    src: str, entry: str | None = None, scalars: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """The floating and complex tensor parameters that such results of a def depend on; raises as
    `gradient`."""
    f = front(Source(src), entry)
    recorded = tape(_program(f, scalars or {}))
    results = set(results_of(f, recorded, None))
    tensors = [p.name for p in f.checked.params if isinstance(p, r.Tensor)]
    return tuple(
        n for n in tensors if recorded.versions[n].dtype.is_inexact and results & reached(recorded, [n])
    )


def results_of(f: Front, recorded: Tape, of: Sequence[str] | str | None) -> tuple[str, ...]:
    """The results whose adjoints are given."""
    floating = [o for o in recorded.outputs if recorded.versions[o].dtype.is_inexact]
    by_name = {recorded.versions[o].tensor: o for o in floating}
    asked = [of] if isinstance(of, str) else list(by_name if of is None else of)
    for name in asked:
        if name not in by_name:
            raise ArgumentError(
                f"'{name}' in of is no floating or complex result of '{f.checked.name}'",
                code="TC0521",
                help=did_you_mean(name, set(by_name)) or f"they are {', '.join(by_name) or 'none'}",
            )
    return tuple(by_name[n] for n in by_name if n in asked)


def wrt_of(
    f: Front, recorded: Tape, wrt: Sequence[str] | str | None, results: Sequence[str]
) -> tuple[str, ...]:
    """The inputs whose adjoints are wanted."""
    inputs = {v.tensor: n for n, v in recorded.versions.items() if v.role == "input" and v.dtype.is_inexact}
    params = [p.name for p in f.checked.params if isinstance(p, r.Tensor) and p.name in inputs]
    floating = [*params, *(n for n in inputs if n not in params)]
    asked = [wrt] if isinstance(wrt, str) else list(params if wrt is None else wrt)
    used: list[str] = []
    for name in asked:
        if name not in floating:
            known = {p.name for p in f.checked.params}
            what = "is no floating or complex tensor" if name in known else "is no parameter"
            raise ArgumentError(
                f"'{name}' in wrt {what} of '{f.checked.name}'",
                code="TC0521",
                help=did_you_mean(name, set(floating)) or f"such tensors are {', '.join(floating) or 'none'}",
            )
        if set(results) & reached(recorded, [inputs[name]]):
            used.append(inputs[name])
        elif wrt is not None:
            raise ArgumentError(
                f"no floating or complex result of '{f.checked.name}' depends on '{name}'",
                code="TC0522",
                help="its gradient is 0: leave it out of wrt=",
            )
    if not used:
        raise ArgumentError(
            f"no floating or complex result of '{f.checked.name}' depends on such a tensor",
            code="TC0522",
            help="there is nothing to differentiate",
        )
    return tuple(dict.fromkeys(used))


def _check_saved(f: Front, recorded: Tape, save: Collection[str]) -> None:
    for s in save:
        v = recorded.versions.get(s)
        if v is None or v.role == "input":
            raise ArgumentError(
                f"'{s}' in save is no result or temporary of '{f.checked.name}'",
                code="TC0521",
                help=did_you_mean(s, set(recorded.versions)),
            )


def _written(
    f: Front,
    recorded: Tape,
    found: Adjoints,
    wrt: tuple[str, ...],
    save: tuple[str, ...],
    names: Names,
    extents: Mapping[str, Expr],
    tensors: bool,
) -> Gradient:
    found = replace(found, definitions=live_of(found.definitions, found.of.values()))
    needed = needed_of(recorded, found.definitions, frozenset(save))
    saved = tuple(s for s in save if s in needed)
    forward = [d for d in recorded.definitions if d.target in needed and d.target not in saved]
    known = set(recorded.sizes)
    params = parameters(f, recorded, names, known)
    taken = {p.name for p in f.checked.params}
    before = {
        v.tensor: n
        for n, v in recorded.versions.items()
        if v.role == "input" and v.tensor not in taken and n in needed
    }
    params += [write.parameter(n, recorded.versions[n], names, known, tensors) for n in before.values()]
    params += [write.parameter(s, recorded.versions[s], names, known, tensors) for s in saved]
    params += [write.parameter(n, found.versions[n], names, known, tensors) for n in found.seeds.values()]
    returned = [returns(found.versions[n], known) for n in found.of.values()]
    name = names.fresh(f"{f.checked.name}_grad")
    arguments = {n: found.versions[n].box for n in (*before.values(), *saved, *found.seeds.values())}
    carried = {v for box in arguments.values() for x in box for v in variables(x.extent)}
    unnamed = {n: e for n, e in extents.items() if n not in carried}
    # What the program computes has the extents that it has there, whatever the arguments are, and so has what
    # loops define: an iteration of theirs must find all that it reads.
    looped = {d.target for d in found.definitions if d.loops}
    definitions = without_names(forward, extents)
    for d in found.definitions:
        d = replace(d, value=combined(d.value))
        definitions += without_names([d], extents if d.target in looped else unnamed)
    definitions = [replace(d, value=settled(d.value, d.domain, recorded.sizes, d.loops)) for d in definitions]
    definitions = live_of(definitions, found.of.values())  # branches that are never taken are gone

    @cache
    def exist(e: Expr, own: tuple[IterVar, ...]) -> bool:
        return reads_exist(e, found.versions, (*within(own), *recorded.facts), recorded.sizes)

    definitions = with_shared_sums(definitions, names.fresh, exist)
    given = {s: replace(found.versions[s], role="input") for s in saved}
    definitions = [write.from_zero(d, arguments, tensors) for d in definitions]
    definitions = contracted(definitions, {**found.versions, **given})
    source = write.definition(name, params, returned, definitions, names)
    seeds = {recorded.versions[o].tensor: n for o, n in found.seeds.items()}
    of = tuple(recorded.versions[n].tensor for n in wrt)
    return Gradient(name, source, of, before, saved, seeds)


def parameters(f: Front, recorded: Tape, names: Names, known: set[str]) -> list[str]:
    """The parameters of a def, with what their extents are on a tape."""
    return [
        f"{type_name(p.dtype)} {p.name}"
        if isinstance(p, r.ScalarParam)
        else write.parameter(p.name, recorded.versions[p.name], names, known)
        for p in f.checked.params
    ]


def returns(v: Version, sizes: Collection[str]) -> str:
    """A returned tensor, with its type where its extents are sizes or numbers (and no scalars)."""
    dims = [simplify(x.extent, exact=True) for x in v.box]
    plain = all(isinstance(x, IntImm) or (isinstance(x, Variable) and x.name in sizes) for x in dims) and dims
    return write.returned(v, dims) if plain else v.name


def live_of(definitions: Sequence[Definition], wanted: Iterable[str]) -> tuple[Definition, ...]:
    """The definitions without those of which no wanted version is made."""
    live = depends_on(definitions, wanted)
    return tuple(d for d in definitions if d.target in live)


def needed_of(recorded: Tape, definitions: Sequence[Definition], saved: frozenset[str]) -> frozenset[str]:
    """The versions of a program whose values are read by adjoints, or by what computes these again."""
    needed: set[str] = set()
    left = [c.name for d in definitions for c in reads(d)]
    while left:
        name = left.pop()
        if name in needed or name not in recorded.versions:
            continue
        needed.add(name)
        if name not in saved:
            left += [c.name for d in recorded.of(name) for c in reads(d)]
    return frozenset(needed)

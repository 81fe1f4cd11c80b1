"""`tc.jvp`: the directional derivative of a def, as a def."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tc.autodiff import source as write
from tc.autodiff.contraction import contracted
from tc.autodiff.extents import with_named_extents, without_names
from tc.autodiff.forward import tangents
from tc.autodiff.gradient import check_ties, live_of, parameters, recorded_tape, results_of, returns, wrt_of
from tc.errors import Source
from tc.ir.expr import variables
from tc.lang.generic import monomorphic


def jvp(
    src: str,
    wrt: Sequence[str] | str | None = None,
    entry: str | None = None,
    *,
    ties: str = "first",
    of: Sequence[str] | str | None = None,
    scalars: Mapping[str, int] | None = None,
    types: Mapping[str, str] | None = None,
    drop: bool = False,
) -> str:
    """The source of the directional derivative of a def: `entry`, by default the last one.

    It takes the parameters of the def, then the values that in/out tensors have before, then a tangent t_x
    (of the shape of x) for each x in `wrt`, by default of every floating or complex tensor parameter that the
    results depend on.  It returns the results of the def, then the tangent t_y of each result y in `of`, by
    default of every floating or complex one: the sum over x of the Jacobian of y by x times t_x.

    Arguments and errors are those of `tc.grad`.
    """
    check_ties(ties)
    src = src if types is None else monomorphic(Source(src), entry, types)
    f, recorded, names = recorded_tape(src, entry, scalars, "jvp", drop)
    results = results_of(f, recorded, of)
    chosen = wrt_of(f, recorded, wrt, results)
    initial = [n for n, v in recorded.versions.items() if v.role == "input"]
    recorded, extents = with_named_extents(recorded, initial, names)
    found = tangents(recorded, chosen, results, names, ties)
    known = set(recorded.sizes)
    params = parameters(f, recorded, names, known)
    taken = {p.name for p in f.checked.params}
    before = [n for n, v in recorded.versions.items() if v.role == "input" and v.tensor not in taken]
    params += [write.parameter(n, recorded.versions[n], names, known) for n in before]
    params += [write.parameter(n, found.versions[n], names, known) for n in found.seeds.values()]
    arguments = {n: found.versions[n].box for n in (*before, *found.seeds.values())}
    carried = {v for box in arguments.values() for x in box for v in variables(x.extent)}
    unnamed = {n: e for n, e in extents.items() if n not in carried}
    live = live_of(found.definitions, (*recorded.outputs, *found.of.values()))
    definitions = without_names(live, unnamed)
    outputs = [found.versions[n] for n in (*recorded.outputs, *found.of.values())]
    definitions = contracted([write.from_zero(d, arguments) for d in definitions], found.versions)
    name = names.fresh(f"{f.checked.name}_jvp")
    return write.definition(name, params, [returns(v, known) for v in outputs], definitions, names)

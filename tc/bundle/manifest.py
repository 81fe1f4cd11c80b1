"""What the manifest of a bundle says, as dataclasses: read from JSON and written to it.

    Manifest  : Instance*              one def, at several element types or ranks
    Instance  : signature, Kernel*     what its calls take and give, what their sizes must satisfy
    Kernel    : sizes, Target*         what selects it; shapes; checked subscripts
    Target    : backend, payload, …    its code for a processor or a device

Expressions over sizes are those of `tc.ir.expr_json`; a place in the source is a pair of offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tc.dtypes import BY_NAME, DType
from tc.errors import Source, Span
from tc.ir.expr import Expr, variables
from tc.ir.expr_json import from_json, to_json
from tc.ir.program import Range, Site
from tc.runtime.signature import Output, Param, Signature

T = TypeVar("T")
Shape = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A relation between sizes that a call must satisfy; `shown` is what messages have, `remedy` how else the
    source could be written."""

    condition: Expr
    shown: str
    reason: str
    span: Span | None
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked access: its place, and the ranges of the tensor (none where nothing of it is checked)."""

    site: Site
    box: tuple[Range, ...] | None


@dataclass(frozen=True, slots=True)
class Target:
    """Code for a processor or a device.

    `kind`: "library", whose function `symbol` follows tc/native/entry.h, or "module", which the run time of
    the backend loads.  `requires` and `facts` are those of `tc.pipeline.target.Exported`.
    """

    backend: str
    kind: str
    name: str
    payload: str
    facts: Mapping[str, Any]
    symbol: str = ""
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel and what selects it: sizes, values of specialised scalars, results that start from a buffer,
    integer types other than the declared ones, and whether indices need 64 bits.  `dynamic` are the sizes of
    which it serves every value, in the order in which it takes them, with typical ones.
    """

    sizes: Mapping[str, int]
    dynamic: Mapping[str, int]
    scalars: Mapping[str, int]
    given: frozenset[str]
    integers: Mapping[str, DType]
    wide: bool
    shapes: Mapping[str, Shape]
    inout: frozenset[str]
    images: frozenset[str]
    checked: tuple[Checked, ...]
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """A def at given element types and ranks.

    `accumulated` are the results that start from a buffer where a call passes one.  `requirements` has, for
    values of specialised scalars, what sizes must satisfy.
    """

    signature: Signature
    sizes: tuple[str, ...]
    accumulated: frozenset[str]
    ranges: Mapping[str, tuple[str, ...]]
    requirements: tuple[tuple[Mapping[str, int], tuple[Requirement, ...]], ...]
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library of the payloads, and the functions that it imports, in the order of its table."""

    machine: str
    imports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of a bundle but its code; `program` is the SHA-256 of the source and what it was compiled with."""

    tc: str
    name: str
    lang: str
    checks: str
    program: str
    source: Source = field(repr=False)
    instances: tuple[Instance, ...]
    libraries: Mapping[str, Library]


# ---- to JSON


def write(m: Manifest) -> dict[str, Any]:
    """Plain data for a manifest."""
    return {
        "tc": m.tc,
        "name": m.name,
        "lang": m.lang,
        "checks": m.checks,
        "program": m.program,
        "source": {"name": m.source.name, "text": m.source.text},
        "instances": [_write_instance(i) for i in m.instances],
        "libraries": {n: {"machine": x.machine, "imports": list(x.imports)} for n, x in m.libraries.items()},
    }


def _write_instance(i: Instance) -> dict[str, Any]:
    return {
        "parameters": [_write_param(p) for p in i.signature.params],
        "results": [_write_output(o) for o in i.signature.outputs],
        "sizes": list(i.sizes),
        "accumulated": sorted(i.accumulated),
        "ranges": {n: list(r) for n, r in i.ranges.items()},
        "requirements": [
            {"scalars": dict(scalars), "conditions": [_write_requirement(r) for r in found]}
            for scalars, found in i.requirements
        ],
        "kernels": [_write_kernel(k) for k in i.kernels],
    }


def _write_param(p: Param) -> dict[str, Any]:
    return {
        "name": p.name,
        "dtype": p.dtype.name,
        "dims": list(p.dims),
        "scalar": p.scalar,
        "any_integer": p.any_integer,
        "specialized": p.specialized,
        "span": _write_span(p.span),
    }


def _write_output(o: Output) -> dict[str, Any]:
    return {
        "name": o.name,
        "dtype": o.dtype.name,
        "ndim": o.ndim,
        "inout": o.inout,
        "span": _write_span(o.span),
    }


def _write_requirement(r: Requirement) -> dict[str, Any]:
    return {
        "condition": to_json(r.condition),
        "shown": r.shown,
        "remedy": r.remedy,
        "reason": r.reason,
        "span": _write_span(r.span),
    }


def _write_kernel(k: Kernel) -> dict[str, Any]:
    return {
        "sizes": dict(k.sizes),
        "dynamic": dict(k.dynamic),
        "scalars": dict(k.scalars),
        "given": sorted(k.given),
        "integers": {n: t.name for n, t in k.integers.items()},
        "wide": k.wide,
        "shapes": {n: [to_json(e) for e in s] for n, s in k.shapes.items()},
        "inout": sorted(k.inout),
        "images": sorted(k.images),
        "checked": [_write_checked(c) for c in k.checked],
        "targets": [
            {
                "backend": t.backend,
                "kind": t.kind,
                "name": t.name,
                "payload": t.payload,
                "symbol": t.symbol,
                "requires": list(t.requires),
                "facts": dict(t.facts),
            }
            for t in k.targets
        ],
    }


def _write_checked(c: Checked) -> dict[str, Any]:
    return {
        "tensor": c.site.tensor,
        "text": c.site.text,
        "variables": list(c.site.variables),
        "span": _write_span(c.site.span),
        "box": None if c.box is None else [[to_json(r.min), to_json(r.extent)] for r in c.box],
    }


def _write_span(span: Span | None) -> list[int] | None:
    return None if span is None else [span.start, span.end]


# ---- from JSON


def read(data: Mapping[str, Any]) -> Manifest:
    """The inverse of `write`.  Raises ValueError, KeyError or TypeError for data that is not its result."""
    source = Source(_text(data["source"]["text"]), _text(data["source"]["name"]))
    found = Manifest(
        _text(data["tc"]),
        _text(data["name"]),
        _text(data["lang"]),
        _text(data["checks"]),
        _text(data["program"]),
        source,
        _each(data["instances"], lambda i: _read_instance(i, _text(data["name"]), source)),
        {
            _text(n): Library(_text(x["machine"]), _each(x["imports"], _text))
            for n, x in _items(data["libraries"])
        },
    )
    for instance in found.instances:
        _consistent(instance, found.libraries)
    return found


def _consistent(instance: Instance, libraries: Mapping[str, Library]) -> None:
    """Raises ValueError where the parts of an instance do not belong together."""
    sizes, params = frozenset(instance.sizes), instance.signature.params
    specialized = frozenset(p.name for p in params if p.specialized)
    tensors = {p.name: len(p.dims) for p in params if not p.scalar}
    ranks = {**tensors, **{o.name: o.ndim for o in instance.signature.outputs}}

    def expect(good: bool, what: str) -> None:
        if not good:
            raise ValueError(what)

    def known(e: Expr, names: frozenset[str], what: str) -> None:
        expect(variables(e) <= names, f"{what} of unknown sizes")

    named = {d for p in params for d in p.dims if isinstance(d, str)}
    expect(named <= sizes, "a parameter of an unknown size")
    expect(all(p.scalar or not p.specialized for p in params), "a specialised tensor")
    expect(instance.accumulated <= {o.name for o in instance.signature.outputs}, "an unknown result")
    for scalars, requirements in instance.requirements:
        expect(scalars.keys() <= sizes | specialized, "a requirement of unknown scalars")
        for r in requirements:
            known(r.condition, sizes | specialized, "a requirement")
    for k in instance.kernels:
        expect({*k.sizes, *k.dynamic} == set(sizes), "a kernel without some size")
        expect(set(k.scalars) == set(specialized), "a kernel without some scalar")
        expect(k.given <= instance.accumulated and k.integers.keys() <= tensors.keys(), "unknown arrays")
        expect({n: len(s) for n, s in k.shapes.items()} == ranks, "shapes of other ranks")
        expect(bool(k.targets), "a kernel without code")
        for e in (e for s in k.shapes.values() for e in s):
            known(e, sizes, "a shape")
        for e in (e for c in k.checked for r in c.box or () for e in (r.min, r.extent)):
            known(e, sizes, "a range")
        for t in k.targets:
            expect(t.kind != "library" or t.payload in libraries, "an unknown library")
            if t.kind == "library":
                known(from_json(t.facts["workspace"]), sizes, "a workspace")


def _read_instance(data: Any, name: str, source: Source) -> Instance:
    def requirement(r: Any) -> Requirement:
        span = _read_span(r["span"], source)
        remedy = _text(r.get("remedy", ""))  # which the first bundles did not have
        return Requirement(from_json(r["condition"]), _text(r["shown"]), _text(r["reason"]), span, remedy)

    params = _each(data["parameters"], lambda p: _read_param(p, source))
    outputs = _each(data["results"], lambda o: _read_output(o, source))
    if not outputs:
        raise ValueError("no results")
    return Instance(
        Signature(name, params, outputs),
        _each(data["sizes"], _text),
        frozenset(_each(data["accumulated"], _text)),
        {_text(n): _each(r, _text) for n, r in _items(data["ranges"])},
        _each(
            data["requirements"],
            lambda r: (_integers(r["scalars"]), _each(r["conditions"], requirement)),
        ),
        _each(data["kernels"], lambda k: _read_kernel(k, source)),
    )


def _read_param(p: Any, source: Source) -> Param:
    return Param(
        _text(p["name"]),
        _dtype(p["dtype"]),
        _each(p["dims"], lambda d: d if isinstance(d, str) else _integer(d)),
        _bool(p["scalar"]),
        _bool(p["any_integer"]),
        _bool(p["specialized"]),
        _read_span(p["span"], source),
    )


def _read_output(o: Any, source: Source) -> Output:
    span = _read_span(o["span"], source)
    return Output(_text(o["name"]), _integer(o["ndim"]), _dtype(o["dtype"]), _bool(o["inout"]), span)


def _read_kernel(k: Any, source: Source) -> Kernel:
    return Kernel(
        _integers(k["sizes"]),
        _integers(k["dynamic"]),
        _integers(k["scalars"]),
        frozenset(_each(k["given"], _text)),
        {_text(n): _dtype(t) for n, t in _items(k["integers"])},
        _bool(k["wide"]),
        {_text(n): _each(s, from_json) for n, s in _items(k["shapes"])},
        frozenset(_each(k["inout"], _text)),
        frozenset(_each(k["images"], _text)),
        _each(k["checked"], lambda c: _read_checked(c, source)),
        _each(k["targets"], _read_target),
    )


def _read_checked(c: Any, source: Source) -> Checked:
    site = Site(
        _text(c["tensor"]), _text(c["text"]), _each(c["variables"], _text), _read_span(c["span"], source)
    )
    box = c["box"]
    return Checked(site, None if box is None else _each(box, _read_range))


def _read_range(pair: Any) -> Range:
    low, extent = pair
    return Range(from_json(low), from_json(extent))


def _read_target(t: Any) -> Target:
    if t["kind"] not in ("library", "module"):
        raise ValueError(f"a target of kind {t['kind']!r}")
    return Target(
        _text(t["backend"]),
        t["kind"],
        _text(t["name"]),
        _text(t["payload"]),
        dict(_items(t["facts"])),
        _text(t["symbol"]),
        _each(t["requires"], _text),
    )


def _read_span(data: Any, source: Source) -> Span | None:
    if data is None:
        return None
    start, end = map(_integer, data)
    if not 0 <= start <= end <= len(source.text):
        raise ValueError("a place outside of the source")
    return Span(source, start, end)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where a text belongs")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} where an integer belongs")
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} where true or false belongs")
    return value


def _dtype(value: Any) -> DType:
    return BY_NAME[_text(value)]


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} where an object belongs")
    return cast("dict[Any, Any]", value).items()


def _integers(value: Any) -> dict[str, int]:
    return {_text(n): _integer(v) for n, v in _items(value)}


def _each(values: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} where a list belongs")
    return tuple(map(read, cast("list[Any]", values)))

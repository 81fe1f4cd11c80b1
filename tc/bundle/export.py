"""Kernels to a bundle: each at the sizes and for the targets that are asked for."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tc import __version__
from tc.api import compile_source
from tc.bundle import archive, link, manifest
from tc.cache import disk
from tc.dtypes import BY_NAME, DType
from tc.errors import ArgumentError, BackendError, DTypeError, did_you_mean
from tc.instances.failures import checked_box
from tc.instances.kernel_signature import boxes_of, same_types, signature
from tc.instances.kernel_sizes import check_complete, check_integers
from tc.ir.printer import text
from tc.ir.program import Program
from tc.kernel import Kernel, built_program
from tc.open_kernels.generic_kernel import GenericKernel
from tc.open_kernels.polymorphic import PolymorphicKernel
from tc.options import Options, typical_size
from tc.pipeline.front import Variant, specialize
from tc.pipeline.target import Exported, Exporting
from tc.range_table import shown

Sizes = Mapping[str, int]
Types = Mapping[str, str]
_MOST_SUBSETS = 2  # results that start from a buffer, of which every subset has a kernel


@dataclass
class Collected:
    """What goes into a bundle: instances, and the code of their kernels by payload."""

    instances: list[manifest.Instance] = field(default_factory=list[manifest.Instance])
    objects: dict[str, list[Exported]] = field(default_factory=dict[str, list[Exported]])
    modules: dict[str, bytes] = field(default_factory=dict[str, bytes])
    count: int = 0

    def target(self, backend: str, e: Exported) -> manifest.Target:
        """The entry of the manifest for a kernel's code, which is kept."""
        if e.kind == "object":
            name = f"{backend}-{e.target}.so"
            self.objects.setdefault(name, []).append(e)
            kind = "library"
        else:
            name = f"{backend}-{e.target}-{hashlib.sha256(e.code).hexdigest()[:16]}"
            self.modules[name] = e.code
            kind = "module"
        return manifest.Target(backend, kind, e.target, name, e.facts, e.symbol, e.requires)


def collect(
    kernel: Any,
    sizes: Sizes | Sequence[Sizes] = (),
    *,
    isa: str | Sequence[str] = (),
    arch: str | Sequence[str] = (),
    types: Types | Sequence[Types] = (),
    buffers: bool = False,
) -> tuple[Kernel, Collected]:
    """The kernels that `export` writes, and the first of the kernels that they are of.  With `buffers` those
    alone whose results all start from the caller's."""
    several = _several(sizes, "sizes")
    wanted = _several(types, "types")
    kernels = list(_instances(kernel, wanted))
    into = Collected()
    for one, integers in kernels:
        targets = _backends(one, _names(isa), _names(arch))
        _add(into, targets, several or [{}], integers, buffers)
    return kernels[0][0], into


def export(
    kernel: Any,
    path: str | os.PathLike[str],
    sizes: Sizes | Sequence[Sizes] = (),
    *,
    isa: str | Sequence[str] = (),
    arch: str | Sequence[str] = (),
    types: Types | Sequence[Types] = (),
) -> Path:
    """Write a bundle, which `tc.load` makes a callable of; returns its path.

    `sizes`: the sizes and specialised scalars of a kernel, or several such mappings; dynamic sizes may be
    left out.  `isa` are instruction sets of processors, "avx512", "avx2", "sse4.2", or "host" for all that
    this processor has; `arch` architectures of CUDA devices, "sm_80", of which the newest also stands for
    later ones.  With both, the bundle has both; with neither, it is for the kernel's backend and this
    machine. `types`: element types of type variables, {"T": "double"}, or of parameters that serve in any
    integer type, or several such mappings.

    Raises ArgumentError TC0516 where the file cannot be written; BackendError: TC0811 for targets that cannot
    be compiled for, TC0831 without a linker, TC0832 for a backend that has no bundles.
    """
    first, found = collect(kernel, sizes, isa=isa, arch=arch, types=types)
    payloads, libraries = dict(found.modules), dict[str, manifest.Library]()
    for name, objects in found.objects.items():
        code, imports = link.linked([e.code for e in objects], [e.symbol for e in objects])
        payloads[name] = code
        libraries[name] = manifest.Library(platform.machine(), imports)
    asked = first.request()
    program = disk.digest(asked.source.text, asked.entry, asked.lang, asked.options.changed(), asked.checks)
    whole = manifest.Manifest(
        __version__,
        first.name,
        asked.lang,
        asked.checks,
        program,
        asked.source,
        tuple(found.instances),
        libraries,
    )
    archive.write(path, manifest.write(whole), payloads)
    return Path(path)


# ---- what is asked for


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    listed = given.split(",") if isinstance(given, str) else given
    return tuple(dict.fromkeys(n.strip() for n in listed if n.strip()))


def _several(given: Any, what: str) -> list[dict[str, Any]]:
    """One mapping, or several."""
    listed: list[Any] = [given] if isinstance(given, Mapping) else list(given)
    for one in listed:
        if not isinstance(one, Mapping):
            example = '{"N": 128}' if what == "sizes" else '{"T": "double"}'
            raise ArgumentError(
                f"{what} is {type(one).__name__} where a mapping belongs",
                code="TC0511",
                help=f"pass {example}, or a list of such mappings",
            )
    return [dict(one) for one in listed]


def _instances(kernel: Any, types: list[dict[str, str]]) -> Iterator[tuple[Kernel, list[dict[str, DType]]]]:
    """The kernels of a def, and for each the integer types that its parameters are to have."""
    if isinstance(kernel, GenericKernel):
        names = [v.name for v in kernel.variables]
        bindings: dict[tuple[str | None, ...], list[dict[str, str]]] = {}
        for given in types or [{}]:
            rest = {n: t for n, t in given.items() if n not in names}
            bindings.setdefault(tuple(given.get(n) for n in names), []).append(rest)
        for values, others in bindings.items():
            known = {n: t for n, t in zip(names, values, strict=True) if t is not None}
            one = kernel.at(**known)
            yield one, [_integer_types(one, o) for o in others]
        return
    if isinstance(kernel, PolymorphicKernel):
        found = list(kernel.kernels.values())
        if not found:
            raise ArgumentError(
                f"{kernel.name} has no kernels before its ranks are known",
                code="TC0552",
                help=f"write kernel.{kernel.how()}.export(…)",
            )
        yield from ((k, [_integer_types(k, o) for o in types or [{}]]) for k in found)
        return
    yield kernel, [_integer_types(kernel, o) for o in types or [{}]]


def _integer_types(kernel: Kernel, types: Mapping[str, str]) -> dict[str, DType]:
    """Types of parameters by name, those that are not the declared ones; DTypeError, code TC0410, for other
    parameters and types."""
    params = {p.name: p for p in signature(kernel.front).params if p.any_integer}
    out: dict[str, DType] = {}
    for name, value in types.items():
        dtype = BY_NAME.get(value)
        if name not in params:
            raise DTypeError(
                f"'{kernel.name}' has no parameter '{name}' that serves in several types",
                code="TC0410",
                help=did_you_mean(name, params)
                or f"it has {', '.join(params) or 'none: leave types= away, or declare type variables'}",
            )
        if dtype is None or not dtype.is_int:
            raise DTypeError(f"'{value}' is no integer type", code="TC0410", help="such as int32 or int64")
        if dtype != params[name].dtype:
            out[name] = dtype
    return out


def _backends(
    kernel: Kernel, isa: tuple[str, ...], arch: tuple[str, ...]
) -> list[tuple[Kernel, Exporting, tuple[str, ...]]]:
    """The backends that compile, each with a kernel of it and the targets."""
    asked = [("cpu", isa), ("cuda", arch)] if isa or arch else [(kernel.backend, ())]
    out: list[tuple[Kernel, Exporting, tuple[str, ...]]] = []
    for name, targets in asked:
        if not targets and (isa or arch):
            continue
        one = kernel if kernel.backend == name else _moved(kernel, name)
        backend = one.backend_object
        if not isinstance(backend, Exporting):
            raise BackendError(
                f"the backend '{name}' has no bundles",
                code="TC0832",
                help="export for cpu by isa=, or for cuda by arch=",
            )
        out.append((one, backend, targets))
    return out


def _moved(kernel: Kernel, backend: str) -> Kernel:
    """The same kernel for another backend."""
    r = kernel.request()
    if r.known:
        return Kernel(kernel.front, backend, r.options, r.checks, r.dynamic)
    return compile_source(
        r.source, backend, r.entry, r.options, r.checks, r.lang, stacklevel=6, dynamic=r.dynamic
    )


# ---- kernels


def _add(
    into: Collected,
    backends: Sequence[tuple[Kernel, Exporting, tuple[str, ...]]],
    several: Sequence[Mapping[str, int]],
    integers: Sequence[Mapping[str, DType]],
    buffers: bool,
) -> None:
    """Compile a kernel at all its sizes, for all backends."""
    kernel = backends[0][0]
    front = kernel.front
    accumulated = tuple(x.name for x in front.checked.returns if x.mode == "accumulate")
    requirements: dict[tuple[tuple[str, int], ...], tuple[manifest.Requirement, ...]] = {}
    made: dict[str, manifest.Kernel] = {}
    for values in several:
        checked = _values(kernel, values)
        subsets = [frozenset(accumulated)] if buffers else _subsets(accumulated)
        for types, given in itertools.product(integers, subsets):
            variant = replace(
                kernel.variant_for(checked),
                given=given,
                integers=tuple(sorted(types.items(), key=lambda kv: kv[0])),
            )
            one, program = _kernel(into, backends, checked, variant)
            made[str((one.sizes, one.scalars, sorted(one.given), variant.integers))] = one
            requirements.setdefault(variant.scalars, _requirements(program))
    boxes = boxes_of(front, front.ranges)
    into.instances.append(
        manifest.Instance(
            signature(front),
            tuple(front.checked.sizes),
            frozenset(accumulated),
            {n: tuple(str(shown(b)) for b in box) for n, box in boxes.items()},
            tuple((dict(k), r) for k, r in requirements.items()),
            tuple(made.values()),
        )
    )


def _values(kernel: Kernel, values: Mapping[str, int]) -> dict[str, int]:
    """All sizes and specialised scalars, dynamic ones at typical values; raises what `Kernel.specialize`
    does."""
    dynamic = {n: v or typical_size(0) for n, v in kernel.typical_for(values).items()}
    whole = {**dynamic, **values}
    check_complete(kernel.front, whole)
    check_integers(kernel.front, whole)
    whole = {n: int(v) for n, v in whole.items()}
    kernel.output_shapes(**whole)
    return whole


def _subsets(names: Sequence[str]) -> list[frozenset[str]]:
    """The results that calls may pass buffers for, to start from: all subsets of few, else none and all."""
    if len(names) > _MOST_SUBSETS:
        return [frozenset(), frozenset(names)]
    sizes = range(len(names) + 1)
    return [frozenset(c) for n in sizes for c in itertools.combinations(names, n)]


def _kernel(
    into: Collected,
    backends: Sequence[tuple[Kernel, Exporting, tuple[str, ...]]],
    values: Mapping[str, int],
    variant: Variant,
) -> tuple[manifest.Kernel, Program]:
    """A kernel at sizes with its code for all backends, and its program before sizes are known."""
    targets: list[manifest.Target] = []
    symbol = f"tc_kernel_{into.count}"
    into.count += 1
    first = backends[0][0]
    front, dynamic = first.front, first.dynamic
    sizes = {n: values[n] for n in front.checked.sizes}
    scalars = {n: values[n] for n in front.specialized}
    fixed = {n: v for n, v in sizes.items() if n not in dynamic}
    built = built_program(front, variant)
    if variant.wide:
        same_types(front, built)
    program = specialize(built, fixed, {})
    typical = {n: v for n, v in first.typical_for(sizes).items() if n in dynamic}
    for kernel, backend, names in backends:

        def make(
            options: Options, backend: Exporting = backend, names: tuple[str, ...] = names
        ) -> tuple[Exported, ...]:
            return backend.export(program, options, typical, names, symbol)

        found = kernel.with_options(variant, sizes, scalars, make)
        targets += [into.target(backend.name, e) for e in found]
    inout = frozenset(b.name for b in program.buffers if b.role == "output" and b.inout)
    shapes = {
        b.name: tuple(d.extent for d in (b.box[:-1] if b.pairs else b.box))
        for b in program.buffers
        if b.role != "temporary"
    }
    sites = (manifest.Checked(s, checked_box(program, k)) for k, s in enumerate(program.sites))
    one = manifest.Kernel(
        fixed,
        {n: typical[n] for n in program.sizes},
        scalars,
        variant.given,
        dict(variant.integers),
        variant.wide,
        shapes,
        inout,
        program.images,
        tuple(sites) if any(checked_box(program, k) for k in range(len(program.sites))) else (),
        tuple(targets),
    )
    return one, built.program


def _requirements(program: Program) -> tuple[manifest.Requirement, ...]:
    return tuple(
        manifest.Requirement(p.condition, text(p.display), p.reason, p.span, p.remedy)
        for p in program.preconditions
    )

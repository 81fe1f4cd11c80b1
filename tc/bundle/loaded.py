"""A bundle that was loaded: a callable as a kernel is, with the same checks and messages, without a
compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tc import _native, registry
from tc.bundle import library, processor
from tc.bundle.archive import Archive, malformed
from tc.bundle.manifest import Instance, Kernel, Manifest, Target, read
from tc.dtypes import DType
from tc.errors import ArgumentError, BackendError, Error, did_you_mean
from tc.instances.failures import out_of_range, stopped
from tc.ir.evaluate import evaluate
from tc.ir.expr_json import from_json
from tc.ir.specialize import excluded
from tc.pipeline.devices import DeviceCall, DeviceLauncher, Devices
from tc.pipeline.target import Launcher
from tc.runtime import device_call, dispatch
from tc.runtime.device_arrays import on_device
from tc.runtime.signature import Bound
from tc.support import locks
from tc.support.float_mode import standard

_MOST = 1024  # calls of different sizes that are remembered
_WIDE = 0x7FFFFFFF  # sizes beyond need indices of 64 bits
_OTHER_TYPES = frozenset(["TC0411", "TC0503"])  # what another instance may accept
_ON_DEVICES = "cuda"  # the backend of arrays that are on a device
_SHOWN = 4  # kernels that a message lists


def load(path: str | os.PathLike[str], backend: str | None = None) -> Bundle:
    """The kernels of a bundle, to call with arrays; `backend` is one that it has code for, by default the
    processor, if it has any for that.

    Raises ArgumentError: TC0516 for a file that cannot be read, TC0531 for one that is no bundle, TC0532 for
    one that was altered, TC0533 for one of a later version; BackendError, code TC0830, where nothing in it is
    for this processor, or nothing for `backend`.
    """
    return Bundle(os.fspath(path), backend)


@dataclass(frozen=True)
class _Loaded:
    """A kernel for the sizes of a call, and what runs it: machine code of `entry`, or a launcher."""

    kernel: Kernel
    backend: str
    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    code: Any  # what keeps it alive


@dataclass(frozen=True)
class _Launched:
    """What the entries of `tc._native` keep, and who knows what the driver says of them."""

    made: _Loaded
    launcher: DeviceLauncher
    number: int


class Bundle(_native.Dispatcher):
    """The kernels of a bundle.  Call it with arrays in parameter order or by name, results optionally in
    `out=`, of sizes and types that it was exported for; others are an ArgumentError, code TC0530.

    Attributes: `name`, `path`, `source`, `backend`, `targets`, `sizes`, `preconditions`, `ranges`.
    """

    def __init__(self, path: str, backend: str | None) -> None:
        self._archive = Archive(path)
        self.path = path
        try:
            self._manifest: Manifest = read(self._archive.manifest)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise malformed(path, f"{type(e).__name__}: {e}") from None
        self.name = self._manifest.name
        self.source = self._manifest.source.text
        self.backend = self._chosen(backend)
        self._asked = backend
        self._elsewhere: Bundle | None = None
        self._ready: dict[Hashable, tuple[_Loaded, _native.Entry | Launcher]] = {}
        self._device_entries: dict[Hashable, _native.Entry] = {}
        self._lock = locks.lock()
        self._kinds = [dispatch.result_type(i.signature) for i in self._manifest.instances]  # kept alive
        self._keep(_MOST)
        for instance in self._manifest.instances:
            for kernel in instance.kernels:
                if self._targets(kernel)[0].kind == "library":
                    self._target(kernel)  # refuses another processor now, not when it is called
        how = "Call it with arrays in this order or by name, results optionally in out=."
        self.__doc__ = f"{self.source.strip()}\n\n{how}"

    def __repr__(self) -> str:
        signature = self._manifest.instances[0].signature
        params = ", ".join(p.name for p in signature.params)
        outs = ", ".join(o.name for o in signature.outputs)
        return f"<tc.Bundle {self.name}({params}) -> ({outs}) on {self.backend}: {', '.join(self.targets)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (self.path, self.backend)

    def _backends(self) -> list[str]:
        """The backends that all kernels have code for, the processor first."""
        kernels = [k for i in self._manifest.instances for k in i.kernels]
        names = dict.fromkeys(t.backend for k in kernels for t in k.targets)
        common = [n for n in names if all(any(t.backend == n for t in k.targets) for k in kernels)]
        return sorted(common, key=lambda n: (n != "cpu", n))

    def _chosen(self, backend: str | None) -> str:
        found = self._backends()
        if not found:
            raise malformed(self.path, "no kernels")
        if backend is not None and backend not in found:
            raise BackendError(
                f"the bundle of {self.name} has nothing for the backend '{backend}'",
                code="TC0830",
                help=did_you_mean(backend, found) or f"it has code for {', '.join(found)}",
            )
        return found[0] if backend is None else backend

    @property
    def _devices(self) -> Devices | None:
        """Those of the backend, if it has any."""
        return registry.runtime(self.backend).devices if self.backend == _ON_DEVICES else None

    # ---- what is in it

    @property
    def targets(self) -> tuple[str, ...]:
        """The instruction sets or architectures that it has code for."""
        kernels = (k for i in self._manifest.instances for k in i.kernels)
        return tuple(dict.fromkeys(t.name for k in kernels for t in self._targets(k)))

    @property
    def sizes(self) -> tuple[dict[str, int | None], ...]:
        """The sizes and specialised scalars of its kernels; None for a size of which a kernel serves every
        value."""
        kernels = (k for i in self._manifest.instances for k in i.kernels)
        each = ({**k.sizes, **k.scalars, **dict.fromkeys(k.dynamic, None)} for k in kernels)
        return tuple({str(v): v for v in each}.values())

    @property
    def preconditions(self) -> tuple[str, ...]:
        """What the sizes of a call must satisfy, as text."""
        found = (r for i in self._manifest.instances for _, rs in i.requirements for r in rs)
        return tuple(dict.fromkeys(f"{r.shown}, else {r.reason}" for r in found))

    @property
    def ranges(self) -> Mapping[str, tuple[str, ...]]:
        """The range of every dimension of every parameter and result, symbolic, as text."""
        return self._manifest.instances[0].ranges

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest as it stands in the file."""
        return self._archive.manifest

    # ---- calling, the slow way (the fast one is Dispatcher's)

    @standard
    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._asked is None and self.backend != _ON_DEVICES and _somewhere(args, kwargs, on_device):
            elsewhere = self._on_devices()
            if elsewhere is not None:
                value = elsewhere(*args, **kwargs)
                for entry in elsewhere._entries()[:1]:  # it then serves this bundle, too
                    self._add(entry)
                return value
        number, bound = self._bound(args, kwargs)
        instance = self._manifest.instances[number]
        kernel = self._kernel(instance, bound)
        made, runs = self._prepared(number, kernel, bound)
        reads = kernel.images if bound.aliases else ()
        if bound.device is not None:
            return self._launch(instance, bound, made, runs, reads)
        if isinstance(runs, _native.Entry):
            value, error = dispatch.call_entry(bound, made.shapes, runs, reads)
            # An entry that starts from the neutral element must not serve calls that pass a buffer.
            if instance.accumulated <= kernel.given:
                self._add(runs)
        else:
            value, error = dispatch.call(bound, made.shapes, runs.run, reads)
        if error is not None:
            self._failed(made, error)
        return value

    def _on_devices(self) -> Bundle | None:
        """The same bundle for the backend of devices; None if it has nothing for that."""
        if self._elsewhere is None and _ON_DEVICES in self._backends():
            self._elsewhere = Bundle(self.path, _ON_DEVICES)
        return self._elsewhere

    def _launch(
        self, instance: Instance, bound: Bound, made: _Loaded, launcher: Any, reads: Collection[str]
    ) -> Any:
        """The slow call, on a device."""
        wait = self._manifest.checks == "sync"

        def failed(record: _native.ErrorRecord) -> Exception:
            return self._error(made, record)

        value, prepared = device_call.call(bound, made.shapes, launcher, reads, failed, self.name, wait)
        if not wait and instance.accumulated <= bound.out.keys() and device_call.is_plain(bound, prepared):
            entry = self._device_entry(bound, made, launcher, prepared.call)
            if entry is not None:
                self._add(entry)
        return value

    def _device_entry(
        self, bound: Bound, made: _Loaded, launcher: DeviceLauncher, call: DeviceCall
    ) -> _native.Entry | None:
        """What `tc._native` launches for calls like this one; None where it cannot."""
        key = (id(made), call.device.number, call.stream)
        found = self._device_entries.get(key)
        if found is not None:
            return found
        launches = launcher.launches(call)
        if launches is None:
            return None
        types = {n: a.dtype for n, a in bound.arrays.items()}
        k = made.kernel
        spec = dispatch.call_spec(bound.signature, types, made.shapes, k.scalars, k.inout)
        owner = _Launched(made, launcher, call.device.number)
        entry = spec.entry(launches.device[3], launches.workspace, False, owner, (), launches.device)
        if len(self._device_entries) >= _MOST:
            self._device_entries.clear()
        self._device_entries[key] = entry
        return entry

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, Bound]:
        """The instance whose types and ranks a call has, and its arguments."""
        first: Error | None = None
        for k, instance in enumerate(self._manifest.instances):
            try:
                return k, instance.signature.bind(args, kwargs, self._devices)
            except Error as e:
                if e.code not in _OTHER_TYPES:
                    raise
                first = first or e
        assert first is not None
        if len(self._manifest.instances) == 1:
            raise first
        shown = " or ".join(map(_types_of, self._manifest.instances))
        raise ArgumentError(
            f"the bundle of {self.name} has no kernel for these element types or ranks: {first.message}",
            first.span,
            code="TC0530",
            help=f"it takes {shown}; export it for others too",
        )

    def _kernel(self, instance: Instance, bound: Bound) -> Kernel:
        """The kernel of a call.  Raises PreconditionError as the kernel that was exported, ArgumentError,
        code TC0530, where there is none."""
        specialized = [p.name for p in instance.signature.params if p.specialized]
        sizes, scalars = bound.sizes, bound.integers(specialized)
        integers = _foreign_integers(instance, bound)
        given = frozenset(instance.accumulated & bound.out.keys())
        wide = any(n > _WIDE for n in sizes.values())
        found = next(
            (
                k
                for k in instance.kernels
                if k.scalars == scalars
                and all(sizes[n] == v for n, v in k.sizes.items())
                and (k.integers, k.given, k.wide) == (integers, given, wide)
            ),
            None,
        )
        if found is None or found.dynamic:
            _require(instance, sizes, scalars)
        if found is None:
            raise self._absent(instance, bound, scalars, integers, given)
        return found

    def _absent(
        self,
        instance: Instance,
        bound: Bound,
        scalars: Mapping[str, int],
        integers: Mapping[str, DType],
        given: frozenset[str],
    ) -> ArgumentError:
        asked = {**bound.sizes, **scalars}
        fits = [k for k in instance.kernels if _selects(k, asked)]
        if not fits:
            what = ", ".join(f"{n} = {v}" for n, v in asked.items())
            known = dict.fromkeys(_described(k) for k in instance.kernels)
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            listed = "; ".join(list(known)[:_SHOWN])
            return ArgumentError(
                f"the bundle of {self.name} has no kernel for {what}",
                code="TC0530",
                help=f"it has {listed}{more}; export it for these sizes too, or with the sizes dynamic",
            )
        if all(k.integers != integers for k in fits):
            declared = {p.name: p.dtype for p in instance.signature.params}
            name, dtype = next(
                ((n, t) for n, t in integers.items() if all(k.integers.get(n) != t for k in fits)),
                next(iter(declared.items())),
            )
            return ArgumentError(
                f"the bundle of {self.name} has no kernel for {name} of {dtype}",
                next(p.span for p in instance.signature.params if p.name == name),
                code="TC0530",
                help=f"pass {name} as {declared[name]}, or export it with types={{{name!r}: '{dtype}'}} too",
            )
        passed = f"out= for {', '.join(sorted(given))}" if given else "this call without out="
        return ArgumentError(
            f"the bundle of {self.name} has no kernel for {passed}",
            code="TC0530",
            help="pass buffers for all results, or for none",
        )

    def _prepared(
        self, number: int, kernel: Kernel, bound: Bound
    ) -> tuple[_Loaded, _native.Entry | Launcher]:
        device = None if bound.device is None else bound.device.number
        key = (number, id(kernel), tuple(bound.sizes.values()), device)
        with self._lock:
            found = self._ready.get(key)
        if found is None:
            try:
                found = self._prepare(self._manifest.instances[number], kernel, dict(bound.sizes), device)
            except (ValueError, TypeError, KeyError, OverflowError) as e:
                if isinstance(e, Error):
                    raise
                raise malformed(self.path, f"{type(e).__name__}: {e}") from None
            with self._lock:
                if len(self._ready) >= _MOST:
                    self._ready.clear()
                found = self._ready.setdefault(key, found)
        return found

    def _prepare(
        self, instance: Instance, kernel: Kernel, sizes: Mapping[str, int], device: int | None
    ) -> tuple[_Loaded, _native.Entry | Launcher]:
        shapes = {n: tuple(max(0, evaluate(e, sizes)) for e in s) for n, s in kernel.shapes.items()}
        target = self._target(kernel, device)
        code = self._archive.payload(target.payload)
        if target.kind == "module":
            launcher = registry.runtime(self.backend).restored(self.name, target.facts, code)
            return _Loaded(kernel, self.backend, sizes, shapes, launcher), launcher
        known = self._manifest.libraries[target.payload]
        digest = str(self._archive.manifest["payloads"][target.payload]["sha256"])
        made = library.loaded(code, digest, known.imports)
        one = _Loaded(kernel, self.backend, sizes, shapes, made)
        spec = dispatch.call_spec(instance.signature, kernel.integers, shapes, kernel.scalars, kernel.inout)
        entry = spec.entry(
            library.address(made, target.symbol),
            evaluate(from_json(target.facts["workspace"]), sizes),
            bool(target.facts["release_gil"]),
            one,
            tuple(sizes[n] for n in kernel.dynamic),
        )
        return one, entry

    def _targets(self, kernel: Kernel) -> tuple[Target, ...]:
        return tuple(t for t in kernel.targets if t.backend == self.backend)

    def _target(self, kernel: Kernel, device: int | None = None) -> Target:
        """The code for this machine, or for the device of a number; BackendError, code TC0830, if there is
        none."""
        found = self._targets(kernel)
        if found[0].kind == "library":
            machine = self._manifest.libraries[found[0].payload].machine
            return processor.choose(found, machine, self.name)
        names = [t.name for t in found]
        return found[registry.runtime(self.backend).choose(names, self.name, device)]

    def _failed(self, owner: _Loaded | _Launched, error: _native.ErrorRecord) -> Any:
        """Raise the error that a kernel recorded, or what refused to launch it."""
        if isinstance(owner, _Launched):
            owner.launcher.refused(owner.number, self.name, error[1])
            owner = owner.made
        raise self._error(owner, error)

    def _error(self, owner: _Loaded, error: _native.ErrorRecord) -> Error:
        """The error that a kernel recorded."""
        number, value, _, dim = error
        if number < 0:
            return stopped(self.name, owner.backend, value)
        found = owner.kernel.checked[number]
        along = None if found.box is None else found.box[dim]
        return out_of_range(found.site, along, owner.sizes, error)


def _somewhere(args: Sequence[Any], kwargs: Mapping[str, Any], holds: Callable[[object], bool]) -> bool:
    """Whether a property holds of an argument or a buffer of a call."""
    out = kwargs.get("out")
    if isinstance(out, Mapping):
        out = tuple(cast("Mapping[str, Any]", out).values())
    buffers = cast("tuple[Any, ...]", out) if isinstance(out, tuple) else (out,)
    return any(map(holds, (*args, *kwargs.values(), *buffers)))


def _selects(kernel: Kernel, values: Mapping[str, int]) -> bool:
    return all(values[n] == v for n, v in {**kernel.sizes, **kernel.scalars}.items())


def _described(kernel: Kernel) -> str:
    parts = [f"{n} = {v}" for n, v in {**kernel.sizes, **kernel.scalars}.items()]
    return ", ".join([*parts, *(f"any {n}" for n in kernel.dynamic)])


def _types_of(instance: Instance) -> str:
    params = (f"{p.dtype}[{', '.join(map(str, p.dims))}] {p.name}" for p in instance.signature.params)
    return f"({', '.join(params)})"


def _foreign_integers(instance: Instance, bound: Bound) -> dict[str, DType]:
    """The subscript-only parameters that came in another integer type than declared."""
    declared = {p.name: p.dtype for p in instance.signature.params if p.any_integer}
    found = {n: bound.arrays[n].dtype for n in declared}
    return {n: t for n, t in found.items() if t != declared[n]}


def _require(instance: Instance, sizes: Mapping[str, int], scalars: Mapping[str, int]) -> None:
    """Raises PreconditionError, code TC0601, for sizes that the program rules out, as far as that is known
    for these scalars."""
    values = {**sizes, **scalars}
    for known, requirements in instance.requirements:
        if any(values[n] != v for n, v in known.items()):
            continue
        for r in requirements:
            if not evaluate(r.condition, values):
                raise excluded(r.reason, r.shown, r.span, sizes, r.remedy)
        return

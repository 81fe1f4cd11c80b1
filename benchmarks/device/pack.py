"""Compiles programs to a pack: what is known of their results, and what is timed.

Conformance: the programs of the seeds and of the original's tests, in all their types, and random programs,
each with its arguments and with what the oracle (of random programs the generator's evaluator) says.  Timing:
the workloads of the tables, and of those that are one kernel other maps as well.
"""

from __future__ import annotations

import importlib
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tc
from benchmarks.compile_time import sized
from benchmarks.device import micro
from benchmarks.device.blob import Array, Blob, Data, Launch, Tensor
from benchmarks.workloads import Case
from tc.ir.evaluate import evaluate
from tc.options import Options
from tc.runtime.arrays import numpy_dtype

Packed = tuple[Blob, bytes, str, Data | None]
_BITS = {"bfloat16": np.uint16}


def blob(
    key: str,
    made: Any,
    sizes: Mapping[str, int],
    given: Mapping[str, Any],
    target: Any,
    **more: Any,
) -> Blob:
    """The blob of a compiled program of the cuda backend; `given` are its scalars."""
    model = importlib.import_module("tc_backends.gpu.cost.model")
    nest, module, resources = made.nest, made.module, made.resources
    body = nest.body
    launches: list[Launch] = []
    for kernel, launch in zip(module.kernels, getattr(body, "body", (body,)), strict=True):
        blocks = evaluate(kernel.blocks, sizes)
        if blocks <= 0:
            continue
        r = resources[kernel.name]
        p = model.predict(nest, launch, target, sizes, registers=r.registers)
        launches.append(
            Launch(
                kernel.name, blocks, kernel.threads, kernel.dynamic_shared,
                tuple((a.kind, a.name) for a in kernel.arguments), p.seconds, p.bottleneck, r.registers,
                kernel.shared - kernel.dynamic_shared, r.stack,
            )
        )  # fmt: skip
    params = {x.name: x for x in nest.arrays if x.role in ("input", "output")}
    arrays = [
        _array(nest, params[n], sizes, made.interface.inout) for n in made.interface.params if n in params
    ]
    scalars: dict[str, tuple[str, str]] = {}
    for s in nest.scalars:
        value = np.array([given[s.name]]).astype(numpy_dtype(s.dtype))
        scalars[s.name] = (s.dtype.name, value.tobytes().hex())
    return Blob(
        key=key, launches=tuple(launches), arrays=tuple(arrays), scalars=scalars,
        sizes={n: int(v) for n, v in sizes.items()}, workspace=int(evaluate(nest.workspace, sizes)), **more,
    )  # fmt: skip


def _array(nest: Any, a: Any, sizes: Mapping[str, int], inout: frozenset[str]) -> Array:
    role = "inout" if a.name in inout else a.role
    return Array(a.name, tuple(max(0, evaluate(n, sizes)) for n in a.shape), a.dtype.name, role)


def compiled(kernel: Any, given: Mapping[str, Any], buffers: Mapping[str, Any]) -> tuple[Any, dict[str, int]]:
    """A kernel compiled for arguments and in/out buffers, and the sizes."""
    front = kernel.front
    found = kernel.sizes_of(**given, out=dict(buffers) or None)
    scalars = {n: found[n] for n in front.specialized}
    sizes = {n: v for n, v in found.items() if n not in scalars}
    accumulated = {x.name for x in front.checked.returns if x.mode == "accumulate"} & buffers.keys()
    variant = kernel._variant(scalars, frozenset(accumulated), {}, sizes)
    return kernel._compile(variant, sizes, scalars).whole, sizes


def stored(array: Tensor) -> Tensor:
    """An argument as packs have it."""
    bits = _BITS.get(array.dtype.name)
    return array.view(bits) if bits else array


def _allowed(error: Any, shape: tuple[int, ...]) -> Tensor:
    return np.broadcast_to(np.asarray(error, np.float64), shape)


def wanted(array: Tensor) -> Tensor:
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def packed(
    key: str,
    kernel: Any,
    given: Mapping[str, Any],
    buffers: Mapping[str, Any],
    results: Sequence[tuple[Tensor, Tensor]] | None,
    target: Any,
    **more: Any,
) -> Packed:
    """A program with its arguments and `results`: what is wanted and how far it may be off; None where a
    check must fail."""
    made, sizes = compiled(kernel, given, buffers)
    one = blob(key, made, sizes, given, target, fails=results is None, **more)
    shapes = {a.name: a.shape for a in one.arrays}
    inputs = {
        n: stored(np.ascontiguousarray(np.asarray(v)).reshape(shapes[n]))
        for n, v in {**given, **buffers}.items()
        if n in shapes
    }
    names = [x.name for x in kernel.front.checked.returns]
    pairs = dict(zip(names, results or (), strict=results is not None))
    data = Data(
        inputs,
        {n: wanted(w).reshape(shapes[n]) for n, (w, _) in pairs.items()},
        {n: _allowed(e, w.shape).reshape(shapes[n]) for n, (w, e) in pairs.items()},
    )
    return one, made.functions.cubin, made.module.text, data


def conformance(target: Any, arch: str, only: Callable[[str], bool]) -> Iterator[Packed]:
    """The programs of the seeds and of the original's tests."""
    from tests.conformance.test_programs import CASES, RUNS, arguments, results

    for name, dtype in RUNS:
        case = CASES[name]
        for exact in (True, False) if not dtype.startswith("int") else (True,):
            key = slug(f"{name}-{dtype}-{'exact' if exact else 'any'}")
            if not only(key):
                continue
            judge, given, buffers = arguments(case, dtype, exact)
            out = {k: v.copy() for k, v in buffers.items()} or None
            with np.errstate(all="ignore"):
                found = results(tc.interpret(judge.source, **given, entry=case.entry, out=out, exact=True))
            pairs: list[tuple[Tensor, Tensor]] = []
            front = judge.front
            kinds = (numpy_dtype(front.typed.dtype(x.tensor)) for x in front.checked.returns)
            for want, kind in zip(found, kinds, strict=True):
                if want.dtype.kind in "iub" or (exact and case.exact):
                    allowed = np.zeros(want.shape)
                else:
                    largest = np.maximum(1, np.abs(want.astype(np.float64)))
                    allowed = case.ulps * float(ml_dtypes.finfo(kind).eps) * largest
                pairs.append((want, allowed))
            kernel = tc.compile(judge.source, "cuda", case.entry, options={"isa": arch})
            yield packed(
                key, kernel, given, buffers, pairs, target, phase="conformance", group="cases", program=name
            )


def random_programs(count: int, seed: int, target: Any, arch: str) -> Iterator[Packed]:
    """Random programs that some backend could run, in all types."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from fuzz.differential import EPS, contest
    from fuzz.strategies import programs

    made: list[Packed] = []
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    common = settings(
        deadline=None, database=None, suppress_health_check=slow, phases=[Phase.generate],
        max_examples=3 * count,
    )  # fmt: skip

    @seeded(seed)
    @given(p=programs())
    @common
    def once(p: Any) -> None:
        if len(made) >= count:
            return
        with np.errstate(all="ignore"):
            c = contest(p, ())
            if isinstance(c, str) or (isinstance(c.want, str) and c.want != "TC0701"):
                return
            kernel = tc.compile(p.source, "cuda", options={"isa": arch})
            results = None
            if not isinstance(c.want, str):
                results = [
                    (w.of, np.full(w.of.shape, 64 * EPS[p.type] * p.bound) if w.error is None else w.error)
                    for w in c.want
                ]
            key = f"random-{seed}-{len(made):04}"
            try:
                one = packed(
                    key, kernel, c.given, c.out, results, target, phase="conformance", group="random",
                    program=p.source,
                )  # fmt: skip
            except tc.InternalError:
                raise
            except tc.Error:
                return
            made.append(one)

    once()
    yield from made


def workloads(
    cases: Sequence[Case], maps: int, target: Any, arch: str, tiny: bool = False, group: str = ""
) -> Iterator[Packed]:
    """Workloads at the sizes that are measured (or tiny ones), the first `maps` maps of each; `group` is
    another name of their group."""
    passes = importlib.import_module("tc_backends.cuda.passes")
    start = importlib.import_module("tc_backends.gpu.passes").start
    interface = importlib.import_module("tc_backends.gpu.run").Interface
    for case in cases:
        source, entry, sizes = sized(case, tiny=tiny)
        kernel = tc.compile(source, "cuda", entry, options={"isa": arch})
        known = {*kernel.front.checked.sizes, *kernel.front.specialized}
        values = {k: v for k, v in sizes.items() if k in known}
        program = kernel.program(values)
        options = Options(isa=arch)
        first = passes.CudaState(**start(program, options, {}, target), arch=arch)
        state = passes.passes(options).run(first)
        found = [("", state)]
        if maps > 1:
            taken = state.kernels.choices[0].taken
            others = (x for x in passes.alternatives(state) if x[0] is not taken)
            found += [(c.name, s) for _, (c, s) in zip(range(maps - 1), others)]
        key = case.key
        if tiny:
            key = f"{case.key.partition('@')[0]}@{','.join(map(str, case.tiny))}"
        for k, (map_name, s) in enumerate(found):
            made = _CompiledCase(s, interface.of(program, s.nest.workspace))
            one = blob(
                slug(f"{key}-map{k}"), made, {}, {}, target, phase="timing", group=group or case.group,
                program=case.name, workload=key, map=k, map_name=map_name,
            )  # fmt: skip
            yield one, s.machine.cubin, s.module.text, None


def microkernels(arch: str) -> Packed:
    """Those of `benchmarks.device.micro`."""
    made = importlib.import_module("tc_backends.cuda.nvrtc").compile_text(micro.TEXT, arch, True)
    argument = (("array", "o"),)
    launches = tuple(Launch(n, 1, 32, 0, argument) for n in made.resources)
    one = Blob("micro", "micro", "micro", "microkernels", launches, (Array("o", (64,), "float32", "inout"),))
    return one, made.cubin, micro.TEXT, None


class _CompiledCase:
    """A state of the cuda backend as its compiled programs are."""

    def __init__(self, state: Any, interface: Any) -> None:
        self.nest, self.module, self.interface = state.nest, state.module, interface
        self.resources = state.machine.resources


def slug(text: str) -> str:
    """A name of a file; different texts have different ones."""
    short = re.sub(r"[^A-Za-z0-9]+", "-", text)[:80].strip("-")
    return f"{short}-{zlib.crc32(text.encode()):08x}"


def quiet() -> None:
    warnings.simplefilter("ignore", tc.Warning)

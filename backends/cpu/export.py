"""Kernels as object files for instruction sets, also for others than this processor's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.codegen import llvm_jit
from tc.errors import BackendError, did_you_mean
from tc.ir.expr_json import to_json
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.target import Exported
from tc.support import settings

from .emit.kernel import KERNEL
from .isa import ISAS, Isa
from .passes import compiled
from .target import Machine, host, with_overrides, without_preset

HOST = "host"

# The features of LLVM's processors that kernels may use, as /proc/cpuinfo spells them (System V ABI for
# x86-64, "micro-architecture levels").
_V3 = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_LEVELS = {
    "x86-64-v2": ("sse4_2", "popcnt"),
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "generic": ("asimd",),
}
_FEATURES = {"+avx512vnni": "avx512_vnni", "+avxvnni": "avx_vnni"}
# These only tune the code, are part of the level, or are ignored by processors without them.
_NO_NEED = frozenset(["+prefer-no-gather", "+neon", "+prfchw"])


def export(
    program: Program, options: Options, typical: Mapping[str, int], targets: Sequence[str], symbol: str
) -> tuple[Exported, ...]:
    """See `tc.pipeline.target.Exporting`; targets are names of instruction sets, and "host"."""
    machines = {_name(m.isa): m for m in (machine_for(n, options) for n in targets or (options.isa or HOST,))}
    # A processor takes the first that it has: the widest.
    order = sorted(machines.items(), key=lambda kv: (-kv[1].isa.vector_bytes, -len(kv[0])))
    return tuple(_exported(program, options, typical, name, m, symbol) for name, m in order)


def machine_for(name: str, options: Options) -> Machine:
    """This machine with the instruction set of that name, whether or not its processor has it.  Raises
    BackendError, code TC0811, for unknown names and for instruction sets of other architectures."""
    here = host()
    without_preset(options)
    if name == HOST:
        return with_overrides(here, options.facts)
    same = {n: i for n, i in ISAS.items() if i.triple == here.isa.triple}
    if name not in same:
        known = [*same, HOST]
        raise BackendError(
            f"there is no code for {name!r} in a bundle that is made on this machine",
            code="TC0811",
            help=did_you_mean(name, known) or f"there are {', '.join(known)}",
        )
    isa = same[name]
    if isa.vector_bytes == here.isa.vector_bytes:
        return with_overrides(replace(here, isa=isa), options.facts)
    return with_overrides(replace(here, isa=isa, fma_units=2, loads=2), options.facts)


def requires(isa: Isa) -> tuple[str, ...]:
    """The features that a processor needs to run code of an instruction set, as Linux lists them."""
    own = (f for f in isa.features.split(",") if f and f not in _NO_NEED)
    return (*_LEVELS[isa.cpu], *(_FEATURES[f] for f in own))


def _name(isa: Isa) -> str:
    """The name of an instruction set, with the features that it has in addition."""
    return "+".join((isa.name, *requires(isa)[len(_LEVELS[isa.cpu]) :]))


def _exported(
    program: Program,
    options: Options,
    typical: Mapping[str, int],
    name: str,
    machine: Machine,
    symbol: str,
) -> Exported:
    made = compiled(program, machine, options, typical)
    isa = made.machine.isa
    symbol = f"{symbol}_{re.sub(r'[^a-z0-9]', '_', name)}"
    text = re.sub(rf"@{KERNEL}\b", f"@{symbol}", made.text)
    code = llvm_jit.object_of(text, cpu=isa.cpu, features=isa.features, verify=settings.verify(), shared=True)
    facts = {
        "workspace": to_json(made.nest.workspace),
        "release_gil": made.lowered.worth_releasing(program),
    }
    return Exported("object", name, facts, code, symbol, requires(isa))

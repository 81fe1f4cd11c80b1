# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The target that is this machine."""

from __future__ import annotations

from typing import Any

from tc.codegen import llvm_jit

# What LLVM calls the instructions that code for a feature of Halide's may use (Halide 21, CodeGen_X86).
_SKYLAKE = frozenset({"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq"})
_CANNONLAKE = _SKYLAKE | {"avx512ifma", "avx512vbmi"}
_ZEN4 = _CANNONLAKE | {"avx512bf16", "avx512vnni", "avx512bitalg", "avx512vbmi2", "avx512vpopcntdq"}
NEEDED: dict[str, frozenset[str]] = {
    "SSE41": frozenset({"sse4.1"}),
    "AVX": frozenset({"avx"}),
    "AVX2": frozenset({"avx2"}),
    "F16C": frozenset({"f16c"}),
    "FMA": frozenset({"fma"}),
    "FMA4": frozenset({"fma4"}),
    "AVXVNNI": frozenset({"avxvnni"}),
    "AVX512": frozenset({"avx512f", "avx512cd"}),
    "AVX512_KNL": frozenset({"avx512f", "avx512cd", "avx512pf", "avx512er"}),
    "AVX512_Skylake": _SKYLAKE,
    "AVX512_Cannonlake": _CANNONLAKE,
    "AVX512_Zen4": _ZEN4,
    "AVX512_Zen5": _ZEN4 | {"avxvnni", "avx512vp2intersect"},
    "AVX512_SapphireRapids": _ZEN4 | {"avxvnni", "amx-int8", "amx-bf16"},
    "AVX10_1": frozenset({"avx10.1"}),
}


def target() -> Any:
    """This machine as Halide sees it, without what it cannot run.

    Halide goes by the model of the processor, so it takes AVX-512 for granted where a virtual machine or the
    operating system has it off; LLVM asks for that, too.
    """
    from tc.halide.binding import hl

    found = hl.get_host_target()
    _, features = llvm_jit.host_cpu()
    return without(found, {f[1:] for f in features.split(",") if f.startswith("+")})


def without(target: Any, have: set[str]) -> Any:
    """A target without the x86 features for which a machine would have to have more of LLVM's."""
    from tc.halide.binding import hl

    for name, needed in NEEDED.items():
        feature = getattr(hl.TargetFeature, name, None)
        if feature is not None and target.has_feature(feature) and not needed <= have:
            target = target.without_feature(feature)
    return target

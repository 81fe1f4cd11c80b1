"""This machine as Halide's code generator is told of it."""

from __future__ import annotations

import importlib

import pytest

from tc import registry
from tc.codegen import llvm_jit
from tc.halide.binding import hl

registry.load("halide")
host = importlib.import_module("tc_backends.halide.host")

ZEN4 = "x86-64-linux-tune_znver4-avx-avx2-avx512-avx512_cannonlake-avx512_skylake-avx512_zen4-f16c-fma-sse41"
AVX2 = {"sse4.1", "avx", "avx2", "f16c", "fma"}


@pytest.mark.parametrize(
    ("have", "features"),
    [
        (AVX2, "avx-avx2-f16c-fma-sse41"),
        (AVX2 | {"avx512f", "avx512cd"}, "avx-avx2-avx512-f16c-fma-sse41"),
        (AVX2 - {"avx2", "fma"}, "avx-f16c-sse41"),
        (set[str](), ""),
    ],
)
def test_what_is_switched_off_is_not_used(have: set[str], features: str) -> None:
    """A virtual machine on a Zen 4 without AVX-512: Halide took it for granted, and the process ended."""
    found = host.without(hl.Target(ZEN4), have)
    assert found.to_string() == f"x86-64-linux-tune_znver4-{features}".rstrip("-")


def test_what_there_is_stays() -> None:
    target = hl.Target(ZEN4)
    have = AVX2 | host.NEEDED["AVX512_Zen4"]
    assert host.without(target, have).to_string() == target.to_string()
    arm = hl.Target("arm-64-linux-arm_dot_prod")
    assert host.without(arm, set()).to_string() == arm.to_string()


def test_this_machine_has_what_it_is_said_to_have() -> None:
    _, flags = llvm_jit.host_cpu()
    found = host.target()
    for name, needed in host.NEEDED.items():
        if found.has_feature(getattr(hl.TargetFeature, name)):
            assert all(f"+{flag}" in flags.split(",") for flag in needed)
    assert found.bits == hl.get_host_target().bits and found.arch == hl.get_host_target().arch

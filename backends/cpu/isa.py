"""Instruction sets as parameters of the emitter."""

from __future__ import annotations

from dataclasses import dataclass

# Vector registers: accumulators take so many of them that no other value stays in one for long.
FEW_REGISTERS = 16


@dataclass(frozen=True, slots=True)
class Isa:
    """The instructions and registers that the code generator may use.

    `vector_bytes` is the width of a vector register, `registers` their number.  `cpu` and `features` are
    LLVM's names; empty features are those of the cpu.  `masks`: masked loads and stores are instructions.
    `dots`: sums of products of four bytes are instructions (VNNI).
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    fma: bool
    masks: bool
    half_conversions: bool  # F16C
    dots: bool = False

    @property
    def x86(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def pair_dots(self) -> bool:
        """Whether sums of two products of 16-bit integers are instructions; they are where `dots` are."""
        return self.x86

    @property
    def blends_in_memory(self) -> bool:
        """Whether LLVM makes `vmaskmov` of a store of a choice between a value and what the place holds."""
        return self.x86 and self.vector_bytes == 32

    def lanes(self, itemsize: int) -> int:
        """Elements of `itemsize` bytes in a vector register."""
        return self.vector_bytes // itemsize


# Processors that have no prefetch for writing (PREFETCHW) ignore it.
AVX512 = Isa("avx512", "x86_64-unknown-linux-gnu", "x86-64-v4", "+prfchw", 64, 32, True, True, True)
AVX2 = Isa("avx2", "x86_64-unknown-linux-gnu", "x86-64-v3", "+prfchw", 32, 16, True, True, True)
SSE42 = Isa("sse4.2", "x86_64-unknown-linux-gnu", "x86-64-v2", "", 16, 16, False, False, False)
NEON = Isa("neon", "aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, True, False, False)

ISAS: dict[str, Isa] = {i.name: i for i in (AVX512, AVX2, SSE42, NEON)}

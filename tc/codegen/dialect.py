"""The members of the C family: C99, OpenCL C and CUDA C++.

Text is thought of as C99; a dialect says which of its words are other ones.  Helper functions are written
once, in C99, and translated word by word (they hold nothing of a user's), so that no dialect needs headers,
which NVRTC and OpenCL do not have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tc.dtypes import BOOL, FLOAT32, DType
from tc.lang.builtins import Builtin

_C_TYPES = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}


@lru_cache(16)
def _either(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")


@dataclass(frozen=True)
class Dialect:
    """`wraps`: whether signed integers do (by -fwrapv).  `words`: C99's words (types, limits, pairs such as
    `static inline`, our own helpers that are built in) and what they are here.  `long_suffix`: of 64-bit
    literals.  `bodies`: what helpers that the language has better means for do instead.

    Of a GPU: `kernel`, in front of a kernel of so many threads; `space` and `shared`, in front of what is in
    global and in shared memory, `near` in front of what a pointer to the latter points to, `aligned` in front
    of what begins at multiples of BYTES; `room`, shared memory that a launch asks for where more than
    `declared` bytes are needed, and `part`, the declaration of an array at an OFFSET there; `restrict`;
    `block` and `thread`, the numbers of those; `barrier`, and `warp_barrier`, of 32 neighbours, where there
    is one; `vectors`, types of so many bytes and their zeros; `copy`, an asynchronous one of BYTES `from`
    memory `to` shared memory, through a CACHE, or of zeros unless `inside`, and `arrival` of all that a
    thread began; `claim`, whether the kernel's `error` record was free and now is ours (its low word holds
    `site + 1`); `exchange`, of an unsigned integer in memory if it is what is expected: gives what it was.
    `doubled`: functions that are off by more than the language allows in float32: computed in float64.
    `replaced`: functions of float32, and the helpers that are called instead.  `framed`: functions of the
    library that keep an array in memory whatever calls them, and its bytes.
    """

    name: str
    headers: tuple[str, ...] = ()
    wraps: bool = False
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    long_suffix: str = "ll"
    bodies: Mapping[str, str] = field(default_factory=dict[str, str])
    kernel: str = ""
    space: str = ""
    shared: str = ""
    near: str = ""
    aligned: str = ""
    room: str = ""
    part: str = ""
    declared: int = 0
    restrict: str = "restrict"
    block: str = ""
    thread: str = ""
    barrier: str = ""
    warp_barrier: str = ""
    vectors: Mapping[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    copy: str = ""
    arrival: str = ""
    claim: str = ""
    exchange: str = ""
    doubled: frozenset[str] = frozenset()
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    framed: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def _pattern(self) -> re.Pattern[str]:
        return _either(tuple(self.words))

    def text(self, c99: str) -> str:
        """A text in C99 that holds no name of a user, in this dialect."""
        return self._pattern.sub(lambda m: self.words[m[0]], c99) if self.words else c99

    def type(self, t: DType) -> str:
        """The type of a value; the 16-bit floating types are their bits."""
        c99 = _C_TYPES.get(t.name, f"{t.name}_t")
        return self.words.get(c99, c99)

    def storage(self, t: DType) -> str:
        """The type of an element in memory."""
        return self.words.get("uint8_t", "uint8_t") if t == BOOL else self.type(t)

    def function(self, builtin: Builtin, t: DType) -> tuple[str, bool]:
        """The name of a math function of float32 or float64, and whether it is one of tc/native/math.h."""
        if self.name == "OpenCL" and builtin.opencl is not None:
            return builtin.opencl, False  # overloaded
        if self.name == "CUDA" and builtin.name != "sigmoid":
            return builtin.name + ("f" if t == FLOAT32 else ""), False
        own = builtin.own or self.name == "OpenCL"
        name = builtin.c if builtin.own or not own else f"tc_{builtin.c}"
        return name + ("f" if t == FLOAT32 else ""), own


def _limits(names: Mapping[int, tuple[str, str]]) -> dict[str, str]:
    """What the limits of integers of so many bits are called: `CHAR` and `UCHAR` in `CHAR_MIN`."""
    out: dict[str, str] = {}
    for bits, (signed, unsigned) in names.items():
        out |= {f"INT{bits}_{end}": f"{signed}_{end}" for end in ("MIN", "MAX")}
        out[f"UINT{bits}_MAX"] = f"{unsigned}_MAX"
    return out


C99 = Dialect("C", ("math.h", "stdbool.h", "stdint.h"), wraps=True)

OPENCL = Dialect(
    "OpenCL",
    words={
        "int8_t": "char", "int16_t": "short", "int32_t": "int", "int64_t": "long",
        "uint8_t": "uchar", "uint16_t": "ushort", "uint32_t": "uint", "uint64_t": "ulong",
        **_limits({8: ("CHAR", "UCHAR"), 16: ("SHRT", "USHRT"), 32: ("INT", "UINT"), 64: ("LONG", "ULONG")}),
        "static inline": "static", "static const": "const",
        "tc_bits_of_f32": "as_uint", "tc_f32_of_bits": "as_float",
        "tc_bits_of_f64": "as_ulong", "tc_f64_of_bits": "as_double",
    },
    long_suffix="l",
    bodies={
        "tc_f16_to_f32": "float tc_f16_to_f32(uint16_t h) { return vload_half(0, (const half *)&h); }",
        "tc_f32_to_f16": (
            "uint16_t tc_f32_to_f16(float x) { uint16_t h; vstore_half_rte(x, 0, (half *)&h); return h; }"
        ),
    },
    kernel="__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))\nvoid",
    space="__global ",
    shared="__local ",
    near="__local ",
    aligned="__attribute__((aligned(BYTES))) ",
    block="get_group_id(0)",
    thread="get_local_id(0)",
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    vectors={4: ("uint", "0"), 8: ("uint2", "(uint2)(0)"), 16: ("uint4", "(uint4)(0)")},
    claim="atomic_cmpxchg((volatile __global int *)error, 0, site + 1) == 0",
    exchange="atomic_cmpxchg",
)  # fmt: skip

CUDA = Dialect(
    "CUDA",
    words={
        "int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long long",
        "uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned",
        "uint64_t": "unsigned long long",
        "INT8_MIN": "-128", "INT8_MAX": "127", "UINT8_MAX": "255",
        "INT16_MIN": "-32768", "INT16_MAX": "32767", "UINT16_MAX": "65535",
        "INT32_MIN": "(-0x7fffffff - 1)", "INT32_MAX": "0x7fffffff", "UINT32_MAX": "0xffffffffu",
        "INT64_MIN": "(-0x7fffffffffffffffll - 1)", "INT64_MAX": "0x7fffffffffffffffll",
        "UINT64_MAX": "0xffffffffffffffffull",
        "NAN": "__int_as_float(0x7fffffff)", "INFINITY": "__int_as_float(0x7f800000)",
        "HUGE_VAL": "__longlong_as_double(0x7ff0000000000000ll)",
        "static inline": "static __device__ inline",
        "tc_bits_of_f32": "__float_as_uint", "tc_f32_of_bits": "__uint_as_float",
        "tc_bits_of_f64": "(unsigned long long)__double_as_longlong",
        "tc_f64_of_bits": "__longlong_as_double",
    },
    bodies={
        # NVRTC makes no vectors of loads whose values go into inline PTX: what is read often has been
        # converted on its way to shared memory.
        "tc_f16_to_f32": (
            "float tc_f16_to_f32(uint16_t h) "
            '{ float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }'
        ),
        "tc_f32_to_f16": (
            "uint16_t tc_f32_to_f16(float x) "
            '{ uint16_t h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }'
        ),
    },
    kernel='extern "C" __global__ __launch_bounds__({threads})\nvoid',
    shared="__shared__ ",
    aligned="__align__(BYTES) ",
    room="extern __shared__ __align__(16) char tc_shared[];",
    part="TYPE (&NAME)EXTENTS = *reinterpret_cast<TYPE (*)EXTENTS>(tc_shared + OFFSET);",
    declared=48 << 10,
    restrict="__restrict__",
    block="blockIdx.x",
    thread="threadIdx.x",
    barrier="__syncthreads();",
    warp_barrier="__syncwarp();",
    vectors={4: ("unsigned", "0"), 8: ("uint2", "make_uint2(0, 0)"), 16: ("uint4", "make_uint4(0, 0, 0, 0)")},
    copy='asm volatile("cp.async.CACHE.shared.global [%0], [%1], BYTES, %2;" :: '
    '"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? BYTES : 0) : "memory");',
    arrival='asm volatile("cp.async.wait_all;" ::: "memory");',
    claim="atomicCAS((int *)error, 0, site + 1) == 0",
    exchange="atomicCAS",
    # By NVIDIA's table 3 units in the last place, or 4 (docs/numerics.md).
    doubled=frozenset({
        "acos", "acosh", "asin", "asinh", "atan2", "atanh", "hypot", "norm3d", "norm4d", "sinh",
    }),
    replaced={"sin": "tc_sin_f32", "cos": "tc_cos_f32", "tan": "tc_tan_f32"},
    # Products with the digits of 2/pi; of float32 some are in registers where their loop can be unrolled.
    framed={
        **dict.fromkeys(("sin", "cos", "tan", "j0", "j1", "y0", "y1"), 40),
        **dict.fromkeys(("j0f", "j1f", "y0f", "y1f"), 32),
    },
)  # fmt: skip

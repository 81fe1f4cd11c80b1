"""The dialects of C: C99, OpenCL C and CUDA C++.

Text is written in C99, and a dialect replaces some of its words.  Helper functions are written once, in C99,
and translated word by word (they have no names of a user), so that no dialect needs headers, which NVRTC and
OpenCL do not have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tc.dtypes import BOOL, FLOAT32, DType
from tc.lang.builtins import Builtin

_NOT_IN_CUDA = frozenset(["sigmoid", "digamma", "trigamma"])
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
    """A dialect of C.

    `wraps`: whether signed integers wrap (by -fwrapv).  `words`: words of C99 (types, limits, pairs such as
    `static inline`, helpers that are built in) and their replacements.  `long_suffix`: of 64-bit literals.
    `bodies`: helpers that the language implements better.  `doubled`: functions that are less accurate in
    float32 than the language definition allows, and are computed in float64.  `replaced`: functions of
    float32, and the helpers that are called instead.  `stack_frames`: library functions with an array on the
    stack, and its bytes.

    Of a GPU:

    - `kernel`: the qualifiers of a kernel of so many threads.
    - `global_space`, `shared`, `shared_pointer`: the qualifiers of global memory, of shared arrays, and of
      what a pointer to shared memory points to.
    - `alignment`: the qualifier of an array that is aligned to BYTES.
    - `dynamic_shared`: the declaration of dynamic shared memory, which is used beyond `static_shared_limit`
      bytes; `dynamic_array`: that of an array at an OFFSET in it.
    - `block`, `thread`: the numbers of the block and of the thread.
    - `barrier`, `warp_barrier`: statements; the latter is empty if the language has none for a warp.
    - `vectors`: types of so many bytes and their zeros.
    - `async_copy`: an asynchronous copy of BYTES `from` global memory `to` shared memory, through a CACHE, or
      of zeros unless `inside`; `wait_copies`: waits for all copies of the thread.
    - `claim_error`: an expression that takes the kernel's `error` record, whose low word is then `site + 1`;
      it is true if the record was free.
    - `compare_exchange`: a function on an unsigned integer in memory that returns the old value.
    """

    name: str
    headers: tuple[str, ...] = ()
    wraps: bool = False
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    long_suffix: str = "ll"
    bodies: Mapping[str, str] = field(default_factory=dict[str, str])
    kernel: str = ""
    global_space: str = ""
    shared: str = ""
    shared_pointer: str = ""
    alignment: str = ""
    dynamic_shared: str = ""
    dynamic_array: str = ""
    static_shared_limit: int = 0
    restrict: str = "restrict"
    block: str = ""
    thread: str = ""
    barrier: str = ""
    warp_barrier: str = ""
    vectors: Mapping[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    async_copy: str = ""
    wait_copies: str = ""
    claim_error: str = ""
    compare_exchange: str = ""
    doubled: frozenset[str] = frozenset()
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    stack_frames: Mapping[str, int] = field(default_factory=dict[str, int])

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
        if self.name == "CUDA" and builtin.name not in _NOT_IN_CUDA:
            return builtin.name + ("f" if t == FLOAT32 else ""), False
        own = builtin.own or self.name == "OpenCL"
        name = builtin.c if builtin.own or not own else f"tc_{builtin.c}"
        return name + ("f" if t == FLOAT32 else ""), own


def _limits(names: Mapping[int, tuple[str, str]]) -> dict[str, str]:
    """The words for limits of integers of so many bits, from such as `CHAR` and `UCHAR` in `CHAR_MIN`."""
    out: dict[str, str] = {}
    for bits, (signed, unsigned) in names.items():
        out |= {f"INT{bits}_{end}": f"{signed}_{end}" for end in ("MIN", "MAX")}
        out[f"UINT{bits}_MAX"] = f"{unsigned}_MAX"
    return out


def _extremum(name: str, otherwise: str) -> str:
    """The minimum or maximum of IEEE 754-2019 in one instruction, which PTX ISA 7.0 has from sm_80 on."""
    return f"""\
float tc_{name}_f32(float a, float b) {{
#if __CUDA_ARCH__ >= 800
  float m;
  asm("{name}.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
#else
  return {otherwise};
#endif
}}"""


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
    global_space="__global ",
    shared="__local ",
    shared_pointer="__local ",
    alignment="__attribute__((aligned(BYTES))) ",
    block="get_group_id(0)",
    thread="get_local_id(0)",
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    vectors={4: ("uint", "0"), 8: ("uint2", "(uint2)(0)"), 16: ("uint4", "(uint4)(0)")},
    claim_error="atomic_cmpxchg((volatile __global int *)error, 0, site + 1) == 0",
    compare_exchange="atomic_cmpxchg",
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
        "tc_min_f32": _extremum("min", "a < b || (a == b && signbit(a)) ? a : b <= a ? b : a + b"),
        "tc_max_f32": _extremum("max", "a > b || (a == b && signbit(b)) ? a : b >= a ? b : a + b"),
        # NVRTC does not vectorize loads whose values go into inline PTX.  Copies to shared memory convert
        # halves, so this is rare.
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
    alignment="__align__(BYTES) ",
    dynamic_shared="extern __shared__ __align__(16) char tc_shared[];",
    dynamic_array="TYPE (&NAME)EXTENTS = *reinterpret_cast<TYPE (*)EXTENTS>(tc_shared + OFFSET);",
    static_shared_limit=48 << 10,
    restrict="__restrict__",
    block="blockIdx.x",
    thread="threadIdx.x",
    barrier="__syncthreads();",
    warp_barrier="__syncwarp();",
    vectors={4: ("unsigned", "0"), 8: ("uint2", "make_uint2(0, 0)"), 16: ("uint4", "make_uint4(0, 0, 0, 0)")},
    async_copy='asm volatile("cp.async.CACHE.shared.global [%0], [%1], BYTES, %2;" :: '
    '"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? BYTES : 0) : "memory");',
    wait_copies='asm volatile("cp.async.wait_all;" ::: "memory");',
    claim_error="atomicCAS((int *)error, 0, site + 1) == 0",
    compare_exchange="atomicCAS",
    # 3 or 4 units in the last place by NVIDIA's table (docs/numerics.md).
    doubled=frozenset({
        "acos", "acosh", "asin", "asinh", "atan2", "atanh", "hypot", "norm3d", "norm4d", "sinh",
    }),
    replaced={"sin": "tc_sin_f32", "cos": "tc_cos_f32", "tan": "tc_tan_f32"},
    # The arrays of products with the digits of 2/pi; for some functions of float32 they are in registers,
    # where nvcc unrolls the loop.
    stack_frames={
        **dict.fromkeys(("sin", "cos", "tan", "j0", "j1", "y0", "y1"), 40),
        **dict.fromkeys(("j0f", "j1f", "y0f", "y1f"), 32),
    },
)  # fmt: skip

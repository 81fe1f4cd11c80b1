"""Identifiers of C for the names of a program, and environments that map names to text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tc.lang import builtins

_KEYWORDS = frozenset(  # of C99, C++ and OpenCL, and names that generated text uses
    """
    auto break case char const continue default do double else enum extern float for goto if inline int
    long register restrict return short signed sizeof static struct switch typedef union unsigned void
    volatile while
    alignas alignof and and_eq asm bitand bitor bool catch class compl concept const_cast consteval constexpr
    constinit co_await co_return co_yield decltype delete dynamic_cast explicit export false friend mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast
    requires static_assert static_cast template this thread_local throw true try typeid typename using virtual
    xor xor_eq
    half uchar ushort uint ulong kernel global local constant generic uniform pipe read_only write_only
    read_write vec_step
    NAN INFINITY HUGE_VAL EOF NULL MAXFLOAT memcpy main args error workspace
    signbit isinf isnan barrier get_group_id get_local_id as_uint as_float atomic_cmpxchg
    point held other step
    threadIdx blockIdx blockDim gridDim warpSize atomicCAS
    """.split()  # noqa: SIM905
)
# Vector types of OpenCL and CUDA, and macros of their compilers.
_RESERVED = re.compile(
    r"(u?(char|short|int|long)|float|double|half|bool)\d+|u?longlong\d"
    r"|(M|FLT|DBL|HALF|CL|CLK|FP|CHAR|SCHAR|UCHAR|SHRT|USHRT|LONG|ULONG|CUDART|CUDA)_\w+"
)


def identifier(name: str) -> str:
    """A C identifier for a name: no keyword, no library function, no leading digit or underscore."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    if text[0].isdigit() or text[0] == "_" or text.startswith(("tc_", "INT", "UINT", "TC_")):
        text = f"v{text}" if text[0] == "_" else f"v_{text}"
    library = builtins.find(text) is not None or text.endswith("_t")
    return f"{text}_" if text in _KEYWORDS or library or _RESERVED.fullmatch(text) else text


class Recording(dict[str, str]):
    """An environment that records which names are used, so that only these are declared."""

    def __init__(self, env: Mapping[str, str], uses: set[str]) -> None:
        super().__init__(env)
        self.uses = uses

    def __getitem__(self, name: str) -> str:
        self.uses.add(name)
        return super().__getitem__(name)


def bound(env: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    """The environment with one more name; a recording environment goes on recording."""
    inner = {**env, name: value}
    return Recording(inner, env.uses) if isinstance(env, Recording) else inner

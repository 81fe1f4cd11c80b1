"""Helper functions of generated text: integer division, saturating conversions, NaN-propagating extrema, the
16-bit floating types, sin, cos and tan.  They are written in C99, translated by the dialect, and emitted only
in texts that use them.

Names have operation and type: `tc_floordiv_i64`, `tc_f32_to_i8`, `tc_min_f32`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from tc.codegen.dialect import C99, Dialect
from tc.codegen.trigonometry import TRIGONOMETRY
from tc.dtypes import UINT32, UINT64, DType
from tc.errors import InternalError
from tc.ir.loops import VECTOR


def short(t: DType) -> str:
    """`i8`, `u64`, `f32`, `f16`, `bf16`, `bool`."""
    if t.is_bool:
        return "bool"
    return {"int": "i", "uint": "u", "float": "f", "bfloat": "bf"}[t.kind] + str(t.bits)


_FLOORDIV = """\
{T} tc_floordiv_{s}({T} a, {T} b) {{ /* floor; x / 0 = 0; nothing traps */
  if (b == 0) return 0;
  if (b == -1) return ({T})(0u - ({U})a);
  return ({T})(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
}}"""
_FLOORMOD = """\
{T} tc_floormod_{s}({T} a, {T} b) {{
  if (b == 0 || b == -1) return 0;
  return ({T})(a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0));
}}"""
_UDIV = "{T} tc_floordiv_{s}({T} a, {T} b) {{ return b ? ({T})(a / b) : ({T})0; }}"
_UMOD = "{T} tc_floormod_{s}({T} a, {T} b) {{ return b ? ({T})(a % b) : ({T})0; }}"
_MIN = "{T} tc_min_{s}({T} a, {T} b) {{ return b < a ? b : a; }}"
_MAX = "{T} tc_max_{s}({T} a, {T} b) {{ return a < b ? b : a; }}"
# IEEE 754-2019 minimum and maximum: a NaN (which compares false) makes `a + b` NaN, -0 is less than +0.
_FMIN = """\
{T} tc_min_{s}({T} a, {T} b) {{
  return a < b || (a == b && signbit(a)) ? a : b <= a ? b : a + b;
}}"""
_FMAX = """\
{T} tc_max_{s}({T} a, {T} b) {{
  return a > b || (a == b && signbit(b)) ? a : b >= a ? b : a + b;
}}"""
_ABS = "{T} tc_abs_{s}({T} a) {{ return a < 0 ? ({T})(0u - ({U})a) : a; }}"

# Truncation towards 0, saturated; NaN gives 0.  The limits are powers of two, exact in every type.
_TO_SIGNED = """\
{T} tc_{f}_to_{s}({F} x) {{
  if (x != x) return 0;
  if (x < -{limit}) return INT{bits}_MIN;
  return x >= {limit} ? INT{bits}_MAX : ({T})x;
}}"""
_TO_UNSIGNED = """\
{T} tc_{f}_to_{s}({F} x) {{
  if (!(x > 0)) return 0;
  return x >= {limit} ? UINT{bits}_MAX : ({T})x;
}}"""

_FIXED: dict[str, tuple[str, tuple[str, ...]]] = {
    "tc_bits_of_f32": ("uint32_t tc_bits_of_f32(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }", ()),
    "tc_f32_of_bits": ("float tc_f32_of_bits(uint32_t b) { float x; memcpy(&x, &b, 4); return x; }", ()),
    "tc_f16_to_f32": (
        """\
float tc_f16_to_f32(uint16_t h) { /* exact: shift the exponent into place, repair its bias by 2^112 */
  uint32_t m = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
  if ((h & 0x7fff) >= 0x7c00) return tc_f32_of_bits(sign | m | 0x7f800000u);
  return tc_f32_of_bits(sign | tc_bits_of_f32(tc_f32_of_bits(m) * 0x1p112f));
}""",
        ("tc_bits_of_f32", "tc_f32_of_bits"),
    ),
    "tc_f32_to_f16": (
        """\
uint16_t tc_f32_to_f16(float x) { /* to nearest even; adding 0.5 rounds subnormals at 2^-24 */
  uint32_t b = tc_bits_of_f32(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x47800000) return (uint16_t)(sign | 0x7c00);
  if (a < 0x38800000) return (uint16_t)(sign | (tc_bits_of_f32(tc_f32_of_bits(a) + 0.5f) - 0x3f000000u));
  return (uint16_t)(sign | (a - 0x38000000u + 0xfff + (a >> 13 & 1)) >> 13);
}""",
        ("tc_bits_of_f32", "tc_f32_of_bits"),
    ),
    "tc_bf16_to_f32": (
        "float tc_bf16_to_f32(uint16_t h) { return tc_f32_of_bits((uint32_t)h << 16); }",
        ("tc_f32_of_bits",),
    ),
    "tc_f32_to_bf16": (
        """\
uint16_t tc_f32_to_bf16(float x) { /* to nearest even */
  uint32_t b = tc_bits_of_f32(x);
  if (x != x) return (uint16_t)(b >> 16 | 0x40);
  return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}""",
        ("tc_bits_of_f32",),
    ),
    "tc_f64_to_odd": (
        """\
float tc_f64_to_odd(double d) { /* rounded to odd, so that rounding once more is as rounding once */
  float f = (float)d;
  double back = (double)f;
  if (!(back < d || back > d)) return f;
  return tc_f32_of_bits((tc_bits_of_f32(f) - (fabs(back) > fabs(d))) | 1);
}""",
        ("tc_bits_of_f32", "tc_f32_of_bits"),
    ),
    # 64-bit integers to 53 bits, rounded to odd, so that rounding to 24 or fewer bits gives the same result.
    "tc_i64_to_53": (
        """\
int64_t tc_i64_to_53(int64_t i) {
  uint64_t u = (uint64_t)i, low = 0x7ff;
  if (u + ((uint64_t)1 << 53) <= (uint64_t)1 << 54) return i;
  return (int64_t)((u | ((u & low) + low)) & ~low);
}""",
        (),
    ),
    "tc_u64_to_53": (
        """\
uint64_t tc_u64_to_53(uint64_t u) {
  uint64_t low = 0x7ff;
  return u >> 53 ? (u | ((u & low) + low)) & ~low : u;
}""",
        (),
    ),
    **TRIGONOMETRY,
    "tc_fail": (
        """\
int32_t tc_fail(int64_t *error, int64_t site, int64_t value, int64_t dimension, int count,
                              const int64_t *point) {
  error[0] = site + 1;
  error[1] = value;
  error[2] = count;
  for (int i = 0; i < count; i++) error[3 + i] = point[i];
  error[3 + count] = dimension;
  return 1;
}""",
        (),
    ),
}

_COPY = """void NAME(void *to, const void *from, bool inside) {
  /* It arrives later; what is not inside is 0. */
  COPY
}"""
_MOVE = """void NAME(NEAR void *to, SPACE const void *from, bool inside) {
  *(NEAR TYPE *)to = inside ? *(SPACE const TYPE *)from : ZERO;
}"""
_CONVERT = """void NAME(NEAR void *to, SPACE const void *from, bool inside) {
  TYPE v = inside ? *(SPACE const TYPE *)from : ZERO;
  NEAR RESULT *out = (NEAR RESULT *)to;
"""
_FAIL_ONCE = """\
void tc_fail(
    SPACE int64_t *error, int32_t site, int64_t value, int32_t dimension, int32_t count,
    const int64_t *point) {
  /* The thread that is first tells. */
  if (!(CLAIM)) return;
  error[1] = value;
  error[2] = count;
  for (int32_t i = 0; i < count; i++) error[3 + i] = point[i];
  error[3 + count] = dimension;
}"""

_ATOMIC = """\
void NAME(SPACE T *to, T value) {
  /* What it would be is exchanged for what it was, until nobody has changed that in the meantime. */
  SPACE U *place = (SPACE U *)to;
  U before, found = EXCHANGE(place, 0, 0);
  do {
    before = found;
    found = EXCHANGE(place, before, NEW);
  } while (found != before);
}"""

_TEMPLATES = {
    "floordiv": (_FLOORDIV, _UDIV), "floormod": (_FLOORMOD, _UMOD), "abs": (_ABS, _ABS),
}  # fmt: skip


class Helpers:
    """The helpers that a text uses, in the order in which they must be defined."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._texts: dict[str, str] = {}
        self.math: set[str] = set()

    def named(self, name: str) -> str:
        """A fixed helper, with those that it calls, or the dialect's replacement."""
        if name in self.dialect.words:
            return self.dialect.words[name]
        text, needs = _FIXED[name]
        if name in self.dialect.bodies:
            text, needs = self.dialect.bodies[name], ()
        for n in needs:
            self.named(n)
        self._texts.setdefault(name, text)
        return name

    def typed(self, stem: str, t: DType) -> str:
        """`tc_floordiv_i64`, `tc_min_f32`, `tc_abs_i8` and the like."""
        name = f"tc_{stem}_{short(t)}"
        if stem in ("min", "max"):
            template = {"min": (_MIN, _FMIN), "max": (_MAX, _FMAX)}[stem][t.is_float]
        else:
            template = _TEMPLATES[stem][0 if t.is_signed else 1]
        unsigned = f"uint{max(t.bits, 32)}_t"
        text = self.dialect.bodies.get(name) or template.format(T=C99.type(t), s=short(t), U=unsigned)
        self._texts.setdefault(name, text)
        return name

    def to_integer(self, source: DType, target: DType) -> str:
        """A saturating conversion from float32 or float64."""
        name = f"tc_{short(source)}_to_{short(target)}"
        template = _TO_SIGNED if target.is_signed else _TO_UNSIGNED
        limit = f"0x1p{target.bits - target.is_signed}"
        text = template.format(
            T=C99.type(target), F=C99.type(source), f=short(source), s=short(target), bits=target.bits,
            limit=limit + ("f" if source.bits == 32 else ""),
        )  # fmt: skip
        self._texts.setdefault(name, text)
        return name

    def atomic(self, op: str, t: DType, combined: Callable[[str, str], str]) -> str:
        """A function that atomically updates an element of 4 or 8 bytes in memory; `combined` gives the text
        of an element combined with a value."""
        stem = {"+": "add", "*": "mul"}.get(op, op)
        name, u = f"tc_atomic_{stem}_{short(t)}", UINT64 if t.bits == 64 else UINT32
        old = f"tc_{short(t)}_of_bits(before)" if t.is_float else f"({C99.type(t)})before"
        new = combined(old, "value")
        new = f"tc_bits_of_{short(t)}({new})" if t.is_float else f"({C99.type(u)})({new})"
        text = (
            _ATOMIC.replace("EXCHANGE", self.dialect.compare_exchange)
            .replace("NEW", new)
            .replace("NAME", name)
        )
        text = re.sub(r"\bT\b", C99.type(t), re.sub(r"\bU\b", C99.type(u), text))
        self._texts.setdefault(name, text.replace("SPACE ", self.dialect.global_space))
        return name

    def fail(self) -> str:
        """A function that records a failed check in a GPU's `error` record, unless another thread has done
        so."""
        d = self.dialect
        text = _FAIL_ONCE.replace("SPACE ", d.global_space).replace("CLAIM", d.claim_error)
        self._texts.setdefault("tc_fail", text)
        return "tc_fail"

    def async_copy(self, size: int) -> str:
        """A function that copies so many bytes to shared memory asynchronously; 16 bytes bypass the L1
        cache."""
        name, cache = f"tc_copy{size}", "cg" if size == 16 else "ca"
        text = _COPY.replace("NAME", name).replace("COPY", self.dialect.async_copy)
        self._texts.setdefault(name, text.replace("BYTES", str(size)).replace("CACHE", cache))
        return name

    def move(self, size: int) -> str:
        """A function that copies so many bytes to shared memory."""
        d, name = self.dialect, f"tc_move{size}"
        vector, zero = d.vectors[size]
        text = (
            _MOVE.replace("NAME", name).replace("NEAR ", d.shared_pointer).replace("SPACE ", d.global_space)
        )
        self._texts.setdefault(name, text.replace("TYPE", vector).replace("ZERO", zero))
        return name

    def convert(self, source: DType, count: int) -> str:
        """A function that copies so many halves to shared memory as float32."""
        d, size = self.dialect, count * source.itemsize
        name = f"tc_move{size}_{short(source)}_f32"
        function, bits = self.named(f"tc_{short(source)}_to_f32"), self.named("tc_bits_of_f32")
        vector, zero = d.vectors[size]
        made, empty = d.vectors[min(VECTOR, count * 4)]
        words = [f"v.{x}" for x in "xyzw"[: count // 2]] if count > 2 else ["v"]
        parts = [
            f"{bits}({function}((uint16_t){part}))"
            for w in words
            for part in (f"({w} & 0xffff)", f"({w} >> 16)")
        ]
        lines = [
            f"  out[{i // 4}] = {empty.partition('(0')[0]}({', '.join(parts[i : i + 4])});"
            for i in range(0, count, 4)
        ]
        text = (
            _CONVERT.replace("NAME", name)
            .replace("NEAR ", d.shared_pointer)
            .replace("SPACE ", d.global_space)
        )
        text = text.replace("TYPE", vector).replace("ZERO", zero).replace("RESULT", made)
        self._texts.setdefault(name, text + "\n".join(lines) + "\n}")
        return name

    def text(self) -> str:
        """The definitions of all helpers that are used."""
        parts = [*math_text(frozenset(self.math)), *(f"static inline {t}" for t in self._texts.values())]
        return self.dialect.text("\n".join(parts))

    @property
    def uses_memcpy(self) -> bool:
        return any("memcpy" in t for t in self._texts.values())


@cache
def _math_chunks() -> tuple[dict[str, str], list[str]]:
    """Our own math functions and macros by name, and the order in which the header has them."""
    source = (files("tc") / "native" / "math.h").read_text(encoding="utf-8")
    chunks: dict[str, str] = {}
    pattern = re.compile(
        # A function ends on its first line, or at the first brace in column 0.
        r"^(?:static inline \w+ (?P<function>\w+)\((?:[^\n]*\}[ \t]*$|.*?^\})"
        r"|#define (?P<macro>TC_(?!NATIVE)\w+) [^\n]*)",
        re.MULTILINE | re.DOTALL,
    )
    for m in pattern.finditer(source):
        chunks[m["function"] or m["macro"]] = m[0]
    return chunks, list(chunks)


def math_text(names: frozenset[str]) -> list[str]:
    """The definitions of these functions of tc/native/math.h and of all they use, in order."""
    chunks, order = _math_chunks()
    needed: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in needed:
            continue
        if name not in chunks:
            raise InternalError(f"tc/native/math.h does not define {name}")
        needed.add(name)
        todo += [w for w in set(re.findall(r"\w+", chunks[name])) if w in chunks and w != name]
    return [chunks[n] for n in order if n in needed]

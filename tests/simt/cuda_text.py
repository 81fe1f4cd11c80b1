"""What the shim reads from a CUDA text, and what it replaces: inline PTX, shared arrays, kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass


class BuildError(Exception):
    """The compiler refuses the text, or it holds inline PTX that is not modelled."""


def without_comments(text: str) -> str:
    """The text with blanks for comments; lines and columns stay."""

    def blank(m: re.Match[str]) -> str:
        return m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0])

    return re.sub(
        r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL
    )


def _end(text: str, start: int) -> int:
    """Behind the parenthesis that closes the one at `start`."""
    depth = 0
    for m in re.compile(r'"(?:\\.|[^"\\\n])*"|[()]').finditer(text, start):
        depth += {"(": 1, ")": -1}.get(m[0], 0)
        if depth == 0:
            return m.end()
    raise BuildError(f"line {text.count(chr(10), 0, start) + 1}: a parenthesis is not closed")


def _split(text: str, separator: str) -> list[str]:
    """Split outside strings, parentheses and brackets."""
    parts, depth, last = [], 0, 0
    for m in re.finditer(r'"(?:\\.|[^"\\\n])*"|.', text, re.DOTALL):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(m[0], 0)
        if m[0] == separator and depth == 0:
            parts.append(text[last : m.start()])
            last = m.end()
    return [*parts, text[last:]]


_CP_ASYNC = re.compile(r"cp\.async\.(ca|cg)\.shared(?:::cta)?\.global(?:\.L2::\w+)?\s+(.*)", re.DOTALL)


_EXTREMA = {"min.NaN.f32": "simt::min_nan", "max.NaN.f32": "simt::max_nan"}
_CONVERSIONS = {"cvt.rn.f16.f32": "simt::f16_of_f32", "cvt.f32.f16": "simt::f32_of_f16"}


def _instruction(ptx: str, operands: list[str]) -> str:
    """A PTX instruction as an expression of C++ (PTX ISA 8; 9.7.9.25: cp.async, 9.7.9.21: cvt,
    9.7.3: max)."""

    def operand(s: str) -> str:
        s = s.strip().removeprefix("[").removesuffix("]").strip()
        return re.sub(r"%(\d+)", lambda m: f"({operands[int(m[1])]})", s)

    if m := _CP_ASYNC.fullmatch(ptx):
        parts = [operand(p) for p in _split(m[2], ",")]
        if len(parts) in (3, 4) and not (m[1] == "cg" and parts[2].strip("()") != "16"):
            return f"simt::async_copy({', '.join([*parts, parts[2]][:4])})"
    if ptx == "cp.async.commit_group":
        return "simt::async_commit()"
    if m := re.fullmatch(r"cp\.async\.wait_group\s+(.+)", ptx):
        return f"simt::async_wait({operand(m[1])})"
    if ptx == "cp.async.wait_all":
        return "simt::async_wait(-1)"
    name, _, rest = ptx.partition(" ")
    if name in _CONVERSIONS and len(parts := [operand(p) for p in _split(rest, ",")]) == 2:
        return f"{parts[0]} = {_CONVERSIONS[name]}({parts[1]})"
    if name in _EXTREMA and len(parts := [operand(p) for p in _split(rest, ",")]) == 3:
        return f"{parts[0]} = {_EXTREMA[name]}({parts[1]}, {parts[2]})"
    raise BuildError(f"this PTX is not modelled: {ptx}")


def without_asm(text: str) -> str:
    """Inline PTX, which no host assembler takes, as calls of the runtime; lines stay."""
    out, last = [], 0
    for m in re.finditer(r"\b(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__)\b\s*)?\(", text):
        end = _end(text, m.end() - 1)
        template, *rest = _split(text[m.end() : end - 1], ":")
        ptx = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', template)).replace("\\n", "\n").replace("\\t", "\t")
        operands = []
        for part in (p for section in rest[:2] for p in _split(section, ",") if p.strip()):
            found = re.fullmatch(r'\s*"[^"]*"\s*\((.*)\)\s*', part, re.DOTALL)
            if not found:
                raise BuildError(f"this operand is not modelled: {part.strip()}")
            operands.append(" ".join(found[1].split()))
        calls = [_instruction(i.strip(), operands) for i in re.split(r"[;\n]", ptx) if i.strip()]
        out += [
            text[last : m.start()],
            f"({', '.join(calls) or '(void)0'})",
            "\n" * text.count("\n", m.start(), end),
        ]
        last = end
    return "".join(out) + text[last:]


@dataclass(frozen=True, slots=True)
class Shared:
    """A declaration of shared memory."""

    name: str
    itemsize: int  # 0: unknown
    granule: int
    alignment: int
    shape: tuple[int, ...] | None
    dynamic: bool


_SIZES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "short": 2, "unsigned short": 2, "int": 4,
    "unsigned": 4, "unsigned int": 4, "long long": 8, "unsigned long long": 8, "float": 4, "double": 8,
}  # fmt: skip


def _type(name: str) -> tuple[int, int, int]:
    """Size (0: unknown), granule and alignment of a type."""
    if m := re.fullmatch(r"u?int(\d+)_t", name):
        size = int(m[1]) // 8
    elif m := re.fullmatch(r"(?:float|u?int)([24])", name):
        return 4 * int(m[1]), 4, 4 * int(m[1])
    elif m := re.fullmatch(r"(?:double|u?longlong)2", name):
        return 16, 4, 16
    else:
        size = _SIZES.get(name, 0)
    return size, min(size, 4) or 1, size or 16


def shared_declarations(text: str) -> list[Shared]:
    """What the text (without comments) says of its shared arrays, as far as a look at it tells: a type that
    is not known has the finest granule."""
    found = []
    for m in re.finditer(r"[^;{}]*\b__shared__\b[^;]*;", text):
        words = m[0].rstrip(";")
        dynamic = "extern" in words.split()
        aligns = [int(a) for a in re.findall(r"(?:__align__|alignas|aligned)\s*\(\s*(\d+)\s*\)", words)]
        words = re.sub(r"(?:__align__|alignas)\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", " ", words)
        words = re.sub(r"\b(?:__shared__|extern|static|volatile)\b", " ", words)
        d = re.fullmatch(r"\s*(\w[\w\s]*?)\s+(\w+)\s*((?:\[[^\]]*\]\s*)*)", words)
        if not d:
            continue
        size, granule, natural = _type(" ".join(d[1].split()))
        shape: list[int] | None = []
        for extent in re.findall(r"\[([^\]]*)\]", d[3]):
            if shape is not None and re.fullmatch(r"[\d\s+*()-]+", extent):
                shape.append(int(eval(extent)))
            else:
                shape = None
        found.append(
            Shared(d[2], size, granule, 16 if dynamic else max([natural, *aligns]),
                   tuple(shape) if shape is not None and size else None, dynamic)
        )  # fmt: skip
    return found


def kernels(text: str) -> dict[str, tuple[list[str], int | None]]:
    """Each kernel's names of parameters, and the threads that its launch bounds allow."""
    kernels = {}
    bounds = r"(?:__launch_bounds__\s*\(\s*(\d+)[^)]*\)\s*)?"
    for m in re.finditer(rf"__global__\s+{bounds}void\s+{bounds}(\w+)\s*\(", text):
        inside = text[m.end() : _end(text, m.end() - 1) - 1]
        names = []
        for p in _split(inside, ","):
            inner = re.search(r"\(\s*\*[^)]*?(\w+)\s*\)", p) or re.search(
                r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", p.strip()
            )
            names.append(inner[1] if inner else "?")
        limit = m[1] or m[2]
        kernels[m[3]] = (names, int(limit) if limit else None)
    return kernels


def local_name(symbol: str) -> str:
    """A static variable of a function: `_ZZ1kPfE3s_A`, with `_0` behind it for the second of a name (Itanium
    C++ ABI, 5.1.6); else as it is."""
    for m in re.finditer(r"E(\d+)", symbol):
        rest, n = symbol[m.end() :], int(m[1])
        if len(rest) >= n and re.fullmatch(r"(_\d+|__\d+_)?", rest[n:]):
            return rest[:n]
    return symbol

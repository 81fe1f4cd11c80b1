"""What people type in SaC from habit, of other languages and libraries, and what to write instead."""

from __future__ import annotations

import re

_LAST = "{ iv -> sum({ [k] -> A[iv ++ [k]] }) | iv < drop([-1], shape(A)) } sums along the last axis"
FUNCTIONS = {
    "len": "write shape(A)[0]",
    "size": "write prod(shape(A))",
    "rank": "write dim(A)",
    "ndim": "write dim(A)",
    "mean": "write sum(A) / tod(prod(shape(A)))",
    "amax": "write maxval(A)",
    "amin": "write minval(A)",
    "maximum": "write max(a, b)",
    "minimum": "write min(a, b)",
    "relu": "write max(A, 0)",
    "sigmoid": "write 1 / (1 + exp(-A))",
    "square": "write A * A",
    "sign": "write where(A > 0, 1, where(A < 0, -1, 0))",
    "clip": "write min(max(A, lo), hi)",
    "clamp": "write min(max(A, lo), hi)",
    "concat": "write A ++ B",
    "concatenate": "write A ++ B",
    "stack": "write [A, B]",
    "range": "write iota(n)",
    "arange": "write iota(n)",
    "zeros": "write genarray([n, m], 0)",
    "ones": "write genarray([n, m], 1)",
    "flip": "write reverse(A)",
    "roll": "write rotate(n, A)",
    "dot": "write sum(a * b)",
    "matmul": "write { [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }",
    "double": "write tod(x)",
    "float": "write tof(x)",
    "int": "write toi(x)",
    "cumsum": "write { [i] -> sum({ [j] -> v[j] | [j] <= [i] }) | [i] < shape(v) }",
    "argmax": "there is none: use the TC notation's argmax=!",
}
# Functions that exist, called with another number of arguments.
ARGUMENTS = {
    ("max", 1): "write maxval(A)",
    ("min", 1): "write minval(A)",
    ("sum", 2): _LAST,
    ("prod", 2): _LAST.replace("sum", "prod"),
    ("maxval", 2): _LAST.replace("sum", "maxval"),
    ("minval", 2): _LAST.replace("sum", "minval"),
    ("where", 2): "write where(condition, A, B)",
    ("iota", 2): "write a + iota(b - a)",
}
_CASTS = {"byte": "tob", "short": "tos", "int": "toi", "long": "tol", "float": "tof", "double": "tod"}


def at(text: str, start: int, expected: set[str]) -> str | None:
    """Help for what stands at an offset of a text, where one of other tokens was expected."""
    before, after = text[:start].rstrip(), text[start:]
    cast = re.search(r"\(\s*(\w+)\s*\)$", before)
    if cast and cast[1] in _CASTS and re.match(r"[\w(\[{]", after):
        return f"write {_CASTS[cast[1]]}(x)"
    called = re.search(r"\b(\w+)$", before)
    if after.startswith("(") and called and called[1] in _CASTS:
        return f"write {_CASTS[called[1]]}(x)"
    if after.startswith("*") and before.endswith("*"):
        return "write pow(x, y), or x * x"
    if after.startswith(":") and "RSQB" in expected:
        return "there are no slices: write take([n], drop([k], A)), or tile([n], [k], A)"
    if re.match(r"\.\s*[A-Za-z]", after):
        return "there are no attributes: write shape(A), dim(A), transpose(A)"
    if expected & {"ARROW", "__ANON_0"} and after.startswith(","):
        return "an index of several variables stands in brackets: [i,j]"
    if after.startswith("(") and expected <= {"LSQB", "NAME"}:
        return "an index of several variables stands in brackets: [i,j]"
    if re.search(r"\b(for|while|do|if)\s*\(", text[: start + 1]):
        return "there are no loops and no ifs: write a comprehension, a with-loop, or a ? b : c"
    return None


def character(char: str) -> str | None:
    """Help for a character that is none of the notation."""
    return {
        "@": "write { [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }",
        "^": "write pow(x, y)",
        "#": "comments begin with //",
        "~": "write !x",
    }.get(char)

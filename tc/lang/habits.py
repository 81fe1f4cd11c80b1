"""What people type from habit, of other languages and libraries, and what to write instead."""

from __future__ import annotations

import re

from tc.lang.resolved import MODES

_SUM = "a reduction is a statement of its own: {0}"
FUNCTIONS = {
    "relu": "write fmax(x, 0)",
    "sum": _SUM.format("s(i) +=! x(i,k)"),
    "mean": _SUM.format("m(i) +=! x(i,k) / x.1"),
    "prod": _SUM.format("p(i) *=! x(i,k)"),
    "amax": _SUM.format("m(i) max=! x(i,k)"),
    "amin": _SUM.format("m(i) min=! x(i,k)"),
    "argmax": _SUM.format("k_of(i) argmax=! x(i,k)"),
    "argmin": _SUM.format("k_of(i) argmin=! x(i,k)"),
    "any": _SUM.format("a(i) max=! x(i,k) > 0 ? 1 : 0"),
    "all": _SUM.format("a(i) min=! x(i,k) > 0 ? 1 : 0"),
    "cumsum": "a running sum is a loop: y(0) = x(0) for t in 1:N { y(t) = y(t-1) + x(t) }",
    "dot": _SUM.format("d +=! x(i) * y(i)"),
    "matmul": _SUM.format("C(i,j) +=! A(i,k) * B(k,j)"),
    "softmax": "write its statements: m(i) max=! x(i,k), e(i,k) = exp(x(i,k) - m(i)), s(i) +=! e(i,k), "
    "y(i,k) = e(i,k) / s(i)",
    "where": "write a ternary: c ? a : b",
    "ternary": "write c ? a : b",
    "rand": "there are no random numbers: pass them as a tensor",
    "randn": "there are no random numbers: pass them as a tensor",
    "random": "there are no random numbers: pass them as a tensor",
    "ln": "write log(x)",
    "square": "write x * x",
    "sqr": "write x * x",
    "sign": "write x > 0 ? 1 : (x < 0 ? -1 : 0)",
    "clip": "write min(max(x, lo), hi)",
    "clamp": "write min(max(x, lo), hi); of a subscript, X[clamp](i)",
    "silu": "write x * sigmoid(x)",
    "gelu": "write 0.5 * x * (1 + erf(x * 0.70710678))",
    "len": "the extent of dimension 0 of A is A.0, or the size in its declaration",
    "size": "the extent of dimension 0 of A is A.0, or the size in its declaration",
    "shape": "the extent of dimension 0 of A is A.0, or the size in its declaration",
    "range": "write for t in 0:N { ... }",
    "transpose": "write B(j,i) = A(i,j)",
    "isnan": "write x != x",
    "mod": "write a % b, or fmod(a, b) for floats",
    "arange": "write the index: y(i) = i where i in 0:N",
    "zeros": "write y(i) = 0 where i in 0:N",
    "ones": "write y(i) = 1 where i in 0:N",
}
_TYPES = {
    "f16": "half", "fp16": "half", "f32": "float", "fp32": "float", "f64": "double", "fp64": "double",
    "bf16": "bfloat16", "single": "float", "real": "float", "i8": "int8", "i16": "int16", "i32": "int",
    "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "long": "int64",
    "short": "int16", "char": "int8", "unsigned": "uint32", "uint": "uint32", "boolean": "bool",
    "int8_t": "int8", "int16_t": "int16", "int32_t": "int", "int64_t": "int64", "uint8_t": "uint8",
    "size_t": "int64", "float_t": "float", "complex": "complex64", "tensor": "float(N,M)",
    "Tensor": "float(N,M)",
}  # fmt: skip
NAMES = {
    "True": "write 1 > 0, or a condition",
    "False": "write 1 < 0, or a condition",
    "true": "write 1 > 0, or a condition",
    "false": "write 1 < 0, or a condition",
    "infinity": "write inf",
    "NaN": "write nan",
    "None": "a tensor has a value everywhere: write 0",
}
_AND = "conditions are joined by && and ||, and negated by !"
_WORDS = {
    "and": _AND,
    "or": _AND,
    "not": _AND,
    "if": "a choice is a ternary: c ? a : b",
    "else": "a choice is a ternary: c ? a : b",
    "let": "a statement needs no keyword: y(i) = x(i); a value is named behind where: where a = x(i)",
    "const": "a value is named behind where: y(i) = a * x(i) where a = 2",
    "var": "a statement needs no keyword: y(i) = x(i)",
    "return": "results are those named behind ->",
    "while": "there are loops with bounds alone: for t in 0:N { ... }",
    "lambda": "name it by a def of its own",
    "range": "write for t in 0:N { ... }",
}
_LOOP = "a loop has a range: for t in 0:N { ... }; an index needs none: y(i) = 2 * x(i)"
_TRANSPOSED = "a transposed tensor is one with its subscripts exchanged: B(j,i) = A(i,j)"
_AT = (
    (re.compile(r"\*\*"), "write pow(x, y), or x * x"),
    (re.compile(r"\^"), "write pow(x, y), or x * x; conditions are compared by !="),
    (re.compile(r"//"), "/ of integers rounds down; a comment starts with #"),
    (re.compile(r"/\*"), "a comment starts with # and ends with the line"),
    (re.compile(r"@"), "a product of matrices is a statement of its own: C(i,j) +=! A(i,k) * B(k,j)"),
    (re.compile(r"&(?!&)|\|(?!\|)"), _AND),
    (re.compile(r"~"), _AND),
    (re.compile(r"<<|>>"), "write a * 2 or a / 2: there are no shifts"),
    (re.compile(r"'"), _TRANSPOSED),
    (re.compile(r":="), "an assignment is written ="),
    (re.compile(r"\+\+|--"), "write +="),
    (re.compile(r'"'), "there are no strings; a comment starts with #"),
)


USUAL_MODES = {  # boundary modes, as other libraries call them
    **dict.fromkeys(("edge", "replicate", "nearest", "border", "extend"), "clamp"),
    **dict.fromkeys(("circular", "periodic", "grid"), "wrap"),
    **dict.fromkeys(("mirror", "reflection"), "reflect"),
    **dict.fromkeys(("constant", "const", "value", "pad"), "fill=value"),
    "zeros": "zero",
}
_BESIDE = (
    "the extreme and its place are two statements, which share the loop: k_of(i) argmax=! x(i,k) and "
    "m(i) max=! x(i,k)"
)
_STEP = (
    "a range has no step: multiply the index, y(i) = x(2*i); loops run by 1, or by -1 with for t in lo:hi:-1"
)
_BODY = re.compile(r"\bfor\s+\w+\s+in\s[^;{}:]*:[^;{}:]*:$")
_NEXT_STATEMENT = re.compile(
    r",\s*\w+\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*(?:[+*]|arg)?(?:min|max)?=(?!=)"
)
_PAIR = re.compile(r"\([^()]*\)[^=;{}]*\)\s*arg(?:min|max)")

_ARROW = re.compile(r"->|=>|<-|===?")
_HEADER = re.compile(r"\bdef\s+\w+\s*(?:<[^<>]*>)?\s*\([^{}>]*$")  # an unfinished one

_ELEMENT = "float|double|half|bfloat16|int|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)"
_DECLARED = re.compile(rf"[{{;)]\s*(?:{_ELEMENT})\s*(?:\([^()]*\))?$")


def of_function(name: str) -> str | None:
    """Help for a function that is none."""
    mode = name if name in MODES and name not in ("none", "fill") else USUAL_MODES.get(name)
    if mode is not None and name not in FUNCTIONS:
        return f"a boundary mode stands in brackets behind a tensor: x[{mode}](i-1)"
    return FUNCTIONS.get(name) or of_type(name)


def of_name(name: str) -> str | None:
    """Help for a name of a value that there is not."""
    if re.fullmatch(r"[0-9.]+(?:[eE][0-9]+)?[iI]", name):
        return f"an imaginary number is written {name[:-1]}j"
    return NAMES.get(name)


def of_type(name: str) -> str | None:
    """Help for a type that is none."""
    return f"write {_TYPES[name]}" if name in _TYPES else None


def at(text: str, start: int, token: str) -> str | None:
    """Help for what stands at an offset of a source where the grammar has nothing like it."""
    before = text[:start].rstrip()
    word = re.search(r"[A-Za-z_]\w*$", before)
    for name in (token, word.group() if word else ""):
        if name in _WORDS:
            return _WORDS[name]
    if help := _of_statements(text, start, token, before):
        return help
    if token == "[":
        if _HEADER.search(before):
            return "a shape stands in parentheses behind the type: float(N,M) x"
        return "subscripts stand in parentheses: x(i,j); brackets say what lies outside: x[zero](i-1)"
    if token == ":" and re.search(r"\(\s*(?:[^()]*,)?$", before):
        return "a whole dimension is an index variable: y(i) = x(i)"
    if token == "." and before.endswith(")"):
        if re.match(r"\.(?:T|t|transpose)\b", text[start:]):
            return _TRANSPOSED
        return f"tensors have no methods; {_SUM.format('s(i) +=! x(i,k)')}"
    if token in _TYPES:
        return of_type(token)
    if token in (")", ",") and _HEADER.search(before) and re.search(r"[(,]\s*\w+$", before):
        return "a type stands before its name: float(N) x"
    if re.search(r"\bfor(?:\s+\w+)?$", before) and token != "in":
        return _LOOP
    if "{" in before and (m := _ARROW.match(text, start - (text[start - 1] == "="))) and m.end() > start:
        return "an assignment is written =, and a sum +=!; conditions are compared by =="
    if re.match(r"(?:mean|avg|sum|prod)\s*=", text[start:]):
        return f"there are the reductions +=! *=! min=! max=! argmin=! argmax=!; {FUNCTIONS['mean']}"
    if start == len(text) - len(text.lstrip()) or before.endswith("}"):
        return "a program is one def after another: def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
    if token == ":" and _HEADER.search(before):
        return "a type stands before its name: float(N) x"
    if token == "=" and _HEADER.search(before):
        return "parameters have no default values: the call passes them, or the body has the number"
    if token == "{" and _HEADER.search(before):
        return "results are named: -> (y)"
    if token == ":" and re.search(r"\([^()]*$", before):
        return "a part is a range of the index: y(i) = x(i + 2) where i in 0:3"
    if token.isidentifier() and _DECLARED.search(before):
        return "tensors need no declaration, and a value is named behind where: y(i) = a * x(i) where a = 2"
    for pattern, help in _AT:
        for offset in (start, start - 1):
            if offset >= 0 and (m := pattern.match(text, offset)) and m.end() > start:
                return help
    if re.search(r"\w\.$", before):
        return FUNCTIONS["shape"]
    if re.search(r"\brange\s*\([^()]*\)$", before):
        return _WORDS["range"]
    if re.search(r"\b(and|or|not)\b", before.rpartition("=")[2]):
        return _AND
    return None


def _of_statements(text: str, start: int, token: str, before: str) -> str | None:
    """Help for ranges with steps, arg-reductions, modes with values and what stands between statements."""
    if token in ("argmax", "argmin"):
        if before.endswith(")") and re.search(r"[{;)\n]\s*\([^()]*\)$", before):
            return _BESIDE
        if text[start + len(token) :].lstrip().startswith("="):
            return f"an arg-reduction starts anew, as there is no extreme to go on from: write {token}=!"
    if token == "(" and re.search(r"[{;)]\s*\(\s*\w+$", before):
        if _PAIR.match(text, start):
            return _BESIDE
        return "a call with several results names them without subscripts: (a, b) = f(x)"
    if token == "(" and (m := re.search(r"\[\s*(?:\w+\s*,\s*)*(\w+)$", before)):
        mode = "fill" if USUAL_MODES.get(m.group(1)) == "fill=value" else m.group(1)
        return f"the value that a mode has stands behind =: x[{mode}=1](i-1)"
    if token == "," and before.endswith(")") and _NEXT_STATEMENT.match(text, start):
        return "statements are separated by ; or by new lines"
    if token.isidentifier() and _BODY.search(before):
        return "the statements of a loop stand in braces: for t in 0:N { ... }"
    if re.search(r"\bin\s[^;{}]*:[^;:{}]*:?$", before) and (token == ":" or before.endswith(":")):
        return _STEP
    return None

"""Kernels as a C header and a shared object: a function that takes tensors of DLPack.

The function checks its arguments, chooses a kernel by sizes and types and its code by the processor, and runs
it on the thread pool of the shared object, which needs no Python.  The system's C++ compiler makes it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tc
from tc import __version__, _native
from tc.bundle.c_text import DECLARATIONS, FEATURES, RUNTIME, SIGNALS
from tc.bundle.export import Sizes, Types, collect
from tc.bundle.link import run_tool
from tc.bundle.manifest import Checked, Instance, Kernel, Requirement
from tc.codegen import llvm_jit
from tc.dtypes import DType
from tc.errors import ArgumentError, BackendError
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.expr_json import from_json
from tc.runtime.arrays import dlpack_type
from tc.runtime.signature import Output, Param

_NATIVE = Path(tc.__file__).parent / "native"
_SCALARS = {
    "float32": "float", "float64": "double", "bool": "bool", "float16": "uint16_t", "bfloat16": "uint16_t",
    "complex64": "tc_complex64", "complex128": "tc_complex128",
}  # fmt: skip
# Of C and C++, and usual macros.
_WORDS = """
    alignas alignof and asm auto bool break case catch char class compl concept const continue decltype
    default delete do double else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not nullptr operator or private protected public register requires restrict
    return short signed sizeof static struct switch template this throw true try typedef typeid typename union
    unsigned using virtual void volatile while xor
    I NULL EOF errno stdin stdout stderr linux unix
"""
_RESERVED = frozenset(_WORDS.split())
_BINARY = {
    x.Add: "+", x.Sub: "-", x.Mul: "*", x.EQ: "==", x.NE: "!=", x.LT: "<", x.LE: "<=", x.GT: ">", x.GE: ">=",
    x.And: "&&", x.Or: "||",
}  # fmt: skip
_CALLS = {x.FloorDiv: "floordiv", x.FloorMod: "floormod", x.Min: "least", x.Max: "greatest"}
_MATH = re.compile(r"^static inline (double|float) (tc_\w+)\(([^)]*)\) \{", re.M)


def export_c(
    kernel: Any,
    path: str | os.PathLike[str],
    sizes: Sizes | Sequence[Sizes] = (),
    *,
    isa: str | Sequence[str] = (),
    types: Types | Sequence[Types] = (),
) -> tuple[Path, Path]:
    """Write `path` + ".h" and `path` + ".so", and return both: a function that C and C++ call with DLPack's
    tensors.  Results are buffers that the caller passes.

    The other arguments are those of `export`, of one binding of type variables.  Raises ArgumentError, code
    TC0516, where a file cannot be written, and BackendError, code TC0831, without a C++ compiler.
    """
    first, found = collect(kernel, sizes, isa=isa or "host", types=types, buffers=True)
    if len(found.instances) != 1:
        raise ArgumentError(
            f"a C function has one type for each argument, and {first.name} is asked for in several",
            code="TC0511",
            help="export each of the types to files of its own",
        )
    objects = {e.symbol: e.code for group in found.objects.values() for e in group}
    base = Path(path)
    header, library = base.with_name(base.name + ".h"), base.with_name(base.name + ".so")
    interface = Interface(function_name(first.name), first.front.checked.span.text, found.instances[0])
    imports = {s for code in objects.values() for s in llvm_jit.undefined_symbols(code)}
    with tempfile.TemporaryDirectory(prefix="tc-c-") as folder:
        Path(folder, "interface.h").write_text(interface.header(), encoding="utf-8")
        Path(folder, "interface.cpp").write_text(interface.source(imports), encoding="utf-8")
        for symbol, code in objects.items():
            Path(folder, f"{symbol}.o").write_bytes(code)
        shown = f"{interface.name}; {interface.name}_error;"
        Path(folder, "symbols").write_text(f"{{ global: {shown} local: *; }};\n", encoding="utf-8")
        parts = ("arena", "pages", *(("pool",) if "tc_parallel_for" in imports else ()))
        sources = [str(_NATIVE / f"{n}.cpp") for n in parts]
        command = [
            *(_compiler(), "-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-ffp-contract=off"),
            *("-static-libstdc++", "-static-libgcc", "-Wl,--version-script=symbols,-z,now,-z,nodelete"),
            *("-Wl,-z,noexecstack,-s", "-o", "library.so", "interface.cpp", *sources),
            *(f"{s}.o" for s in objects),
            "-lm",
        ]
        run_tool(command, folder)
        try:
            header.write_text(interface.header(), encoding="utf-8")
            shutil.copyfile(Path(folder, "library.so"), library)
            library.chmod(0o755)
        except OSError as e:
            raise ArgumentError(f"{e.filename or library}: {e.strerror or e}", code="TC0516") from None
    return header, library


def _compiler() -> str:
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise BackendError(
        "there is no C++ compiler, which makes the shared object of a C interface",
        code="TC0831",
        help="install one: apt-get install g++, dnf install gcc-c++",
    )


def function_name(name: str) -> str:
    """The name of the function for a def: `tc_` and its name."""
    plain = "tc_" + re.sub(r"\W", "_", name, flags=re.ASCII)
    taken = {*_native.symbols(), "tc_complex64", "tc_complex128", "tc_task"}
    return f"{plain}_" if plain in taken else plain


def argument_name(name: str) -> str:
    """A name for an argument in the header."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{plain}_" if plain in _RESERVED else plain


def expression(e: Expr, names: Mapping[str, str]) -> str:
    """An index expression in C, of 64-bit integers; `names` are those of variables."""
    match e:
        case x.IntImm() | x.UIntImm():
            return f"INT64_C({e.value})" if e.value >= 0 else f"(-INT64_C({-e.value}))"
        case x.Variable():
            return names[e.name]
        case x.Not():
            return f"(!{expression(e.a, names)})"
        case x.Select():
            return (
                "("
                + " ? ".join([expression(e.condition, names), expression(e.true_value, names)])
                + (f" : {expression(e.false_value, names)})")
            )
        case _:
            a, b = (expression(c, names) for c in x.children(e))
            operator = _BINARY.get(type(e))  # type: ignore[call-overload]
            return f"({a} {operator} {b})" if operator else f"{_CALLS[type(e)]}({a}, {b})"  # type: ignore[index]


def quoted(text: str) -> str:
    """A text as a literal of C, which printf may take as its format."""

    def escaped(c: str) -> str:
        return c if " " <= c <= "~" and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode())

    return f'"{"".join(map(escaped, text.replace("%", "%%")))}"'


class Interface:
    """The header and the source of a function for the kernels of a def."""

    def __init__(self, name: str, definition: str, instance: Instance) -> None:
        self.name, self.definition, self.instance = name, definition, instance
        every = (*instance.signature.params, *instance.signature.outputs)
        self.arguments = {p.name: f"a{k}" for k, p in enumerate(every)}  # in the source
        self.size = {n: f"s[{k}]" for k, n in enumerate(instance.sizes)}

    def header(self) -> str:
        guard = f"{self.name.upper()}_H"
        text = self.definition.replace("*/", "* /").replace("\n", "\n * ")
        kernels = "".join(f" *   {_sizes_of(k)}\n" for k in _unique(self.instance.kernels))
        results = ", ".join(o.name for o in self.instance.signature.outputs)
        return (
            f"/* Written by tc {__version__}.\n *\n * {text}\n *\n * For\n{kernels} *\n"
            " * Tensors are dense, row-major and in host memory.  Results are written to buffers of their\n"
            f" * shapes that share no memory with others: {results}.  Several threads may call it.\n */\n"
            f"#ifndef {guard}\n#define {guard}\n\n{DECLARATIONS}\n"
            '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
            f"/* Returns TC_OK or what went wrong, of which {self.name}_error() is a text. */\n"
            f"{self.declaration({n: argument_name(n) for n in self.arguments})};\n\n"
            "/* The message of the last call on this thread that failed. */\n"
            f"const char *{self.name}_error(void);\n\n"
            f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n"
        )

    def declaration(self, names: Mapping[str, str]) -> str:
        """The function with these names of its arguments."""
        parts: list[str] = []
        for p in self.instance.signature.params:
            kind = _scalar_type(p.dtype) if p.scalar else "const DLTensor *"
            parts.append(f"{kind}{'' if kind.endswith('*') else ' '}{names[p.name]}")
        parts += [f"const DLTensor *{names[o.name]}" for o in self.instance.signature.outputs]
        return f"int {self.name}({', '.join(parts)})"

    def source(self, imports: set[str]) -> str:
        used = ("arena", "fpmode", "interrupt", "pool")
        includes = "".join(f'#include "{_NATIVE / f"{n}.h"}"\n' for n in used)
        kernels = "\n".join(self.kernel(k, one) for k, one in enumerate(self.instance.kernels))
        return (
            f'#include "interface.h"\n{includes}{RUNTIME}{SIGNALS}{_mathematics(imports)}{self.symbols()}\n'
            f"namespace {{\n\n{kernels}\n}}  // namespace\n\n"
            'extern "C" __attribute__((visibility("default"))) const char *'
            f"{self.name}_error(void) {{ return message; }}\n\n{self.function()}"
        )

    def symbols(self) -> str:
        """Declarations of the kernels' functions."""
        names = [t.symbol for k in self.instance.kernels for t in k.targets]
        return "".join(f'extern "C" int32_t {n}(void *const *);\n' for n in names)

    def kernel(self, number: int, k: Kernel) -> str:
        """A function that runs a kernel at sizes `s` on the arguments."""
        codes: list[str] = []
        sizes: list[str] = []
        for t in k.targets:
            bits = sum(1 << FEATURES.index(r) for r in t.requires)
            codes.append(f"{{UINT64_C({bits:#x}), {t.symbol}}}")
            sizes.append(f"static_cast<size_t>({expression(from_json(t.facts['workspace']), self.size)})")
        dynamic = ", ".join(self.size[n] for n in k.dynamic) or "0"
        workspaces = ", ".join(sizes)
        body = [
            f"int run_{number}(void **args, size_t count, const int64_t *s) {{",
            "  (void)s;",
            f"  static const Code codes[] = {{{', '.join(codes)}}};",
            f"  const size_t workspaces[] = {{{workspaces}}};",
            f"  int64_t dynamic[] = {{{dynamic}}}, error[32] = {{}};",
            "  static const uint64_t here = features();",
            "  size_t at = 0;",
            f"  while (at < {len(codes)} && (codes[at].required & ~here)) at++;",
            f"  if (at == {len(codes)})",
            f"    return fail(TC_OTHER_PROCESSOR, {quoted(_no_code(k))});",
            "  tc::Workspace workspace(workspaces[at]);",
            '  if (workspace.failed()) return fail(TC_NO_MEMORY, "no memory for temporaries");',
            "  args[count] = error;",
            "  args[count + 1] = workspace.data();",
            "  args[count + 2] = dynamic;",
            "  tc::StandardFpMode mode;",
            "  if (codes[at].function(args) == 0) return TC_OK;",
            *self.failed(k.checked),
            "}",
        ]
        return "\n".join(body) + "\n"

    def failed(self, checked: Sequence[Checked]) -> Iterator[str]:
        """Statements that say which index was out of range."""
        yield "  int64_t along = error[2] >= 0 && error[2] < 28 ? error[3 + error[2]] : 0;"
        yield "  (void)along;"
        yield "  switch (error[0] - 1) {"
        for number, c in enumerate(checked):
            if c.box is None:
                continue
            yield f"    case {number}: {{"
            lows = ", ".join(expression(r.min, self.size) for r in c.box)
            ends = ", ".join(expression(x.Add(r.min, r.extent), self.size) for r in c.box)
            yield f"      const int64_t low[] = {{{lows}}}, end[] = {{{ends}}};"
            where = ", ".join(f"{quoted(n)[1:-1]} = %lld" for n in c.site.variables)
            tail = f", at {where}" if where else ""
            points = "".join(f", (long long)error[{3 + k}]" for k in range(len(c.site.variables)))
            tensor = quoted(c.site.tensor)[1:-1]
            yield (
                f'      return fail(TC_OUT_OF_RANGE, "index %lld is out of range for dimension %lld of '
                f"'{tensor}' (%lld to %lld){tail}\", (long long)error[1], (long long)along, "
                f"(long long)low[along], (long long)end[along] - 1{points});"
            )
            yield "    }"
        yield "  }"
        yield '  return fail(TC_OUT_OF_RANGE, "an index is out of range");'

    def function(self) -> str:
        signature = self.instance.signature
        tensors = [p for p in signature.params if not p.scalar]
        declared = self.declaration(self.arguments)
        out = [f'extern "C" __attribute__((visibility("default"))) {declared} {{', "  int status;"]
        arrays = [*(p.name for p in tensors), *(o.name for o in signature.outputs)]
        out.append(f"  Array arrays[{len(arrays)}];")
        out.append(f"  int64_t s[{max(1, len(self.size))}] = {{}};")
        out.append(f"  const char *from[{max(1, len(self.size))}] = {{}};")
        out += ["  (void)s;", "  (void)from;"]
        for k, p in enumerate(tensors):
            out += self.read(k, p, len(p.dims), p.any_integer)
            for d, dim in enumerate(p.dims):
                extent = f"{self.arguments[p.name]}->shape[{d}]"
                if isinstance(dim, int):
                    text = quoted(f"dimension {d} of {p.name} is ")[:-1]
                    out.append(f"  if ({extent} != {dim})")
                    out.append(
                        f'    return fail(TC_BAD_ARGUMENT, {text}%lld, but is declared as {dim}", '
                        f"(long long){extent});"
                    )
                else:
                    at = self.instance.sizes.index(dim)
                    out.append(
                        f"  if ((status = bind_size(&s[{at}], {quoted(dim)}, &from[{at}], "
                        f"{quoted(p.name)}, {d}, {extent}))) return status;"
                    )
        for k, o in enumerate(signature.outputs, len(tensors)):
            out += self.read(k, o, o.ndim, False)
        for k, name in enumerate(arrays[len(tensors) :], len(tensors)):
            for j, other in enumerate(arrays[:k]):
                out.append(
                    f"  if ((status = check_apart(arrays[{k}], {quoted(name)}, arrays[{j}], "
                    f"{quoted(other)}))) return status;"
                )
        out += self.pointers(arrays)
        for number, k in enumerate(self.instance.kernels):
            out += self.choice(number, k)
        out += self.unmet()
        out.append(f"  return fail(TC_NO_KERNEL, {self.absent()});")
        return "\n".join(out) + "\n}\n"

    def read(self, at: int, p: Param | Output, rank: int, any_integer: bool) -> Iterator[str]:
        code, bits = dlpack_type(p.dtype)
        wanted = "an integer type" if any_integer else str(p.dtype)
        name = quoted(p.name)
        yield (
            f"  if ((status = read_tensor({self.arguments[p.name]}, {name}, {code}, {bits}, "
            f'{str(any_integer).lower()}, {rank}, "{wanted}", &arrays[{at}]))) return status;'
        )

    def pointers(self, arrays: Sequence[str]) -> Iterator[str]:
        """The arguments of kernels: addresses of tensors and of scalars."""
        signature = self.instance.signature
        every = [*signature.params, *signature.outputs]
        given = [
            f"&{self.arguments[p.name]}"
            if isinstance(p, Param) and p.scalar
            else f"arrays[{arrays.index(p.name)}].data"
            for p in every
        ]
        yield f"  void *args[{len(given) + 3}] = {{{', '.join(given)}}};"

    def choice(self, number: int, k: Kernel) -> Iterator[str]:
        """Statements that run a kernel, if it is for this call."""
        conditions = [f"{self.size[n]} == {v}" for n, v in k.sizes.items()]
        conditions += [f"{self.arguments[n]} == {v}" for n, v in k.scalars.items()]
        for p in self.instance.signature.params:
            if p.any_integer:
                code, bits = dlpack_type(k.integers.get(p.name, p.dtype))
                t = self.arguments[p.name]
                conditions += [f"{t}->dtype.code == {code}", f"{t}->dtype.bits == {bits}"]
        conditions += [f"{self.size[n]} <= INT32_MAX" for n in k.dynamic if not k.wide]
        yield f"  if ({' && '.join(conditions) or 'true'}) {{"
        yield from ("  " + line for line in self.unmet() if k.dynamic)
        for o in self.instance.signature.outputs:
            for d, e in enumerate(k.shapes[o.name]):
                extent = f"{self.arguments[o.name]}->shape[{d}]"
                wanted = f"greatest(0, {expression(e, self.size)})"
                text = quoted(f"dimension {d} of the buffer for {o.name} is ")[:-1]
                yield f"    if ({extent} != {wanted})"
                yield (
                    f'      return fail(TC_BAD_ARGUMENT, {text}%lld, and %lld of the result", '
                    f"(long long){extent}, (long long){wanted});"
                )
        count = len(self.instance.signature.params) + len(self.instance.signature.outputs)
        yield f"    return run_{number}(args, {count}, s);"
        yield "  }"

    def unmet(self) -> Iterator[str]:
        """Statements that refuse sizes that the program rules out."""
        for scalars, requirements in self.instance.requirements:
            known = [f"{self.size.get(n) or self.arguments[n]} == {v}" for n, v in scalars.items()]
            for r in requirements:
                yield f"  if ({' && '.join([*known, self.unmet_condition(r)])})"
                text = quoted(f"{r.reason}: the sizes must satisfy {r.shown}")
                yield f"    return fail(TC_BAD_SIZES, {text});"

    def unmet_condition(self, r: Requirement) -> str:
        names = {**self.size, **{n: f"(int64_t){a}" for n, a in self.arguments.items() if n not in self.size}}
        return f"!{expression(r.condition, names)}"

    def absent(self) -> str:
        """The arguments of `fail` where no kernel is for a call."""
        shown = [f"{n} = %lld" for n in self.instance.sizes]
        values = [f", (long long){self.size[n]}" for n in self.instance.sizes]
        for p in self.instance.signature.params:
            if p.specialized:
                shown.append(f"{p.name} = %lld")
                values.append(f", (long long){self.arguments[p.name]}")
        what = f"no kernel was exported for {', '.join(shown)} and these types"
        return f'"{what}"{"".join(values)}'


def _scalar_type(dtype: DType) -> str:
    return _SCALARS.get(dtype.name, f"{dtype.name}_t")


def _unique(kernels: Sequence[Kernel]) -> list[Kernel]:
    return list({_sizes_of(k): k for k in kernels}.values())


def _sizes_of(k: Kernel) -> str:
    parts = [f"{n} = {v}" for n, v in {**k.sizes, **k.scalars}.items()]
    return ", ".join([*parts, *(f"any {n}" for n in k.dynamic)]) or "all calls"


def _no_code(k: Kernel) -> str:
    return f"this processor has none of {', '.join(t.name for t in k.targets)}"


def _mathematics(imports: set[str]) -> str:
    """Definitions of the functions of tc/native/math.h that kernels call."""
    header = _NATIVE / "math.h"
    wrappers: list[str] = []
    for kind, name, params in _MATH.findall(header.read_text(encoding="utf-8")):
        if name in imports:
            count = len(params.split(","))
            given = ", ".join(f"{kind} x{k}" for k in range(count))
            passed = ", ".join(f"x{k}" for k in range(count))
            wrappers.append(
                f'extern "C" __attribute__((visibility("hidden"))) {kind} {name}({given}) '
                f"{{ return mathematics::{name}({passed}); }}\n"
            )
    if not wrappers:
        return ""
    return f'#include <math.h>\nnamespace mathematics {{\n#include "{header}"\n}}\n{"".join(wrappers)}'

"""Accuracy and speed of tc.codegen.vector_math: the tables of docs/numerics.md.

For every function, type and target: the largest error seen, in units in the last place of the true value, and
nanoseconds per element on 4096 elements in cache, one thread.  References: NumPy and SciPy one precision up;
for float64 x87 long doubles, and for the error functions mpmath where it is installed, else libm.  The tests
use the same machinery.  There is no column of memory: these functions have none but registers.

    python -m benchmarks.vector_math [--count N] [--functions NAME,…] [--no-save]
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import scipy.special

from benchmarks.record import save, saved
from tc.codegen import llvm_jit, vector_math
from tc.dtypes import FLOAT32, FLOAT64, DType

Array = np.ndarray[Any, Any]
LONG = np.longdouble


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor to generate code for, and what vector_math is told of it."""

    name: str
    cpu: str
    bits: int
    needs: str  # the feature this machine has to have to run it
    fma: bool = False
    avx512: bool = False


MACHINES = (
    Machine("avx512", "x86-64-v4", 512, "avx512dq", fma=True, avx512=True),
    Machine("avx2", "x86-64-v3", 256, "fma", fma=True),
    Machine("sse4.2", "x86-64-v2", 128, "sse4.2"),
)


def available() -> list[Machine]:
    llvm_jit.host_cpu()  # initialises LLVM
    features = llvm.get_host_cpu_features()
    return [m for m in MACHINES if features.get(m.needs, False)]


def loop(function: str, symbol: str, lanes: int, elements: Sequence[str]) -> str:
    """A function that maps arrays (addresses, then the result's, then the length) by `function`; the last of
    `elements` is the result's type."""
    lines: list[str] = []
    args: list[str] = []
    types = [e if lanes == 1 else f"<{lanes} x {e}>" for e in elements]
    sizes = {"float": 4, "double": 8, "i16": 2}
    for i, (e, ty) in enumerate(zip(elements[:-1], types, strict=False)):
        lines.append(f"  %p{i} = getelementptr {e}, ptr %a{i}, i64 %i")
        lines.append(f"  %x{i} = load {ty}, ptr %p{i}, align {sizes[e]}")
        args.append(f"{ty} %x{i}")
    parameters = "".join(f"ptr noalias %a{i}, " for i in range(len(args)))
    body = "\n".join(lines)
    return f"""
define void @{symbol}({parameters}ptr noalias %o, i64 %n) nounwind {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{body}
  %r = call {types[-1]} @{function}({", ".join(args)})
  %q = getelementptr {elements[-1]}, ptr %o, i64 %i
  store {types[-1]} %r, ptr %q, align {sizes[elements[-1]]}
  %j = add i64 %i, {lanes}
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


class Library:
    """Loops over many functions, in one module."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.parts: list[str] = []
        self.shared: dict[str, str] = {}
        self.declarations: set[str] = set()
        self.arities: dict[str, int] = {}
        self.calls: dict[str, Any] = {}

    def add(self, name: str, dtype: DType, lanes: int) -> None:
        m = self.machine
        f = vector_math.vector_function(name, dtype, lanes, fma=m.fma, avx512=m.avx512)
        assert f is not None
        element = "float" if dtype == FLOAT32 else "double"
        self.insert(f, f"{name}.{dtype}.{lanes}", lanes, [element] * (vector_math.arity(name) + 1))

    def insert(self, f: vector_math.VectorFunction, key: str, lanes: int, elements: Sequence[str]) -> None:
        self.shared.update(f.functions)
        self.declarations |= f.declarations
        symbol = "run_" + key.replace(".", "_")
        self.parts += [f.text, loop(f.symbol, symbol, lanes, elements)]
        self.arities[symbol] = len(elements) - 1

    def text(self) -> str:
        return "\n".join([*self.parts, *self.shared.values(), *sorted(self.declarations)])

    def compile(self) -> None:
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(
            cpu=self.machine.cpu, features="", opt=1, jit=True, codemodel="jitdefault"
        )
        module = llvm.parse_assembly(self.text())
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.run(module, builder)
        self.engine = llvm_jit.engine_of(module, machine)
        self.engine.finalize_object()
        for symbol, arity in self.arities.items():
            prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)
            self.calls[symbol] = prototype(self.engine.get_function_address(symbol))

    def run(self, key: str, *args: Array, result: Any = None) -> Array:
        """The function of all elements: as many as the most lanes divide, at least."""
        n = len(args[0])
        padded = [np.concatenate([a, np.ones(-n % 16, a.dtype)]) for a in args]
        out = np.empty(len(padded[0]), result or args[0].dtype)
        self.calls["run_" + key.replace(".", "_")](
            *[p.ctypes.data for p in padded], out.ctypes.data, len(out)
        )
        return out[:n]

    def nanoseconds(self, key: str, *args: Array, rounds: int = 9, repeats: int = 200) -> float:
        """Per element, the best of `rounds`."""
        out = np.empty_like(args[0])
        call = self.calls["run_" + key.replace(".", "_")]
        given = [*(a.ctypes.data for a in args), out.ctypes.data, len(out)]
        best = float("inf")
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(repeats):
                call(*given)
            best = min(best, time.perf_counter() - start)
        return best / repeats / len(out) * 1e9


def ulps(got: Array, true: Array) -> Array:
    """Errors in units in the last place of `true`, which is of a higher precision; infinite where a NaN, an
    infinity or the sign of a zero is wrong.  The largest number may round to infinity."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        wide = np.float64 if got.dtype == np.float32 else LONG
        g, t = got.astype(wide), true.astype(wide)
        magnitude = np.abs(t)
        regular = (magnitude > 0) & np.isfinite(magnitude)
        _, exponent = np.frexp(np.where(regular, magnitude, 1))
        place = np.clip(exponent - 1, info.minexp, info.maxexp - 1) - info.nmant
        error = np.abs(g - t) / np.ldexp(wide(1), place)
        rounded = true.astype(got.dtype)
        infinite = np.isinf(rounded) | np.isinf(got)
        near = np.isinf(got) & (magnitude >= wide(info.max)) & (np.signbit(g) == np.signbit(t))
        error = np.where(infinite, np.where((got == rounded) | near, 0, np.inf), error)
        error = np.where((g == 0) & (np.signbit(g) != np.signbit(t)), np.inf, error)
        error = np.where((t == 0) & (g != 0), np.inf, error)
        nan = np.isnan(t)
        return np.where(nan & np.isnan(g), 0, np.where(nan != np.isnan(g), np.inf, error))


def same_bits(a: Array, b: Array) -> bool:
    """Equal to the bit, except that all NaNs are equal."""
    unsigned = f"u{a.dtype.itemsize}"
    return bool(((a.view(unsigned) == b.view(unsigned)) | (np.isnan(a) & np.isnan(b))).all())


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _libm(name: str) -> Callable[[Array], Array]:
    """libm's long double function of float64 numbers, rounded to float64."""
    f = getattr(ctypes.CDLL(None), name)
    f.argtypes, f.restype = [ctypes.c_longdouble], ctypes.c_longdouble
    return lambda x: np.array([float(f(float(v))) for v in x]).astype(LONG)


def _mpmath(name: str) -> Callable[[Array], Array]:
    import mpmath

    mpmath.mp.prec = 160

    def normcdf(x: Any) -> Any:
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    f = {"erf": mpmath.erf, "erfc": mpmath.erfc, "normcdf": normcdf}[name]
    limit = {"erf": (-1, 1), "erfc": (2, 0), "normcdf": (0, 1)}[name]

    def value(v: float) -> Any:
        if v != v or (v == 0 and name == "erf"):
            return LONG(v)
        if abs(v) > 100:
            return LONG(limit[v > 0])
        if abs(v) < 1e-30 and name != "erf":
            return LONG(1 if name == "erfc" else 0.5)
        return LONG(mpmath.nstr(f(mpmath.mpf(v)), 25))

    return lambda x: np.array([value(float(v)) for v in x], dtype=LONG)


def _normcdf(x: Array) -> Array:
    """From libm's erfc of the rounded argument and its derivative times the rounding error."""
    exact = -x.astype(LONG) * np.sqrt(LONG(0.5))
    argument = exact.astype(np.float64)
    rest = np.where(np.isfinite(argument), exact - argument, 0)
    slope = -2 / np.sqrt(LONG(np.pi)) * np.exp(-(argument.astype(LONG) ** 2))
    return np.maximum(_libm("erfcl")(argument) + rest * slope, 0) / 2  # erfcl's result has underflowed


def references(dtype: DType, *, thorough: bool = False) -> dict[str, Callable[..., Array]]:
    """Functions of arrays of the next higher precision: float64, or long double.  The error functions of
    float64 are slow."""
    common: dict[str, Callable[..., Array]] = {
        "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: LONG(10) ** x.astype(LONG), "expm1": np.expm1,
        "sigmoid": _sigmoid, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "log": np.log,
        "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
        "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
        "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
        "cbrt": np.cbrt, "rcbrt": lambda x: 1 / np.cbrt(x), "rsqrt": lambda x: 1 / np.sqrt(x),
        "atan2": np.arctan2, "hypot": np.hypot, "pow": np.power,
        "minimum": lambda x, y: np.where(np.isnan(x) | (x < y), x, y),
        "maximum": lambda x, y: np.where(np.isnan(x) | (x > y), x, y),
        "fdim": lambda x, y: np.where(x <= y, np.zeros_like(x), x - y),
    }  # fmt: skip
    if dtype == FLOAT32:
        special = {"erf": scipy.special.erf, "erfc": scipy.special.erfc, "normcdf": scipy.special.ndtr}
    elif thorough and importlib.util.find_spec("mpmath"):
        special = {n: _mpmath(n) for n in ("erf", "erfc", "normcdf")}
    else:
        special = {"erf": _libm("erfl"), "erfc": _libm("erfcl"), "normcdf": _normcdf}
    return {**common, **special}


def specials(dtype: DType) -> Array:
    """Numbers at which something happens."""
    t = np.float32 if dtype == FLOAT32 else np.float64
    info = np.finfo(t)
    half = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 10.0, 100.0, 2.0**24, 2.0**53, 2.0**24 - 1, np.inf]
    positive = np.array([*half, info.tiny, info.smallest_subnormal, info.max, np.pi / 2, np.pi], t)
    near = np.nextafter(np.array([1.0, 1.0, 0.5, info.tiny], t), np.array([0.0, 2.0, 0.0, 0.0], t))
    return np.concatenate([positive, near, -positive, -near, np.array([np.nan], t)])


def samples(dtype: DType, count: int, seed: int = 0) -> Array:
    """Bit patterns of all exponents, about `count` of them, and as many numbers in a few ranges."""
    rng = np.random.default_rng(seed)
    if dtype == FLOAT32:
        step = max(1, 2**32 // count) | 1
        patterns = np.arange(0, 2**32, step, np.int64).astype(np.uint32).view(np.float32)
        ends, t = 110.0, np.float32
    else:
        patterns = rng.integers(0, 2**64, count, np.uint64).view(np.float64)
        ends, t = 760.0, np.float64
    ranges = [rng.uniform(-end, end, count // 3) for end in (ends, 2, 40)]
    turns = np.arange(-500, 500) * (np.pi / 4)  # where sin, cos and tan lose their leading digits
    return np.concatenate([patterns, *(r.astype(t) for r in [*ranges, turns]), specials(dtype)])


def pairs(dtype: DType, count: int, seed: int = 1) -> tuple[Array, Array]:
    """Operands of two-argument functions, half of them such that x^y is finite."""
    rng = np.random.default_rng(seed)
    t = np.float32 if dtype == FLOAT32 else np.float64
    ends = 90.0 if dtype == FLOAT32 else 705.0
    x = np.exp(rng.uniform(-ends, ends, count))
    y = rng.uniform(-1.1 * ends, 1.05 * ends, count) / np.log(x)
    y = np.where(rng.random(count) < 0.5, y, np.round(y))
    x *= np.where(rng.random(count) < 0.2, -1, 1)
    s, patterns = specials(dtype), samples(dtype, count)[:count]
    near = rng.uniform(0.5, 2, count)
    many = rng.uniform(-1000, 1000, count)
    left = [x, near, near, np.repeat(s, len(s)), patterns]
    right = [y, many, rng.permutation(near), np.tile(s, len(s)), rng.permutation(patterns)]
    with np.errstate(over="ignore"):
        return np.concatenate([v.astype(t) for v in left]), np.concatenate([v.astype(t) for v in right])


def operands(name: str, dtype: DType, count: int) -> tuple[Array, ...]:
    if vector_math.arity(name) == 2:
        return pairs(dtype, count)
    if dtype == FLOAT64 and name in ("erf", "erfc", "normcdf"):
        count = min(count, 5000)
        rng = np.random.default_rng(5)
        return (np.concatenate([samples(dtype, count), rng.uniform(-7, 7, 2 * count)]),)
    return (samples(dtype, count),)


def truth(reference: Callable[..., Array], dtype: DType, args: Sequence[Array]) -> Array:
    wide = np.float64 if dtype == FLOAT32 else LONG
    with np.errstate(all="ignore"):
        return reference(*[a.astype(wide) for a in args])


def names(dtype: DType) -> list[str]:
    return [n for n in references(dtype) if vector_math.supported(n, dtype)]


def _torch_times(functions: Sequence[str], args: Sequence[Array]) -> dict[str, float]:
    """Nanoseconds per element of PyTorch's functions on one thread; empty without PyTorch."""
    if not importlib.util.find_spec("torch"):
        return {}
    import torch

    torch.set_num_threads(1)
    x, y = (torch.from_numpy(a) for a in args)
    out: dict[str, float] = {}
    result = torch.empty_like(x)
    for name in functions:
        f: Any = getattr(torch, name, None) or getattr(torch.special, name, None)
        f = {"normcdf": torch.special.ndtr}.get(name, f)
        if f is None:
            continue
        operands = (x, y) if vector_math.arity(name) == 2 else (x,)
        best = float("inf")
        for _ in range(9):
            start = time.perf_counter()
            for _ in range(50):
                f(*operands, out=result)
            best = min(best, time.perf_counter() - start)
        out[name] = best / 50 / len(x) * 1e9
    return out


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.vector_math",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--count", type=int, default=1 << 20, help="bit patterns of each type (default: 2^20)"
    )
    parser.add_argument("--functions", default="", help="comma-separated (default: all)")
    parser.add_argument(
        "--save",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write benchmarks/results/vector_math.json",
    )
    given = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    rng = np.random.default_rng(0)
    machines = available()
    for dtype in (FLOAT32, FLOAT64):
        chosen = given.functions.split(",") if given.functions else names(dtype)
        refs = references(dtype, thorough=True)
        t = np.float32 if dtype == FLOAT32 else np.float64
        timed = (rng.uniform(0.1, 5, 4096).astype(t), rng.uniform(0.1, 5, 4096).astype(t))
        torch_times = _torch_times(chosen, timed)
        libraries: list[tuple[Machine, int, Library]] = []
        for machine in machines:
            lanes = machine.bits // dtype.bits
            library = Library(machine)
            for name in chosen:
                library.add(name, dtype, lanes)
            library.compile()
            libraries.append((machine, lanes, library))
        heads = [f"{m.name} {what}" for what in ("ulp", "ns") for m in machines]
        print(f"\n| {dtype} | {' | '.join(heads)} | PyTorch ns |")
        print("|---|" + "---|" * (2 * len(machines) + 1))
        for name in chosen:
            args = operands(name, dtype, given.count)
            true = truth(refs[name], dtype, args)
            errors: list[float] = []
            times: list[float] = []
            for _, lanes, library in libraries:
                key = f"{name}.{dtype}.{lanes}"
                errors.append(float(ulps(library.run(key, *args), true).max()))
                times.append(library.nanoseconds(key, *timed[: vector_math.arity(name)]))
            torch_time = f"{torch_times[name]:.2f}" if name in torch_times else ""
            print(f"| {name} | {' | '.join(f'{v:.2f}' for v in errors + times)} | {torch_time} |", flush=True)
            rows.append(
                {
                    "function": name,
                    "dtype": str(dtype),
                    "ulp": {m.name: e for m, e in zip(machines, errors)},
                    "ns": {m.name: t for m, t in zip(machines, times)},
                    "torch_ns": torch_times.get(name),
                }
            )
    if given.save:
        # Functions that did not run keep what they had.
        done = {(r["function"], r["dtype"]) for r in rows}
        before = [r for r in saved("vector_math") if (r["function"], r["dtype"]) not in done]
        print(f"written to benchmarks/results/{save('vector_math', before + rows).name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

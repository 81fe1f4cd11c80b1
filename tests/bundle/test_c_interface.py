"""The C interface: a C++ program that calls kernels, and calls from here that are right or wrong."""

from __future__ import annotations

import ctypes
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.bundle import c_interface, c_text, processor
from tc.ir import expr as x
from tc.ir.evaluate import evaluate
from tc.runtime.arrays import dlpack_type, view

# Parallel, with temporaries, a function of this project, a scalar, an index, sizes of which one is dynamic, a
# result that starts from the caller's values, a size that the program rules out.
SOURCE = """
def look(float(N,D) T, int(M) I, float a, float(E) more) -> (y, total) {
    t(m,d) = a * T(I(m),d) + sigmoid(T(I(m),d))
    y(m,d) = t(m,d) + t((m * 7) % M,d) + more(m + 2) where m in 0:M
    total(d) += t(m,d)
}
"""
FIXED = {"N": 60, "D": 96, "M": 300}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[tc.Kernel, Path, Path]:
    """The kernel, and the header and the shared object that it was exported to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(SOURCE, "cpu", dynamic=("E",))
        base = tmp_path_factory.mktemp("c") / "look"
        header, library = kernel.export_c(
            base,
            FIXED,
            isa="host,sse4.2",
            types=[{"I": "int32"}, {"I": "int64"}],
        )
    return kernel, header, library


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


def tensor(a: Any, **fields: Any) -> Any:
    """A tensor of DLPack on an array's memory, some fields of which are others."""
    code, bits = dlpack_type(view(a, "a").dtype)
    words = ctypes.c_int64 * max(1, a.ndim)
    strides = words(*(n // a.itemsize for n in a.strides))
    made = DLTensor(a.ctypes.data, 1, 0, a.ndim, code, bits, 1, words(*a.shape), strides, 0)
    for name, value in fields.items():
        setattr(made, name, value)
    made.keep = a
    return ctypes.byref(made)


class Function:
    def __init__(self, library: Path, name: str) -> None:
        loaded = ctypes.CDLL(str(library))
        self.run, self.error = getattr(loaded, name), getattr(loaded, f"{name}_error")
        self.error.restype = ctypes.c_char_p

    def __call__(self, *args: Any) -> tuple[int, str]:
        status = self.run(*args)
        return status, self.error().decode()


def arguments(n: int, d: int, m: int, e: int, index: Any = np.int32) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    table, more = (rng.standard_normal(s).astype(np.float32) for s in ((n, d), (e,)))
    return table, rng.integers(0, n, m).astype(index), 0.5, more


def expected(kernel: tc.Kernel, args: tuple[Any, ...]) -> tuple[Any, ...]:
    table, index, *_ = args
    outs = {
        "y": np.empty((len(index), table.shape[1]), np.float32),
        "total": np.ones(table.shape[1], np.float32),
    }
    return tuple(kernel(*args, out=outs))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_results_are_those_of_the_kernel(index: Any, files: tuple[tc.Kernel, Path, Path]) -> None:
    kernel, _, library = files
    call = Function(library, "tc_look")
    for shape in ((60, 96, 300, 302), (60, 96, 300, 1000)):
        table, ids, a, more = args = arguments(*shape, index)
        y, total = np.empty((shape[2], shape[1]), np.float32), np.ones(shape[1], np.float32)
        given = (tensor(table), tensor(ids), ctypes.c_float(a), tensor(more), tensor(y), tensor(total))
        assert call(*given) == (0, "")
        for found, want in zip((y, total), expected(kernel, args), strict=True):
            np.testing.assert_array_equal(found, want)


def test_wrong_calls_are_refused(files: tuple[tc.Kernel, Path, Path]) -> None:
    kernel, _, library = files
    call = Function(library, "tc_look")
    table, ids, a, more = args = arguments(60, 96, 300, 302)
    y, total = np.empty((300, 96), np.float32), np.ones(96, np.float32)

    def outcome(*given: Any, at: int | None = None, other: Any = None) -> tuple[int, str]:
        every = [tensor(table), tensor(ids), ctypes.c_float(a), tensor(more), tensor(y), tensor(total)]
        if at is not None:
            every[at] = other
        return call(*every)

    wide = np.zeros((60, 192), np.float32)
    odd = np.zeros(4 * table.size + 2, np.uint8)[2:].view(np.float32)[: table.size].reshape(table.shape)
    wrong = {
        (0, None, "T is null"): 1,
        (0, tensor(table, device_type=2), "T is on a device of DLPack type 2"): 1,
        (
            0,
            tensor(table.astype(np.float64)),
            "T: expected float32, found elements of DLPack type 2",
        ): 1,
        (0, tensor(table, lanes=2), "in 2 lanes"): 1,
        (0, tensor(table[0]), "T: expected 2 dimensions, got 1"): 1,
        (0, tensor(wide[:, ::2]), "T is not dense and row-major"): 1,
        (0, tensor(table, data=None), "T has no memory"): 1,
        (0, tensor(odd), "T is not aligned"): 1,
        (1, tensor(ids.astype(np.float32)), "I: expected an integer type"): 1,
        (
            1,
            tensor(ids.astype(np.uint8)),
            "no kernel was exported for N = 60, D = 96, M = 300, E = 302",
        ): 2,
        (0, tensor(table[:5]), "no kernel was exported for N = 5, D = 96, M = 300"): 2,
        (3, tensor(more[:301]), "the sizes must satisfy "): 3,
        (4, tensor(y[:2]), "dimension 0 of the buffer for y is 2, and 300 of the result"): 1,
        (4, tensor(table), "y and T share memory"): 1,
        (5, tensor(y[0]), "total and y share memory"): 1,
        (5, tensor(total[:63]), "dimension 0 of the buffer for total is 63, and 96 of the result"): 1,
    }
    for (at, other, message), status in wrong.items():
        found = outcome(at=at, other=other)
        assert found[0] == status and message in found[1], (message, found)
    assert outcome()[0] == 0
    with pytest.raises(tc.PreconditionError) as ruled_out:
        kernel(table, ids, a, more[:301])
    assert outcome(at=3, other=tensor(more[:301]))[1] in ruled_out.value.message
    outside = np.where(np.arange(300) == 7, 60, ids).astype(np.int32)
    with pytest.raises(tc.BoundsError) as caught:
        kernel(table, outside, a, more)
    assert outcome(at=1, other=tensor(outside)) == (4, caught.value.message)
    dense = tensor(table, strides=ctypes.POINTER(ctypes.c_int64)())
    assert outcome(at=0, other=dense)[0] == 0
    padded = np.concatenate([np.zeros(16, np.float32), table.reshape(-1)])
    moved = tensor(table, data=padded.ctypes.data, byte_offset=64)
    assert outcome(at=0, other=moved)[0] == 0
    np.testing.assert_array_equal(y, expected(kernel, args)[0])


PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>
#include "look.h"

struct Tensor {
  std::vector<int64_t> shape;
  DLTensor t;
  Tensor(void *data, uint8_t code, uint8_t bits, std::vector<int64_t> s) : shape(std::move(s)), t() {
    t.data = data;
    t.device.device_type = kDLCPU;
    t.ndim = static_cast<int32_t>(shape.size());
    t.dtype.code = code;
    t.dtype.bits = bits;
    t.dtype.lanes = 1;
    t.shape = shape.data();
  }
};

int main() {
  const int64_t n = 60, d = 96, m = 300, e = m + 2;
  std::vector<float> table(n * d), more(e);
  std::vector<int32_t> ids(m);
  for (int64_t k = 0; k < n * d; k++) table[k] = static_cast<float>(k % 17) / 8;
  for (int64_t k = 0; k < e; k++) more[k] = static_cast<float>(k % 5);
  for (int64_t k = 0; k < m; k++) ids[k] = static_cast<int32_t>(k * 13 % n);
  Tensor t(table.data(), kDLFloat, 32, {n, d}), i(ids.data(), kDLInt, 32, {m});
  Tensor b(more.data(), kDLFloat, 32, {e});
  auto call = [&](std::vector<float> *out) {
    std::vector<float> total(d, 1.0f);
    out->assign(m * d, 0.0f);
    Tensor y(out->data(), kDLFloat, 32, {m, d}), s(total.data(), kDLFloat, 32, {d});
    for (int k = 0; k < 20; k++)
      if (tc_look(&t.t, &i.t, 0.5f, &b.t, &y.t, &s.t) != TC_OK) return std::puts(tc_look_error()), void();
  };
  std::vector<float> results[3];
  std::vector<std::thread> threads;
  for (auto &r : results) threads.emplace_back(call, &r);
  for (auto &th : threads) th.join();
  for (auto &r : results)
    if (std::memcmp(r.data(), results[0].data(), r.size() * sizeof(float))) std::puts("threads differ");
  ids[5] = -1;
  Tensor y(results[0].data(), kDLFloat, 32, {m, d}), s(more.data(), kDLFloat, 32, {d});
  std::vector<float> total(d);
  s.t.data = total.data();
  std::printf("%d %s\n", tc_look(&t.t, &i.t, 0.5f, &b.t, &y.t, &s.t), tc_look_error());
  std::FILE *file = std::fopen("y.bin", "wb");
  std::fwrite(results[1].data(), sizeof(float), results[1].size(), file);
  return std::fclose(file);
}
"""


def test_a_program_in_cpp_calls_it(files: tuple[tc.Kernel, Path, Path], tmp_path: Path) -> None:
    kernel, header, library = files
    (tmp_path / "main.cpp").write_text(PROGRAM)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{header.parent}", "-o", "main"]
    command = ["g++", *flags, "main.cpp", str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("4 index -1 is out of range for dimension 0 of 'T' (0 to 59), at m = ")
    n, d, m = 60, 96, 300
    table = (np.arange(n * d) % 17 / 8).astype(np.float32).reshape(n, d)
    more, ids = (np.arange(m + 2) % 5).astype(np.float32), (np.arange(m) * 13 % n).astype(np.int32)
    found = np.fromfile(tmp_path / "y.bin", np.float32).reshape(m, d)
    np.testing.assert_array_equal(found, kernel(table, ids, 0.5, more).y)


def test_the_header_is_one_of_c(files: tuple[tc.Kernel, Path, Path], tmp_path: Path) -> None:
    _, header, library = files
    for before in ("", "#include <complex.h>\n#include <stdio.h>\n"):
        (tmp_path / "a.c").write_text(f'{before}#include "{header}"\n#include "{header}"\n')
        for standard in ("c99", "c17"):
            command = [
                "cc",
                f"-std={standard}",
                "-pedantic-errors",
                "-Wall",
                "-Werror",
                "-fsyntax-only",
                "a.c",
            ]
            subprocess.run(command, cwd=tmp_path, check=True)
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    assert [line.split()[-1] for line in shown.stdout.splitlines()] == ["tc_look", "tc_look_error"]


def test_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a specialised scalar, half precision, complex numbers and names that C does not have."""
    from tc.cli.main import main

    monkeypatch.chdir(tmp_path)
    Path("a.tc").write_text(
        "def 2X(half(N) auto, complex64(N) z, int s) -> (y, w) {\n"
        "    y(i) = auto(s * i) where i in 0:N/s\n    w(i) = z(i) * z(i)\n}\n"
    )
    assert main(["export", "a.tc", "--size", "N=8,s=2", "--c", "-o", "sub"]) == 0
    call = Function(tmp_path / "sub.so", "tc_2X")
    a, z = np.arange(8, dtype=np.float16), np.arange(8).astype(np.complex64) * 1j
    y, w = np.empty(4, np.float16), np.empty(8, np.complex64)
    assert call(tensor(a), tensor(z), 2, tensor(y), tensor(w)) == (0, "")
    assert y.tolist() == [0, 2, 4, 6] and (w == z * z).all()
    assert call(tensor(a), tensor(z), 4, tensor(y), tensor(w))[0] == 2
    assert "int tc_2X(const DLTensor *auto_, const DLTensor *z, int32_t s," in Path("sub.h").read_text()


def test_a_sequential_loop(tmp_path: Path) -> None:
    """Kernels look for signals in it, of which there are none."""
    loop = "for t in 0:T { p(t,i) = tanh(x(t,i) + (t >= 1 ? p(t-1,i) : 0)) }"
    source = f"def f(float(T,N) x) -> (h) {{ {loop} h(t,i) = p(t,i) }}"
    kernel = tc.compile(source, "cpu")
    _, library = kernel.export_c(tmp_path / "f", {"T": 5, "N": 40})
    x, h = np.linspace(-1, 1, 200, dtype=np.float32).reshape(5, 40), np.empty((5, 40), np.float32)
    assert Function(library, "tc_f")(tensor(x), tensor(h)) == (0, "")
    np.testing.assert_array_equal(h, kernel(x))
    bundle = tc.load(kernel.export(tmp_path / "f.tcb", {"T": 5, "N": 40}))
    np.testing.assert_array_equal(bundle(x), kernel(x))


def test_expressions_in_c(tmp_path: Path) -> None:
    n, m = x.Variable("N"), x.Variable("M")
    e = x.Add(x.FloorDiv(n, x.IntImm(-3)), x.Max(x.Sub(m, n), x.Min(x.FloorMod(m, x.IntImm(4)), x.IntImm(2))))
    whole = x.Select(x.And(x.LT(n, m), x.Not(x.EQ(n, x.IntImm(7)))), e, x.Mul(e, n))
    text = c_interface.expression(whole, {"N": "s[0]", "M": "s[1]"})
    pairs = [(a, b) for a in (-7, -1, 0, 3, 7, 8) for b in (-9, 0, 2, 11)]
    calls = "".join(f'  s[0] = {a}, s[1] = {b}, printf("%lld ", (long long){text});\n' for a, b in pairs)
    declared = c_text.DECLARATIONS + c_text.RUNTIME
    (tmp_path / "a.cpp").write_text(f"{declared}int main() {{\n  int64_t s[2];\n{calls}}}\n")
    subprocess.run(["g++", "-w", "-o", "a", "a.cpp"], cwd=tmp_path, check=True)
    done = subprocess.run(["./a"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [int(v) for v in done.stdout.split()] == [evaluate(whole, {"N": a, "M": b}) for a, b in pairs]


def test_the_processor_has_what_linux_says(tmp_path: Path) -> None:
    calls = 'int main() { printf("%llx", (unsigned long long)features()); }\n'
    (tmp_path / "a.cpp").write_text(c_text.DECLARATIONS + c_text.RUNTIME + calls)
    subprocess.run(["g++", "-w", "-o", "a", "a.cpp"], cwd=tmp_path, check=True)
    done = subprocess.run(["./a"], cwd=tmp_path, capture_output=True, text=True, check=True)
    bits = int(done.stdout, 16)
    here = processor.features()
    assert [bool(bits >> k & 1) for k in range(len(c_text.FEATURES))] == [f in here for f in c_text.FEATURES]


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel = tc.compile("def f(float(N) A) -> (B) { B(i) = 17 * A(i) }", "cpu")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(tc.BackendError, match=r"there is no C\+\+ compiler") as caught:
        kernel.export_c(tmp_path / "f", {"N": 3})
    assert caught.value.code == "TC0831"
    generic = tc.compile("def g<T>(T(N) A) -> (B) { B(i) = A(i) }", "cpu")
    with pytest.raises(tc.ArgumentError, match="one type for each argument"):
        generic.export_c(tmp_path / "g", {"N": 3}, types=[{"T": "float"}, {"T": "double"}])
    assert not list(tmp_path.iterdir())

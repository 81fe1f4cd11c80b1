"""Callers that changed the processor's floating-point mode: results are those of the standard mode, bit for
bit, and their mode is as they left it."""

from __future__ import annotations

import platform

import pytest

from tests.faults import children

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the register is x86's")

_MODE = """
import ctypes
from tc import _native
from tc.codegen import llvm_jit
register = llvm_jit.compile_text('''
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @load(ptr %p) {
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret void
}
define void @store(ptr %p) {
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  ret void
}
''', "load", "store")
load, store = (ctypes.CFUNCTYPE(None, ctypes.c_void_p)(register.addresses[n]) for n in ("load", "store"))
word = ctypes.c_uint32()

def mode():
    store(ctypes.addressof(word))
    return word.value & 0xffc0  # without the flags of what happened

def set_mode(value):
    word.value = value
    load(ctypes.addressof(word))

STANDARD = 0x1f80
FLUSHES, TAKES_FOR_ZERO, DOWN, UP, CHOPS = 0x8000, 0x40, 0x2000, 0x4000, 0x6000
TRAPS = 0x0680  # invalid operations, division by zero, overflow

def bits(result):
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(r).tobytes() for r in results]
"""

EVERY = (
    _MODE
    + """
backend = sys.argv[1]
warnings.simplefilter("ignore")
TENSORS = '''def f(float(N,M) A, double(N) D, half(N) H) -> (S, P, Q, R, T, Z) {
  S(i) +=! A(i,j)
  P(i,j) = A(i,j) * 0.5
  Q(i) = D(i) / 3
  R(i) = H(i) * 0.5
  T(i) = A(i,0) / 3.0 + A(i,1)
  Z(i) = A(i,0) / (A(i,0) - A(i,0))
}'''
LITERALS = "def g(float(N) A, double(N) D) -> (B, C) { B(i) = A(i) * 1e-40  C(i) = D(i) * 5e-320 + 0.1 }"
SCALARS = '''def h(float s, double t, half u, bfloat16 v, float(N) A) -> (B, C, D, E) {
  B(i) = s * A(i)
  C(i) = t * 1.0 where i in 0:N
  D(i) = u * 1.0 where i in 0:N
  E(i) = v * 1.0 where i in 0:N
}'''
CHECKED = "def c(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }"
tiny = np.full((256, 1024), 1e-40, np.float32)
tiny[:, 7] = 1e-39
tensors = tiny, np.full(256, 5e-310), np.full(256, 3e-7, np.float16)
literals = np.full(40, 1.1, np.float32), np.full(40, 3.3)
python = 1e-40, 5e-320, 3e-7, 1e-39, literals[0]
numpy = np.float32(1e-40), np.float64(5e-320), np.float16(3e-7), np.float32(1e-39), literals[0]
arrays = tuple(np.array(x) for x in numpy[:4]) + (literals[0],)
indices = np.array([3, 40], np.int32)

def kernels(mark):
    # Distinct texts, so that each is compiled anew.
    return [tc.compile(s + "# " + mark, backend) for s in (TENSORS, LITERALS, SCALARS, CHECKED)]

def everything(made):
    f, g, h, c = made
    found = []
    for _ in range(2):  # the slow way, then the fast one
        found += [bits(f(*tensors)), bits(g(*literals))]
        found += [bits(h(*python)), bits(h(*numpy)), bits(h(*arrays))]
    for failing in (lambda: c(literals[0], indices), lambda: f(*tensors[:2])):
        try:
            failing()
            raise AssertionError
        except (tc.BoundsError, tc.ArgumentError) as e:
            found.append(str(e).split("-->")[0])
    for source, arguments in ((TENSORS, tensors), (LITERALS, literals), (SCALARS, numpy)):
        found.append(bits(tc.interpret(source, *arguments)))
    return found

assert mode() == STANDARD
before = kernels("before")
if backend == "cpu":
    assert "parallel for" in before[0].inspect("loops", N=256, M=1024)
want = everything(before)
modes = [STANDARD | FLUSHES | TAKES_FOR_ZERO, STANDARD | UP, STANDARD & ~TRAPS]
if backend == "cpu":
    modes += [STANDARD | FLUSHES, STANDARD | TAKES_FOR_ZERO, STANDARD | DOWN, STANDARD | CHOPS | FLUSHES]
for k, changed in enumerate(modes):
    found, left = [], []
    _native.set_num_threads(1 + 2 * (k % 2))  # threads are made in this mode, too
    try:
        set_mode(changed)
        for made in (before, kernels(str(k))):
            found.append(everything(made))
            left.append(mode())
    finally:
        set_mode(STANDARD)
    assert left == [changed] * 2, (hex(changed), [hex(m) for m in left])
    for which, values in zip(("before", "in the mode"), found):
        wrong = [n for n, (w, v) in enumerate(zip(want, values, strict=True)) if w != v]
        assert not wrong, f"mode {changed:#x}, compiled {which}: results {wrong}"
"""
)


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", ["cpu", "reference", "halide"])
def test_any_mode_gives_the_same_bits(backend: str) -> None:
    children.run(EVERY, backend, TC_CACHE="0")


TORCH = """
import torch
source = '''def f(float s, float(N) A) -> (B, C) { B(i) = A(i) * s  C(i) = A(i) * 1e-40 }'''
ones = torch.ones(50)
want = np.float32(1e-40).view(np.uint32)
assert torch.set_flush_denormal(True)
kernel = tc.compile(source, "cpu")
for _ in range(2):
    found = [[int(x) for x in r.view(torch.int32)] for r in kernel(1e-40, ones)]
    assert found == [[want] * 50] * 2, found
assert float(torch.full((1,), 1e-38) / 1000) == 0, "torch no longer flushes"
"""


@pytest.mark.slow
def test_torch_flushes_denormals() -> None:
    """Numbers and literals on the way to a kernel, too: what tests/backends shows of arrays."""
    children.run(TORCH, TC_CACHE="0")

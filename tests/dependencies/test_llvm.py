"""What llvmlite 0.50 and its LLVM leave behind or lay too far apart, and that we do not."""

from __future__ import annotations

import sys

import pytest

from tests.dependencies import children

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the heap is glibc's")

CONSTANTS = f"""{children.LEAKED}
import llvmlite.binding as llvm
from tc.codegen import llvm_jit

def text(k):
    lines = [f"  %v{{i + 1}} = mul i64 %v{{i}}, {{1000 * k + i + 7}}" for i in range(50)]
    return "\\n".join(["define i64 @f(i64 %v0) {{", *lines, "  ret i64 %v50", "}}"])

llvm_jit.host_cpu()
print(leaked(lambda k: llvm.parse_assembly(text(k)).close(), 200))
print(leaked(lambda k: llvm_jit.parsed(text(k + 1000)).close(), 200))  # constants that are not there yet
"""


def test_constants_stay_in_the_global_context() -> None:
    """A module in a context of its own leaves nothing."""
    theirs, ours = map(float, children.output(CONSTANTS).split())
    assert theirs > 500 and ours < 50


BUILDERS = f"""{children.LEAKED}
import llvmlite.binding as llvm
from tc.codegen import llvm_jit

machine, options = llvm_jit.target_machine(), llvm.create_pipeline_tuning_options()
print(leaked(lambda k: llvm.create_pass_builder(machine, options).close(), 200))
text = "define i32 @f() {{\\n  ret i32 1\\n}}"
print(leaked(lambda k: llvm_jit.object_of(text), 200))
"""


def test_pass_builders_are_not_freed() -> None:
    """One is made and kept."""
    theirs, ours = map(float, children.output(BUILDERS).split())
    assert theirs > 500 and ours < 200


# Sections of one object, for which there is room 3 GiB apart only.  Halide's objects refer from one to the
# other by 32 bits; those of LLVM's jit, on x86-64, by 64.
FRAGMENTED = """
import ctypes, sys
import llvmlite.binding as llvm
from tc.codegen import llvm_jit

llvm_jit.host_cpu()
small = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
module = llvm_jit.parsed('''
@t = internal constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]
define i64 @f(i64 %i) {
  %p = getelementptr i64, ptr @t, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}''')
module.triple = small.triple
code = small.emit_object(module)

libc, INT, SIZE = ctypes.CDLL(None), ctypes.c_int, ctypes.c_size_t
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, SIZE, INT, INT, INT, ctypes.c_long]

def reserve(size, at=None):  # no access, no swap: address space alone
    return libc.mmap(at, size, 0, 0x4022 | (0x100000 if at else 0), -1, 0)

FAR = 3 << 30
block = reserve(8 * FAR)
ends = [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in open("/proc/self/maps")]
for (_, end), (start, _) in zip(ends, ends[1:]):
    if end > block and start - end < FAR:
        reserve(start - end, end)
for k in range(1, 8):
    libc.munmap(ctypes.c_void_p(block + k * FAR), SIZE(4096))

if sys.argv[1] == "ours":
    linked = llvm_jit.load_object(code, "f")
    address = linked.address
else:
    engine = llvm.create_mcjit_compiler(llvm_jit.parsed(""), llvm_jit.target_machine(), use_lmm=False)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address("f")
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(2))
"""


def lands_well(whose: str) -> bool:
    done = children.run(FRAGMENTED, whose)
    return (done.returncode, done.stdout) == (0, "3\n")


def test_sections_that_land_far_apart() -> None:
    """LLVM's own memory manager ends the process, or leaves an address that is none; but for processes in
    which it happens on memory near to what it has."""
    assert lands_well("ours")
    assert not all(lands_well("LLVM's") for _ in range(5))

"""`make unit` (`--no-code`): a test is skipped as soon as it generates code by LLVM or PoCL.  The others
need language, ranges, programs and polyhedra alone, and take some minutes on one core."""

from __future__ import annotations

import pytest

SKIPPED = "code would be generated"


def forbid() -> None:
    """From now on, skip the running test as soon as it generates code."""
    import pyopencl

    from tc.codegen import llvm_jit

    def skip(*_: object, **__: object) -> None:
        pytest.skip(SKIPPED)

    for module, name in ((llvm_jit, "object_of"), (llvm_jit, "assembly_of"), (pyopencl.Program, "build")):
        setattr(module, name, skip)

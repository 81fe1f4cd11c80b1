"""`make unit` (`--no-code`): a test that would have code generated, by LLVM or PoCL, is skipped where it
would.  What is left asks for language, ranges, programs and polyhedra alone, and takes a minute."""

from __future__ import annotations

import pytest

SKIPPED = "code would be generated"


def forbid() -> None:
    """From now on, skip the running test where it generates code."""
    import pyopencl

    from tc.codegen import llvm_jit

    def skip(*_: object, **__: object) -> None:
        pytest.skip(SKIPPED)

    for module, name in ((llvm_jit, "object_of"), (llvm_jit, "assembly_of"), (pyopencl.Program, "build")):
        setattr(module, name, skip)

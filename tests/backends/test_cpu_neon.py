"""NEON code is generated and assembled here, though nothing can run it: AArch64 is a parameter of the
emitter."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import pytest

import tc
from tc import registry
from tests.backends.cpu_cases import CORPUS, backend


@pytest.fixture(scope="module")
def machine() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    return target.create_target_machine(cpu="generic", features="+neon", opt=1)


def neon_text(source: str, sizes: dict[str, int], entry: str | None) -> str:
    """The LLVM text that the cpu backend makes for NEON."""
    registry.get("cpu")
    isa = sys.modules["tc_backends.cpu.isa"]
    program = tc.compile(source, "reference", entry=entry).program(sizes)
    narrow = replace(backend.host(), isa=isa.NEON, fma_units=2, loads=2)
    return backend.code_of(program, narrow, tc.Options()).text


@pytest.mark.share(72)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("case", CORPUS, ids=lambda c: c.name)
def test_neon_code_assembles(case: Any, machine: Any) -> None:
    front = tc.compile(case.source, "reference", entry=getattr(case, "entry", None)).front
    sizes = {n: case.fixed.get(n, 20) for n in front.checked.sizes}
    sizes |= {n: int(case.scalars[n]) for n in front.specialized}
    text = neon_text(case.source, sizes, getattr(case, "entry", None))
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    assert machine.emit_object(module)[:4] == b"\x7fELF"

"""docs/errors.md: every code has an entry, every entry an example that gives exactly what it shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tc
from tc import errors
from tc.cli import replay
from tests.docs.markdown import ROOT, Block, Session, blocks, difference, replace, shown_behind

PAGE = ROOT / "docs/errors.md"
BLOCKS = blocks(PAGE)
ENTRIES = dict(
    m.groups() for m in re.finditer(r"^## (TC\d{4}): (.+)$", PAGE.read_text(encoding="utf-8"), re.M)
)
CLASSES = [
    *(c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, (tc.Error, tc.Warning)))
]
DEFAULTS = {getattr(c, "default_code", None) or c.code for c in CLASSES}
GENERAL = {code for code in DEFAULTS if code.endswith("00")}


def section(code: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(f"## {code}: ")
    return re.split(r"\n#{1,2} ", text[start:], maxsplit=1)[0]


def examples(code: str) -> list[Block]:
    return [b for b in BLOCKS if b.heading.startswith(f"{code}:")]


# ---- codes and entries correspond


def sources() -> list[Path]:
    return sorted(p for top in ("tc", "backends") for p in (ROOT / top).rglob("*.py"))


def written_codes() -> dict[str, set[str]]:
    """{code: classes it is raised with}, from every `SomeError(..., code="TC0000")` in the sources."""
    names = {c.__name__ for c in CLASSES}
    found: dict[str, set[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            for k in node.keywords:
                if k.arg == "code" and isinstance(k.value, ast.Constant) and name in names:
                    found.setdefault(str(k.value.value), set()).add(str(name))
    return found


def test_every_code_of_the_sources_has_an_entry() -> None:
    text = "".join(p.read_text(encoding="utf-8") for p in sources())
    codes = set(re.findall(r"TC\d{4}", text))
    assert codes - GENERAL <= set(ENTRIES), sorted(codes - GENERAL - set(ENTRIES))
    tabled = {line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| TC")}
    assert tabled == GENERAL


def test_every_entry_stands_for_a_code_that_is_raised() -> None:
    raised = set(written_codes()) | DEFAULTS
    assert set(ENTRIES) <= raised, sorted(set(ENTRIES) - raised)
    assert list(ENTRIES) == sorted(ENTRIES)


def test_a_code_belongs_to_one_class() -> None:
    for code, classes in written_codes().items():
        assert len(classes) == 1, f"{code} is raised as {sorted(classes)}"
        (name,) = classes
        assert f"`{name}`. " in section(code), f"the entry of {code} does not say `{name}`"
        assert getattr(errors, name).default_code[:4] == code[:4], f"{code} is raised as {name}"


def test_errors_name_their_code() -> None:
    """A raiser without a code would give the class's general one, which says nothing."""
    names = {c.__name__ for c in CLASSES if issubclass(c, tc.Error) and c is not tc.InternalError}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = getattr(node.exc.func, "id", None) or getattr(node.exc.func, "attr", None)
                keywords = {k.arg for k in node.exc.keywords}
                assert name not in names or "code" in keywords, f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("code", sorted(ENTRIES))
def test_entries_are_complete(code: str) -> None:
    text = section(code)
    assert re.match(r".*\n\n`[A-Za-z]+`\. [A-Z]", text), "no class and meaning"
    assert examples(code), "no example"
    last = text.rstrip().split("```")[-1].strip()
    assert last, "does not say what to write instead"


# ---- examples


def setting() -> dict[str, Any]:
    """What the page says stands before each example."""
    first = next(b for b in BLOCKS if b.language == "python")
    session = Session(BLOCKS)
    session.run(first)
    return session.names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mm.tc").write_text(
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }\n"
    )
    (tmp_path / "latin1.tc").write_bytes(b"def f(float(N) A) -> (B) { B(i) = A(i) }  # caf\xe9\n")
    return tmp_path


RUN = sorted(
    {b.heading[:6] for b in BLOCKS if b.language in ("tc", "python", "console") and b.heading[:6] in ENTRIES}
)


@pytest.mark.parametrize("code", RUN)
def test_examples(
    code: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("TC_VERIFY", "1")  # restores what an example sets
    session = Session(BLOCKS, update=request.config.getoption("--update-golden"))
    session.names |= setting()
    for block in examples(code):
        session.run(block)
        if session.update or block.language == "text":
            continue
        if block.language == "console":
            assert f"[{code}]" in block.text
            continue
        shown = shown_behind(block, BLOCKS)
        assert shown is not None and shown.text.strip()
        found = session.error or next(iter(session.warnings), None)
        assert found is not None and found.code == code
        assert f"`{type(found).__name__}`. " in section(code)


# ---- what cannot be provoked by a program or a call alone


def _unavailable(m: pytest.MonkeyPatch) -> None:
    from tc import registry

    class Device:
        name = "cuda"

        def available(self) -> registry.Availability:
            return registry.Availability(False, "no device", "install a driver")

    m.setattr(registry, "_found", {"cuda": None})
    m.setattr(registry, "_loaded", {"cuda": Device()})
    registry.get("cuda")


def _unloadable(m: pytest.MonkeyPatch) -> None:
    from tc import registry

    class Entry:
        def load(self) -> None:
            raise ModuleNotFoundError("No module named 'pycuda'")

    m.setattr(registry, "_found", {"cuda": Entry()})
    m.setattr(registry, "_loaded", {})
    registry.get("cuda")


def _no_autoscheduler(m: pytest.MonkeyPatch) -> None:
    import os
    import sys

    if loaded := sys.modules.get("tc_backends.halide.autoschedule"):
        loaded._load.cache_clear()
    exists = os.path.exists
    m.setattr(os.path, "exists", lambda p: "autoschedule" not in str(p) and exists(p))
    options = {"autoschedule": "Li2018"}
    tc.compile(
        "def f(float(N) A) -> (B) { B(i) = 3 * A(i) }", backend="halide", options=options, sizes={"N": 3}
    )


def _no_halide(m: pytest.MonkeyPatch) -> None:
    import importlib.util

    from tc import halide

    m.setattr(importlib.util, "find_spec", lambda name: None)
    halide.load_library.__wrapped__()


def _broken_pass(m: pytest.MonkeyPatch, error: Exception) -> None:
    from tc.codegen import llvm_ir

    def emit(*args: Any) -> str:
        raise error

    m.setattr(llvm_ir, "emit", emit)
    tc.compile("def f(float(N) A) -> (B) { B(i) = 5 * A(i) }", backend="reference", sizes={"N": 3})


def _not_a_tree(m: pytest.MonkeyPatch) -> None:
    from tc.poly import tree_text

    tree_text.load("domain: what?")


def _not_llvm(m: pytest.MonkeyPatch) -> None:
    from tc.codegen import llvm_jit

    llvm_jit.compile_text("define nonsense", "f")


def _illegal_schedule(m: pytest.MonkeyPatch) -> None:
    from tc.poly import legality

    m.setattr(legality, "covers", lambda scop, schedule: "S0[0] is missing")
    m.setattr(legality, "respects", lambda scop, schedule, dependences: None)
    legality.verify(None, None, None, "a broken pass")  # type: ignore[arg-type]


def _wrong_nest(m: pytest.MonkeyPatch) -> None:
    from tc.poly import trace

    class Program:
        name = "mm"

    m.setattr(trace, "compare", lambda *args: "S0[0, 0] runs twice")
    trace.verify(Program(), None, {})  # type: ignore[arg-type]


def _exhausted(m: pytest.MonkeyPatch) -> None:
    from tc.poly import context

    # As many as a compile has, and all but a few of them are used up.
    with context.isl_context() as ctx:
        limit = type(ctx).set_max_operations
        m.setattr(type(ctx), "set_max_operations", lambda ctx, n: limit(ctx, min(n, 100)))
    tc.compile("def f(float(N) A) -> (B) { B(i) = 11 * A(i) B(i) = B(N-1-i) }", backend="reference")


def _notice(m: pytest.MonkeyPatch) -> None:
    import threading

    from tc import registry

    m.setattr(registry, "_noticed", threading.Event())
    m.setattr(registry, "_found", {n: e for n, e in registry._entries().items() if n == "reference"})
    k = tc.compile("def f(float(N) A) -> (B) { B(i) = A(i) }")
    k(np.ones(3, np.float32))


def _of_mm() -> Any:
    kernel = tc.compile("def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
    return kernel.program({"M": 2, "K": 4, "N": 3})


def _changed(program: Any, **fields: Any) -> Any:
    """The program with other fields of its update."""
    from dataclasses import replace

    *before, update = program.stages
    return replace(program, stages=(*before, replace(update, **fields)))


def _malformed_program(m: pytest.MonkeyPatch) -> None:
    from tc.ir import verify
    from tc.ir.program import Domain

    program = _of_mm()
    domain = program.stages[-1].domain
    verify.program(_changed(program, domain=Domain(domain.vars[:2])))


def _changed_results(m: pytest.MonkeyPatch) -> None:
    from tc.ir.expr import Mul, imm
    from tc.pipeline import equivalence

    program = _of_mm()
    value = program.stages[-1].value
    equivalence.same_results(program, _changed(program, value=Mul(value, imm(2, value.dtype))))


def _nowhere_to_keep(m: pytest.MonkeyPatch) -> None:
    from tc.cache.disk import Store

    Store("/dev/null/kernels").put("0" * 64, b"")


def _run_time_failure(m: pytest.MonkeyPatch) -> None:
    k = tc.compile("def f(float(N) A) -> (B) { B(i) = 7 * A(i) }", backend="reference")
    k._failed(k.specialize(N=3), (-1, 1, (), 0))


def _narrow_processor(m: pytest.MonkeyPatch) -> None:
    """As on a processor with AVX2."""
    import sys
    from dataclasses import replace

    from tc import registry

    registry.get("cpu")
    machine = sys.modules["tc_backends.cpu.target"]
    narrow = replace(machine.host(), isa=machine.AVX2)
    m.setattr(machine, "host", lambda: narrow)
    tc.compile(
        "def f(float(N) A) -> (B) { B(i) = 9 * A(i) }",
        backend="cpu",
        options={"isa": "avx512"},
        sizes={"N": 3},
    )


def _opencl() -> Any:
    """The module of the opencl backend that knows the device."""
    import sys

    from tc import registry

    registry.load("opencl")
    return sys.modules["tc_backends.opencl.device"]


def _no_such_device(m: pytest.MonkeyPatch) -> None:
    m.setenv("TC_OPENCL_DEVICE", "abacus")
    _opencl().find()


def _no_doubles(m: pytest.MonkeyPatch) -> None:
    m.setattr(_opencl().Device, "doubles", False)
    tc.compile("def f(double(N) A) -> (B) { B(i) = A(i) }", backend="opencl", sizes={"N": 3})


def _not_opencl(m: pytest.MonkeyPatch) -> None:
    _opencl().find().kernels("nonsense", ["f"])


def _no_optuna(m: pytest.MonkeyPatch) -> None:
    import sys

    from tc.tuner import strategies
    from tc.tuner.space import Space

    m.setitem(sys.modules, "optuna", None)
    strategies.make("tpe", Space(()), 0, list)


def _no_children(m: pytest.MonkeyPatch) -> None:
    import sys

    m.setattr(sys, "executable", "/bin/cat")
    tc.tune("def f(float(N) A) -> (B) { B(i) = A(i) }", sizes={"N": 3}, backend="cpu", records=False)


def _no_workers(m: pytest.MonkeyPatch) -> None:
    class Client:
        scheduler = SimpleNamespace(
            identity=lambda n_workers: {"workers": {"tcp://a": {"resources": {"tc-compile": 1}}}}
        )

        def sync(self, function: Any, **kwargs: Any) -> Any:
            return function(**kwargs)

        def run(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            return {"tcp://a": function(*args)} if args and len(args) > 1 else {}

    source = "def f(float(N) A) -> (B) { B(i) = A(i) }"
    tc.tune(source, sizes={"N": 3}, backend="cpu", records=False, client=Client())


def _later_bundle(m: pytest.MonkeyPatch) -> None:
    import tempfile

    from tc.bundle import archive

    m.chdir(tempfile.gettempdir())
    with m.context() as later:
        later.setattr(archive, "VERSION", 2)
        archive.write("mm.tcb", {"tc": "9.0"}, {})
    tc.load("mm.tcb")


def _other_processor(m: pytest.MonkeyPatch) -> None:
    import tempfile

    from tc.bundle import processor

    kernel = tc.compile("def f(float(N) A) -> (B) { B(i) = 13 * A(i) }", "cpu")
    path = kernel.export(f"{tempfile.gettempdir()}/f.tcb", {"N": 3}, isa="avx512,avx2")
    m.setattr(processor, "features", lambda: frozenset({"sse4_2"}))
    tc.load(path)


def _no_linker(m: pytest.MonkeyPatch) -> None:
    import shutil

    m.setattr(shutil, "which", lambda name: None)
    tc.compile("def f(float(N) A) -> (B) { B(i) = 13 * A(i) }", "cpu").export("never.tcb", {"N": 3})


MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def _on_a_device(m: pytest.MonkeyPatch, number: int = 0) -> tuple[Any, Callable[[], Any]]:
    """A stand-in for a machine with GPUs, and a call there, whose second array is on the device `number`."""
    from tests.simt.fakes import Torch
    from tests.simt.install import stand_in

    machine = stand_in(m)
    on = Torch(machine, m)
    kernel = tc.compile(MM, backend="cuda")
    a, b = on.empty((2, 3), torch.float32), on.empty((3, 4), torch.float32, number)
    return machine, lambda: kernel(a, b)


def _two_devices(m: pytest.MonkeyPatch) -> None:
    _on_a_device(m, 1)[1]()


def _no_device_memory(m: pytest.MonkeyPatch) -> None:
    machine, _ = _on_a_device(m)
    machine.room = 0
    tc.compile(MM, backend="cuda")(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))


def _lost(m: pytest.MonkeyPatch) -> None:
    machine, call = _on_a_device(m)
    machine.fail_at, machine.failure = machine.calls + 1, "ILLEGAL_ADDRESS"
    call()


def _captured(m: pytest.MonkeyPatch) -> None:
    machine, call = _on_a_device(m)
    stream = machine.new_stream(0)
    m.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=stream.number))
    machine.begin_capture(stream)
    call()


def _forked(m: pytest.MonkeyPatch) -> None:
    import os

    _, call = _on_a_device(m)
    call()
    m.setattr(os, "getpid", lambda: -1)
    call()


PROVOKED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "TC0802": _unavailable,
    "TC0803": _unloadable,
    "TC0806": _no_autoscheduler,
    "TC0807": _no_halide,
    "TC0810": _run_time_failure,
    "TC0811": _narrow_processor,
    "TC0518": lambda m: replay.read("{}", "case.json"),
    "TC0812": lambda m: tc.tune("def f(float(N) A) -> (B) { B(i) = A(i) }", [], backend="reference"),
    "TC0822": _no_optuna,
    "TC0823": _no_children,
    "TC0824": _no_workers,
    "TC0814": lambda m: tc.compile(
        "def f(float(N) A) -> (B) { B(i) = A(i) }", "cpu", sizes={"N": 4}, options={"machine": {"core": 4}}
    ),
    "TC0533": _later_bundle,
    "TC0830": _other_processor,
    "TC0831": _no_linker,
    "TC0815": _no_such_device,
    "TC0816": _no_doubles,
    "TC0817": _two_devices,
    "TC0818": _no_device_memory,
    "TC0819": _lost,
    "TC0820": _captured,
    "TC0821": _forked,
    "TC0907": _not_opencl,
    "TC0900": lambda m: _broken_pass(m, tc.InternalError("arithmetic on bool")),
    "TC0901": lambda m: _broken_pass(m, ZeroDivisionError("division by zero")),
    "TC0902": _not_a_tree,
    "TC0903": _not_llvm,
    "TC0904": _illegal_schedule,
    "TC0905": _wrong_nest,
    "TC0908": _malformed_program,
    "TC0909": _changed_results,
    "TC0906": _exhausted,
    "TC1004": _notice,
    "TC1005": _nowhere_to_keep,
    "TC1006": lambda m: tc.compile(
        "def f(float(N) A) -> (B) { B(i) = tgamma(A(i)) }", "cpu", sizes={"N": 1 << 17}
    ),
}


def test_every_entry_has_an_example_that_runs_or_is_provoked() -> None:
    assert set(ENTRIES) == set(RUN) | set(PROVOKED)
    assert not set(RUN) & set(PROVOKED)


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_provoked(
    code: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # for reproducers
    kind = tc.Warning if code.startswith("TC10") else tc.Error
    check = pytest.warns(tc.Warning) if kind is tc.Warning else pytest.raises(tc.Error)
    with check as caught:
        PROVOKED[code](monkeypatch)
    found = caught.value if kind is tc.Error else caught[0].message
    assert found.code == code and f"`{type(found).__name__}`. " in section(code)
    (shown,) = [b for b in examples(code) if b.language == "text"]
    problem = difference(shown.text, str(found))
    if problem and request.config.getoption("--update-golden"):
        replace(shown, str(found))
    else:
        assert problem is None, problem

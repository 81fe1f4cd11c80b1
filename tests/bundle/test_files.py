"""Files that are no bundles, or no longer those that were written; and what loading one needs."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.bundle import library, link
from tc.codegen import llvm_jit
from tests.share import examples

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! exp(A(i,k)) * sin(B(k,j)) }"
SIZES = {"M": 5, "K": 3, "N": 4}
A, B = np.arange(15, dtype=np.float32).reshape(5, 3) / 9, np.ones((3, 4), np.float32)
NOT_BUNDLES = {"TC0531", "TC0532", "TC0533", "TC0903"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tc.compile(MM, "cpu").export(tmp_path_factory.mktemp("bundle") / "mm.tcb", SIZES, isa="sse4.2")


def files(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as z:
        return {n: z.read(n) for n in z.namelist()}


def rewritten(path: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The bundle with another manifest, whose digest is right."""
    found = files(path)
    manifest = json.loads(found["manifest.json"])
    change(manifest)
    found["manifest.json"] = json.dumps(manifest).encode()
    found["manifest.sha256"] = hashlib.sha256(found["manifest.json"]).hexdigest().encode()
    with zipfile.ZipFile(to, "w") as z:
        for name, data in found.items():
            z.writestr(name, data)
    return to


def error_of(path: Path) -> tc.Error:
    with pytest.raises(tc.Error) as caught:
        tc.load(path)(A, B)
    return caught.value


def test_the_same_kernel_gives_the_same_file(written: Path, tmp_path: Path) -> None:
    again = tc.compile(MM, "cpu").export(tmp_path / "again.tcb", SIZES, isa="sse4.2")
    assert again.read_bytes() == written.read_bytes()


def test_the_manifest_has_digests_of_all_files(written: Path) -> None:
    found = files(written)
    manifest = json.loads(found["manifest.json"])
    assert (
        {"cpu-sse4.2.so"} == set(manifest["payloads"]) == found.keys() - {"manifest.json", "manifest.sha256"}
    )
    for name, facts in manifest["payloads"].items():
        assert facts == {"sha256": hashlib.sha256(found[name]).hexdigest(), "bytes": len(found[name])}
    assert (manifest["format"], manifest["version"], manifest["tc"]) == ("tc bundle", 1, tc.__version__)
    assert manifest["source"]["text"] == MM


def test_files_that_are_no_bundles(tmp_path: Path) -> None:
    path = tmp_path / "x.tcb"
    with pytest.raises(tc.ArgumentError, match="No such file or directory") as caught:
        tc.load(path)
    assert caught.value.code == "TC0516"
    for content, why in ((b"", "it is empty"), (b"\x7fELF" + bytes(100), "it is no zip archive")):
        path.write_bytes(content)
        assert error_of(path).code == "TC0531" and why in error_of(path).message
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a.txt", "a")
    assert "a zip archive without manifest.json" in error_of(path).message
    for text in ("[]", "{", '{"format": "other"}', '"tc bundle"'):
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("manifest.json", text)
            z.writestr("manifest.sha256", hashlib.sha256(text.encode()).hexdigest())
        assert error_of(path).code == "TC0531"


def test_a_file_that_was_cut_off(written: Path, tmp_path: Path) -> None:
    content = written.read_bytes()
    path = tmp_path / "cut.tcb"
    chosen = random.Random(0).sample(range(5, len(content)), examples(60))
    for length in (4, *chosen, len(content) - 1):
        path.write_bytes(content[:length])
        assert error_of(path).code in ("TC0531", "TC0532"), length


def test_a_file_of_which_a_bit_changed(written: Path, tmp_path: Path) -> None:
    """It is refused, or, where the bit means nothing, such as in a date, it is what it was."""
    content = written.read_bytes()
    want = tc.load(written)(A, B)
    path = tmp_path / "flipped.tcb"
    chance = random.Random(1)
    refused = 0
    for _ in range(examples(300)):
        at = chance.randrange(len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :])
        try:
            assert (tc.load(path)(A, B) == want).all()
        except tc.Error as e:
            assert e.code in ("TC0531", "TC0532"), e
            refused += 1
    assert refused > examples(300) // 2


def test_a_payload_that_was_exchanged(written: Path, tmp_path: Path) -> None:
    found = files(written)
    path = tmp_path / "exchanged.tcb"
    for change, what in ((b"\x00" * 9, "cpu-sse4.2.so is not what was written"), (None, "is missing")):
        with zipfile.ZipFile(path, "w") as z:
            for name, data in found.items():
                if not name.endswith(".so"):
                    z.writestr(name, data)
                elif change is not None:
                    z.writestr(name, change)
        assert error_of(path).code == "TC0532" and what in error_of(path).message


def test_a_bundle_of_a_later_version(written: Path, tmp_path: Path) -> None:
    def later(manifest: dict[str, Any]) -> None:
        manifest.update(version=2, tc="9.0", instances="something else")

    path = rewritten(written, tmp_path / "later.tcb", later)
    error = error_of(path)
    assert error.code == "TC0533" and "version 2 of the format" in error.message
    assert "it was written by tc 9.0" in (error.help or "")


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    for k, v in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from places(v, (*at, k))


def test_a_malformed_manifest_is_an_error(written: Path, tmp_path: Path) -> None:
    """Whatever stands in its fields: nothing but an error, never a crash."""
    every = list(places(json.loads(files(written)["manifest.json"])))
    chance = random.Random(2)
    path = tmp_path / "malformed.tcb"
    refused = 0
    for where in chance.sample(every[1:], examples(90)):
        value = chance.choice([None, -1, 2**80, "x", [], {}, [[]], True, "Add", ["Add", 1]])

        def change(manifest: dict[str, Any], where: tuple[Any, ...] = where, value: Any = value) -> None:
            inside: Any = manifest
            for key in where[:-1]:
                inside = inside[key]
            inside[where[-1]] = value

        rewritten(written, path, change)
        try:
            bundle = tc.load(path)
            if "targets" not in where and "libraries" not in where and "shapes" not in where:
                bundle(A, B)
        except tc.Error:
            refused += 1
        except (ValueError, TypeError, KeyError, OverflowError):
            raise AssertionError(f"{where}: {value!r}") from None
    assert refused > examples(90) // 3


def test_libraries_that_would_run_something_are_refused(written: Path, tmp_path: Path) -> None:
    def library_of(*options: str, text: str = "int tc_imports[2]; int f(void) { return 1; }") -> bytes:
        (tmp_path / "a.c").write_text(text)
        command = ["cc", "-shared", "-fPIC", "-nostdlib", *options, "-o", "a.so", "a.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return (tmp_path / "a.so").read_bytes()

    assert library.unexpected(files(written)["cpu-sse4.2.so"]) is None
    start = "__attribute__((constructor)) static void f(void) {}"
    refused = {
        "has initialisers": library_of(text=start),
        "has finalisers": library_of(text=start.replace("constructor", "destructor")),
        "has an initialiser": library_of("-Wl,-init,f", text="int f(void) { return 1; }"),
        "needs another library": library_of("-Wl,--no-as-needed", "-lm"),
        "has a search path": library_of("-Wl,-rpath,/tmp"),
        "binds functions by name": library_of(text="int g(void); int f(void) { return g(); }"),
        "has relocations that name symbols or call functions": library_of(
            text="extern int g; int f(void) { return g; }"
        ),
        "is no ELF file": b"MZ",
        "is for another kind of machine": Path(sys.executable).resolve().read_bytes()[:16] + bytes(100),
        "is malformed": files(written)["cpu-sse4.2.so"][:100],
    }
    for what, code in refused.items():
        assert library.unexpected(code) == what
        with pytest.raises(tc.InternalError, match=what):
            library.loaded(code, f"digest of {what}", ())


def test_no_library_imports_what_is_no_mathematics(written: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        (one,) = manifest["libraries"].values()
        one["imports"][0] = "system"

    error = error_of(rewritten(written, tmp_path / "system.tcb", change))
    assert error.code == "TC0903" and "'system'" in error.message
    code = llvm_jit.object_of(
        "declare i32 @system(ptr)\ndefine i32 @f() {\n  %a = call i32 @system(ptr null)\n  ret i32 %a\n}\n",
        shared=True,
    )
    with pytest.raises(tc.InternalError, match="cannot call system"):
        link.linked([code], ["f"])


# ---- without a compiler

CHILD = """
import json, sys
sys.path[:0] = [sys.argv[1]]
import numpy as np
import tc
bundle = tc.load(sys.argv[2])
table = np.arange(12, dtype=np.float32).reshape(6, 2)
result = bundle(table, np.array([5, 0, 2], np.int32))
assert bundle(table, np.array([5, 0, 2], np.int32)).tolist() == result.tolist()
messages = []
wrong, zeros = np.array([0, 6, 1], np.int32), np.zeros(3, np.int32)
for args in ((table, wrong), (table[:5], zeros), (table,), (table, 3)):
    try:
        bundle(*args)
    except tc.Error as e:
        messages.append(str(e))
print(json.dumps([result.tolist(), messages, sorted(sys.modules)]))
"""
GATHER = "def gather(float(N,D) T, int(M) I) -> (y) { y(i,d) = T(I(i),d) + sigmoid(0 * T(I(i),d)) - 0.5 }"


def bare(folder: Path) -> Path:
    """A folder to import from that has numpy and this project, and nothing else."""
    folder.mkdir()
    packages = Path(np.__file__).parents[1]
    for path in (*packages.glob("numpy"), *packages.glob("numpy.libs")):
        (folder / path.name).symlink_to(path)
    (folder / "tc").symlink_to(Path(tc.__file__).parent)
    return folder


def test_a_bundle_runs_where_there_is_numpy_alone(tmp_path: Path) -> None:
    sizes = {"N": 6, "D": 2, "M": 3}
    with pytest.warns(tc.DataDependentAccess):
        kernel = tc.compile(GATHER, "cpu")
    path = kernel.export(tmp_path / "gather.tcb", sizes)
    command = [sys.executable, "-I", "-S", "-c", CHILD, str(bare(tmp_path / "packages")), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    result, messages, modules = json.loads(done.stdout)
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.testing.assert_allclose(result, kernel(table, np.array([5, 0, 2], np.int32)))
    assert not {"halide", "islpy", "lark", "llvmlite", "platformdirs", "tc._halide", "tc.kernel"} & set(
        modules
    )
    assert not [m for m in modules if m.startswith(("tc.poly", "tc.codegen.llvm", "tc.lang", "tc_backends"))]
    for k, args in ((0, (table, np.array([0, 6, 1], np.int32))), (2, (table,)), (3, (table, 3))):
        with pytest.raises(tc.Error) as want:
            kernel(*args)
        assert messages[k] == str(want.value)
    assert messages[1].startswith("error[TC0530]: the bundle of gather has no kernel for N = 5, D = 2, M = 3")

"""Bundles give what the kernel gives that was exported: results, checks, messages."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.bundle import processor
from tests.conformance.test_programs import CASES, arguments

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
GATHER = "def gather(float(N,D) T, int(M) I) -> (y) { y(i,d) = T(I(i),d) }"
ADD_TO = "def add_to(float(N) a, float(N) b) -> (y, z) { y(i) += a(i) * b(i)  z(i) = y(i) + 1.0 }"
STRIDED = "def f(float(N) x, int s) -> (y) { y(i) = x(s * i) where i in 0:N/s }"
SHIFTED = "def f(float(N) a, float(M) b) -> (y) { y(i) = a(i) + b(i + 2) where i in 0:N }"
GENERIC = "def g<T>(T(M,K) A, T(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }"
TWO = "def two(float(N) a) -> (s, b) { s +=! a(i)  b(i) = a(i) / s }"
SIZES = {"M": 5, "K": 3, "N": 4}
Exported = Callable[..., tuple[tc.Kernel, tc.Bundle]]


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    """`exported(source, sizes, …)`: the kernel on cpu and the bundle that it was exported to."""

    def make(source: str, sizes: Any, how: Mapping[str, Any] | None = None, **targets: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tc.Warning)
            kernel = tc.compile(source, "cpu", **(how or {}))
            path = kernel.export(tmp_path / "kernels.tcb", sizes, **targets)
        return kernel, tc.load(path)

    return make


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def same(a: Any, b: Any) -> bool:
    results = [x if isinstance(x, tuple) else (x,) for x in (a, b)]
    return all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(*results, strict=True)
    )


@pytest.mark.share(60)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_kernel(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    dtype = case.dtypes[len(name) % len(case.dtypes)]
    judge, given, buffers = arguments(case, dtype, exact=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(judge.source, "cpu", case.entry)
        sizes = kernel.sizes_of(**given, out=dict(buffers) or None)
        bundle = tc.load(kernel.export(tmp_path / "k.tcb", sizes))
        outs = [{k: v.copy() for k, v in buffers.items()} or None for _ in range(2)]
        with np.errstate(all="ignore"):
            want = kernel(**given, out=outs[0])
    assert same(bundle(**given, out=outs[1]), want)


def test_calls_are_those_of_a_kernel(exported: Exported) -> None:
    kernel, bundle = exported(MM, [SIZES, {"M": 2, "K": 3, "N": 1}])
    a, b = floats(5, 3), floats(3, 4)
    want = kernel(a, b)
    assert same(bundle(a, b), want) and same(bundle(B=b, A=a), want) and same(bundle(a, b), want)
    out = np.empty((5, 4), np.float32)
    assert bundle(a, b, out=out) is out and same(out, want)
    wide = np.zeros((5, 8), np.float32)
    assert same(bundle(np.asfortranarray(a), b, out=wide[:, ::2]), want) and same(wide[:, ::2].copy(), want)
    assert bundle(a[:2], b[:, :1]).shape == (2, 1)
    assert "tc.Bundle mm(A, B) -> (C) on cpu: " in repr(bundle)
    assert bundle.sizes == (SIZES, {"M": 2, "K": 3, "N": 1})
    assert (bundle.name, bundle.source) == ("mm", MM)
    assert bundle.ranges == {n: tuple(map(str, kernel.ranges[n])) for n in kernel.ranges}
    assert same(pickle.loads(pickle.dumps(bundle))(a, b), want)
    torch = pytest.importorskip("torch")
    assert torch.equal(bundle(torch.from_numpy(a), torch.from_numpy(b)), torch.from_numpy(want))


def test_several_results_are_a_named_tuple(exported: Exported) -> None:
    kernel, bundle = exported(TWO, {"N": 4})
    a = floats(4)
    found = bundle(a)
    assert found._fields == ("s", "b") and same(found, kernel(a)) and same(bundle(a), found)


def test_results_that_start_from_a_buffer(exported: Exported) -> None:
    kernel, bundle = exported(ADD_TO, {"N": 4})
    a, b = floats(4), floats(4) + 1
    outs = [{"y": np.ones(4, np.float32), "z": np.zeros(4, np.float32)} for _ in range(2)]
    for _ in range(2):
        assert same(bundle(a, b), kernel(a, b))
        assert same(bundle(a, b, out=outs[0]), kernel(a, b, out=outs[1]))
    in_place = [a.copy(), a.copy()]
    assert same(
        bundle(in_place[0], b, out={"z": in_place[0]}), kernel(in_place[1], b, out={"z": in_place[1]})
    )


def test_specialised_scalars(exported: Exported) -> None:
    kernel, bundle = exported(STRIDED, [{"N": 12, "s": 3}, {"N": 12, "s": 4}])
    x = floats(12)
    assert same(bundle(x, 3), kernel(x, 3)) and same(bundle(x, 4), kernel(x, 4))
    assert same(bundle(x, 3), kernel(x, 3))
    with pytest.raises(tc.ArgumentError, match="no kernel for N = 12, s = 2") as caught:
        bundle(x, 2)
    assert caught.value.code == "TC0530" and "N = 12, s = 3; N = 12, s = 4" in (caught.value.help or "")


def test_dynamic_sizes(exported: Exported) -> None:
    kernel, bundle = exported(MM, {"K": 3, "N": 4}, {"dynamic": ("M",)})
    assert bundle.sizes == ({"K": 3, "N": 4, "M": None},)
    for m in (0, 1, 5, 100, 5):
        a, b = floats(m, 3), floats(3, 4)
        assert same(bundle(a, b), kernel(a, b))
    with pytest.raises(tc.ArgumentError, match="no kernel for M = 5, K = 2, N = 4") as caught:
        bundle(floats(5, 2), floats(2, 4))
    assert "it has K = 3, N = 4, any M" in (caught.value.help or "")


def test_element_types(exported: Exported) -> None:
    kernel, bundle = exported(
        GENERIC, {"M": 2, "K": 3}, types=[{"T": "float"}, {"T": "double"}, {"T": "half"}]
    )
    for dtype in (np.float32, np.float64, np.float16):
        a, x = floats(2, 3, dtype=dtype), floats(3, dtype=dtype)
        assert same(bundle(a, x), kernel(a, x)) and same(bundle(a, x), kernel(a, x))
    with pytest.raises(tc.ArgumentError, match="no kernel for these element types") as caught:
        bundle(np.ones((2, 3), np.int32), np.ones(3, np.int32))
    assert caught.value.code == "TC0530" and "float64[M, K] A" in (caught.value.help or "")


def test_types_of_subscripts(exported: Exported) -> None:
    sizes = {"N": 6, "D": 2, "M": 3}
    kernel, bundle = exported(GATHER, sizes, types=[{"I": "int32"}, {"I": "int64"}])
    table = floats(6, 2)
    for dtype in (np.int32, np.int64):
        index = np.array([5, 0, 2], dtype)
        assert same(bundle(table, index), kernel(table, index))
    with pytest.raises(tc.ArgumentError, match="no kernel for I of uint8") as caught:
        bundle(table, np.zeros(3, np.uint8))
    assert "export it with types={'I': 'uint8'} too" in (caught.value.help or "")
    with pytest.raises(tc.DTypeError, match="'gather' has no parameter 'J'"):
        kernel.export("never.tcb", sizes, types={"J": "int64"})
    with pytest.raises(tc.DTypeError, match="'float' is no integer type"):
        kernel.export("never.tcb", sizes, types={"I": "float"})


def test_a_compiled_kernel_is_exported_as_it_is(tmp_path: Path) -> None:
    kernel = tc.compile(MM, "cpu")
    bundle = tc.load(kernel.specialize(**SIZES).export(tmp_path / "mm.tcb"))
    assert bundle.sizes == (SIZES,)


def test_sac_programs(tmp_path: Path) -> None:
    source = "double[*] f(double[*] A) { return A * 2.0 + 1.0; }"
    kernel = tc.compile(source, "cpu", lang="sac")
    with pytest.raises(tc.ArgumentError, match="no kernels before its ranks are known"):
        kernel.export(tmp_path / "f.tcb", {"A_0": 3})
    a = floats(3, 2, dtype=np.float64)
    want = kernel(a)
    path = kernel.kernel_for(a).export(tmp_path / "f.tcb", kernel.kernel_for(a).sizes_of(a))
    assert same(tc.load(path)(a), want)


# ---- errors


class Device:
    """An array that says it is on a device."""

    __cuda_array_interface__ = {"shape": (5, 3), "typestr": "<f4", "data": (0, False), "version": 3}  # noqa: RUF012


def _frozen(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a.flags.writeable = False
    return a


def _shared() -> tuple[tuple[Any, ...], dict[str, Any]]:
    memory = np.zeros(40, np.float32)
    return (memory[:15].reshape(5, 3), floats(3, 4)), {"out": memory[10:30].reshape(5, 4)}


WRONG: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "too few": lambda: ((floats(5, 3),), {}),
    "too many": lambda: ((floats(5, 3), floats(3, 4), floats(3, 4)), {}),
    "unknown name": lambda: ((floats(5, 3),), {"b": floats(3, 4)}),
    "a result as an argument": lambda: ((floats(5, 3), floats(3, 4)), {"C": floats(5, 4)}),
    "rank": lambda: ((floats(5, 3), floats(3)), {}),
    "sizes that differ": lambda: ((floats(5, 3), floats(4, 4)), {}),
    "type": lambda: ((floats(5, 3), floats(3, 4, dtype=np.float64)), {}),
    "no array": lambda: (([1, 2], floats(3, 4)), {}),
    "device": lambda: ((Device(), floats(3, 4)), {}),
    "byte order": lambda: ((floats(5, 3).astype(">f4"), floats(3, 4)), {}),
    "out of another shape": lambda: ((floats(5, 3), floats(3, 4)), {"out": floats(5, 5)}),
    "out of another type": lambda: (
        (floats(5, 3), floats(3, 4)),
        {"out": floats(5, 4, dtype=np.float64)},
    ),
    "out that is read-only": lambda: ((floats(5, 3), floats(3, 4)), {"out": _frozen(floats(5, 4))}),
    "out of another name": lambda: ((floats(5, 3), floats(3, 4)), {"out": {"D": floats(5, 4)}}),
    "too many out": lambda: ((floats(5, 3), floats(3, 4)), {"out": (floats(5, 4),) * 2}),
    "overlap": _shared,
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls_have_the_messages_of_the_kernel(what: str, exported: Exported) -> None:
    kernel, bundle = exported(MM, SIZES)
    args, kwargs = WRONG[what]()
    with pytest.raises(tc.Error) as want:
        kernel(*args, **kwargs)
    with pytest.raises(tc.Error) as found:
        bundle(*args, **kwargs)
    assert str(found.value) == str(want.value) and type(found.value) is type(want.value)


@pytest.mark.parametrize("dynamic", [(), ("M", "N")])
def test_an_index_out_of_range_has_the_message_of_the_kernel(dynamic: Any, exported: Exported) -> None:
    kernel, bundle = exported(GATHER, {"N": 6, "D": 2, "M": 3}, {"dynamic": dynamic})
    table = floats(6, 2)
    assert same(bundle(table, np.array([5, 0, 2], np.int32)), table[[5, 0, 2]])
    for wrong in ([0, 6, 1], [-1, 0, 0]):
        index = np.array(wrong, np.int32)
        with pytest.raises(tc.BoundsError) as want:
            kernel(table, index)
        for _ in range(2):
            with pytest.raises(tc.BoundsError) as found:
                bundle(table, index)
            assert str(found.value) == str(want.value)


@pytest.mark.parametrize("dynamic", [(), ("N", "M")])
def test_sizes_that_the_program_rules_out_have_the_message_of_the_kernel(
    dynamic: Any, exported: Exported
) -> None:
    kernel, bundle = exported(SHIFTED, {"N": 4, "M": 6}, {"dynamic": dynamic})
    a = floats(4)
    assert same(bundle(a, floats(6)), kernel(a, floats(6)))
    with pytest.raises(tc.PreconditionError) as want:
        kernel(a, floats(5))
    with pytest.raises(tc.PreconditionError) as found:
        bundle(a, floats(5))
    assert str(found.value) == str(want.value)
    assert bundle.preconditions == tuple(map(str, kernel.preconditions))


def test_sizes_that_were_not_exported(exported: Exported) -> None:
    _, bundle = exported(MM, [{**SIZES, "M": m} for m in range(1, 8)])
    with pytest.raises(tc.ArgumentError, match="no kernel for M = 9, K = 3, N = 4") as caught:
        bundle(floats(9, 3), floats(3, 4))
    assert "M = 4, K = 3, N = 4 and 3 more" in (caught.value.help or "")


# ---- targets


def test_code_for_several_instruction_sets(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, bundle = exported(MM, SIZES, isa=["sse4.2", "avx512", "avx2"])
    assert bundle.targets == ("avx512", "avx2", "sse4.2")
    (one,) = bundle._manifest.instances[0].kernels
    here = processor.features()
    a, b = floats(5, 3), floats(3, 4)
    wide = frozenset(t for t in one.targets[0].requires)
    narrow = frozenset(t for t in one.targets[2].requires)
    for has, name in ((wide | narrow, "avx512"), (wide - {"avx512f"} | narrow, "avx2"), (narrow, "sse4.2")):
        monkeypatch.setattr(processor, "features", lambda has=has: has)
        again = tc.load(bundle.path)
        target = again._target(one)
        assert target.name == name
        if here.issuperset(target.requires):
            np.testing.assert_allclose(again(a, b), kernel(a, b), rtol=1e-6)
    monkeypatch.setattr(processor, "features", lambda: frozenset({"sse4_2"}))
    with pytest.raises(tc.BackendError, match="this processor lacks popcnt") as caught:
        tc.load(bundle.path)
    assert caught.value.code == "TC0830"
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(tc.BackendError, match="and this is riscv64"):
        tc.load(bundle.path)


def test_targets_that_cannot_be_compiled_for(tmp_path: Path) -> None:
    kernel = tc.compile(MM, "cpu")
    with pytest.raises(tc.BackendError, match="no code for 'avx215'") as caught:
        kernel.export(tmp_path / "never.tcb", SIZES, isa="avx215")
    assert caught.value.code == "TC0811" and "did you mean 'avx512'" in (caught.value.help or "")
    with pytest.raises(tc.BackendError, match="the backend 'reference' has no bundles") as caught:
        tc.compile(MM, "reference").export(tmp_path / "never.tcb", SIZES)
    assert caught.value.code == "TC0832"
    with pytest.raises(tc.ArgumentError, match="no value for the size K"):
        kernel.export(tmp_path / "never.tcb", {"M": 1, "N": 2})
    with pytest.raises(tc.ArgumentError, match="sizes is int where a mapping belongs"):
        kernel.export(tmp_path / "never.tcb", [3])
    with pytest.raises(tc.ArgumentError, match="No such file or directory") as failed:
        kernel.export(tmp_path / "absent" / "never.tcb", SIZES)
    assert failed.value.code == "TC0516"
    assert not list(tmp_path.iterdir())


def test_without_a_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(tc.BackendError, match="there is no linker") as caught:
        tc.compile(MM, "cpu").export(tmp_path / "never.tcb", SIZES)
    assert caught.value.code == "TC0831"


@pytest.mark.parametrize("only", ["cc", "clang"])
def test_a_compiler_links_where_there_is_no_linker(
    only: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    which = shutil.which
    if which(only) is None:
        pytest.skip(f"there is no {only}")
    monkeypatch.setattr("shutil.which", lambda name: which(name) if name == only else None)
    kernel = tc.compile(MM, "cpu")
    bundle = tc.load(kernel.export(tmp_path / "mm.tcb", SIZES))
    assert same(bundle(floats(5, 3), floats(3, 4)), kernel(floats(5, 3), floats(3, 4)))

"""tc.library: what it lists, how operators are called, and what their files say."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.lang.parse import parse

ROOT = Path(__file__).parents[2]
library: Any = tc.library
NAMES = list(library.operators())


def test_there_are_more_than_forty() -> None:
    assert len(NAMES) > 60
    assert [x.name for x in library.list()] == [
        x.name for x in sorted(library.list(), key=lambda x: (x.group, x.name))
    ]
    assert {x.group for x in library.list("losses")} == {"losses"}


def test_the_list_is_a_table() -> None:
    shown = repr(library.list())
    assert "conv2d" in shown and "x(N,C,H,W), w(F,C,KH,KW), b(F)? -> y(N,F," in shown
    assert "matmul" in dir(library) and "list" in dir(library)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="did you mean 'conv2d'"):
        library.conv2  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_headers(name: str) -> None:
    op = library.operators()[name]
    assert op.summary.endswith(".") and op.header.matches and op.header.returns
    scalars = {p.name for v in op.variants.values() for p in v.params if not p.type.dims}
    said = {n for a in op.header.arguments.values() for n in a.parameters}
    assert scalars <= said, "every scalar needs a line"
    defs = parse(tc.errors.Source(op.source)).defs
    d = next(d for d in defs if not d.name.endswith("_backward"))
    assert not defs[-1].name.endswith("_backward")  # which a compile of the source would take
    assert [n for n, _ in op.header.returns] == [r.name for r in d.returns]
    assert d.name == name
    sizes = {str(x.value) for p in d.params for x in p.type.dims}
    assert op.header.leading is None or op.header.leading in sizes
    assert all(len(line) <= 110 for line in op.source.splitlines())
    for text in ("x:", "Returns", "Gradient:", "Matches"):
        assert text in op.__doc__ or text == "x:"


def test_signatures() -> None:
    assert str(inspect.signature(library.conv2d)) == (
        "(x, w, b=None, stride=1, padding=0, dilation=1, *, out=None)"
    )
    assert str(inspect.signature(library.max_pool2d)) == "(x, kernel, stride=None, padding=0, *, out=None)"
    assert library.conv2d.__name__ == "conv2d" and repr(library.conv2d).startswith("<tc.library.conv2d(x, w")


def test_arguments_that_do_not_fit() -> None:
    x, w = np.ones((1, 2, 5, 5), "f4"), np.ones((3, 2, 3, 3), "f4")
    with pytest.raises(TypeError, match=r"conv2d\(\) misses w"):
        library.conv2d(x)
    with pytest.raises(TypeError, match="unexpected argument 'strid'; it takes x, w, b, stride"):
        library.conv2d(x, w, strid=2)
    with pytest.raises(TypeError, match="several values for 'x'"):
        library.conv2d(x, w, x=x)
    with pytest.raises(TypeError, match="takes 6 arguments but 7 were given"):
        library.conv2d(x, w, None, 1, 0, 1, 1)
    with pytest.raises(TypeError, match=r"stride is a number or 2 of them \(sh, sw\), not 3"):
        library.conv2d(x, w, stride=(1, 2, 3))
    with pytest.raises(TypeError, match=r"max_pool2d\(\) misses kernel"):
        library.max_pool2d(x)
    with pytest.raises(tc.DTypeError, match="w: expected float64, found float32"):
        library.conv2d(x.astype("f8"), w)
    with pytest.raises(tc.ArgumentError, match="C"):
        library.conv2d(x, np.ones((3, 4, 3, 3), "f4"))
    with pytest.raises(tc.ArgumentError, match="there is no variant for int8"):
        library.conv2d.kernel("int8")


def test_leading_dimensions() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("f4")
    mean, var = library.moments(x)
    np.testing.assert_allclose(mean, x.mean(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var, x.var(-1), rtol=1e-5)
    assert library.silu(np.float32(1.5).reshape(())).shape == ()
    assert library.softmax(x[0, 0, 0]).shape == (5,)
    assert library.embedding(np.zeros((2, 0), np.int64), np.ones((3, 4), "f4")).shape == (2, 0, 4)
    np.testing.assert_array_equal(library.mse_loss(x, x), 0)
    with pytest.raises(
        tc.ArgumentError, match=r"value has the leading dimensions \(2, 3\), and gate has \(3, 2\)"
    ):
        library.swiglu(np.ones((3, 2), "f4"), np.ones((2, 3), "f4"))


def test_buffers_for_results() -> None:
    x = np.ones((2, 5), "f4")
    y = np.zeros((2, 5), "f4")
    assert library.softmax(x, out=y) is y
    np.testing.assert_allclose(y, 0.2, rtol=1e-6)
    with pytest.raises(tc.ArgumentError, match="one leading dimension"):
        library.softmax(x[None], out=y[None])


def test_element_types() -> None:
    x = np.linspace(-2, 2, 7)
    for dtype, eps in (("float16", 2e-3), ("float32", 1e-6), ("float64", 1e-12)):
        found = library.gelu(x.astype(dtype))
        assert found.dtype == dtype
        wanted = library.gelu(x.astype(dtype).astype("f8"))
        np.testing.assert_allclose(found.astype("f8"), wanted, rtol=eps, atol=eps)


def test_a_kernel_and_its_source() -> None:
    kernel = library.conv2d.kernel("float64", "conv2d_bias", backend="reference")
    assert kernel.name == "conv2d_bias" and kernel.ranges["x"]
    assert kernel.output_shapes(N=1, C=2, H=5, W=6, F=3, KH=3, KW=3, sh=2, sw=1, ph=1, pw=0, dh=1, dw=1) == {
        "y": (1, 3, 3, 4)
    }


def test_an_operator_travels_by_name() -> None:
    assert pickle.loads(pickle.dumps(library.conv2d)) is library.conv2d
    assert copy.copy(library.conv2d) is library.conv2d


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, tc; assert 'tc.library' not in sys.modules; tc.library.list(); "
        "assert not {'torch', 'jax', 'halide', 'islpy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_command_line() -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tc", "library", *args], capture_output=True, text=True, cwd=ROOT
        )

    assert run().stdout == repr(library.list()) + "\n"
    shown = run("softmax").stdout
    assert library.softmax.source.rstrip() in shown and "Matches torch.softmax(x, -1)." in shown
    assert [x["name"] for x in json.loads(run("--json").stdout)["operators"]] == [
        x.name for x in library.list()
    ]
    wrong = run("soft_max")
    assert wrong.returncode == 1 and "did you mean 'softmax'?" in wrong.stderr


def test_no_warnings_for_the_author_of_a_program() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tc.library.operators()["embedding"](np.zeros(2, np.int32), np.ones((3, 4), "f4"))

"""Lanes whose last subscript is clamped, wrapped or reflected: a load for each run of contiguous elements."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tests.backends.cpu_cases import code_of, compiled, interpreted, isas

NUMPY = {"clamp": "edge", "wrap": "wrap", "reflect": "reflect", "symmetric": "symmetric"}
MODED = "def f({t}(N,M) x) -> (y) {{ y(i,j) = x[none,{mode}](i,j-{before}) where j in 0:M+{more} }}"
WRITTEN = {
    "clamped": "min(max(j-{a}, {b}), M-1)",
    "clamped to one": "max(min(j-{a}, 3), 5)",
    "wrapped": "(j+{a}) % M",
    "wrapped early": "(j+{a}) % {p}",
    "wrapped after the first": "1 + (j+{a}) % {p}",
    "descending": "{p} - 1 - (j+{a}) % {p}",
    "reflected": "min((j+{a}) % (2*M-2), 2*M-2 - (j+{a}) % (2*M-2))",
    "reflected early": "min((j+{a}) % {p}, {p} - 1 - (j+{a}) % {p})",
    "no reflection": "min((j+{a}) % {p}, 2*{p} - (j+{a}) % {p})",
}


@pytest.mark.parametrize("mode", list(NUMPY))
@pytest.mark.parametrize("t", ["float", "double"])
def test_nothing_is_gathered(t: str, mode: str) -> None:
    program = tc.compile(MODED.format(t=t, mode=mode, before=2, more=4), "cpu").program({"N": 100, "M": 200})
    text = str(code_of(program, tc.Options(isa="avx2")).text)
    assert "masked.load" in text
    assert "masked.gather" not in text


def test_a_gather_serves_lanes_that_are_more_than_a_period_away() -> None:
    text = str(code_of(tc.compile(MODED.format(t="float", mode="wrap", before=300, more=0), "cpu").program(
        {"N": 100, "M": 200})).text)  # fmt: skip
    assert re.search(r"folded\d+:\n", text)
    assert re.search(r"far\d+:\n(?:.*\n)*?.*masked.gather", text)


@pytest.mark.share(72)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("t", ["float", "double", "half", "int8", "int64", "bool"])
@pytest.mark.parametrize("mode", list(NUMPY))
def test_results_of_boundary_modes(mode: str, t: str, isa: str) -> None:
    dtype = {"float": "f4", "double": "f8", "half": "f2"}.get(t, t)
    for before, more in ((2, 4), (37, 0), (0, 90), (170, 340)):
        kernel = compiled(MODED.format(t=t, mode=mode, before=before, more=more), isa=isa)
        for n, m in ((2, 70), (1, 16), (3, 37)):
            x = np.random.default_rng(m).integers(0, 2 if t == "bool" else 100, (n, m)).astype(dtype)
            widths = ((0, 0), (before, max(0, more - before)))
            want = np.pad(x, widths, mode=NUMPY[mode])[:, : m + more]  # type: ignore[call-overload]
            np.testing.assert_array_equal(kernel(x), want)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data())
def test_results_of_subscripts_as_they_are_written(data: st.DataObject) -> None:
    m = data.draw(st.sampled_from([12, 16, 33, 64, 100]), "M")
    p = data.draw(st.sampled_from([q for q in (5, 8, 11, 16, 31) if q < m]), "p")
    a, b = (data.draw(st.integers(0, 40)), data.draw(st.integers(0, 4)))
    written = data.draw(st.sampled_from(sorted(WRITTEN))), data.draw(st.sampled_from(sorted(WRITTEN)))
    first, second = (WRITTEN[w].format(a=a, b=b, p=p) for w in written)
    source = f"def f(float(N,M) x) -> (y) {{ y(i,j) = x(i,{first}) - 2*x(i,{second}) where j in 0:M+{a} }}"
    tile = data.draw(st.sampled_from([None, (1, 16), (2, 32), (1, 8)]), "tile")
    dynamic = data.draw(st.sampled_from([(), ("N",), ("N", "M")]), "dynamic")
    kernel = tc.compile(source, "cpu", dynamic=dynamic, options=tc.Options(register_tile=tile))
    x = np.random.default_rng(m).integers(-50, 50, (3, m)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), interpreted(source, x)[0])


@pytest.mark.share(16)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("mode", list(NUMPY))
def test_results_of_a_filter_under_a_border(mode: str, isa: str) -> None:
    """Several vectors of a tile are at the border, or some of them."""
    source = f"""def f(float(N,C,H,W) x, float(C,3,3) w) -> (y) {{
      y(n,c,h,v) +=! x[none,none,{mode},{mode}](n, c, h+i-1, v+j-1) * w(c,i,j) where h in 0:H, v in 0:W
    }}"""
    for h, v in ((5, 7), (19, 33), (8, 64), (3, 130)):
        rng = np.random.default_rng(v)
        x = rng.integers(-4, 5, (2, 3, h, v)).astype(np.float32)
        w = rng.integers(-4, 5, (3, 3, 3)).astype(np.float32)
        p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=NUMPY[mode])  # type: ignore[call-overload]
        parts = [
            p[..., i : i + h, j : j + v] * w[:, i, j][None, :, None, None] for i in range(3) for j in range(3)
        ]
        np.testing.assert_array_equal(compiled(source, isa=isa)(x, w), sum(parts))

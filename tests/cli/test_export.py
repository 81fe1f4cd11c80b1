"""`python -m tc export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.cli.export import grouped

SIZES = ("--size", "M=3,K=4", "--size", "N=5")


def test_a_bundle_of_a_file(run: Any) -> None:
    done = run("export", "mm.tc", *SIZES, "--isa", "avx2,sse4.2")
    assert done.code == 0
    assert done.out.startswith("mm.tcb: ") and done.out.endswith(
        "1 kernel for avx2, sse4.2; tc.load('mm.tcb')\n"
    )
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    assert (tc.load("mm.tcb")(a, b) == 4).all()
    assert tc.load("mm.tcb").targets == ("avx2", "sse4.2")


def test_many_sizes_at_once(run: Any) -> None:
    done = run("export", "mm.tc", *SIZES, "--size", "M=6", "--size", "M=7,N=8", "-o", "many.tcb", "--json")
    assert done.code == 0 and done.json["files"] == {"many.tcb": Path("many.tcb").stat().st_size}
    assert tc.load("many.tcb").sizes == (
        {"M": 3, "K": 4, "N": 5},
        {"M": 6, "K": 4, "N": 5},
        {"M": 7, "K": 4, "N": 8},
    )


def test_sizes_and_types_in_groups() -> None:
    assert grouped([], "--size") == []
    assert grouped(["N=1", "M=2,N=3", "N=4"], "--size") == [
        {"N": "1", "M": "2"},
        {"N": "3", "M": "2"},
        {"N": "4", "M": "2"},
    ]


def test_types_dynamic_sizes_and_options(run: Any) -> None:
    Path("g.tc").write_text("def g<T>(T(M,K) A, T(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }\n")
    flags = ("--size", "K=4", "--dynamic", "M=64", "--option", "parallel=false")
    done = run("export", "g.tc", *flags, "--type", "T=float", "--type", "T=double")
    assert done.code == 0 and "2 kernels for" in done.out
    bundle = tc.load("g.tcb")
    for dtype in (np.float32, np.float64):
        found = bundle(np.ones((9, 4), dtype), np.ones(4, dtype))
        assert found.dtype == dtype and (found == 4).all()
    assert "the type variable T" in run("export", "g.tc", *flags).err


def test_sac_files(run: Any) -> None:
    Path("f.sac").write_text("double[*] f(double[*] A) { return A + 1.0; }\n")
    done = run("export", "f.sac", "--rank", "A=2", "--size", "A_0=2,A_1=3", "-o", "f.tcb")
    assert done.code == 0, done.err
    assert (tc.load("f.tcb")(np.zeros((2, 3))) == 1).all()


def test_specialised_scalars(run: Any) -> None:
    Path("f.tc").write_text("def f(float(N) x, int s) -> (y) { y(i) = x(s * i) where i in 0:N/s }\n")
    assert run("export", "f.tc", "--size", "N=12", "--scalar", "s=3").code == 0
    assert run("export", "f.tc", "--size", "N=12,s=3").code == 0
    assert tc.load("f.tcb")(np.arange(12, dtype=np.float32), 3).tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize(
    ("flags", "code", "what"),
    [
        (("--size", "M=3"), "TC0513", "no value for the size"),
        ((*SIZES, "--isa", "mmx"), "TC0811", "no code for 'mmx'"),
        ((*SIZES, "--backend", "reference"), "TC0832", "has no bundles"),
        ((*SIZES, "-o", "absent/mm.tcb"), "TC0516", "No such file"),
        ((*SIZES, "--c", "--arch", "sm_80"), "TC0515", "--arch"),
        (("--size", "M"), "TC0515", "not of the form"),
    ],
)
def test_wrong_command_lines(flags: tuple[str, ...], code: str, what: str, run: Any) -> None:
    done = run("export", "mm.tc", *flags)
    assert done.code == 1 and f"error[{code}]" in done.err and what in done.err
    assert not list(Path().glob("*.tcb"))

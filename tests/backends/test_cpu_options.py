"""Options change the code of the cpu backend and never a result: random options over a fixed corpus."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from fuzz.strategies import fitting
from tests.backends.cpu_cases import BY_NAME, CORPUS, SIZES, Case, check, compiled, isas
from tests.share import examples

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))

COUNTS = st.sampled_from([1, 1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 32, 48, 64])


def options() -> st.SearchStrategy[dict[str, Any]]:
    """Valid options, most of them left to the model."""
    return st.fixed_dictionaries(
        {"isa": st.sampled_from(isas())},
        optional={
            "fusion": st.sampled_from(["max", "preserve3coincident", "min"]),
            "tile": st.lists(COUNTS, min_size=1, max_size=3).map(tuple),
            "register_tile": st.lists(COUNTS.filter(lambda n: n <= 17), min_size=1, max_size=3).map(tuple),
            "vector": st.integers(-1, 3),
            "unroll": st.integers(1, 9),
            "pack": st.booleans(),
            "order": st.permutations(range(3)).map(tuple),
            "parallel": st.booleans(),
            "prefetch": st.booleans(),
            "nontemporal": st.booleans(),
            "strict": st.booleans(),
        },
    )


@pytest.mark.share(36)
@pytest.mark.parametrize("case", CORPUS, ids=lambda c: c.name)
@given(data=st.data())
@settings(_COMMON, max_examples=examples(6))
def test_results_with_random_options(case: Case, data: st.DataObject) -> None:
    sizes = case.sizes(data.draw(st.lists(st.sampled_from(SIZES), min_size=4, max_size=4), "sizes"))
    check(case, sizes, 0, fitting(data.draw(options(), "options"), case.kernel.front))


@pytest.mark.share(90)
@pytest.mark.parametrize("case", CORPUS, ids=lambda c: c.name)
@pytest.mark.parametrize("isa", isas())
def test_results_with_default_options(case: Case, isa: str) -> None:
    """Sizes that no vector and no register tile divides."""
    check(case, case.sizes([19, 18, 5, 3]), 1, {"isa": isa})


@pytest.mark.share(18)
@pytest.mark.parametrize("fusion", ["max", "preserve3coincident", "min"])
@pytest.mark.parametrize("name", ["bias and relu", "mlp", "softmax", "redefinition", "stencils", "calls"])
def test_results_with_each_fusion_strategy(name: str, fusion: str) -> None:
    case = BY_NAME[name]
    check(case, case.sizes([9, 17, 6, 5]), 2, fitting({"fusion": fusion, "tile": (4, 8)}, case.kernel.front))


@pytest.mark.share(18)
@pytest.mark.parametrize("tile", [(7, 8), (3,), (1, 16), (64, 64, 64)])
@pytest.mark.parametrize("name", ["gemm", "gemm of transposed", "convolution", "bias and relu", "batched"])
def test_results_of_tiles_with_packs(name: str, tile: tuple[int, ...]) -> None:
    case = BY_NAME[name]
    check(case, case.sizes([21, 20, 33, 4]), 3, fitting({"tile": tile, "pack": True}, case.kernel.front))


def test_a_value_that_an_index_selects() -> None:
    """At i = 0 the value needs no element of A: the nest reads none."""
    check(Case("or", "def f(bool(N,M) A) -> (E) { E(i,j) = A(i,j) || (i < 2) }"), {"N": 1, "M": 1}, 0, {})


def test_padding_loaded_under_another_condition_is_not_reused_after_it() -> None:
    """A value that was loaded under Q is not available where Q does not hold."""
    source = """def f(float(N) P, float(N) Q, float(N,M) A, float(N,M) B) -> (O) {
      O(i,j) = (P(i) > 0 ? B(i,j) : 0) + (Q(i) > 0 ? (P(i) > 0 ? A(i,j) : 0) * 2 : 1)
               + (P(i) > 0 ? A(i,j) : 0)
    }"""
    check(Case("under", source), {"N": 9, "M": 80}, 0, {"vector": 1})


def test_results_of_a_register_tile_that_does_not_divide_the_tiles_of_a_region() -> None:
    check(BY_NAME["mlp"], {"B": 15, "N": 0, "O": 1, "P": 2}, 0, {"register_tile": (12,)})
    check(BY_NAME["mlp"], {"B": 15, "N": 4, "O": 6, "P": 5}, 0, {"register_tile": (12, 5)})


@pytest.mark.skipif("avx512" not in isas(), reason="this processor has no AVX-512")
def test_results_of_lanes_that_do_not_divide_the_tiles_of_a_region() -> None:
    sizes = {"B": 31, "N": 5, "O": 1, "P": 2}
    check(BY_NAME["mlp"], sizes, 0, {"isa": "avx512", "register_tile": (2,)})


def test_options_that_other_backends_have_are_refused() -> None:
    with pytest.raises(tc.BackendError, match="does not use the option 'autoschedule'") as caught:
        compiled(BY_NAME["gemm"].source, autoschedule="Adams2019")
    assert caught.value.code == "TC0809"


def test_options_show_in_the_choice() -> None:
    """The choice follows the options where the nest allows it."""

    def choice(**values: Any) -> str:
        return compiled(BY_NAME["gemm"].source, **values).inspect("choice", M=64, N=64, K=64)

    assert "by 16/4" in choice(tile=(16, 32), register_tile=(4, 16), vector=1, isa=isas()[-1])
    assert "packs" not in choice(pack=False)
    small = compiled(BY_NAME["gemm"].source, pack=True).inspect("choice", M=5, N=32, K=8)
    assert "packs 1" in small
    assert "packs" not in compiled(BY_NAME["gemm"].source).inspect("choice", M=5, N=32, K=8)
    assert "parallel" not in choice(parallel=False, tile=(16, 32))
    assert "parallel" in choice(tile=(16, 32))
    for order, shown in (((0,), "i_0 parallel.*, j_1 parallel"), ((1, 0), "j_1 parallel.*, i_0 parallel")):
        assert re.search(f"order {shown}", choice(tile=(16, 16), order=order))


def test_threads_share_the_outermost_loop() -> None:
    """Packs need the rows that they depend on outermost; an order that is given takes precedence."""
    kernels = {o: compiled(BY_NAME["gemm"].source, order=o) for o in ((0,), (1,), (1, 0))}
    shown = {o: k.inspect("choice", M=512, N=512, K=512) for o, k in kernels.items()}
    for o, text in shown.items():
        assert f"order {'ij'[o[0]]}_{o[0]} parallel" in text, text


def test_the_option_prefetch_decides_about_gathered_rows() -> None:
    """Rows of a table that data select are prefetched by default only if the table is larger than the second
    cache."""
    source = "def f(float(E,D) T, int32(N) I) -> (O) { O(d) +=! T(I(n), d) }"

    def loops(**values: Any) -> str:
        return compiled(source, **values).inspect("loops", E=100, D=64, N=500)

    assert "prefetch" not in loops()
    assert "prefetch" in loops(prefetch=True)
    assert "prefetch" in loops(machine=(("l2", 4096),))
    assert "prefetch" not in loops(machine=(("l2", 4096),), prefetch=False)


def test_the_option_nontemporal_decides_about_stores() -> None:
    """By default results larger than the last cache are stored non-temporally; never results that are read
    again."""
    source = "def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"

    def stores(**values: Any) -> int:
        return compiled(source, **values).inspect("llvm", N=4096).count("!nontemporal")

    small = (("l1", 1 << 10), ("l2", 1 << 12), ("l3", 1 << 13))
    assert not stores() and stores(nontemporal=True)
    assert stores(machine=small) and not stores(machine=small, nontemporal=False)
    reread = "def f(float(N) A) -> (C, D) { C(i) = A(i) * 2\n D +=! C(i) }"
    assert "!nontemporal" not in compiled(reread, nontemporal=True).inspect("llvm", N=4096)


# A function that decides about fusion, and facts about the machine.


def test_a_function_decides_about_fusion(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path))
    case = BY_NAME["mlp"]
    seen: list[Any] = []

    def never(proposal: Any) -> bool:
        seen.append(proposal)
        return False

    check(case, case.sizes([9, 17, 6, 5]), 2, {"fusion": never})
    assert not [p for p in tmp_path.rglob("*") if p.is_file()], "kept, though no key can tell the function"
    assert seen and {"first", "second", "before", "own", "after", "level"} <= set(dir(seen[0]))
    sizes = dict.fromkeys(compiled(case.source).front.checked.sizes, 8)
    shown = {f: compiled(case.source, fusion=f).inspect("schedule", **sizes) for f in (never, "min", "max")}
    assert shown[never] == shown["min"] != shown["max"]


def test_facts_about_the_machine_are_overridden() -> None:
    source = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    sizes = {"M": 256, "N": 256, "K": 4096}

    def choice(**machine: float) -> str:
        return compiled(source, machine=tuple(machine.items()) or None).inspect("choice", **sizes)

    assert choice().splitlines()[-1].startswith(f"machine: isa {isas()[0]}, cores ")
    assert "cores 3, l1 16384" in choice(cores=3, l1=1 << 14).splitlines()[-1]
    assert choice(cores=1).splitlines()[-2] != choice(cores=16).splitlines()[-2]


@pytest.mark.parametrize(
    ("old", "new", "value"), [("short_store", "scattered_store_penalty", 7.0), ("starts", "issue_width", 6.0)]
)
def test_old_names_of_machine_facts_work_and_are_noticed_once(
    old: str, new: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tc.support.machine_overrides._noticed", set[str]())
    source, sizes = "def f(float(M,N) A) -> (B) { B(n,m) = A(m,n) }", {"M": 64, "N": 64}

    def choice(name: str) -> str:
        return compiled(source, machine=((name, value),)).inspect("choice", **sizes)

    with pytest.warns(tc.BackendNotice, match=f"machine fact '{old}' is now called '{new}'") as issued:
        by_old_name = choice(old)
        assert choice(old) == by_old_name
    assert len(issued) == 1 and issued[0].filename == __file__
    assert choice(new) == by_old_name and f"{new} {value}" in by_old_name.splitlines()[-1]


@pytest.mark.parametrize("old", ["evicted", "full_set", "hinted", "asks_again", "lost_line", "crowded"])
def test_every_old_name_of_a_machine_fact_is_an_alias_of_one_that_exists(old: str) -> None:
    target = sys.modules["tc_backends.cpu.target"]
    assert old in target._OLD_NAMES and not hasattr(target.host(), old)
    assert all(hasattr(target.host(), new) for new in target._OLD_NAMES.values())


@pytest.mark.parametrize(
    ("machine", "message", "help_"),
    [
        ({"core": 4}, "core = 4", "did you mean 'cores'?"),
        ({"cores": 1.5}, "cores = 1.5", "cores is a whole number above 0"),
        ({"cores": 0}, "cores = 0", "cores is a whole number above 0"),
        ({"bandwidth": 0}, "bandwidth = 0", "bandwidth is a number above 0"),
        ({"isa": 3}, "isa = 3", None),
    ],
)
def test_unknown_facts_and_impossible_numbers_are_refused(
    machine: dict[str, float], message: str, help_: str | None
) -> None:
    with pytest.raises(tc.BackendError, match=f"no machine with {message}") as caught:
        compiled("def f(float(N) A) -> (B) { B(i) = A(i) }", machine=tuple(machine.items())).specialize(N=3)
    assert caught.value.code == "TC0814"
    assert help_ is None or caught.value.help == help_


# fast_math: the two rewrites of docs/numerics.md and their bounds.


def ulps(found: Any, exact: Any) -> float:
    return float(
        np.max(np.abs(found.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(found.dtype)))
    )


def test_fast_products_stay_within_their_bound() -> None:
    source = """
    def f(float(I,J) X, float(J,K) B, float(K) C, float(I) D) -> (O) {
      O(i,j,k) = X(i,j) * B(j,k) * C(k) * D(i)
    }
    """
    r = np.random.default_rng(3)
    a = [r.uniform(0.5, 2, s).astype(np.float32) for s in ((7, 9), (9, 37), (37,), (7,))]
    x, b, c, d = (v.astype(np.float64) for v in a)
    exact = x[:, :, None] * b[None] * c * d[:, None, None]
    found = compiled(source, fast_math=True)(*a)
    assert ulps(found, exact) <= 1.5 + 0.5  # (n - 1) / 2, and as much for the rounding of each unit
    assert not np.array_equal(found, compiled(source)(*a))


def test_fast_quotients_stay_within_their_bound() -> None:
    source = "def f(float(M,N) X, float(M) S) -> (O) { O(i,j) = X(i,j) / S(i) }"
    r = np.random.default_rng(4)
    x = r.uniform(0.5, 2, (19, 200)).astype(np.float32)
    s = r.uniform(0.5, 2, 19).astype(np.float32)
    exact = x.astype(np.float64) / s[:, None].astype(np.float64)
    assert ulps(compiled(source)(x, s), exact) <= 0.5
    found = compiled(source, fast_math=True)(x, s)
    assert ulps(found, exact) <= 1.5
    assert "vdivps" not in compiled(source, fast_math=True).inspect("asm", M=19, N=200).split("vmulps")[1]


def test_fast_math_keeps_special_values() -> None:
    source = "def f(float(N) X, float(N) Y) -> (O) { O(i) = fmax(X(i) * Y(i), 0) / X(i) }"
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0], np.float32)
    x, y = (g.ravel() for g in np.meshgrid(special, special))
    fast, exact = (compiled(source, fast_math=f)(x, y) for f in (True, False))
    np.testing.assert_array_equal(fast, exact)
    np.testing.assert_array_equal(np.signbit(fast[exact == 0]), np.signbit(exact[exact == 0]))


@pytest.mark.share(36)
@pytest.mark.parametrize("case", CORPUS, ids=lambda c: c.name)
def test_results_of_the_corpus_with_fast_math(case: Case) -> None:
    check(case, case.sizes([19, 18, 5, 3]), 1, {"fast_math": True})


def test_a_register_tile_that_llvm_would_not_finish_is_made_smaller() -> None:
    """And the choice says so."""
    source = "def f(float(K,M) A) -> (T) { T(i,j,k) max=! A(i,i) + A(j,j) + A(k,k) + A(l,l) }"
    a = np.arange(33 * 33, dtype=np.float32).reshape(33, 33)
    # With one FMA unit a nest of its own would compute the sum once, before the reduction.
    kernel = compiled(source, register_tile=(33, 33, 33), machine=(("fma_units", 2),))
    with pytest.warns(tc.PerformanceNotice, match=r"the register tile of S0, S1 is \("):
        found = np.asarray(kernel(a))
    np.testing.assert_array_equal(found, np.asarray(tc.interpret(source, a)))
    assert "as given, down to 256 vectors" in kernel.inspect("choice", K=33, M=33)


@pytest.mark.slow
def test_a_register_tile_with_remainders_of_many_lengths_is_made_smaller() -> None:
    """For dynamic sizes there is code for several lengths along each axis: these multiply, to hundreds of
    thousands of lines where elements are gathered."""
    source = """def f(int16(P,M,M) A, int s) -> (T) {
      T(i,j,k,l) +=! A(i % 4, l, i - 2) / (x % x) + A(k,k,k) + A(m,m,m) + A(n,n,n)
        where x = select(A(m,m,m) < A(i,n,3*m) && k <= 4, A(k % 4,i+s,m), A(n-3,n-3,j)), j in 0:M
    }"""
    options = tc.Options(register_tile=(12, 4, 17))
    kernel = tc.compile(source, "cpu", options=options, dynamic={"P": 4, "M": 4})
    with (
        pytest.warns(tc.EmptyRange, match="the range of 'i' is empty"),
        pytest.warns(tc.PerformanceNotice, match=r"the register tile of S0, S1 is \("),
    ):
        assert "lines of LLVM" in kernel.inspect("choice", P=4, M=4, s=2)
    assert kernel.inspect("llvm", P=4, M=4, s=2).count("\n") < 60_000


def test_results_of_a_register_tile_that_fits_no_tile_of_a_region() -> None:
    """Rows of A become float32 in the loops of the product, 24 at a time, which 16 lanes do not divide."""
    source = "def f(half(M,K) A, half(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    case = Case("halves", source, {"M": 43, "K": 40, "N": 26}, high=2)
    options = {"isa": isas()[-1], "vector": 0, "register_tile": (32, 4)}
    with pytest.warns(tc.PerformanceNotice, match="divides no tile"):
        tc.compile(source, "cpu", options=tc.Options(vector=0, register_tile=(32, 4)))(
            *case.arguments(case.fixed, 0)[0].values()
        )
    check(case, case.fixed, 0, options)

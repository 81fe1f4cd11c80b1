"""Fusion by default on the cpu backend, on a machine whose caches and cores are given: loops are fused where
that saves traffic, unless it costs parallelism or evicts data that are reused."""

from __future__ import annotations

import re
from typing import Any

import islpy as isl
import pytest

import tc
from tc.poly.context import isl_context
from tests.backends.cpu_cases import LAYERNORM, MOMENTS, SOFTMAX, compiled
from tests.poly.fused import BATCH_NORM, MLP3

MACHINE = {
    "cores": 4,
    "l1": 32 << 10,
    "l1_ways": 8,
    "l2": 1 << 20,
    "l3": 32 << 20,
    "l2_bandwidth": 26.0,
    "scattered_store_penalty": 0,
    "unprefetched_row_penalty": 0,
    "page_stride_penalty": 0,
    "conflict_miss_factor": 4.0,
}
ROWS = "n[S0 d+[S1] d[S2] S3 d+[S4] d[S5]]"
NORMS = "n[S0 d+[S1] S2 S3 d+[S4] S5 d[S6]]"
SUMS = "n[S0 S2 k+[S1 S3] S4 S5]"  # the data are read once
CHANNELS = "c[S0 nn+ hh_ww+[S1] S2 S3 nn+ hh_ww+[S4] S5 n h_w[S6]]"
LAYERS = "b[o[S0 n+[S1] S2] p[S3 o+[S4] S5] q[S6 p+[S7] S8]]"
EACH_LAYER = "b o[S0 n+[S1] S2] b p[S3 o+[S4] S5] b q[S6 p+[S7] S8]"
CELL = """def cell(float(B,I) x, float(B,H) h, float(4,H,I) u, float(4,H,H) w) -> (g, s) {
  g(n,k,o) +=! x(n,i) * u(k,o,i)
  g(n,k,o) += h(n,i) * w(k,o,i)
  s(n,o) = sigmoid(g(n,0,o)) * tanh(g(n,1,o))
}"""

FUSED: list[tuple[str, str, dict[str, int], dict[str, int], str]] = [
    ("soft-max, few short rows", SOFTMAX, {"N": 8, "D": 32}, {}, ROWS),
    ("soft-max", SOFTMAX, {"N": 1024, "D": 1024}, {}, ROWS),
    ("soft-max, long rows", SOFTMAX, {"N": 64, "D": 1_000_000}, {}, ROWS),
    # Fewer rows than cores can share: their parts run in parallel, each statement in loops of its own.
    (
        "soft-max, two long rows", SOFTMAX, {"N": 2, "D": 1_000_000}, {},
        "d_chunk n[S1i d_in+[S1p]] n[S0 d_chunk+[S1]] n d[S2] "
        "d_chunk n[S4i d_in+[S4p]] n[S3 d_chunk+[S4]] n d[S5]",
    ),
    (
        "soft-max, two long rows, one core", SOFTMAX, {"N": 2, "D": 1_000_000}, {"cores": 1},
        "n[d_chunk[S1i d_in+[S1p]] S0 d_chunk+[S1] d[S2] d_chunk[S4i d_in+[S4p]] S3 d_chunk+[S4] d[S5]]",
    ),
    ("layer norm, small", LAYERNORM, {"N": 8, "D": 32}, {}, NORMS),
    ("layer norm", LAYERNORM, {"N": 4096, "D": 1024}, {}, NORMS),
    ("moments, small", MOMENTS, {"N": 8, "K": 32}, {}, SUMS),
    ("moments", MOMENTS, {"N": 1024, "K": 36864}, {}, SUMS),
    (
        "moments, one row", MOMENTS, {"N": 1, "K": 300_007}, {},
        "k_chunk n[S1i S3i k_in+[S1p S3p]] n[S0 k_chunk+[S1] S2 k_chunk+[S3] S4 S5]",
    ),
    ("mlp, small", MLP3, {"B": 4, "N": 8, "O": 8, "P": 8, "Q": 2}, {}, LAYERS),
    ("mlp", MLP3, {"B": 128, "N": 128, "O": 64, "P": 32, "Q": 2}, {}, LAYERS),
    # The weights of all layers do not stay in the cache from one row of the batch to the next.
    ("mlp, large", MLP3, {"B": 128, "N": 512, "O": 512, "P": 512, "Q": 512}, {}, EACH_LAYER),
    # They would, but each layer packs its weights, which is predicted to be faster still.
    (
        "mlp, large, large cache", MLP3, {"B": 128, "N": 512, "O": 512, "P": 512, "Q": 512}, {"l2": 8 << 20},
        EACH_LAYER,
    ),
    # Each product packs a factor of its own, which is worth more than to keep sums in registers for both.
    ("two products", CELL, {"B": 64, "I": 256, "H": 256}, {}, "n k o[S0 i+[S1]] n k o[i+[S2]] n o[S3]"),
    ("two small products", CELL, {"B": 4, "I": 8, "H": 8}, {}, "n o[k[S0 i+[S1] i+[S2]] S3]"),
    ("batch norm, small", BATCH_NORM, {"N": 2, "C": 4, "H": 4, "W": 4}, {}, CHANNELS),
    ("batch norm", BATCH_NORM, {"N": 32, "C": 64, "H": 56, "W": 56}, {}, CHANNELS),
    (
        "batch norm, few channels", BATCH_NORM, {"N": 32, "C": 3, "H": 224, "W": 224}, {},
        "nn_chunk c[S1i nn_in+ hh_ww+[S1p]] c[S0 nn_chunk+[S1] S2] "
        "nn_chunk c[S4i nn_in+ hh_ww+[S4p]] c[S3 nn_chunk+[S4] S5] n c h_w[S6]",
    ),
]  # fmt: skip


def shown(text: str) -> str:
    """A schedule tree in the notation of `tests.poly.fused.shown`."""
    kinds = isl.schedule_node_type

    def statements(node: Any) -> str:
        names: list[str] = []
        node.get_domain().foreach_set(lambda s: names.append(s.get_tuple_name()))
        return " ".join(sorted(names))

    def walk(node: Any) -> str:
        kind = node.get_type()
        if kind == kinds.leaf:
            return ""
        inside = " ".join(filter(None, (walk(node.child(i)) for i in range(node.n_children()))))
        if kind == kinds.band:
            maps = node.band_get_partial_schedule()
            names = (
                re.findall(r"-> \[\((\w+)", str(maps.get_union_pw_aff(i)))[0]
                + ("" if node.band_member_get_coincident(i) else "+")
                for i in range(node.band_n_member())
            )
            return f"{' '.join(names)}[{inside or statements(node)}]"
        return inside or (statements(node.child(0)) if kind == kinds.filter else "")

    with isl_context() as context:
        return walk(isl.Schedule.read_from_str(context, text).get_root())


@pytest.mark.share(18)
@pytest.mark.parametrize(("name", "source", "sizes", "machine", "tree"), FUSED, ids=[f[0] for f in FUSED])
def test_default_fusion(
    name: str, source: str, sizes: dict[str, int], machine: dict[str, int], tree: str
) -> None:
    facts = tuple(sorted({**MACHINE, **machine}.items()))
    assert shown(compiled(source, machine=facts).inspect("schedule", **sizes)) == tree


def test_options_override_the_default_fusion() -> None:
    sizes = {"N": 64, "D": 64}
    facts = tuple(sorted(MACHINE.items()))
    unfused = "n[S0] n[d+[S1]] n d[S2] n[S3] n[d+[S4]] n d[S5]"
    assert shown(compiled(SOFTMAX, machine=facts, fusion="min").inspect("schedule", **sizes)) == unfused
    assert shown(compiled(SOFTMAX, machine=facts, fusion="max").inspect("schedule", **sizes)) == ROWS
    assert tc.Options(machine=MACHINE).machine == facts

"""isl out of operations, and problems that make schedulers explode."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

import tc
from tc.poly import context
from tests.faults import children
from tests.faults.children import right


@pytest.mark.share(4)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_out_of_operations(backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At any number of them: the right result or TC0906, and the next compile is as if nothing had been."""
    monkeypatch.setenv("TC_CACHE", "0")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limit, failed = 1, 0
    for k in range(300):
        with monkeypatch.context() as m:
            m.setattr(context, "MAX_OPERATIONS", limit)
            try:
                assert right("rows", 20_000 + k, backend)
                break
            except tc.InternalError as e:
                assert e.code == "TC0906" and e.message == f"isl gave up after {limit} operations"
                if k % 20 == 0:
                    case = json.loads(Path(str(e.help).split()[-1]).read_text())
                    assert case["entry"] == "rows" and case["backend"] == backend
                failed += 1
        if k % 20 == 0:
            assert right("rows", 20_000 + k, backend)
        limit += 1 + limit // 9
    assert failed > 50, "the limit does nothing"
    # What one pass used up is not missing in the next ones.
    monkeypatch.setattr(context, "MAX_OPERATIONS", limit)
    assert all(right("rows", 21_000 + k, backend) for k in range(20))


# Programs at which isl's own scheduler took minutes and more, or of very many statements or dimensions.
_MLP = """def mlp(float(B,I) X, float(P,I) U, float(P) u, float(Q,P) V, float(Q) v, float(R,Q) W, float(R) w)
    -> (A, D, E) {
  A(n,p) +=! X(n,i) * U(p,i)
  A(n,p) = A(n,p) + u(p)
  A(n,p) = fmax(A(n,p), 0)
  D(n,q) +=! A(n,p) * V(q,p)
  D(n,q) = D(n,q) + v(q)
  D(n,q) = fmax(D(n,q), 0)
  E(n,r) +=! D(n,q) * W(r,q)
  E(n,r) = E(n,r) + w(r)
  E(n,r) = fmax(E(n,r), 0)
}"""
_GROUPS = """def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K, float(G,F) b) -> (O) {
  O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * K(g,f,c,kh,kw)
  O(n,g,f,h,w) = O(n,g,f,h,w) + b(g,f)
}"""
_DEEP = """def deep(float(A,B,C,D,E,F) X, float(F,E,D,G,H) Y) -> (O) {
  O(a,b,c,g,h) +=! X(a,b,c,d,e,f) * Y(f,e,d,g,h)
}"""
_STENCILS = "def s(float(N,M) T0) -> (T{n}) {{\n{body}}}".format(
    n=12,
    body="".join(
        f"  T{k + 1}(i,j) = T{k}(i-1,j) + T{k}(i+1,j) + T{k}(i,j-1) + T{k}(i,j+1) + T{k}(i,j)\n"
        for k in range(12)
    ),
)
_CHAIN = "def chain(float(N,M) T0) -> (T{n}) {{\n{body}}}".format(
    n=60, body="".join(f"  T{k + 1}(i,j) = T{k}(i,j) * 0.5 + T0(i,j)\n" for k in range(60))
)
_EXPLODING = {
    "mlp": (_MLP, {"B": 7, "I": 13, "P": 11, "Q": 9, "R": 5}),
    "gconv": (_GROUPS, {"N": 2, "G": 3, "C": 4, "H": 9, "W": 8, "F": 5, "KH": 3, "KW": 2}),
    "deep": (_DEEP, dict(zip("ABCDEFGH", (2, 3, 2, 3, 2, 3, 4, 5)))),
    "stencils": (_STENCILS, {"N": 40, "M": 33}),
    "chain": (_CHAIN, {"N": 20, "M": 33}),
}

EXPLODES = """
import json
from tc.cli.commands import compare
from tc.tuner.data import make_arguments
warnings.simplefilter("ignore")
for name, (source, sizes) in json.loads(sys.argv[1]).items():
    for fusion in ("max", "min", None):
        kernel = tc.compile(source, "cpu", options={"fusion": fusion})
        arguments, _ = make_arguments(kernel, sizes, {}, {})
        results = kernel(**arguments)
        names = [r.name for r in kernel.front.checked.returns]
        values = dict(zip(names, [results] if len(names) == 1 else results))
        found = compare(kernel, arguments, {}, values)
        assert found["agrees"], (name, fusion, found)
"""


@pytest.mark.slow
def test_what_is_known_to_explode_is_compiled() -> None:
    """In a process, since nothing could interrupt isl."""
    children.run(EXPLODES, json.dumps(_EXPLODING), TC_CACHE="0")

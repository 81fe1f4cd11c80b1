"""Look-up tables: rows chosen by data.  Index sets rotate, so that rows come from memory as in real use."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Workload


def lut(E: int, D: int, B: int, L: int) -> Workload:
    """Sums of L rows each."""
    return Workload(
        "lut",
        "def lut(float(E1,D) LUT1, int(B,L1) I1) -> (O1) { O1(i,j) +=! LUT1(I1(i,k),j) }",
        (Array("LUT1", (E, D)), Array("I1", (B, L), "int32", below=E)),
        flops=1.0 * B * L * D,
        kind="gather",
        terms=L,
        gathered={"LUT1": 4 * B * L * D},
        rotate=("I1",),
    )


def lut2(E: int, D: int, B: int, L: int) -> Workload:
    """Two tables in one kernel."""
    return Workload(
        "lut2",
        """
        def lut2(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1, O2) {
          O1(i,j) +=! LUT1(I1(i,k),j)
          O2(i,j) +=! LUT2(I2(i,k),j)
        }
        """,
        (
            *(Array("LUT1", (E, D)), Array("I1", (B, L), "int32", below=E)),
            *(Array("LUT2", (E, D)), Array("I2", (B, L), "int32", below=E)),
        ),
        flops=2.0 * B * L * D,
        kind="gather",
        terms=L,
        gathered={"LUT1": 4 * B * L * D, "LUT2": 4 * B * L * D},
        rotate=("I1", "I2"),
    )


def weighted_lut(E: int, D: int, B: int, L: int) -> Workload:
    """Each row with a weight."""
    return Workload(
        "weighted_lut",
        "def weighted_lut(float(E,D) T, int(B,L) I, float(B,L) W) -> (O) { O(b,d) +=! W(b,l) * T(I(b,l),d) }",
        (Array("T", (E, D)), Array("I", (B, L), "int32", below=E), Array("W", (B, L))),
        flops=2.0 * B * L * D,
        kind="gather",
        terms=L,
        gathered={"T": 4 * B * L * D},
        rotate=("I",),
    )


def gather_rows(E: int, D: int, N: int) -> Workload:
    """Rows copied, nothing summed."""
    return Workload(
        "gather_rows",
        "def gather_rows(float(E,D) T, int(N) I) -> (O) { O(n,d) = T(I(n),d) }",
        (Array("T", (E, D)), Array("I", (N,), "int32", below=E)),
        flops=0.0,
        kind="gather",
        gathered={"T": 4 * N * D},
        rotate=("I",),
    )


def gather_elements(E: int, N: int) -> Workload:
    """Single numbers from a long vector: a cache line moves for each."""
    return Workload(
        "gather_elements",
        "def gather_elements(float(E) T, int(N) I) -> (O) { O(n) = T(I(n)) }",
        (Array("T", (E,)), Array("I", (N,), "int32", below=E)),
        flops=0.0,
        kind="gather",
        gathered={"T": 64 * N},
        rotate=("I",),
    )


def sparse_rows(N: int, L: int, E: int) -> Workload:
    """A sparse matrix of L entries a row (ELLPACK) times a vector."""
    return Workload(
        "sparse_rows",
        "def sparse_rows(float(N,L) A, int(N,L) J, float(E) x) -> (y) { y(i) +=! A(i,l) * x(J(i,l)) }",
        (Array("A", (N, L)), Array("J", (N, L), "int32", below=E), Array("x", (E,))),
        flops=2.0 * N * L,
        kind="gather",
        terms=L,
    )

"""The fast Fourier transform of rows of 2^K complex numbers, in K stages that are alike (Pease)."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Case, Workload


def loop_fft(B: int, K: int) -> Workload:
    """Stage s multiplies by the roots of unity `w(s,i)`; results lie in the order `r` of reversed bits."""
    size = 2**K
    return Workload(
        "loop_fft",
        """
        def fft(complex64(B,N) x, complex64(S,H) w, int(N) r) -> (X) {
          a(b,i) = x(b,i)
          for s in 0:S {
            u(b,i) = a(b,i) + a(b,i+H) where i in 0:H
            v(b,i) = (a(b,i) - a(b,i+H)) * w(s,i)
            a(b,i) = i % 2 == 0 ? u(b,i/2) : v(b,i/2) where i in 0:N
          }
          X(b,i) = a(b,r(i))
        }
        """,
        (
            Array("x", (B, size), "complex64"),
            Array("w", (K, size // 2), "complex64", fill="roots of unity"),
            Array("r", (size,), "int32", fill="reversed bits"),
        ),
        flops=5.0 * B * size * K,
        kind="compute",
        terms=size,
        judge="numpy",
    )


TRANSFORMS = (Case("loops", loop_fft, (256, 10), (3, 3)),)

"""PolyBench's stencils: adi, fdtd-2d, heat-3d, jacobi-1d, jacobi-2d, seidel-2d."""

from __future__ import annotations

from benchmarks.workloads.polybench.common import Case, Workload, array, program


def adi_coefficients(T: int, N: int) -> tuple[float, ...]:
    """a = c, b, d = f and e of the implicit scheme."""
    m1, m2 = 2.0 / T * N * N, 1.0 / T * N * N
    return (-m1 / 2, 1 + m1, -m2 / 2, 1 + m2)


def poly_adi(T: int, N: int) -> Workload:
    """Alternating directions: a tridiagonal system a line, along columns and then along rows."""
    a, b, d, e = (repr(x) for x in adi_coefficients(T, N))
    return program(
        "poly_adi",
        f"""
        def adi(double(N,N) u0) -> (u) {{
          u(i,j) = u0(i,j)
          for t in 0:{T} {{
            v(0,i) = 1.0 where i in 1:N-1
            p(i,0) = double(0) where i in 1:N-1
            q(i,0) = 1.0 where i in 1:N-1
            for j in 1:N-1 {{
              p(i,j) = -({a}) / ({a} * p(i,j-1) + {b}) where i in 1:N-1
              q(i,j) = (-({d}) * u(j,i-1) + {1 + 2 * float(d)!r} * u(j,i) - ({d}) * u(j,i+1)
                - ({a}) * q(i,j-1)) / ({a} * p(i,j-1) + {b}) where i in 1:N-1
            }}
            v(N-1,i) = 1.0 where i in 1:N-1
            for j in N-2:0:-1 {{ v(j,i) = p(i,j) * v(j+1,i) + q(i,j) where i in 1:N-1 }}
            u(i,0) = 1.0 where i in 1:N-1
            x(i,0) = double(0) where i in 1:N-1
            y(i,0) = 1.0 where i in 1:N-1
            for j in 1:N-1 {{
              x(i,j) = -({d}) / ({d} * x(i,j-1) + {e}) where i in 1:N-1
              y(i,j) = (-({a}) * v(i-1,j) + {1 + 2 * float(a)!r} * v(i,j) - ({a}) * v(i+1,j)
                - ({d}) * y(i,j-1)) / ({d} * x(i,j-1) + {e}) where i in 1:N-1
            }}
            u(i,N-1) = 1.0 where i in 1:N-1
            for j in N-2:0:-1 {{ u(i,j) = x(i,j) * u(i,j+1) + y(i,j) where i in 1:N-1 }}
          }}
        }}
        """,
        (array("u0", N, N),),
        (array("u", N, N),),
        {"T": T, "N": N},
        flops=30.0 * T * N * N,
        terms=T * N * N,
        kind="memory",
        constants=(T,),
    )


def poly_fdtd_2d(T: int, NX: int, NY: int) -> Workload:
    """Electric and magnetic fields in the plane; one border is driven."""
    return program(
        "poly_fdtd_2d",
        """
        def fdtd_2d(double(T) f, double(NX,NY) ex0, double(NX,NY) ey0, double(NX,NY) hz0) -> (ex, ey, hz) {
          ex(i,j) = ex0(i,j)
          ey(i,j) = ey0(i,j)
          hz(i,j) = hz0(i,j)
          for t in 0:T {
            ey(0,j) = f(t) where j in 0:NY
            ey(i,j) += -0.5 * (hz(i,j) - hz(i-1,j)) where i in 1:NX
            ex(i,j) += -0.5 * (hz(i,j) - hz(i,j-1)) where j in 1:NY
            hz(i,j) += -0.7 * (ex(i,j+1) - ex(i,j) + ey(i+1,j) - ey(i,j)) where i in 0:NX-1, j in 0:NY-1
          }
        }
        """,
        (array("f", T), array("ex0", NX, NY), array("ey0", NX, NY), array("hz0", NX, NY)),
        (array("ex", NX, NY), array("ey", NX, NY), array("hz", NX, NY)),
        {"T": T, "NX": NX, "NY": NY},
        flops=11.0 * T * NX * NY,
        terms=T * 100,
        kind="memory",
    )


def poly_heat_3d(T: int, N: int) -> Workload:
    def step(to: str, of: str) -> str:
        def second(before: str, after: str) -> str:
            return f"0.125 * ({of}({after}) - 2.0 * {of}(i,j,k) + {of}({before}))"

        sums = " + ".join(
            second(b, a) for b, a in (("i-1,j,k", "i+1,j,k"), ("i,j-1,k", "i,j+1,k"), ("i,j,k-1", "i,j,k+1"))
        )
        return f"{to}(i,j,k) = {sums} + {of}(i,j,k)"

    return program(
        "poly_heat_3d",
        f"""
        def heat_3d(double(N,N,N) A0, double(N,N,N) B0) -> (A, B) {{
          A(i,j,k) = A0(i,j,k)
          B(i,j,k) = B0(i,j,k)
          for t in 0:{T} {{
            {step("B", "A")}
            {step("A", "B")}
          }}
        }}
        """,
        (array("A0", N, N, N), array("B0", N, N, N)),
        (array("A", N, N, N), array("B", N, N, N)),
        {"T": T, "N": N},
        flops=30.0 * T * N**3,
        terms=T * 100,
        kind="memory",
        constants=(T,),
    )


def poly_jacobi_1d(T: int, N: int) -> Workload:
    return program(
        "poly_jacobi_1d",
        f"""
        def jacobi_1d(double(N) A0, double(N) B0) -> (A, B) {{
          A(i) = A0(i)
          B(i) = B0(i)
          for t in 0:{T} {{
            B(i) = 0.33333 * (A(i-1) + A(i) + A(i+1))
            A(i) = 0.33333 * (B(i-1) + B(i) + B(i+1))
          }}
        }}
        """,
        (array("A0", N), array("B0", N)),
        (array("A", N), array("B", N)),
        {"T": T, "N": N},
        flops=6.0 * T * N,
        terms=T * 10,
        kind="memory",
        constants=(T,),
    )


def poly_jacobi_2d(T: int, N: int) -> Workload:
    return program(
        "poly_jacobi_2d",
        f"""
        def jacobi_2d(double(N,N) A0, double(N,N) B0) -> (A, B) {{
          A(i,j) = A0(i,j)
          B(i,j) = B0(i,j)
          for t in 0:{T} {{
            B(i,j) = 0.2 * (A(i,j) + A(i,j-1) + A(i,j+1) + A(i+1,j) + A(i-1,j))
            A(i,j) = 0.2 * (B(i,j) + B(i,j-1) + B(i,j+1) + B(i+1,j) + B(i-1,j))
          }}
        }}
        """,
        (array("A0", N, N), array("B0", N, N)),
        (array("A", N, N), array("B", N, N)),
        {"T": T, "N": N},
        flops=10.0 * T * N * N,
        terms=T * 10,
        kind="memory",
        constants=(T,),
    )


def poly_seidel_2d(T: int, N: int) -> Workload:
    """Means of nine neighbours, in place: each reads what those before it have left."""
    return program(
        "poly_seidel_2d",
        f"""
        def seidel_2d(double(N,N) A0) -> (A) {{
          A(i,j) = A0(i,j)
          for t in 0:{T} {{
            for i in 1:N-1 {{
              for j in 1:N-1 {{
                A(i,j) = (A(i-1,j-1) + A(i-1,j) + A(i-1,j+1) + A(i,j-1) + A(i,j) + A(i,j+1)
                  + A(i+1,j-1) + A(i+1,j) + A(i+1,j+1)) / 9.0
              }}
            }}
          }}
        }}
        """,
        (array("A0", N, N),),
        (array("A", N, N),),
        {"T": T, "N": N},
        flops=9.0 * T * N * N,
        terms=T * 10,
        kind="memory",
        constants=(T,),
    )


STENCILS = (
    Case("polybench", poly_adi, (100, 200), (3, 9)),
    Case("polybench", poly_fdtd_2d, (500, 1000, 1200), (3, 7, 9)),
    Case("polybench", poly_heat_3d, (100, 40), (3, 7)),
    Case("polybench", poly_jacobi_1d, (500, 2000), (3, 11)),
    Case("polybench", poly_jacobi_2d, (500, 1300), (3, 9)),
    Case("polybench", poly_seidel_2d, (100, 400), (3, 9)),
)

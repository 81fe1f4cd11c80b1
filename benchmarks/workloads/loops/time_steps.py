"""Heat over time on a line, in the plane and in space, to the fourth order, with each boundary mode."""

from __future__ import annotations

from benchmarks.workloads.model import Array, Case, Workload

MODES = ("zero", "clamp", "reflect", "symmetric", "wrap")
RATE = 0.1  # of a time step


def _heat(mode: str, T: int, N: int, rank: int) -> Workload:
    indices = ["i", "j", "k"][:rank]
    here = ",".join(indices)

    def at(axis: int, by: int) -> str:
        return ",".join(f"{x}{by:+d}" if a == axis else x for a, x in enumerate(indices))

    sums = " + ".join(
        f"16.0 * (u[{mode}]({at(a, -1)}) + u[{mode}]({at(a, 1)}))"
        f" - u[{mode}]({at(a, -2)}) - u[{mode}]({at(a, 2)})"
        for a in range(rank)
    )
    return Workload(
        f"loop_heat{rank}d",
        f"""
        def heat(float({",".join("N" * rank)}) u0) -> (u) {{
          u({here}) = u0({here})
          for t in 0:{T} {{
            v({here}) = u({here}) + {RATE / 12!r} * ({sums} - {30.0 * rank} * u({here}))
            u({here}) = v({here})
          }}
        }}
        """,
        (Array("u0", (N,) * rank),),
        flops=(6.0 * rank + 3) * T * N**rank,
        kind="memory",
        terms=100 * T,
        constants=(mode, T),
        judge="numpy",
    )


def loop_heat1d(mode: str, T: int, N: int) -> Workload:
    return _heat(mode, T, N, 1)


def loop_heat2d(mode: str, T: int, N: int) -> Workload:
    return _heat(mode, T, N, 2)


def loop_heat3d(mode: str, T: int, N: int) -> Workload:
    return _heat(mode, T, N, 3)


TIME_STEPS = (
    *(
        Case("loops", family, sizes, tiny, words=(mode,))
        for family, sizes, tiny in (
            (loop_heat1d, (100, 100_000), (3, 13)),
            (loop_heat2d, (50, 1000), (3, 9)),
            (loop_heat3d, (20, 100), (2, 5)),
        )
        for mode in MODES
    ),
    Case("loops", loop_heat2d, (16, 4000), (3, 9), words=("clamp",)),  # beyond the caches
)

"""python -m benchmarks [TABLE] [ARGUMENTS]: a table with its arguments, or every table with its defaults."""

import importlib
import sys

TABLES = (
    *("compile_time", "call_overhead", "cpu", "cpu_sweep", "cpu_threads", "cpu_dynamic", "model"),
    "vector_math",
)
# What measures no time here, draws what others have measured, or measures what a search finds.
OTHERS = ("generated", "gpu_static", "library", "peaks", "roofline", "sac", "torch_models", "tuning")


def main(argv: list[str]) -> int:
    known = (*TABLES, *OTHERS)
    named = argv[:1] if argv and argv[0] in known else []
    if argv and not named and not argv[0].startswith("-"):
        raise SystemExit(f"there is no table {argv[0]}; there are {', '.join(known)}")
    given = argv[len(named) :]
    return max(importlib.import_module(f"benchmarks.{table}").main(given) for table in named or TABLES)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

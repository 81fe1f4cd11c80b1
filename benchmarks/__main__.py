"""python -m benchmarks [TABLE] [ARGUMENTS]: a table with its arguments, or every table with its defaults."""

import importlib
import sys

TABLES = ("compile_time", "call_overhead", "cpu", "cpu_sweep", "cpu_threads", "cpu_dynamic")


def main(argv: list[str]) -> int:
    named = argv[:1] if argv and argv[0] in TABLES else []
    if argv and not named and not argv[0].startswith("-"):
        raise SystemExit(f"there is no table {argv[0]}; there are {', '.join(TABLES)}")
    given = argv[len(named) :]
    return max(importlib.import_module(f"benchmarks.{table}").main(given) for table in named or TABLES)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

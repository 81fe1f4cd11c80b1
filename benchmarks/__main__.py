"""python -m benchmarks: every table; arguments go to each."""

import sys

from benchmarks import call_overhead, compile_time

if __name__ == "__main__":
    raise SystemExit(max(table.main(sys.argv[1:]) for table in (compile_time, call_overhead)))

"""Measurements, one command a table: `python -m benchmarks.compile_time`, `… .call_overhead`."""

"""Measurements, one command a table: `python -m benchmarks.compile_time`, `python -m benchmarks.call_overhead`."""

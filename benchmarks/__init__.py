"""Measurements, one command a table: `python -m benchmarks.cpu`, `… .cpu_sweep`, `… .cpu_threads`,
`… .compile_time`, `… .call_overhead`; `python -m benchmarks.peaks` says what the machine can do at best."""

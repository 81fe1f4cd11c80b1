"""Measurements, one command a table: `python -m benchmarks.cpu`, `… .cpu_sweep`, `… .cpu_threads`,
`… .cpu_dynamic`, `… .compile_time`, `… .call_overhead`, `… .model`, `… .vector_math`; `python -m benchmarks`
is all of these.  `python -m benchmarks.peaks` says what the machine can do at best."""

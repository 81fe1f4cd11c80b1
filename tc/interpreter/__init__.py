"""The oracle: `run` computes whole results, `run_points` chosen elements; see `machine`."""

from tc.interpreter.machine import run, run_points

__all__ = ["run", "run_points"]

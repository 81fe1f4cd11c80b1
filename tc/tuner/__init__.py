"""The tuner: finds options that are faster than the model's, by measuring (docs/tuning.md)."""

from __future__ import annotations

from tc.tuner.api import Tuned, tune, tune_kernel

__all__ = ["Tuned", "tune", "tune_kernel"]

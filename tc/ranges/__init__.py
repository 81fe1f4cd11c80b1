"""Range inference (docs/language.md, "Ranges"): facts, the rounds of one statement, inference across all."""

from tc.ir.program import Range
from tc.ranges.infer import infer
from tc.ranges.model import Bound, Depends, Obligation, Ranges, Step

__all__ = ["Bound", "Depends", "Obligation", "Range", "Ranges", "Step", "infer"]

"""The search for a mapping: candidates, their kernels, and the choice."""

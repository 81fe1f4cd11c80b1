"""Loop fusion: which statements share which loops, and why others do not."""

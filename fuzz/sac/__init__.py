"""Random SaC programs, with a tree, a printer and an evaluator that share nothing with `tc.lang.sac`."""

"""Models that are written in TCs and trained in PyTorch, beside the same models in plain PyTorch."""

"""Operators in the spelling that comes to mind first, beside PyTorch."""

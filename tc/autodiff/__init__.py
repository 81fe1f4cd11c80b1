"""Differentiation of programs: source to source."""

from tc.autodiff.gradient import Gradient, grad, gradient

__all__ = ["Gradient", "grad", "gradient"]

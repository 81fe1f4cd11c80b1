"""Differentiation of programs: source to source."""

from tc.autodiff.batched import vmap
from tc.autodiff.gradient import Gradient, grad, gradient
from tc.autodiff.jvp import jvp

__all__ = ["Gradient", "grad", "gradient", "jvp", "vmap"]

"""Kernels for given sizes: what they take and give, the code that runs, and the errors that it leaves."""

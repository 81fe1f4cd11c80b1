"""A GPU that is at hand for minutes, taken to pieces: kernels are compiled beforehand, on any machine, and
run there by `python -m benchmarks.device run` with Python 3.12, numpy, cuda-bindings and PyTorch alone."""

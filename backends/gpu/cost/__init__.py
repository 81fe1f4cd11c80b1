"""The cost model of GPUs: what a launch asks of memory and of the multiprocessors."""

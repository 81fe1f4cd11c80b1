"""The cost model of GPUs: the load of a launch on memory and multiprocessors, and its predicted time."""

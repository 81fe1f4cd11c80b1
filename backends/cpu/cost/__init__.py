"""The cost model: predicted cycles, registers and code size of a tiled nest."""

"""How others spell the programs of PolyBench: NumPy, Numba, and C (a file a program)."""

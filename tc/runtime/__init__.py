"""What stands between a call and a kernel: arrays of any library, signatures, scalars, fast dispatch."""

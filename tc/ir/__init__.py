"""The Halide-mirroring IR (expr, program), its construction (lower), and loop nests (loops)."""

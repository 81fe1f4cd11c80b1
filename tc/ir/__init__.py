"""The Halide-mirroring IR (expr, program), its construction (lower) and the loop nests emitters read (loops)."""

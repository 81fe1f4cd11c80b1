"""Transformations of the IR, each a pure function: of programs and of loop nests."""

"""The emitter: vector code of loop nests as LLVM text, and an analysis of the machine code that LLVM makes of
it."""

"""Loop nests to vector code as LLVM text, and what the code generator made of it."""

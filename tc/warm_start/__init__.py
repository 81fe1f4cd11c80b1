"""Warm starts: a new process runs what another one compiled before the compiler is imported.

    start.compile  the function `tc.compile`: looks for a card, else imports the compiler
    key            the name of a card: all that the machine code of a kernel depends on
    card           the calls of a kernel on disk: exact arguments, and machine code
    warnings       what is said of a kernel, as plain data
    record         a kernel's call becomes part of its card
    kernel         a callable over a card, which becomes the whole kernel where more is wanted of it
    open_kernel    the same for kernels that leave element types or ranks open

Importing isl, LLVM, Halide and the front end takes a second; a card takes milliseconds.  Its machine code is
loaded by `tc._native.MachineCode`, without LLVM.  Once the compiler is imported no card is looked for.
"""

"""Bundles: compiled kernels in one file, which runs where no compiler is installed.

    tc.compile(source).export("mm.tcb", sizes=[{"M": 64, "K": 64, "N": 64}])
    tc.load("mm.tcb")(A, B)

A bundle is a zip archive.  `manifest.json` says what the kernels take and give, what is checked, and which
code runs on which processor or device; it has the SHA-256 of all other files.  Code for processors is a
shared library without initialisers and without undefined symbols, for CUDA a cubin or PTX.

`load` and what it imports need numpy alone: `archive`, `manifest`, `library`, `processor`, `loaded`.  What
writes bundles imports the compiler: `export`, `link`, `c_interface`.
"""

from __future__ import annotations

from tc.bundle.loaded import Bundle, load

__all__ = ["Bundle", "load"]

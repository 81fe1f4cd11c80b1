"""Random programs: every backend against the interpreter.  See README.md."""

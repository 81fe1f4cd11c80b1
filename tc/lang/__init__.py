"""Text to checked statements: parse -> check (names, calls, reductions) -> [ranges] -> types."""

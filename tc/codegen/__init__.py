"""Loop nests to text and machine code."""

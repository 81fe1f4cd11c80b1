"""What was measured before: keys of programs, records, and the options that follow from them."""

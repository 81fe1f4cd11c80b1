"""The stages and passes of a compile as text."""

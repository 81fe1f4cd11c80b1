"""Transformations of programs, before a schedule exists."""

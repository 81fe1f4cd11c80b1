"""The command line: `python -m tc`, installed as `tcomp`."""

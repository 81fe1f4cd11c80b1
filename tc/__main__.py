"""python -m tc"""

from tc.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

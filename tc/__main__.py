"""python -m tc"""

from tc.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())

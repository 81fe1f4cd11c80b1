"""What `tc._native` launches by itself; see `native_calls.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_calls_of_the_extension(tmp_path: Path) -> None:
    library = tmp_path / "exchange.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", str(HERE / "exchange.c"), "-o", str(library)], check=True)
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "native_calls.py"), str(library)]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

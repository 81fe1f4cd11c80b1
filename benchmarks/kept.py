"""What `tc` keeps on disk, switched off or in a folder of its own: a compile is as cold or as warm as a table
says, whatever the user's environment and folders hold."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

# Neither the passes' oracles nor what they are dumped into are part of a compile that is measured.
PLAIN = {"TC_VERIFY": "0", "TC_DUMP": ""}


@contextmanager
def environment(**values: str) -> Generator[None, None, None]:
    """These variables meanwhile, and as they were afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def nothing() -> Generator[None, None, None]:
    """No kernel comes from disk, and none is kept there."""
    with environment(TC_CACHE="0", **PLAIN):
        yield


@contextmanager
def apart() -> Generator[None, None, None]:
    """Kernels are kept in a new folder, which is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="tc-bench-kept-") as folder,
        environment(TC_CACHE="1", TC_CACHE_DIR=folder, **PLAIN),
    ):
        yield

"""What a user did not write is compiled without warnings that are for the author of a program."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager

from tc.errors import DataDependentAccess, LoneReduction


@contextmanager
def quiet() -> Generator[None]:
    """Without warnings of data-dependent accesses and of reductions that could be elsewhere."""
    with warnings.catch_warnings():
        for category in (DataDependentAccess, LoneReduction):
            warnings.simplefilter("ignore", category)
        yield

"""What the tests of torch.compile share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """torch.compile without what earlier tests compiled, and PyTorch's numbers from the same seed."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()

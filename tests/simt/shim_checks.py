"""What tests of the shim ask of a text and of findings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.simt import shim as simt
from tests.simt.shim import Finding, Kind


def line(text: str, part: str) -> int:
    """The number of the only line that has `part`."""
    assert text.count(part) == 1
    return text[: text.index(part)].count("\n") + 1


def change(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def ints(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(-4, 5, shape).astype(np.float32)


def kinds(findings: tuple[Finding, ...]) -> set[Kind]:
    return {f.kind for f in findings}


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, simt.report(findings)
    return findings[0]

"""The oracle on the arguments of a test."""

from __future__ import annotations

from typing import Any

import numpy as np

from tc.dtypes import BOOL, BY_NAME, FLOAT64, INT32
from tc.interpreter.sac import run
from tc.lang.sac.parse import parse
from tc.lang.sac.program import signature_of


def interpret(source: str, *args: Any) -> list[np.ndarray[Any, Any]]:
    program = parse(source)
    given: dict[str, Any] = {}
    for p, a in zip(signature_of(program), args, strict=True):
        kinds = {bool: BOOL, int: INT32, float: FLOAT64}
        given[p.name] = (a, kinds.get(type(a)) or BY_NAME[np.asarray(a).dtype.name])
    return [data for data, _ in run(program, given)]

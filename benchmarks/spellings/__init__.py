"""How others spell the workloads: a module a library, in it a function a family.

A function takes the inputs in the program's order and gives the results in its order.  A library that has no
function of a family's name has no contestant there.  The modules import their library, so only the process
that runs it loads them; which families they have is read from their text.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def families(library: str) -> frozenset[str]:
    """The families that the module of a library spells."""
    return frozenset(_tree(library)[0])


@cache
def alternatives(library: str) -> frozenset[str]:
    """The families that it spells in a second way."""
    return frozenset(_tree(library)[1])


def _tree(library: str) -> tuple[list[str], list[str]]:
    text = (Path(__file__).parent / f"with_{library}.py").read_text(encoding="utf-8")
    functions = [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    plain = [n for n in functions if not n.startswith("_") and not n.endswith("_alt")]
    return plain, [n.removesuffix("_alt") for n in functions if n.endswith("_alt")]

"""How others spell the workloads: a module a library, in it a function a family.

A function takes the inputs in the program's order and gives the results in its order.  A library that has no
function of a family's name has no contestant there.  The modules import their library, so only the process
that runs it loads them; which families they have is read from their text.  Groups that have a folder of
spellings have their modules there; `polybench/c` has a file of C a family.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDERS = ("", "polybench", "loops")


@cache
def families(library: str) -> frozenset[str]:
    """The families that the modules of a library spell."""
    return frozenset(_functions(library)) - {n + "_alt" for n in alternatives(library)}


@cache
def alternatives(library: str) -> frozenset[str]:
    """The families that it spells in a second way."""
    return frozenset(n.removesuffix("_alt") for n in _functions(library) if n.endswith("_alt"))


def spelling(library: str, name: str) -> Any:
    """The function of a name in a library's modules."""
    return getattr(import_module(_functions(library)[name]), name)


def in_c(family: str) -> Path | None:
    """The file of C that spells a family, if there is one."""
    file = HERE / "polybench" / "c" / f"{family}.c"
    return file if file.exists() else None


@cache
def _functions(library: str) -> dict[str, str]:
    """The public functions of a library's modules, and the module of each."""
    return dict(_found(library))


def _found(library: str) -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for file in sorted((HERE / folder).glob(f"with_{library}*.py")):
            module = ".".join(x for x in ("benchmarks.spellings", folder, file.stem) if x)
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    yield node.name, module

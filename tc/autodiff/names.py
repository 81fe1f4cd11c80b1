"""Names that are not taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Names:
    """Hands out names of tensors and sizes, each once, and of index variables, each once a statement."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def fresh(self, name: str) -> str:
        """A name like this one for a tensor or a size."""
        found = _free(name, self.taken)
        self.taken.add(found)
        return found

    def local(self, used: Iterable[str] = ()) -> Callable[[str], str]:
        """What makes names of index variables of a statement that has `used` others."""
        own = {*used}

        def fresh(name: str) -> str:
            found = _free(name, self.taken | own)
            own.add(found)
            return found

        return fresh


def _free(name: str, taken: set[str]) -> str:
    found, k = name, 2
    while found in taken:
        found, k = f"{name}_{k}", k + 1
    return found

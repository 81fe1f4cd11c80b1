"""`tc.define`: the defs of a source as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tc.errors import did_you_mean
from tc.lang.parse import parse
from tc.warm_start.start import compile

if TYPE_CHECKING:
    from tc.kernel import Kernel


class Namespace:
    """The defs of a source as attributes, each compiled at first use."""

    def __init__(self, src: str, **options: Any) -> None:
        self._src = src
        self._options = options
        self._names = tuple(d.name for d in parse(src).defs)
        self._kernels: dict[str, Kernel] = {}

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._names:
            near = did_you_mean(name, self._names)
            raise AttributeError(f"the source has no def '{name}'" + (f"; {near}" if near else ""))
        if name not in self._kernels:
            self._kernels[name] = compile(self._src, entry=name, **self._options)
        return self._kernels[name]

    def __dir__(self) -> list[str]:
        return list(self._names)

    def __repr__(self) -> str:
        return f"<tc.define: {', '.join(self._names)}>"


def define(src: str, backend: str | None = None, **options: Any) -> Namespace:
    """Every def of a source as an attribute, compiled at first use; `ns["2LUT"]` for other names."""
    return Namespace(src, backend=backend, **options)

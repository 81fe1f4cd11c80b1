"""`tc.compile`: from a card while the compiler is not imported, else from the compiler."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tc.errors import Source, warn
from tc.warm_start.key import key

if TYPE_CHECKING:
    from tc.kernel import Kernel
    from tc.options import Dynamic, Options

_COMPILER = "tc.api"


def compile(
    src: str,
    backend: str | None = None,
    entry: str | None = None,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    options: Options | Mapping[str, Any] | None = None,
    checks: str = "safe",
    lang: str = "tc",
    dynamic: Dynamic = (),
    types: Mapping[str, str] | None = None,
) -> Kernel:
    """Compile a def of a source: `entry`, by default the last one.

    Parses, checks and infers at once, so an invalid source fails here; machine code is made at the first
    call with new sizes, or now for `sizes` (which also holds specialised scalars), or for each of several in
    a list.  `backend=None` chooses by where the arrays live.  `checks="safe"` checks data-dependent
    subscripts when the kernel runs; on a device an error is raised by the next call or `tc.synchronize()`,
    and with `"sync"` by the call itself.  `"none"` trusts them; with `"drop"` a scatter leaves out what
    lies outside its tensor.

    `dynamic`: sizes whose every value one kernel serves, or a mapping from them to typical values, for which
    it is made fastest; without one, the first call's size rounded up to a power of two, and at least 64.
    True stands for all outer sizes: of first dimensions of parameters, and of no last one.

    `types`: element types of the def's type variables, {"T": "double"}; without them the kernel is a
    `GenericKernel`, which takes them from the arrays of each call.

    Raises ParseError, SemanticError, RangeError, DTypeError; ArgumentError for the arguments of this
    function; BackendError for an unknown or unavailable backend.
    """
    name = key(
        src,
        backend,
        entry=entry,
        sizes=sizes,
        options=options,
        checks=checks,
        lang=lang,
        dynamic=dynamic,
        types=types,
    )

    def whole(stacklevel: int | None = None) -> Any:
        return import_module(_COMPILER).compile_checked(
            src,
            backend,
            entry,
            sizes,
            options,
            checks,
            lang,
            dynamic,
            types,
            stacklevel=stacklevel,
            card=name,
        )

    kernel = None if name is None or _COMPILER in sys.modules else _from_card(name, src, whole)
    return whole(stacklevel=5) if kernel is None else kernel


def _from_card(name: str, source: str, whole: Callable[[], Any]) -> Any:
    """The kernel of a card of this name, if there is one; issues the warnings of its source."""
    from tc.warm_start.card import read

    found = read(name)
    if found is None:
        return None
    for w in found.warnings:
        warn(w.warning(Source(source)), stacklevel=None)
    if found.open:
        from tc.warm_start.open_kernel import WarmOpenKernel

        return WarmOpenKernel(source, found.calls, whole)
    from tc.warm_start.kernel import WarmKernel

    return WarmKernel(source, found.calls, whole)

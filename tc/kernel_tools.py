"""What is made from a kernel: its gradient, tangents, a batch of it, tuned options, texts of its stages."""

from __future__ import annotations

import inspect
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tc.errors import ArgumentError, Source
from tc.instances.kernel_signature import python_signature
from tc.lang.generic import monomorphic
from tc.range_table import RangeTable
from tc.runtime.signature import Signature

if TYPE_CHECKING:
    from tc.kernel import Kernel, Request


class KernelTools:
    """Methods of a kernel that need no more than what it was compiled from.

    What they call is above kernels, so it is imported by name.
    """

    source: str
    name: str
    _signature: Signature

    def request(self) -> Request:
        """What was asked for when the kernel was compiled."""
        raise NotImplementedError

    @property
    def ranges(self) -> RangeTable:
        """The ranges of its tensors."""
        raise NotImplementedError

    def __repr__(self) -> str:
        params = ", ".join(p.name for p in self._signature.params)
        outs = ", ".join(o.name for o in self._signature.outputs)
        return f"<tc.Kernel {self.name}({params}) -> ({outs})>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.source.strip())}</pre>{self.ranges.html()}"

    @property
    def __signature__(self) -> inspect.Signature:
        """The arguments as Python's `inspect.signature` shows them."""
        return python_signature(self._signature)

    def grad(self, wrt: Any = None, **more: Any) -> Kernel:
        """The gradient as a kernel for the same backend; arguments as in `tc.grad`."""
        return self._derived("grad", wrt, **more)

    def jvp(self, wrt: Any = None, **more: Any) -> Kernel:
        """The directional derivative as a kernel for the same backend; arguments as in `tc.jvp`."""
        return self._derived("jvp", wrt, **more)

    def vmap(self, in_axes: Any = 0, **more: Any) -> Kernel:
        """A kernel for a batch of arguments, for the same backend; arguments as in `tc.vmap`."""
        return self._derived("vmap", in_axes, **more)

    def tune(self, *args: Any, **settings: Any) -> Any:
        """Find faster options for calls with these arrays; settings are those of `tc.tune`."""
        return import_module("tc.tuner").tune_kernel(self, args, settings)

    def export(self, path: Any, sizes: Any = (), **targets: Any) -> Path:
        """Write a bundle, which `tc.load` makes a callable of where no compiler is installed; returns its
        path.

        `sizes` are those of a kernel, or of several in a list; `isa`, `arch` and `types` are as in
        `tc.bundle.export.export`.
        """
        return import_module("tc.bundle.export").export(self, path, sizes, **targets)

    def export_c(self, path: Any, sizes: Any = (), **targets: Any) -> tuple[Path, Path]:
        """Write a C header and a shared object, `path` + ".h" and `path` + ".so", and return their paths: a
        function that takes DLPack's tensors.

        `sizes` are as in `export`; `isa` and `types` as in `tc.bundle.c_interface.export_c`.
        """
        return import_module("tc.bundle.c_interface").export_c(self, path, sizes, **targets)

    def inspect(self, stage: str, **values: int) -> str:
        """A stage as text: `"ranges" | "ir" | "halide" | "scop" | "dependences"` (symbolic, or at sizes), and
        `"schedule" | "loops" | "code" | "llvm" | "asm"` for sizes given as keywords; `"html"` is a page of
        all of them.  Notebooks show the text in lines, and the page."""
        shown = import_module("tc.views.notebook")
        if stage == "html":
            return shown.Page(import_module("tc.views.page").page(self, values))
        return shown.StageText(import_module("tc.inspection.stages").artifact(self, stage, values))

    def tc_source(self, what: str) -> Source:
        """The source with its type variables as they are here, for `what` compiles or changes it.  Raises
        ArgumentError, code TC0528, for SaC."""
        asked = self.request()
        if asked.lang != "tc":
            raise ArgumentError(
                f"{what} is for programs in the notation of tensor comprehensions, and this is SaC",
                code="TC0528",
                help="write the def in TC",
            )
        if not asked.known:
            return asked.source
        types = {name: dtype.name for name, _, dtype in asked.known}
        return Source(monomorphic(asked.source, asked.entry, types), asked.source.name)

    def _derived(self, what: str, first: Any, **more: Any) -> Kernel:
        """A kernel of a source that is made from this one's."""
        asked = self.request()
        source = self.tc_source(what).text
        if asked.checks == "drop" and what != "vmap":  # whose scatters leave out the same elements
            more["drop"] = True
        made = getattr(import_module("tc.autodiff"), what)(source, first, asked.entry, **more)
        return import_module("tc.api").compile(made, backend=asked.backend, checks=asked.checks)

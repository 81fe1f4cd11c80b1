"""PyTorch: a def as an operator with gradients, for eager mode, torch.compile and torch.export.

    op = tc.torch.op("def f(float(N,M) x, float(M) w) -> (y) { y(i) +=! x(i,j) * w(j) }")
    op(x, w).sum().backward()

An operator is registered with the dispatcher as `tc::<name>_<digest>`: its schema comes from the def, its
fake implementation from range inference, its gradient from `tc.grad`, which is an operator of the same kind,
so that there are second derivatives.  The digest is of the source, so that a graph that is stored means the
same program where it is loaded.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from torch import nn

from tc.api import Kernel, compile
from tc.dtypes import DType
from tc.errors import ArgumentError, SemanticError
from tc.interop.generic import GenericOp
from tc.interop.of_def import OfDef, known, several, with_types
from tc.interop.quiet import quiet
from tc.interop.symbolic import Arithmetic, shapes_of, sizes_of
from tc.interop.torch_backward import PassBackward, Results
from tc.interop.torch_direct import function, tracked, unwatched
from tc.interop.torch_tensors import differentiates, dtype_of, is_inexact, is_transformed
from tc.lang import resolved as r
from tc.open_kernels.generic_kernel import GenericKernel
from tc.runtime.arrays import article

torch: Any = import_module("torch")  # whose own annotations leave much unsaid
Backward = str | Callable[..., Any] | None
_LIBRARY = torch.library.Library("tc", "FRAGMENT")
_OPERATORS: dict[tuple[Any, ...], Op] = {}
_LOCK = threading.RLock()
_SYMBOLIC = Arithmetic(torch.sym_min, torch.sym_max)


def op(
    src: str | Kernel | GenericKernel,
    name: str | None = None,
    backward: Backward = "auto",
    *,
    entry: str | None = None,
    backend: str | None = None,
    ties: str = "first",
    **options: Any,
) -> Op:
    """An operator on tensors from a def: `entry` of `src`, by default the last one.

    `name` stands in the registered name in place of that of the def.  `backward` is `"auto"` (`tc.grad`),
    the source of a def, a callable, or None for an operator without gradients.  A backward def or callable
    takes the arguments, then an adjoint for each floating or complex result, and returns the adjoint of each
    such tensor parameter in order.  A def all of whose parameters have names of parameters x, of results y
    and of their adjoints d_y takes those, in any order: results are kept for it.  `ties` as in `tc.grad`;
    `backend` and options as in `tc.compile`, where by default tensors on a GPU go to `cuda` and others to
    `cpu`.

    The same arguments give the same operator.  Raises the errors of `tc.compile`.
    """
    if isinstance(src, Kernel):
        kernel, source = src, src.tc_source("tc.torch.op").text
        entry = entry or src.name
    else:
        source, entry, options = with_types(src, entry, options)
        made: Any = compile(source, backend=None, entry=entry, lang=options.get("lang", "tc"))
        if isinstance(made, GenericKernel):
            return cast("Op", GenericOp(made, _again, (name, backward, entry, backend, ties, options)))
        kernel = known(made, "tc.torch.op")
    key = (source, kernel.name, name, backward, backend, ties, repr(sorted(options.items())))
    with _LOCK:
        found = _OPERATORS.get(key)
        if found is None:
            found = _OPERATORS[key] = Op(source, kernel, name, backward, backend, ties, options)
        return found


def _again(
    source: str,
    name: str | None,
    backward: Backward,
    entry: str | None,
    backend: str | None,
    ties: str,
    options: Mapping[str, Any],
) -> Op:
    """The operator that `op` gives for these arguments, such as that of a copy."""
    return op(source, name, backward, entry=entry, backend=backend, ties=ties, **options)


class Op(OfDef["Op"]):
    """A registered operator.  Call it with tensors in parameter order or by name.

    Attributes: `name` (qualified), `kernel`, `default` (the overload, for `torch.library.opcheck`).
    """

    def __init__(
        self,
        source: str,
        kernel: Kernel,
        name: str | None,
        backward: Backward,
        backend: str | None,
        ties: str,
        options: Mapping[str, Any],
        origin: tuple[Op, tuple[str, ...]] | None = None,
    ) -> None:
        """`origin`: the operator whose results come first, and what follows them, for its gradient."""
        super().__init__(source, kernel, backend, ties, options)
        self.backward = backward
        self._saved: dict[str, Op] = {}
        self._stem = name
        self._kernels: dict[str, Kernel] = {}
        self._runs = {device: self._run(device) for device in ("cpu", "cuda")}
        self._functions: dict[str, Any] = {}
        self._takes = [isinstance(p, r.Tensor) for p in self._params]
        returns = kernel.front.checked.returns
        self._inout = [x.name for x in returns if x.mode == "inout"]
        self._dtypes = {x.name: dtype_of(kernel.front.typed.dtype(x.tensor)) for x in returns}
        self._results = [x.name for x in returns if x.name not in self._inout]
        self._autograd = PassBackward(
            self, self._params, Results(tuple(self._results), self._dtypes, *(origin or (self, ())))
        )
        if self._inout and self._results:
            raise ArgumentError(
                f"'{kernel.name}' both returns new tensors and changes {', '.join(self._inout)}",
                code="TC0523",
                help="make two defs of it, or return what changes under another name",
            )
        stem = name or kernel.name
        told = repr((source, kernel.name, str(backward), ties, backend, sorted(options.items())))
        digest = hashlib.sha256(told.encode()).hexdigest()[:12]
        self._short = re.sub(r"\W", "_", stem) + "_" + digest
        self.name = f"tc::{self._short}"
        self._register()
        self.default = getattr(torch.ops.tc, self._short).default
        self._function: Any = None  # under transforms

    def another(self, source: str, **more: Any) -> Op:
        return op(source, backend=self._backend, **more)

    def __reduce__(self) -> tuple[Any, ...]:
        told = (self._stem, self.backward, self.kernel.name, self._backend, self.ties, dict(self._options))
        return _again, (self.source, *told)

    def __repr__(self) -> str:
        return f"<tc operator {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != len(self._takes) + len(self._inout):
            args = tuple(self.bound(args, kwargs, self._inout))
        if is_transformed():
            return self._transformed(*args)
        device = None if self._inout else unwatched(args, self._takes)
        if device is not None and not tracked(args):
            return self._runs[device](*args)
        saving = self._saving(args)
        found = (saving or self)._recorded(device, args)
        if saving is None:
            return found
        return found[0] if len(self._results) == 1 else found[: len(self._results)]

    def _recorded(self, device: str | None, args: Sequence[Any]) -> Any:
        """A call that autograd may record, through the dispatcher where no device is told."""
        if device is None:
            if not torch.compiler.is_compiling():
                self._check_kinds(args)
            return self.default(*args)
        made = self._functions.get(device)
        if made is None:
            run = function(self.kernel.name, self._runs[device], self._autograd.setup, self._autograd.run)
            made = self._functions.setdefault(device, run)
        return made.apply(*args)

    def _saving(self, args: Sequence[Any]) -> Op | None:
        """The operator that returns what the pass backward of this call needs, too; None where there is no
        such pass, or nothing to keep.  torch.compile decides itself what it keeps."""
        if self.backward != "auto" or self._inout or torch.compiler.is_compiling() or not tracked(args):
            return None
        scalars = {n: a for n, a in zip(self.names, args, strict=True) if not isinstance(a, torch.Tensor)}
        if not all(isinstance(scalars[n], int) for n in self.specialized):
            return None
        made = self.saving(scalars)
        if made is None:
            return None
        found = self._saved.get(made.source)
        if found is None:
            with quiet():
                kernel: Any = compile(made.source, backend=None)
                options = (None, "auto", self._backend, self.ties, self._options)
                found = self._saved.setdefault(
                    made.source, Op(made.source, kernel, *options, (self, made.saved))
                )
        return found

    def _check_kinds(self, args: Sequence[Any]) -> None:
        """ArgumentError, code TC0505, for what is no dense tensor where there should be one."""
        for p, a in zip(self._params, args, strict=False):
            if not isinstance(p, r.Tensor):
                continue
            if not isinstance(a, torch.Tensor):
                what, help = f"not a tensor but {article(type(a).__name__)}", f"torch.as_tensor({p.name})"
            elif a.layout is not torch.strided:
                what, help = f"a tensor of the layout {a.layout}", f"{p.name}.to_dense()"
            else:
                continue
            raise ArgumentError(f"{p.name} is {what}", p.span, code="TC0505", help=help)

    # ---- registration

    def _schema(self) -> str:
        parts: list[str] = []
        for p in self._params:
            if isinstance(p, r.Tensor):
                parts.append(f"Tensor {p.name}")
            else:
                of = {"bool": p.dtype.is_bool, "SymInt": p.dtype.is_int, "complex": p.dtype.is_complex}
                kind = next((n for n, is_of in of.items() if is_of), "float")
                parts.append(f"{kind} {p.name}")
        parts += [f"Tensor({chr(97 + k)}!) {n}" for k, n in enumerate(self._inout)]
        made = len(self._results)
        gives = "()" if self._inout else "Tensor" if made == 1 else f"({', '.join(['Tensor'] * made)})"
        return f"{self._short}({', '.join(parts)}) -> {gives}"

    def _register(self) -> None:
        _LIBRARY.define(self._schema(), tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
        _LIBRARY.impl(self._short, self._runs["cpu"], "CPU")
        _LIBRARY.impl(self._short, self._runs["cuda"], "CUDA")
        torch.library.register_fake(self.name, self._fake, lib=_LIBRARY)
        if self._inout:
            return
        torch.library.register_vmap(self.name, self._vmap, lib=_LIBRARY)
        torch.library.register_autograd(
            self.name, self._autograd.run, setup_context=self._autograd.setup, lib=_LIBRARY
        )
        floating = {dtype_of(t) for _, t in self.tensors if t.is_float}
        if len(floating) == 1:
            (only,) = floating
            for device in ("cpu", "cuda"):
                torch.library.register_autocast(self.name, device, only, lib=_LIBRARY)

    def _run(self, device: str) -> Callable[..., Any]:
        count = len(self._params)

        def run(*args: Any) -> Any:
            kernel = self._kernels.get(device)
            if kernel is None:
                kernel = self._compiled(device)
            if torch.is_grad_enabled():
                with torch.no_grad():
                    return run(*args)
            if self._inout:
                kernel(*args[:count], out=dict(zip(self._inout, args[count:], strict=True)))
                return None
            found = kernel(*args)
            return found if len(self._results) == 1 else tuple(found)

        return run

    def _compiled(self, device: str) -> Kernel:
        backend = self._backend or ("cuda" if device == "cuda" else None)
        with quiet():  # `op` has said it
            made = compile(self.source, backend=backend, entry=self.kernel.name, **self._options)
        return self._kernels.setdefault(device, made)

    def _fake(self, *args: Any) -> Any:
        if self._inout:
            return None
        given = dict(zip(self.names, args, strict=True))
        tensors = {p.name: given[p.name] for p, _ in self.tensors}
        scalars = {n: int(given[n]) for n in self.specialized}

        def check(holds: Any, what: str) -> None:
            torch._check(holds, lambda: f"{self.kernel.name}: {what}")

        for p, t in self.tensors:
            found, integer = given[p.name].dtype, p.name in self.kernel.front.any_integer
            check(found == dtype_of(t) or integer, f"{p.name} has type {found}, not {dtype_of(t)}")
        sizes = sizes_of(self.kernel, {n: tuple(t.shape) for n, t in tensors.items()}, check)
        shapes = shapes_of(self.kernel, sizes, scalars, _SYMBOLIC)
        like = next(iter(tensors.values()), None)
        device = like.device if like is not None else torch.device("cpu")
        made = tuple(torch.empty(shapes[n], dtype=self._dtypes[n], device=device) for n in self._results)
        return made[0] if len(made) == 1 else made

    # ---- transforms

    def _transformed(self, *args: Any) -> Any:
        """The operator within a transform of `torch.func`, or of dual numbers; the dispatcher has no rules
        for these."""
        if self._inout:
            if torch._C._functorch.peek_interpreter_stack() is None or not differentiates():
                return self.default(*args)
            raise SemanticError(
                f"'{self.kernel.name}' changes {', '.join(self._inout)} and has no gradient",
                code="TC0243",
                help="let it return new tensors, or call it outside of torch.func.grad and jvp",
            )
        if self._function is None:
            rules: dict[str, Any] = {
                "forward": self._forward,
                "setup_context": self._setup_twice,
                "backward": self._autograd.run,
                "jvp": self._tangents_of,
                "vmap": self._vmap,
            }
            made = {n: staticmethod(f) for n, f in rules.items()}
            self._function = type(self.kernel.name, (torch.autograd.Function,), made)
        return self._function.apply(*args)

    def _forward(self, *args: Any) -> Any:
        return self.default(*args)

    def _setup_twice(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """For both modes of differentiation."""
        self._autograd.setup(ctx, inputs, output)
        ctx.save_for_forward(*(a for a in inputs if isinstance(a, torch.Tensor)))

    def _tangents_of(self, ctx: Any, *tangents: Any) -> Any:
        """The tangents of the results for those of the arguments, of which some are None."""
        if self.backward != "auto":
            raise SemanticError(
                f"'{self.kernel.name}' was made with backward= and has no derivative in a direction",
                code="TC0243",
                help="leave backward= out, or take torch.func.vjp in place of jvp",
            )
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if isinstance(p, r.Tensor) else ctx.scalars[p.name] for p in self._params]
        along = {n: t for n, t in zip(self.names, tangents, strict=True) if isinstance(t, torch.Tensor)}
        made = self.tangent(ctx.scalars, tuple(along))
        if made is None:
            none = (None,) * len(self._results)
            return none[0] if len(none) == 1 else none
        names, operator = made
        found = several(operator(*args, *(along[n] for n in names)))
        rest = iter(found[len(self._results) :])
        told = tuple(next(rest) if is_inexact(self._dtypes[n]) else None for n in self._results)
        return told[0] if len(told) == 1 else told

    # ---- batches

    def _vmap(self, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The operator on a batch: one of another def, with one more index."""
        moved = [a if d is None else a.movedim(d, 0) for a, d in zip(args, in_dims, strict=True)]
        batched = tuple(n for n, d in zip(self.names, in_dims, strict=True) if d is not None)
        operator, flags = self.batch(batched, ties=self.ties)
        out_dims = tuple(0 if flag else None for flag in flags)
        return operator(*moved), out_dims[0] if len(out_dims) == 1 else out_dims


class Module(nn.Module):
    """A def as a module: `parameters` are those of its tensors that are trained.

    They are given as tensors, which are the initial values, or as shapes, of which the elements are drawn
    uniformly from ±1/sqrt(fan in), the extents but the first multiplied.  `forward` takes the others in
    order.  Other arguments as in `op`.  Of a def with type variables, shapes are of PyTorch's default type.
    It is copied and pickled as any module is.
    """

    def __init__(
        self, src: str | Kernel, parameters: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__()
        self.op = op(src, *args, **kwargs)
        tensors = self.op.parameters
        for n, value in (parameters or {}).items():
            if n not in tensors:
                raise ArgumentError(
                    f"'{n}' is no tensor parameter of '{self.op.kernel.name}'",
                    code="TC0521",
                    help=f"they are {', '.join(tensors)}",
                )
            self.register_parameter(n, _parameter(value, tensors[n]))
        self._order = [(n, n in (parameters or {})) for n in self.op.names]

    def forward(self, *args: Any) -> Any:
        rest = iter(args)
        return self.op(*(getattr(self, n) if trained else next(rest) for n, trained in self._order))

    def extra_repr(self) -> str:
        return repr(self.op)


def _parameter(value: Any, t: DType | None) -> nn.Parameter:
    """A parameter of a type; where calls decide on the type, of the tensor's or PyTorch's default."""
    if isinstance(value, torch.Tensor):
        if isinstance(value, nn.Parameter):
            return value
        return nn.Parameter(value if t is None else value.to(dtype_of(t)))
    shape: Sequence[int] = tuple(value)
    made = torch.empty(shape, dtype=None if t is None else dtype_of(t))
    inner = 1
    for n in shape[1:]:
        inner *= n
    bound = 1 / max(inner, 1) ** 0.5
    return nn.Parameter(nn.init.uniform_(made, -bound, bound))


def _register_backend() -> None:
    """`torch.compile(backend="tc")` where the installed package does not say that there is this backend."""
    if not any(e.name == "tc" for e in entry_points(group="torch_dynamo_backends")):
        import_module("tc.interop.fx.backend").register()  # slow: Dynamo is imported


_register_backend()

"""JAX: a def as a function that can be traced, with gradients.

    op = tc.jax.op("def f(float(N,M) x, float(M) w) -> (y) { y(i) +=! x(i,j) * w(j) }")
    jax.grad(lambda x, w: op(x, w).sum())(x, w)

Shapes and types of results come from range inference, the gradient from `tc.grad`, which is a function of the
same kind, so that there are second derivatives.  XLA calls the kernel without Python (`xla.py`), on a CPU and
on a GPU.
Where it cannot, it calls back through Python (`jax.pure_callback`), which costs about 0.1 ms a call; the
first such call says so (PerformanceNotice).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

import numpy as np

from tc.api import Kernel, compile
from tc.dtypes import BY_NAME
from tc.errors import ArgumentError, DTypeError, PerformanceNotice, warn
from tc.interop import xla
from tc.interop.generic import GenericOp
from tc.interop.of_def import OfDef, check_adjoints, known, several, with_types
from tc.interop.symbolic import Arithmetic, shapes_of, sizes_of
from tc.lang import resolved as r
from tc.open_kernels.generic_kernel import GenericKernel
from tc.runtime.arrays import numpy_dtype
from tc.runtime.scalars import convert

jax: Any = import_module("jax")
_FUNCTIONS: dict[tuple[Any, ...], Op] = {}
_LOCK = threading.RLock()
_EXACT = Arithmetic(min, max)


Backward = str | Callable[..., Any] | None


def op(
    src: str | Kernel | GenericKernel,
    backward: Backward = "auto",
    *,
    entry: str | None = None,
    backend: str | None = None,
    ties: str = "first",
    **options: Any,
) -> Op:
    """A function on arrays from a def: `entry` of `src`, by default the last one.

    It can be used under `jit`, `grad`, `vmap` and `scan`.  Scalar parameters are numbers, not arrays that are
    traced.  `backward` is `"auto"` (`tc.grad`), the source of a def, a callable, or None for a function
    without gradients.  A backward def or callable takes and returns what it does in `tc.torch.op`; a callable
    gets adjoints as JAX defines them.  `ties` as in `tc.grad`; `backend` and options as in `tc.compile`.

    The same arguments give the same function.  Raises the errors of `tc.compile`, and ArgumentError for a def
    with in/out tensors, as arrays of JAX do not change.
    """
    if isinstance(src, Kernel):
        kernel, source = src, src.tc_source("tc.jax.op").text
    else:
        source, entry, options = with_types(src, entry, options)
        made: Any = compile(source, backend=backend, entry=entry, **options)
        if isinstance(made, GenericKernel):
            return cast("Op", GenericOp(made, _again, (backward, entry, backend, ties, options)))
        kernel = known(made, "tc.jax.op")
    key = (source, kernel.name, backward, backend, ties, repr(sorted(options.items())))
    with _LOCK:
        found = _FUNCTIONS.get(key)
        if found is None:
            found = _FUNCTIONS[key] = Op(source, kernel, backward, backend, ties, options)
        return found


def _again(
    source: str,
    backward: Backward,
    entry: str | None,
    backend: str | None,
    ties: str,
    options: Mapping[str, Any],
) -> Op:
    """The function that `op` gives for these arguments, such as that of a copy."""
    return op(source, backward, entry=entry, backend=backend, ties=ties, **options)


@functools.cache
def _announce(why: str) -> None:
    warn(
        PerformanceNotice(
            f"JAX calls kernels back through Python, which costs about 0.1 ms a call: {why}",
            help="outside of jit a kernel takes arrays of JAX directly",
        ),
        stacklevel=None,
    )


class Op(OfDef["Op"]):
    """A function of JAX arrays.  Call it with arrays in parameter order or by name."""

    def __init__(
        self,
        source: str,
        kernel: Kernel,
        backward: Backward,
        backend: str | None,
        ties: str,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(source, kernel, backend, ties, options)
        self.backward = backward
        self._results = {x.name: kernel.front.typed.dtype(x.tensor) for x in kernel.front.checked.returns}
        changed = [x.name for x in kernel.front.checked.returns if x.mode == "inout"]
        if changed:
            raise ArgumentError(
                f"'{kernel.name}' changes {', '.join(changed)}, and arrays of JAX do not change",
                code="TC0525",
                help="take the values before as a parameter of another name",
            )
        self._traced: dict[tuple[str, ...], Callable[..., Any]] = {}
        self._backward: Callable[..., Any] | None = None  # that was given
        if isinstance(backward, str) and backward != "auto":
            self._backward = self.another(backward)
        elif callable(backward):
            self._backward = backward

    def another(self, source: str, **more: Any) -> Op:
        return op(source, backend=self._backend, **more)

    def __reduce__(self) -> tuple[Any, ...]:
        told = (self.backward, self.kernel.name, self._backend, self.ties, dict(self._options))
        return _again, (self.source, *told)

    def __repr__(self) -> str:
        return f"<tc function {self.kernel.name} of JAX>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self.bound(args, kwargs)
        scalars = tuple(
            (p.name, _number(p, v))
            for p, v in zip(self._params, given, strict=True)
            if not isinstance(p, r.Tensor)
        )
        arrays = [v for p, v in zip(self._params, given, strict=True) if isinstance(p, r.Tensor)]
        key = tuple(repr(v) for _, v in scalars)  # 0.0 and -0.0 are equal, and NaN is not
        found = self._traced.get(key)
        if found is None:
            found = self._traced.setdefault(key, jax.jit(self._function(dict(scalars))))
        return found(*arrays)

    def _function(self, scalars: Mapping[str, Any]) -> Callable[..., Any]:
        """The function of the tensors alone, with its derivative."""

        def one(*arrays: Any) -> Any:
            return self._call(scalars, arrays)

        call: Any = jax.custom_batching.custom_vmap(one)

        @call.def_vmap
        def _(size: int, batched: Sequence[bool], *arrays: Any) -> Any:
            return self._batch(scalars, tuple(batched), arrays)

        def forward_of_given(*arrays: Any) -> Any:
            found = function(*arrays)
            return found, (arrays, several(found))

        def forward(*arrays: Any) -> Any:
            saving, saved = self.saving(scalars), self._saved(scalars)
            if saving is None:  # not `call`, which has no derivative: this may be differentiated, too
                found = several(function(*arrays))
            else:
                found = several(self.another(saving.source)(*self._given(scalars, arrays)))
            by_name = dict(zip((*self._results, *saved), found, strict=True))
            made = self.gradient(scalars, None, saved)
            kept = [by_name[n] for n in made[0].saved] if made is not None else []
            own = found[: len(self._results)]
            return (own[0] if len(own) == 1 else own), (arrays, kept)

        def backward(kept: Any, adjoints: Any) -> tuple[Any, ...]:
            given, results = kept
            made = self._adjoints if self._backward is None else self._given_adjoints
            return made(scalars, given, results, several(adjoints))

        if self.backward is None:
            return call
        function: Any = jax.custom_vjp(call)
        function.defvjp(forward if self._backward is None else forward_of_given, backward)
        return function

    def _call(self, scalars: Mapping[str, Any], arrays: Sequence[Any]) -> Any:
        given = dict(scalars)
        for (p, t), a in zip(self.tensors, arrays, strict=True):
            want = numpy_dtype(t)
            integer = p.name in self.kernel.front.any_integer
            a = jax.numpy.asarray(a)
            if a.dtype != want and not integer:
                raise DTypeError(
                    f"{self.kernel.name}: {p.name} has type {a.dtype}, not {want}",
                    code="TC0411",
                    help='pass .astype(…), or set jax.config.update("jax_enable_x64", True) for 64 bits',
                )
            given[p.name] = a
        tensors = [given[p.name] for p, _ in self.tensors]
        types = {n: BY_NAME[str(given[n].dtype)] for n in self.kernel.front.any_integer}
        sizes = sizes_of(
            self.kernel,
            {p.name: a.shape for (p, _), a in zip(self.tensors, tensors, strict=True)},
            self._check,
        )
        keyed = {n: int(scalars[n]) for n in self.specialized}
        shapes = shapes_of(self.kernel, sizes, keyed, _EXACT)
        results = [
            jax.ShapeDtypeStruct(tuple(max(0, n) for n in shapes[k]), numpy_dtype(t))
            for k, t in self._results.items()
        ]

        made = self._by_platform(xla.Call(self.kernel, sizes, scalars, types, results))
        if "cuda" in made:

            def by_python(*arrays: Any) -> Sequence[Any]:
                return self._from_python(scalars, arrays, results)

            found = jax.lax.platform_dependent(*tensors, default=by_python, **made)
        elif made:
            found = made["cpu"](*tensors)
        else:
            found = self._from_python(scalars, tensors, results)
        return found[0] if len(results) == 1 else tuple(found)

    def _by_platform(self, call: xla.Call) -> dict[str, Callable[..., Sequence[Any]]]:
        """The calls of XLA without Python, by its platforms; a notice, where the usual one has none.

        Kernels are compiled for that platform; for cuda also by the first call, as a program may be
        lowered for another platform than the usual one.
        """
        platform = jax.default_backend()
        on_gpu = platform in ("gpu", "cuda")
        made: dict[str, Callable[..., Sequence[Any]]] = {}
        why = f"XLA runs on {platform} here"
        if platform == "cpu":
            why = xla.unavailable()
            on_cpu = None if why else call.on_cpu()
            if on_cpu is not None:
                made["cpu"] = on_cpu
            why = why or f"the backend '{self.kernel.backend}' runs kernels itself"
        refused = xla.unavailable_on_cuda()
        on_cuda = None if refused else call.on_cuda(now=on_gpu)
        if on_cuda is not None:
            made["cuda"] = on_cuda
        elif on_gpu:
            why = refused or "the kernel is of another backend, has checks='sync' or a complex scalar"
        if ("cuda" if on_gpu else platform) not in made:
            _announce(why)
        return made

    def _from_python(
        self, scalars: Mapping[str, Any], tensors: Sequence[Any], results: Sequence[Any]
    ) -> Sequence[Any]:
        """The results by a call of Python."""

        def run(*arrays: Any) -> Any:
            at = {
                **scalars,
                **{p.name: np.asarray(a) for (p, _), a in zip(self.tensors, arrays, strict=True)},
            }
            found = self.kernel(*(at[n] for n in self.names))
            return tuple(np.asarray(x) for x in several(found))

        return jax.pure_callback(run, tuple(results), *tensors, vmap_method="sequential")

    def _batch(
        self, scalars: Mapping[str, Any], batched: tuple[bool, ...], arrays: Sequence[Any]
    ) -> tuple[Any, Any]:
        """The results for a batch, by a kernel with one more index, and which of them are batched."""
        names = [p.name for (p, _), b in zip(self.tensors, batched, strict=True) if b]
        made, flags = self.batch(names, backward=None)  # derivatives are those of the function around it
        by_name = {**scalars, **{p.name: a for (p, _), a in zip(self.tensors, arrays, strict=True)}}
        found = made(*(by_name[n] for n in self.names))
        return (found, flags[0]) if len(flags) == 1 else (tuple(found), tuple(flags))

    def _check(self, holds: Any, what: str) -> None:
        if not holds:
            raise ArgumentError(
                f"{self.kernel.name}: {what}", code="TC0506", help="pass arrays of shapes that fit"
            )

    # ---- gradients

    def _saved(self, scalars: Mapping[str, Any]) -> tuple[str, ...]:
        """The temporaries that a call which is differentiated keeps."""
        found = self.saving(scalars)
        return () if found is None else found.saved

    def _given(self, scalars: Mapping[str, Any], arrays: Sequence[Any]) -> list[Any]:
        """The arguments in order."""
        by_name = {**scalars, **{p.name: a for (p, _), a in zip(self.tensors, arrays, strict=True)}}
        return [by_name[n] for n in self.names]

    def _adjoints(
        self, scalars: Mapping[str, Any], arrays: Sequence[Any], kept: Sequence[Any], adjoints: Sequence[Any]
    ) -> tuple[Any, ...]:
        made = self.gradient(scalars, None, self._saved(scalars))
        of: dict[str, Any] = {}
        if made is not None:
            g, function = made
            seeds = dict(zip(self._results, adjoints, strict=True))
            rest = [jax.numpy.atleast_1d(x) for x in (*kept, *(_conjugate(seeds[n]) for n in g.seeds))]
            found = several(function(*self._given(scalars, arrays), *rest))
            of = dict(zip(g.wrt, map(_conjugate, found), strict=True))
        return self._of_all(of, arrays)

    def _given_adjoints(
        self,
        scalars: Mapping[str, Any],
        arrays: Sequence[Any],
        results: Sequence[Any],
        adjoints: Sequence[Any],
    ) -> tuple[Any, ...]:
        """What the backward that was given returns, by parameters."""
        run: Any = self._backward
        inexact = [n for n, t in self._results.items() if t.is_inexact]
        seeds = {n: x for n, x in zip(self._results, adjoints, strict=True) if n in inexact}
        values = dict(zip(self.names, self._given(scalars, arrays), strict=True))
        if isinstance(run, Op):
            seeds = {n: _conjugate(x) for n, x in seeds.items()}
            named = {**values, **dict(zip(self._results, results, strict=True))}
            named |= {f"d_{n}": x for n, x in seeds.items()}
            by_names = {*run.names} <= {*named}
            found = several(
                run(*(named[n] for n in run.names)) if by_names else run(*values.values(), *seeds.values())
            )
            found = tuple(map(_conjugate, found))
        else:
            found = several(run(*values.values(), *seeds.values()))
        floating = [(p.name, a.shape) for (p, t), a in zip(self.tensors, arrays, strict=True) if t.is_inexact]
        check_adjoints(self.kernel.name, found, floating)
        return self._of_all(
            {n: x for (n, _), x in zip(floating, found, strict=True) if x is not None}, arrays
        )

    def _of_all(self, of: Mapping[str, Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The adjoints of all tensors, of which some are 0 or of no use."""
        out: list[Any] = []
        for (p, t), a in zip(self.tensors, arrays, strict=True):
            none = np.zeros(a.shape, jax.dtypes.float0) if not t.is_inexact else jax.numpy.zeros_like(a)
            out.append(of.get(p.name, none))
        return tuple(out)


def _conjugate(x: Any) -> Any:
    """An adjoint of `tc.grad` as one of JAX, or the other way round: of x + iy that is dL/dx - i dL/dy."""
    return jax.numpy.conj(x) if jax.numpy.iscomplexobj(x) else x


def _number(p: r.ScalarParam, value: Any) -> Any:
    if isinstance(value, jax.core.Tracer):
        raise ArgumentError(
            f"the scalar {p.name} is traced, and must be a number",
            code="TC0526",
            help="mark it as static (jax.jit(…, static_argnums=…)), or make it a tensor of one element",
        )
    return convert(np.asarray(value)[()] if isinstance(value, jax.Array) else value, p.dtype, p.name, p.span)

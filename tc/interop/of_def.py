"""What the operators of all frameworks have from their def: parameters, and the operators of its gradient and
of a batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from tc.api import Kernel
from tc.autodiff.batched import vmap
from tc.autodiff.gradient import Gradient, differentiable, gradient
from tc.autodiff.jvp import jvp
from tc.autodiff.saving import Saving, saving
from tc.dtypes import DType
from tc.errors import ArgumentError, Source
from tc.interop.quiet import quiet
from tc.lang import resolved as r
from tc.lang.generic import monomorphic
from tc.open_kernels.generic_kernel import GenericKernel

O = TypeVar("O", bound="OfDef[Any]")  # noqa: E741


class OfDef(Generic[O]):
    """An operator of a def, whose derivatives and batches are operators `O` of the same framework."""

    def __init__(
        self, source: str, kernel: Kernel, backend: str | None, ties: str, options: Mapping[str, Any]
    ) -> None:
        self.source = source
        self.kernel = kernel
        self.ties = ties
        self._backend = backend
        self._options = options
        self._drop = options.get("checks") == "drop"
        self._params = kernel.front.checked.params
        self.names = [p.name for p in self._params]
        self.specialized = kernel.front.specialized  # integers that derivatives depend on
        self._gradients: dict[tuple[Any, ...], tuple[Gradient, O]] = {}
        self._tangents: dict[tuple[Any, ...], tuple[tuple[str, ...], O]] = {}
        self._savings: dict[tuple[tuple[str, int], ...], Saving | None] = {}
        self._batches: dict[tuple[str, ...], O] = {}

    def another(self, source: str, **more: Any) -> O:
        """The operator of a source that was made from this one's."""
        raise NotImplementedError

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any], more: Sequence[str] = ()) -> list[Any]:
        """The arguments in order, those of the parameters and of `more`; ArgumentError, code TC0501 for
        another number of them, TC0502 for another name."""
        names, own = [*self.names, *more], self.kernel.name
        by_name = dict(zip(names, args, strict=False))
        for n, v in kwargs.items():
            if n not in names or n in by_name:
                what = f"{n} is given by position and by name" if n in by_name else f"unknown argument '{n}'"
                told = f"the inputs are {', '.join(names)}"
                raise ArgumentError(f"{own}: {what}", code="TC0502", help=told)
            by_name[n] = v
        if len(args) > len(names) or len(by_name) < len(names):
            count = max(len(args), len(by_name))
            missing = [n for n in names if n not in by_name]
            raise ArgumentError(
                f"{own}: expected {len(names)} inputs ({', '.join(names)}), got {count}",
                code="TC0501",
                help=f"{', '.join(missing)} is missing" if missing else "leave out the last",
            )
        return [by_name[n] for n in names]

    def _tc_source(self, what: str) -> str:
        """The source, for derivatives and batches; ArgumentError, code TC0528, for SaC."""
        if self.kernel.front.lang != "tc":
            return self.kernel.tc_source(what).text  # which raises
        return self.source

    @property
    def parameters(self) -> dict[str, DType | None]:
        """The types of the tensor parameters."""
        return {p.name: t for p, t in self.tensors}

    @property
    def tensors(self) -> list[tuple[r.Tensor, DType]]:
        """The tensor parameters and their types."""
        return [(p, self.kernel.front.typed.dtype(p)) for p in self._params if isinstance(p, r.Tensor)]

    def gradient(
        self,
        scalars: Mapping[str, Any],
        wrt: Collection[str] | None = None,
        saved: Sequence[str] = (),
    ) -> tuple[Gradient, O] | None:
        """The gradient with respect to the parameters that results depend on, of those in `wrt` if it is
        given, and its operator; None if there are no such parameters.  It takes the temporaries `saved` that
        it needs, beside results."""
        keyed = self._keyed(scalars)
        key = (None if wrt is None else tuple(wrt), keyed, tuple(saved))
        found = self._gradients.get(key)
        if found is None:
            source = self._tc_source("a gradient")
            reached = differentiable(source, self.kernel.name, dict(keyed))
            reached = [n for n in reached if wrt is None or n in wrt]
            if not reached:
                return None
            front = self.kernel.front
            made = gradient(
                source,
                reached,
                self.kernel.name,
                ties=self.ties,
                save=[
                    *saved,
                    *(x.name for x in front.checked.returns if front.typed.dtype(x.tensor).is_inexact),
                ],
                scalars=dict(keyed),
                tensors=True,
                drop=self._drop,
            )
            with quiet():
                found = self._gradients.setdefault(key, (made, self.another(made.source)))
        return found

    def saving(self, scalars: Mapping[str, Any]) -> Saving | None:
        """The def that returns what the gradient would compute again; None if that is nothing, or there is no
        gradient."""
        keyed = self._keyed(scalars)
        if keyed not in self._savings:
            source, name, drop = self._tc_source("a gradient"), self.kernel.name, self._drop
            reached = differentiable(source, name, dict(keyed))
            self._savings[keyed] = (
                saving(source, reached, name, ties=self.ties, scalars=dict(keyed), drop=drop)
                if reached
                else None
            )
        return self._savings[keyed]

    def _keyed(self, scalars: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
        """The scalars that derivatives depend on."""
        return tuple((n, int(scalars[n])) for n in self.specialized)

    def tangent(self, scalars: Mapping[str, Any], wrt: Collection[str]) -> tuple[tuple[str, ...], O] | None:
        """The derivative in a direction (`tc.jvp`): the parameters that results depend on, of those in `wrt`,
        and the operator; None if there are none."""
        keyed = self._keyed(scalars)
        key = (tuple(wrt), keyed)
        found = self._tangents.get(key)
        if found is None:
            source, name = self._tc_source("a derivative"), self.kernel.name
            reached = tuple(n for n in differentiable(source, name, dict(keyed)) if n in wrt)
            if not reached:
                return None
            made = jvp(source, reached, name, ties=self.ties, scalars=dict(keyed), drop=self._drop)
            with quiet():
                found = self._tangents.setdefault(key, (reached, self.another(made)))
        return found

    def batch(self, names: Sequence[str], **more: Any) -> tuple[O, list[bool]]:
        """The operator for a batch of some parameters, and which of its results are batched."""
        key = tuple(names)
        found = self._batches.get(key)
        if found is None:
            made = vmap(self._tc_source("a batch"), dict.fromkeys(names, 0), self.kernel.name)
            with quiet():
                checks = {"checks": self._options["checks"]} if "checks" in self._options else {}
                found = self._batches.setdefault(key, self.another(made, **checks, **more))
        pairs = zip(found.kernel.front.checked.returns, self.kernel.front.checked.returns, strict=True)
        return found, [b.tensor.rank > a.tensor.rank for b, a in pairs]


def with_types(
    src: Any, entry: str | None, options: Mapping[str, Any]
) -> tuple[str, str | None, dict[str, Any]]:
    """The source, the entry and the options of an operator, with the types of type variables in the source,
    as derivatives are made of it."""
    if isinstance(src, GenericKernel):
        return src.source, entry or src.name, dict(options)
    rest = {n: v for n, v in options.items() if n != "types"}
    if options.get("types") is None or options.get("lang", "tc") != "tc" or not isinstance(src, str):
        return src, entry, dict(options)
    return monomorphic(Source(src), entry, options["types"]), entry, rest


def known(made: Any, what: str) -> Kernel:
    """A kernel, or ArgumentError, code TC0511, for a function whose calls decide on ranks and types."""
    if isinstance(made, Kernel):
        return made
    raise ArgumentError(
        f"{what} takes a program whose parameters have ranks and types, and those of '{made.name}' are open",
        code="TC0511",
        help="write them, as in float[.,.] A",
    )


def check_adjoints(name: str, found: Sequence[Any], floating: Sequence[tuple[str, Any]]) -> None:
    """ArgumentError, code TC0524, if what a backward returns is not an adjoint for each floating or complex
    tensor, which come with their shapes."""
    if len(found) != len(floating):
        count = "1 tensor" if len(found) == 1 else f"{len(found)} tensors"
        raise ArgumentError(
            f"the backward of '{name}' returns {count} where there should be {len(floating)}",
            code="TC0524",
            help=f"return the adjoints of {', '.join(n for n, _ in floating)}, in this order",
        )
    for (n, shape), g in zip(floating, found, strict=True):
        if g is not None and tuple(g.shape) != tuple(shape):
            raise ArgumentError(
                f"the backward of '{name}' returns {tuple(g.shape)} for {n}, which has the shape "
                f"{tuple(shape)}",
                code="TC0524",
                help="an adjoint has the shape of its tensor",
            )


def several(found: Any) -> tuple[Any, ...]:
    """The results of a call, of which there may be one."""
    if isinstance(found, (tuple, list)):
        return tuple(cast("Sequence[Any]", found))
    return (found,)

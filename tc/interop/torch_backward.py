"""The pass backward of an operator of PyTorch: what a call keeps for it, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tc.autodiff.gradient import Gradient
from tc.errors import SemanticError
from tc.interop.of_def import check_adjoints, several
from tc.interop.torch_tensors import at_least_1d, is_inexact
from tc.lang import resolved as r

if TYPE_CHECKING:
    from tc.interop.torch import Op

torch: Any = import_module("torch")


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an operator, in order, and their types.

    The last ones may be those `kept` for the gradient of the operator `origin`, which returns the others.
    """

    names: tuple[str, ...]
    dtypes: Mapping[str, Any]
    origin: Op
    kept: tuple[str, ...]

    @property
    def own(self) -> tuple[str, ...]:
        return self.names[: len(self.names) - len(self.kept)]

    def is_inexact(self, name: str) -> bool:
        return is_inexact(self.dtypes[name])


@dataclass(frozen=True, slots=True)
class _Plan:
    """What calls do that want the gradient of the parameters `wrt`, with the same integers."""

    wrt: tuple[str, ...]
    gradient: tuple[Gradient, Op] | None
    saved: tuple[str, ...]  # results that are saved beside the arguments
    positions: tuple[int, ...]  # of these among all


class PassBackward:
    def __init__(self, op: Op, params: Sequence[r.Tensor | r.ScalarParam], results: Results) -> None:
        self._op = op
        self._params = params
        self._results = results
        self._takes = [isinstance(p, r.Tensor) for p in params]
        self._numbers = [p.name for p in params if not isinstance(p, r.Tensor)]
        self._constant = [
            k for k, n in enumerate(results.names) if n not in results.own or not results.is_inexact(n)
        ]
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        self._named: tuple[Op | None] | None = None

    # ---- forward

    def setup(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep in `ctx` what the pass backward needs of a call."""
        results = several(output)
        tensors = [a for a, takes in zip(inputs, self._takes, strict=True) if takes]
        numbers = [a for a, takes in zip(inputs, self._takes, strict=True) if not takes]
        ctx.scalars = scalars = dict(zip(self._numbers, numbers, strict=True))
        ctx.plan = plan = self._plan(ctx.needs_input_grad, scalars)
        ctx.set_materialize_grads(not self._results.kept)
        if self._constant:
            ctx.mark_non_differentiable(*(results[k] for k in self._constant))
        # Zeros stand for adjoints that are not there, but for none of what is kept.
        ctx.like = [(x.shape, x.dtype, x.device) for x in results] if self._results.kept else []
        ctx.tensors = len(tensors)
        ctx.save_for_backward(*tensors, *(results[k] for k in plan.positions))

    def _plan(self, needed: Sequence[bool], scalars: Mapping[str, Any]) -> _Plan:
        key = (tuple(needed), *(int(scalars[n]) for n in self._op.specialized))
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._planned(needed, scalars)
        return found

    def _planned(self, needed: Sequence[bool], scalars: Mapping[str, Any]) -> _Plan:
        results = self._results
        pairs = zip(self._params, needed, strict=False)  # one more, for metadata
        wrt = tuple(p.name for p, is_needed in pairs if is_needed and isinstance(p, r.Tensor))
        made, saved = None, list[str]()
        if wrt and self._op.backward == "auto":
            made = results.origin.gradient(scalars, wrt, results.kept)
            saved = list(made[0].saved) if made is not None else []
            if results.kept:  # the gradient without these may need other results
                saved += [n for n in results.own if n not in saved and results.is_inexact(n)]
        elif wrt and (by := self._by_names()) is not None:
            saved = [n for n in results.names if n in by.names]
        return _Plan(wrt, made, tuple(saved), tuple(map(results.names.index, saved)))

    # ---- backward

    def run(self, ctx: Any, *adjoints: Any) -> Any:
        """The adjoints of the parameters from those of the results."""
        op, results = self._op, self._results
        if op.backward is None:
            raise SemanticError(
                f"'{op.kernel.name}' was made with backward=None and has no gradient",
                code="TC0243",
                help="leave backward= out, or detach what it takes",
            )
        saved = ctx.saved_tensors
        tensors = iter(saved[: ctx.tensors])
        scalars = iter(ctx.scalars.values())
        given = [next(tensors) if takes else next(scalars) for takes in self._takes]
        kept = dict(zip(ctx.plan.saved, saved[ctx.tensors :], strict=True))
        seeds = {n: g for n, g in zip(results.own, adjoints, strict=False) if results.is_inexact(n)}
        for n, (shape, dtype, device) in zip(results.own, ctx.like, strict=False):
            if n in seeds and seeds[n] is None:
                seeds[n] = torch.zeros(shape, dtype=dtype, device=device)
        if op.backward == "auto":
            of = self._automatic(ctx, given, kept, seeds)
        else:
            of = self._given(given, kept, seeds)
        return tuple(of.get(p.name) for p in self._params)

    def _automatic(
        self, ctx: Any, given: list[Any], kept: Mapping[str, Any], seeds: Mapping[str, Any]
    ) -> dict[str, Any]:
        plan: _Plan = ctx.plan
        if plan.gradient is None:
            return {}
        made, operator = plan.gradient
        if self._results.kept and torch.is_grad_enabled():
            # The pass backward is to be differentiated itself, where what is kept would be a constant.
            again = self._results.origin.gradient(ctx.scalars, plan.wrt)
            assert again is not None
            made, operator = again
        values = (*(kept[n] for n in made.saved), *(seeds[n] for n in made.seeds))
        found = operator(*given, *map(at_least_1d, values))
        return dict(zip(made.wrt, several(found), strict=True))

    def _by_names(self) -> Op | None:
        """The operator of a backward def that takes parameters, results and adjoints by their names."""
        if self._named is None:
            backward, found = self._op.backward, None
            if isinstance(backward, str) and backward != "auto":
                found = self._op.another(backward)
            elif isinstance(backward, type(self._op)):
                found = backward
            results = self._results
            known = {*self._op.names, *results.names}
            known |= {f"d_{n}" for n in results.names if results.is_inexact(n)}
            self._named = (found if found is not None and {*found.names} <= known else None,)
        return self._named[0]

    def _given(self, given: list[Any], kept: Mapping[str, Any], seeds: Mapping[str, Any]) -> dict[str, Any]:
        op = self._op
        values = dict(zip(op.names, given, strict=True))
        by_names = self._by_names()
        if by_names is not None:
            known = {**values, **{f"d_{n}": x for n, x in seeds.items()}, **kept}
            found = several(by_names(*(known[n] for n in by_names.names)))
        else:
            run: Callable[..., Any] = op.backward if callable(op.backward) else op.another(str(op.backward))
            found = several(run(*given, *seeds.values()))
        floating = [(p.name, values[p.name].shape) for p, t in op.tensors if t.is_inexact]
        check_adjoints(op.kernel.name, found, floating)
        return {n: g for (n, _), g in zip(floating, found, strict=True)}

"""Which products become statements of a def: those of which a kernel is faster than PyTorch's.

Each product is measured alone, once in a process for its sizes and layouts, on tensors made for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tc.interop.fx.products import SAID, input_gradient, product, set_member, weight_gradient
from tc.interop.fx.views import Node, aten, is_tensor, packet, value

torch: Any = import_module("torch")
Run = Callable[..., Sequence[Any]]
# Of a product: its def, the nodes it takes, and functions of tensors for these, by a kernel and by PyTorch.
Make = Callable[[Node], tuple[str, Sequence[Node], Run, Run]]
PRODUCTS = ("measured", "tc", "pytorch")
_ROUNDS, _LEAST = 5, 2  # turns of either
_ENOUGH = 0.3  # seconds, from which on these are the least
_TURN, _CALLS = 1e-3, 3  # seconds and calls of a turn, at least
_FOUND: dict[Any, Timed] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Timed:
    """The seconds of a call by a kernel of ours, and by PyTorch; `problem` is why there is no kernel."""

    ours: float
    theirs: float
    problem: str = ""

    @property
    def is_ours(self) -> bool:
        return not self.problem and self.ours < self.theirs

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        return f"PyTorch's kernel is faster: {self.theirs * 1e6:.0f} us, ours {self.ours * 1e6:.0f} us"


def with_products(gm: Any, how: str, make: Make) -> Any:
    """The graph with marks on the products that become statements; gradients of convolutions are split.

    Where PyTorch is asked for deterministic algorithms, no clock decides.
    """
    if how == "measured" and torch.are_deterministic_algorithms_enabled():
        how = "pytorch"
    if how == "pytorch":
        return gm
    decide = partial(_decide, make=make if how == "measured" else None)
    if any(packet(n) is aten.convolution_backward for n in gm.graph.nodes):
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(gm.graph, {}))
        gm = torch.fx.GraphModule(gm, graph)
        for n in list(graph.nodes):
            if packet(n) is aten.convolution_backward:
                _take_apart(graph, n, decide)
        graph.eliminate_dead_code()
    for n in gm.graph.nodes:
        decide(n)
    return gm


def _decide(node: Node, make: Make | None) -> bool:
    """Mark a product that becomes a statement; else note why not."""
    if product(node) is None:
        return False
    set_member(node, True)
    if make is None:
        return True
    times = measured(node, make)
    if not times.is_ours:
        set_member(node, False)
        node.meta[SAID] = str(times)
    return times.is_ours


def _take_apart(graph: Any, node: Node, decide: Callable[[Node], bool]) -> None:
    """The gradients of a convolution as a node each, where one of them becomes a statement."""
    dy, x, w, _, *how, _ = node.args
    parts = {u.args[1]: u for u in node.users}
    made: dict[int, Node] = {}
    with graph.inserting_before(node):
        for k, gradient in ((0, input_gradient), (1, weight_gradient)):
            if k in parts and is_tensor(parts[k]):
                made[k] = graph.call_function(gradient, (dy, x, w, *how))
                made[k].meta = dict(parts[k].meta)
        decided = [decide(n) for n in made.values()]
        if any(decided):
            if 2 in parts and is_tensor(parts[2]):
                made[2] = graph.call_function(aten.sum.dim_IntList, (dy, [0, *range(2, value(dy).dim())]))
                made[2].meta = dict(parts[2].meta)
            for k, n in made.items():
                parts[k].replace_all_uses_with(n)


def measured(node: Node, make: Make) -> Timed:
    try:
        source, inputs, ours, theirs = make(node)
    except Exception as e:  # what does not compile stays PyTorch's
        return Timed(0.0, 0.0, f"{type(e).__name__}: {e}")
    given = [value(a) for a in inputs]
    key = (source, *((tuple(x.shape), tuple(x.stride()), x.dtype) for x in given), torch.get_num_threads())
    with _LOCK:
        if key not in _FOUND:
            _FOUND[key] = _timed(given, ours, theirs)
        return _FOUND[key]


def _timed(given: Sequence[Any], ours: Run, theirs: Run) -> Timed:
    fake: Any = import_module("torch._subclasses.fake_tensor")
    with fake.unset_fake_temporarily(), torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        some = [_random(x, generator) for x in given]
        try:
            (found,), (wanted,) = ours(*some), theirs(*some)
        except Exception as e:
            return Timed(0.0, 0.0, f"{type(e).__name__}: {e}")
        if not torch.allclose(found, wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max())):
            return Timed(0.0, 0.0, "other results than PyTorch's")
        end = time.perf_counter() + _ENOUGH
        turns = [(_turn(ours, some), _turn(theirs, some))]
        while len(turns) < _LEAST or (len(turns) < _ROUNDS and time.perf_counter() < end):
            turns.append((_turn(ours, some), _turn(theirs, some)))
        return Timed(min(a for a, _ in turns), min(b for _, b in turns))


def _turn(run: Run, some: Sequence[Any]) -> float:
    """The seconds of the fastest call; in the first ones of a turn threads of the other may still spin."""
    best, calls, end = float("inf"), 0, time.perf_counter() + _TURN
    while True:
        start = time.perf_counter()
        run(*some)
        now = time.perf_counter()
        best, calls = min(best, now - start), calls + 1
        if now >= end and calls >= _CALLS:
            return best


def _random(like: Any, generator: Any) -> Any:
    made = torch.empty_strided(tuple(like.shape), tuple(like.stride()), dtype=like.dtype)
    return made.copy_(torch.randn(tuple(like.shape), dtype=like.dtype, generator=generator))

"""`torch.compile(model, backend="tc")` and `tc.explain`.

AOTAutograd gives the passes forward and backward as graphs of ATen operators.  Each piece of a graph that
`groups` finds becomes a def, a kernel and one module in the graph; every other node stays as it is.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from operator import getitem
from typing import Any

from torch import nn

from tc.api import Kernel, compile
from tc.errors import BoundsError, Error, PerformanceNotice, Warning, warn
from tc.interop.fx.groups import groups_of, needs, ordered
from tc.interop.fx.operators import is_constant, is_second
from tc.interop.fx.pointwise import DTYPES
from tc.interop.fx.report import Explanation, GraphReport, PieceReport, Recorder
from tc.interop.fx.views import Node, aten, is_tensor, is_view, packet, value
from tc.interop.fx.writer import Writer, Written

torch: Any = import_module("torch")
_KERNELS: dict[tuple[str, tuple[str, ...]], Kernel] = {}
_LOCK = threading.Lock()
# Beyond the decompositions to core ATen: operators that are formulas of elements and reductions.
_EXTRA = [
    "native_layer_norm",
    "native_group_norm",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "native_batch_norm",
    "batch_norm_backward",
    "gelu",
    "_softmax",
    "_log_softmax",
    "leaky_relu",
    "elu",
    "hardtanh",
    "linalg_vector_norm",
    "std_mean",
]
_KEPT = ("_scaled_dot_product_flash_attention_for_cpu", "embedding_dense_backward", "native_dropout")


@cache
def decompositions() -> dict[Any, Any]:
    decomp: Any = import_module("torch._decomp")
    packets = [getattr(aten, n) for n in _EXTRA if hasattr(aten, n)]
    found = {**decomp.core_aten_decompositions(), **decomp.get_decompositions(packets)}
    return {op: d for op, d in found.items() if getattr(op, "_opname", "") not in _KEPT}


def backend(gm: Any, example_inputs: Sequence[Any], *, record: Recorder | None = None, **_: Any) -> Any:
    """The backend `tc` of torch.compile."""
    common: Any = import_module("torch._dynamo.backends.common")
    partitioners: Any = import_module("functorch.compile")

    def compiler(kind: str) -> Callable[..., Any]:
        return partial(_compile, kind=kind, record=record)

    made = common.aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=partitioners.min_cut_rematerialization_partition,
    )
    return made(gm, example_inputs)


def register() -> None:
    """Make the name "tc" known to torch.compile, unless the installed package has."""
    registry: Any = import_module("torch._dynamo.backends.registry")
    if "tc" not in registry.list_backends(exclude_tags=()):
        registry.register_backend(backend, name="tc")


def explain(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What `torch.compile(model, backend="tc")` makes of a call: calls the model with the arguments.

    `str()` of the result says which operators are in which TC, with its source, and why others stay with
    PyTorch.
    """
    found = Explanation()

    def recording(gm: Any, example_inputs: Sequence[Any]) -> Any:
        return backend(gm, example_inputs, record=found.graphs.append)

    torch.compile(model, backend=recording)(*args, **kwargs)
    return found


def _compile(gm: Any, example_inputs: Sequence[Any], *, kind: str, record: Recorder | None) -> Any:
    boxed: Any = import_module("functorch.compile").make_boxed_func
    report = GraphReport(kind)
    if record is not None:
        record(report)
    try:
        made = rewritten(gm, report)
    except Exception as e:  # whatever is wrong here, the model must run
        report.pieces.clear()
        report.fallback = {
            n.name: f"{type(e).__name__}: {e}" for n in gm.graph.nodes if n.op == "call_function"
        }
        warn(PerformanceNotice(f"a graph of torch.compile is left to PyTorch: {type(e).__name__}: {e}"))
        made = gm
    return boxed(made.forward)


def rewritten(gm: Any, report: GraphReport) -> Any:
    """The graph with a module for each piece."""
    nodes = list(gm.graph.nodes)
    found = groups_of(nodes)
    (end,) = (n for n in nodes if n.op == "output")
    chosen, failed = found.pieces, list[PieceReport]()
    while True:
        inside = {m for members in chosen for m in members}
        live = _live(end, nodes, chosen)
        made = [_piece(members, inside, live) for members in chosen]
        bad = [said for _, _, said in made if said.problem is not None]
        failed += bad
        if not bad:
            break
        chosen = [c for c, (_, _, said) in zip(chosen, made, strict=True) if said.problem is None]
    for said in failed:
        warn(PerformanceNotice(f"{', '.join(said.nodes)}: left to PyTorch, {said.problem}"))
    report.pieces += [*(said for _, _, said in made), *failed]
    pieces = [(members, w, p) for members, (w, p, _) in zip(chosen, made, strict=True) if w and p]
    graph = torch.fx.Graph()
    new: dict[Node, Any] = {}
    modules: dict[str, Any] = {}
    order = ordered(
        [n for n in nodes if n in live and n.op != "output"],
        [members for members, _, _ in pieces],
        lambda n: needs(n, n in inside),
    )
    for unit in order:
        if not isinstance(unit, int):
            new[unit] = graph.node_copy(unit, new.__getitem__)
            if unit.target is aten.view.default:
                new[unit].target = aten.reshape.default  # strides may differ from those that were traced
            continue
        _, written, piece = pieces[unit]
        name = f"tc_{unit}"
        modules[name] = piece
        call = graph.call_module(name, tuple(new[n] for n in piece.inputs))
        for k, r in enumerate(written.results):
            new[r] = graph.call_function(getitem, (call, k))
            new[r].meta = dict(r.meta)
    graph.node_copy(end, new.__getitem__)
    names = {n: n.name for n in nodes}
    for n, why in found.reasons.items():
        if n.op == "call_function" and not is_view(n) and not is_constant(n) and packet(n) is not getitem:
            report.fallback[f"{names[n]} ({_operator(n)})"] = why
    made = torch.fx.GraphModule({**dict(gm.named_children()), **_attributes(gm, graph), **modules}, graph)
    made.train(gm.training)
    return made


def _attributes(gm: Any, graph: Any) -> dict[str, Any]:
    return {
        n.target: getattr(gm, n.target) for n in graph.nodes if n.op == "get_attr" and "." not in n.target
    }


def _live(end: Node, nodes: list[Node], pieces: list[list[Node]]) -> set[Node]:
    """The nodes that run: what results, changes and pieces need, where pieces read through views."""
    piece = {m: members for members in pieces for m in members}
    live = {
        n for n in nodes if n.op == "placeholder" or (n not in piece and n.op != "output" and n.is_impure())
    }
    stack = [end, *live]
    while stack:
        n = stack.pop()
        for a in needs(n, n in piece):
            if a not in live:
                some = piece.get(a, [a])
                live.update(some)
                stack += some
    return live


def _operator(node: Node) -> str:
    return str(node.target).removeprefix("aten.") if node.target is not getitem else "getitem"


def _piece(
    members: list[Node], inside: set[Node], live: set[Node]
) -> tuple[Written | None, Piece | None, PieceReport]:
    own = set(members)
    results = [m for m in members if is_tensor(m) and _leaves(m, own, inside, live)]
    told = tuple(f"{m.name} ({_operator(m)})" for m in members if not is_second(m))
    said = PieceReport(told, "", {})
    try:
        written = Writer(members, results).write()
        said.source, said.names = written.source, written.names
        if not written.tensors or not results:
            raise ValueError("nothing goes in or comes out")
        kernel = _kernel(written.source, written.dynamic)
        _check_types(kernel, written)
    except Exception as e:
        said.problem = f"{type(e).__name__}: {e}"
        return None, None, said
    closed, inputs = _closure(members)
    inputs = list(dict.fromkeys([*written.tensors, *written.scalars, *inputs]))
    return written, Piece(kernel, written, inputs, closed, said), said


def _leaves(node: Node, own: set[Node], inside: set[Node], live: set[Node]) -> bool:
    """Whether a member is read outside of its piece: by what runs, or by another piece through views."""
    for u in node.users:
        if u in own:
            continue
        if u in live or u.op == "output":
            return True
        if is_view(u) and _leaves(u, own, inside, live):
            return True
    return False


def _closure(members: list[Node]) -> tuple[list[Node], list[Node]]:
    """The members with the views and constants that they read, in order, and what these read from outside."""
    inside = set(members)
    stack = list(members)
    while stack:
        for a in stack.pop().all_input_nodes:
            if a not in inside and is_tensor(a) and (is_view(a) or is_constant(a)):
                inside.add(a)
                if packet(a) is getitem:  # of what splits a tensor
                    inside.add(a.args[0])
                    stack.append(a.args[0])
                stack.append(a)
    nodes = sorted(inside, key=lambda n: n.meta["tc_position"])
    inputs = dict.fromkeys(a for n in nodes for a in n.all_input_nodes if a not in inside)
    return nodes, list(inputs)


def _kernel(source: str, dynamic: tuple[str, ...]) -> Kernel:
    with _LOCK:
        found = _KERNELS.get((source, dynamic))
        if found is None:
            with _silent():
                found = _KERNELS[source, dynamic] = compile(source, dynamic=dynamic)
        return found


@contextmanager
def _silent() -> Generator[None]:
    """Without the warnings that are for the author of a def."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Warning)
        yield


def _check_types(kernel: Kernel, written: Written) -> None:
    """That each result has the type that the graph says."""
    for x, node in zip(kernel.front.checked.returns, written.results, strict=True):
        found = kernel.front.typed.dtype(x.tensor).name
        wanted = {"float": "float32", "double": "float64"}.get(kind := DTYPES[value(node).dtype], kind)
        if found != wanted:
            raise TypeError(f"{node.name} would have the type {found}, not {wanted}")


class Piece(nn.Module):
    """A kernel in place of the nodes it was made of, which run where it cannot."""

    def __init__(
        self, kernel: Kernel, written: Written, inputs: list[Node], closed: list[Node], said: PieceReport
    ) -> None:
        super().__init__()
        self.inputs = inputs
        self.said = said
        self._kernel: Kernel | None = kernel
        self._prepare = [_taken(o) for o in written.orders_in]
        self._scalars = range(len(self._prepare), len(self._prepare) + len(written.scalars))
        self._finish = [_inverse(o) for o in written.orders_out]
        self._plain = all(p is None for p in self._prepare) and not written.scalars
        self._moved = any(f is not None for f in self._finish)
        self._own = _submodule(inputs, closed, written.results)
        self._first = True

    def forward(self, *args: Any) -> Any:
        kernel = self._kernel
        if kernel is None:
            return self._own(*args)
        given: Sequence[Any] = args[: len(self._prepare)]
        if not self._plain:
            given = [x if p is None else p(x) for x, p in zip(given, self._prepare, strict=True)]
            given += [args[k] for k in self._scalars]
        if self._first:
            return self._checked(args, given)
        try:
            if torch.is_grad_enabled():
                with torch.no_grad():
                    found = kernel(*given)
            else:
                found = kernel(*given)
        except BoundsError:
            raise  # data that PyTorch refuses too
        except Error as e:
            return self._left(e, args)
        return self._results(found)

    def _checked(self, args: Sequence[Any], given: Sequence[Any]) -> Any:
        """The first call, which makes machine code: whatever fails there, the model runs."""
        kernel = self._kernel
        assert kernel is not None
        try:
            with _silent(), torch.no_grad():
                found = kernel(*given)
        except BoundsError:
            raise
        except Exception as e:
            return self._left(e, args)
        self._first = False
        return self._results(found)

    def _left(self, e: Exception, args: Sequence[Any]) -> Any:
        self._kernel = None
        self.said.problem = f"{type(e).__name__}: {e}"
        warn(PerformanceNotice(f"{', '.join(self.said.nodes)}: left to PyTorch, {self.said.problem}"))
        return self._own(*args)

    def _results(self, found: Any) -> Any:
        if len(self._finish) == 1:
            f = self._finish[0]
            return (found if f is None else found.permute(f),)
        if not self._moved:
            return found
        return [x if f is None else x.permute(f) for x, f in zip(found, self._finish, strict=True)]


def _taken(order: tuple[int, ...]) -> Callable[[Any], Any] | None:
    """How a tensor becomes an argument: its dimensions in the order of memory, and at least one."""
    if not order:
        return lambda x: x.reshape(1)
    return None if order == tuple(range(len(order))) else lambda x: x.permute(order)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...] | None:
    if order == tuple(range(len(order))):
        return None
    return tuple(order.index(d) for d in range(len(order)))


def _submodule(inputs: list[Node], closed: list[Node], results: Sequence[Node]) -> Any:
    graph = torch.fx.Graph()
    new: dict[Node, Any] = {n: graph.placeholder(f"a{k}") for k, n in enumerate(inputs)}
    for n in closed:
        if n not in new:
            new[n] = graph.node_copy(n, new.__getitem__)
            if n.target is aten.view.default:
                new[n].target = aten.reshape.default
    graph.output([new[r] for r in results])
    return torch.fx.GraphModule({}, graph)

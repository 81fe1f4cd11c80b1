"""`torch.compile(model, backend="tc")` and `tc.explain`.

AOTAutograd gives the passes forward and backward as graphs of ATen operators.  Each piece of a graph that
`groups` finds becomes a def, a kernel and one module in the graph; every other node stays as it is.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from operator import getitem
from typing import Any

from torch import nn

from tc.api import Kernel, compile
from tc.errors import BoundsError, Error, PerformanceNotice, Warning, warn
from tc.interop.fx.alike import with_joined_products
from tc.interop.fx.choice import PRODUCTS, with_products
from tc.interop.fx.decompositions import decompositions
from tc.interop.fx.groups import groups_of, needs, ordered
from tc.interop.fx.layout import channels_innermost
from tc.interop.fx.operators import is_constant, is_second
from tc.interop.fx.pointwise import DTYPES
from tc.interop.fx.report import Explanation, GraphReport, PieceReport, Recorder
from tc.interop.fx.views import Node, aten, is_tensor, is_view, packet, value
from tc.interop.fx.writer import Unsuited, Writer, Written

torch: Any = import_module("torch")
_KERNELS: dict[tuple[str, tuple[str, ...]], Kernel] = {}
_LOCK = threading.Lock()


def backend(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    record: Recorder | None = None,
    options: dict[str, Any] | None = None,
    **_: Any,
) -> Any:
    """The backend `tc` of torch.compile.

    `options={"products": …}` says who computes matrix products and convolutions of fixed sizes on a CPU:
    "measured" (the default), for each the faster one of a kernel of ours and PyTorch's, "tc" or "pytorch".
    """
    products = _products(options or {})
    common: Any = import_module("torch._dynamo.backends.common")
    partitioners: Any = import_module("functorch.compile")

    def compiler(kind: str) -> Callable[..., Any]:
        return partial(_compile, kind=kind, record=record, products=products)

    made = common.aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=partitioners.min_cut_rematerialization_partition,
    )
    return made(gm, example_inputs)


def _products(options: dict[str, Any]) -> str:
    found = options.get("products", "measured")
    if set(options) - {"products"} or found not in PRODUCTS:
        text = " | ".join(f'"{p}"' for p in PRODUCTS)
        raise ValueError(f'torch.compile(backend="tc") takes options={{"products": {text}}}, not {options}')
    return found


def register() -> None:
    """Make the name "tc" known to torch.compile, unless the installed package has."""
    registry: Any = import_module("torch._dynamo.backends.registry")
    if "tc" not in registry.list_backends(exclude_tags=()):
        registry.register_backend(backend, name="tc")


def explain(model: Callable[..., Any], *args: Any, products: str = "measured", **kwargs: Any) -> Explanation:
    """What `torch.compile(model, backend="tc")` makes of a call: calls the model with the arguments.

    `products` is the option of that name.  `str()` of the result says which operators are in which TC, with
    its source, and why others stay with PyTorch.  As `torch._dynamo.explain`, it forgets what has been
    compiled before and what it compiles itself: functions are compiled again when they are called.
    """
    found = Explanation()
    dynamo: Any = import_module("torch._dynamo")

    def recording(gm: Any, example_inputs: Sequence[Any]) -> Any:
        return backend(gm, example_inputs, record=found.graphs.append, options={"products": products})

    dynamo.reset()  # else it would add to the compiles of a function, of which there may be a few
    try:
        torch.compile(model, backend=recording)(*args, **kwargs)
    finally:
        dynamo.reset()
    return found


def _compile(
    gm: Any, example_inputs: Sequence[Any], *, kind: str, record: Recorder | None, products: str
) -> Any:
    boxed: Any = import_module("functorch.compile").make_boxed_func
    report = GraphReport(kind)
    if record is not None:
        record(report)
    try:
        context: Any = torch._guards.TracingContext.try_get()
        strides = getattr(context, "output_strides", None) if kind == "forward" else None
        saved_from = math.inf if strides is None else context.fw_metadata.num_forward

        def returned(k: int) -> bool:
            """Whether a caller sees an output; the others are kept for the pass backward."""
            return k < saved_from

        found = with_joined_products(_laid_out(gm, example_inputs, returned, strides), returned)
        made = rewritten(with_products(found, products, _alone), report)
    except Exception as e:  # whatever is wrong here, the model must run
        report.pieces.clear()
        report.fallback = {
            n.name: f"{type(e).__name__}: {e}" for n in gm.graph.nodes if n.op == "call_function"
        }
        warn(PerformanceNotice(f"a graph of torch.compile is left to PyTorch: {type(e).__name__}: {e}"))
        made = gm
    return boxed(made.forward)


def _laid_out(
    gm: Any, inputs: Sequence[Any], returned: Callable[[int], bool], strides: list[Any] | None
) -> Any:
    """The graph with layouts of its own; those of what a forward pass saves are told to AOTAutograd, in
    `strides`."""
    made = channels_innermost(gm, inputs, returned)
    if made is not gm and strides is not None:
        (end,) = (n for n in made.graph.nodes if n.op == "output")
        strides.extend(value(n).stride() if is_tensor(n) else None for n in end.args[0])
    return made


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
    for said in (x for x in failed if not x.expected):
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
    if not isinstance(node.target, torch._ops.OpOverload):
        return getattr(node.target, "__name__", str(node.target))
    return str(node.target).removeprefix("aten.")


def _piece(
    members: list[Node], inside: set[Node], live: set[Node]
) -> tuple[Written | None, Piece | None, PieceReport]:
    own = set(members)
    return _made(members, [m for m in members if is_tensor(m) and _leaves(m, own, inside, live)])


def _made(members: list[Node], results: list[Node]) -> tuple[Written | None, Piece | None, PieceReport]:
    told = tuple(f"{m.name} ({_operator(m)})" for m in members if not is_second(m))
    said = PieceReport(told, "", {})
    try:
        written = Writer(members, results).write()
        said.source, said.names = written.source, written.names
        if not written.tensors or not results:
            raise Unsuited("no tensor goes in or comes out")
        kernel = _kernel(written.source, written.dynamic)
        _check_types(kernel, written)
    except Unsuited as e:
        said.problem, said.expected = str(e), True
        return None, None, said
    except Exception as e:
        said.problem = f"{type(e).__name__}: {e}"
        return None, None, said
    closed, inputs = _closure(members)
    inputs = list(dict.fromkeys([*written.tensors, *written.scalars, *inputs]))
    return written, Piece(kernel, written, inputs, closed, said), said


def _alone(node: Node) -> tuple[str, list[Node], Callable[..., Any], Callable[..., Any]]:
    """The def of one node, what it takes, and functions of that: by a kernel, and by PyTorch."""
    written, piece, said = _made([node], [node])
    if written is None or piece is None:
        raise ValueError(said.problem)
    return written.source, piece.inputs, piece, piece.own


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
    nodes = sorted(inside)
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
        self._prepare = [_taken(value(n), o) for n, o in zip(written.tensors, written.orders_in, strict=True)]
        self._scalars = range(len(self._prepare), len(self._prepare) + len(written.scalars))
        self._finish = [_inverse(o) for o in written.orders_out]
        self._plain = all(p is None for p in self._prepare) and not written.scalars
        self._moved = any(f is not None for f in self._finish)
        self.own = _submodule(inputs, closed, written.results)
        self._first = True

    def forward(self, *args: Any) -> Any:
        kernel = self._kernel
        if kernel is None:
            return self.own(*args)
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
        return self.own(*args)

    def _results(self, found: Any) -> Any:
        if len(self._finish) == 1:
            f = self._finish[0]
            return (found if f is None else found.permute(f),)
        if not self._moved:
            return found
        return [x if f is None else x.permute(f) for x, f in zip(found, self._finish, strict=True)]


def _taken(x: Any, order: tuple[int, ...]) -> Callable[[Any], Any] | None:
    """How a tensor becomes an argument: its dimensions in the order of memory, at least one, without gaps."""
    if not order:
        return lambda x: x.reshape(1)
    moved = order != tuple(range(len(order)))
    if not x.permute(order).is_contiguous():
        return (lambda x: x.permute(order).contiguous()) if moved else lambda x: x.contiguous()
    return (lambda x: x.permute(order)) if moved else None


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

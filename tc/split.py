"""How a program splits into parts that know nothing of each other: which dimensions, with what halo.

A *split* is a set of dimensions of tensors that one index runs over in every statement.  It is *parallel* if
the index stands on the left of all of them, and a *reduction* if it is one in all of them, whose partial
results are combined.  A dimension splits only if its index is nothing but a subscript, plus a constant at
most: then a part of the program is the program at a part of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.lang import resolved as r
from tc.pipeline.front import Front

COMBINED = ("+=!", "*=!", "max=!", "min=!")
Place = tuple[r.Tensor, int]  # a dimension of a tensor


@dataclass(frozen=True)
class Split:
    """`inputs`: {(parameter, dimension): the greatest offset at which it is read}; `first`: the least offset
    at which any is.  `outputs`: {result: dimension}; empty for a reduction, whose operators are in
    `combine`, by result."""

    inputs: Mapping[tuple[str, int], int]
    first: int
    outputs: Mapping[str, int]
    combine: Mapping[str, str]

    @property
    def parallel(self) -> bool:
        return bool(self.outputs)


class _No(Exception):
    """A dimension does not split."""


def splits(front: Front) -> tuple[Split, ...]:
    """All splits of a program; no dimension of a parameter is in two."""
    checked = front.checked
    views = any(a.tensor.base is not None for s in checked.statements for a in _accesses(s))
    if views or any(s.loops or s.scattered or s.box for s in checked.statements):
        return ()
    found: list[Split] = []
    taken: set[tuple[str, int]] = set()

    def add(make: Callable[[], Split]) -> None:
        try:
            split = make()
        except _No:
            return
        if split.inputs and not taken & split.inputs.keys():
            taken.update(split.inputs)
            found.append(split)

    for returned in checked.returns:
        for d in range(returned.tensor.rank):
            if not any(s.outputs.get(returned.name) == d for s in found):
                add(lambda place=(returned.tensor, d): _parallel(checked, place))
    for v in checked.statements[0].reductions:
        add(lambda v=v: _reduction(checked, v))
    return tuple(found)


def _parallel(checked: r.Checked, start: Place) -> Split:
    """The split of a dimension of a result."""
    offsets: dict[Place, tuple[int, int]] = {start: (0, 0)}
    waiting = [start]
    variables: dict[int, str] = {}  # of statements, by their number
    while waiting:
        tensor, d = waiting.pop()
        low, high = offsets[tensor, d]
        for i, s in enumerate(checked.statements):
            if s.target is not tensor:
                continue
            sub = s.subscripts[d]
            if (
                sub.offset is not None
                or sub.point is not None
                or variables.setdefault(i, sub.index) != sub.index
            ):
                raise _No
            for place, c in _reads(s, sub.index):
                if place[0] is s.target and (c or place[1] != d):
                    raise _No  # what it is made from lies in another part
                before = offsets.get(place)
                now = (low + c, high + c)
                both = now if before is None else (min(now[0], before[0]), max(now[1], before[1]))
                if both != before:
                    offsets[place] = both
                    waiting.append(place)
    outputs = {x.name: d for x in checked.returns for t, d in offsets if t is x.tensor}
    if any(offsets[t, d] != (0, 0) for x in checked.returns for t, d in offsets if t is x.tensor):
        raise _No
    _agree(checked, set(offsets), variables)
    return _made(checked, offsets, outputs, {})


def _reduction(checked: r.Checked, first: str) -> Split:
    """The split of a reduction of the first statement: the same dimensions are reduced in all others, which
    read parameters alone."""
    offsets: dict[Place, tuple[int, int]] = {p: (c, c) for p, c in _reads(checked.statements[0], first)}
    variables: dict[int, str] = {0: first}
    for i, s in enumerate(checked.statements):
        if s.op not in COMBINED or any(a.tensor.role != "param" for a in _accesses(s)):
            raise _No
        names = [v for v in s.reductions if {p for p, _ in _reads(s, v)} & offsets.keys()]
        if len(names) != 1:
            raise _No
        variables[i] = names[0]
        offsets |= {p: (c, c) for p, c in _reads(s, names[0])}
    if len({s.target for s in checked.statements}) < len(checked.statements):
        raise _No
    if any(c != (0, 0) for c in offsets.values()):
        raise _No
    _agree(checked, set(offsets), variables)
    combine = {x.name: s.op for x in checked.returns for s in checked.statements if s.target is x.tensor}
    return _made(checked, offsets, {}, combine)


def _made(
    checked: r.Checked,
    offsets: Mapping[Place, tuple[int, int]],
    outputs: Mapping[str, int],
    combine: Mapping[str, str],
) -> Split:
    params = {(t.name, d): c for (t, d), c in offsets.items() if t.role == "param"}
    # Dimensions of one size are equally long, in every part.
    tensors = {p.name: p for p in checked.params if isinstance(p, r.Tensor)}
    longest: dict[str, int] = {}
    names: dict[tuple[str, int], str] = {}
    for (name, d), (_, high) in params.items():
        dim = (tensors[name].dims or ())[d]
        if not isinstance(dim, r.Size):
            raise _No
        names[name, d] = dim.name
        longest[dim.name] = max(high, longest.get(dim.name, high))
    for p in tensors.values():
        for d, dim in enumerate(p.dims or ()):
            if isinstance(dim, r.Size) and dim.name in longest and (p.name, d) not in params:
                raise _No
    for s in checked.statements:
        for e in _all(s):
            if isinstance(e, r.Size) and e.name in longest:
                raise _No
            if isinstance(e, (r.ExtentOf, r.OriginOf)) and (e.tensor, e.axis) in offsets:
                raise _No
    first = min((low for low, _ in params.values()), default=0)
    return Split({k: longest[n] for k, n in names.items()}, first, outputs, combine)


def _agree(checked: r.Checked, places: set[Place], variables: Mapping[int, str]) -> None:
    """Every statement that reads or writes a split dimension runs over it with its own variable."""
    tensors = {t for t, _ in places}
    for i, s in enumerate(checked.statements):
        v = variables.get(i)
        mine = {p for p, _ in _reads(s, v)} if v is not None else set[Place]()
        for a in _accesses(s):
            for d in range(a.tensor.rank):
                if (a.tensor, d) in places and (v is None or not _is_plain(a.subscripts[d], v)):
                    raise _No
        if v is None and s.target in tensors:
            raise _No
        if not mine <= places:
            raise _No


def _reads(s: r.Statement, v: str) -> list[tuple[Place, int]]:
    """Where a variable is a subscript, and with what offset; _No if it is anything else, too."""
    for e in (*s.exists, *s.conditions, *(x for g in s.ranges for x in (g.lo, g.hi))):
        if any(isinstance(x, r.Index) and x.name == v for x in _tree(e)):
            raise _No
    if any(g.name == v for g in s.ranges) or v in s.auxiliary:
        raise _No
    if sum(sub.index == v for sub in s.subscripts) > 1:
        raise _No
    out: list[tuple[Place, int]] = []
    for root in s.roots():
        _visit(r.expand_lets(root, s), v, out)
    return out


def _visit(e: r.Exp, v: str, out: list[tuple[Place, int]]) -> None:
    if isinstance(e, r.Index) and e.name == v:
        raise _No
    if not isinstance(e, r.Access):
        for x in r.children(e):
            _visit(x, v, out)
        return
    plain = [d for d, sub in enumerate(e.subscripts) if _is_plain(sub, v)]
    if len(plain) > 1 or any(not e.constrained(d) for d in plain):
        raise _No
    for d, sub in enumerate(e.subscripts):
        if d in plain:
            out.append(((e.tensor, d), _offset(sub)))
        else:
            _visit(sub, v, out)
    for x in e.fills:
        _visit(x, v, out)


def _is_plain(e: r.Exp, v: str) -> bool:
    """Whether a subscript is the variable, plus a constant at most."""
    match e:
        case r.Index():
            return e.name == v
        case r.Binary("+" | "-", r.Index() as i, r.Const(int())):
            return i.name == v
        case r.Binary("+", r.Const(int()), r.Index() as i):
            return i.name == v
        case _:
            return False


def _offset(e: r.Exp) -> int:
    match e:
        case r.Binary(op, r.Index(), r.Const(int() as c)):
            return c if op == "+" else -c
        case r.Binary("+", r.Const(int() as c), r.Index()):
            return c
        case _:
            return 0


def _tree(e: r.Exp) -> Iterator[r.Exp]:
    yield e
    for x in r.children(e):
        yield from _tree(x)


def _all(s: r.Statement) -> Iterator[r.Exp]:
    """Every expression of a statement."""
    bounds: Sequence[r.Exp] = [x for g in s.ranges for x in (g.lo, g.hi)]
    offsets = [x for sub in s.subscripts for x in (sub.offset, sub.point) if x is not None]
    for root in (*s.roots(), *s.exists, *s.conditions, *bounds, *offsets):
        yield from _tree(root)


def _accesses(s: r.Statement) -> Iterator[r.Access]:
    for e in _all(s):
        if isinstance(e, r.Access):
            yield e

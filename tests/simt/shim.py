"""CUDA text run on the host, with every load and store watched.

`run(text, kernel, grid, block, args)` compiles a CUDA C++ text with the system's compiler ($CXX, else g++)
against simt.h, runs one kernel on NumPy arrays, and returns what it found; `check(text, launches)` runs
several kernels one after the other on the same arrays, once in each order of the threads.  README.md says
what is modelled.

    findings = check(text, [("k", 8, 256, [a, b, np.int32(n)])])
    assert not findings, report(findings)
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tests.simt.arena import Arena
from tests.simt.cuda_text import BuildError
from tests.simt.findings import KINDS, ORDERS, WHAT, Access, Finding, Kind, Order, report
from tests.simt.module import LOCK, Found, Kernel, Module, Region, build

__all__ = [
    "ORDERS",
    "BuildError",
    "Finding",
    "Kind",
    "Launch",
    "Module",
    "Order",
    "build",
    "check",
    "report",
    "run",
]

STEPS = 1 << 26
"""Basic blocks that a thread may run without waiting or ending."""


class Launch(NamedTuple):
    kernel: str
    grid: int | Sequence[int]
    block: int | Sequence[int]
    args: Sequence[Any]
    """Arrays (C-contiguous), numbers of NumPy of just the parameter's type, or int, float and bool; None is a
    null pointer."""
    shared: int = 0
    """Bytes of `extern __shared__` memory."""


_SCALARS = {
    **{("i", n): getattr(ctypes, f"c_int{8 * n}") for n in (1, 2, 4, 8)},
    **{("u", n): getattr(ctypes, f"c_uint{8 * n}") for n in (1, 2, 4, 8)},
    ("b", 1): ctypes.c_bool, ("f", 4): ctypes.c_float, ("f", 8): ctypes.c_double,
}  # fmt: skip


def _three(n: int | Sequence[int]) -> tuple[int, int, int]:
    x = (n,) if isinstance(n, (int, np.integer)) else tuple(n)
    if not 1 <= len(x) <= 3 or min(x) < 1:
        raise ValueError(f"a grid or a block of {n}")
    return (*map(int, x), 1, 1)[:3]  # type: ignore[return-value]


def _scalar(value: Any, kind: str, size: int, name: str) -> Any:
    """A number as a parameter of just this type."""
    if (kind, size) not in _SCALARS:
        raise TypeError(f"parameter {name} has a type that is not modelled")
    if isinstance(value, np.generic):
        if (value.dtype.kind, value.dtype.itemsize) != (kind, size):
            raise TypeError(f"parameter {name} ({kind}{size}) is given {value.dtype}")
        value = value.item()
    want = {"b": bool, "f": float}.get(kind, int)
    if type(value) is not want:
        raise TypeError(f"parameter {name} ({kind}{size}) is given {value!r}")
    c = _SCALARS[kind, size](value)
    if kind in "iu" and c.value != value:
        raise OverflowError(f"parameter {name} ({kind}{size}) is given {value}")
    return c


class _Session:
    def __init__(self, module: Module, arena: Arena, dynamic: int) -> None:
        self.module, self.arena = module, arena
        self.shared = module.shared
        regions = [
            Region(start, end - begin, granule, defined, 256, 0)
            for start, (begin, end, granule, defined) in zip(arena.starts, arena.pieces)
        ]
        for p in self.shared:
            d = p.declaration
            size = dynamic if d.dynamic else p.bytes
            regions.append(Region(p.address, size, d.granule, 0, d.alignment, 0))
        self.first_shared = len(arena.pieces)
        table = (Region * max(len(regions), 1))(*regions)
        begin = min((p.address for p in self.shared), default=0)
        end = max((p.address + p.bytes for p in self.shared), default=0)
        module.runtime.simt_open(
            arena.base, arena.bytes, begin, end - begin, table, len(regions), len(self.shared)
        )

    def launch(self, item: Launch, order: Order, steps: int) -> tuple[list[Finding], bool]:
        """The findings, and whether the kernel ran to its end."""
        kernel = self.module.kernels.get(item.kernel)
        if kernel is None:
            raise KeyError(f"the text has no kernel {item.kernel}")
        if len(item.args) != len(kernel.kinds):
            raise TypeError(f"{kernel.name} takes {len(kernel.kinds)} arguments, not {len(item.args)}")
        grid, block = _three(item.grid), _three(item.block)
        if math.prod(block) > (kernel.limit or 1024):
            raise ValueError(f"{kernel.name} is launched with {math.prod(block)} threads a block")
        values: list[Any] = []
        for value, kind, size, name in zip(item.args, kernel.kinds, kernel.sizes, kernel.parameters):
            if kind != "p":
                values.append(_scalar(value, kind, size, name))
            elif value is None or isinstance(value, np.ndarray):
                values.append(ctypes.c_void_p(None if value is None else self.arena.address(value)))
            else:
                raise TypeError(f"parameter {name} is a pointer and is given {value!r}")
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))
        dims = ctypes.c_uint32 * 3
        code = {"ascending": 0, "descending": 1}.get(order, 2) if isinstance(order, str) else 2
        seed = 0 if isinstance(order, str) else order
        n = self.module.runtime.simt_launch(
            kernel.entry, pointers, dims(*grid), dims(*block), code, seed, steps
        )
        stopped = n < 0
        raw = []
        for i in range(-n - 1 if stopped else n):
            f = Found()
            self.module.runtime.simt_finding(i, ctypes.byref(f))
            raw.append(f)
        self.module.resolve(s for f in raw for s in (f.site, f.other_site))
        found: dict[Any, Finding] = {}
        for f in raw:
            x = self._finding(f, kernel, item, order)
            key = _key(x)
            found[key] = replace(found[key], count=found[key].count + x.count) if key in found else x
        return list(found.values()), not stopped

    def _access(self, block: int, thread: int, what: int, site: int) -> Access:
        lines = self.module.places.get(site, ())
        return Access(block, thread, WHAT[what], lines[0] if lines else None, lines[1:])

    def _finding(self, f: Found, kernel: Kernel, item: Launch, order: Order) -> Finding:
        kind = KINDS[f.kind]
        first = self._access(f.block, f.thread, f.what, f.site)
        second = None
        if f.has_other:
            second = self._access(f.other_block, f.other_thread, f.other_what, f.other_site)
        note = f.note.decode(errors="replace")
        if kind is Kind.INDEX:
            note = f"{f.value} in {note}"
        elif kind in (Kind.MISALIGNED, Kind.OUT_OF_BOUNDS):
            note = f"{f.value} bytes" + (f", {note}" if note else "")
        array, offset, index = None, None, None
        if f.region >= 0:
            offset = ctypes.c_int64(f.offset).value
            array, offset, index = self._place(f.region, offset, kernel, item)
        return Finding(
            kind, kernel.name, first, second, array, offset, index, note, f.count, order, self.module.lines
        )

    def _place(
        self, region: int, offset: int, kernel: Kernel, item: Launch
    ) -> tuple[str | None, int, tuple[int, ...] | None]:
        if region >= self.first_shared:
            p = self.shared[region - self.first_shared]
            d = p.declaration
            index = None
            if d.shape is not None and 0 <= offset < p.bytes:
                index = (
                    tuple(int(i) for i in np.unravel_index(offset // d.itemsize, d.shape)) if d.shape else ()
                )
            return d.name, offset, index
        piece = self.arena.pieces[region]
        at = piece[0] + offset
        best: tuple[str | None, int, tuple[int, ...] | None] = (None, offset, None)
        for value, name in zip(item.args, kernel.parameters):
            if not isinstance(value, np.ndarray) or self.arena.piece(value) != region:
                continue
            own = at - value.ctypes.data
            if 0 <= own < value.nbytes:
                return name, own, tuple(int(i) for i in np.unravel_index(own // value.itemsize, value.shape))
            best = (name, own, None)
        return best


def _key(f: Finding) -> Any:
    sides = frozenset((a.line, a.what) for a in (f.first, f.second) if a)
    return f.kind, f.kernel, f.array, sides


def check(
    text: str | Module,
    launches: Iterable[Launch | tuple[Any, ...]],
    *,
    undefined: Sequence[np.ndarray[Any, Any]] = (),
    orders: Sequence[Order] = ORDERS,
    steps: int = STEPS,
) -> tuple[Finding, ...]:
    """Runs the launches one after the other on the same arrays, all of it once in each order of the threads.

    The arrays are left as the first order left them; another order whose results are other bytes is a finding
    of its own where nothing else was found.  `undefined` arrays begin without values: reading one of them
    before it is written is a finding.  A launch that cannot go on (a bound, a divergence) ends its
    order.
    """
    items = [Launch(*x) for x in launches]
    arrays: dict[int, np.ndarray[Any, Any]] = {}
    for item in items:
        arrays.update((id(a), a) for a in item.args if isinstance(a, np.ndarray))
    every = list(arrays.values())
    found: dict[Any, Finding] = {}
    results: list[list[np.ndarray[Any, Any]]] = []
    with LOCK:
        module = build(text) if isinstance(text, str) else text
        for order in orders:
            arena = Arena(every, list(undefined))
            session = _Session(module, arena, max((i.shared for i in items), default=0))
            try:
                for item in items:
                    findings, ended = session.launch(item, order, steps)
                    for f in findings:
                        found.setdefault(_key(f), f)
                    if not ended:
                        break
            finally:
                module.runtime.simt_close()
            results.append(arena.contents())
    if not found:
        for other, order in zip(results[1:], orders[1:]):
            for a, x, y in zip(every, results[0], other):
                if not x.size:
                    continue
                differ = np.flatnonzero(
                    (x.reshape(-1).view(np.uint8) != y.reshape(-1).view(np.uint8))
                    .reshape(x.size, -1)
                    .any(axis=1)
                )
                if differ.size:
                    f = _order_dependent(a, int(differ[0]), len(differ), items, module, order)
                    found.setdefault(_key(f), f)
    for a, x in zip(every, results[0] if results else []):
        if a.flags.writeable:
            a[...] = x
    return tuple(found.values())


def _order_dependent(
    a: np.ndarray[Any, Any], at: int, count: int, items: list[Launch], module: Module, order: Order
) -> Finding:
    """Named by the last kernel that takes the array."""
    item = next(i for i in reversed(items) if any(x is a for x in i.args))
    kernel = module.kernels[item.kernel]
    name = next(n for n, x in zip(kernel.parameters, item.args) if x is a)
    index = tuple(int(i) for i in np.unravel_index(at, a.shape)) if a.shape else ()
    return Finding(
        Kind.ORDER,
        kernel.name,
        None,
        None,
        name,
        at * a.itemsize,
        index,
        f"{count} elements",
        1,
        order,
        module.lines,
    )


def run(
    text: str | Module,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    shared: int = 0,
    undefined: Sequence[np.ndarray[Any, Any]] = (),
    order: Order = "ascending",
    steps: int = STEPS,
) -> tuple[Finding, ...]:
    """Runs one kernel in one order of the threads; the arrays are changed in place."""
    item = Launch(kernel, grid, block, args, shared)
    return check(text, [item], undefined=undefined, orders=(order,), steps=steps)

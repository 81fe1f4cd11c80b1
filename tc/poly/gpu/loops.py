"""The kernel of a mapped region."""

from __future__ import annotations

from dataclasses import dataclass

from tc.ir.expr import Load
from tc.ir.loops import Array, Compute, Launch, copied, statements
from tc.ir.printer import text
from tc.poly import ast
from tc.poly.gpu import redundant_barriers
from tc.poly.gpu.collective import sunk
from tc.poly.gpu.constant import selected
from tc.poly.gpu.mapped_tree import Mapped
from tc.poly.gpu.mapping import RegionMap
from tc.poly.scop import Scop
from tc.poly.tree_text import dump
from tc.transforms.loops.constant_trips import constant_trips


@dataclass(frozen=True, slots=True)
class Kernel:
    """A launch, its own arrays, and the mapped tree as text.

    `promoted` has a line for each array in shared memory and in registers, and for each buffer that stays in
    global memory the reason.  `spilled` are the buffers that options would keep in registers, `oversized`
    those whose copies do not fit into shared memory.
    """

    launch: Launch
    arrays: tuple[Array, ...]
    promoted: str
    tree: str
    spilled: tuple[str, ...] = ()
    oversized: tuple[str, ...] = ()


def kernel(scop: Scop, title: str, mapping: RegionMap, mapped: Mapped) -> Kernel:
    """The loops of a mapped tree as a kernel called `title`.  Use it inside `isl_context()`."""
    variables = [v for v, _ in (*mapping.blocks, *mapping.threads)]
    body = ast.loops(scop, mapped.schedule, mapped.inserted, mapped.views, variables)
    body = selected(body, mapped.arrays)
    body = sunk(body, {v for v, _ in mapping.threads}, mapped.common)
    own = {a.name for a in mapped.arrays if a.role == "register"}
    launch = constant_trips(Launch(title, mapping.blocks, mapping.threads, body))
    launch = redundant_barriers.remove_redundant_barriers(launch, own)
    oversized = tuple(str(x) for x in mapped.refused if x.oversized)
    tree = dump(mapped.schedule)
    return Kernel(launch, mapped.arrays, _promoted(launch, mapped), tree, mapped.spilled, oversized)


def _promoted(launch: Launch, mapped: Mapped) -> str:
    """Text on the arrays in shared memory (copies, with the bytes of a vector; temporaries and results) and
    on those in registers."""
    inserted = [s for s in statements(launch) if isinstance(s, Compute) and not s.stage]
    reads = ((s, copied(s)[0]) for s in inserted if s.buffer in mapped.common)
    copies = {s.buffer: (s, load.dtype) for s, load in reads if load is not None}
    own = {a.name for a in mapped.arrays}
    stored = {s.value.buffer for s in inserted if isinstance(s.value, Load) and s.buffer not in own}
    lines: list[str] = []
    for a in mapped.arrays:
        shape = ", ".join(map(text, a.shape)) + (f" + {a.padding}" if a.padding else "")
        if a.role == "register":
            what = "registers of each thread"
            what += f", parts of {a.partial_of}" if a.partial_of else ""
            what += ", the same in all of a point" if a.replicas else ""
        elif a.name in copies:
            s, source = copies[a.name]
            ahead = ", a tile ahead" if s.asynchronous else ""
            made = f", {source} made {a.dtype}" if source != a.dtype else ""
            what = f"copies of {s.width * source.itemsize} bytes{ahead}{made}"
        else:
            what = "stored when a tile is done" if a.name in stored else "stays there"
        lines.append(f"{a.name}[{shape}]: {what}\n")
    lines += [f"not in registers: {x}\n" for x in mapped.spilled]
    return "".join((*lines, *(f"not copied: {x}\n" for x in mapped.refused)))

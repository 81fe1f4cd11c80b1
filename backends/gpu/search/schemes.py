"""How a region may be mapped to blocks and threads: the options that restrict it, and the schemes that are
tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tc.ir.loops import WARP

THREADS = 256  # of a block, unless there are fewer points


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """The restrictions of a mapping by options and the target: the points of tiles, the threads of a block
    (the fastest dimension first), and the blocks; where these are empty, the search chooses them.

    `shared` and `small_shared` are bytes of shared memory.
    """

    tile: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    shared: int = 0  # the limit of a block
    small_shared: int = 0  # a smaller limit, tried in addition where a candidate exceeds it
    require_copies: bool = False  # copy to shared memory even elements that are read once
    skipped_register_tiles: int = 0  # leaves out so many of the largest register tiles
    max_threads: int = THREADS  # of a block, a power of two, unless `threads` is given
    unroll: int | None = None
    unroll_copies: bool | None = None
    # By statement with atomic updates, the variables of chunks that are mapped to blocks.
    chunks: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]], hash=False)


@dataclass(frozen=True, slots=True)
class MappingScheme:
    """How the points of a region are mapped.

    - `row_threads`: so many threads share the reduction of a row; 0: each thread has its own points.
    - `contiguous_threads`: at most so many threads lie along the contiguous axis.
    - `max_threads`: the limit of a block.
    - `shares_reductions`: the remaining threads of a block share reductions.
    - `thread_points`: the register tile, the points of a thread along two axes.
    - `shared_points`: a block has tiles of so many points of the axes that nests share; each thread executes
      all of them, and the other axes of the nests are mapped to threads; 0: the shared axes are mapped.
    - `transposes`: square tiles of the axis along which the region writes contiguously and of the one along
      which it reads contiguously; consecutive threads lie along the former.
    """

    name: str
    row_threads: int = 0
    contiguous_threads: int = WARP
    max_threads: int = THREADS
    shares_reductions: bool = False
    thread_points: tuple[int, int] = (1, 1)
    shared_points: int = 0
    transposes: bool = False

# pyright: basic, reportMissingImports=false
"""What launches share: extents of blocks, how long ranges are cut, and the choice of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

# A row of more elements than this does not stay in the registers of a block.
HELD = 1 << 15
_H100 = 132  # multiprocessors; without a GPU the kernels are cut as for this one


@cache
def processors() -> int:
    if not torch.cuda.is_available():
        return _H100
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


def power(n: int, least: int = 1, most: int = 1 << 20) -> int:
    """The power of two that holds `n`, within bounds."""
    return max(least, min(most, triton.next_power_of_2(n)))


def warps_of(block: int) -> int:
    """Of a block of so many elements: about 32 elements a thread, up to the most threads there are."""
    return 4 if block <= 2048 else 8 if block <= 8192 else 16 if block <= 16384 else 32


def cut(length: int, beside: int, block: int) -> tuple[int, int]:
    """How many pieces a range is cut into, and the length of one, a multiple of `block`.  Such ranges,
    `beside` each other, give every multiprocessor about four blocks."""
    pieces = max(1, min(triton.cdiv(length, block), 4 * processors() // beside))
    each = triton.cdiv(triton.cdiv(length, pieces), block) * block
    return triton.cdiv(length, each), each


def sum_type(x: Any) -> Any:
    """The type in which the elements of a tensor are summed."""
    return {torch.float64: tl.float64, torch.int8: tl.int32}.get(x.dtype, tl.float32)


def tuned(configs: Sequence[Any], key: Sequence[str]) -> Callable[[Any], Any]:
    """Of the configurations the fastest, found at the first call with such a key.  The interpreter, which has
    no clock of a device, takes the first."""
    chosen = list(configs[:1] if triton.knobs.runtime.interpret else configs)
    return triton.autotune(chosen, key=list(key), do_bench=_bench)


def _bench(call: Callable[[], Any], quantiles: Sequence[float]) -> Any:
    """Triton's own measurement, in less time."""
    return triton.testing.do_bench(call, warmup=3, rep=12, quantiles=list(quantiles))


def configurations(names: str, *values: tuple[int, ...]) -> list[Any]:
    """Of each: the extents of these names, the warps, and the stages of the pipeline."""
    return [
        triton.Config(dict(zip(names.split(), extents)), num_warps=warps, num_stages=stages)
        for *extents, warps, stages in values
    ]

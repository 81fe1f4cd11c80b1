"""Fast calls of compiled kernels, the thread pool, and functions that kernels link to.

A kernel is `int32_t kernel(void *const *args)`: for each parameter in order the address of its data (a
tensor's first element, dense row-major; a scalar's value), then the same for the outputs in return order,
then `int64_t error[32]`, zeroed (0: access id + 1, or 0; 1: the offending index; 2: the number of iteration
indices; 3…: their values), then the workspace, 64-byte aligned, NULL when its size is 0.  It returns 0, or
another value when it recorded an error.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

# ("tensor", code, bits, shape) or ("scalar", code, bits, value); code and bits are DLPack's, (6, 8) for a
# bool.  A scalar's value is None, or what a specialised one must be.
InputSpec = (
    tuple[Literal["tensor"], int, int, tuple[int, ...]]
    | tuple[Literal["scalar"], int, int, int | bool | float | None]
)
# (code, bits, shape, inout); an inout output must come from the caller.
OutputSpec = tuple[int, int, tuple[int, ...], bool]
# (access id, offending index, iteration indices, dimension); the id is -1 where the kernel recorded none, and
# -2 where the driver of a device refused to launch it, with its status for the index.
ErrorRecord = tuple[int, int, tuple[int, ...], int]

# Of a device: its number; the addresses of the driver's functions cuCtxPushCurrent, cuCtxPopCurrent and
# cuLaunchKernel; its context; the launches (function, blocks, threads, bytes of shared memory, places);
# words that do not change; the address of the error record, or 0; the one stream that it is for, or None.
# Places are of the arguments (inputs, outputs), then 1 for the workspace, 1 for the error record, and the
# words that do not change.
DeviceSpec = tuple[
    int,
    int,
    int,
    int,
    int,
    tuple[tuple[int, int, int, int, tuple[int, ...]], ...],
    tuple[int, ...],
    int,
    int | None,
]

class Entry:
    """A compiled kernel and the exact arguments it is for.

    `workspace` counts bytes.  `release_gil` costs some 40 ns: worth it from a few microseconds on.  Several
    results are passed to `result_type` (a named tuple class; None: a tuple).  `owner` keeps the machine code
    alive and is handed to `Dispatcher._failed`.  `parameters` and `results` are the names for keywords and
    for a dictionary as `out=`, both or neither.  `sizes` are the values of a kernel's dynamic sizes.  With
    `device` the arrays are there, and what is launched is put on PyTorch's current stream; `address` is then
    of no use but has to be one.
    """

    def __new__(
        cls,
        address: int,
        inputs: Sequence[InputSpec],
        outputs: Sequence[OutputSpec],
        workspace: int = 0,
        release_gil: bool = True,
        result_type: Callable[..., Any] | None = None,
        owner: object = None,
        parameters: Sequence[str] | None = None,
        results: Sequence[str] | None = None,
        sizes: Sequence[int] = (),
        device: DeviceSpec | None = None,
    ) -> Entry: ...
    @property
    def owner(self) -> Any: ...
    @property
    def workspace(self) -> int: ...
    @property
    def address(self) -> int: ...
    def run(self, addresses: Sequence[int], of_torch: bool = False, /) -> tuple[int, ErrorRecord | None]:
        """Run on the addresses of inputs and outputs, unchecked, on PyTorch's threads if they are `of_torch`:
        (code, error), error None when code is 0."""

class Dispatcher:
    """A callable over a list of entries, last used first, at most 64 unless `_keep` says otherwise.

    A call whose arguments, by position or by name, and `out=` match an entry exactly runs it at once: all
    arrays `numpy.ndarray` or all `torch.Tensor` (or `Parameter`) on the host, or all tensors on the entry's
    device, of its types and shapes, dense, aligned (to 16 bytes on a device), buffers writable and apart
    from every other array.  `out=` is a buffer, a tuple of them, or a dictionary with one for each result.
    Anything else goes to `_miss`, before anything is written.
    """

    def _add(self, entry: Entry, /) -> None:
        """Put an entry in front, or the same one that is there already.

        ValueError if its names differ from those of the entries before.
        """

    def _keep(self, count: int, /) -> None:
        """Set how many entries there may be; those used longest ago are dropped."""

    def _clear(self) -> None: ...
    def _entries(self) -> tuple[Entry, ...]: ...
    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """For the subclass: the call, the slow way."""

    def _failed(self, owner: Any, error: ErrorRecord, /) -> Any:
        """For the subclass: raise the error that the kernel of `owner` recorded."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class StandardMode:
    """A context manager: this thread rounds to nearest and keeps denormals, whatever mode the caller set.

    Kernels and `pack` see to that themselves.  It cannot be entered twice.
    """

    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...

class MachineCode:
    """The functions of an object file, in memory that lives as long as this object.

    `file` is a relocatable ELF file for x86-64 of which nothing is written to and whose relocations are 64
    bits wide, as LLVM's large code model has them; `resolve` gives the addresses of functions that it does
    not define, 0 for none.  ValueError for any other file: LLVM may load it.
    """

    def __init__(self, file: bytes, resolve: Callable[[str], int]) -> None: ...
    def address(self, name: str) -> int:
        """The address of a function; KeyError for what the file does not define."""

def symbols() -> dict[str, int]:
    """Addresses of the C functions that compiled code may call: tc_parallel_for and native/math.h."""

def pack(value: complex | np.generic, code: int, bits: int) -> bytes:
    """A number as an element of a DLPack type; ValueError if that would lose its kind or leave the range."""

def from_dlpack(capsule: object) -> tuple[npt.NDArray[Any], int, int]:
    """(view of the tensor in an unused DLPack capsule, code, bits); bfloat16 appears as uint16.

    BufferError for tensors outside host memory or of other types, TypeError for other capsules.
    """

def describe_dlpack(
    capsule: object,
) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, int, int, int, bool]:
    """(address, shape, strides in bytes, code, bits, lanes, device type, device id, read only) of the
    tensor in an unused DLPack capsule, which keeps it.  BufferError and TypeError as `from_dlpack`; any
    device will do.
    """

def to_dlpack(
    address: int,
    shape: tuple[int, ...],
    code: int,
    bits: int,
    device_type: int,
    device_id: int,
    owner: object,
    versioned: bool,
    read_only: bool,
) -> object:
    """A DLPack capsule, of 1.0 or of before, over dense row-major memory that `owner` keeps."""

def watch_records(words: npt.NDArray[np.int64], used: int) -> None:
    """Look into the first `used` rows of error records, 32 words each, before each call on a device: where
    one is set, the call goes to `_miss`.  The array is kept until `used` is 0."""

def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """What `np.empty` makes.  From 1 MiB on the array's own memory comes from the pool of results: 64-byte
    aligned, and back in the pool when the array dies, for the next one of about the size.
    """

def xla_handler() -> object:
    """A capsule with the address of the function that XLA calls for every kernel (tc/native/xla.h)."""

def keep_for_xla(
    key: str, entry: Entry, scalars: Sequence[bytes], failed: Callable[[ErrorRecord], str], name: str
) -> None:
    """Let calls of XLA whose attribute `kernel` is `key` run an entry, for ever.

    `scalars` are the packed values of its scalar parameters, in order; `failed` makes the text of an error
    from what the kernel recorded; `name` is for other messages.  A key that is there keeps its entry.
    """

class OnDevice(Protocol):
    """What a call of XLA on a GPU asks, on any thread.  What these raise is the error of the call."""

    def bind(self, device: int, stream: int, /) -> Entry:
        """The launches on a device, whose checks are of this stream."""
        ...

    def pending(self) -> str | None:
        """The text of an error that a kernel has left, which is then taken."""
        ...

    def refused(self, device: int, status: int, /) -> str:
        """The text of what the driver said of a launch."""
        ...

def xla_device_handler() -> object:
    """A capsule with the address of the function that XLA calls for every kernel on the platform CUDA
    (tc/native/xla_device.h)."""

def keep_for_xla_on_device(key: str, kernel: OnDevice, scalars: Sequence[bytes], name: str) -> None:
    """Let calls of XLA on a GPU whose attribute `kernel` is `key` run a kernel, for ever; the other arguments
    as in `keep_for_xla`.  ValueError for a scalar of more than 8 bytes."""

def get_num_threads() -> int:
    """Threads in a parallel loop, the caller's included: TC_NUM_THREADS, else the usable cores."""

def set_num_threads(count: int) -> None:
    """Change that; waits for a running loop to end.  ValueError below 1 or above 4096."""

def _poison_workspaces(yes: bool) -> None:
    """Whether every workspace is filled with NaNs before a call, which shows what is read too early."""

def _arena_bytes() -> int:
    """Scratch memory that this thread keeps between calls."""

def _result_pool_bytes() -> int:
    """Memory of dead results that is kept for the next ones, at most `settings.result_pool_limit()`."""

def _pool_selftest(items: int, loops: int = 1, callers: int = 1, inner: int = 0, work: int = 0) -> int:
    """Run loops from several threads, each item `inner` items in turn; how many ran not exactly once."""

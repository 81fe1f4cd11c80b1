"""Settings: how `tc` behaves, not what it computes.  Each is read from the environment once per use.

| variable | meaning |
|---|---|
| `TC_VERIFY=1` | follow every pass that moves work by its oracle |
| `TC_DUMP=DIR` | write every stage of every compile into DIR |
| `TC_NUM_THREADS=N` | threads of the CPU backend's pool (default: `OMP_NUM_THREADS`, else physical cores) |
| `TC_CACHE=0` | keep no compiled kernels on disk (default: 1) |
| `TC_CACHE_DIR=DIR` | where they are kept (default: the user's directory for such things) |
| `TC_CACHE_MIB=N` | how much is kept, in MiB (default: 1024) |
| `TC_TUNE_DIR=DIR` | where records of measurements are (default: the user's directory for data) |
| `TC_TUNED=near` | take options from records of near sizes too; `exact`: of the same sizes; `off`: none |
| `TC_CUDA_DEVICE=N` | the number of the CUDA device (default: 0) |
| `TC_OPENCL_DEVICE=NAME` | part of the name of the OpenCL device or its platform (default: the first GPU) |
| `TC_RESULT_POOL_MIB=N` | how much memory of dead NumPy results is kept, in MiB (default: 256; 0: none) |
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tc.errors import ArgumentError

_MOST_THREADS = 4096  # that the pool of `tc._native` takes
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def verify() -> bool:
    """Whether passes are followed by their oracles (`TC_VERIFY`)."""
    return _flag("TC_VERIFY")


@contextmanager
def verifying() -> Generator[None]:
    """In the body every pass is followed by its oracle, and no kernel from disk stands in for a compile."""
    before = os.environ.get("TC_VERIFY")
    os.environ["TC_VERIFY"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TC_VERIFY"]
        else:
            os.environ["TC_VERIFY"] = before


def dump_directory() -> Path | None:
    """Where the stages of a compile are written (`TC_DUMP`), or None."""
    text = os.environ.get("TC_DUMP", "")
    return Path(text) if text else None


def cache() -> bool:
    """Whether compiled kernels are kept on disk (`TC_CACHE`)."""
    return _flag("TC_CACHE", default=True)


def cache_directory() -> Path:
    """Where compiled kernels are kept (`TC_CACHE_DIR`); it need not exist."""
    text = os.environ.get("TC_CACHE_DIR", "")
    if text:
        return Path(text)
    from platformdirs import user_cache_dir  # what runs bundles may be without it

    return Path(user_cache_dir("tensor-comprehensions", appauthor=False))


def records_directory() -> Path:
    """Where records of measurements are (`TC_TUNE_DIR`); it need not exist."""
    text = os.environ.get("TC_TUNE_DIR", "")
    if text:
        return Path(text)
    return _user_records(os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@functools.cache
def _user_records(*_: str | None) -> Path:
    """In the user's directory for data, which depends on these variables of the environment."""
    from platformdirs import user_data_dir

    return Path(user_data_dir("tensor-comprehensions", appauthor=False)) / "tuning"


def cuda_device() -> int:
    """The number of the CUDA device (`TC_CUDA_DEVICE`)."""
    text = os.environ.get("TC_CUDA_DEVICE", "") or "0"
    if not (text.isascii() and text.isdigit()):
        raise ArgumentError(
            f"the environment variable TC_CUDA_DEVICE={text!r} is not the number of a device",
            code="TC0512",
            help="devices are numbered from 0 on",
        )
    return int(text)


def opencl_device() -> str:
    """A part of the name of the OpenCL device to use or of its platform (`TC_OPENCL_DEVICE`), or nothing."""
    return os.environ.get("TC_OPENCL_DEVICE", "")


def check_threads() -> None:
    """`TC_NUM_THREADS`, which `tc._native` reads when its pool starts, is a number of threads; else
    ArgumentError, TC0512."""
    text = os.environ.get("TC_NUM_THREADS", "")
    if text and not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_THREADS):
        raise ArgumentError(
            f"the environment variable TC_NUM_THREADS={text!r} is not a number of threads",
            code="TC0512",
            help=f"set it to an integer from 1 to {_MOST_THREADS}, or not at all: then the kernels use "
            "the physical cores",
        )


def cache_limit() -> int:
    """How much is kept, in bytes (`TC_CACHE_MIB`, which counts in 2**20)."""
    return _mebibytes("TC_CACHE_MIB", 1024, 1, "set it to a positive integer, or TC_CACHE=0 to keep nothing")


def result_pool_limit() -> int:
    """How much memory of dead results is kept, in bytes (`TC_RESULT_POOL_MIB`, which counts in 2**20).

    `tc._native` asks once, when the first result of at least 1 MiB is made.
    """
    return min(_mebibytes("TC_RESULT_POOL_MIB", 256, 0, "set it to an integer; 0 keeps nothing"), sys.maxsize)


def _mebibytes(name: str, default: int, least: int, help: str) -> int:
    """In bytes."""
    text = os.environ.get(name, "") or str(default)
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ArgumentError(
            f"the environment variable {name}={text!r} is not a number of MiB", code="TC0512", help=help
        )
    return int(text) << 20


def _flag(name: str, *, default: bool = False) -> bool:
    text = os.environ.get(name, "").lower()
    if not text:
        return default
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ArgumentError(
        f"the environment variable {name}={text!r} is neither on nor off",
        code="TC0512",
        help=f"set {name}=1 or 0",
    )

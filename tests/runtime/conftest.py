"""Small kernels with the ABI of compiled ones, written in C by hand."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tc import _native

SOURCE = r"""
#include <stdint.h>
#include <string.h>
#include <unistd.h>
enum { N = 20 };  /* the arrays of these kernels have 4 x 5 elements */

int32_t add3(void *const *a) {
  const float *x = a[0], *y = a[1], *z = a[2]; float *o = a[3];
  for (int i = 0; i < N; i++) o[i] = x[i] + y[i] + z[i];
  return 0;
}
int32_t twice(void *const *a) {       /* (x) -> (x + x, x * x) */
  const float *x = a[0]; float *o = a[1], *p = a[2];
  for (int i = 0; i < N; i++) { o[i] = x[i] + x[i]; p[i] = x[i] * x[i]; }
  return 0;
}
int32_t accumulate(void *const *a) {  /* o += x */
  const float *x = a[0]; float *o = a[1];
  for (int i = 0; i < N; i++) o[i] += x[i];
  return 0;
}
int32_t scale(void *const *a) {       /* float s, float(4, 5) x */
  float s = *(const float *)a[0]; const float *x = a[1]; float *o = a[2];
  for (int i = 0; i < N; i++) o[i] = s * x[i];
  return 0;
}
int32_t bytes8(void *const *a) { memcpy(a[1], a[0], 8); return 0; }   /* a scalar, as it arrives */
int32_t bytes40(void *const *a) { memcpy(a[1], a[0], 40); return 0; } /* 20 elements of two bytes */
int32_t sized(void *const *a) {       /* int64(n) x, of dynamic size n */
  const int64_t *x = a[0], *sizes = a[4]; int64_t *o = a[1];
  for (int64_t i = 0; i < sizes[0]; i++) o[i] = x[i] * sizes[1];
  return 0;
}
int32_t nothing(void *const *a) { (void)a; return 0; }
int32_t fails(void *const *a) {       /* (x) -> o; records access 2, index -7 of dimension 1 at (4, 5) */
  int64_t *e = a[2];
  for (int i = 0; i < 32; i++) if (e[i]) return 0;
  e[0] = 3; e[1] = -7; e[2] = 2; e[3] = 4; e[4] = 5; e[5] = 1;
  return 1;
}
int32_t fails_silently(void *const *a) { (void)a; return 5; }
int32_t scratch(void *const *a) {     /* (x) -> int64 o[2]: address of the workspace; fills 4096 bytes */
  int64_t *o = a[1];
  o[0] = (int64_t)(intptr_t)a[3];
  if (a[3]) memset(a[3], 0x5a, 4096);
  o[1] = a[3] ? ((unsigned char *)a[3])[4095] : -1;
  return 0;
}
int32_t naps(void *const *a) {        /* fills its output slowly, through the scratch memory */
  const float *x = a[0]; float *o = a[1], *w = a[3];
  for (int i = 0; i < N; i++) w[i] = x[i];
  usleep(2000);
  for (int i = 0; i < N; i++) o[i] = w[i];
  return 0;
}
int32_t halves(void *const *a) {      /* double: x / 2, which underflows into the denormals */
  const double *x = a[0]; double *o = a[1];
  *o = *x / 2;
  return 0;
}
"""

F32 = (2, 32)
T45 = ("tensor", *F32, (4, 5))
O45 = (*F32, (4, 5), False)


class Kernel(_native.Dispatcher):
    """Records the calls that the fast path left alone."""

    def __init__(self) -> None:
        self.missed: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        self.missed.append((args, kwargs))
        return "missed"

    def _failed(self, owner: Any, error: Any, /) -> Any:
        raise IndexError(owner, error)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], int]]:
    folder: Path = tmp_path_factory.mktemp("kernels")
    source, library = folder / "k.c", folder / "k.so"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))

    def find(name: str) -> int:
        value = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
        assert value is not None
        return value

    yield find


@pytest.fixture
def empty() -> Callable[[], Kernel]:
    """`empty()`: a dispatcher without entries."""
    return Kernel


@pytest.fixture
def make(address: Callable[[str], int]) -> Callable[..., Kernel]:
    """`make(name, inputs, outputs, **options)`: a dispatcher with one entry."""

    def build(name: str, inputs: Any = (T45,), outputs: Any = (O45,), **options: Any) -> Kernel:
        kernel = Kernel()
        kernel._add(_native.Entry(address(name), inputs, outputs, **options))
        return kernel

    return build

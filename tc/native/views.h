// What the fast path sees of an array of NumPy, PyTorch or CuPy, and new ones of these.
#pragma once

#include <Python.h>

#include <cstdint>

#include "dlpack.h"

namespace tc {

constexpr int32_t kHost = -1;

constexpr int32_t kMostExtents = 8;  // of an array whose library tells its shape by objects of Python

enum class Library : uint8_t { kNone, kNumpy, kTorch, kCupy };

// Borrowed: valid while the object lives and nobody resizes it.  It is not copied: `shape` and `strides` may point
// into it.
struct View {
  char *data;
  const int64_t *shape;
  const int64_t *strides;  // in units of `stride_unit` bytes, or of elements where that is 0
  int32_t ndim;
  uint8_t code, bits;  // DLPack
  Library library;
  bool writable;
  int32_t device;  // the number of a CUDA device; kHost
  bool strides_in_bytes;
  int64_t own_shape[kMostExtents], own_strides[kMostExtents];
};

enum class Seen : uint8_t {
  kView,     // filled in
  kOther,    // not an array of a library known here; may be a number
  kRefused,  // an array that the fast path leaves to the slow one
};

// Which library the object's exact type belongs to.  Subclasses count as kRefused by read_view.
Seen read_view(PyObject *object, View *view);

// A new dense array, or null with an exception set.  `data` receives its first element's address.  NumPy's
// are on the host, CuPy's on a device.
PyObject *new_array(Library library, int32_t device, uint8_t code, uint8_t bits, int32_t ndim, int64_t *shape, char **data);

// The library's current stream on a device; false if it does not say.  It may run code of Python.
bool current_stream(Library library, int32_t device, void **stream);

// Tells the library that these arrays were written behind its back (autograd's version counters).
void mark_written(Library library, PyObject *const *arrays, Py_ssize_t count);

// A NumPy array over the memory of a DLPack capsule on the host, which it takes over; null with BufferError
// or TypeError set.  bfloat16 arrives as uint16.  Returns (array, code, bits).
PyObject *import_capsule(PyObject *capsule);

bool init_views();

}  // namespace tc

// New NumPy arrays whose memory, where it is large, comes from the pool of results.
#pragma once

#include <Python.h>

#include <cstdint>

namespace tc {

// A new dense array of uninitialised elements, or null with an exception set.  Takes over `descr`, a NumPy
// dtype, whose elements have `itemsize` bytes.
PyObject *new_numpy_array(PyObject *descr, int64_t itemsize, int32_t ndim, const int64_t *shape);

bool init_result_memory();

}  // namespace tc

// Arrays of CuPy: what their attributes say, new ones, and the current stream.  CuPy is never imported here: an
// array of its type means that it is there.
#pragma once

#include <Python.h>

#include <cstdint>

#include "views.h"

namespace tc {

// Whether the type is `cupy.ndarray` as `learn_cupy` has seen it; subclasses may override anything.
bool is_cupy(PyTypeObject *type);

// Remembers the type if it is `cupy.ndarray`.
bool learn_cupy(PyTypeObject *type);

Seen read_cupy(PyObject *object, View *view);

// A new dense array on a device, by `cupy.empty`, or null with an exception set.
PyObject *new_cupy(int32_t device, uint8_t code, uint8_t bits, int32_t ndim, const int64_t *shape, char **data);

// CuPy's current stream on a device; false if it does not say.
bool cupy_stream(int32_t device, void **stream);

bool init_cupy();

}  // namespace tc

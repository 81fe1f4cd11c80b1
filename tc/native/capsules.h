// DLPack capsules whose memory is not looked into: what one says of its tensor, and new ones over memory that
// a Python object keeps.  Both are for devices.
#pragma once

#include <Python.h>

#include <cstdint>

#include "dlpack.h"

namespace tc {

// The tensor of an unused capsule of either protocol; null with BufferError or TypeError set.  It lives as long as
// the capsule.
const dlpack::Tensor *tensor_of(PyObject *capsule, bool *read_only);

// The strides of a tensor of up to 32 dimensions, in bytes.
void byte_strides(const dlpack::Tensor &tensor, int64_t *strides);

// (address, shape, strides in bytes, code, bits, lanes, device type, device id, read only) of an unused
// capsule, which keeps its tensor; null with BufferError or TypeError set.
PyObject *describe_capsule(PyObject *capsule);

struct CapsuleSpec {
  uint64_t address;
  PyObject *shape;  // a tuple of extents; the elements are dense and row-major
  uint8_t code, bits;
  int32_t device_type, device_id;
  bool versioned, read_only;
};

// A capsule over memory that `owner` keeps, which lives until the consumer, or the capsule itself if nobody
// consumes it, lets go of the tensor; null with an exception set.
PyObject *make_capsule(const CapsuleSpec &spec, PyObject *owner);

}  // namespace tc

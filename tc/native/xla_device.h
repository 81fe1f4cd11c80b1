// Calls of kernels from XLA on a GPU, on the stream that XLA works on, without Python but for the first call on a
// device (with index checks: on a stream).
#pragma once

#include <Python.h>

#include <string>
#include <vector>

namespace tc::xla {

// A capsule with the address of the handler for the platform CUDA.
PyObject *device_handler();

// Puts a kernel into the table; one that is there stays.  `scalars` are the packed values of its scalar parameters
// in order, and `name` is for messages.  `kernel` is asked with Python's lock: `bind(device, stream)` returns an
// `Entry` for that device, `pending()` the text of an error that a kernel has left, or None, and
// `refused(device, status)` the text of what the driver's status says.  False with an exception set.
bool keep_on_device(const std::string &key, PyObject *kernel, const std::vector<std::string> &scalars,
                    const std::string &name);

}  // namespace tc::xla

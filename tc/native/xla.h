// Calls of kernels from XLA, without Python.
//
// One handler serves all kernels: the attribute `kernel` of a call names the one to run, which `keep` has put
// into a table before.  Nothing is ever taken out, as XLA's executables live as long as they like.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

namespace tc::xla {

// A capsule with the address of the handler, as XLA's registration wants it.
PyObject *handler();

// Puts a kernel into the table; one that is there stays.  `entry` is an `Entry`, `scalars` are the packed values
// of its scalar parameters in order, `failed` makes the text of an error from the record of a failed check, and
// `name` is for messages.  False with an exception set where these do not fit.
bool keep(const std::string &key, PyObject *entry, const std::vector<std::string> &scalars, PyObject *failed,
          const std::string &name);

}  // namespace tc::xla

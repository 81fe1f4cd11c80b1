// `Dispatcher`: the callable that finds the compiled kernel for the arguments of a call.
#pragma once

#include <Python.h>

namespace tc {

bool init_dispatcher(PyObject *module);

}  // namespace tc

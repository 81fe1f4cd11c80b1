// The call of a `Dispatcher`: finds the compiled kernel for its arguments and runs it.
#pragma once

#include <Python.h>

#include <cstddef>
#include <vector>

#include "entry.h"

namespace tc {

struct Dispatcher {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::vector<Entry *> *entries;  // last used first
  size_t capacity;                // of `entries`
  // Interned names of parameters and results, of the first entry that has them; null before.  Strings are in
  // no cycle: neither visited nor cleared.
  PyObject *parameters, *results;
};

// The arguments of a vectorcall, `names` of the last ones or null: the results, or what `_miss` returns.
PyObject *dispatch(PyObject *self, PyObject *const *objects, Py_ssize_t nargs, PyObject *names);

bool init_launcher();

// The arguments of a vectorcall as a tuple and a dictionary, handed to `receive`.
template <class Receive>
PyObject *with_tuple_and_dict(PyObject *const *objects, Py_ssize_t nargs, PyObject *names, Receive receive) {
  PyObject *args = PyTuple_New(nargs), *result = nullptr;
  PyObject *kwargs = args ? PyDict_New() : nullptr;
  if (kwargs) {
    for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SET_ITEM(args, i, Py_NewRef(objects[i]));
    bool good = true;
    for (Py_ssize_t k = 0; good && names && k < PyTuple_GET_SIZE(names); k++)
      good = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, k), objects[nargs + k]) == 0;
    if (good) result = receive(args, kwargs);
  }
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  return result;
}

}  // namespace tc

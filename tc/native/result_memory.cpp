// NumPy lets whoever makes an array choose the functions that allocate and free its data (NEP 49): the array
// then owns data from the pool like any other and returns it there whenever it dies.
#include "result_memory.h"

#include <pybind11/numpy.h>

#include "result_pool.h"

namespace py = pybind11;

namespace tc {
namespace {

using py::detail::npy_api;

// PyDataMem_Handler of NumPy's ndarraytypes.h, version 1.
struct Handler {
  char name[127];
  uint8_t version;
  void *context;
  void *(*malloc)(void *context, size_t bytes);
  void *(*calloc)(void *context, size_t count, size_t size);
  void *(*realloc)(void *context, void *data, size_t bytes);
  void (*free)(void *context, void *data, size_t bytes);
};

Handler handler = {
    "tc results",
    1,
    nullptr,
    [](void *, size_t bytes) { return result_pool::allocate(bytes); },
    [](void *, size_t count, size_t size) { return result_pool::allocate_zeroed(count, size); },
    [](void *, void *data, size_t bytes) { return result_pool::resize(data, bytes); },
    [](void *, void *data, size_t) { result_pool::release(data); },
};

// What pybind11 does not take from NumPy's table of functions.
constexpr int kSetHandler = 304, kGetHandler = 305, kDefaultHandler = 306;
constexpr unsigned kHandlersSince = 0x0f;  // the version of the table in NumPy 1.22

PyObject *(*set_handler)(PyObject *);  // null: NumPy is too old
PyObject *(*get_handler)();
PyObject *ours, *numpys;  // capsules
PyTypeObject *ndarray;

bool is_large(int64_t itemsize, int32_t ndim, const int64_t *shape) {
  int64_t bytes = itemsize;
  for (int32_t d = 0; d < ndim; d++)
    if (shape[d] <= 0 || __builtin_mul_overflow(bytes, shape[d], &bytes)) return false;  // NumPy says why not
  return bytes >= static_cast<int64_t>(result_pool::kSmallest);
}

// The limit is asked for when the first large result is made; false with an exception set where it is none.
bool ask_limit() {
  static bool asked = false;
  if (asked) return true;
  PyObject *settings = PyImport_ImportModule("tc.support.settings");
  PyObject *limit = settings ? PyObject_CallMethod(settings, "result_pool_limit", nullptr) : nullptr;
  Py_XDECREF(settings);
  if (!limit) return false;
  size_t bytes = PyLong_AsSize_t(limit);
  Py_DECREF(limit);
  if (PyErr_Occurred()) return false;
  result_pool::set_limit(bytes);
  return asked = true;
}

PyObject *make(PyObject *descr, int32_t ndim, const int64_t *shape) {
  return npy_api::get().PyArray_NewFromDescr_(
      ndarray, descr, ndim, reinterpret_cast<const Py_intptr_t *>(shape), nullptr, nullptr, 0, nullptr);
}

// Whether nobody else has chosen how data is allocated.
bool is_default_handler() {
  PyObject *current = get_handler();
  if (!current) PyErr_Clear();
  Py_XDECREF(current);
  return current == numpys;
}

PyObject *make_large(PyObject *descr, int32_t ndim, const int64_t *shape) {
  if (!ask_limit()) return Py_DECREF(descr), nullptr;
  PyObject *before = set_handler(ours);
  if (!before) return Py_DECREF(descr), nullptr;
  PyObject *array = make(descr, ndim, shape);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *replaced = set_handler(before);
  Py_DECREF(before);
  if (!replaced) {
    Py_XDECREF(array);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return nullptr;
  }
  Py_DECREF(replaced);
  PyErr_Restore(type, value, traceback);
  return array;
}

}  // namespace

PyObject *new_numpy_array(PyObject *descr, int64_t itemsize, int32_t ndim, const int64_t *shape) {
  return set_handler && is_large(itemsize, ndim, shape) && is_default_handler()
             ? make_large(descr, ndim, shape)
             : make(descr, ndim, shape);
}

bool init_result_memory() {
  ndarray = npy_api::get().PyArray_Type_;
  if (npy_api::get().PyArray_RUNTIME_VERSION_ < kHandlersSince) return true;
  ours = PyCapsule_New(&handler, "mem_handler", nullptr);
  if (!ours) return false;
  py::object capsule = py::detail::import_numpy_core_submodule("multiarray").attr("_ARRAY_API");
  void **table = static_cast<void **>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (!table) return false;
  get_handler = reinterpret_cast<PyObject *(*)()>(table[kGetHandler]);
  numpys = *static_cast<PyObject **>(table[kDefaultHandler]);
  set_handler = reinterpret_cast<PyObject *(*)(PyObject *)>(table[kSetHandler]);
  return true;
}

}  // namespace tc

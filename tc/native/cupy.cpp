#include "cupy.h"

#include "numpy_types.h"

#include <pybind11/numpy.h>

#include <utility>

namespace tc {
namespace {

// A reference that is held; null: an exception is set.
class Held {
 public:
  explicit Held(PyObject *object) : object_(object) {}
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
  ~Held() { Py_XDECREF(object_); }
  explicit operator bool() const { return object_ != nullptr; }
  PyObject *get() const { return object_; }
  PyObject *release() { return std::exchange(object_, nullptr); }

 private:
  PyObject *object_;
};

struct Cupy {
  PyTypeObject *type;
  PyObject *empty, *get_current_stream, *device;  // cupy.empty, functions and a class of cupy.cuda
} cupy;

PyObject *name_data, *name_ptr, *name_device_id, *name_dtype, *name_shape, *name_strides, *name_enter, *name_exit;

bool read_integers(PyObject *tuple, int32_t count, int64_t *values) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) return false;
  for (int32_t k = 0; k < count; k++) {
    values[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, k));
    if (values[k] == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

bool address_of(PyObject *array, char **address, int32_t *device) {
  Held data(PyObject_GetAttr(array, name_data));
  Held ptr(data ? PyObject_GetAttr(data.get(), name_ptr) : nullptr);
  if (!ptr || !PyLong_Check(ptr.get())) return false;
  *address = static_cast<char *>(PyLong_AsVoidPtr(ptr.get()));
  if (!device) return !PyErr_Occurred();
  Held number(PyObject_GetAttr(data.get(), name_device_id));
  if (!number) return false;
  long found = PyLong_AsLong(number.get());
  *device = static_cast<int32_t>(found);
  return !PyErr_Occurred() && found >= 0;
}

bool read(PyObject *object, View *view) {
  if (!address_of(object, &view->data, &view->device)) return false;
  Held descr(PyObject_GetAttr(object, name_dtype));
  if (!descr || !pybind11::detail::npy_api::get().PyArrayDescr_Check_(descr.get()) ||
      !element_type(descr.get(), &view->code, &view->bits))
    return false;
  Held shape(PyObject_GetAttr(object, name_shape));
  if (!shape || !PyTuple_Check(shape.get()) || PyTuple_GET_SIZE(shape.get()) > kMostExtents) return false;
  view->ndim = static_cast<int32_t>(PyTuple_GET_SIZE(shape.get()));
  Held strides(PyObject_GetAttr(object, name_strides));
  if (!strides || !read_integers(shape.get(), view->ndim, view->own_shape) ||
      !read_integers(strides.get(), view->ndim, view->own_strides))
    return false;
  bool elements = true;
  for (int32_t d = 0; d < view->ndim; d++) elements = elements && view->own_shape[d] > 0;
  if (elements && !view->data) return false;  // it has been freed
  view->shape = view->own_shape;
  view->strides = view->own_strides;
  view->strides_in_bytes = true;
  view->library = Library::kCupy;
  view->writable = true;
  return true;
}

// The device as CuPy's current one: its memory pool serves that one, in the order of its current stream.
class Guard {
 public:
  explicit Guard(int32_t device) : guard_(PyObject_CallFunction(cupy.device, "i", int(device))) {
    if (!guard_) return;
    Held entered(PyObject_CallMethodNoArgs(guard_.get(), name_enter));
    entered_ = static_cast<bool>(entered);
  }
  ~Guard() {
    if (!entered_) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *args[] = {guard_.get(), Py_None, Py_None, Py_None};
    Held left(PyObject_VectorcallMethod(name_exit, args, 4 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!left) PyErr_Clear();
    PyErr_Restore(type, value, trace);
  }
  bool entered() const { return entered_; }

 private:
  Held guard_;
  bool entered_ = false;
};

}  // namespace

bool is_cupy(PyTypeObject *type) { return cupy.type == type; }

bool learn_cupy(PyTypeObject *type) {
  PyObject *found = PyDict_GetItemString(PyImport_GetModuleDict(), "cupy");
  if (!found) return false;
  Held module(Py_NewRef(found));
  Held array(PyObject_GetAttrString(module.get(), "ndarray"));
  if (!array || array.get() != reinterpret_cast<PyObject *>(type)) return PyErr_Clear(), false;
  Held empty(PyObject_GetAttrString(module.get(), "empty"));
  Held cuda(empty ? PyObject_GetAttrString(module.get(), "cuda") : nullptr);
  Held stream(cuda ? PyObject_GetAttrString(cuda.get(), "get_current_stream") : nullptr);
  Held device(stream ? PyObject_GetAttrString(cuda.get(), "Device") : nullptr);
  if (!device) return PyErr_Clear(), false;
  Cupy old = std::exchange(cupy, {reinterpret_cast<PyTypeObject *>(array.release()), empty.release(),
                                  stream.release(), device.release()});
  Py_XDECREF(reinterpret_cast<PyObject *>(old.type));
  Py_XDECREF(old.empty);
  Py_XDECREF(old.get_current_stream);
  Py_XDECREF(old.device);
  return true;
}

Seen read_cupy(PyObject *object, View *view) {
  if (read(object, view)) return Seen::kView;
  PyErr_Clear();
  return Seen::kRefused;
}

PyObject *new_cupy(int32_t device, uint8_t code, uint8_t bits, int32_t ndim, const int64_t *shape, char **data) {
  Held descr(numpy_type(code, bits));
  Held extents(descr ? PyTuple_New(ndim) : nullptr);
  for (int32_t d = 0; extents && d < ndim; d++) {
    PyObject *extent = PyLong_FromLongLong(shape[d]);
    if (!extent) return nullptr;
    PyTuple_SET_ITEM(extents.get(), d, extent);
  }
  if (!extents) return nullptr;
  Guard guard(device);
  if (!guard.entered()) return nullptr;
  Held array(PyObject_CallFunctionObjArgs(cupy.empty, extents.get(), descr.get(), nullptr));
  if (!array) return nullptr;
  if (address_of(array.get(), data, nullptr)) return array.release();
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "cupy.empty returned an array without an address");
  return nullptr;
}

bool cupy_stream(int32_t device, void **stream) {
  Held found(PyObject_CallFunction(cupy.get_current_stream, "i", int(device)));
  Held ptr(found ? PyObject_GetAttr(found.get(), name_ptr) : nullptr);
  if (ptr && PyLong_Check(ptr.get())) *stream = PyLong_AsVoidPtr(ptr.get());
  bool good = ptr && PyLong_Check(ptr.get()) && !PyErr_Occurred();
  PyErr_Clear();
  return good;
}

bool init_cupy() {
  const std::pair<PyObject **, const char *> names[] = {
      {&name_data, "data"},   {&name_ptr, "ptr"},         {&name_device_id, "device_id"}, {&name_dtype, "dtype"},
      {&name_shape, "shape"}, {&name_strides, "strides"}, {&name_enter, "__enter__"},     {&name_exit, "__exit__"}};
  for (const auto &[name, text] : names) {
    *name = PyUnicode_InternFromString(text);
    if (!*name) return false;
  }
  return true;
}

}  // namespace tc

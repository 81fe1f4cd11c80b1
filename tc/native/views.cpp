#include "views.h"

#include "capsules.h"
#include "cupy.h"
#include "numpy_types.h"

#include <pybind11/numpy.h>

#include "result_memory.h"

namespace py = pybind11;

namespace tc {
namespace {

using py::detail::array_proxy;
using py::detail::npy_api;

static_assert(sizeof(Py_intptr_t) == sizeof(int64_t) && sizeof(ssize_t) == sizeof(int64_t),
              "shapes are passed on without conversion");

constexpr int kWriteable = 0x0400;        // NPY_ARRAY_WRITEABLE
constexpr int kWriteBackIfCopy = 0x2000;  // NPY_ARRAY_WRITEBACKIFCOPY
PyTypeObject *ndarray;
char empty;                                // where arrays without elements point

Seen read_numpy(PyObject *object, View *view) {
  auto *array = array_proxy(object);
  if (!element_type(array->descr, &view->code, &view->bits)) return Seen::kRefused;
  view->data = array->data;
  view->ndim = array->nd;
  view->shape = reinterpret_cast<const int64_t *>(array->dimensions);
  view->strides = reinterpret_cast<const int64_t *>(array->strides);
  view->strides_in_bytes = true;
  view->library = Library::kNumpy;
  view->device = kHost;
  // A set sign bit is NPY_ARRAY_WARN_ON_WRITE.
  view->writable = (array->flags & (kWriteable | kWriteBackIfCopy)) == kWriteable && array->flags >= 0;
  return Seen::kView;
}

// ---- PyTorch, through the exchange table of its tensor types

// A property or method without arguments, called at its C function, which saves half of its cost.
struct Query {
  PyGetSetDef *property = nullptr;
  PyCFunction method = nullptr;

  bool find(PyTypeObject *type, PyObject *name) {
    PyObject *found = PyObject_GetAttr(reinterpret_cast<PyObject *>(type), name);
    if (!found) return PyErr_Clear(), false;
    // The descriptor belongs to a static type of the library and so lives as long as the process.
    if (Py_TYPE(found) == &PyGetSetDescr_Type) {
      property = reinterpret_cast<PyGetSetDescrObject *>(found)->d_getset;
    } else if (Py_TYPE(found) == &PyMethodDescr_Type) {
      PyMethodDef *def = reinterpret_cast<PyMethodDescrObject *>(found)->d_method;
      if (def->ml_flags == METH_NOARGS) method = def->ml_meth;
    }
    Py_DECREF(found);
    return property || method;
  }

  PyObject *operator()(PyObject *object) const {
    return property ? property->get(object, property->closure) : method(object, nullptr);
  }
};

struct Torch {
  PyTypeObject *types[2] = {};  // the types whose table was looked up, of Tensor and Parameter
  int type_count = 0;
  const dlpack::ExchangeApi *api = nullptr;
  PyObject *is_grad_enabled = nullptr, *increment_version = nullptr;
  Query requires_grad, is_neg, is_conj;
} torch_;

PyObject *name_requires_grad, *name_is_neg, *name_is_conj, *name_exchange;

// Whether the type is torch.Tensor or torch.nn.Parameter; subclasses may override anything.
bool is_plain_torch_type(PyTypeObject *type) {
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  if (!module) return false;
  bool found = false;
  PyObject *tensor = PyObject_GetAttrString(module, "Tensor");
  PyObject *nn = tensor ? PyObject_GetAttrString(module, "nn") : nullptr;
  PyObject *parameter = nn ? PyObject_GetAttrString(nn, "Parameter") : nullptr;
  if (parameter) {
    PyObject *self = reinterpret_cast<PyObject *>(type);
    found = self == tensor || self == parameter;
  }
  Py_XDECREF(parameter);
  Py_XDECREF(nn);
  Py_XDECREF(tensor);
  PyErr_Clear();
  return found;
}

PyObject *torch_function(const char *name) {
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._C");
  return module ? PyObject_GetAttrString(module, name) : nullptr;
}

// Remembers the type if it is PyTorch's and publishes a table of our major version.
bool learn_torch_type(PyTypeObject *type) {
  if (torch_.type_count == 2 || !is_plain_torch_type(type)) return false;
  Query requires_grad, is_neg, is_conj;
  if (!requires_grad.find(type, name_requires_grad) || !is_neg.find(type, name_is_neg) ||
      !is_conj.find(type, name_is_conj))
    return false;
  PyObject *capsule = PyObject_GetAttr(reinterpret_cast<PyObject *>(type), name_exchange);
  auto *header =
      capsule ? static_cast<dlpack::ExchangeHeader *>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"))
              : nullptr;
  Py_XDECREF(capsule);
  while (header && header->version.major > dlpack::kMajor) header = header->previous;
  auto *api = reinterpret_cast<const dlpack::ExchangeApi *>(header);
  if (!torch_.is_grad_enabled) torch_.is_grad_enabled = torch_function("is_grad_enabled");
  if (!torch_.increment_version) torch_.increment_version = torch_function("_increment_version");
  PyErr_Clear();
  if (!api || api->header.version.major != dlpack::kMajor || !api->view_from_object || !api->allocate ||
      !api->object_from_managed || !torch_.is_grad_enabled || !torch_.increment_version)
    return false;
  if (torch_.api && torch_.api != api) return false;
  torch_.api = api;
  torch_.requires_grad = requires_grad;
  torch_.is_neg = is_neg;
  torch_.is_conj = is_conj;
  Py_INCREF(type);
  torch_.types[torch_.type_count++] = type;
  return true;
}

// True when the attribute's or result's truth is `expected`; errors count as a mismatch.
bool truth_is(PyObject *value, bool expected) {
  if (!value) return PyErr_Clear(), false;
  if (value == Py_True || value == Py_False) {
    Py_DECREF(value);
    return (value == Py_True) == expected;
  }
  int truth = PyObject_IsTrue(value);
  Py_DECREF(value);
  if (truth < 0) PyErr_Clear();
  return truth == static_cast<int>(expected);
}

Seen read_torch(PyObject *object, View *view) {
  if (!truth_is(torch_.requires_grad(object), false) &&
      !truth_is(PyObject_CallNoArgs(torch_.is_grad_enabled), false))
    return Seen::kRefused;
  // Real tensors can be lazily negated too (the imaginary part of a conjugate).
  if (!truth_is(torch_.is_neg(object), false)) return Seen::kRefused;
  dlpack::Tensor t;
  if (torch_.api->view_from_object(object, &t)) return PyErr_Clear(), Seen::kRefused;
  bool on_device = t.device.type == dlpack::kCuda && torch_.api->current_stream;
  if ((t.device.type != dlpack::kCpu && !on_device) || t.dtype.lanes != 1 || (t.ndim && (!t.shape || !t.strides)))
    return Seen::kRefused;
  // What its memory holds is then not conjugated.
  if (t.dtype.code == dlpack::kComplex && !truth_is(torch_.is_conj(object), false)) return Seen::kRefused;
  view->data = static_cast<char *>(t.data) + t.byte_offset;
  view->shape = t.shape;
  view->strides = t.strides;
  view->ndim = t.ndim;
  view->code = t.dtype.code;
  view->bits = t.dtype.bits;
  view->strides_in_bytes = false;
  view->library = Library::kTorch;
  view->device = on_device ? t.device.id : kHost;
  view->writable = true;
  return Seen::kView;
}

void set_error(void *, const char *, const char *message) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyErr_SetString(PyExc_MemoryError, message ? message : "the library could not allocate a tensor");
  PyGILState_Release(state);
}

PyObject *new_torch(int32_t device, uint8_t code, uint8_t bits, int32_t ndim, int64_t *shape, char **data) {
  dlpack::Tensor prototype = {};
  if (device == kHost)
    prototype.device = {dlpack::kCpu, 0};
  else
    prototype.device = {dlpack::kCuda, device};
  prototype.ndim = ndim;
  prototype.dtype = {code, bits, 1};
  prototype.shape = shape;
  dlpack::Managed *managed = nullptr;
  if (torch_.api->allocate(&prototype, &managed, nullptr, set_error) || !managed) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_MemoryError, "the library could not allocate a tensor");
    return nullptr;
  }
  *data = static_cast<char *>(managed->tensor.data) + managed->tensor.byte_offset;
  void *object = nullptr;
  if (torch_.api->object_from_managed(managed, &object)) return nullptr;
  return static_cast<PyObject *>(object);
}

PyObject *new_numpy(uint8_t code, uint8_t bits, int32_t ndim, int64_t *shape, char **data) {
  PyObject *descr = numpy_type(code, bits);
  if (!descr) return nullptr;
  PyObject *array = new_numpy_array(descr, bits / 8, ndim, shape);
  if (array) *data = array_proxy(array)->data;
  return array;
}

}  // namespace

Seen read_view(PyObject *object, View *view) {
  PyTypeObject *type = Py_TYPE(object);
  if (type == ndarray) return read_numpy(object, view);
  for (int k = 0; k < torch_.type_count; k++)
    if (type == torch_.types[k]) return read_torch(object, view);
  if (is_cupy(type)) return read_cupy(object, view);
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object)) return Seen::kOther;
  if (PyType_IsSubtype(type, ndarray)) return Seen::kRefused;
  if (learn_torch_type(type)) return read_torch(object, view);
  if (learn_cupy(type)) return read_cupy(object, view);
  return Seen::kOther;
}

PyObject *new_array(Library library, int32_t device, uint8_t code, uint8_t bits, int32_t ndim, int64_t *shape,
                    char **data) {
  if (library == Library::kTorch) return new_torch(device, code, bits, ndim, shape, data);
  if (library == Library::kCupy) return new_cupy(device, code, bits, ndim, shape, data);
  return new_numpy(code, bits, ndim, shape, data);
}

bool current_stream(Library library, int32_t device, void **stream) {
  if (library == Library::kCupy) return cupy_stream(device, stream);
  return library == Library::kTorch && torch_.api->current_stream &&
         torch_.api->current_stream(dlpack::kCuda, device, stream) == 0;
}

void mark_written(Library library, PyObject *const *arrays, Py_ssize_t count) {
  if (library != Library::kTorch) return;
  PyObject *tuple = PyTuple_New(count);
  if (!tuple) return PyErr_Clear();
  for (Py_ssize_t k = 0; k < count; k++) PyTuple_SET_ITEM(tuple, k, Py_NewRef(arrays[k]));
  PyObject *done = PyObject_CallOneArg(torch_.increment_version, tuple);
  Py_DECREF(tuple);
  if (!done) PyErr_Clear();  // tensors made under inference_mode have no version
  Py_XDECREF(done);
}

PyObject *import_capsule(PyObject *capsule) {
  bool read_only;
  const dlpack::Tensor *found = tensor_of(capsule, &read_only);
  if (!found) return nullptr;
  const dlpack::Tensor &t = *found;
  bool on_host = t.device.type == dlpack::kCpu || t.device.type == dlpack::kCudaHost ||
                 t.device.type == dlpack::kRocmHost;
  if (!on_host || t.dtype.lanes != 1 || t.dtype.bits % 8 || t.ndim < 0 || t.ndim > 32 ||
      (t.ndim && !t.shape)) {
    PyErr_SetString(PyExc_BufferError, "not a tensor of whole-byte scalars in host memory");
    return nullptr;
  }
  bool bfloat = t.dtype.code == dlpack::kBfloat && t.dtype.bits == 16;
  int type = bfloat ? npy_api::NPY_UINT16_ : type_number(t.dtype.code, t.dtype.bits);
  if (type < 0) {
    PyErr_Format(PyExc_BufferError, "unsupported DLPack type (code %d, %d bits)", int(t.dtype.code),
                 int(t.dtype.bits));
    return nullptr;
  }
  int64_t strides[32];
  byte_strides(t, strides);
  char *data = t.data ? static_cast<char *>(t.data) + t.byte_offset : &empty;
  // The capsule keeps its own destructor, which frees the tensor when the array lets go of it.
  PyObject *array = npy_api::get().PyArray_NewFromDescr_(
      ndarray, npy_api::get().PyArray_DescrFromType_(type), t.ndim, reinterpret_cast<Py_intptr_t *>(t.shape),
      reinterpret_cast<Py_intptr_t *>(strides), data, read_only ? 0 : kWriteable, nullptr);
  if (!array) return nullptr;
  if (npy_api::get().PyArray_SetBaseObject_(array, Py_NewRef(capsule))) {
    Py_DECREF(array);
    return nullptr;
  }
  return Py_BuildValue("(Nii)", array, int(t.dtype.code), int(t.dtype.bits));
}

bool init_views() {
  ndarray = npy_api::get().PyArray_Type_;
  name_requires_grad = PyUnicode_InternFromString("requires_grad");
  name_is_neg = PyUnicode_InternFromString("is_neg");
  name_is_conj = PyUnicode_InternFromString("is_conj");
  name_exchange = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  return name_requires_grad && name_is_neg && name_is_conj && name_exchange && init_cupy();
}

}  // namespace tc

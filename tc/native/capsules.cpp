#include "capsules.h"

#include "dlpack.h"

#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace tc {
namespace {

constexpr char kVersioned[] = "dltensor_versioned", kLegacy[] = "dltensor";

PyObject *tuple_of(const int64_t *values, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t k = 0; tuple && k < count; k++) {
    PyObject *value = PyLong_FromLongLong(values[k]);
    if (!value)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, k, value);
  }
  return tuple;
}

// A tensor of ours, in the container of either protocol.
template <class Managed>
struct Owned {
  Managed managed;
  std::vector<int64_t> extents, strides;
  PyObject *owner;
};

// The consumer calls it on whatever thread it likes.
template <class Managed>
void release(Managed *managed) {
  auto *owned = static_cast<Owned<Managed> *>(managed->context);
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(owned->owner);
    PyGILState_Release(state);
  }
  delete owned;
}

// A consumer renames the capsule, and then the tensor is its to release.
template <class Managed>
void drop(PyObject *capsule, const char *name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto *managed = static_cast<Managed *>(PyCapsule_GetPointer(capsule, name));
  if (managed && managed->deleter) managed->deleter(managed);
}

void drop_versioned(PyObject *capsule) { drop<dlpack::Managed>(capsule, kVersioned); }
void drop_legacy(PyObject *capsule) { drop<dlpack::ManagedLegacy>(capsule, kLegacy); }

void set_version(dlpack::Managed *managed, bool read_only) {
  managed->version = {dlpack::kMajor, 0};
  managed->flags = read_only ? dlpack::kReadOnly : 0;
}
void set_version(dlpack::ManagedLegacy *, bool) {}

template <class Managed>
PyObject *make(const CapsuleSpec &spec, PyObject *owner, const char *name, PyCapsule_Destructor destructor) {
  size_t rank = static_cast<size_t>(PyTuple_GET_SIZE(spec.shape));
  std::unique_ptr<Owned<Managed>> owned(new (std::nothrow) Owned<Managed>());
  if (!owned) return PyErr_NoMemory();
  try {
    owned->extents.resize(rank);
    owned->strides.resize(rank);
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  int64_t dense = 1;
  for (size_t d = rank; d-- > 0;) {
    long long extent = PyLong_AsLongLong(PyTuple_GET_ITEM(spec.shape, static_cast<Py_ssize_t>(d)));
    if (extent == -1 && PyErr_Occurred()) return nullptr;
    owned->extents[d] = extent;
    owned->strides[d] = dense;
    dense *= extent > 0 ? extent : 1;
  }
  Managed &managed = owned->managed;
  managed = {};
  set_version(&managed, spec.read_only);
  managed.context = owned.get();
  managed.deleter = release<Managed>;
  managed.tensor.data = reinterpret_cast<void *>(static_cast<uintptr_t>(spec.address));
  managed.tensor.device = {spec.device_type, spec.device_id};
  managed.tensor.ndim = static_cast<int32_t>(rank);
  managed.tensor.dtype = {spec.code, spec.bits, 1};
  managed.tensor.shape = owned->extents.data();
  managed.tensor.strides = owned->strides.data();
  PyObject *capsule = PyCapsule_New(&managed, name, destructor);
  if (!capsule) return nullptr;
  owned.release()->owner = Py_NewRef(owner);
  return capsule;
}

}  // namespace

const dlpack::Tensor *tensor_of(PyObject *capsule, bool *read_only) {
  const char *name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : nullptr;
  bool versioned = name && !std::strcmp(name, kVersioned);
  if (!versioned && !(name && !std::strcmp(name, kLegacy))) {
    PyErr_SetString(PyExc_TypeError, "expected an unused DLPack capsule");
    return nullptr;
  }
  void *managed = PyCapsule_GetPointer(capsule, name);
  if (!managed) return nullptr;
  *read_only = true;  // what the legacy protocol does not say may not be written
  if (!versioned) return &static_cast<dlpack::ManagedLegacy *>(managed)->tensor;
  auto *found = static_cast<dlpack::Managed *>(managed);
  if (found->version.major != dlpack::kMajor) {
    PyErr_SetString(PyExc_BufferError, "the array speaks another major version of DLPack");
    return nullptr;
  }
  *read_only = found->flags & dlpack::kReadOnly;
  return &found->tensor;
}

void byte_strides(const dlpack::Tensor &tensor, int64_t *strides) {
  int64_t itemsize = tensor.dtype.bits / 8, dense = itemsize;
  for (int32_t d = tensor.ndim - 1; d >= 0; d--) {
    strides[d] = tensor.strides ? tensor.strides[d] * itemsize : dense;
    dense *= tensor.shape[d] > 0 ? tensor.shape[d] : 1;
  }
}

PyObject *describe_capsule(PyObject *capsule) {
  bool read_only;
  const dlpack::Tensor *found = tensor_of(capsule, &read_only);
  if (!found) return nullptr;
  const dlpack::Tensor &t = *found;
  if (t.dtype.bits % 8 || t.ndim < 0 || t.ndim > 32 || (t.ndim && !t.shape)) {
    PyErr_SetString(PyExc_BufferError, "not a tensor of whole-byte scalars");
    return nullptr;
  }
  int64_t strides[32];
  byte_strides(t, strides);
  PyObject *shape = tuple_of(t.shape, t.ndim), *steps = shape ? tuple_of(strides, t.ndim) : nullptr;
  if (!steps) {
    Py_XDECREF(shape);
    return nullptr;
  }
  unsigned long long address = reinterpret_cast<uintptr_t>(t.data) + t.byte_offset;
  return Py_BuildValue("(KNNiiiiiN)", address, shape, steps, int(t.dtype.code), int(t.dtype.bits),
                       int(t.dtype.lanes), int(t.device.type), int(t.device.id), PyBool_FromLong(read_only));
}

PyObject *make_capsule(const CapsuleSpec &spec, PyObject *owner) {
  if (!PyTuple_Check(spec.shape) || PyTuple_GET_SIZE(spec.shape) > 32) {
    PyErr_SetString(PyExc_ValueError, "a shape is a tuple of up to 32 extents");
    return nullptr;
  }
  return spec.versioned ? make<dlpack::Managed>(spec, owner, kVersioned, drop_versioned)
                        : make<dlpack::ManagedLegacy>(spec, owner, kLegacy, drop_legacy);
}

}  // namespace tc

#include "entry.h"

#include "arena.h"
#include "fpmode.h"
#include "interrupt.h"
#include "numbers.h"
#include "torch_threads.h"

#include <chrono>
#include <climits>
#include <cstring>
#include <memory>
#include <new>
#include <string>

namespace tc {

constexpr std::chrono::microseconds kSlow(200);  // from where on the half microsecond of a watch is nothing
// A team ends a loop when all of its threads have been there, which on a loaded machine takes a time slice.
constexpr int64_t kLongLoop = 150000;  // nanoseconds
constexpr int kTimed = 8;              // calls of which the fastest says how long loops are

PyTypeObject *entry_type;

namespace {

bool bad_spec(const char *what, PyObject *spec) {
  PyErr_Format(PyExc_ValueError, "%s: %R", what, spec);
  return false;
}

bool read_type(PyObject *code, PyObject *bits, TensorSpec *spec, PyObject *whole) {
  long c = PyLong_AsLong(code), b = PyLong_AsLong(bits);
  if (PyErr_Occurred()) return false;
  bool integer = (c == dlpack::kInt || c == dlpack::kUInt) && (b == 8 || b == 16 || b == 32 || b == 64);
  bool real = (c == dlpack::kFloat && (b == 16 || b == 32 || b == 64)) || (c == dlpack::kBfloat && b == 16);
  bool complex = c == dlpack::kComplex && (b == 64 || b == 128);
  if (!integer && !real && !complex && !(c == dlpack::kBool && b == 8)) return bad_spec("unknown element type", whole);
  spec->code = static_cast<uint8_t>(c);
  spec->bits = static_cast<uint8_t>(b);
  return true;
}

bool read_shape(PyObject *shape, TensorSpec *spec, PyObject *whole) {
  if (!PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) > 32)
    return bad_spec("a shape is a tuple of up to 32 extents", whole);
  size_t rank = static_cast<size_t>(PyTuple_GET_SIZE(shape));
  spec->shape.resize(rank);
  spec->strides.resize(rank);
  bool empty = false;
  for (size_t d = 0; d < rank; d++) {
    long long extent = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, static_cast<Py_ssize_t>(d)));
    if (extent == -1 && PyErr_Occurred()) return false;
    if (extent < 0) return bad_spec("negative extent", whole);
    spec->shape[d] = extent;
    empty = empty || extent == 0;
  }
  for (size_t d = rank; d-- > 0;) {
    spec->strides[d] = spec->elements;
    if (!empty && __builtin_mul_overflow(spec->elements, spec->shape[d], &spec->elements))
      return bad_spec("too many elements", whole);
  }
  if (empty) spec->elements = 0;
  if (spec->elements > INT64_MAX / 16) return bad_spec("too many elements", whole);
  return true;
}

bool read_input(PyObject *item, InputSpec *spec) {
  if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 4 || !PyUnicode_Check(PyTuple_GET_ITEM(item, 0)))
    return bad_spec("expected (\"tensor\", code, bits, shape) or (\"scalar\", code, bits, value or None)",
                    item);
  if (!read_type(PyTuple_GET_ITEM(item, 1), PyTuple_GET_ITEM(item, 2), &spec->tensor, item)) return false;
  PyObject *last = PyTuple_GET_ITEM(item, 3);
  spec->scalar = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(item, 0), "scalar") == 0;
  if (!spec->scalar) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(item, 0), "tensor") != 0)
      return bad_spec("expected \"tensor\" or \"scalar\"", item);
    return read_shape(last, &spec->tensor, item);
  }
  spec->specialized = last != Py_None;
  uint64_t packed[2] = {};
  if (spec->specialized && !pack_number(last, spec->tensor.code, spec->tensor.bits, packed))
    return bad_spec("the value does not fit the scalar's type", item);
  spec->required = packed[0];
  return true;
}

bool read_output(PyObject *item, TensorSpec *spec) {
  if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 4)
    return bad_spec("expected (code, bits, shape, inout)", item);
  int inout = PyObject_IsTrue(PyTuple_GET_ITEM(item, 3));
  if (inout < 0) return false;
  spec->inout = inout != 0;
  return read_type(PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1), spec, item) &&
         read_shape(PyTuple_GET_ITEM(item, 2), spec, item);
}

bool read_size(PyObject *item, int64_t *value) {
  long long read = PyLong_AsLongLong(item);
  if (read == -1 && PyErr_Occurred()) return false;
  if (read < 0) return bad_spec("a size is not negative", item);
  *value = read;
  return true;
}

// `count` distinct names as a tuple of interned strings; null with an exception set.
PyObject *read_names(PyObject *names, size_t count) {
  PyObject *list = PySequence_List(names);
  PyObject *tuple = list ? PyTuple_New(PyList_GET_SIZE(list)) : nullptr;
  bool good = tuple && static_cast<size_t>(PyList_GET_SIZE(list)) == count;
  for (Py_ssize_t k = 0; good && k < PyTuple_GET_SIZE(tuple); k++) {
    PyObject *name = PyList_GET_ITEM(list, k);
    good = PyUnicode_CheckExact(name);
    if (!good) break;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    PyTuple_SET_ITEM(tuple, k, name);
    for (Py_ssize_t j = 0; j < k; j++) good = good && PyTuple_GET_ITEM(tuple, j) != name;
  }
  if (tuple && !good) {
    bad_spec("expected a different name for each parameter and each result", names);
    Py_CLEAR(tuple);
  }
  Py_XDECREF(list);
  return tuple;
}

template <class Spec, class Read>
bool read_all(PyObject *items, std::vector<Spec> *out, Read read) {
  PyObject *list = PySequence_Tuple(items);
  if (!list) return false;
  bool good = true;
  for (Py_ssize_t k = 0; good && k < PyTuple_GET_SIZE(list); k++) {
    out->emplace_back();
    good = read(PyTuple_GET_ITEM(list, k), &out->back());
  }
  Py_DECREF(list);
  return good;
}

PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static const char *names[] = {"address", "inputs",     "outputs", "workspace", "release_gil", "result_type",
                                "owner",   "parameters", "results", "sizes",     "device",      nullptr};
  PyObject *address_object, *inputs, *outputs, *result_type = Py_None, *owner = Py_None;
  PyObject *parameters = Py_None, *results = Py_None, *sizes = nullptr, *device = Py_None;
  Py_ssize_t workspace = 0;
  int release_gil = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|npOOOOOO:Entry", const_cast<char **>(names),
                                   &address_object, &inputs, &outputs, &workspace, &release_gil, &result_type,
                                   &owner, &parameters, &results, &sizes, &device))
    return nullptr;
  void *address = PyLong_AsVoidPtr(address_object);
  if (!address) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the address of a kernel is not 0");
    return nullptr;
  }
  if (workspace < 0) {
    PyErr_SetString(PyExc_ValueError, "the workspace has a negative size");
    return nullptr;
  }
  if (result_type != Py_None && !PyCallable_Check(result_type)) {
    PyErr_SetString(PyExc_TypeError, "result_type is not callable");
    return nullptr;
  }
  std::unique_ptr<EntryData> data(new (std::nothrow) EntryData);
  if (!data) return PyErr_NoMemory();
  data->kernel = reinterpret_cast<KernelFn>(address);
  data->workspace = static_cast<size_t>(workspace);
  data->release_gil = release_gil != 0;
  data->tuple_result = PyType_Check(result_type) &&
                       PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(result_type), &PyTuple_Type);
  try {
    if (!read_all(inputs, &data->inputs, read_input) || !read_all(outputs, &data->outputs, read_output) ||
        (sizes && !read_all(sizes, &data->sizes, read_size)))
      return nullptr;
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  if (device != Py_None) {
    data->device.reset(read_device(device, data->inputs.size() + data->outputs.size()));
    if (!data->device) return nullptr;
  }
  if (data->outputs.empty()) {
    PyErr_SetString(PyExc_ValueError, "a kernel has at least one output");
    return nullptr;
  }
  Entry *self = reinterpret_cast<Entry *>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->data = data.release();
  self->result_type = result_type == Py_None ? nullptr : Py_NewRef(result_type);
  self->owner = owner == Py_None ? nullptr : Py_NewRef(owner);
  if (parameters == Py_None && results == Py_None) return reinterpret_cast<PyObject *>(self);
  self->parameters = read_names(parameters, self->data->inputs.size());
  self->results = self->parameters ? read_names(results, self->data->outputs.size()) : nullptr;
  if (!self->results) {
    Py_DECREF(self);
    return nullptr;
  }
  return reinterpret_cast<PyObject *>(self);
}

int entry_traverse(PyObject *object, visitproc visit, void *arg) {
  Entry *self = reinterpret_cast<Entry *>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->result_type);
  Py_VISIT(self->owner);
  Py_VISIT(self->parameters);
  Py_VISIT(self->results);
  return 0;
}

int entry_clear(PyObject *object) {
  // A call that still runs the owner's code holds a reference to this entry, so it is never collected under
  // it.
  Entry *self = reinterpret_cast<Entry *>(object);
  Py_CLEAR(self->result_type);
  Py_CLEAR(self->owner);
  return 0;
}

void entry_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  Entry *self = reinterpret_cast<Entry *>(object);
  entry_clear(object);
  Py_CLEAR(self->parameters);
  Py_CLEAR(self->results);
  delete self->data;
  PyTypeObject *type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject *entry_run(PyObject *object, PyObject *args) {
  const EntryData &data = *reinterpret_cast<Entry *>(object)->data;
  PyObject *addresses = nullptr;
  int of_torch = 0;
  if (!PyArg_ParseTuple(args, "O|p:run", &addresses, &of_torch)) return nullptr;
  PyObject *list = PySequence_Tuple(addresses);
  if (!list) return nullptr;
  if (data.device) {
    PyErr_SetString(PyExc_ValueError, "this kernel runs on a device");
    Py_DECREF(list);
    return nullptr;
  }
  size_t count = static_cast<size_t>(PyTuple_GET_SIZE(list)),
         expected = data.inputs.size() + data.outputs.size();
  if (count != expected) {
    PyErr_Format(PyExc_ValueError, "expected %zu addresses (inputs, then outputs), got %zu", expected, count);
    Py_DECREF(list);
    return nullptr;
  }
  std::unique_ptr<void *[]> pointers(new (std::nothrow) void *[count + 3]);
  for (size_t k = 0; pointers && k < count; k++)
    pointers[k] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(list, static_cast<Py_ssize_t>(k)));
  Py_DECREF(list);
  if (!pointers) return PyErr_NoMemory();
  if (PyErr_Occurred()) return nullptr;
  int64_t error[kErrorWords];
  bool ran;
  Py_INCREF(object);
  int32_t code = run_kernel(data, pointers.get(), error, &ran, of_torch != 0);
  Py_DECREF(object);
  if (!ran) return nullptr;
  if (code == 0) return Py_BuildValue("(iO)", 0, Py_None);
  PyObject *record = error_tuple(error);
  return record ? Py_BuildValue("(iN)", int(code), record) : nullptr;
}

PyObject *get_owner(PyObject *object, void *) {
  PyObject *owner = reinterpret_cast<Entry *>(object)->owner;
  return Py_NewRef(owner ? owner : Py_None);
}

PyObject *get_workspace(PyObject *object, void *) {
  return PyLong_FromSize_t(reinterpret_cast<Entry *>(object)->data->workspace);
}

PyObject *get_address(PyObject *object, void *) {
  return PyLong_FromVoidPtr(reinterpret_cast<void *>(reinterpret_cast<Entry *>(object)->data->kernel));
}

PyMethodDef methods[] = {{"run", entry_run, METH_VARARGS,
                          "run(addresses, of_torch=False) -> (code, error)\n\nRuns the kernel on the addresses "
                          "of its inputs and outputs, unchecked, on PyTorch's threads if\n"
                          "they are `of_torch`. `error` is None when code is 0, else (access id, offending index, "
                          "(iteration\nindices...), dimension)."},
                         {nullptr, nullptr, 0, nullptr}};

PyGetSetDef getters[] = {
    {"owner", get_owner, nullptr, "What keeps the machine code alive.", nullptr},
    {"workspace", get_workspace, nullptr, "Bytes of scratch memory a call takes.", nullptr},
    {"address", get_address, nullptr, "Address of the machine code.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(entry_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(entry_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void *>(entry_traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(entry_clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_doc, const_cast<char *>("A compiled kernel and the exact arguments it is for; see _native.pyi.")},
    {0, nullptr}};

PyType_Spec spec = {"tc._native.Entry", sizeof(Entry), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

int32_t run_without_python(const EntryData &entry, void **pointers, int64_t *error, bool *ran) {
  std::memset(error, 0, kErrorWords * sizeof *error);
  Workspace workspace(entry.workspace);
  *ran = !workspace.failed();
  if (!*ran) return -1;
  size_t count = entry.inputs.size() + entry.outputs.size();
  pointers[count] = error;
  pointers[count + 1] = workspace.data();
  // The kernel only reads them.
  if (!entry.sizes.empty()) pointers[count + 2] = const_cast<int64_t *>(entry.sizes.data());
  StandardFpMode mode;
  return entry.kernel(pointers);
}

int32_t run_kernel(const EntryData &entry, void **pointers, int64_t *error, bool *ran, bool of_torch) {
  int32_t code;
  if (entry.release_gil) {
    // What signals cost is worth it for calls that take long, and a team for loops that do, which the calls
    // before tell.
    interrupt::Watch watch(entry.slow.load(std::memory_order_relaxed));
    bool known = entry.timed.load(std::memory_order_relaxed) >= kTimed;
    bool lend = of_torch && known && entry.loop_ns.load(std::memory_order_relaxed) >= kLongLoop;
    pool::Borrowed threads(lend ? torch_threads() : nullptr);
    uint64_t begun = pool::loops_begun();
    auto start = std::chrono::steady_clock::now();
    Py_BEGIN_ALLOW_THREADS code = run_without_python(entry, pointers, error, ran);
    Py_END_ALLOW_THREADS
    auto took = std::chrono::steady_clock::now() - start;
    entry.slow.store(took > kSlow, std::memory_order_relaxed);
    if (uint64_t loops = pool::loops_begun() - begun) {
      int64_t each = std::chrono::nanoseconds(took).count() / static_cast<int64_t>(loops);
      int64_t least = entry.loop_ns.load(std::memory_order_relaxed);
      if (least == 0 || each < least) entry.loop_ns.store(each, std::memory_order_relaxed);
      if (!known) entry.timed.fetch_add(1, std::memory_order_relaxed);
    }
    if (watch.stopped()) {
      *ran = false;
      return -1;
    }
  } else {
    code = run_without_python(entry, pointers, error, ran);
  }
  if (!*ran)
    PyErr_Format(PyExc_MemoryError, "no memory for the %zu bytes of scratch space of this kernel",
                 entry.workspace);
  return code;
}

PyObject *error_tuple(const int64_t *error) {
  int64_t count = error[2] < 0 ? 0 : error[2] > kErrorWords - 4 ? kErrorWords - 4 : error[2];
  PyObject *indices = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (int64_t k = 0; indices && k < count; k++) {
    PyObject *value = PyLong_FromLongLong(error[3 + k]);
    if (!value)
      Py_CLEAR(indices);
    else
      PyTuple_SET_ITEM(indices, static_cast<Py_ssize_t>(k), value);
  }
  return indices ? Py_BuildValue("(LLNL)", static_cast<long long>(error[0] - 1),
                                 static_cast<long long>(error[1]), indices,
                                 static_cast<long long>(error[3 + count]))
                 : nullptr;
}

bool init_entry(PyObject *module) {
  entry_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  return entry_type && PyModule_AddObjectRef(module, "Entry", reinterpret_cast<PyObject *>(entry_type)) == 0;
}

}  // namespace tc

// The fast path of a call: put the arguments in order, read them once, compare them with the entries (last
// used first), take or make the outputs, run.  Whatever it does not recognise exactly goes to
// `self._miss(args, kwargs)` in Python, before anything was written.
#include "launcher.h"

#include "entry.h"
#include "gaps.h"
#include "numbers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tc {
namespace {

PyObject *name_out, *name_miss, *name_failed;

// `count` default values of T, on the stack for the usual counts.
template <class T, size_t kInline>
class Buffer {
 public:
  explicit Buffer(size_t count)
      : heap_(count > kInline ? new (std::nothrow) T[count] : nullptr),
        items_(heap_ ? heap_.get() : inline_),
        failed_(count > kInline && !heap_) {}
  T *data() { return items_; }
  T &operator[](size_t k) { return items_[k]; }
  bool failed() const { return failed_; }

 private:
  T inline_[kInline];
  std::unique_ptr<T[]> heap_;
  T *items_;
  bool failed_;
};

struct Argument {
  PyObject *object;
  bool is_view;
  View view;
};

// The access of a record that says what the driver of a device refused.
constexpr int64_t kDriverFailed = -2;

enum class Outcome { kDone, kMiss };

// What kernels of a device promise of an array's first element, in bytes.
constexpr uintptr_t kDeviceAlignment = 16;

// Whether a kernel takes the memory of an array of the right type and shape as it is.
bool is_taken(const TensorSpec &spec, const View &view) {
  uintptr_t alignment = view.device == kHost ? static_cast<uintptr_t>(spec.itemsize()) : kDeviceAlignment;
  return is_dense(spec, view) && reinterpret_cast<uintptr_t>(view.data) % alignment == 0;
}

// With `gaps`, also a small array that a copy makes dense and aligned.
bool fits(const TensorSpec &spec, const View &view, int32_t device, bool gaps) {
  if (view.device != device) return false;
  if (view.code != spec.code || view.bits != spec.bits || static_cast<size_t>(view.ndim) != spec.shape.size())
    return false;
  for (size_t d = 0; d < spec.shape.size(); d++)
    if (view.shape[d] != spec.shape[d]) return false;
  return spec.elements == 0 || is_taken(spec, view) || (gaps && spec.bytes() <= kMostCopied);
}

bool overlap(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

// The memory of an output given by the caller meets that of an input or of another output.
bool aliased(const EntryData &entry, Argument *args, Argument *outs) {
  for (size_t o = 0; o < entry.outputs.size(); o++) {
    const char *data = outs[o].view.data;
    int64_t bytes = entry.outputs[o].bytes();
    for (size_t i = 0; i < entry.inputs.size(); i++)
      if (!entry.inputs[i].scalar && overlap(data, bytes, args[i].view.data, entry.inputs[i].tensor.bytes()))
        return true;
    for (size_t p = 0; p < o; p++)
      if (overlap(data, bytes, outs[p].view.data, entry.outputs[p].bytes())) return true;
  }
  return false;
}

bool matches(const EntryData &entry, Argument *args, size_t nargs, uint64_t *scalars, Argument *outs,
             size_t nouts) {
  if (nargs != entry.inputs.size()) return false;
  int32_t device = entry.device ? entry.device->number : kHost;
  bool gaps = device == kHost && nouts == 0;  // with buffers of the caller, aliases are looked for first
  for (size_t i = 0; i < nargs; i++) {
    const InputSpec &spec = entry.inputs[i];
    if (args[i].is_view == spec.scalar) return false;
    if (!spec.scalar) {
      if (!fits(spec.tensor, args[i].view, device, gaps)) return false;
    } else if (!pack_number(args[i].object, spec.tensor.code, spec.tensor.bits, &scalars[2 * i]) ||
               (spec.specialized && scalars[2 * i] != spec.required)) {
      return false;
    }
  }
  if (nouts == 0)
    return std::none_of(entry.outputs.begin(), entry.outputs.end(),
                        [](const TensorSpec &o) { return o.inout; });
  if (nouts != entry.outputs.size()) return false;
  for (size_t o = 0; o < nouts; o++)
    if (!outs[o].view.writable || !fits(entry.outputs[o], outs[o].view, device, false)) return false;
  return !aliased(entry, args, outs);
}

// All arrays must come from one library; numbers pass.
bool read_argument(PyObject *object, Argument *arg, Library *library) {
  arg->object = object;
  Seen seen = read_view(object, &arg->view);
  arg->is_view = seen == Seen::kView;
  if (seen == Seen::kRefused) return false;
  if (!arg->is_view) return true;
  if (*library != Library::kNone && *library != arg->view.library) return false;
  *library = arg->view.library;
  return true;
}

PyObject *make_result(Entry *entry, PyObject **results, size_t count) {
  if (count == 1) return std::exchange(results[0], nullptr);
  PyObject *tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  if (!tuple) return nullptr;
  for (size_t o = 0; o < count; o++)
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(o), std::exchange(results[o], nullptr));
  if (!entry->result_type) return tuple;
  PyObject *made = nullptr;
  if (entry->data->tuple_result) {
    // What a named tuple's _make does.
    PyObject *wrapped = PyTuple_Pack(1, tuple);
    if (wrapped)
      made = PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject *>(entry->result_type), wrapped, nullptr);
    Py_XDECREF(wrapped);
  } else {
    made = PyObject_CallObject(entry->result_type, tuple);
  }
  Py_DECREF(tuple);
  return made;
}

// Calls self._failed(owner, error), which raises.
void raise_failure(PyObject *self, Entry *entry, const int64_t *error) {
  PyObject *record = error_tuple(error);
  if (!record) return;
  PyObject *args[] = {self, entry->owner ? entry->owner : Py_None, record};
  PyObject *returned =
      PyObject_VectorcallMethod(name_failed, args, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  Py_DECREF(record);
  if (!returned) return;
  Py_DECREF(returned);
  PyErr_SetString(PyExc_SystemError, "_failed returned instead of raising");
}

// What `run_kernel` is on a device: the launches, without waiting.  Returns the driver's status; *ran is false,
// and an exception set, when there is no memory.
int run_on_device(const EntryData &data, void *const *pointers, Library library, void *stream, bool *ran) {
  size_t inputs = data.inputs.size(), count = inputs + data.outputs.size();
  Buffer<uint64_t, 24> words(count);
  *ran = !words.failed();
  if (!*ran) return PyErr_NoMemory(), -1;
  for (size_t k = 0; k < count; k++)
    words[k] = k < inputs && data.inputs[k].scalar ? *static_cast<const uint64_t *>(pointers[k])
                                                   : reinterpret_cast<uintptr_t>(pointers[k]);
  PyObject *workspace = nullptr;
  char *scratch = nullptr;
  if (data.workspace) {
    // In the order of the stream, so it may go back before the kernels have run.
    int64_t bytes = static_cast<int64_t>(data.workspace);
    workspace = new_array(library, data.device->number, dlpack::kUInt, 8, 1, &bytes, &scratch);
    *ran = workspace != nullptr;
    if (!*ran) return -1;
  }
  int status = launch(*data.device, words.data(), count, reinterpret_cast<uintptr_t>(scratch), stream);
  Py_XDECREF(workspace);
  return status;
}

// Runs a matching entry; `entry` is a strong reference of the caller's.
PyObject *execute(PyObject *self, Entry *entry, Argument *args, uint64_t *scalars, Argument *outs,
                  size_t nouts, Library library, void *stream) {
  EntryData &data = *entry->data;
  size_t inputs = data.inputs.size(), outputs = data.outputs.size();
  Buffer<void *, 24> pointers(inputs + outputs + 3);
  Buffer<PyObject *, 8> results(outputs);
  if (pointers.failed() || results.failed()) return PyErr_NoMemory();
  std::vector<std::unique_ptr<char[]>> copies;
  for (size_t i = 0; i < inputs; i++) {
    pointers[i] = data.inputs[i].scalar ? static_cast<void *>(&scalars[2 * i]) : args[i].view.data;
    const TensorSpec &spec = data.inputs[i].tensor;
    if (data.inputs[i].scalar || spec.elements == 0 || is_taken(spec, args[i].view)) continue;
    copies.push_back(dense_copy(spec, args[i].view));
    pointers[i] = copies.back().get();
    if (!pointers[i]) return PyErr_NoMemory();
  }
  PyObject *result = nullptr;
  size_t made = 0;
  for (; made < outputs; made++) {
    if (nouts) {
      results[made] = Py_NewRef(outs[made].object);
      pointers[inputs + made] = outs[made].view.data;
    } else {
      TensorSpec &spec = data.outputs[made];
      char *address = nullptr;
      int32_t device = data.device ? data.device->number : kHost;
      results[made] = new_array(library, device, spec.code, spec.bits, static_cast<int32_t>(spec.shape.size()),
                                spec.shape.data(), &address);
      if (!results[made]) break;
      pointers[inputs + made] = address;
    }
  }
  if (made == outputs) {
    int64_t error[kErrorWords];
    bool ran;
    int32_t code;
    if (data.device) {
      code = run_on_device(data, pointers.data(), library, stream, &ran);
      // A record of its own kind: what the driver says.
      error[0] = kDriverFailed + 1, error[1] = code, error[2] = 0, error[3] = 0;
    } else {
      code = run_kernel(data, pointers.data(), error, &ran, library == Library::kTorch);
    }
    if (ran && nouts) mark_written(library, results.data(), static_cast<Py_ssize_t>(outputs));
    if (ran && code != 0)
      raise_failure(self, entry, error);
    else if (ran)
      result = make_result(entry, results.data(), outputs);
  }
  for (size_t o = 0; o < made; o++) Py_XDECREF(results[o]);
  return result;
}

// The index of a name among interned ones; -1: it is not there.
Py_ssize_t position(PyObject *names, PyObject *name) {
  Py_ssize_t count = PyTuple_GET_SIZE(names);
  for (Py_ssize_t k = 0; k < count; k++)
    if (PyTuple_GET_ITEM(names, k) == name) return k;
  for (Py_ssize_t k = 0; k < count; k++)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names, k), name) == 0) return k;
  return -1;
}

bool is_out(PyObject *name) {
  return name == name_out || (PyUnicode_CheckExact(name) && PyUnicode_Compare(name, name_out) == 0);
}

// Arguments in parameter order, borrowed, from `nargs` by position and then those that `names` lists; false
// unless each parameter has exactly one.  `out` is never a parameter's.
bool arrange(Dispatcher *self, PyObject *const *objects, Py_ssize_t nargs, PyObject *names,
             PyObject **arranged, PyObject **out) {
  Py_ssize_t count = PyTuple_GET_SIZE(self->parameters), missing = count - nargs;
  std::copy(objects, objects + nargs, arranged);
  std::fill(arranged + nargs, arranged + count, nullptr);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++) {
    PyObject *name = PyTuple_GET_ITEM(names, k), *value = objects[nargs + k];
    if (!PyUnicode_CheckExact(name)) return false;
    PyObject **place = out;
    if (!is_out(name)) {
      Py_ssize_t at = position(self->parameters, name);
      if (at < 0) return false;
      place = &arranged[at];
      missing--;
    }
    if (*place) return false;
    *place = value;
  }
  return missing == 0;
}

// The buffers of a dictionary that has one for each result, as a tuple in their order; null, without an
// exception, for other dictionaries.
PyObject *arrange_buffers(Dispatcher *self, PyObject *out) {
  Py_ssize_t count = self->results ? PyTuple_GET_SIZE(self->results) : 0;
  if (count == 0 || PyDict_GET_SIZE(out) != count) return nullptr;
  PyObject *tuple = PyTuple_New(count);
  if (!tuple) return PyErr_Clear(), nullptr;
  PyObject *name, *value;
  for (Py_ssize_t next = 0; PyDict_Next(out, &next, &name, &value); count--) {
    Py_ssize_t at = PyUnicode_CheckExact(name) ? position(self->results, name) : -1;
    if (at < 0 || PyTuple_GET_ITEM(tuple, at)) break;
    PyTuple_SET_ITEM(tuple, at, Py_NewRef(value));
  }
  if (count) Py_CLEAR(tuple);  // making it may have run the collector, and that anything
  return tuple;
}

Outcome try_call(PyObject *self_object, PyObject *const *objects, size_t nargs, PyObject *out,
                 PyObject **result) {
  Dispatcher *self = reinterpret_cast<Dispatcher *>(self_object);
  if (out == Py_None) out = nullptr;
  if (out && PyDict_CheckExact(out)) {
    PyObject *buffers = arrange_buffers(self, out);
    if (!buffers) return Outcome::kMiss;
    Outcome outcome = try_call(self_object, objects, nargs, buffers, result);
    Py_DECREF(buffers);
    return outcome;
  }
  bool several = out && PyTuple_Check(out);
  size_t nouts = !out ? 0 : several ? static_cast<size_t>(PyTuple_GET_SIZE(out)) : 1;
  if (out && nouts == 0) return Outcome::kMiss;
  Buffer<Argument, 12> args(nargs + nouts);
  Buffer<uint64_t, 24> scalars(2 * nargs);
  if (args.failed() || scalars.failed()) return Outcome::kMiss;
  Library library = Library::kNone;
  for (size_t i = 0; i < nargs; i++)
    if (!read_argument(objects[i], &args[i], &library)) return Outcome::kMiss;
  Argument *outs = args.data() + nargs;
  for (size_t o = 0; o < nouts; o++)
    if (!read_argument(several ? PyTuple_GET_ITEM(out, static_cast<Py_ssize_t>(o)) : out, &outs[o],
                       &library) ||
        !outs[o].is_view)
      return Outcome::kMiss;
  void *stream = nullptr;
  int32_t device = kHost;
  for (size_t k = 0; k < nargs + nouts && device == kHost; k++)
    if (args[k].is_view) device = args[k].view.device;
  // An error that is to be raised, and what the library does not tell, are for the slow path.
  if (device != kHost && (record_is_set() || !current_stream(library, device, &stream))) return Outcome::kMiss;
  // Nothing from here to the move to the front runs Python code, so the list stays as it is.
  std::vector<Entry *> &entries = *self->entries;
  for (size_t k = 0; k < entries.size(); k++) {
    if (!matches(*entries[k]->data, args.data(), nargs, scalars.data(), outs, nouts)) continue;
    Entry *entry = entries[k];
    if (const DeviceLaunch *launched = entry->data->device.get()) {
      // Without an array nothing says where the results are to be.
      if (device == kHost || (launched->one_stream && launched->stream != stream)) continue;
    }
    if (k)
      std::rotate(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(k),
                  entries.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    Py_INCREF(entry);
    *result = execute(self_object, entry, args.data(), scalars.data(), outs, nouts, library, stream);
    Py_DECREF(entry);
    return Outcome::kDone;
  }
  return Outcome::kMiss;
}

}  // namespace

PyObject *dispatch(PyObject *self_object, PyObject *const *objects, Py_ssize_t nargs, PyObject *names) {
  Dispatcher *self = reinterpret_cast<Dispatcher *>(self_object);
  Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  PyObject *result;
  Outcome outcome = Outcome::kMiss;
  if (named == 0 || (named == 1 && is_out(PyTuple_GET_ITEM(names, 0)))) {
    outcome = try_call(self_object, objects, static_cast<size_t>(nargs), named ? objects[nargs] : nullptr,
                       &result);
  } else if (self->parameters && nargs <= PyTuple_GET_SIZE(self->parameters)) {
    size_t count = static_cast<size_t>(PyTuple_GET_SIZE(self->parameters));
    Buffer<PyObject *, 12> arranged(count);
    PyObject *out = nullptr;
    if (!arranged.failed() && arrange(self, objects, nargs, names, arranged.data(), &out))
      outcome = try_call(self_object, arranged.data(), count, out, &result);
  }
  if (outcome == Outcome::kDone) return result;
  return with_tuple_and_dict(objects, nargs, names, [&](PyObject *args, PyObject *kwargs) {
    PyObject *stack[] = {self_object, args, kwargs};
    return PyObject_VectorcallMethod(name_miss, stack, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  });
}

bool init_launcher() {
  name_out = PyUnicode_InternFromString("out");
  name_miss = PyUnicode_InternFromString("_miss");
  name_failed = PyUnicode_InternFromString("_failed");
  return name_out && name_miss && name_failed;
}

}  // namespace tc

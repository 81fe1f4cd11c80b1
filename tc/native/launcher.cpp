// The fast path of a call: put the arguments in order, read them once, compare them with the entries (last
// used first), take or make the outputs, run.  Whatever it does not recognise exactly goes to
// `self._miss(args, kwargs)` in Python, before anything was written.
#include "launcher.h"

#include "entry.h"
#include "numbers.h"

#include <structmember.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tc {
namespace {

constexpr size_t kMaxEntries = 64;

struct Dispatcher {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::vector<Entry *> *entries;  // last used first
  size_t capacity;                // of `entries`
  // Interned names of parameters and results, of the first entry that has them; null before.  Strings are in
  // no cycle: neither visited nor cleared.
  PyObject *parameters, *results;
};

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

enum class Outcome { kDone, kMiss };

bool fits(const TensorSpec &spec, const View &view) {
  if (view.code != spec.code || view.bits != spec.bits || static_cast<size_t>(view.ndim) != spec.shape.size())
    return false;
  for (size_t d = 0; d < spec.shape.size(); d++)
    if (view.shape[d] != spec.shape[d]) return false;
  if (spec.elements == 0) return true;
  int64_t unit = view.strides_in_bytes ? spec.itemsize() : 1;
  for (size_t d = 0; d < spec.shape.size(); d++)
    if (spec.shape[d] != 1 && view.strides[d] != spec.strides[d] * unit) return false;
  return reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(spec.itemsize()) == 0;
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
  for (size_t i = 0; i < nargs; i++) {
    const InputSpec &spec = entry.inputs[i];
    if (args[i].is_view == spec.scalar) return false;
    if (!spec.scalar) {
      if (!fits(spec.tensor, args[i].view)) return false;
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
    if (!outs[o].view.writable || !fits(entry.outputs[o], outs[o].view)) return false;
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

// Runs a matching entry; `entry` is a strong reference of the caller's.
PyObject *execute(PyObject *self, Entry *entry, Argument *args, uint64_t *scalars, Argument *outs,
                  size_t nouts, Library library) {
  EntryData &data = *entry->data;
  size_t inputs = data.inputs.size(), outputs = data.outputs.size();
  Buffer<void *, 24> pointers(inputs + outputs + 3);
  Buffer<PyObject *, 8> results(outputs);
  if (pointers.failed() || results.failed()) return PyErr_NoMemory();
  for (size_t i = 0; i < inputs; i++)
    pointers[i] = data.inputs[i].scalar ? static_cast<void *>(&scalars[2 * i]) : args[i].view.data;
  PyObject *result = nullptr;
  size_t made = 0;
  for (; made < outputs; made++) {
    if (nouts) {
      results[made] = Py_NewRef(outs[made].object);
      pointers[inputs + made] = outs[made].view.data;
    } else {
      TensorSpec &spec = data.outputs[made];
      char *address = nullptr;
      results[made] = new_array(library, spec.code, spec.bits, static_cast<int32_t>(spec.shape.size()),
                                spec.shape.data(), &address);
      if (!results[made]) break;
      pointers[inputs + made] = address;
    }
  }
  if (made == outputs) {
    int64_t error[kErrorWords];
    bool ran;
    int32_t code = run_kernel(data, pointers.data(), error, &ran);
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
  // Nothing from here to the move to the front runs Python code, so the list stays as it is.
  std::vector<Entry *> &entries = *self->entries;
  for (size_t k = 0; k < entries.size(); k++) {
    if (!matches(*entries[k]->data, args.data(), nargs, scalars.data(), outs, nouts)) continue;
    Entry *entry = entries[k];
    if (k)
      std::rotate(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(k),
                  entries.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    Py_INCREF(entry);
    *result = execute(self_object, entry, args.data(), scalars.data(), outs, nouts, library);
    Py_DECREF(entry);
    return Outcome::kDone;
  }
  return Outcome::kMiss;
}

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

// Calls through the type: those of a subclass with a `__call__` of its own, and of its instances.
PyObject *dispatcher_call(PyObject *self, PyObject *args, PyObject *kwargs) {
  Py_ssize_t nargs = PyTuple_GET_SIZE(args), named = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
  if (named == 0) return dispatch(self, reinterpret_cast<PyTupleObject *>(args)->ob_item, nargs, nullptr);
  // The dictionary may be the caller's and change: the values are held by a tuple, the names by another.
  PyObject *objects = PyTuple_New(nargs + named), *names = PyTuple_New(named), *result = nullptr;
  // Making them may have run the collector.
  bool changed = objects && names && PyDict_GET_SIZE(kwargs) != named;
  if (objects && names && !changed) {
    for (Py_ssize_t i = 0; i < nargs; i++)
      PyTuple_SET_ITEM(objects, i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    PyObject *name, *value;
    Py_ssize_t next = 0;
    bool good = true;
    for (Py_ssize_t k = 0; k < named && PyDict_Next(kwargs, &next, &name, &value); k++) {
      good = good && PyUnicode_Check(name);
      PyTuple_SET_ITEM(names, k, Py_NewRef(name));
      PyTuple_SET_ITEM(objects, nargs + k, Py_NewRef(value));
    }
    if (good)
      result = dispatch(self, reinterpret_cast<PyTupleObject *>(objects)->ob_item, nargs, names);
    else
      PyErr_SetString(PyExc_TypeError, "keywords must be strings");
  }
  Py_XDECREF(names);
  Py_XDECREF(objects);
  return changed ? dispatcher_call(self, args, kwargs) : result;
}

PyObject *dispatcher_vectorcall(PyObject *self, PyObject *const *objects, size_t flags, PyObject *names) {
  Py_ssize_t nargs = PyVectorcall_NARGS(flags);
#if PY_VERSION_HEX < 0x030C0000
  // Before Python 3.12 the flag set by dispatcher_new stays when a class is given a `__call__` later.
  ternaryfunc call = Py_TYPE(self)->tp_call;
  if (call != dispatcher_call)
    return with_tuple_and_dict(objects, nargs, names, [&](PyObject *args, PyObject *kwargs) {
      return call(self, args, kwargs);
    });
#endif
  return dispatch(self, objects, nargs, names);
}

PyObject *dispatcher_new(PyTypeObject *type, PyObject *, PyObject *) {
  Dispatcher *self = reinterpret_cast<Dispatcher *>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
#if PY_VERSION_HEX < 0x030C0000
  // Subclasses inherit the flag from Python 3.12 on.
  if (type->tp_call == dispatcher_call) type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
#endif
  self->vectorcall = dispatcher_vectorcall;
  self->capacity = kMaxEntries;
  self->entries = new (std::nothrow) std::vector<Entry *>;
  if (!self->entries) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  return reinterpret_cast<PyObject *>(self);
}

int dispatcher_init(PyObject *, PyObject *, PyObject *) { return 0; }

int dispatcher_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  if (auto *entries = reinterpret_cast<Dispatcher *>(object)->entries)
    for (Entry *entry : *entries) Py_VISIT(entry);
  return 0;
}

int dispatcher_clear(PyObject *object) {
  auto *entries = reinterpret_cast<Dispatcher *>(object)->entries;
  if (!entries) return 0;
  std::vector<Entry *> old;
  old.swap(*entries);  // dropping an entry may run code that comes back here
  for (Entry *entry : old) Py_DECREF(entry);
  return 0;
}

void dispatcher_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  dispatcher_clear(object);
  Dispatcher *self = reinterpret_cast<Dispatcher *>(object);
  delete self->entries;
  Py_XDECREF(self->parameters);
  Py_XDECREF(self->results);
  PyTypeObject *type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

bool same(const TensorSpec &a, const TensorSpec &b) {
  return a.code == b.code && a.bits == b.bits && a.inout == b.inout && a.shape == b.shape;
}

bool same(const InputSpec &a, const InputSpec &b) {
  return a.scalar == b.scalar && a.specialized == b.specialized && a.required == b.required &&
         same(a.tensor, b.tensor);
}

template <class Spec>
bool same(const std::vector<Spec> &a, const std::vector<Spec> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Spec &x, const Spec &y) { return same(x, y); });
}

// The same machine code for the same arguments.
bool same(const Entry &a, const Entry &b) {
  return a.data->kernel == b.data->kernel && a.owner == b.owner && a.result_type == b.result_type &&
         a.data->workspace == b.data->workspace && a.data->release_gil == b.data->release_gil &&
         a.data->sizes == b.data->sizes &&
         same(a.data->inputs, b.data->inputs) && same(a.data->outputs, b.data->outputs);
}

bool same_names(PyObject *a, PyObject *b) {
  auto *x = reinterpret_cast<PyTupleObject *>(a), *y = reinterpret_cast<PyTupleObject *>(b);
  return std::equal(x->ob_item, x->ob_item + Py_SIZE(x), y->ob_item, y->ob_item + Py_SIZE(y));
}

PyObject *dispatcher_add(PyObject *object, PyObject *entry) {
  if (!PyObject_TypeCheck(entry, entry_type)) {
    PyErr_Format(PyExc_TypeError, "expected an Entry, got %s", Py_TYPE(entry)->tp_name);
    return nullptr;
  }
  Dispatcher *self = reinterpret_cast<Dispatcher *>(object);
  Entry *added = reinterpret_cast<Entry *>(entry);
  if (added->parameters && self->parameters &&
      (!same_names(added->parameters, self->parameters) || !same_names(added->results, self->results))) {
    PyErr_SetString(PyExc_ValueError, "the names differ from those of the entries before");
    return nullptr;
  }
  if (added->parameters && !self->parameters) {
    self->parameters = Py_NewRef(added->parameters);
    self->results = Py_NewRef(added->results);
  }
  auto &entries = *self->entries;
  auto found = std::find_if(entries.begin(), entries.end(), [&](Entry *e) { return same(*e, *added); });
  if (found != entries.end()) {
    std::rotate(entries.begin(), found, found + 1);
    Py_RETURN_NONE;
  }
  try {
    entries.insert(entries.begin(), added);
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  Py_INCREF(entry);
  if (entries.size() > self->capacity) {
    Entry *oldest = entries.back();
    entries.pop_back();
    Py_DECREF(oldest);
  }
  Py_RETURN_NONE;
}

PyObject *dispatcher_keep(PyObject *object, PyObject *count) {
  long long capacity = PyLong_AsLongLong(count);
  if (capacity == -1 && PyErr_Occurred()) return nullptr;
  if (capacity < 1) {
    PyErr_SetString(PyExc_ValueError, "a dispatcher keeps at least one entry");
    return nullptr;
  }
  Dispatcher *self = reinterpret_cast<Dispatcher *>(object);
  self->capacity = static_cast<size_t>(capacity);
  while (self->entries->size() > self->capacity) {
    Entry *oldest = self->entries->back();
    self->entries->pop_back();
    Py_DECREF(oldest);
  }
  Py_RETURN_NONE;
}

PyObject *dispatcher_clear_entries(PyObject *object, PyObject *) {
  dispatcher_clear(object);
  Py_RETURN_NONE;
}

PyObject *dispatcher_entries(PyObject *object, PyObject *) {
  auto &entries = *reinterpret_cast<Dispatcher *>(object)->entries;
  Py_ssize_t count = static_cast<Py_ssize_t>(entries.size());
  PyObject *tuple = PyTuple_New(count);
  if (!tuple) return nullptr;
  // Making the tuple may have run the collector.
  if (static_cast<Py_ssize_t>(entries.size()) != count) {
    Py_DECREF(tuple);
    return dispatcher_entries(object, nullptr);
  }
  for (Py_ssize_t k = 0; k < count; k++)
    PyTuple_SET_ITEM(tuple, k, Py_NewRef(reinterpret_cast<PyObject *>(entries[static_cast<size_t>(k)])));
  return tuple;
}

PyMethodDef methods[] = {{"_add", dispatcher_add, METH_O,
                          "Puts an Entry in front, or the same one that is there already; beyond the number that "
                          "`_keep` set (64) the one used longest ago is dropped."},
                         {"_keep", dispatcher_keep, METH_O, "Sets how many entries there may be."},
                         {"_clear", dispatcher_clear_entries, METH_NOARGS, "Drops all entries."},
                         {"_entries", dispatcher_entries, METH_NOARGS, "The entries, last used first."},
                         {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Dispatcher, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(dispatcher_new)},
    {Py_tp_init, reinterpret_cast<void *>(dispatcher_init)},
    {Py_tp_dealloc, reinterpret_cast<void *>(dispatcher_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void *>(dispatcher_traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(dispatcher_clear)},
    {Py_tp_call, reinterpret_cast<void *>(dispatcher_call)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char *>("Base of callables that dispatch to compiled kernels; see _native.pyi.")},
    {0, nullptr}};

PyType_Spec spec = {
    "tc._native.Dispatcher", sizeof(Dispatcher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

bool init_dispatcher(PyObject *module) {
  name_out = PyUnicode_InternFromString("out");
  name_miss = PyUnicode_InternFromString("_miss");
  name_failed = PyUnicode_InternFromString("_failed");
  PyObject *type = PyType_FromSpec(&spec);
  return name_out && name_miss && name_failed && type &&
         PyModule_AddObjectRef(module, "Dispatcher", type) == 0;
}

}  // namespace tc

// The type `Dispatcher`: a callable with a list of entries, last used first.
#include "dispatcher.h"

#include "entry.h"
#include "launcher.h"

#include <structmember.h>

#include <algorithm>
#include <new>
#include <vector>

namespace tc {
namespace {

constexpr size_t kMaxEntries = 64;

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
  if (a.data->device || b.data->device) return &a == &b;
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
  PyObject *type = PyType_FromSpec(&spec);
  return init_launcher() && type && PyModule_AddObjectRef(module, "Dispatcher", type) == 0;
}

}  // namespace tc

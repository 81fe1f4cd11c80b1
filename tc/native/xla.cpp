#include "xla.h"

#include <memory>
#include <new>

#include "arena.h"
#include "xla_calls.h"

namespace tc::xla {

namespace {

constexpr size_t kFew = 24;  // pointers that need no memory of their own

struct Kept {
  const EntryData *data;  // owned by `entry`
  PyObject *entry;
  PyObject *failed;
  std::string name;
  std::vector<Scalar> scalars;
};

// It lives for ever: XLA may call while the process ends.
Table<Kept> &table() {
  static auto *kept = new Table<Kept>;
  return *kept;
}

// What Python makes of the record of a failed check.
std::string explained(const Kept &kept, const int64_t *record) {
  std::string plain = kept.name + ": a subscript is out of range";
  if (!Py_IsInitialized()) return plain;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *fields = error_tuple(record);
  PyObject *made = fields ? PyObject_CallOneArg(kept.failed, fields) : nullptr;
  const char *shown = made && PyUnicode_Check(made) ? PyUnicode_AsUTF8(made) : nullptr;
  std::string out = shown ? shown : plain;
  Py_XDECREF(fields);
  Py_XDECREF(made);
  PyErr_Clear();
  PyGILState_Release(state);
  return out;
}

Error *run(const CallFrame *frame, const Kept &kept) {
  const EntryData &data = *kept.data;
  size_t inputs = data.inputs.size(), outputs = data.outputs.size();
  void *few[kFew];
  std::unique_ptr<void *[]> many;
  void **pointers = few;
  if (inputs + outputs + 3 > kFew) {
    many.reset(new (std::nothrow) void *[inputs + outputs + 3]);
    if (!many) return error(frame, kResourceExhausted, kept.name + ": out of memory");
    pointers = many.get();
  }
  std::string wrong = read_buffers(frame, data, kept.scalars.size(), pointers);
  if (!wrong.empty()) return error(frame, kInvalidArgument, kept.name + ": " + wrong);
  size_t scalar = 0;
  for (size_t k = 0; k < inputs; k++)
    if (data.inputs[k].scalar) pointers[k] = const_cast<char *>(kept.scalars[scalar++].bytes);
  int64_t record[kErrorWords];
  bool ran;
  int32_t code = run_without_python(data, pointers, record, &ran);
  if (!ran)
    return error(frame, kResourceExhausted,
                 kept.name + ": no memory for the " + std::to_string(data.workspace) +
                     " bytes of scratch space of this kernel");
  return code == 0 ? nullptr : error(frame, record[0] ? kOutOfRange : kInternal, explained(kept, record));
}

Error *handle(const CallFrame *frame) {
  if (asked_for_version(frame) || frame->stage != kStageExecute) return nullptr;
  const ByteSpan *key = text(frame->attrs, "kernel");
  const Kept *kept = key ? table().find(*key) : nullptr;
  return kept ? run(frame, *kept) : not_here(frame);
}

}  // namespace

PyObject *handler() { return PyCapsule_New(reinterpret_cast<void *>(&handle), nullptr, nullptr); }

bool read_scalars(const EntryData &data, const std::vector<std::string> &values, std::vector<Scalar> *scalars) {
  size_t expected = 0;
  for (const InputSpec &input : data.inputs) {
    if (!input.scalar) continue;
    if (expected < values.size() && values[expected].size() != static_cast<size_t>(input.tensor.itemsize())) break;
    expected++;
  }
  if (expected != values.size()) {
    PyErr_SetString(PyExc_ValueError, "expected the packed value of each scalar parameter");
    return false;
  }
  for (const std::string &bytes : values) {
    scalars->emplace_back();
    std::memset(scalars->back().bytes, 0, sizeof(Scalar));
    std::memcpy(scalars->back().bytes, bytes.data(), bytes.size());
  }
  for (const TensorSpec &output : data.outputs)
    if (output.inout) {
      PyErr_SetString(PyExc_ValueError, "arrays of XLA do not change, and this kernel changes one");
      return false;
    }
  return true;
}

bool keep(const std::string &key, PyObject *entry, const std::vector<std::string> &scalars, PyObject *failed,
          const std::string &name) {
  if (Py_TYPE(entry) != entry_type) {
    PyErr_SetString(PyExc_TypeError, "expected an Entry");
    return false;
  }
  auto made = std::make_unique<Kept>();
  made->data = reinterpret_cast<Entry *>(entry)->data;
  made->name = name;
  if (!read_scalars(*made->data, scalars, &made->scalars)) return false;
  made->entry = Py_NewRef(entry);
  made->failed = Py_NewRef(failed);
  if (table().add(key, std::move(made))) return true;
  Py_DECREF(entry);
  Py_DECREF(failed);
  return true;
}

}  // namespace tc::xla

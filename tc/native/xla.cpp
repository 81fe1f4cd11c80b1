#include "xla.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

#include "arena.h"
#include "entry.h"
#include "fpmode.h"
#include "xla_abi.h"

namespace tc::xla {

namespace {

constexpr size_t kScalarBytes = 16;
constexpr size_t kFew = 24;  // pointers that need no memory of their own

struct Scalar {
  alignas(16) char bytes[kScalarBytes];
};

struct Kept {
  const EntryData *data;  // owned by `entry`
  PyObject *entry;
  PyObject *failed;
  std::string name;
  std::vector<Scalar> scalars;
};

// Both live for ever: XLA may call while the process ends.
std::shared_mutex &guard() {
  static auto *mutex = new std::shared_mutex;
  return *mutex;
}

std::unordered_map<std::string, std::unique_ptr<const Kept>> &table() {
  static auto *kept = new std::unordered_map<std::string, std::unique_ptr<const Kept>>;
  return *kept;
}

const Kept *find(const ByteSpan &key) {
  std::shared_lock<std::shared_mutex> lock(guard());
  auto found = table().find(std::string(key.ptr, key.len));
  return found == table().end() ? nullptr : found->second.get();
}

Error *error(const CallFrame *frame, int code, const std::string &message) {
  ErrorCreateArgs args{sizeof(ErrorCreateArgs), nullptr, message.c_str(), code};
  return frame->api->error_create(&args);
}

// The text attribute of a name; null where there is none.
const ByteSpan *text(const Attrs &attrs, const char *name) {
  size_t length = std::strlen(name);
  for (int64_t i = 0; i < attrs.size; i++) {
    const ByteSpan &n = *attrs.names[i];
    if (n.len == length && std::memcmp(n.ptr, name, length) == 0)
      return attrs.types[i] == kAttributeString ? static_cast<const ByteSpan *>(attrs.attrs[i]) : nullptr;
  }
  return nullptr;
}

bool same_shape(const Buffer &buffer, const TensorSpec &spec) {
  if (buffer.rank != static_cast<int64_t>(spec.shape.size())) return false;
  for (int64_t d = 0; d < buffer.rank; d++)
    if (buffer.dims[d] != spec.shape[static_cast<size_t>(d)]) return false;
  return true;
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
  size_t tensors = inputs - kept.scalars.size();
  if (frame->args.size != static_cast<int64_t>(tensors) || frame->rets.size != static_cast<int64_t>(outputs))
    return error(frame, kInvalidArgument, kept.name + ": another number of arrays than the kernel has");
  void *few[kFew];
  std::unique_ptr<void *[]> many;
  void **pointers = few;
  if (inputs + outputs + 3 > kFew) {
    many.reset(new (std::nothrow) void *[inputs + outputs + 3]);
    if (!many) return error(frame, kResourceExhausted, kept.name + ": out of memory");
    pointers = many.get();
  }
  size_t tensor = 0, scalar = 0;
  for (size_t k = 0; k < inputs; k++) {
    if (data.inputs[k].scalar) {
      pointers[k] = const_cast<char *>(kept.scalars[scalar++].bytes);
      continue;
    }
    const auto *buffer = static_cast<const Buffer *>(frame->args.args[tensor++]);
    if (!same_shape(*buffer, data.inputs[k].tensor))
      return error(frame, kInvalidArgument, kept.name + ": an array has another shape than the kernel is for");
    pointers[k] = buffer->data;
  }
  for (size_t k = 0; k < outputs; k++) {
    const auto *buffer = static_cast<const Buffer *>(frame->rets.rets[k]);
    if (!same_shape(*buffer, data.outputs[k]))
      return error(frame, kInvalidArgument, kept.name + ": a result has another shape than the kernel's");
    pointers[inputs + k] = buffer->data;
  }
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
  for (Extension *e = frame->extension_start; e; e = e->next) {
    if (e->type != kExtensionMetadata) continue;
    // XLA asks what the handler was made for.  An answer of 0.0 is refused.
    Metadata *metadata = reinterpret_cast<MetadataExtension *>(e)->metadata;
    if (frame->struct_size < sizeof(CallFrame) || metadata->struct_size < offsetof(Metadata, traits)) return nullptr;
    metadata->api_version.major_version = kApiMajor;
    metadata->api_version.minor_version = kApiMinor;
    return nullptr;
  }
  if (frame->stage != kStageExecute) return nullptr;
  const ByteSpan *key = text(frame->attrs, "kernel");
  if (!key) return error(frame, kInvalidArgument, "a call of tc names no kernel");
  const Kept *kept = find(*key);
  if (kept) return run(frame, *kept);
  const ByteSpan *name = text(frame->attrs, "name");
  return error(frame, kNotFound,
               "the kernel of '" + (name ? std::string(name->ptr, name->len) : std::string("a def")) +
                   "' is not in this process: trace a call of its tc.jax.op before");
}

}  // namespace

PyObject *handler() { return PyCapsule_New(reinterpret_cast<void *>(&handle), nullptr, nullptr); }

bool keep(const std::string &key, PyObject *entry, const std::vector<std::string> &scalars, PyObject *failed,
          const std::string &name) {
  if (Py_TYPE(entry) != entry_type) {
    PyErr_SetString(PyExc_TypeError, "expected an Entry");
    return false;
  }
  auto made = std::make_unique<Kept>();
  made->data = reinterpret_cast<Entry *>(entry)->data;
  made->name = name;
  size_t expected = 0;
  for (const InputSpec &input : made->data->inputs) {
    if (!input.scalar) continue;
    if (expected < scalars.size() && scalars[expected].size() != static_cast<size_t>(input.tensor.itemsize())) break;
    expected++;
  }
  if (expected != scalars.size()) {
    PyErr_SetString(PyExc_ValueError, "expected the packed value of each scalar parameter");
    return false;
  }
  for (const std::string &bytes : scalars) {
    made->scalars.emplace_back();
    std::memset(made->scalars.back().bytes, 0, kScalarBytes);
    std::memcpy(made->scalars.back().bytes, bytes.data(), bytes.size());
  }
  for (const TensorSpec &output : made->data->outputs)
    if (output.inout) {
      PyErr_SetString(PyExc_ValueError, "arrays of XLA do not change, and this kernel changes one");
      return false;
    }
  made->entry = Py_NewRef(entry);
  made->failed = Py_NewRef(failed);
  std::unique_lock<std::shared_mutex> lock(guard());
  if (!table().count(key)) table().emplace(key, std::move(made));
  return true;
}

}  // namespace tc::xla

#include "xla_device.h"

#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>

#include "device.h"
#include "xla_calls.h"

namespace tc::xla {

namespace {

constexpr size_t kAlignment = 16;  // of what kernels take, and the most that XLA allocates by

// The launches on a device, or on one of its streams.
struct Bound {
  int32_t device;
  void *stream;
  const EntryData *data;  // of an `Entry` that is held for ever
  std::vector<Scalar> scalars;
};

struct Kept {
  PyObject *kernel;
  std::string name;
  std::vector<std::string> scalars;
  mutable std::shared_mutex guard;  // of `bound`, whose elements stay
  mutable std::vector<std::unique_ptr<const Bound>> bound;
};

// It lives for ever: XLA may call while the process ends.
Table<Kept> &table() {
  static auto *kept = new Table<Kept>;
  return *kept;
}

const Bound *find(const Kept &kept, int32_t device, void *stream) {
  std::shared_lock<std::shared_mutex> lock(kept.guard);
  for (const auto &bound : kept.bound)
    if (bound->device == device && (!bound->data->device->one_stream || bound->stream == stream)) return bound.get();
  return nullptr;
}

// Python's lock, for a body that leaves no exception.
class WithPython {
 public:
  WithPython() : state_(PyGILState_Ensure()) {}
  WithPython(const WithPython &) = delete;
  WithPython &operator=(const WithPython &) = delete;
  ~WithPython() {
    PyErr_Clear();
    PyGILState_Release(state_);
  }

 private:
  PyGILState_STATE state_;
};

// The text of an object, which is dropped; else of the exception that is set.
std::string text_of(PyObject *object) {
  PyObject *shown = object;
  if (!shown) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    shown = value ? PyObject_Str(value) : nullptr;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  const char *found = shown && PyUnicode_Check(shown) ? PyUnicode_AsUTF8(shown) : nullptr;
  std::string out = found ? found : "an error without a text";
  Py_XDECREF(shown);
  return out;
}

// The launches there, made by Python; null with `why`.
const Bound *bind(const Kept &kept, int32_t device, void *stream, std::string *why) {
  WithPython held;
  // Python may have waited for another thread that has just done so.
  if (const Bound *found = find(kept, device, stream)) return found;
  PyObject *made = PyObject_CallMethod(kept.kernel, "bind", "iK", int(device),
                                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream)));
  auto bound = std::make_unique<Bound>();
  const EntryData *data =
      made && Py_TYPE(made) == entry_type ? reinterpret_cast<Entry *>(made)->data : nullptr;
  if (made && !(data && data->device && data->device->number == device))
    PyErr_SetString(PyExc_TypeError, "expected an Entry for this device");
  if (!data || PyErr_Occurred() || !read_scalars(*data, kept.scalars, &bound->scalars)) {
    Py_XDECREF(made);
    *why = text_of(nullptr);
    return nullptr;
  }
  bound->device = device;
  bound->stream = stream;
  bound->data = data;  // and its entry is never let go
  std::unique_lock<std::shared_mutex> lock(kept.guard);
  kept.bound.push_back(std::move(bound));
  return kept.bound.back().get();
}

// The error that a kernel has left; empty if another thread has taken it.
std::string pending(const Kept &kept) {
  WithPython held;
  PyObject *found = PyObject_CallMethod(kept.kernel, "pending", nullptr);
  if (found != Py_None) return text_of(found);
  Py_DECREF(found);
  return "";
}

std::string refused(const Kept &kept, int32_t device, int status) {
  if (!Py_IsInitialized()) return kept.name + ": the driver refuses the launch";
  WithPython held;
  return text_of(PyObject_CallMethod(kept.kernel, "refused", "ii", int(device), status));
}

Error *run(const CallFrame *frame, const Kept &kept, const Bound &bound, void *stream) {
  const EntryData &data = *bound.data;
  size_t inputs = data.inputs.size(), count = inputs + data.outputs.size();
  std::vector<void *> addresses(count);
  std::string wrong = read_buffers(frame, data, bound.scalars.size(), addresses.data());
  std::vector<uint64_t> words(count);
  size_t scalar = 0;
  for (size_t k = 0; k < count && wrong.empty(); k++) {
    if (k < inputs && data.inputs[k].scalar) {
      std::memcpy(&words[k], bound.scalars[scalar++].bytes, sizeof(uint64_t));
      continue;
    }
    words[k] = reinterpret_cast<uintptr_t>(addresses[k]);
    const TensorSpec &spec = k < inputs ? data.inputs[k].tensor : data.outputs[k - inputs];
    if (spec.elements && words[k] % kAlignment) wrong = "an array does not begin at a multiple of 16 bytes";
  }
  if (!wrong.empty()) return error(frame, kInvalidArgument, kept.name + ": " + wrong);
  MemoryAllocateArgs scratch{sizeof scratch, nullptr, frame->context, data.workspace, kAlignment, nullptr};
  if (data.workspace)
    if (Error *failed = frame->api->memory_allocate(&scratch)) return failed;
  int status = launch(*data.device, words.data(), count, reinterpret_cast<uintptr_t>(scratch.data), stream);
  Error *failed = status ? error(frame, kInternal, refused(kept, bound.device, status)) : nullptr;
  if (!data.workspace) return failed;
  // XLA's allocator is in the order of its stream: it may go back before the kernels have run.
  MemoryFreeArgs back{sizeof back, nullptr, frame->context, data.workspace, scratch.data};
  Error *kept_by_xla = frame->api->memory_free(&back);
  if (!failed || !kept_by_xla) return failed ? failed : kept_by_xla;
  ErrorDestroyArgs second{sizeof second, nullptr, kept_by_xla};
  frame->api->error_destroy(&second);
  return failed;
}

Error *call(const CallFrame *frame, const Kept &kept) {
  if (frame->api->struct_size < sizeof(Api))
    return error(frame, kUnimplemented, kept.name + ": this version of XLA does not tell the device of a call");
  StreamGetArgs stream{sizeof stream, nullptr, frame->context, nullptr};
  if (Error *failed = frame->api->stream_get(&stream)) return failed;
  OrdinalGetArgs device{sizeof device, nullptr, frame->context, 0};
  if (Error *failed = frame->api->ordinal_get(&device)) return failed;
  const Bound *bound = find(kept, device.device_ordinal, stream.stream);
  bool error_is_left = record_is_set();
  if ((!bound || error_is_left) && !Py_IsInitialized())
    return error(frame, kInternal, kept.name + ": the process ends");
  if (error_is_left) {
    std::string left = pending(kept);
    if (!left.empty()) return error(frame, kOutOfRange, left);
  }
  std::string why;
  if (!bound) bound = bind(kept, device.device_ordinal, stream.stream, &why);
  return bound ? run(frame, kept, *bound, stream.stream) : error(frame, kInternal, why);
}

Error *handle(const CallFrame *frame) {
  if (asked_for_version(frame) || frame->stage != kStageExecute) return nullptr;
  const ByteSpan *key = text(frame->attrs, "kernel");
  const Kept *kept = key ? table().find(*key) : nullptr;
  if (!kept) return not_here(frame);
  try {
    return call(frame, *kept);
  } catch (const std::bad_alloc &) {
    return error(frame, kResourceExhausted, kept->name + ": out of memory");
  }
}

}  // namespace

PyObject *device_handler() { return PyCapsule_New(reinterpret_cast<void *>(&handle), nullptr, nullptr); }

bool keep_on_device(const std::string &key, PyObject *kernel, const std::vector<std::string> &scalars,
                    const std::string &name) {
  for (const std::string &bytes : scalars)
    if (bytes.size() > sizeof(uint64_t)) {
      PyErr_SetString(PyExc_ValueError, "a scalar of a kernel on a device has 8 bytes at most");
      return false;
    }
  auto made = std::make_unique<Kept>();
  made->kernel = Py_NewRef(kernel);
  made->name = name;
  made->scalars = scalars;
  if (!table().add(key, std::move(made))) Py_DECREF(kernel);
  return true;
}

}  // namespace tc::xla

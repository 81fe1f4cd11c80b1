// What the handlers of calls of XLA share: errors, attributes, shapes.
#pragma once

#include <Python.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "entry.h"
#include "xla_abi.h"

namespace tc::xla {

struct Scalar {
  alignas(16) char bytes[16];
};

// Kernels by the keys that calls say.
template <class Kept>
class Table {
 public:
  const Kept *find(const ByteSpan &key) {
    std::shared_lock<std::shared_mutex> lock(guard_);
    auto found = kept_.find(std::string(key.ptr, key.len));
    return found == kept_.end() ? nullptr : found->second.get();
  }

  // False, and the table as it was, where the key is there.
  bool add(const std::string &key, std::unique_ptr<const Kept> made) {
    std::unique_lock<std::shared_mutex> lock(guard_);
    return kept_.try_emplace(key, std::move(made)).second;
  }

 private:
  std::shared_mutex guard_;
  std::unordered_map<std::string, std::unique_ptr<const Kept>> kept_;
};

inline Error *error(const CallFrame *frame, int code, const std::string &message) {
  ErrorCreateArgs args{sizeof(ErrorCreateArgs), nullptr, message.c_str(), code};
  return frame->api->error_create(&args);
}

// The text attribute of a name; null where there is none.
inline const ByteSpan *text(const Attrs &attrs, const char *name) {
  size_t length = std::strlen(name);
  for (int64_t i = 0; i < attrs.size; i++) {
    const ByteSpan &n = *attrs.names[i];
    if (n.len == length && std::memcmp(n.ptr, name, length) == 0)
      return attrs.types[i] == kAttributeString ? static_cast<const ByteSpan *>(attrs.attrs[i]) : nullptr;
  }
  return nullptr;
}

inline bool same_shape(const Buffer &buffer, const TensorSpec &spec) {
  if (buffer.rank != static_cast<int64_t>(spec.shape.size())) return false;
  for (int64_t d = 0; d < buffer.rank; d++)
    if (buffer.dims[d] != spec.shape[static_cast<size_t>(d)]) return false;
  return true;
}

// XLA asks what a handler was made for, by an extension of the frame: answered here, and true.  An answer of 0.0
// is refused.
inline bool asked_for_version(const CallFrame *frame) {
  for (Extension *e = frame->extension_start; e; e = e->next) {
    if (e->type != kExtensionMetadata) continue;
    Metadata *metadata = reinterpret_cast<MetadataExtension *>(e)->metadata;
    if (frame->struct_size < sizeof(CallFrame) || metadata->struct_size < offsetof(Metadata, traits)) return true;
    metadata->api_version.major_version = kApiMajor;
    metadata->api_version.minor_version = kApiMinor;
    return true;
  }
  return false;
}

// The error of a call whose kernel is not in the table, or that names none.
inline Error *not_here(const CallFrame *frame) {
  if (!text(frame->attrs, "kernel")) return error(frame, kInvalidArgument, "a call of tc names no kernel");
  const ByteSpan *name = text(frame->attrs, "name");
  return error(frame, kNotFound,
               "the kernel of '" + (name ? std::string(name->ptr, name->len) : std::string("a def")) +
                   "' is not in this process: trace a call of its tc.jax.op before");
}

// Why the buffers of a call are not those of the kernel; empty if they are.  `scalars` of its parameters are no
// buffers.  The addresses, parameters then results, with null for scalars, are stored at `addresses`.
inline std::string read_buffers(const CallFrame *frame, const EntryData &data, size_t scalars, void **addresses) {
  size_t tensors = data.inputs.size() - scalars, tensor = 0;
  if (frame->args.size != static_cast<int64_t>(tensors) ||
      frame->rets.size != static_cast<int64_t>(data.outputs.size()))
    return "another number of arrays than the kernel has";
  for (size_t k = 0; k < data.inputs.size(); k++) {
    addresses[k] = nullptr;
    if (data.inputs[k].scalar) continue;
    const auto *buffer = static_cast<const Buffer *>(frame->args.args[tensor++]);
    if (!same_shape(*buffer, data.inputs[k].tensor)) return "an array has another shape than the kernel is for";
    addresses[k] = buffer->data;
  }
  for (size_t k = 0; k < data.outputs.size(); k++) {
    const auto *buffer = static_cast<const Buffer *>(frame->rets.rets[k]);
    if (!same_shape(*buffer, data.outputs[k])) return "a result has another shape than the kernel's";
    addresses[data.inputs.size() + k] = buffer->data;
  }
  return "";
}

// Stores the packed values of the scalar parameters of an entry; false, with ValueError set, where they do not
// fit, or the kernel changes an array.
bool read_scalars(const EntryData &data, const std::vector<std::string> &values, std::vector<Scalar> *scalars);

}  // namespace tc::xla

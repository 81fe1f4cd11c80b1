// The part of XLA's foreign function interface that handlers of calls need: the layouts of its C
// structures, API version 0.3, of which XLA promises that they stay.  Declared here so that this extension is
// built whether or not JAX is installed; tests/interop/test_xla.py compares them with the headers of jaxlib.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tc::xla {

constexpr int kApiMajor = 0;
constexpr int kApiMinor = 3;

enum : int { kExtensionMetadata = 1 };
enum : int { kStageExecute = 3 };
enum : int { kAttributeString = 4 };
enum : int {
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
};

struct Extension {
  size_t struct_size;
  int type;
  Extension *next;
};

struct ApiVersion {
  size_t struct_size;
  Extension *extension_start;
  int major_version;
  int minor_version;
};

struct Error;

struct ErrorCreateArgs {
  size_t struct_size;
  Extension *extension_start;
  const char *message;
  int code;
};

struct StreamGetArgs {
  size_t struct_size;
  Extension *extension_start;
  void *context;
  void *stream;
};

struct MemoryAllocateArgs {
  size_t struct_size;
  Extension *extension_start;
  void *context;
  size_t size;
  size_t alignment;  // at most 16
  void *data;
};

struct MemoryFreeArgs {
  size_t struct_size;
  Extension *extension_start;
  void *context;
  size_t size;
  void *data;
};

struct OrdinalGetArgs {
  size_t struct_size;
  Extension *extension_start;
  void *context;
  int32_t device_ordinal;
};

struct ErrorDestroyArgs {
  size_t struct_size;
  Extension *extension_start;
  Error *error;
};

struct Api {  // where `struct_size` says that it has so much
  size_t struct_size;
  Extension *extension_start;
  ApiVersion api_version;
  const void *internal_api;
  Error *(*error_create)(ErrorCreateArgs *);
  void *error_get_message;
  void (*error_destroy)(ErrorDestroyArgs *);
  void *handler_register;
  Error *(*stream_get)(StreamGetArgs *);
  void *type_register, *context_get, *state_set, *state_get;
  Error *(*memory_allocate)(MemoryAllocateArgs *);
  Error *(*memory_free)(MemoryFreeArgs *);
  void *schedule, *threads, *future_create, *future_set, *future_set_error, *run_id_get;
  Error *(*ordinal_get)(OrdinalGetArgs *);
};

struct Buffer {
  size_t struct_size;
  Extension *extension_start;
  int dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
};

struct ByteSpan {
  const char *ptr;
  size_t len;
};

struct Args {
  size_t struct_size;
  Extension *extension_start;
  int64_t size;
  int *types;
  void **args;
};

struct Rets {
  size_t struct_size;
  Extension *extension_start;
  int64_t size;
  int *types;
  void **rets;
};

struct Attrs {
  size_t struct_size;
  Extension *extension_start;
  int64_t size;
  int *types;
  ByteSpan **names;
  void **attrs;
};

struct CallFrame {  // its beginning
  size_t struct_size;
  Extension *extension_start;
  const Api *api;
  void *context;
  int stage;
  Args args;
  Rets rets;
  Attrs attrs;
};

struct Metadata {  // its beginning
  size_t struct_size;
  ApiVersion api_version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata *metadata;
};

}  // namespace tc::xla

// The part of the DLPack 1.x ABI that this extension speaks, declared from its specification
// (https://dmlc.github.io/dlpack/latest/c_api.html): the tensor view, the owning container, and the
// exchange table that a library publishes as `type(t).__dlpack_c_exchange_api__`, a capsule named
// "dlpack_exchange_api".  Field order and widths are the contract; the names are ours.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tc::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocmHost = 11 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

constexpr uint32_t kMajor = 1;
constexpr uint64_t kReadOnly = 1;

struct Version {
  uint32_t major, minor;
};

struct Device {
  int32_t type, id;
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

// Strides count elements.  Before 1.2 a null `strides` meant dense row-major.
struct Tensor {
  void *data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
};

// The container of DLPack 0.x, in capsules named "dltensor".
struct ManagedLegacy {
  Tensor tensor;
  void *context;
  void (*deleter)(ManagedLegacy *);
};

// The container of DLPack 1.x, in capsules named "dltensor_versioned".
struct Managed {
  Version version;
  void *context;
  void (*deleter)(Managed *);
  uint64_t flags;
  Tensor tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader *previous;
};

struct ExchangeApi {
  ExchangeHeader header;
  // New tensor like `prototype` (dtype, ndim, shape, device); on failure calls set_error and returns
  // non-zero.
  int (*allocate)(Tensor *prototype, Managed **out, void *context,
                  void (*set_error)(void *context, const char *kind, const char *message));
  int (*managed_from_object)(void *object, Managed **out);
  int (*object_from_managed)(Managed *tensor, void **object);  // takes the tensor over
  int (*view_from_object)(void *object, Tensor *out);          // borrowed; may be null
  int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
};

static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, byte_offset) == 40, "DLTensor layout");
static_assert(offsetof(Managed, tensor) == 32, "DLManagedTensorVersioned layout");

}  // namespace tc::dlpack

"""Texts of the C interface that are the same for all kernels."""

from __future__ import annotations

# DLPack's tensor (https://dmlc.github.io/dlpack/latest/c_api.html), where its own header is not installed,
# and what functions return.
DECLARATIONS = """\
#include <stdbool.h>
#include <stdint.h>

#if defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define TC_DLPACK_H
#endif
#endif
#if !defined(TC_DLPACK_H) && !defined(DLPACK_DLPACK_H_)
#define TC_DLPACK_H
#define DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDAHost = 3, kDLROCMHost = 11 } DLDeviceType;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 }
DLDataTypeCode; typedef struct { DLDeviceType device_type; int32_t device_id; } DLDevice; typedef struct {
uint8_t code, bits; uint16_t lanes; } DLDataType; typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; null: row-major */
  uint64_t byte_offset;
} DLTensor;
#endif

#ifndef TC_STATUS_H
#define TC_STATUS_H
enum {
  TC_OK = 0,
  TC_BAD_ARGUMENT = 1,   /* a tensor of another type, rank or place in memory */
  TC_NO_KERNEL = 2,      /* sizes or scalars that no kernel was exported for */
  TC_BAD_SIZES = 3,      /* sizes that the program rules out */
  TC_OUT_OF_RANGE = 4,   /* an index in the data is out of range; results are undefined */
  TC_NO_MEMORY = 5,      /* none for temporaries */
  TC_OTHER_PROCESSOR = 6 /* no code for this processor */
};
typedef struct { float real, imag; } tc_complex64;
typedef struct { double real, imag; } tc_complex128;
#endif
"""

RUNTIME = """\
#include <cstdarg>
#include <cstdio>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

thread_local char message[1024];

__attribute__((format(printf, 2, 3))) int fail(int status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  std::vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return status;
}

inline int64_t floordiv(int64_t a, int64_t b) {
  if (b == 0) return 0;
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
inline int64_t floormod(int64_t a, int64_t b) { return b == 0 ? 0 : a - floordiv(a, b) * b; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t greatest(int64_t a, int64_t b) { return a < b ? b : a; }

struct Array {
  char *data;
  int64_t bytes;
};

// Reads a tensor of `rank` dimensions; 0, or the status of a failure.
int read_tensor(const DLTensor *t, const char *name, uint8_t code, uint8_t bits, bool any_integer,
                int32_t rank, const char *wanted, Array *out) {
  if (!t) return fail(TC_BAD_ARGUMENT, "%s is null", name);
  int device = static_cast<int>(t->device.device_type);
  if (device != 1 && device != 3 && device != 11)
    return fail(TC_BAD_ARGUMENT, "%s is on a device of DLPack type %d, and this kernel runs on the host",
                name, device);
  bool fits = t->dtype.lanes == 1 && t->dtype.code == code && t->dtype.bits == bits;
  if (any_integer)
    fits = t->dtype.lanes == 1 && t->dtype.code <= 1 &&
           (t->dtype.bits == 8 || t->dtype.bits == 16 || t->dtype.bits == 32 || t->dtype.bits == 64);
  if (!fits)
    return fail(TC_BAD_ARGUMENT, "%s: expected %s, found elements of DLPack type %d with %d bits in %d lanes",
                name, wanted, t->dtype.code, t->dtype.bits, t->dtype.lanes);
  if (t->ndim != rank)
    return fail(TC_BAD_ARGUMENT, "%s: expected %d dimensions, got %d", name, rank, t->ndim);
  int64_t elements = 1;
  for (int32_t d = 0; d < rank; d++) {
    if (t->shape[d] < 0) return fail(TC_BAD_ARGUMENT, "%s has a negative extent", name);
    if (__builtin_mul_overflow(elements, t->shape[d], &elements))
      return fail(TC_BAD_ARGUMENT, "%s has too many elements", name);
  }
  int64_t size = t->dtype.bits / 8, step = 1;
  for (int32_t d = rank; t->strides && elements && d-- > 0;) {
    if (t->shape[d] != 1 && t->strides[d] != step)
      return fail(TC_BAD_ARGUMENT, "%s is not dense and row-major: pass a copy that is", name);
    step *= t->shape[d];
  }
  out->data = static_cast<char *>(t->data) + t->byte_offset;
  if (__builtin_mul_overflow(elements, size, &out->bytes))
    return fail(TC_BAD_ARGUMENT, "%s has too many elements", name);
  if (elements && !t->data) return fail(TC_BAD_ARGUMENT, "%s has no memory", name);
  if (elements && reinterpret_cast<uintptr_t>(out->data) % static_cast<uintptr_t>(size > 8 ? 8 : size))
    return fail(TC_BAD_ARGUMENT, "%s is not aligned to its elements", name);
  return TC_OK;
}

// Gives a size its value, or compares it with the one that it has.
int bind_size(int64_t *size, const char *dim, const char **from, const char *name, int32_t d,
              int64_t extent) {
  if (!*from) {
    *from = name;
    *size = extent;
  } else if (*size != extent) {
    return fail(TC_BAD_ARGUMENT, "size %s is %lld from %s but %lld from %s (dimension %d)", dim,
                static_cast<long long>(*size), *from, static_cast<long long>(extent), name, d);
  }
  return TC_OK;
}

int check_apart(const Array &a, const char *name, const Array &b, const char *other) {
  if (a.bytes && b.bytes && a.data < b.data + b.bytes && b.data < a.data + a.bytes)
    return fail(TC_BAD_ARGUMENT, "%s and %s share memory", name, other);
  return TC_OK;
}

// The features of the processor that the system supports, as bits in the order of FEATURES.
uint64_t features() {
#if defined(__x86_64__)
  unsigned a, b, c, d, b7 = 0, c7 = 0, a71 = 0, cx = 0, x;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  unsigned c1 = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    b7 = b;
    c7 = c;
    if (a >= 1 && __get_cpuid_count(7, 1, &x, &b, &c, &d)) a71 = x;
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) cx = c;
  unsigned low = 0, high = 0;
  if (c1 >> 27 & 1) __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  bool ymm = (low & 6) == 6, zmm = (low & 0xe6) == 0xe6;
  const bool found[] = {
      (c1 >> 20 & 1) != 0,        (c1 >> 23 & 1) != 0,        ymm && (c1 >> 28 & 1),
      ymm && (b7 >> 5 & 1),       (b7 >> 3 & 1) != 0,         (b7 >> 8 & 1) != 0,
      ymm && (c1 >> 29 & 1),      ymm && (c1 >> 12 & 1),      (cx >> 5 & 1) != 0,
      (c1 >> 22 & 1) != 0,        zmm && (b7 >> 16 & 1),      zmm && (b7 >> 30 & 1),
      zmm && (b7 >> 28 & 1),      zmm && (b7 >> 17 & 1),      zmm && (b7 >> 31 & 1),
      zmm && (c7 >> 11 & 1),      ymm && (a71 >> 4 & 1),      false};
  uint64_t bits = 0;
  for (unsigned k = 0; k < sizeof found; k++) bits |= static_cast<uint64_t>(found[k]) << k;
  return bits;
#else
  return ~uint64_t{0};
#endif
}

using Function = int32_t (*)(void *const *);
struct Code {
  uint64_t required;
  Function function;
};

}  // namespace
"""
SIGNALS = """\
// No signals stop kernels here.
extern "C" const volatile int32_t *tc_signals(void) {
  static const volatile int32_t none = 0;
  return &none;
}
extern "C" int32_t tc_interrupted(void) { return 0; }
namespace tc::interrupt {
Call *current() { return nullptr; }
void set_current(Call *) {}
}  // namespace tc::interrupt
"""
# The bits of `features`.
FEATURES = (
    "sse4_2", "popcnt", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "avx512f", "avx512bw",
    "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "avx_vnni", "asimd",
)  # fmt: skip

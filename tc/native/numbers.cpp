#include "numbers.h"

#include "dlpack.h"
#include "fpmode.h"

#include <pybind11/numpy.h>

#include <cmath>
#include <cstring>
#include <type_traits>

namespace tc {
namespace {

using pybind11::detail::npy_api;

enum class Kind { kBool, kInt, kUInt, kBig, kFloat };

struct Number {
  Kind kind;
  int64_t i = 0;   // kBool, kInt
  uint64_t u = 0;  // kUInt: above the range of int64
  double f = 0;    // kFloat; kBig: the nearest double
};

constexpr int kHalf = 23;  // NPY_HALF, which npy_api does not name
constexpr int kScalarTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, kHalf};
constexpr int kScalarCount = sizeof kScalarTypes / sizeof *kScalarTypes;
PyTypeObject *scalar_types[kScalarCount];
constexpr int kComplex64 = 14;  // NPY_CFLOAT
PyTypeObject *complex64_type;

bool read_int(PyObject *value, Number *n) {
  int overflow = 0;
  long long i = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) {
    if (i == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
    *n = {Kind::kInt, i};
    return true;
  }
  if (overflow > 0) {
    unsigned long long u = PyLong_AsUnsignedLongLong(value);
    if (!PyErr_Occurred()) {
      *n = {Kind::kUInt, 0, u};
      return true;
    }
    PyErr_Clear();
  }
  double f = PyLong_AsDouble(value);
  if (f == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
  *n = {Kind::kBig, 0, 0, f};
  return true;
}

template <class T>
Number read_raw(const unsigned char *raw) {
  T value;
  std::memcpy(&value, raw, sizeof value);
  if constexpr (std::is_floating_point_v<T>) return {Kind::kFloat, 0, 0, static_cast<double>(value)};
  if constexpr (std::is_unsigned_v<T>)
    if (static_cast<uint64_t>(value) > INT64_MAX) return {Kind::kUInt, 0, static_cast<uint64_t>(value)};
  return {Kind::kInt, static_cast<int64_t>(value)};
}

bool read_numpy_scalar(PyObject *value, Number *n) {
  int type = -1;
  for (int k = 0; k < kScalarCount && type < 0; k++)
    if (Py_TYPE(value) == scalar_types[k]) type = kScalarTypes[k];
  if (type < 0) return false;
  alignas(16) unsigned char raw[16];
  npy_api::get().PyArray_ScalarAsCtype_(value, raw);
  switch (type) {
    case 0:
      *n = {Kind::kBool, raw[0] != 0};
      return true;
    case 1:
      *n = read_raw<signed char>(raw);
      return true;
    case 2:
      *n = read_raw<unsigned char>(raw);
      return true;
    case 3:
      *n = read_raw<short>(raw);
      return true;
    case 4:
      *n = read_raw<unsigned short>(raw);
      return true;
    case 5:
      *n = read_raw<int>(raw);
      return true;
    case 6:
      *n = read_raw<unsigned int>(raw);
      return true;
    case 7:
      *n = read_raw<long>(raw);
      return true;
    case 8:
      *n = read_raw<unsigned long>(raw);
      return true;
    case 9:
      *n = read_raw<long long>(raw);
      return true;
    case 10:
      *n = read_raw<unsigned long long>(raw);
      return true;
    case 11:
      *n = read_raw<float>(raw);
      return true;
    case 12:
      *n = read_raw<double>(raw);
      return true;
    default:
      *n = {Kind::kFloat, 0, 0, PyFloat_Unpack2(reinterpret_cast<char *>(raw), PY_LITTLE_ENDIAN)};
      return true;
  }
}

bool read_number(PyObject *value, Number *n) {
  if (PyBool_Check(value)) {
    *n = {Kind::kBool, value == Py_True};
    return true;
  }
  if (PyLong_CheckExact(value)) return read_int(value, n);
  if (PyFloat_CheckExact(value)) {
    *n = {Kind::kFloat, 0, 0, PyFloat_AS_DOUBLE(value)};
    return true;
  }
  return read_numpy_scalar(value, n);
}

// An integer as a double that rounds to any type of at most 51 bits of precision as the integer itself would:
// exact below 2^53, with the lost bits gathered in the last one above.
double sticky(uint64_t magnitude, bool negative) {
  if (magnitude >> 53) {
    uint64_t lost = magnitude & 0x7ff;
    magnitude = (magnitude & ~uint64_t{0x7ff}) | (lost ? 0x800 : 0);
  }
  double value = static_cast<double>(magnitude);
  return negative ? -value : value;
}

bool pack_float(const Number &n, uint8_t code, uint8_t bits, uint64_t *out) {
  bool is_integer = n.kind == Kind::kInt || n.kind == Kind::kBool || n.kind == Kind::kUInt;
  bool negative = n.i < 0;
  uint64_t magnitude = n.kind == Kind::kUInt ? n.u
                       : negative            ? -static_cast<uint64_t>(n.i)
                                             : static_cast<uint64_t>(n.i);
  double value = is_integer ? sticky(magnitude, negative) : n.f;
  *out = 0;
  if (code == dlpack::kFloat && bits == 64) {
    if (is_integer) value = n.kind == Kind::kUInt ? static_cast<double>(n.u) : static_cast<double>(n.i);
    std::memcpy(out, &value, 8);
    return true;
  }
  if (code == dlpack::kFloat && bits == 16) {
    char half[2];
    if (PyFloat_Pack2(value, half, PY_LITTLE_ENDIAN)) return PyErr_Clear(), false;
    std::memcpy(out, half, 2);
    return true;
  }
  float single = static_cast<float>(value);
  if (code == dlpack::kFloat) {
    if (std::isinf(single) && !std::isinf(value)) return false;
    std::memcpy(out, &single, 4);
    return true;
  }
  uint32_t pattern;
  if (std::isnan(value)) {
    pattern = std::signbit(value) ? 0xffc00000u : 0x7fc00000u;
  } else {
    // Round to odd first, so that the second rounding sees on which side of a tie the value was.
    std::memcpy(&pattern, &single, 4);
    double back = single;
    if (back != value) {
      if (std::fabs(back) > std::fabs(value)) pattern -= 1;
      pattern |= 1;
    }
    pattern += 0x7fff + ((pattern >> 16) & 1);
    if ((pattern & 0x7f800000u) == 0x7f800000u && !std::isinf(value)) return false;
  }
  uint16_t brain = static_cast<uint16_t>(pattern >> 16);
  std::memcpy(out, &brain, 2);
  return true;
}

// Real numbers have no imaginary part.
bool pack_complex(PyObject *value, uint8_t bits, uint64_t *out) {
  Number parts[2] = {{Kind::kFloat}, {Kind::kFloat}};
  if (PyComplex_Check(value)) {  // NumPy's complex128 is one
    parts[0].f = PyComplex_RealAsDouble(value);
    parts[1].f = PyComplex_ImagAsDouble(value);
  } else if (Py_TYPE(value) == complex64_type) {
    float raw[2];
    npy_api::get().PyArray_ScalarAsCtype_(value, raw);
    parts[0].f = raw[0];
    parts[1].f = raw[1];
  } else if (!read_number(value, &parts[0])) {
    return false;
  }
  uint64_t packed[2];
  for (int k = 0; k < 2; k++)
    if (!pack_float(parts[k], dlpack::kFloat, bits / 2, &packed[k])) return false;
  for (int k = 0; k < 2; k++)
    std::memcpy(reinterpret_cast<char *>(out) + k * (bits / 16), &packed[k], static_cast<size_t>(bits / 16));
  return true;
}

bool pack_integer(const Number &n, bool is_signed, uint8_t bits, uint64_t *out) {
  uint64_t highest = is_signed ? UINT64_MAX >> (65 - bits) : UINT64_MAX >> (64 - bits);
  if (n.kind == Kind::kUInt) {
    if (n.u > highest) return false;
    std::memcpy(out, &n.u, 8);
    return true;
  }
  if (n.i >= 0 ? static_cast<uint64_t>(n.i) > highest
               : !is_signed || n.i < -static_cast<int64_t>(highest) - 1)
    return false;
  uint64_t pattern = static_cast<uint64_t>(n.i);
  if (bits < 64) pattern &= (uint64_t{1} << bits) - 1;
#if PY_LITTLE_ENDIAN
  *out = pattern;
#else
  *out = pattern << (64 - bits);
#endif
  return true;
}

}  // namespace

bool init_numbers() {
  for (int k = 0; k < kScalarCount; k++) {
    PyObject *type = npy_api::get().PyArray_TypeObjectFromType_(kScalarTypes[k]);
    if (!type) return false;
    scalar_types[k] = reinterpret_cast<PyTypeObject *>(type);
  }
  complex64_type =
      reinterpret_cast<PyTypeObject *>(npy_api::get().PyArray_TypeObjectFromType_(kComplex64));
  return complex64_type != nullptr;
}

bool pack_number(PyObject *value, uint8_t code, uint8_t bits, uint64_t *out) {
  StandardFpMode mode;  // a caller that flushes denormals would lose them here, before the kernel runs
  if (code == dlpack::kComplex) return pack_complex(value, bits, out);
  Number n;
  if (!read_number(value, &n)) return false;
  switch (code) {
    case dlpack::kBool:
      if (n.kind != Kind::kBool) return false;
      *out = 0;
      *reinterpret_cast<unsigned char *>(out) = n.i != 0;
      return true;
    case dlpack::kInt:
    case dlpack::kUInt:
      if (n.kind == Kind::kFloat || n.kind == Kind::kBig) return false;
      return pack_integer(n, code == dlpack::kInt, bits, out);
    case dlpack::kFloat:
    case dlpack::kBfloat:
      return pack_float(n, code, bits, out);
    default:
      return false;
  }
}

}  // namespace tc

#include "numpy_types.h"

#include "dlpack.h"

#include <pybind11/numpy.h>

namespace py = pybind11;

namespace tc {
namespace {

using py::detail::npy_api;

constexpr int kUserTypes = 256;  // NPY_USERDEF
constexpr int kHalf = 23;        // NPY_HALF

struct TypeEntry {
  uint8_t code, bits;
};

// NumPy's type numbers: bool, signed and unsigned char, short, int, long, long long, float, double, long
// double (which no tensor has), and the complex ones of float and double.
constexpr TypeEntry kTypes[] = {
    {dlpack::kBool, 8},
    {dlpack::kInt, 8 * sizeof(char)},
    {dlpack::kUInt, 8 * sizeof(char)},
    {dlpack::kInt, 8 * sizeof(short)},
    {dlpack::kUInt, 8 * sizeof(short)},
    {dlpack::kInt, 8 * sizeof(int)},
    {dlpack::kUInt, 8 * sizeof(int)},
    {dlpack::kInt, 8 * sizeof(long)},
    {dlpack::kUInt, 8 * sizeof(long)},
    {dlpack::kInt, 8 * sizeof(long long)},
    {dlpack::kUInt, 8 * sizeof(long long)},
    {dlpack::kFloat, 32},
    {dlpack::kFloat, 64},
    {dlpack::kFloat, 0},
    {dlpack::kComplex, 64},
    {dlpack::kComplex, 128},
};
constexpr int kTypeCount = sizeof kTypes / sizeof *kTypes;

PyObject *bfloat16_type, *bfloat16_descr;  // of ml_dtypes, once an array of it was seen or asked for

// ml_dtypes is optional and never imported here: an array of its type means that it is there.
bool find_bfloat16() {
  if (bfloat16_type) return true;
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *module = modules ? PyDict_GetItemString(modules, "ml_dtypes") : nullptr;
  if (!module) return false;
  PyObject *type = PyObject_GetAttrString(module, "bfloat16");
  PyObject *descr = nullptr;
  if (!type || npy_api::get().PyArray_DescrConverter_(type, &descr) == 0) {
    PyErr_Clear();
    Py_XDECREF(type);
    return false;
  }
  bfloat16_type = type;
  bfloat16_descr = descr;
  return true;
}

}  // namespace

bool element_type(PyObject *object, uint8_t *code, uint8_t *bits) {
  auto *descr = py::detail::array_descriptor_proxy(object);
  if (descr->byteorder != '=' && descr->byteorder != '|') return false;
  int type = descr->type_num;
  if (type >= 0 && type < kTypeCount && kTypes[type].bits) {
    *code = kTypes[type].code;
    *bits = kTypes[type].bits;
  } else if (type == kHalf) {
    *code = dlpack::kFloat;
    *bits = 16;
  } else if (type >= kUserTypes && find_bfloat16() && descr->typeobj == bfloat16_type) {
    *code = dlpack::kBfloat;
    *bits = 16;
  } else {
    return false;
  }
  return true;
}

int type_number(uint8_t code, uint8_t bits) {
  if (code == dlpack::kFloat && bits == 16) return kHalf;
  for (int type = 0; type < kTypeCount; type++)
    if (kTypes[type].code == code && kTypes[type].bits == bits) return type;
  return -1;
}

PyObject *numpy_type(uint8_t code, uint8_t bits) {
  if (code == dlpack::kBfloat)
    return find_bfloat16() ? Py_NewRef(bfloat16_descr) : npy_api::get().PyArray_DescrFromType_(npy_api::NPY_UINT16_);
  int type = type_number(code, bits);
  if (type >= 0) return npy_api::get().PyArray_DescrFromType_(type);
  PyErr_Format(PyExc_ValueError, "no NumPy type for DLPack type (%d, %d)", int(code), int(bits));
  return nullptr;
}

}  // namespace tc

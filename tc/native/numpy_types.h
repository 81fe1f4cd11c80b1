// NumPy's element types and DLPack's (code, bits).  bfloat16 is a type of ml_dtypes, else uint16.
#pragma once

#include <Python.h>

#include <cstdint>

namespace tc {

// What a `numpy.dtype` is; false for byte-swapped elements and those that no tensor has.
bool element_type(PyObject *descr, uint8_t *code, uint8_t *bits);

// The `numpy.dtype` of a type that may be bfloat16; null with ValueError set where there is none.
PyObject *numpy_type(uint8_t code, uint8_t bits);

// NumPy's number of a type; -1 where there is none.
int type_number(uint8_t code, uint8_t bits);

}  // namespace tc

// Python and NumPy numbers as the bytes of a kernel's scalar argument.
#pragma once

#include <Python.h>

#include <cstdint>

namespace tc {

// Writes `value` as an element of DLPack type (code, bits) at `out` (8 bytes, the rest zeroed; 16 for a
// complex number of 128 bits) and returns true when no kind is lost: bool to anything, integers to integers
// that hold them or to floats, floats to floats (rounded to nearest even; a finite value never becomes
// infinite), all of them and complex numbers to complex numbers.  Everything else, other objects
// included, returns false.  Leaves no Python exception behind.
bool pack_number(PyObject *value, uint8_t code, uint8_t bits, uint64_t *out);

// Looks up NumPy's scalar types; false with an exception set on failure.
bool init_numbers();

}  // namespace tc

// One compiled kernel with the exact arguments it is for.
//
// A kernel is `int32_t kernel(void *const *args)`: for each parameter in order the address of its data (a
// tensor's first element, dense row-major; a scalar's value), then the outputs', then `int64_t error[32]`,
// zeroed (0: access id + 1 or 0, 1: offending index, 2: how many iteration indices, 3...: those), then the
// workspace, 64-byte aligned, null when its size is 0; then, for a kernel of dynamic sizes only, the values of
// these, `const int64_t *`, in the order of the program's sizes.  It returns 0, or another value when it
// recorded an error.
//
// Many entries may share one kernel: with dynamic sizes there is one for each combination of their values.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device.h"
#include "views.h"

namespace tc {

using KernelFn = int32_t (*)(void *const *);

struct TensorSpec {
  uint8_t code, bits;
  bool inout = false;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // dense row-major, in elements
  int64_t elements = 1;

  int64_t itemsize() const { return bits / 8; }
  int64_t bytes() const { return elements * itemsize(); }
};

struct InputSpec {
  bool scalar;
  bool specialized = false;
  uint64_t required = 0;  // the packed value of a specialised scalar
  TensorSpec tensor;      // a scalar uses only code and bits
};

struct EntryData {
  KernelFn kernel;
  std::vector<InputSpec> inputs;
  std::vector<TensorSpec> outputs;
  size_t workspace;
  std::vector<int64_t> sizes;  // the values of dynamic sizes
  bool release_gil;
  mutable std::atomic<bool> slow{true};  // the last call took long, or there was none
  mutable std::atomic<int64_t> loop_ns{0};  // that a parallel loop takes, at the fastest; 0: unknown
  mutable std::atomic<int> timed{0};  // calls with such loops, until there are enough
  bool tuple_result;  // result_type derives from tuple: made without calling its __new__
  std::unique_ptr<DeviceLaunch> device;  // null: the kernel is run, on the host
};

struct Entry {
  PyObject_HEAD EntryData *data;
  PyObject *result_type;  // class of several results; null: tuple
  PyObject *owner;        // keeps the machine code; null: none
  // Interned names of the parameters and of the results, both or neither.
  PyObject *parameters, *results;
};

constexpr int kErrorWords = 32;

// Runs the kernel on raw addresses (inputs, outputs; `pointers` has room for three more).  Returns its code, or
// -1 with a Python exception set when there is no memory for the workspace, or a signal stopped the kernel: told
// apart by `ran`.
// `of_torch`: of tensors of PyTorch, on whose threads long loops run.
int32_t run_kernel(const EntryData &entry, void **pointers, int64_t *error, bool *ran, bool of_torch);

// The same without Python: any thread may call it, and no exception is set.  *ran is false, and the result
// -1, when there is no memory.
int32_t run_without_python(const EntryData &entry, void **pointers, int64_t *error, bool *ran);

// The error record as (access id, offending index, (iteration indices...)); access id -1 if none is recorded.
PyObject *error_tuple(const int64_t *error);

extern PyTypeObject *entry_type;
bool init_entry(PyObject *module);

}  // namespace tc

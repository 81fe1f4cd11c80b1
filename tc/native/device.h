// Launches on a GPU by the driver's own functions: an entry whose arrays are on a device.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace tc {

constexpr size_t kMostParameters = 256;  // of a kernel

// A launch; `places` are words of the call: its arguments, the workspace, the error record, then constants.
struct DeviceStep {
  void *function;
  uint32_t blocks, threads, shared;
  std::vector<uint32_t> places;
};

struct DeviceLaunch {
  int32_t number;  // of the device
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                void *stream, void **parameters, void **extra);
  void *context;
  std::vector<DeviceStep> steps;
  std::vector<uint64_t> constants;
  uint64_t record;  // 0: no kernel has one
  bool one_stream;  // a record is that of one stream
  void *stream;
};

// The launches of a call whose arguments are `words` (addresses of arrays, bits of scalars).  Returns the
// driver's status, 0 if all is well.
int launch(const DeviceLaunch &device, const uint64_t *words, size_t count, uint64_t workspace, void *stream);

// (number, push, pop, launch, context, steps, constants, record, stream or None) with steps as (function,
// blocks, threads, shared, places); null with an exception set.
DeviceLaunch *read_device(PyObject *spec, size_t arguments);

// Error records in memory of the host, an int64 in the first `used` rows of a C-contiguous array of 32 columns,
// which is kept; none of them is watched any more with `used` 0.
bool watch_records(PyObject *array, int64_t *words, int64_t used);

// Whether a watched record has an error.  Any thread may ask, without Python.
bool record_is_set();

}  // namespace tc

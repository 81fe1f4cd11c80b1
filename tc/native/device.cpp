#include "device.h"

#include "entry.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>

namespace tc {
namespace {

struct Watched {
  PyObject *array;
  const volatile int64_t *words;  // devices write them
  int64_t used;
};
std::vector<Watched> watched;

// Of `watched`, which calls of XLA read without Python.  It lives for ever, as XLA may call while the process ends.
std::shared_mutex &watched_lock() {
  static auto *mutex = new std::shared_mutex;
  return *mutex;
}

bool bad(PyObject *spec) {
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_ValueError,
                 "expected (number, push, pop, launch, context, steps, constants, record, stream or None): %R", spec);
  return false;
}

bool read_word(PyObject *object, uint64_t *word) {
  *word = PyLong_AsUnsignedLongLongMask(object);
  return !PyErr_Occurred();
}

template <class T>
bool read_pointer(PyObject *object, T *pointer) {
  uint64_t word;
  if (!PyLong_Check(object) || !read_word(object, &word)) return false;
  *pointer = reinterpret_cast<T>(static_cast<uintptr_t>(word));
  return true;
}

bool read_step(PyObject *object, size_t words, DeviceStep *step) {
  PyObject *function, *places;
  if (!PyTuple_Check(object) || !PyArg_ParseTuple(object, "OIIIO!", &function, &step->blocks, &step->threads,
                                                  &step->shared, &PyTuple_Type, &places) ||
      !read_pointer(function, &step->function))
    return false;
  if (static_cast<size_t>(PyTuple_GET_SIZE(places)) > kMostParameters) return false;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(places); k++) {
    size_t place = PyLong_AsSize_t(PyTuple_GET_ITEM(places, k));
    if (PyErr_Occurred() || place >= words) return false;
    step->places.push_back(static_cast<uint32_t>(place));
  }
  return true;
}

bool read(PyObject *spec, size_t arguments, DeviceLaunch *made) {
  PyObject *push, *pop, *launch, *context, *steps, *constants, *record, *stream;
  if (!PyTuple_Check(spec) ||
      !PyArg_ParseTuple(spec, "iOOOOO!O!OO", &made->number, &push, &pop, &launch, &context, &PyTuple_Type, &steps,
                        &PyTuple_Type, &constants, &record, &stream))
    return bad(spec);
  if (!read_pointer(push, &made->push) || !read_pointer(pop, &made->pop) || !read_pointer(launch, &made->launch) ||
      !read_pointer(context, &made->context) || !PyLong_Check(record) || !read_word(record, &made->record) ||
      !made->push || !made->pop || !made->launch)
    return bad(spec);
  made->one_stream = stream != Py_None;
  made->stream = nullptr;
  if (made->one_stream && !read_pointer(stream, &made->stream)) return bad(spec);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(constants); k++) {
    made->constants.emplace_back();
    PyObject *constant = PyTuple_GET_ITEM(constants, k);
    if (!PyLong_Check(constant) || !read_word(constant, &made->constants.back())) return bad(spec);
  }
  size_t words = arguments + 2 + made->constants.size();
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(steps); k++) {
    made->steps.emplace_back();
    if (!read_step(PyTuple_GET_ITEM(steps, k), words, &made->steps.back())) return bad(spec);
  }
  return true;
}

}  // namespace

DeviceLaunch *read_device(PyObject *spec, size_t arguments) {
  std::unique_ptr<DeviceLaunch> made(new (std::nothrow) DeviceLaunch);
  try {
    if (made && read(spec, arguments, made.get())) return made.release();
  } catch (const std::bad_alloc &) {
    made.reset();
  }
  if (!PyErr_Occurred()) PyErr_NoMemory();
  return nullptr;
}

int launch(const DeviceLaunch &device, const uint64_t *words, size_t count, uint64_t workspace, void *stream) {
  uint64_t more[2] = {workspace, device.record};
  void *parameters[kMostParameters];
  int status = device.push(device.context);
  if (status) return status;
  for (const DeviceStep &step : device.steps) {
    for (size_t k = 0; k < step.places.size(); k++) {
      size_t place = step.places[k];
      const uint64_t *word = place < count       ? words + place
                             : place < count + 2 ? more + (place - count)
                                                 : device.constants.data() + (place - count - 2);
      parameters[k] = const_cast<uint64_t *>(word);  // the driver only reads them
    }
    status = device.launch(step.function, step.blocks, 1, 1, step.threads, 1, 1, step.shared, stream, parameters,
                           nullptr);
    if (status) break;
  }
  void *popped;
  int left = device.pop(&popped);
  return status ? status : left;
}

bool watch_records(PyObject *array, int64_t *words, int64_t used) {
  PyObject *dropped = nullptr;
  try {
    std::unique_lock<std::shared_mutex> lock(watched_lock());
    auto found = std::find_if(watched.begin(), watched.end(), [&](const Watched &w) { return w.words == words; });
    if (found == watched.end()) {
      if (used) watched.push_back({Py_NewRef(array), words, used});
    } else if (used) {
      found->used = used;
    } else {
      dropped = found->array;
      watched.erase(found);
    }
  } catch (const std::bad_alloc &) {
    Py_DECREF(array);  // which the list did not take
    PyErr_NoMemory();
    return false;
  }
  Py_XDECREF(dropped);
  return true;
}

bool record_is_set() {
  std::shared_lock<std::shared_mutex> lock(watched_lock());
  for (const Watched &w : watched)
    for (int64_t k = 0; k < w.used; k++)
      if (w.words[k * kErrorWords]) return true;
  return false;
}

}  // namespace tc

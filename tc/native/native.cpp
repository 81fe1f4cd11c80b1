// tc._native: fast calls, the thread pool, and the addresses that compiled kernels link to.  Links nothing,
// so that a bundle runs where no compiler is installed.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "arena.h"
#include "capsules.h"
#include "dispatcher.h"
#include "entry.h"
#include "fpmode.h"
#include "math.h"
#include "numbers.h"
#include "interrupt.h"
#include "objects.h"
#include "pool.h"
#include "result_memory.h"
#include "result_pool.h"
#include "views.h"
#include "xla.h"
#include "xla_device.h"

namespace py = pybind11;

namespace {

#define TC_BOTH(name)                                        \
  {"tc_" #name, reinterpret_cast<void *>(&tc_##name)}, {     \
    "tc_" #name "f", reinterpret_cast<void *>(&tc_##name##f) \
  }

const std::pair<const char *, void *> kSymbols[] = {
    {"tc_parallel_for", reinterpret_cast<void *>(&tc_parallel_for)},
    {"tc_signals", reinterpret_cast<void *>(&tc_signals)},
    {"tc_interrupted", reinterpret_cast<void *>(&tc_interrupted)},
    TC_BOTH(fdivide),
    TC_BOTH(rsqrt),
    TC_BOTH(rcbrt),
    TC_BOTH(sigmoid),
    TC_BOTH(exp10),
    TC_BOTH(sinpi),
    TC_BOTH(cospi),
    TC_BOTH(cyl_bessel_i0),
    TC_BOTH(cyl_bessel_i1),
    TC_BOTH(digamma),
    TC_BOTH(trigamma),
    TC_BOTH(erfcx),
    TC_BOTH(erfinv),
    TC_BOTH(erfcinv),
    TC_BOTH(normcdf),
    TC_BOTH(normcdfinv),
    TC_BOTH(rhypot),
    TC_BOTH(norm3d),
    TC_BOTH(rnorm3d),
    TC_BOTH(norm4d),
    TC_BOTH(rnorm4d),
};

py::dict symbols() {
  py::dict table;
  for (const auto &[name, address] : kSymbols) table[name] = reinterpret_cast<uintptr_t>(address);
  return table;
}

py::bytes pack(py::handle value, int code, int bits) {
  uint64_t packed[2] = {};
  if (!tc::pack_number(value.ptr(), static_cast<uint8_t>(code), static_cast<uint8_t>(bits), packed))
    throw py::value_error("the value does not fit the type");
  return py::bytes(reinterpret_cast<const char *>(packed), static_cast<size_t>(bits / 8));
}

py::object from_dlpack(py::handle capsule) {
  PyObject *made = tc::import_capsule(capsule.ptr());
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object describe_dlpack(py::handle capsule) {
  PyObject *made = tc::describe_capsule(capsule.ptr());
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object to_dlpack(uint64_t address, const py::tuple &shape, int code, int bits, int device_type,
                     int device_id, py::handle owner, bool versioned, bool read_only) {
  PyObject *made = tc::make_capsule({address, shape.ptr(), static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                                     device_type, device_id, versioned, read_only},
                                    owner.ptr());
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

void watch_records(const py::array_t<int64_t, py::array::c_style> &words, int64_t used) {
  if (words.ndim() != 2 || words.shape(1) != tc::kErrorWords || used < 0 || used > words.shape(0))
    throw py::value_error("expected an array of records, and how many are used");
  if (!tc::watch_records(words.ptr(), const_cast<int64_t *>(words.data()), used)) throw py::error_already_set();
}

py::object empty(const std::vector<int64_t> &shape, const py::dtype &dtype) {
  PyObject *made = tc::new_numpy_array(Py_NewRef(dtype.ptr()), static_cast<int64_t>(dtype.itemsize()),
                                       static_cast<int32_t>(shape.size()), shape.data());
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object xla_handler() {
  PyObject *made = tc::xla::handler();
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

void keep_for_xla(const std::string &key, py::handle entry, const std::vector<std::string> &scalars,
                  py::handle failed, const std::string &name) {
  if (!tc::xla::keep(key, entry.ptr(), scalars, failed.ptr(), name)) throw py::error_already_set();
}

py::object xla_device_handler() {
  PyObject *made = tc::xla::device_handler();
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

void keep_for_xla_on_device(const std::string &key, py::handle kernel, const std::vector<std::string> &scalars,
                            const std::string &name) {
  if (!tc::xla::keep_on_device(key, kernel.ptr(), scalars, name)) throw py::error_already_set();
}

void set_num_threads(int count) {
  if (count < 1 || count > 4096) throw py::value_error("the number of threads must be from 1 to 4096");
  bool done;
  {
    py::gil_scoped_release released;
    done = tc::pool::set_num_threads(count);
  }
  if (!done) throw std::runtime_error("the number of threads cannot change inside a parallel loop");
}

std::shared_ptr<tc::MachineCode> machine_code(const py::bytes &file, const py::function &resolve) {
  return std::make_shared<tc::MachineCode>(
      std::string_view(file), [&](const std::string &name) { return resolve(name).cast<uint64_t>(); });
}

uint64_t machine_code_address(const tc::MachineCode &code, const std::string &name) {
  uint64_t found = code.address(name);
  if (!found) throw py::key_error(name);
  return found;
}

// That mode for the body of a `with`, in which Python's and NumPy's own arithmetic keeps denormals too.  The
// interpreter handles no signal between entering and the body, so an interrupt cannot leave it set.
class StandardMode {
 public:
  void enter() { mode_.emplace(); }
  void exit(const py::args &) { mode_.reset(); }

 private:
  std::optional<tc::StandardFpMode> mode_;
};

// The pool's test: every item of every loop must run exactly once, with what it wrote visible afterwards, and
// in a slot of its own as long as it runs.
struct Tally {
  std::unique_ptr<std::atomic<int>[]> hits;
  std::unique_ptr<std::atomic<bool>[]> taken;  // slots
  int64_t items;
  int64_t inner;
  int64_t work;
  std::atomic<int64_t> clashes{0};
};

void inner_item(int64_t, int64_t, void *context) {
  static_cast<std::atomic<int> *>(context)->fetch_add(1, std::memory_order_relaxed);
}

void outer_item(int64_t i, int64_t slot, void *context) {
  auto *tally = static_cast<Tally *>(context);
  bool exists = slot >= 0 && slot < tally->items;
  if (!exists || tally->taken[static_cast<size_t>(slot)].exchange(true, std::memory_order_relaxed))
    tally->clashes.fetch_add(1, std::memory_order_relaxed);
  volatile double x = 1;
  for (int64_t k = 0; k < tally->work; k++) x = x * 1.0000001;
  if (tally->inner)
    tc_parallel_for(inner_item, tally->inner, &tally->hits[static_cast<size_t>(i)]);
  else
    tally->hits[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  if (exists) tally->taken[static_cast<size_t>(slot)].store(false, std::memory_order_relaxed);
}

int64_t pool_selftest(int64_t items, int64_t loops, int callers, int64_t inner, int64_t work) {
  if (items < 0 || loops < 0 || callers < 1 || inner < 0 || work < 0)
    throw py::value_error("negative argument");
  py::gil_scoped_release released;
  std::atomic<int64_t> wrong{0};
  auto caller = [&] {
    auto count = static_cast<size_t>(items);
    Tally tally{std::make_unique<std::atomic<int>[]>(count), std::make_unique<std::atomic<bool>[]>(count),
                items, inner, work};
    int expected = static_cast<int>(inner ? inner : 1);
    for (int64_t loop = 0; loop < loops; loop++) {
      for (int64_t i = 0; i < items; i++)
        tally.hits[static_cast<size_t>(i)].store(0, std::memory_order_relaxed);
      tc_parallel_for(outer_item, items, &tally);
      for (int64_t i = 0; i < items; i++)
        if (tally.hits[static_cast<size_t>(i)].load(std::memory_order_relaxed) != expected) wrong++;
    }
    wrong += tally.clashes.load();
  };
  std::vector<std::thread> threads;
  for (int k = 1; k < callers; k++) threads.emplace_back(caller);
  caller();
  for (std::thread &t : threads) t.join();
  return wrong.load();
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "Fast calls of compiled kernels, the thread pool, and functions that kernels link to.";
  if (!tc::init_numbers() || !tc::init_result_memory() || !tc::init_views() || !tc::init_entry(m.ptr()) ||
      !tc::init_dispatcher(m.ptr()))
    throw py::error_already_set();
  py::class_<StandardMode>(m, "StandardMode")
      .def(py::init<>())
      .def("__enter__", &StandardMode::enter)
      .def("__exit__", &StandardMode::exit);
  py::class_<tc::MachineCode, std::shared_ptr<tc::MachineCode>>(m, "MachineCode")
      .def(py::init(&machine_code), py::arg("file"), py::arg("resolve"))
      .def("address", &machine_code_address, py::arg("name"));
  m.def("symbols", &symbols, "Addresses of the C functions that compiled code may call.");
  m.def("pack", &pack, py::arg("value"), py::arg("code"), py::arg("bits"));
  m.def("from_dlpack", &from_dlpack, py::arg("capsule"));
  m.def("describe_dlpack", &describe_dlpack, py::arg("capsule"));
  m.def("to_dlpack", &to_dlpack, py::arg("address"), py::arg("shape"), py::arg("code"), py::arg("bits"),
        py::arg("device_type"), py::arg("device_id"), py::arg("owner"), py::arg("versioned"),
        py::arg("read_only"));
  m.def("watch_records", &watch_records, py::arg("words").noconvert(), py::arg("used"));
  m.def("empty", &empty, py::arg("shape"), py::arg("dtype"));
  m.def("xla_handler", &xla_handler);
  m.def("keep_for_xla", &keep_for_xla, py::arg("key"), py::arg("entry"), py::arg("scalars"), py::arg("failed"),
        py::arg("name"));
  m.def("xla_device_handler", &xla_device_handler);
  m.def("keep_for_xla_on_device", &keep_for_xla_on_device, py::arg("key"), py::arg("kernel"), py::arg("scalars"),
        py::arg("name"));
  m.def("get_num_threads", &tc::pool::num_threads);
  m.def("set_num_threads", &set_num_threads, py::arg("count"));
  m.def("_arena_bytes", &tc::arena_bytes);
  m.def("_poison_workspaces", &tc::poison_workspaces, py::arg("yes"));
  m.def("_result_pool_bytes", &tc::result_pool::kept_bytes);
  m.def("_pool_selftest", &pool_selftest, py::arg("items"), py::arg("loops") = 1, py::arg("callers") = 1,
        py::arg("inner") = 0, py::arg("work") = 0);
}

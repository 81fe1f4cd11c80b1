// Ctrl-C while a kernel runs.
#pragma once

#include <atomic>
#include <cstdint>

extern "C" {

// Where kernels look for signals: a number that is not 0 while one waits for Python.
const volatile int32_t *tc_signals(void);

// Whether the kernel that this thread runs is to stop.  On the thread that called the kernel, Python's signal
// handlers run, and the kernel stops if one of them raises; other threads learn of that.
int32_t tc_interrupted(void);
}

namespace tc::interrupt {

// A call of a kernel from Python's main thread, which its signals may stop.
struct Call {
  std::atomic<bool> stop{false};
};

// The call that this thread works for; null: none that signals may stop.
Call *current();
void set_current(Call *call);

// Whether what this thread works for is to stop.
inline bool asked() { return *tc_signals() && tc_interrupted(); }

// While it lives, signals of this call are seen.  `wanted`: the call may take long enough.  Only the main
// thread of a process whose SIGINT has a handler gets signals; elsewhere it does nothing.
class Watch {
 public:
  explicit Watch(bool wanted);
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;
  // Whether the kernel was stopped; then a Python exception is set.
  bool stopped() const { return call_.stop.load(std::memory_order_relaxed); }

 private:
  Call call_;
  bool installed_ = false;
};

}  // namespace tc::interrupt

// Python's handler of SIGINT only sets a flag, which the interpreter sees when the kernel has returned.  While a
// kernel runs, a handler in front of it tells the kernel, which asks Python between iterations of its loops.
#include "interrupt.h"

#include <Python.h>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace {

static_assert(sizeof(std::atomic<int32_t>) == sizeof(int32_t), "kernels load it as an i32");
std::atomic<int32_t> signals{0};
struct sigaction before;  // the handler that ours stands in front of
pthread_t caller;         // the thread whose call is watched
thread_local tc::interrupt::Call *working_for = nullptr;

void on_signal(int number, siginfo_t *info, void *context) {
  signals.store(1, std::memory_order_relaxed);
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else
    before.sa_handler(number);
}

bool on_main_thread() {
#ifdef __linux__
  return syscall(SYS_gettid) == getpid();
#else
  return pthread_main_np() != 0;
#endif
}

bool is_ours(const struct sigaction &action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_signal;
}

// Puts our handler in front of the one that is there; false where it is ours, or there is none.
bool install() {
  struct sigaction action;
  if (sigaction(SIGINT, nullptr, &action) != 0 || is_ours(action)) return false;
  bool handled =
      (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
  if (!handled) return false;
  before = action;
  action.sa_flags |= SA_SIGINFO;
  action.sa_sigaction = on_signal;
  return sigaction(SIGINT, &action, nullptr) == 0;
}

}  // namespace

extern "C" {

const volatile int32_t *tc_signals(void) { return reinterpret_cast<const volatile int32_t *>(&signals); }

int32_t tc_interrupted(void) {
  tc::interrupt::Call *call = working_for;
  if (!call) return 0;
  if (call->stop.load(std::memory_order_relaxed)) return 1;
  if (!pthread_equal(pthread_self(), caller)) return 0;
  signals.store(0, std::memory_order_relaxed);
  PyGILState_STATE state = PyGILState_Ensure();
  bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  install();  // Python code may have set another handler
  if (!raised) return 0;
  call->stop.store(true, std::memory_order_relaxed);
  signals.store(1, std::memory_order_relaxed);  // for the other threads
  return 1;
}
}

namespace tc::interrupt {

Call *current() { return working_for; }

void set_current(Call *call) { working_for = call; }

Watch::Watch(bool wanted) {
  if (!wanted || working_for || !on_main_thread()) return;
  installed_ = install();
  if (installed_) caller = pthread_self();
  if (installed_) working_for = &call_;
}

Watch::~Watch() {
  if (!installed_) return;
  working_for = nullptr;
  struct sigaction now;
  // A handler that Python installed meanwhile stays.
  if (sigaction(SIGINT, &before, &now) == 0 && !is_ours(now)) sigaction(SIGINT, &now, nullptr);
  signals.store(0, std::memory_order_relaxed);
}

}  // namespace tc::interrupt

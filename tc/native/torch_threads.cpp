// After a parallel loop the workers of OpenMP spin for some milliseconds.  A loop on a pool of its own finds a
// processor less then: a model that alternates between operators of PyTorch and kernels takes about as long as
// on one thread less.  So calls with tensors of PyTorch run on the threads that PyTorch has.
//
// libgomp has the entry `GOMP_parallel`, for what GCC makes of `#pragma omp parallel`; the runtimes of LLVM and
// Intel have it, too.  The one that PyTorch is linked to is found by its name in PyTorch's library.
#include "torch_threads.h"

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>

#include <dlfcn.h>
#include <pthread.h>

namespace tc {

namespace {

using Region = void (*)(void *);

void (*parallel)(Region, void *, unsigned threads, unsigned flags);
int (*max_threads)();
int (*in_parallel)();
int (*thread_number)();
std::atomic<bool> usable{false};

// OpenMP cannot start threads in the child of a fork: the runtime waits for those of the parent for ever.
void forget_team() { usable.store(false, std::memory_order_relaxed); }

bool is_forked() {
  constexpr unsigned long kForkNoExec = 0x40;  // PF_FORKNOEXEC of Linux
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string state;
  long skipped;
  unsigned long flags = 0;
  fields >> state;
  for (int k = 0; k < 5; k++) fields >> skipped;  // parent, group, session, terminal, its group
  return !(fields >> flags) || (flags & kForkNoExec) != 0;
}

template <class F>
bool find(void *library, const char *name, F *function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

bool found() {
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library || is_forked()) return false;
  return find(library, "GOMP_parallel", &parallel) && find(library, "omp_get_max_threads", &max_threads) &&
         find(library, "omp_in_parallel", &in_parallel) &&
         find(library, "omp_get_thread_num", &thread_number) &&
         pthread_atfork(nullptr, nullptr, forget_team) == 0;
}

int size() { return usable.load(std::memory_order_relaxed) && !in_parallel() ? max_threads() : 0; }

struct Work {
  void (*body)(int, void *);
  void *context;
};

void region(void *work) {
  auto *w = static_cast<Work *>(work);
  w->body(thread_number(), w->context);
}

void run(void (*body)(int, void *), void *context, int threads) {
  Work work{body, context};
  parallel(region, &work, static_cast<unsigned>(threads), 0);
}

constexpr pool::Team kTeam = {size, run};

}  // namespace

const pool::Team *torch_threads() {
  static bool once = (usable.store(found(), std::memory_order_relaxed), true);
  (void)once;
  return usable.load(std::memory_order_relaxed) ? &kTeam : nullptr;
}

}  // namespace tc

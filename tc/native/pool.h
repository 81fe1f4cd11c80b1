// The thread pool behind parallel loops of compiled kernels.
#pragma once

#include <cstdint>

extern "C" {
typedef void (*tc_task)(int64_t item, int64_t slot, void *context);

// Runs fn(i, slot, context) exactly once for every i in [0, n), in no fixed order and possibly on several
// threads, and returns when all have finished; what they wrote is then visible to the caller.  A thread has
// neighbouring items, those of any other loop of as many, unless it is late or done before others.  Items that
// run at the same time have different slots, in [0, n); those that a thread runs one after the other have the
// same one where there are no fewer items than threads, so that memory of a slot stays in that thread's
// caches.  A call from inside an item, or while another thread's call is running, does all its items itself.
// Items must not throw.
void tc_parallel_for(tc_task fn, int64_t n, void *context);
}

namespace tc::pool {

// Threads of another library, which has loops of its own: workers of both would spin on the same processors.
struct Team {
  // How many threads a loop of this thread may have now, the calling one included; 0: it may have none.
  int (*size)();
  // Calls body(k, context) on the calling thread, k = 0, and on others, k < size, and returns when all of
  // these calls have.
  void (*run)(void (*body)(int k, void *context), void *context, int size);
};

// While it lives, loops of this thread run on a team where it has as many threads as the pool would have.
class Borrowed {
 public:
  explicit Borrowed(const Team *team);  // null: loops run on the pool
  ~Borrowed();
  Borrowed(const Borrowed &) = delete;
  Borrowed &operator=(const Borrowed &) = delete;

 private:
  const Team *before_;
};

// Parallel loops that this thread has begun.
uint64_t loops_begun();

// Threads that take part in a parallel loop, the calling one included.
int num_threads();

// Sets that number (>= 1).  Waits for a running loop to end; false when called from inside an item.
bool set_num_threads(int count);

}  // namespace tc::pool

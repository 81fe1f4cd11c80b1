// A pool in which a loop costs the caller a store for each thread and one claim per item when nobody helps.
//
// Each thread has a share of a loop's items, neighbours of each other and the same ones in every loop of so
// many: what a thread wrote in one loop, or in the same loop of the last call, is in its caches when it reads
// it in the next.  A share is one word (next << 32 | end): its thread takes the next item, and one that has
// none left the last one of another, both by a compare-and-swap.  A claim pins the job, because the caller
// cannot leave before every claimed item is counted in `done`, so the job's fields may be read after it, and a
// claim by a thread that has slept through some jobs is as good as any.  A worker that comes late finds
// nothing to claim and touches nothing.  The caller therefore never waits for a worker that has not taken an
// item, which is what makes short loops cheap on a loaded machine.
#include "pool.h"

#include "fpmode.h"
#include "interrupt.h"

#include <cfenv>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <atomic>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

namespace {

constexpr int kCallerSpins = 2000;  // pauses before the caller starts to yield
constexpr int kCallerYields = 200;  // yields before it sleeps until the last item is counted
constexpr int kMaxThreads = 4096;
constexpr std::chrono::milliseconds kSignals(50);  // between looks for signals of a caller that sleeps

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ __volatile__("yield" ::: "memory");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

thread_local bool inside_item = false;
thread_local const tc::pool::Team *borrowed = nullptr;
thread_local uint64_t begun = 0;  // parallel loops

int environment(const char *name, int fallback, int lowest, int highest) {
  const char *text = std::getenv(name);
  if (!text || !*text) return fallback;
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  if (*end || value < lowest || value > highest) return fallback;
  return static_cast<int>(value);
}

#ifdef __linux__
// The number in a file of one, or -1.
long number_in(const std::string &path) {
  std::ifstream file(path);
  long value = -1;
  return file >> value ? value : -1;
}

// Physical cores among these processors: hyperthreads of a core share its units.
int physical_cores(const cpu_set_t &set) {
  std::set<std::pair<long, long>> cores;
  int unknown = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &set)) continue;
    std::string place = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    long package = number_in(place + "physical_package_id"), core = number_in(place + "core_id");
    if (core < 0)
      unknown++;
    else
      cores.insert({package, core});
  }
  return static_cast<int>(cores.size()) + unknown;
}

// Processors that the control group grants, rounded up; 0 without a limit.
int granted_by_cgroup() {
  long quota = -1, period = 0;
  std::ifstream file("/sys/fs/cgroup/cpu.max");  // version 2: "max 100000" or "150000 100000"
  if (!(file >> quota >> period)) {
    quota = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  return quota > 0 && period > 0 ? static_cast<int>((quota + period - 1) / period) : 0;
}
#endif

// Physical cores that the process may use.
int usable_cores() {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    int count = physical_cores(set), granted = granted_by_cgroup();
    if (granted > 0 && granted < count) count = granted;
    if (count > 0) return count;
  }
#endif
  unsigned count = std::thread::hardware_concurrency();
  return count ? static_cast<int>(count) : 1;
}

// As others count them: of a list, "4,2", the first number is for the outermost level.
int openmp_threads() {
  const char *text = std::getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  return end != text && (*end == 0 || *end == ',') && value >= 1 && value <= kMaxThreads
             ? static_cast<int>(value)
             : 0;
}

struct alignas(64) Share {
  std::atomic<uint64_t> left{0};  // next << 32 | end
};

struct Pool {
  std::unique_ptr<Share[]> shares;  // of the caller and of each worker; changed only while no worker is there
  std::atomic<int64_t> threads{1};
  alignas(64) std::atomic<uint32_t> jobs{0};  // that were opened
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) std::atomic<tc_task> fn{nullptr};
  std::atomic<void *> context{nullptr};
  std::atomic<int64_t> first{0};
  std::atomic<int64_t> count{0};
  std::atomic<bool> slot_each{false};  // a slot for each item, not for each thread
  std::atomic<tc::interrupt::Call *> owner{nullptr};  // what the job is a part of
  alignas(64) std::atomic<int> parked{0};  // workers asleep or about to be
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::mutex call;  // held by the caller that owns the workers
  std::mutex sleep;
  std::condition_variable wake_workers, wake_caller;
  std::vector<std::thread> workers;  // changed only while `call` is held
  std::atomic<int> wanted{0};        // 0: not yet read from the environment
  int spins = 0;                     // pauses of an idle worker before it parks
  std::atomic<int> caller_cpu{-1};   // where the caller runs, as of its last item
  std::atomic<int> avoided_cpu{-1};  // where no worker may run; -1: they differ, or may run everywhere
#ifdef __linux__
  cpu_set_t cpus;  // where they may run but for that
#endif
  bool started = false;
};

// Never destroyed: at exit the workers may still be parked on its condition variable.
alignas(Pool) unsigned char storage[2][sizeof(Pool)];
Pool *pool = new (storage[0]) Pool;
Pool *lent = new (storage[1]) Pool;  // of the threads that are borrowed; it has no workers

int here() {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

// Let a thread run on all processors of the pool but one; false if that leaves none.
bool keep_off(Pool &p, std::thread::native_handle_type thread, int cpu) {
#ifdef __linux__
  cpu_set_t set = p.cpus;
  CPU_CLR(cpu, &set);
  return CPU_COUNT(&set) > 0 && pthread_setaffinity_np(thread, sizeof set, &set) == 0;
#else
  (void)p, (void)thread, (void)cpu;
  return false;
#endif
}

// An item of a share, its next or its last; -1 if there is none left.
int64_t take(Share &share, bool own) {
  uint64_t v = share.left.load(std::memory_order_seq_cst);
  for (;;) {
    uint64_t next = v >> 32, end = static_cast<uint32_t>(v);
    if (next >= end) return -1;
    uint64_t after = own ? (next + 1) << 32 | end : next << 32 | (end - 1);
    if (share.left.compare_exchange_weak(v, after, std::memory_order_acq_rel, std::memory_order_acquire))
      return static_cast<int64_t>(own ? next : end - 1);
  }
}

bool claim(Pool &p, int64_t thread) {
  int64_t threads = p.threads.load(std::memory_order_relaxed);
  int64_t item = take(p.shares[thread], true);
  for (int64_t k = 1; item < 0 && k < threads; k++) item = take(p.shares[(thread + k) % threads], false);
  if (item < 0) return false;
  int64_t count = p.count.load(std::memory_order_relaxed);
  item += p.first.load(std::memory_order_relaxed);
  tc_task fn = p.fn.load(std::memory_order_relaxed);
  int64_t slot = p.slot_each.load(std::memory_order_relaxed) ? item : thread;
  tc::interrupt::set_current(p.owner.load(std::memory_order_relaxed));
  if (!tc::interrupt::asked()) fn(item, slot, p.context.load(std::memory_order_relaxed));
  if (p.done.fetch_add(1, std::memory_order_seq_cst) + 1 == count &&
      p.caller_sleeps.load(std::memory_order_seq_cst)) {
    {
      std::lock_guard<std::mutex> lock(p.sleep);
    }
    p.wake_caller.notify_one();
  }
  return true;
}

void work(Pool *p, int64_t thread) {
  // A new thread inherits its creator's floating-point mode; a caller that flushes denormals must not
  // make the pool do so for ever.
  std::fesetenv(FE_DFL_ENV);
  inside_item = true;
  int idle = 0;
  uint32_t seen = p->jobs.load(std::memory_order_seq_cst) - 1;  // of which nothing was left
  for (;;) {
    uint32_t job = p->jobs.load(std::memory_order_seq_cst);
    if (job != seen && claim(*p, thread)) {
      idle = 0;
      // The caller was moved to this processor: only this thread can tell before the loop is over.
      int cpu = here();
      if (cpu >= 0 && cpu == p->caller_cpu.load(std::memory_order_relaxed)) {
        keep_off(*p, pthread_self(), cpu);
        p->avoided_cpu.store(-1, std::memory_order_relaxed);
      }
      continue;
    }
    seen = job;
    if (p->stop.load(std::memory_order_relaxed)) return;
    if (++idle < p->spins) {
      relax();
      continue;
    }
    std::unique_lock<std::mutex> lock(p->sleep);
    p->parked.fetch_add(1, std::memory_order_seq_cst);
    p->wake_workers.wait(lock, [p, seen] {
      return p->jobs.load(std::memory_order_seq_cst) != seen || p->stop.load(std::memory_order_relaxed);
    });
    p->parked.fetch_sub(1, std::memory_order_seq_cst);
    idle = 0;
  }
}

int wanted_threads(Pool &p) {
  int count = p.wanted.load(std::memory_order_relaxed);
  if (count == 0) {
    count = environment("TC_NUM_THREADS", 0, 1, kMaxThreads);
    if (count == 0) count = openmp_threads();
    if (count == 0) count = usable_cores();
    int unset = 0;
    if (!p.wanted.compare_exchange_strong(unset, count)) count = unset;
  }
  return count;
}

// In the child of a fork the workers do not exist and any lock may be held by nobody.
void forget_workers() {
  int count = pool->wanted.load(std::memory_order_relaxed);
  pool = new (storage[0]) Pool;
  lent = new (storage[1]) Pool;
  pool->wanted.store(count, std::memory_order_relaxed);
  inside_item = false;
}

void watch_forks() {
  static bool registered = (pthread_atfork(nullptr, nullptr, forget_workers), true);
  (void)registered;
}

// A woken worker is often put on the processor of the thread that woke it, and when the two have no more
// processors than threads, one of which idles then, nothing moves it before the caller is done: the loop takes
// twice as long.  So workers keep off the caller's processor.  `call` is held.
void keep_off_caller(Pool &p) {
  constexpr size_t kMost = 16;  // with more it matters less, and a caller that moves would cost more
  int cpu = here();
  p.caller_cpu.store(cpu, std::memory_order_relaxed);
  if (cpu < 0 || cpu == p.avoided_cpu.load(std::memory_order_relaxed) || p.workers.size() > kMost) return;
  for (std::thread &t : p.workers)
    if (!keep_off(p, t.native_handle(), cpu)) return;
  p.avoided_cpu.store(cpu, std::memory_order_relaxed);
}

// `call` is held.
void start(Pool &p) {
  watch_forks();
  p.started = true;
  p.avoided_cpu.store(-1, std::memory_order_relaxed);
#ifdef __linux__
  CPU_ZERO(&p.cpus);
  sched_getaffinity(0, sizeof p.cpus, &p.cpus);
#endif
  // About 50 us: calls that follow each other closely find the workers awake.
  p.spins = environment("TC_SPIN", 4000, 0, INT_MAX);
  int workers = wanted_threads(p) - 1;
  if (workers <= 0) return;
  p.threads.store(1, std::memory_order_relaxed);  // until all are there, each looks at its own share only
  p.shares.reset(new Share[static_cast<size_t>(workers) + 1]);
  // Signals belong to the threads of the program, above all to Python's main thread.
  sigset_t all, before;
  sigfillset(&all);
  bool masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
  try {
    p.workers.reserve(static_cast<size_t>(workers));
    for (int i = 0; i < workers; i++) p.workers.emplace_back(work, &p, i + 1);
  } catch (const std::exception &) {
    // The system gives no more threads: the loop is right with those there are.
  }
  p.threads.store(static_cast<int64_t>(p.workers.size()) + 1, std::memory_order_relaxed);
  if (masked) pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// `call` is held and no job is open.
void halt(Pool &p) {
  {
    std::lock_guard<std::mutex> lock(p.sleep);
    p.stop.store(true, std::memory_order_seq_cst);
  }
  p.wake_workers.notify_all();
  for (std::thread &t : p.workers) t.join();
  p.workers.clear();
  p.stop.store(false, std::memory_order_seq_cst);
  p.started = false;
}

// Make a job known to the threads.  `call` is held; count fits 32 bits.
void open_job(Pool &p, tc_task fn, int64_t first, int64_t count, void *context) {
  uint64_t threads = static_cast<uint64_t>(p.threads.load(std::memory_order_relaxed)), from = 0;
  p.fn.store(fn, std::memory_order_relaxed);
  p.context.store(context, std::memory_order_relaxed);
  p.first.store(first, std::memory_order_relaxed);
  p.count.store(count, std::memory_order_relaxed);
  p.slot_each.store(static_cast<uint64_t>(count) < threads, std::memory_order_relaxed);
  p.owner.store(tc::interrupt::current(), std::memory_order_relaxed);
  p.done.store(0, std::memory_order_relaxed);
  for (uint64_t t = 0; t < threads; t++) {
    uint64_t items = static_cast<uint64_t>(count), to = from + items / threads + (t < items % threads);
    p.shares[t].left.store(from << 32 | to, std::memory_order_release);
    from = to;
  }
  p.jobs.fetch_add(1, std::memory_order_seq_cst);
}

// Wait until all items are done; all of them were claimed.
void wait_for_items(Pool &p) {
  int64_t count = p.count.load(std::memory_order_relaxed);
  for (int i = 0; i < kCallerSpins; i++) {
    if (p.done.load(std::memory_order_acquire) == count) return;
    relax();
  }
  for (int i = 0; i < kCallerYields; i++) {
    if (p.done.load(std::memory_order_acquire) == count) return;
    std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(p.sleep);
  p.caller_sleeps.store(true, std::memory_order_seq_cst);
  auto all_done = [&] { return p.done.load(std::memory_order_seq_cst) == count; };
  while (!p.wake_caller.wait_for(lock, kSignals, all_done)) {
    lock.unlock();
    tc::interrupt::asked();  // so that the workers learn of it
    lock.lock();
  }
  p.caller_sleeps.store(false, std::memory_order_relaxed);
}

// On the workers of the pool.  `call` is held; count fits 32 bits.
void run_job(Pool &p, tc_task fn, int64_t first, int64_t count, void *context) {
  open_job(p, fn, first, count, context);
  if (p.parked.load(std::memory_order_seq_cst) > 0) {
    {
      std::lock_guard<std::mutex> lock(p.sleep);
    }
    p.wake_workers.notify_all();
  }
  inside_item = true;
  while (claim(p, 0)) p.caller_cpu.store(here(), std::memory_order_relaxed);
  inside_item = false;
  p.caller_cpu.store(-1, std::memory_order_relaxed);  // it waits now, and may well share a processor
  wait_for_items(p);
}

// What a borrowed thread does.
void lend_a_hand(int thread, void *context) {
  Pool &p = *static_cast<Pool *>(context);
  tc::StandardFpMode mode;
  tc::interrupt::Call *call = tc::interrupt::current();
  inside_item = true;
  while (claim(p, thread)) {
  }
  inside_item = false;
  tc::interrupt::set_current(call);
  if (thread == 0) wait_for_items(p);
}

// On borrowed threads.  The pool's `call` is held; count fits 32 bits.
void run_borrowed(const tc::pool::Team &team, int size, tc_task fn, int64_t first, int64_t count, void *context) {
  Pool &p = *lent;
  if (p.threads.load(std::memory_order_relaxed) != size) {
    watch_forks();
    p.shares.reset(new Share[static_cast<size_t>(size)]);
    p.threads.store(size, std::memory_order_relaxed);
  }
  open_job(p, fn, first, count, context);
  team.run(lend_a_hand, &p, size);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void tc_parallel_for(tc_task fn, int64_t n, void *context) {
  Pool &p = *pool;
  if (n > 1 && !inside_item) begun++;
  if (n > 1 && !inside_item && p.call.try_lock()) {
    std::lock_guard<std::mutex> owner(p.call, std::adopt_lock);
    constexpr int64_t kMost = UINT32_MAX;
    int size = borrowed ? borrowed->size() : 0;
    bool lend = size > 1 && size == wanted_threads(p);
    if (!lend && !p.started) start(p);
    if (lend || !p.workers.empty()) {
      if (!lend) keep_off_caller(p);
      for (int64_t first = 0; first < n; first += kMost) {
        int64_t count = n - first < kMost ? n - first : kMost;
        if (lend)
          run_borrowed(*borrowed, size, fn, first, count, context);
        else
          run_job(p, fn, first, count, context);
      }
      return;
    }
  }
  for (int64_t i = 0; i < n && !tc::interrupt::asked(); i++) fn(i, 0, context);
}

namespace tc::pool {

Borrowed::Borrowed(const Team *team) : before_(borrowed) { borrowed = team; }

Borrowed::~Borrowed() { borrowed = before_; }

uint64_t loops_begun() { return begun; }

int num_threads() { return wanted_threads(*::pool); }

bool set_num_threads(int count) {
  if (inside_item) return false;
  Pool &p = *::pool;
  std::lock_guard<std::mutex> owner(p.call);
  if (p.started && static_cast<int>(p.workers.size()) != count - 1) halt(p);
  p.wanted.store(count, std::memory_order_relaxed);
  return true;
}

}  // namespace tc::pool

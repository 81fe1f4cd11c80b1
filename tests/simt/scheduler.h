/* Who runs when: fibres, barriers, operations of warps, the watchdog, asynchronous copies. */
#pragma once

#include "accesses.h"

namespace {

/* ---- The scheduler. */

void fibre_main() {
  for (;;) {
    machine.entry(machine.arguments);
    me->state = kDone;
    Fibre &fibre = fibres[me->id];
    if (!_setjmp(fibre.context)) _longjmp(scheduler, 1);
  }
}

/* Runs a thread until it waits, ends or is abandoned. */
void resume(uint32_t id) {
  Fibre &fibre = fibres[id];
  me = &threads[id];
  my_stack = (uintptr_t)fibre.stack;
  mine.time = machine.now;
  mine.thread = id;
  mine.clock = me->seen[me->lane];
  budget = machine.limit;
  turns++;
  if (!_setjmp(scheduler)) {
    if (fibre.started) _longjmp(fibre.context, 1);
    fibre.started = true;
    setcontext(&fibre.start);
  }
}

/* Back to the scheduler until the state is kReady again. */
void wait(State state) {
  Thread *self = me;
  self->state = state;
  if (!_setjmp(fibres[self->id].context)) _longjmp(scheduler, 1);
}

void prepare_fibre(uint32_t id) {
  Fibre &fibre = fibres[id];
  if (!stacks) {
    void *p = mmap(nullptr, kStack * kMaxThreads, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    stacks = (char *)p;
  }
  fibre.stack = stacks + kStack * id;
  size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  mprotect(fibre.stack, guard, PROT_NONE);
  getcontext(&fibre.start);
  fibre.start.uc_stack.ss_sp = fibre.stack + guard;
  fibre.start.uc_stack.ss_size = kStack - guard;
  fibre.start.uc_link = nullptr;
  makecontext(&fibre.start, fibre_main, 0);
  fibre.started = false;
}

uint32_t warp_end(uint32_t first) { return std::min(first + kWarp, machine.threads); }

/* The lanes of a mask that are there and have not ended. */
uint32_t expected(uint32_t first, uint32_t mask) {
  uint32_t lanes = 0;
  for (uint32_t i = first; i < warp_end(first); i++)
    if (threads[i].state != kDone) lanes |= 1u << (i - first);
  return lanes & mask;
}

bool together(const Thread &a, const Thread &b) {
  return b.state == kAtWarp && b.mask == a.mask && b.line == a.line && b.how == a.how;
}

uint64_t shuffled(const Thread &t, uint32_t first, uint32_t lanes) {
  int width = t.width, lane = (int)t.lane, base = lane & ~(width - 1), end = base + width;
  int source = lane;
  switch (t.how) {
  case 0: source = base + (int)(t.operand & (uint32_t)(width - 1)); break;
  case 1: source = lane - (int)t.operand < base ? lane : lane - (int)t.operand; break;
  case 2: source = t.operand >= (uint32_t)(end - lane) ? lane : lane + (int)t.operand; break;
  case 3: source = (lane ^ (int)t.operand) >= end ? lane : lane ^ (int)t.operand; break;
  }
  if (source >= 0 && source < kWarp && lanes >> source & 1) return threads[first + source].value;
  if (Finding *f = report(kShuffle, kWaitsWarp, t.site, nullptr, kRead, -1, 0)) {
    f->thread = t.id;
    f->value = source;
    snprintf(f->note, sizeof f->note, "takes a value from lane %d, which does not take part", source);
  }
  return ~0ull;
}

/* Lets go on the lanes of a warp that all wait at the same place. */
bool release_warp(uint32_t first) {
  bool any = false;
  for (uint32_t i = first; i < warp_end(first); i++) {
    Thread &t = threads[i];
    if (t.state != kAtWarp) continue;
    uint32_t lanes = expected(first, t.mask);
    bool all = true;
    for (uint32_t j = 0; j < kWarp && all; j++)
      if (lanes >> j & 1) all = together(t, threads[first + j]);
    if (!all) continue;
    any = true;
    uint32_t joined[kWarp] = {}, ballot = 0;
    uint64_t results[kWarp];
    for (uint32_t j = 0; j < kWarp; j++) {
      if (!(lanes >> j & 1)) continue;
      Thread &u = threads[first + j];
      for (int k = 0; k < kWarp; k++) joined[k] = std::max(joined[k], u.seen[k]);
      if (u.value) ballot |= 1u << j;
      results[j] = u.how >= 0 ? shuffled(u, first, lanes) : 0;
    }
    for (uint32_t j = 0; j < kWarp; j++) {
      if (!(lanes >> j & 1)) continue;
      Thread &u = threads[first + j];
      u.state = kReady;
      u.value = u.how == -2 ? ballot : results[j];
      if (u.how == -1) { // shuffles and votes order no memory
        memcpy(u.seen, joined, sizeof joined);
        u.seen[j]++;
      }
    }
  }
  return any;
}

Mark standing(const Thread &t) {
  Mark m{};
  m.time = machine.now;
  m.thread = t.id;
  m.site = t.state == kDone ? 0 : t.site;
  return m;
}

What standing_at(const Thread &t) {
  switch (t.state) {
  case kAtBarrier: return kWaitsBlock;
  case kAtWarp: return kWaitsWarp;
  case kDone: return kEnded;
  default: return kRuns;
  }
}

void stuck(Kind kind, Thread &a, const Thread &b) {
  me = &a;
  Mark other = standing(b);
  if (Finding *f = report(kind, standing_at(a), a.site, &other, standing_at(b), -1, 0))
    if (a.state == kAtWarp && b.state == kAtWarp && a.mask != b.mask)
      snprintf(f->note, sizeof f->note, "masks 0x%08x and 0x%08x", a.mask, b.mask);
  machine.stop = true;
}

/* No thread can run: whether that is a barrier that all have reached.  Else the launch stops. */
bool release_block() {
  Thread *waits = nullptr, *ended = nullptr;
  for (uint32_t i = 0; i < machine.threads; i++) {
    Thread &t = threads[i];
    if (t.state == kAtWarp) {
      uint32_t first = i / kWarp * kWarp, lanes = expected(first, t.mask);
      for (uint32_t j = 0; j < kWarp; j++)
        if (lanes >> j & 1 && !together(t, threads[first + j]))
          return stuck(kWarpSync, t, threads[first + j]), false;
    }
    if (t.state == kAtBarrier && !waits) waits = &t;
    if (t.state == kDone && !ended) ended = &t;
  }
  if (!waits) return false; // all have ended
  if (ended) return stuck(kBarrier, *waits, *ended), false;
  uint64_t count = 0;
  for (uint32_t i = 0; i < machine.threads; i++) {
    if (threads[i].line != waits->line) return stuck(kBarrier, *waits, threads[i]), false;
    count += threads[i].value;
  }
  machine.now++;
  for (uint32_t i = 0; i < machine.threads; i++) {
    Thread &t = threads[i];
    t.state = kReady;
    t.value = count;
    memset(t.seen, 0, sizeof t.seen); // the new epoch orders more
    t.seen[t.lane] = 1;
  }
  return true;
}

uint64_t next_random() { // xorshift64*, Marsaglia 2003, Vigna 2016
  uint64_t &x = machine.random;
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  return x * 0x2545f4914f6cdd1dull;
}

void arrange(std::vector<uint32_t> &v, size_t n) {
  v.resize(n);
  for (size_t i = 0; i < n; i++) v[i] = (uint32_t)(machine.order == kDescending ? n - 1 - i : i);
  if (machine.order == kRandom)
    for (size_t i = n; i > 1; i--) std::swap(v[i - 1], v[next_random() % i]);
}

void run_block() {
  machine.block_began = ++machine.now;
  for (uint32_t i = 0; i < machine.threads; i++) {
    Thread &t = threads[i];
    t.state = kReady;
    t.id = i;
    t.lane = i % kWarp;
    memset(t.seen, 0, sizeof t.seen);
    t.seen[t.lane] = 1;
    t.copies.clear();
    t.groups.clear();
  }
  for (Region &r : machine.regions)
    if (r.shared) memset((void *)r.info.begin, 0xff, r.info.bytes); // NaN in every format, -1 as an index
  std::vector<uint32_t> order;
  for (;;) {
    arrange(order, machine.threads);
    bool ran = false;
    for (uint32_t i : order) {
      if (threads[i].state != kReady) continue;
      ran = true;
      resume(i);
      if (machine.stop) return;
    }
    if (ran) {
      bool released = false;
      for (uint32_t first = 0; first < machine.threads; first += kWarp) released |= release_warp(first);
      if (released) continue;
    }
    if (!release_block()) return;
  }
}

/* ---- The watchdog.  Steps are counted by calls that the compiler puts into each basic block, but a loop that
 * it proves endless becomes one jump to itself without any.  So a timer looks, five times in a second of the
 * thread's own time, whether a step was made; if not, the fibre is left from within the signal's handler, which
 * is safe there: it interrupts that jump and nothing else. */
class Watchdog {
public:
  Watchdog() {
    struct sigaction action {};
    action.sa_sigaction = look;
    action.sa_flags = SA_SIGINFO | SA_NODEFER; // the handler may not return
    sigaction(SIGVTALRM, &action, &before_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGVTALRM;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    running_ = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
    itimerspec every{{0, 200'000'000}, {0, 200'000'000}};
    if (running_) timer_settime(timer_, 0, &every, nullptr);
    last_turns = ~0ull;
  }
  ~Watchdog() {
    if (running_) timer_delete(timer_);
    sigaction(SIGVTALRM, &before_, nullptr);
  }

private:
  static void look(int, siginfo_t *, void *where) {
    bool stands = me && turns == last_turns && budget == last_budget;
    last_turns = turns;
    last_budget = budget;
    if (!stands) return;
    uintptr_t pc = 0;
#if defined(__x86_64__)
    pc = (uintptr_t)((ucontext_t *)where)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    pc = (uintptr_t)((ucontext_t *)where)->uc_mcontext.pc;
#endif
    if (pc < machine.code || pc >= machine.code_end) return;
    report(kNoProgress, kRuns, site_of((void *)(pc + 1)), nullptr, kRead, -1, 0);
    abandon();
  }

  static inline volatile uint64_t last_turns;
  static inline volatile int64_t last_budget;
  struct sigaction before_;
  timer_t timer_;
  bool running_;
};

/* ---- Asynchronous copies. */

/* Completes the first `count` copies of the thread. */
void complete(size_t count) {
  for (size_t i = 0; i < count; i++) {
    AsyncCopy &a = me->copies[i];
    memcpy(a.to, a.from, (size_t)a.source_bytes);
    memset(a.to + a.source_bytes, 0, (size_t)(a.bytes - a.source_bytes));
    Region &r = machine.regions[machine.owners[(uintptr_t)a.to - machine.shared] - 1];
    uint64_t offset = (uintptr_t)a.to - r.info.begin;
    for (uint64_t o = offset >> r.shift; o <= (offset + (uint64_t)a.bytes - 1) >> r.shift; o++)
      r.cells[o].write = mark(r.cells[o].write.site, kMarkCopy);
  }
  me->copies.erase(me->copies.begin(), me->copies.begin() + (std::ptrdiff_t)count);
}

void close_session() {
  for (Region &r : machine.regions) free(r.cells);
  machine.regions.clear();
  machine.chunks.clear();
  machine.owners.clear();
  machine.arena_bytes = machine.shared_bytes = 0;
}

int find_module(dl_phdr_info *info, size_t, void *entry) {
  uintptr_t begin = ~(uintptr_t)0, end = 0;
  machine.constants.clear();
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto &h = info->dlpi_phdr[i];
    uintptr_t from = info->dlpi_addr + h.p_vaddr, to = from + h.p_memsz;
    if ((h.p_type == PT_LOAD && !(h.p_flags & PF_W)) || h.p_type == PT_GNU_RELRO)
      machine.constants.emplace_back(from, to);
    if (h.p_type != PT_LOAD) continue;
    begin = std::min(begin, from);
    end = std::max(end, to);
  }
  if ((uintptr_t)entry < begin || (uintptr_t)entry >= end) return 0;
  machine.code = info->dlpi_addr;
  machine.code_end = end;
  return 1;
}

} // namespace

/* The machine that runs a CUDA text compiled against simt.h: the threads of a block are fibres, one block runs
 * after the other, and every load and store of the text is seen, because the text is compiled with
 * -fsanitize=thread and the functions that the compiler calls before each access are defined here.
 *
 * Who touched a location last is kept per granule (1, 2 or 4 bytes) in a Cell, with the time in two parts: the
 * block's epoch, which a __syncthreads ends, and a vector clock over the lanes of a warp, which __syncwarp
 * joins.  Two accesses by two threads of a block race if neither part orders them, and two by two blocks of
 * one launch always do; atomic updates do not race with one another.  (The happens-before detectors after
 * Flanagan and Freund, "FastTrack", PLDI 2009; two readers are enough here, see Several.)
 */
#include "native/math.h"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <link.h>
#include <map>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <tuple>
#include <ucontext.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
constexpr size_t kStack = 256 << 10;
constexpr size_t kChunk = 256; // arena.py starts each global array in a chunk of its own
constexpr size_t kMaxFindings = 512;
constexpr uint32_t kAll = ~0u;

/* findings.py and module.py know the values of the next three. */
enum Kind : uint32_t {
  kRace,
  kUninitialised,
  kOutOfBounds,
  kIndex,
  kMisaligned,
  kBarrier,
  kWarpSync,
  kShuffle,
  kUnfinishedCopy,
  kForeignStack,
  kStatic,
  kNoProgress,
  kTrap,
  kBadCopy,
};
enum What : uint32_t { kRead, kWrite, kAtomic, kCopy, kWaitsBlock, kWaitsWarp, kEnded, kRuns, kExchange };
enum Order : int { kAscending, kDescending, kRandom };

struct Finding {
  uint32_t kind, count;
  uint32_t block, thread, site, what;
  uint32_t other_block, other_thread, other_site, other_what, has_other;
  int32_t region;
  uint64_t offset; // in the region, or the address where there is none
  int64_t value;
  char note[64];
};

struct RegionInfo { // as shim.py fills it in
  uintptr_t begin;
  uint64_t bytes;
  uint32_t granule;
  uint32_t defined;   // holds values before the first launch
  uint32_t alignment; // that the text asks for, in bytes
  uint32_t unused;
};

/* ---- Shadow memory. */

enum : uint32_t { kMarkPending = 1, kMarkCopy = 2 };

struct Mark { // an access: time 0 is "none"
  uint32_t time;
  uint32_t thread : 10, clock : 22;
  uint32_t site : 24, flags : 8;
};

/* Accesses that do not exclude one another, since the last plain write.  Two are enough to find out whether the
 * next plain write races with any of them, if they are of two warps where there are two: that write is not by
 * both threads, and if a __syncwarp orders the one before it, it does not order the other. */
struct Several {
  Mark first, second;
};

struct Cell {
  Mark write;
  Several reads, atomics;
};

struct Region {
  RegionInfo info;
  Cell *cells;
  int shift;
  bool shared;
};

/* ---- Threads. */

enum State { kReady, kAtBarrier, kAtWarp, kDone };

struct AsyncCopy {
  char *to;
  const char *from;
  int bytes, source_bytes;
};

struct Thread {
  State state;
  uint32_t id, lane;
  uint32_t seen[kWarp]; // vector clock over the lanes of the warp
  int line;             // where it waits
  uint32_t site;
  int how; // which of the warp's operations; -1 is __syncwarp, -2 a vote
  uint32_t mask, operand;
  int width;
  uint64_t value;
  std::vector<AsyncCopy> copies;
  std::vector<size_t> groups; // how many of the first copies each committed group ends at
};

struct Fibre { // outlives the threads that run on it: a finished one is used again
  bool started = false;
  jmp_buf context;
  ucontext_t start;
  char *stack = nullptr;
};

struct Machine {
  // One launch.
  void (*entry)(void **) = nullptr;
  void **arguments = nullptr;
  uint32_t grid[3], size[3];
  uint32_t threads = 0;
  uint32_t index[3]; // blockIdx
  // Time counts epochs through the whole session: each block begins a new one, each barrier too.
  uint32_t now = 0, block_began = 0, launch_began = 0;
  std::vector<std::pair<uint32_t, uint32_t>> blocks; // of this launch, when each began
  uint64_t random = 1;
  int order = kAscending;
  int64_t limit = 0;
  uintptr_t code = 0, code_end = 0;                         // the module
  std::vector<std::pair<uintptr_t, uintptr_t>> constants{}; // its parts that nothing writes to
  bool stop = false;

  // Memory.
  uintptr_t arena = 0, shared = 0;
  size_t arena_bytes = 0, shared_bytes = 0;
  std::vector<Region> regions;
  std::vector<uint16_t> chunks; // region + 1 of each chunk of the arena
  std::vector<uint16_t> owners; // region + 1 of each byte of shared memory

  std::vector<Finding> findings;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int32_t>, size_t> known;
};

Machine machine;
Thread threads[kMaxThreads];
Fibre fibres[kMaxThreads];
Thread *me = nullptr; // none while no fibre runs
uintptr_t my_stack = 0;
Mark mine{}; // what the running fibre leaves behind; its time and clock stand still until it waits
int64_t budget = 0; // steps before a thread that neither waits nor ends is given up
char *stacks = nullptr;
uint64_t turns = 0; // how often a fibre was resumed
jmp_buf scheduler;

/* Which block of this launch ran then. */
uint32_t block_at(uint32_t time) {
  auto after = std::upper_bound(machine.blocks.begin(), machine.blocks.end(), std::make_pair(time, ~0u));
  return after == machine.blocks.begin() ? 0 : after[-1].second;
}

uint32_t site_of(const void *pc) { return (uint32_t)((uintptr_t)pc - machine.code) & 0xffffff; }

/* ---- Findings. */

Finding *report(Kind kind, What what, uint32_t site, const Mark *other, What other_what, int32_t region,
                uint64_t offset) {
  uint32_t other_site = other ? other->site : 0;
  auto [place, added] =
      machine.known.insert({{kind, site, other_site, region}, machine.findings.size()});
  if (!added) {
    machine.findings[place->second].count++;
    return nullptr;
  }
  if (machine.findings.size() >= kMaxFindings) {
    machine.known.erase(place);
    return nullptr;
  }
  Finding f{};
  f.kind = kind;
  f.count = 1;
  f.block = block_at(machine.now);
  f.thread = me ? me->id : 0;
  f.site = site;
  f.what = what;
  if (other) {
    f.has_other = 1;
    f.other_block = block_at(other->time);
    f.other_thread = other->thread;
    f.other_site = other->site;
    f.other_what = other_what;
  }
  f.region = region;
  f.offset = offset;
  machine.findings.push_back(f);
  return &machine.findings.back();
}

/* Leaves the launch from within a fibre, whose frames are abandoned. */
[[noreturn]] void abandon() {
  machine.stop = true;
  _longjmp(scheduler, 1);
}

/* ---- Accesses. */

bool before(const Mark &m, bool shared) {
  if (m.time != machine.now) return m.time >= machine.block_began || shared || m.time < machine.launch_began;
  if (m.thread == me->id) return true;
  return m.thread / kWarp == me->id / kWarp && me->seen[m.thread % kWarp] >= m.clock;
}

Mark mark(uint32_t site, uint32_t flags = 0) {
  Mark m = mine;
  m.site = site;
  m.flags = flags;
  return m;
}

What what_of(const Mark &m) {
  return m.flags & kMarkCopy ? kCopy : kWrite;
}

struct Touch { // one access to one region
  Region &region;
  int32_t number;
  uint64_t offset;
  uint32_t site;
  What what;

  bool conflict(const Mark &with, What with_what) const {
    report(kRace, what, site, &with, with_what, number, offset);
    return true;
  }

  bool written(const Cell &c) const {
    uint32_t since = region.shared ? machine.block_began : 1;
    if (!region.shared && region.info.defined) return true;
    return c.write.time >= since || c.atomics.first.time >= since;
  }

  bool pending(const Cell &c) const {
    if (!(c.write.flags & kMarkPending) || c.write.time < machine.block_began) return false;
    report(kUnfinishedCopy, what, site, &c.write, kCopy, number, offset);
    return true;
  }

  bool conflict(const Several &with, What with_what) const {
    for (const Mark *m : {&with.first, &with.second})
      if (!before(*m, region.shared)) return conflict(*m, with_what);
    return false;
  }

  bool uninitialised(const Cell &c) const {
    if (written(c)) return false;
    report(kUninitialised, what, site, nullptr, kRead, number, offset);
    return true;
  }

  /* An access that happened before this one may go: what is ordered after this one is ordered after that. */
  void add(Several &s) const {
    Mark m = mark(site);
    if (before(s.first, region.shared)) {
      s.first = m;
      if (before(s.second, region.shared)) s.second.time = 0;
    } else if (before(s.second, region.shared) ||
               (s.first.time == s.second.time && s.first.thread / kWarp == s.second.thread / kWarp &&
                (s.first.time != m.time || s.first.thread / kWarp != m.thread / kWarp))) {
      s.second = m;
    }
  }

  bool conflict_with_write(const Cell &c) const {
    return pending(c) || (!before(c.write, region.shared) && conflict(c.write, what_of(c.write)));
  }

  void read(Cell &c) const {
    const Mark &w = c.write;
    bool plain = w.flags == 0 && c.atomics.first.time == 0 && w.time != machine.now && w.time != 0 &&
                 (w.time >= machine.block_began || (w.time < machine.launch_began && !region.shared));
    // One finding an access: the first of these that holds.  In the usual case, made fast here, none can.
    if (!plain) (void)(conflict_with_write(c) || conflict(c.atomics, kAtomic) || uninitialised(c));
    add(c.reads);
  }

  void update(Cell &c) const {
    (void)(conflict_with_write(c) || conflict(c.reads, kRead) || (what == kAtomic && uninitialised(c)));
    add(c.atomics);
  }

  void write(Cell &c) const {
    (void)(conflict_with_write(c) || conflict(c.reads, kRead) || conflict(c.atomics, kAtomic));
    c.write = mark(site, what == kCopy ? (uint32_t)kMarkCopy : 0);
    c.reads = c.atomics = Several{};
  }
};

[[noreturn]] void outside(uintptr_t p, unsigned bytes, What what, uint32_t site, int32_t region,
                          uint64_t offset) {
  if (Finding *f = report(kOutOfBounds, what, site, nullptr, kRead, region, offset)) {
    f->value = bytes;
    snprintf(f->note, sizeof f->note, p < 4096 ? "a null pointer" : "");
  }
  abandon();
}

/* Anything but shared memory, the arrays of the launch and the thread's own stack. */
void elsewhere(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  uintptr_t pool = (uintptr_t)stacks;
  if (p - pool < kStack * kMaxThreads) {
    report(kForeignStack, what, site, nullptr, kRead, -1, p);
    abandon();
  }
  if (p >= machine.code && p < machine.code_end) {
    for (auto [begin, end] : machine.constants)
      if (what == kRead && p >= begin && p + bytes <= end) return; // a constant table
    report(kStatic, what, site, nullptr, kRead, -1, p - machine.code);
    abandon();
  }
  outside(p, bytes, what, site, -1, p);
}

int32_t find_shared(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  size_t offset = p - machine.shared;
  int32_t number = (int32_t)machine.owners[offset] - 1;
  if (number < 0) { // between two arrays: named after the one in front
    while (number < 0 && offset) number = (int32_t)machine.owners[--offset] - 1;
    outside(p, bytes, what, site, number, number < 0 ? p : p - machine.regions[number].info.begin);
  }
  const RegionInfo &r = machine.regions[number].info;
  if (p + bytes > r.begin + r.bytes) outside(p, bytes, what, site, number, p - r.begin);
  return number;
}

int32_t find_global(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  size_t chunk = (p - machine.arena) / kChunk;
  int32_t number = (int32_t)machine.chunks[chunk] - 1;
  if (number < 0) {
    // Name the array whose end or beginning lies nearest.
    uint64_t best = ~0ull;
    for (size_t i = 0; i < machine.regions.size(); i++) {
      const RegionInfo &r = machine.regions[i].info;
      if (machine.regions[i].shared) continue;
      uint64_t far = p < r.begin ? r.begin - p : p - (r.begin + r.bytes);
      if (far < best) best = far, number = (int32_t)i;
    }
    outside(p, bytes, what, site, number, number < 0 ? p : p - machine.regions[number].info.begin);
  }
  const RegionInfo &r = machine.regions[number].info;
  if (p < r.begin || p + bytes > r.begin + r.bytes) outside(p, bytes, what, site, number, p - r.begin);
  return number;
}

template <bool kCheckAlignment = false>
inline void access(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  if (!me) return; // a constructor of the module
  if (p - my_stack < kStack) return;
  int32_t number;
  if (p - machine.shared < machine.shared_bytes)
    number = find_shared(p, bytes, what, site);
  else if (p - machine.arena < machine.arena_bytes)
    number = find_global(p, bytes, what, site);
  else
    return elsewhere(p, bytes, what, site);
  Region &region = machine.regions[number];
  uint64_t offset = p - region.info.begin;
  if (kCheckAlignment && (p & (bytes - 1) || bytes > region.info.alignment)) {
    if (Finding *f = report(kMisaligned, what, site, nullptr, kRead, number, offset)) {
      f->value = bytes;
      if (!(p & (bytes - 1)))
        snprintf(f->note, sizeof f->note, "declared with an alignment of %u only", region.info.alignment);
    }
    abandon();
  }
  Touch touch{region, number, offset, site, what};
  Cell *c = region.cells + (offset >> region.shift);
  Cell *last = region.cells + ((offset + bytes - 1) >> region.shift);
  for (; c <= last; c++) {
    if (what == kRead)
      touch.read(*c);
    else if (what == kAtomic || what == kExchange)
      touch.update(*c);
    else
      touch.write(*c);
  }
}

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

/* ---- What shim.py and module.py call. */

extern "C" {

/* Opens a session: the memory that one or more launches share.  The last `shared` regions are shared arrays,
 * all within the module's `section`. */
void simt_open(uintptr_t arena, uint64_t arena_bytes, uintptr_t section, uint64_t section_bytes,
               const RegionInfo *regions, uint32_t count, uint32_t shared) {
  close_session();
  machine.shared = section;
  machine.shared_bytes = section_bytes;
  machine.owners.assign(section_bytes, 0);
  machine.arena = arena;
  machine.arena_bytes = arena_bytes;
  machine.chunks.assign(arena_bytes / kChunk + 1, 0);
  machine.now = 0;
  for (uint32_t i = 0; i < count; i++) {
    Region r{regions[i], nullptr, __builtin_ctz(regions[i].granule), i >= count - shared};
    r.cells = (Cell *)calloc((r.info.bytes >> r.shift) + 1, sizeof(Cell));
    if (!r.cells) abort();
    machine.regions.push_back(r);
    if (r.shared) {
      std::fill_n(machine.owners.begin() + (std::ptrdiff_t)(r.info.begin - section), r.info.bytes,
                  (uint16_t)(i + 1));
    } else if (r.info.bytes) {
      uint64_t first = (r.info.begin - arena) / kChunk, end = r.info.begin + r.info.bytes - arena;
      for (uint64_t c = first; c * kChunk < end; c++) machine.chunks[c] = (uint16_t)(i + 1);
    }
  }
}

void simt_close() { close_session(); }

/* Runs a kernel; returns the number n of findings, -n - 1 if it did not run to its end.  They stay until the next
 * launch. */
int32_t simt_launch(void (*entry)(void **), void **arguments, const uint32_t *grid, const uint32_t *size,
                    int order, uint64_t seed, int64_t limit) {
  machine.entry = entry;
  machine.arguments = arguments;
  memcpy(machine.grid, grid, sizeof machine.grid);
  memcpy(machine.size, size, sizeof machine.size);
  machine.threads = size[0] * size[1] * size[2];
  machine.order = order;
  machine.random = seed * 0x9e3779b97f4a7c15ull + 1;
  machine.limit = limit;
  machine.stop = false;
  machine.findings.clear();
  machine.findings.reserve(kMaxFindings); // report() hands out pointers
  machine.known.clear();
  dl_iterate_phdr(find_module, (void *)entry);
  uint32_t blocks = grid[0] * grid[1] * grid[2];
  machine.launch_began = machine.now + 1;
  machine.blocks.clear();
  for (uint32_t i = 0; i < machine.threads; i++)
    if (!fibres[i].stack) prepare_fibre(i);
  std::vector<uint32_t> sequence;
  arrange(sequence, blocks);
  Watchdog watchdog;
  for (uint32_t b : sequence) {
    machine.blocks.emplace_back(machine.now + 1, b);
    machine.index[0] = b % grid[0];
    machine.index[1] = b / grid[0] % grid[1];
    machine.index[2] = b / grid[0] / grid[1];
    run_block();
    if (machine.stop) break;
  }
  if (machine.stop) // fibres that were left in the middle begin anew
    for (uint32_t i = 0; i < machine.threads; i++)
      if (threads[i].state != kDone) prepare_fibre(i);
  me = nullptr;
  my_stack = 0;
  int32_t n = (int32_t)machine.findings.size();
  return machine.stop ? -n - 1 : n;
}

void simt_finding(uint32_t i, Finding *f) { *f = machine.findings[i]; }

uint64_t simt_finding_bytes() { return sizeof(Finding); }

/* ---- What a text calls through simt.h. */

struct Index {
  unsigned x, y, z;
};

Index simt_thread_index() {
  uint32_t t = me->id;
  return {t % machine.size[0], t / machine.size[0] % machine.size[1], t / machine.size[0] / machine.size[1]};
}
Index simt_block_index() { return {machine.index[0], machine.index[1], machine.index[2]}; }
Index simt_block_size() { return {machine.size[0], machine.size[1], machine.size[2]}; }
Index simt_grid_size() { return {machine.grid[0], machine.grid[1], machine.grid[2]}; }

#define HERE site_of(__builtin_return_address(0))

unsigned simt_barrier(int predicate, int line) {
  me->line = line;
  me->site = HERE;
  me->value = predicate != 0;
  wait(kAtBarrier);
  return (unsigned)me->value;
}
}

namespace {
/* One lane's part in an operation of its warp. */
uint64_t warp_operation(int how, uint32_t mask, uint64_t value, uint32_t operand, int width, int line,
                        uint32_t site) {
  me->line = line;
  me->site = site;
  me->how = how;
  me->mask = mask;
  me->value = value;
  me->operand = operand;
  me->width = width;
  const char *wrong = nullptr;
  if (!(mask >> me->lane & 1)) wrong = "the mask 0x%08x lacks the calling lane";
  if (width < 1 || width > kWarp || width & (width - 1)) wrong = "a width that is no power of two up to 32";
  if (wrong) {
    if (Finding *f = report(kWarpSync, kWaitsWarp, site, nullptr, kRead, -1, 0))
      snprintf(f->note, sizeof f->note, wrong, mask);
    abandon();
  }
  wait(kAtWarp);
  return me->value;
}
} // namespace

extern "C" {

void simt_warp_barrier(unsigned mask, int line) { warp_operation(-1, mask, 0, 0, kWarp, line, HERE); }

unsigned simt_vote(unsigned mask, int predicate, int line) {
  return (unsigned)warp_operation(-2, mask, predicate != 0, 0, kWarp, line, HERE);
}

unsigned long long simt_shuffle(int how, unsigned mask, unsigned long long value, unsigned operand, int width,
                                int line) {
  return warp_operation(how, mask, value, operand, width, line, HERE);
}

unsigned simt_active_mask() { return expected(me->id / kWarp * kWarp, kAll); }

void simt_touch(const volatile void *p, size_t bytes, int how) {
  if (!bytes) return;
  uint32_t site = HERE;
  if (how >= 2)
    access<true>((uintptr_t)p, (unsigned)bytes, how == 2 ? kAtomic : kExchange, site);
  else
    access((uintptr_t)p, (unsigned)bytes, how ? kWrite : kRead, site);
}

size_t simt_shared_address(const void *pointer) {
  size_t offset = (uintptr_t)pointer - machine.shared;
  if (offset <= machine.shared_bytes) return offset;
  outside((uintptr_t)pointer, 0, kCopy, HERE, -1, (uintptr_t)pointer);
}

void simt_async_copy(unsigned long long shared_address, const void *source, int bytes, int source_bytes) {
  uint32_t site = HERE;
  char *to = (char *)machine.shared + shared_address;
  if ((bytes != 4 && bytes != 8 && bytes != 16) || source_bytes < 0 || source_bytes > bytes) {
    if (Finding *f = report(kBadCopy, kCopy, site, nullptr, kRead, -1, 0))
      snprintf(f->note, sizeof f->note, "%d bytes of which %d are read", bytes, source_bytes);
    abandon();
  }
  if (shared_address >= machine.shared_bytes)
    outside((uintptr_t)to, (unsigned)bytes, kCopy, site, -1, shared_address);
  if (source_bytes) {
    if ((uintptr_t)source - machine.arena >= machine.arena_bytes)
      outside((uintptr_t)source, (unsigned)source_bytes, kRead, site, -1, (uintptr_t)source);
    if ((uintptr_t)source & (uintptr_t)(bytes - 1)) {
      int32_t number = find_global((uintptr_t)source, (unsigned)source_bytes, kRead, site);
      if (Finding *f = report(kMisaligned, kRead, site, nullptr, kRead, number,
                              (uintptr_t)source - machine.regions[number].info.begin))
        f->value = bytes;
      abandon();
    }
    access((uintptr_t)source, (unsigned)source_bytes, kRead, site);
  }
  access<true>((uintptr_t)to, (unsigned)bytes, kCopy, site);
  Region &r = machine.regions[machine.owners[shared_address] - 1];
  uint64_t offset = (uintptr_t)to - r.info.begin;
  for (uint64_t o = offset >> r.shift; o <= (offset + (uint64_t)bytes - 1) >> r.shift; o++)
    r.cells[o].write.flags |= kMarkPending;
  memset(to, 0xff, (size_t)bytes);
  me->copies.push_back({to, (const char *)source, bytes, source_bytes});
}

void simt_async_commit() { me->groups.push_back(me->copies.size()); }

/* Completes all but the last `groups_left` groups; if negative, also what was never committed. */
void simt_async_wait(int groups_left) {
  if (groups_left < 0) {
    complete(me->copies.size());
    me->groups.clear();
    return;
  }
  std::vector<size_t> &g = me->groups;
  if (g.size() <= (size_t)groups_left) return;
  size_t ended = g.size() - (size_t)groups_left, count = g[ended - 1];
  complete(count);
  g.erase(g.begin(), g.begin() + (std::ptrdiff_t)ended);
  for (size_t &end : g) end -= count;
}

void simt_trap() {
  report(kTrap, kRuns, HERE, nullptr, kRead, -1, 0);
  abandon();
}

/* ---- What the compiler calls for -fsanitize=thread,bounds,alignment and -fsanitize-coverage=trace-pc. */

#define ACCESS(name, bytes, what, aligned) \
  void name(void *p) { access<aligned>((uintptr_t)p, bytes, what, HERE); }
#define ACCESSES(n)                                                                       \
  ACCESS(__tsan_read##n, n, kRead, true)                                                  \
  ACCESS(__tsan_write##n, n, kWrite, true)                                                \
  ACCESS(__tsan_volatile_read##n, n, kRead, true)                                         \
  ACCESS(__tsan_volatile_write##n, n, kWrite, true)                                       \
  ACCESS(__tsan_unaligned_read##n, n, kRead, false)                                       \
  ACCESS(__tsan_unaligned_write##n, n, kWrite, false)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void *p, size_t n) {
  if (n) access((uintptr_t)p, (unsigned)n, kRead, HERE);
}
void __tsan_write_range(void *p, size_t n) {
  if (n) access((uintptr_t)p, (unsigned)n, kWrite, HERE);
}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

struct SourceLocation {
  const char *file;
  uint32_t line, column;
};
struct TypeDescriptor {
  uint16_t kind, info;
  char name[1];
};
struct OutOfBoundsData {
  SourceLocation place;
  TypeDescriptor *array, *index;
};
struct TypeMismatchData {
  SourceLocation place;
  TypeDescriptor *type;
  unsigned char log_alignment, kind;
};

void __ubsan_handle_out_of_bounds(OutOfBoundsData *data, uintptr_t index) {
  if (!me) return;
  if (Finding *f = report(kIndex, kRuns, HERE, nullptr, kRead, -1, 0)) {
    bool is_signed = data->index->info & 1;
    int bits = 1 << (data->index->info >> 1);
    f->value = (int64_t)index;
    if (bits < 64 && is_signed) f->value = (int64_t)((uint64_t)index << (64 - bits)) >> (64 - bits);
    snprintf(f->note, sizeof f->note, "%s", data->array->name);
  }
  abandon();
}

void __ubsan_handle_type_mismatch_v1(TypeMismatchData *data, uintptr_t p) {
  if (!me) return;
  uint32_t site = HERE;
  unsigned alignment = 1u << data->log_alignment;
  if (!p) outside(p, alignment, kRead, site, -1, p);
  int32_t number = -1;
  uint64_t offset = p;
  size_t in_shared = p - machine.shared, in_arena = p - machine.arena;
  if (in_shared < machine.shared_bytes) number = (int32_t)machine.owners[in_shared] - 1;
  if (in_arena < machine.arena_bytes) number = (int32_t)machine.chunks[in_arena / kChunk] - 1;
  if (number >= 0) offset = p - machine.regions[number].info.begin;
  if (Finding *f = report(kMisaligned, kRuns, site, nullptr, kRead, number, offset)) f->value = alignment;
  abandon();
}

void __sanitizer_cov_trace_pc() {
  if (--budget >= 0 || !me) return;
  report(kNoProgress, kRuns, HERE, nullptr, kRead, -1, 0);
  abandon();
}

/* ---- Mathematics that C lacks; simt.h has the same list. */

#define MATH1(name)                                                                          \
  double simt_##name(double x) { return tc_##name(x); }                                         \
  float simt_##name##f(float x) { return tc_##name##f(x); }
MATH1(rsqrt) MATH1(rcbrt) MATH1(exp10) MATH1(sinpi) MATH1(cospi) MATH1(erfcx) MATH1(erfinv) MATH1(erfcinv)
MATH1(normcdf) MATH1(normcdfinv) MATH1(cyl_bessel_i0) MATH1(cyl_bessel_i1)
double simt_rhypot(double x, double y) { return tc_rhypot(x, y); }
float simt_rhypotf(float x, float y) { return tc_rhypotf(x, y); }
double simt_norm3d(double x, double y, double z) { return tc_norm3d(x, y, z); }
float simt_norm3df(float x, float y, float z) { return tc_norm3df(x, y, z); }
double simt_rnorm3d(double x, double y, double z) { return tc_rnorm3d(x, y, z); }
float simt_rnorm3df(float x, float y, float z) { return tc_rnorm3df(x, y, z); }
double simt_norm4d(double x, double y, double z, double w) { return tc_norm4d(x, y, z, w); }
float simt_norm4df(float x, float y, float z, float w) { return tc_norm4df(x, y, z, w); }
double simt_rnorm4d(double x, double y, double z, double w) { return tc_rnorm4d(x, y, z, w); }
float simt_rnorm4df(float x, float y, float z, float w) { return tc_rnorm4df(x, y, z, w); }
}

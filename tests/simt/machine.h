/* The state of the machine that runs a CUDA text: threads, shadow memory, findings. Only runtime.cpp has it. */
#pragma once

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

} // namespace

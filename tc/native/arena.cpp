#include "arena.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "pages.h"

namespace tc {
namespace {

void *allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  if (bytes >= kHugeWorkspace) return map_pages(round_up(bytes, kHugePage), true);
  return std::aligned_alloc(kWorkspaceAlignment, round_up(bytes, kWorkspaceAlignment));
}

void release(void *data, size_t bytes) {
  if (bytes < kHugeWorkspace)
    std::free(data);
  else if (data)
    munmap(data, round_up(bytes, kHugePage));
}

struct Arena {
  void *block = nullptr;
  size_t capacity = 0;
  bool busy = false;

  void drop() {
    release(block, capacity);
    block = nullptr;
    capacity = 0;
  }
  ~Arena() { drop(); }
};

thread_local Arena arena;
std::atomic<bool> poisoned{false};

void fill(void *data, size_t bytes) {
  if (data && poisoned.load(std::memory_order_relaxed)) std::memset(data, 0xFF, bytes);
}

}  // namespace

Workspace::Workspace(size_t bytes) : wanted_(bytes) {
  if (bytes == 0) return;
  Arena &a = arena;
  if (a.busy) {
    data_ = allocate(bytes);
    fill(data_, bytes);
    return;
  }
  if (a.capacity < bytes) {
    a.drop();
    a.block = allocate(bytes);
    a.capacity = a.block ? bytes : 0;
  }
  data_ = a.block;
  fill(data_, bytes);
  from_arena_ = a.busy = data_ != nullptr;
}

Workspace::~Workspace() {
  if (!from_arena_) {
    release(data_, wanted_);
    return;
  }
  Arena &a = arena;
  a.busy = false;
  if (a.capacity > kArenaKept) a.drop();
}

size_t arena_bytes() { return arena.capacity; }

void poison_workspaces(bool yes) { poisoned.store(yes, std::memory_order_relaxed); }

}  // namespace tc

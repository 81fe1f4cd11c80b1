#include "arena.h"

#include <cstdint>
#include <cstdlib>

namespace tc {
namespace {

void *allocate(size_t bytes) {
  if (bytes > SIZE_MAX - kWorkspaceAlignment) return nullptr;
  size_t rounded = (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  return std::aligned_alloc(kWorkspaceAlignment, rounded);
}

struct Arena {
  void *block = nullptr;
  size_t capacity = 0;
  bool busy = false;

  void drop() {
    std::free(block);
    block = nullptr;
    capacity = 0;
  }
  ~Arena() { drop(); }
};

thread_local Arena arena;

}  // namespace

Workspace::Workspace(size_t bytes) : wanted_(bytes) {
  if (bytes == 0) return;
  Arena &a = arena;
  if (a.busy) {
    data_ = allocate(bytes);
    return;
  }
  if (a.capacity < bytes) {
    a.drop();
    a.block = allocate(bytes);
    a.capacity = a.block ? bytes : 0;
  }
  data_ = a.block;
  from_arena_ = a.busy = data_ != nullptr;
}

Workspace::~Workspace() {
  if (!from_arena_) {
    std::free(data_);
    return;
  }
  Arena &a = arena;
  a.busy = false;
  if (a.capacity > kArenaKept) a.drop();
}

size_t arena_bytes() { return arena.capacity; }

}  // namespace tc

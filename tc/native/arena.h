// Scratch memory of kernel calls: one reusable block a thread.
#pragma once

#include <cstddef>

namespace tc {

constexpr size_t kWorkspaceAlignment = 64;
constexpr size_t kHugeWorkspace = size_t{512} << 10;  // from where on a block is on huge pages
constexpr size_t kArenaKept = size_t{64} << 20;  // a larger block goes back to the system after the call

// Holds `bytes` of 64-byte aligned, uninitialised memory while it lives, on the thread that made it.  The
// thread's block is reused when it is free; a call nested in another one gets a block of its own, in
// whatever order the two end.
class Workspace {
 public:
  explicit Workspace(size_t bytes);
  ~Workspace();
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

  void *data() const { return data_; }  // null for 0 bytes, or when memory is short
  bool failed() const { return wanted_ && !data_; }

 private:
  void *data_ = nullptr;
  size_t wanted_;
  bool from_arena_ = false;
};

// Bytes this thread keeps between calls.
size_t arena_bytes();

// Whether every workspace is filled with bytes that are NaNs in all floating types, for tests: what a kernel
// reads before it writes it shows in the results then.
void poison_workspaces(bool yes);

}  // namespace tc

// The kernel hands out memory page by page and zeroed, which for a result of many megabytes costs as much as
// many a computation of it.  Released blocks are therefore kept, up to a limit; the one that was released
// least recently goes back to the system first.
//
// Every block is a mapping of its own.  Its first bytes hold its length and, while it is kept, the links
// of the list of kept blocks: nothing is allocated to release something.
//
// A processor takes a load for one of what it has just stored where the lowest twelve bits of the addresses
// agree, and waits.  Large arrays of other libraries begin 16 or 64 bytes after a page does.  A result that
// began there, too, would be written just where inputs are read next: a soft-max took 1.28 times as long.  So
// results begin shortly before the end of a page: what is read next lies where the last page was written.
#include "result_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pages.h"

namespace tc::result_pool {
namespace {

constexpr size_t kHugeFrom = 2 * kHugePage;  // blocks that ask for huge pages
constexpr size_t kOffset = 4032;  // of the data in a block, and so in a page: 63 cache lines
constexpr size_t kSpare = 8;      // a block may be larger than what is asked by 1/8

struct alignas(64) Block {
  size_t length;  // of the mapping, this header included
  Block *newer, *older;

  void *data() { return reinterpret_cast<char *>(this) + kOffset; }
  size_t capacity() const { return length - kOffset; }
};

static_assert(sizeof(Block) <= kOffset && kOffset % 64 == 0);

Block *block_of(void *data) { return reinterpret_cast<Block *>(static_cast<char *>(data) - kOffset); }

struct Pool {
  std::mutex lock;  // held for a few loads and stores, never while the system is asked
  Block *newest = nullptr, *oldest = nullptr;
  size_t kept = 0, limit = 0;

  void add(Block *block) {
    block->newer = nullptr;
    block->older = newest;
    (newest ? newest->newer : oldest) = block;
    newest = block;
    kept += block->length;
  }

  void remove(Block *block) {
    (block->newer ? block->newer->older : newest) = block->older;
    (block->older ? block->older->newer : oldest) = block->newer;
    kept -= block->length;
  }

  // The blocks to give back to the system so that no more than `most` bytes are kept, linked by `older`.
  Block *surplus(size_t most) {
    Block *taken = nullptr;
    while (kept > most) {
      Block *block = oldest;
      remove(block);
      block->older = taken;
      taken = block;
    }
    return taken;
  }
};

// Never destroyed: arrays may die after everything else at exit.
alignas(Pool) unsigned char storage[sizeof(Pool)];
Pool &pool = *new (storage) Pool;

bool fits(size_t length, size_t wanted) { return length >= wanted && length - wanted <= wanted / kSpare; }

void unmap(Block *blocks) {
  while (blocks) {
    Block *next = blocks->older;
    munmap(blocks, blocks->length);
    blocks = next;
  }
}

void trim(size_t most) {
  Block *surplus;
  {
    std::lock_guard<std::mutex> owner(pool.lock);
    surplus = pool.surplus(most);
  }
  unmap(surplus);
}

// A fork must not catch the lock taken by a thread that the child does not have.
void before_fork() { pool.lock.lock(); }
void parent_after_fork() { pool.lock.unlock(); }

// The child and its parent share the pages of kept blocks, so that writing there would cost a copy besides.
void child_after_fork() {
  Block *all = pool.surplus(0);
  pool.lock.unlock();
  unmap(all);
}

Block *map(size_t length) {
  static bool registered = (pthread_atfork(before_fork, parent_after_fork, child_after_fork), true);
  (void)registered;
  bool huge = length >= kHugeFrom;
  // A last huge page that is not whole would be faulted in by small pages.
  if (huge && fits(round_up(length, kHugePage), length)) length = round_up(length, kHugePage);
  void *start = map_pages(length, huge);
  if (!start) return nullptr;
  Block *block = new (start) Block;
  block->length = length;
  return block;
}

// The kept block that fits best, of equals the one released last, whose memory is likelier to be cached.
Block *take(size_t length) {
  std::lock_guard<std::mutex> owner(pool.lock);
  Block *best = nullptr;
  for (Block *block = pool.newest; block; block = block->older)
    if (fits(block->length, length) && (!best || block->length < best->length)) best = block;
  if (best) pool.remove(best);
  return best;
}

// The length of the mapping for so many bytes; 0 for more than there can be.
size_t mapping(size_t bytes) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes < SIZE_MAX / 2 ? round_up(bytes + kOffset, page) : 0;
}

// Memory that nobody has written yet, which the system hands out zeroed.  Where it has no more, what is kept
// is given back first.
Block *fresh(size_t length) {
  Block *block = map(length);
  if (block) return block;
  trim(0);
  return map(length);
}

}  // namespace

void *allocate(size_t bytes) {
  size_t length = mapping(bytes);
  if (!length) return nullptr;
  Block *block = take(length);
  if (!block) block = fresh(length);
  return block ? block->data() : nullptr;
}

void *allocate_zeroed(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  size_t length = mapping(bytes);
  if (!length) return nullptr;
  if (Block *block = take(length)) return std::memset(block->data(), 0, bytes);
  Block *block = fresh(length);
  return block ? block->data() : nullptr;
}

void *resize(void *data, size_t bytes) {
  if (!data) return allocate(bytes);
  Block *block = block_of(data);
  size_t length = mapping(bytes);
  if (length && fits(block->length, length)) return data;
  void *moved = allocate(bytes);
  if (!moved) return nullptr;
  std::memcpy(moved, data, std::min(bytes, block->capacity()));
  release(data);
  return moved;
}

void release(void *data) {
  if (!data) return;
  Block *block = block_of(data), *surplus;
  {
    std::lock_guard<std::mutex> owner(pool.lock);
    if (block->length >= kSmallest && block->length <= pool.limit) {
      pool.add(block);
      surplus = pool.surplus(pool.limit);
    } else {
      block->older = nullptr;
      surplus = block;
    }
  }
  unmap(surplus);
}

void set_limit(size_t bytes) {
  {
    std::lock_guard<std::mutex> owner(pool.lock);
    pool.limit = bytes;
  }
  trim(bytes);
}

size_t kept_bytes() {
  std::lock_guard<std::mutex> owner(pool.lock);
  return pool.kept;
}

}  // namespace tc::result_pool

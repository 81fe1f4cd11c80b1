// Memory for large results, kept for the next result of about the same size.
#pragma once

#include <cstddef>

namespace tc::result_pool {

constexpr size_t kSmallest = size_t{1} << 16;  // smaller blocks are not kept: malloc serves those sizes well

// Uninitialised memory, aligned to 64 bytes; null when memory is short even with nothing kept.
void *allocate(size_t bytes);

// The same filled with zeros; null too where count * size overflows.
void *allocate_zeroed(size_t count, size_t size);

// What realloc does, on memory from here; null leaves the old memory as it was.
void *resize(void *data, size_t bytes);

// Takes memory from here, or null, on any thread.
void release(void *data);

// How many bytes of released memory are kept at most (before the first call: 0).
void set_limit(size_t bytes);

// How many are kept now.
size_t kept_bytes();

}  // namespace tc::result_pool

// Mappings of memory that ask for huge pages.
//
// They cost one fault for 2 MiB, not one for 4 KiB, and lie together in physical memory, too, by which caches
// behind the first one are indexed.
#pragma once

#include <cstddef>

namespace tc {

constexpr size_t kHugePage = size_t{2} << 20;

inline size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// So many bytes, a multiple of the system's pages, zeroed; with `huge` at a multiple of kHugePage, on huge
// pages if the system has some.  Null when memory is short.  munmap gives them back.
void *map_pages(size_t bytes, bool huge);

}  // namespace tc

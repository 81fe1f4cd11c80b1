// Mappings of memory that ask for huge pages.
//
// They cost one fault for 2 MiB, not one for 4 KiB.  And they lie together in physical memory, too, by which
// the second cache of most processors is indexed: copies that fill half of it, on pages from all over memory,
// find no room in some of its sets.  A matrix product with a copy of 512 KiB took 1.25 to 2.3 times as long
// with small pages, and never twice the same.
#pragma once

#include <cstddef>

namespace tc {

constexpr size_t kHugePage = size_t{2} << 20;

// So many bytes, a multiple of the system's pages, zeroed; with `huge` at a multiple of kHugePage, on huge
// pages if the system has some.  Null when memory is short.  munmap gives them back.
void *map_pages(size_t bytes, bool huge);

}  // namespace tc

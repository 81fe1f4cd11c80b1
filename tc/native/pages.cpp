#include "pages.h"

#include <cstdint>

#include <sys/mman.h>

namespace tc {

void *map_pages(size_t bytes, bool huge) {
  size_t slack = huge ? kHugePage : 0;
  if (bytes > SIZE_MAX - slack) return nullptr;
  void *mapped = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char *start = static_cast<char *>(mapped);
  if (!huge) return start;
  size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
  if (skip) munmap(start, skip);
  if (skip != slack) munmap(start + skip + bytes, slack - skip);
  start += skip;
#ifdef MADV_HUGEPAGE
  madvise(start, bytes, MADV_HUGEPAGE);  // a wish: a system without huge pages is right too
#endif
  return start;
}

}  // namespace tc

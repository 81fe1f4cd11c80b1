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
#include "scheduler.h"

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

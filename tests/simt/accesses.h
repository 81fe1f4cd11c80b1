/* Accesses to memory: what each finds wrong, and what it leaves behind. */
#pragma once

#include "machine.h"

namespace {

/* ---- Findings. */

Finding *report(Kind kind, What what, uint32_t site, const Mark *other, What other_what, int32_t region,
                uint64_t offset) {
  uint32_t other_site = other ? other->site : 0;
  auto [place, added] =
      machine.known.insert({{kind, site, other_site, region}, machine.findings.size()});
  if (!added) {
    machine.findings[place->second].count++;
    return nullptr;
  }
  if (machine.findings.size() >= kMaxFindings) {
    machine.known.erase(place);
    return nullptr;
  }
  Finding f{};
  f.kind = kind;
  f.count = 1;
  f.block = block_at(machine.now);
  f.thread = me ? me->id : 0;
  f.site = site;
  f.what = what;
  if (other) {
    f.has_other = 1;
    f.other_block = block_at(other->time);
    f.other_thread = other->thread;
    f.other_site = other->site;
    f.other_what = other_what;
  }
  f.region = region;
  f.offset = offset;
  machine.findings.push_back(f);
  return &machine.findings.back();
}

/* Leaves the launch from within a fibre, whose frames are abandoned. */
[[noreturn]] void abandon() {
  machine.stop = true;
  _longjmp(scheduler, 1);
}

/* ---- Accesses. */

bool before(const Mark &m, bool shared) {
  if (m.time != machine.now) return m.time >= machine.block_began || shared || m.time < machine.launch_began;
  if (m.thread == me->id) return true;
  return m.thread / kWarp == me->id / kWarp && me->seen[m.thread % kWarp] >= m.clock;
}

Mark mark(uint32_t site, uint32_t flags = 0) {
  Mark m = mine;
  m.site = site;
  m.flags = flags;
  return m;
}

What what_of(const Mark &m) {
  return m.flags & kMarkCopy ? kCopy : kWrite;
}

struct Touch { // one access to one region
  Region &region;
  int32_t number;
  uint64_t offset;
  uint32_t site;
  What what;

  bool conflict(const Mark &with, What with_what) const {
    report(kRace, what, site, &with, with_what, number, offset);
    return true;
  }

  bool written(const Cell &c) const {
    uint32_t since = region.shared ? machine.block_began : 1;
    if (!region.shared && region.info.defined) return true;
    return c.write.time >= since || c.atomics.first.time >= since;
  }

  bool pending(const Cell &c) const {
    if (!(c.write.flags & kMarkPending) || c.write.time < machine.block_began) return false;
    report(kUnfinishedCopy, what, site, &c.write, kCopy, number, offset);
    return true;
  }

  bool conflict(const Several &with, What with_what) const {
    for (const Mark *m : {&with.first, &with.second})
      if (!before(*m, region.shared)) return conflict(*m, with_what);
    return false;
  }

  bool uninitialised(const Cell &c) const {
    if (written(c)) return false;
    report(kUninitialised, what, site, nullptr, kRead, number, offset);
    return true;
  }

  /* An access that happened before this one may go: what is ordered after this one is ordered after that. */
  void add(Several &s) const {
    Mark m = mark(site);
    if (before(s.first, region.shared)) {
      s.first = m;
      if (before(s.second, region.shared)) s.second.time = 0;
    } else if (before(s.second, region.shared) ||
               (s.first.time == s.second.time && s.first.thread / kWarp == s.second.thread / kWarp &&
                (s.first.time != m.time || s.first.thread / kWarp != m.thread / kWarp))) {
      s.second = m;
    }
  }

  bool conflict_with_write(const Cell &c) const {
    return pending(c) || (!before(c.write, region.shared) && conflict(c.write, what_of(c.write)));
  }

  void read(Cell &c) const {
    const Mark &w = c.write;
    bool plain = w.flags == 0 && c.atomics.first.time == 0 && w.time != machine.now && w.time != 0 &&
                 (w.time >= machine.block_began || (w.time < machine.launch_began && !region.shared));
    // One finding an access: the first of these that holds.  In the usual case, made fast here, none can.
    if (!plain) (void)(conflict_with_write(c) || conflict(c.atomics, kAtomic) || uninitialised(c));
    add(c.reads);
  }

  void update(Cell &c) const {
    (void)(conflict_with_write(c) || conflict(c.reads, kRead) || (what == kAtomic && uninitialised(c)));
    add(c.atomics);
  }

  void write(Cell &c) const {
    (void)(conflict_with_write(c) || conflict(c.reads, kRead) || conflict(c.atomics, kAtomic));
    c.write = mark(site, what == kCopy ? (uint32_t)kMarkCopy : 0);
    c.reads = c.atomics = Several{};
  }
};

[[noreturn]] void outside(uintptr_t p, unsigned bytes, What what, uint32_t site, int32_t region,
                          uint64_t offset) {
  if (Finding *f = report(kOutOfBounds, what, site, nullptr, kRead, region, offset)) {
    f->value = bytes;
    snprintf(f->note, sizeof f->note, p < 4096 ? "a null pointer" : "");
  }
  abandon();
}

/* Anything but shared memory, the arrays of the launch and the thread's own stack. */
void elsewhere(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  uintptr_t pool = (uintptr_t)stacks;
  if (p - pool < kStack * kMaxThreads) {
    report(kForeignStack, what, site, nullptr, kRead, -1, p);
    abandon();
  }
  if (p >= machine.code && p < machine.code_end) {
    for (auto [begin, end] : machine.constants)
      if (what == kRead && p >= begin && p + bytes <= end) return; // a constant table
    report(kStatic, what, site, nullptr, kRead, -1, p - machine.code);
    abandon();
  }
  outside(p, bytes, what, site, -1, p);
}

int32_t find_shared(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  size_t offset = p - machine.shared;
  int32_t number = (int32_t)machine.owners[offset] - 1;
  if (number < 0) { // between two arrays: named after the one in front
    while (number < 0 && offset) number = (int32_t)machine.owners[--offset] - 1;
    outside(p, bytes, what, site, number, number < 0 ? p : p - machine.regions[number].info.begin);
  }
  const RegionInfo &r = machine.regions[number].info;
  if (p + bytes > r.begin + r.bytes) outside(p, bytes, what, site, number, p - r.begin);
  return number;
}

int32_t find_global(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  size_t chunk = (p - machine.arena) / kChunk;
  int32_t number = (int32_t)machine.chunks[chunk] - 1;
  if (number < 0) {
    // Name the array whose end or beginning lies nearest.
    uint64_t best = ~0ull;
    for (size_t i = 0; i < machine.regions.size(); i++) {
      const RegionInfo &r = machine.regions[i].info;
      if (machine.regions[i].shared) continue;
      uint64_t far = p < r.begin ? r.begin - p : p - (r.begin + r.bytes);
      if (far < best) best = far, number = (int32_t)i;
    }
    outside(p, bytes, what, site, number, number < 0 ? p : p - machine.regions[number].info.begin);
  }
  const RegionInfo &r = machine.regions[number].info;
  if (p < r.begin || p + bytes > r.begin + r.bytes) outside(p, bytes, what, site, number, p - r.begin);
  return number;
}

template <bool kCheckAlignment = false>
inline void access(uintptr_t p, unsigned bytes, What what, uint32_t site) {
  if (!me) return; // a constructor of the module
  if (p - my_stack < kStack) return;
  int32_t number;
  if (p - machine.shared < machine.shared_bytes)
    number = find_shared(p, bytes, what, site);
  else if (p - machine.arena < machine.arena_bytes)
    number = find_global(p, bytes, what, site);
  else
    return elsewhere(p, bytes, what, site);
  Region &region = machine.regions[number];
  uint64_t offset = p - region.info.begin;
  if (kCheckAlignment && (p & (bytes - 1) || bytes > region.info.alignment)) {
    if (Finding *f = report(kMisaligned, what, site, nullptr, kRead, number, offset)) {
      f->value = bytes;
      if (!(p & (bytes - 1)))
        snprintf(f->note, sizeof f->note, "declared with an alignment of %u only", region.info.alignment);
    }
    abandon();
  }
  Touch touch{region, number, offset, site, what};
  Cell *c = region.cells + (offset >> region.shift);
  Cell *last = region.cells + ((offset + bytes - 1) >> region.shift);
  for (; c <= last; c++) {
    if (what == kRead)
      touch.read(*c);
    else if (what == kAtomic || what == kExchange)
      touch.update(*c);
    else
      touch.write(*c);
  }
}

} // namespace

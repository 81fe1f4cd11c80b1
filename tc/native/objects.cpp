#include "objects.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>

namespace tc {

// ELF-64 (System V ABI, chapter 4; AMD64 supplement, chapter 4).
namespace {

constexpr uint16_t kRelocatable = 1, kAmd64 = 62;
constexpr uint32_t kSymbolTable = 2, kStrings = 3, kRela = 4, kNoBits = 8, kRel = 9;
constexpr uint64_t kWrite = 1, kAlloc = 2, kThreadLocal = 0x400;
constexpr uint16_t kUndefined = 0, kAbsolute = 0xfff1, kReserved = 0xff00;
constexpr uint32_t kAbsolute64 = 1;  // R_X86_64_64
constexpr uint8_t kFunction = 2, kIndirectFunction = 10;
constexpr uint64_t kMost = uint64_t{1} << 30;  // bytes of a file, or of its image

struct Header {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, programs, sections;
  uint32_t flags;
  uint16_t size, program_size, program_count, section_size, section_count, names;
};

struct Section {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
};

struct Symbol {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
};

struct Relocation {
  uint64_t offset, info;
  int64_t addend;
};

static_assert(sizeof(Header) == 64 && sizeof(Section) == 64 && sizeof(Symbol) == 24 && sizeof(Relocation) == 24);

[[noreturn]] void refuse(const char *why) { throw std::invalid_argument(why); }

// `count` records at `offset`, copied since they need not be aligned.
template <typename T>
std::vector<T> records(std::string_view file, uint64_t offset, uint64_t count) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) refuse("the file is cut off");
  std::vector<T> out(count);
  if (count) std::memcpy(out.data(), file.data() + offset, count * sizeof(T));
  return out;
}

std::string text_at(std::string_view strings, uint32_t offset) {
  if (offset >= strings.size()) refuse("a name outside of its table");
  std::string_view rest = strings.substr(offset);
  size_t end = rest.find('\0');
  if (end == std::string_view::npos) refuse("a name without end");
  return std::string(rest.substr(0, end));
}

std::string_view contents(std::string_view file, const Section &s) {
  if (s.offset > file.size() || s.size > file.size() - s.offset) refuse("the file is cut off");
  return file.substr(s.offset, s.size);
}

}  // namespace

// The tables of a file, and where its sections are in memory.
struct MachineCode::Image {
  std::vector<Section> sections;
  std::vector<uint64_t> places;  // of the sections in the image
  std::vector<Symbol> symbols;
  std::string_view names;
  uint64_t size = 0;

  explicit Image(std::string_view file) {
    if (file.size() > kMost) refuse("the file is too large");
    Header h = records<Header>(file, 0, 1)[0];
    if (std::memcmp(h.ident, "\177ELF\2\1", 6) != 0) refuse("no ELF file of 64 bits");
#if !defined(__x86_64__)
    refuse("for another processor");
#endif
    if (h.type != kRelocatable || h.machine != kAmd64) refuse("no relocatable file for this processor");
    if (h.section_size != sizeof(Section)) refuse("sections of another form");
    sections = records<Section>(file, h.sections, h.section_count);
    places.assign(sections.size(), 0);
    for (size_t k = 0; k < sections.size(); k++) {
      const Section &s = sections[k];
      if (s.type == kRel) refuse("relocations of another form");
      if (s.type == kSymbolTable) {
        if (!names.empty() || s.link >= sections.size() || sections[s.link].type != kStrings)
          refuse("symbols of another form");
        symbols = records<Symbol>(file, s.offset, s.size / sizeof(Symbol));
        names = contents(file, sections[s.link]);
      }
      if (!(s.flags & kAlloc) || !s.size) continue;
      if (s.flags & (kWrite | kThreadLocal)) refuse("data that is written to");
      uint64_t alignment = s.alignment ? s.alignment : 1;
      if (alignment > 4096 || (alignment & (alignment - 1))) refuse("an alignment of another form");
      size = (size + alignment - 1) / alignment * alignment;
      if (s.size > kMost - size) refuse("the image is too large");
      places[k] = size;
      size += s.size;
    }
    if (!size) refuse("no code");
  }

  bool in_image(size_t section) const {
    return section < sections.size() && (sections[section].flags & kAlloc) && sections[section].size;
  }
};

MachineCode::MachineCode(std::string_view file, const std::function<uint64_t(const std::string &)> &resolve)
    : file_(file) {
  Image image(file_);
  // The addresses of all that relocations name, before there is memory to give back.
  struct Patch {
    uint64_t place, addend;
    size_t symbol;
  };
  std::vector<Patch> patches;
  for (const Section &s : image.sections) {
    if (s.type != kRela || !image.in_image(s.info)) continue;
    uint64_t inside = image.sections[s.info].size;
    for (const Relocation &r : records<Relocation>(file_, s.offset, s.size / sizeof(Relocation))) {
      uint64_t symbol = r.info >> 32;
      if ((r.info & 0xffffffff) != kAbsolute64) refuse("a relocation of another kind");
      if (symbol >= image.symbols.size() || inside < 8 || r.offset > inside - 8) refuse("a relocation elsewhere");
      patches.push_back({image.places[s.info] + r.offset, static_cast<uint64_t>(r.addend),
                         static_cast<size_t>(symbol)});
    }
  }
  std::vector<uint64_t> outside(image.symbols.size(), 0);
  for (const Patch &p : patches) {
    const Symbol &s = image.symbols[p.symbol];
    if ((s.info & 0xf) == kIndirectFunction) refuse("a function that is chosen when it is loaded");
    if (s.section == kUndefined) {
      if (!outside[p.symbol]) outside[p.symbol] = resolve(text_at(image.names, s.name));
      if (!outside[p.symbol]) refuse("a function that is not here");
    } else if (s.section != kAbsolute && (s.section >= kReserved || !image.in_image(s.section))) {
      refuse("a symbol of another kind");
    }
  }
  auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  size_ = static_cast<size_t>((image.size + page - 1) / page * page);
  void *made = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<unsigned char *>(made);
  try {
    for (size_t k = 0; k < image.sections.size(); k++) {
      if (!image.in_image(k) || image.sections[k].type == kNoBits) continue;
      std::string_view bytes = contents(file_, image.sections[k]);
      std::memcpy(memory_ + image.places[k], bytes.data(), bytes.size());
    }
    auto base = reinterpret_cast<uint64_t>(memory_);
    for (const Patch &p : patches) {
      const Symbol &s = image.symbols[p.symbol];
      uint64_t value = s.section == kUndefined  ? outside[p.symbol]
                       : s.section == kAbsolute ? s.value
                                                : base + image.places[s.section] + s.value;
      value += p.addend;
      std::memcpy(memory_ + p.place, &value, sizeof value);
    }
    if (mprotect(memory_, size_, PROT_READ | PROT_EXEC) != 0) refuse("the system lets no code be made");
  } catch (...) {
    munmap(memory_, size_);
    throw;
  }
}

MachineCode::~MachineCode() { munmap(memory_, size_); }

uint64_t MachineCode::address(const std::string &name) const {
  Image image(file_);
  for (const Symbol &s : image.symbols)
    if ((s.info & 0xf) == kFunction && image.in_image(s.section) && s.value < image.sections[s.section].size &&
        text_at(image.names, s.name) == name)
      return reinterpret_cast<uint64_t>(memory_) + image.places[s.section] + s.value;
  return 0;
}

}  // namespace tc

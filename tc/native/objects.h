// Machine code from an object file, without LLVM: what the cpu backend's kernels come to is small and regular.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tc {

// The functions of an object file in memory of their own, which is given back with the last owner.
class MachineCode {
 public:
  // Loads a relocatable ELF file for this processor of which nothing is written to, and whose relocations are 64
  // bits wide, as in LLVM's large code model; `resolve` gives the addresses of what it does not define, 0 for
  // none.  Throws std::invalid_argument for any other file, std::bad_alloc where there is no memory.
  MachineCode(std::string_view file, const std::function<uint64_t(const std::string &)> &resolve);
  ~MachineCode();
  MachineCode(const MachineCode &) = delete;
  MachineCode &operator=(const MachineCode &) = delete;

  // The address of a function that the file defines; 0 for none of the name.
  uint64_t address(const std::string &name) const;

 private:
  struct Image;
  unsigned char *memory_ = nullptr;
  size_t size_ = 0;
  std::string file_;
};

}  // namespace tc

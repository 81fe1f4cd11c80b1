// The floating-point mode kernels are compiled for: round to nearest, denormals kept, no traps.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tc {

// Sets that mode while it lives if the thread runs in another one (a library may have asked the processor
// to flush denormals) and gives the old mode back.
class StandardFpMode {
 public:
  StandardFpMode(const StandardFpMode &) = delete;
  StandardFpMode &operator=(const StandardFpMode &) = delete;
#if defined(__SSE2__)
  StandardFpMode() : saved_(_mm_getcsr()), changed_((saved_ & kMode) != kMasked) {
    if (changed_) _mm_setcsr((saved_ & ~kMode) | kMasked);
  }
  ~StandardFpMode() {
    if (changed_) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kMode = 0xffc0;    // flush, denormals-are-zero, rounding, exception masks
  static constexpr unsigned kMasked = 0x1f80;  // all exceptions masked, the rest 0
  unsigned saved_;
  bool changed_;
#elif defined(__aarch64__)
  StandardFpMode() {
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(saved_));
    changed_ = (saved_ & kMode) != 0;
    if (changed_) __asm__ __volatile__("msr fpcr, %0" : : "r"(saved_ & ~kMode));
  }
  ~StandardFpMode() {
    if (changed_) __asm__ __volatile__("msr fpcr, %0" : : "r"(saved_));
  }

 private:
  static constexpr uint64_t kMode = 0x3f89f00;  // DN, FZ, RMode, FZ16, stride/len, trap enables
  uint64_t saved_ = 0;
  bool changed_ = false;
#else
  StandardFpMode() {}
#endif
};

}  // namespace tc

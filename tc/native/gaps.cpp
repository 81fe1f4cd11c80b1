#include "gaps.h"

#include <cstdint>
#include <cstring>
#include <new>

namespace tc {
namespace {

int64_t unit_of(const TensorSpec &spec, const View &view) { return view.strides_in_bytes ? 1 : spec.itemsize(); }

template <size_t kSize>
void copy_row(char *to, const char *from, int64_t stride, int64_t count) {
  for (int64_t k = 0; k < count; k++) std::memcpy(to + k * int64_t{kSize}, from + k * stride, kSize);
}

// The elements from dimension `d` on; returns where the next ones go.
char *copy(const TensorSpec &spec, const View &view, size_t d, const char *from, char *to) {
  int64_t size = spec.itemsize(), count = spec.shape[d], stride = view.strides[d] * unit_of(spec, view);
  if (d + 1 < spec.shape.size()) {
    for (int64_t k = 0; k < count; k++) to = copy(spec, view, d + 1, from + k * stride, to);
    return to;
  }
  switch (size) {
    case 1: copy_row<1>(to, from, stride, count); break;
    case 2: copy_row<2>(to, from, stride, count); break;
    case 4: copy_row<4>(to, from, stride, count); break;
    case 8: copy_row<8>(to, from, stride, count); break;
    default:
      for (int64_t k = 0; k < count; k++) std::memcpy(to + k * size, from + k * stride, static_cast<size_t>(size));
  }
  return to + count * size;
}

}  // namespace

bool is_dense(const TensorSpec &spec, const View &view) {
  int64_t unit = unit_of(spec, view);
  for (size_t d = 0; d < spec.shape.size(); d++)
    if (spec.shape[d] != 1 && view.strides[d] * unit != spec.strides[d] * spec.itemsize()) return false;
  return true;
}

std::unique_ptr<char[]> dense_copy(const TensorSpec &spec, const View &view) {
  std::unique_ptr<char[]> made(new (std::nothrow) char[static_cast<size_t>(spec.bytes())]);
  if (made && spec.shape.empty()) std::memcpy(made.get(), view.data, static_cast<size_t>(spec.bytes()));
  if (made && !spec.shape.empty()) copy(spec, view, 0, view.data, made.get());
  return made;
}

}  // namespace tc

// Arrays with gaps, or whose elements lie in another order: parts, transposed arrays and the like.
#pragma once

#include <cstddef>
#include <memory>

#include "entry.h"
#include "views.h"

namespace tc {

// Larger arrays are copied by the library of the caller.
constexpr int64_t kMostCopied = 1 << 18;  // bytes

bool is_dense(const TensorSpec &spec, const View &view);

// A dense row-major copy of an array of the shape of `spec`; null when there is no memory.
std::unique_ptr<char[]> dense_copy(const TensorSpec &spec, const View &view);

}  // namespace tc

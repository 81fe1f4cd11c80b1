// The threads of PyTorch as a team of the pool.
#pragma once

#include "pool.h"

namespace tc {

// PyTorch's OpenMP threads; null if the process has none that can be used.
const pool::Team *torch_threads();

}  // namespace tc

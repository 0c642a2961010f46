#pragma once

#include <string>

#include "graphtune/export.h"

namespace graphtune {

/// Why this process can't compute on a CUDA device ("no CUDA device: …"); empty when it can. Asks
/// the driver, once a process. Thread safe.
[[nodiscard]] GRAPHTUNE_API const std::string& cuda_unavailable_reason();

}  // namespace graphtune

#pragma once

#include <vector>

#include <ATen/Tensor.h>

#include "graphtune/engines/engine_file.h"
#include "graphtune/tensor.h"

namespace graphtune {

/// Fills `outputs` with what a torch runtime gave, in the graph's order, after holding it against
/// the engine's description. A result whose memory someone beside `results` holds (an input, a
/// constant of the model) is copied. Throws EngineError.
void hand_out(const EngineFile& file, const std::vector<at::Tensor>& results,
              std::vector<Tensor>& outputs);

}  // namespace graphtune

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/bundle.h"
#include "graphtune/value.h"

namespace graphtune::tools {

/// A call of a graph at chosen sizes.
struct MadeUpCall {
  std::string sizes;  ///< "b 1, s0 64"
  Arguments arguments;
};

/// Calls at the smallest, middle and largest sizes of a graph's contract, and at the corners of the
/// regions of its plan, each once; where the contract's conditions do not hold, at the nearest
/// sizes where they do. Values are random: floats in [-1, 1), integers within the graph's index
/// ranges, else 1, so that a mask masks nothing. Throws ValueError for tensors that can't be made
/// here (other devices, quantised).
[[nodiscard]] std::vector<MadeUpCall> make_up_calls(const StoredGraph& graph);

}  // namespace graphtune::tools

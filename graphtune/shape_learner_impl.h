#pragma once

// Between shape_derivation.cpp, which decides, and shape_explain.cpp, which says why.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graphtune/shape_learner.h"

namespace graphtune {

struct ShapeLearner::Derived {
  std::vector<AxisFacts> axes;
  std::vector<SymbolRange> symbols;
  std::optional<std::pair<std::int64_t, std::int64_t>> batch_range;
  /// Batch sizes that were stated or measured, ascending.
  std::vector<std::int64_t> labels;
  /// Those that the batch axes met exactly; empty without batch axes.
  std::vector<std::int64_t> met_labels;
  /// With batch axes: the batch size of each observation, as found. Else empty.
  std::vector<std::int64_t> batches;
};

}  // namespace graphtune

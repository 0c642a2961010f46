#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graphtune/json_view.h"
#include "graphtune/sample_metadata.h"
#include "graphtune/shape_learner.h"
#include "graphtune/tensor_spec.h"

// What was learned, as JSON. What is written reads back equal; all that follows from the
// observations is left out and found again. Readers trust nothing and throw ValueError with the
// path.
//
// A learner has its number of "axes", its "observations" as [batch size or 0, sizes …] each, and
// where they apply: "tensors" (the first axis of each, then the number of all), "certain" and
// "inferred" (indices of observations, see BatchLabel), "dropped" (ranges of observations that were
// not kept).

namespace graphtune {

[[nodiscard]] GRAPHTUNE_API Json to_json(const ShapeLearner& learner);
[[nodiscard]] GRAPHTUNE_API ShapeLearner shape_learner_from_json(const JsonView& json);

/// {"name": "args_0", "dtype": "float32", "device": "cpu", "layout": "strided", "learned": …}
[[nodiscard]] GRAPHTUNE_API Json to_json(const TensorSpec& spec);
[[nodiscard]] GRAPHTUNE_API TensorSpec tensor_spec_from_json(const JsonView& json);

/// {"strict": true, "structure": the call tree, "learned": …}
[[nodiscard]] GRAPHTUNE_API Json to_json(const SampleMetadata& metadata);
[[nodiscard]] GRAPHTUNE_API SampleMetadata sample_metadata_from_json(const JsonView& json);

}  // namespace graphtune

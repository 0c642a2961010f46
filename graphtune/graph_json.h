#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graphtune/argument_changes.h"
#include "graphtune/contract.h"
#include "graphtune/graph_spec.h"
#include "graphtune/json_view.h"
#include "graphtune/plan.h"
#include "graphtune/signature.h"

// Graphs, contracts, plans and signatures as JSON. What is written reads back equal. Readers trust
// nothing and throw ValueError with the path.
//
// A contract: {"sizes": [["b", "s0", 8]], "symbols": {"b": [1, 8], "s0": [3, 64]}, "index_ranges":
// [{"tensor": 0, "low": 0, "high": 99}], "conditions": ["b*s0 <= 20"]}, the last only where there
// are any. A plan: [{"engine": "openvino", "region": {"b": [1, 4]}},
// {"engine": "aoti"}]. A signature: [{"name": "x", "kind": "positional_or_keyword"}, {"name":
// "mask", "kind": "keyword_only", "default": null}]; "has_default" stands for a default that is no
// constant.

namespace graphtune {

[[nodiscard]] GRAPHTUNE_API Json to_json(const Contract& contract);
[[nodiscard]] GRAPHTUNE_API Contract contract_from_json(const JsonView& json);

[[nodiscard]] GRAPHTUNE_API Json to_json(const Plan& plan);
[[nodiscard]] GRAPHTUNE_API Plan plan_from_json(const JsonView& json);

[[nodiscard]] GRAPHTUNE_API Json to_json(const Signature& signature);
[[nodiscard]] GRAPHTUNE_API Signature signature_from_json(const JsonView& json);

/// {"form": a call tree, "sources": [0, -1], "extra_results": 1, "not_in_result": "['past']"}
[[nodiscard]] GRAPHTUNE_API Json to_json(const ArgumentChanges& changes);
[[nodiscard]] GRAPHTUNE_API ArgumentChanges argument_changes_from_json(const JsonView& json);

[[nodiscard]] GRAPHTUNE_API Json to_json(const GraphSpec& spec);
[[nodiscard]] GRAPHTUNE_API GraphSpec graph_spec_from_json(const JsonView& json);

}  // namespace graphtune

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graphtune/call_tree.h"
#include "graphtune/constant.h"
#include "graphtune/json_view.h"
#include "graphtune/locator.h"

// Constants, locators and call trees as JSON. What is written reads back equal: floats to the bit,
// strings that are no UTF-8, integers of any size. Readers trust nothing and throw ValueError with
// the path.
//
// A constant is null, true, 5, 0.5 or "text", or an object where JSON has no such value: {"float":
// "nan"},
// {"int": "0x…"}, {"bytes": "hex"}, {"string_hex": "hex"} (no UTF-8), {"type": …, "identity": …,
// "display": …}. A shortened one has its beginning, its "size" and its "sha256". A step is {"at":
// 0}, {"key": constant} or {"attribute": "name"}.
//
// A call tree is the flat list of its nodes, in the caller's order, each with its step; containers
// say how many children follow: {"kind": "call", "nodes": [{"tuple": 1}, {"at": 0, "tensor":
// {"rank": 2, "dtype": "float32", …}}, {"dict": 1},
// {"key": "scale", "constant": 0.5}]}. Sizes and data of tensors are no part of it.

namespace graphtune {

[[nodiscard]] GRAPHTUNE_API Json to_json(const Constant& constant);
[[nodiscard]] GRAPHTUNE_API Constant constant_from_json(const JsonView& json);

[[nodiscard]] GRAPHTUNE_API Json to_json(const Step& step);
[[nodiscard]] GRAPHTUNE_API Step step_from_json(const JsonView& json);

[[nodiscard]] GRAPHTUNE_API Json to_json(const Locator& locator);
[[nodiscard]] GRAPHTUNE_API Locator locator_from_json(const JsonView& json);

/// Numbers stand for types that have no name here.
[[nodiscard]] GRAPHTUNE_API Json to_json(DType dtype);
[[nodiscard]] GRAPHTUNE_API Json to_json(DeviceType device);
[[nodiscard]] GRAPHTUNE_API Json to_json(Layout layout);
[[nodiscard]] GRAPHTUNE_API DType dtype_from_json(const JsonView& json);
[[nodiscard]] GRAPHTUNE_API DeviceType device_type_from_json(const JsonView& json);
[[nodiscard]] GRAPHTUNE_API Layout layout_from_json(const JsonView& json);

[[nodiscard]] GRAPHTUNE_API Json to_json(const CallTree& tree);
/// A finished, detached tree.
[[nodiscard]] GRAPHTUNE_API CallTree call_tree_from_json(const JsonView& json);

}  // namespace graphtune

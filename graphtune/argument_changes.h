#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graphtune/call_tree.h"
#include "graphtune/export.h"

namespace graphtune {

/// What the calls of a graph do to the containers among their arguments (a cache that grows, a list
/// that gets an item), and which of these their result holds.
///
/// A Python process carries it out on the caller's own objects, C++ values don't change: there the
/// result alone counts.
struct ArgumentChanges {
  /// The result and the changed containers in Python's terms (graphtune.argument_changes).
  CallTree form{CallTree::Kind::Result};
  /// What each tensor of the form (canonical) is: result i of the engine, or -1 - i for input i.
  std::vector<std::int32_t> sources;
  /// Results that an engine gives after those of the graph's output tree.
  std::uint32_t extra_results = 0;
  /// Locator of a container that is changed and no part of the result; empty: all are.
  std::string not_in_result;
};

/// Throws ValueError unless the sources are of the form's tensors and within the numbers of results
/// (with the extra ones) and inputs.
GRAPHTUNE_API void check_changes(const ArgumentChanges& changes, std::size_t results,
                                 std::size_t inputs);

}  // namespace graphtune

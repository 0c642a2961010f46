#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graphtune/module.h"
#include "graphtune/safetensors.h"
#include "graphtune/value.h"

namespace graphtune::tools {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// A call as a safetensors file has it.
struct NamedCall {
  std::string number;  ///< "0", "1" …; empty in a file that holds one call without a number
  Arguments arguments;
  NamedTensors inputs;  ///< as named in the file, without the number
};

/// Sorts the tensors of a file into calls, by number, and builds their arguments: a graph whose
/// leaves have the given names gives the structure and the constants (`graph` picks one by name),
/// else the names are parameters and positions. Throws ValueError.
[[nodiscard]] std::vector<NamedCall> make_calls(const NamedTensors& tensors, const Bundle& bundle,
                                                const std::string& graph = {});

/// The tensors of a result by the names under which they are written.
[[nodiscard]] NamedTensors name_results(const Value& result);

/// "input_ids [8, 60] int64, mask [8, 60] bool"
[[nodiscard]] std::string shapes_text(const NamedTensors& tensors);

}  // namespace graphtune::tools

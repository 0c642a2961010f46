#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/plan.h"

namespace graphtune::python {

using Limits = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
/// A plan as Python gives it: engines with the ranges of symbols (by name) that limit their
/// regions.
using PlanEntries = std::vector<std::pair<std::string, Limits>>;

/// Throws ValueError for a name that is no symbol.
[[nodiscard]] std::uint32_t symbol_of(const std::string& name);
[[nodiscard]] Plan make_plan(const PlanEntries& entries);

}  // namespace graphtune::python

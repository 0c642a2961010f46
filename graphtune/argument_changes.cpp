#include "graphtune/argument_changes.h"

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {

void check_changes(const ArgumentChanges& changes, std::size_t results, std::size_t inputs) {
  if (changes.form.kind() != CallTree::Kind::Result) {
    throw ValueError("changed arguments: the form is that of a call, not of a result");
  }
  if (changes.sources.size() != changes.form.tensors().size()) {
    throw ValueError(fmt::format("changed arguments: {} sources for {} tensors",
                                 changes.sources.size(), changes.form.tensors().size()));
  }
  const auto first_input = -static_cast<std::int64_t>(inputs);
  const auto results_end = static_cast<std::int64_t>(results + changes.extra_results);
  for (const std::int32_t source : changes.sources) {
    if (source < first_input || source >= results_end) {
      throw ValueError(
          fmt::format("changed arguments: source {} of {} results and {} inputs (-1, -2 …)", source,
                      results_end, inputs));
    }
  }
}

}  // namespace graphtune

#include "graphtune/miss.h"

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {

std::string_view to_string(MissReason reason) noexcept {
  switch (reason) {
    case MissReason::UnknownGraph:
      return "unknown_graph";
    case MissReason::NotTuned:
      return "not_tuned";
    case MissReason::Range:
      return "range";
    case MissReason::Relation:
      return "relation";
    case MissReason::IndexRange:
      return "index_range";
    case MissReason::Constant:
      return "constant";
    case MissReason::RequiresGrad:
      return "requires_grad";
    case MissReason::TrainMode:
      return "train_mode";
    case MissReason::WeightsChanged:
      return "weights_changed";
    case MissReason::Device:
      return "device";
    case MissReason::SharedArgument:
      return "shared_argument";
    case MissReason::EngineFailed:
      return "engine_failed";
  }
  return "unknown";
}

std::string_view to_string(MissPolicy policy) noexcept {
  switch (policy) {
    case MissPolicy::Eager:
      return "eager";
    case MissPolicy::Error:
      return "error";
    case MissPolicy::Record:
      return "record";
  }
  return "unknown";
}

MissPolicy miss_policy_from_string(std::string_view name) {
  for (const MissPolicy policy : {MissPolicy::Eager, MissPolicy::Error, MissPolicy::Record}) {
    if (name == to_string(policy)) {
      return policy;
    }
  }
  throw ValueError(fmt::format("unknown miss policy '{}': use 'eager', 'error' or 'record'", name));
}

}  // namespace graphtune

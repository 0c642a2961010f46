#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

/// Why a call was not served by a tuned engine. The names (to_string) are what stats() counts by.
enum class MissReason : std::uint8_t {
  UnknownGraph,    ///< structure, rank, dtype, device, layout or constants were never recorded
  NotTuned,        ///< the graph is known, but stayed eager (its spec says why)
  Range,           ///< a size is outside its symbol's range, or differs from a fixed size
  Relation,        ///< sizes that belong together do not (equal, multiple, sum), or a
                   ///< condition on them does not hold
  IndexRange,      ///< a value of an index tensor is out of range
  Constant,        ///< strict mode off: a constant is not the one that engines have built in
  RequiresGrad,    ///< an input requires gradients while gradients are enabled
  TrainMode,       ///< the module is in train mode
  WeightsChanged,  ///< the module's weights were replaced or moved since it was tuned
  Device,          ///< a tensor is on another device index than the engine
  SharedArgument,  ///< forward changes its arguments, and one container is given at two places
  EngineFailed,    ///< the engine raised while it ran
};

[[nodiscard]] GRAPHTUNE_API std::string_view to_string(MissReason reason) noexcept;

struct Miss {
  MissReason reason = MissReason::UnknownGraph;
  /// For people: tensor locator, axis, size, allowed range, next step. Nothing of what needs the
  /// model: whoever has one at hand adds that.
  std::string message;
};

enum class MissPolicy : std::uint8_t { Eager, Error, Record };
[[nodiscard]] GRAPHTUNE_API std::string_view to_string(MissPolicy policy) noexcept;
/// Throws ValueError that lists the policies.
[[nodiscard]] GRAPHTUNE_API MissPolicy miss_policy_from_string(std::string_view name);

}  // namespace graphtune

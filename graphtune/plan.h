#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graphtune/export.h"
#include "graphtune/shape_learner.h"

namespace graphtune {

/// A box of a contract: for each symbol that it limits, an inclusive range.
struct Region {
  struct Limit {
    std::uint32_t symbol = 0;
    SymbolRange range;
    friend bool operator==(const Limit&, const Limit&) = default;
  };
  std::vector<Limit> limits;  ///< empty: everywhere

  [[nodiscard]] bool contains(std::span<const std::int64_t> symbols) const noexcept {
    for (const Limit& limit : limits) {
      const std::int64_t value = symbols[limit.symbol];
      if (value < limit.range.min || value > limit.range.max) {
        return false;
      }
    }
    return true;
  }
  friend bool operator==(const Region&, const Region&) = default;
};

/// Which engine serves which region of a graph's contract. The first entry whose region holds the
/// call wins; no entry: eager (a miss where there is no model).
struct Plan {
  static constexpr const char* kEager = "eager";

  struct Entry {
    std::string engine;  ///< name of an engine of the graph, or kEager
    Region region;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// "everywhere", "b 1 to 4, s0 8 to 64".
[[nodiscard]] GRAPHTUNE_API std::string to_string(const Region& region);
/// "openvino for b 1 to 4; aoti elsewhere".
[[nodiscard]] GRAPHTUNE_API std::string to_string(const Plan& plan);

/// Throws ValueError unless each region limits symbols that `used` lists, each once, to a range
/// that is not empty: a symbol that no axis shows can't be read off a call.
GRAPHTUNE_API void check_regions(const Plan& plan, std::span<const std::uint32_t> used);

/// True when every point of `region` lies in one of `others`; what a region does not limit is
/// limited by `ranges` (indexed by symbol). False also when a finding would take too long, which
/// only absurd plans do.
[[nodiscard]] GRAPHTUNE_API bool is_covered(const Region& region, std::span<const Region> others,
                                            std::span<const SymbolRange> ranges);

}  // namespace graphtune

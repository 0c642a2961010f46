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
};

/// Which engine serves which region of a graph's contract. The first entry whose region holds the call wins; no entry:
/// eager (a miss where there is no model).
struct Plan {
  struct Entry {
    std::string engine;  ///< name of an engine of the graph, or "eager"
    Region region;
  };
  std::vector<Entry> entries;
};

}  // namespace graphtune

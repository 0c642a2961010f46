#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

/// Counters that many threads add to at once. Each thread counts in a stripe of its own, as long as
/// there are enough of them, so that no two wait for one another's cache line. Thread safe; a total
/// is exact once the threads that counted are done.
class GRAPHTUNE_API StripedCounters {
 public:
  explicit StripedCounters(std::size_t count);

  void increment(std::size_t counter) noexcept;
  [[nodiscard]] std::uint64_t total(std::size_t counter) const noexcept;

 private:
  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::size_t kPerLine = kLineBytes / sizeof(std::uint64_t);
  static constexpr std::size_t kStripes = 16;
  struct alignas(kLineBytes) Line {
    std::array<std::atomic<std::uint64_t>, kPerLine> counters{};
  };

  std::size_t lines_per_stripe_;
  std::vector<Line> lines_;
};

}  // namespace graphtune

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

/// Which samples of one graph are kept: the first ones, and once there are as many as allowed,
/// those of rarer batch sizes instead of the latest of the most frequent one. So a data set that is
/// run at batch size 1 first leaves room for the sizes that follow.
class GRAPHTUNE_API SampleShelf {
 public:
  using BatchSize = std::optional<std::int64_t>;
  explicit SampleShelf(std::uint32_t limit) : limit_(limit) {}

  /// Where a sample of this batch size belongs: a new place, or that of the one it replaces.
  [[nodiscard]] std::optional<std::uint32_t> place_for(BatchSize batch_size) const;
  /// Takes a place that `place_for` gave.
  void put(std::uint32_t place, BatchSize batch_size);
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(batch_sizes_.size());
  }

 private:
  std::uint32_t limit_;
  std::vector<BatchSize> batch_sizes_;  // of the sample at each place
};

}  // namespace graphtune

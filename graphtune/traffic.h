#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

/// How often calls of one graph had which sizes. Learning needs each observation once; which engine
/// is worth most depends on how often it comes. Beyond a number of different sizes, new ones are no
/// longer told apart. Not synchronised.
class GRAPHTUNE_API Traffic {
 public:
  static constexpr std::size_t kMaxRows = 4096;
  static constexpr std::size_t kMaxSizes = std::size_t{1} << 20U;  ///< in all rows together

  struct Row {
    std::vector<std::int64_t> sizes;  ///< of all axes of all input tensors, in canonical order
    std::uint64_t calls = 0;
    friend bool operator==(const Row&, const Row&) = default;
  };

  void count(std::span<const std::int64_t> sizes);
  /// In the order of first calls.
  [[nodiscard]] const std::vector<Row>& rows() const noexcept { return rows_; }
  /// Calls whose sizes have no row.
  [[nodiscard]] std::uint64_t others() const noexcept { return others_; }

 private:
  std::vector<Row> rows_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_digest_;
  std::uint64_t others_ = 0;
};

}  // namespace graphtune

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

/// How far an observation's batch size can be trusted.
enum class BatchLabel : std::uint8_t {
  Stated,    ///< by the caller: the last batch of a data set may be shorter than it says
  Certain,   ///< measured, or confirmed by another axis
  Inferred,  ///< read off another axis: certain, but no evidence of its own
};

/// What one sample showed: its batch size (0 = unknown) and the sizes of all axes of all tensors,
/// one after another.
struct Observation {
  std::int64_t batch_size = 0;
  std::vector<std::int64_t> sizes;
  BatchLabel label = BatchLabel::Stated;
  friend bool operator==(const Observation&, const Observation&) = default;
  friend bool operator<(const Observation& a, const Observation& b) {
    return std::tie(a.batch_size, a.sizes, a.label) < std::tie(b.batch_size, b.sizes, b.label);
  }
};

/// A set of observations of one width, limited in size, whose content depends on what was added and
/// not on the order: beyond the limit those with the smallest digests are kept, and the others only
/// widen ranges.
class GRAPHTUNE_API ObservationSet {
 public:
  static constexpr std::size_t kMaxRows = 4096;
  /// Sizes in all rows together (32 MiB): very many axes leave room for fewer rows, but for
  /// kMinRows at least.
  static constexpr std::size_t kMaxSizes = std::size_t{1} << 22U;
  static constexpr std::size_t kMinRows = 64;

  struct Row {
    std::int64_t batch_size = 0;
    BatchLabel label = BatchLabel::Stated;
    std::span<const std::int64_t> sizes;
  };
  /// What is left of the rows that were not kept. Batch sizes are 0 where none was known.
  struct Dropped {
    std::vector<std::int64_t> min;
    std::vector<std::int64_t> max;
    std::int64_t min_batch = 0;
    std::int64_t max_batch = 0;
    friend bool operator==(const Dropped&, const Dropped&) = default;
  };

  explicit ObservationSet(std::size_t width = 0) : width_(width) {}

  [[nodiscard]] std::size_t width() const noexcept { return width_; }
  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  [[nodiscard]] bool empty() const noexcept { return order_.empty(); }
  /// Rows in the order of their digests. The sizes are valid until the set is changed.
  [[nodiscard]] Row operator[](std::size_t index) const noexcept;
  [[nodiscard]] const std::optional<Dropped>& dropped() const noexcept { return dropped_; }

  /// False when the set remains the same. `row.sizes` must have width() entries.
  bool insert(const Row& row);
  /// True when insert() would change nothing. Allocates nothing.
  [[nodiscard]] bool covers(const Row& row) const noexcept;
  /// False when the set remains the same.
  bool merge(const ObservationSet& other);
  /// Adds ranges of rows that were dropped elsewhere; false when they lie within those known.
  bool widen(const Dropped& dropped);

  friend GRAPHTUNE_API bool operator==(const ObservationSet& a, const ObservationSet& b) noexcept;

 private:
  struct Head {
    std::uint64_t digest = 0;
    std::int64_t batch_size = 0;
    BatchLabel label = BatchLabel::Stated;
  };

  [[nodiscard]] std::span<const std::int64_t> sizes_at(std::size_t slot) const noexcept {
    return std::span(sizes_).subspan(slot * width_, width_);
  }
  /// Place of the row in order_, and whether it is there already.
  [[nodiscard]] std::pair<std::size_t, bool> find(
      const Head& head, std::span<const std::int64_t> sizes) const noexcept;
  [[nodiscard]] bool is_within_dropped(const Row& row) const noexcept;

  std::size_t width_;
  std::vector<Head> heads_;           // by slot
  std::vector<std::int64_t> sizes_;   // by slot, width_ each
  std::vector<std::uint32_t> order_;  // slots by digest
  std::optional<Dropped> dropped_;
};

}  // namespace graphtune

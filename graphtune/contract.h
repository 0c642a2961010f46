#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graphtune/call_tree.h"
#include "graphtune/miss.h"
#include "graphtune/sample_metadata.h"
#include "graphtune/shape_learner.h"

namespace graphtune {

/// Allowed values of an integer tensor, inclusive: from the model's index operations.
struct IndexRange {
  std::uint32_t tensor = 0;  ///< canonical index
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// What a graph's engines were validated for: the size of every axis in symbols, each symbol's range, and the values that
/// index tensors may hold. (Rank, dtype, device and layout are part of the CallKey.)
///
/// check() is on the call path: no allocation unless the call is refused. Immutable once built; thread safe.
class GRAPHTUNE_API Contract {
 public:
  Contract() = default;
  /// Axis sizes per tensor in canonical order. Throws ValueError for an empty or negative range, a size that refers to a
  /// symbol without a range, or a symbol that no axis shows by itself (its value could not be read off a call).
  Contract(std::vector<std::vector<SizeExpr>> sizes, std::vector<SymbolRange> symbols, std::vector<IndexRange> indices);
  /// As learned: ranges are what the samples showed.
  static Contract from_metadata(const SampleMetadata& inputs);

  [[nodiscard]] const std::vector<std::vector<SizeExpr>>& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const std::vector<SymbolRange>& symbols() const noexcept { return symbols_; }
  [[nodiscard]] const std::vector<IndexRange>& index_ranges() const noexcept { return indices_; }
  /// Symbols that occur in some axis, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& used_symbols() const noexcept { return used_symbols_; }

  /// Reads the symbols' values off the call and checks every size; `symbols` must hold symbols().size() values and
  /// is filled. Null when all holds. `tree` must have the graph's key.
  [[nodiscard]] std::optional<Miss> check_sizes(const CallTree& tree, std::span<std::int64_t> symbols) const;
  /// Index values of CPU tensors (any strides). A violation is an error of the call, not a miss of the tuning:
  /// the caller raises it or runs eagerly, which raises too.
  [[nodiscard]] std::optional<Miss> check_indices(const CallTree& tree) const;

 private:
  struct AxisCheck {
    std::uint32_t tensor = 0;  // canonical
    std::uint32_t axis = 0;
    std::uint32_t symbol = 0;  // Bind: the symbol
    std::int64_t value = 0;    // Fixed: the size; Bind: the coefficient
    const SizeExpr* expr = nullptr;
    enum class Kind : std::uint8_t { Fixed, Bind, Equal } kind = Kind::Fixed;
  };
  std::vector<std::vector<SizeExpr>> sizes_;
  std::vector<SymbolRange> symbols_;
  std::vector<IndexRange> indices_;
  std::vector<std::uint32_t> used_symbols_;
};

}  // namespace graphtune

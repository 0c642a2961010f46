#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graphtune/call_tree.h"
#include "graphtune/export.h"
#include "graphtune/miss.h"
#include "graphtune/sample_metadata.h"
#include "graphtune/shape_learner.h"
#include "graphtune/size_condition.h"

namespace graphtune {

/// Allowed values of an integer tensor, inclusive: from the model's index operations.
struct IndexRange {
  std::uint32_t tensor = 0;  ///< canonical index
  std::int64_t low = 0;
  std::int64_t high = 0;
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// What a graph's engines were validated for: the size of every axis in symbols, each symbol's
/// range, conditions on several sizes together, and the values that index tensors may hold. (Rank,
/// dtype, device and layout are part of the CallKey.)
///
/// The checks are on the call path: no allocation unless the call is refused. Immutable once built;
/// thread safe.
class GRAPHTUNE_API Contract {
 public:
  Contract() = default;
  /// Axis sizes per tensor in canonical order. Throws ValueError for an empty or negative range, a
  /// size that refers to a symbol without a range, a symbol that no axis shows by itself (its value
  /// could not be read off a call), sizes that are negative or overflow somewhere in the ranges,
  /// for an index range that is empty or of no tensor, and for a condition that has no symbol, or
  /// one that has no range or that no axis shows.
  Contract(std::vector<std::vector<SizeExpr>> sizes, std::vector<SymbolRange> symbols,
           std::vector<IndexRange> indices, std::vector<SizeCondition> conditions = {});
  /// As learned: ranges are what the samples showed.
  static Contract from_metadata(const SampleMetadata& inputs);

  [[nodiscard]] const std::vector<std::vector<SizeExpr>>& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const std::vector<SymbolRange>& symbols() const noexcept { return symbols_; }
  [[nodiscard]] const std::vector<IndexRange>& index_ranges() const noexcept { return indices_; }
  /// All of them have to hold, besides the ranges.
  [[nodiscard]] const std::vector<SizeCondition>& conditions() const noexcept {
    return conditions_;
  }
  /// Symbols that occur in some axis, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& used_symbols() const noexcept {
    return used_symbols_;
  }

  /// Whether the conditions hold for values of all symbols, which need not come from a call.
  [[nodiscard]] bool conditions_hold(std::span<const std::int64_t> symbols) const;

  /// Reads the symbols' values off the call and checks every size and condition; `symbols` must
  /// hold symbols().size() values and is filled (a symbol that no axis has: its range's minimum).
  /// Null when all holds. `tree` must have the graph's key.
  [[nodiscard]] std::optional<Miss> check_sizes(const CallTree& tree,
                                                std::span<std::int64_t> symbols) const;
  /// Index values of CPU tensors (any strides); an index tensor on another device or without data
  /// is refused, since its values can't be seen. A violation is an error of the call, not a miss of
  /// the tuning: the caller raises it or runs eagerly, which raises too.
  [[nodiscard]] std::optional<Miss> check_indices(const CallTree& tree) const;

  /// Tensors of a call without its tree: `order` maps canonical indices to theirs, empty when they
  /// stand in canonical order.
  struct Tensors {
    std::span<const TensorView> views;
    std::span<const std::uint32_t> order;

    [[nodiscard]] const TensorView& operator[](std::size_t canonical) const noexcept {
      return views[order.empty() ? canonical : order[canonical]];
    }
  };
  /// The same checks where nothing needs to be said. `symbols` must hold symbols().size() values.
  [[nodiscard]] bool sizes_hold(const Tensors& tensors, std::span<std::int64_t> symbols) const;
  [[nodiscard]] bool indices_hold(const Tensors& tensors) const;

  friend bool operator==(const Contract& a, const Contract& b) {
    return a.sizes_ == b.sizes_ && a.symbols_ == b.symbols_ && a.indices_ == b.indices_ &&
           a.conditions_ == b.conditions_;
  }

 private:
  static constexpr std::size_t kMaxRank = std::numeric_limits<std::uint16_t>::max();

  /// One axis, compiled to what every call reads, in as little memory as it takes: of many graphs
  /// in turn all of it passes through the caches. Bind reads a symbol off a size that is one,
  /// BindLinear off coefficient * symbol + offset.
  struct AxisCheck {
    enum class Kind : std::uint8_t { Fixed, Bind, BindLinear, Same, Linear } kind = Kind::Fixed;
    std::uint16_t axis = 0;
    std::uint32_t tensor = 0;  // canonical
    std::uint32_t symbol = 0;  // Bind, BindLinear, Same
    std::int64_t low = 0;      // Fixed: the size; Bind, BindLinear: smallest size
    std::int64_t high = 0;     // Bind, BindLinear: largest size
    [[nodiscard]] bool binds() const noexcept {
      return kind == Kind::Bind || kind == Kind::BindLinear;
    }
  };
  static_assert(sizeof(AxisCheck) == 32);
  /// The first axis that is not as it should be, null when all are; `symbols` gets what was read.
  [[nodiscard]] const AxisCheck* first_wrong_axis(const Tensors& tensors,
                                                  std::span<std::int64_t> symbols) const noexcept;
  void check_symbols() const;
  void check_extremes(std::uint32_t tensor, std::uint32_t axis) const;
  void compile();
  void check_conditions() const;
  [[nodiscard]] const SizeExpr& size_of(const AxisCheck& check) const {
    return sizes_[check.tensor][check.axis];
  }
  [[nodiscard]] Miss refuse_size(const CallTree& tree, const AxisCheck& check, std::int64_t size,
                                 std::span<const std::int64_t> symbols) const;
  [[nodiscard]] Miss refuse_condition(const CallTree& tree, const SizeCondition& condition,
                                      std::span<const std::int64_t> symbols) const;
  /// "axis 0 of ['x']": where a used symbol is read.
  [[nodiscard]] std::string source_text(const CallTree& tree, std::uint32_t symbol) const;

  std::vector<std::vector<SizeExpr>> sizes_;
  std::vector<SymbolRange> symbols_;
  std::vector<IndexRange> indices_;
  std::vector<SizeCondition> conditions_;
  std::vector<std::uint32_t> used_symbols_;
  std::vector<AxisCheck> checks_;  // all Fixed, then all Bind, then Same and Linear
};

}  // namespace graphtune

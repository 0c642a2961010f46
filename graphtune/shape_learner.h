#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

/// What one sample showed: its batch size (0 = unknown) and the sizes of all axes of all tensors, one after another.
struct Observation {
  std::int64_t batch_size = 0;
  std::vector<std::int64_t> sizes;
  friend auto operator<=>(const Observation&, const Observation&) = default;
};

enum class AxisClass : std::uint8_t { Static, Batch, Dynamic };

/// A size as a linear expression of symbols: offset + sum of coefficient * symbol. Symbol 0 is the batch size `b`,
/// symbol k > 0 prints as `s<k-1>`. Static axes have no terms.
struct GRAPHTUNE_API SizeExpr {
  std::int64_t offset = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> terms;  ///< (symbol, coefficient), by symbol

  [[nodiscard]] bool is_constant() const noexcept { return terms.empty(); }
  /// One symbol with coefficient 1 and no offset.
  [[nodiscard]] bool is_symbol() const noexcept {
    return offset == 0 && terms.size() == 1 && terms[0].second == 1;
  }
  /// "8", "b", "2*b", "s0+s1", "s0+1"
  [[nodiscard]] std::string to_string() const;
  /// Inverse of to_string. Throws ValueError.
  static SizeExpr parse(std::string_view text);
  /// Value for the given symbol values (indexed by symbol).
  [[nodiscard]] std::int64_t evaluate(std::span<const std::int64_t> symbols) const;
  friend bool operator==(const SizeExpr&, const SizeExpr&) = default;
};

[[nodiscard]] GRAPHTUNE_API std::string symbol_name(std::uint32_t symbol);

/// What the observations say about one axis.
struct AxisFacts {
  AxisClass axis_class = AxisClass::Static;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::int64_t multiplier = 0;  ///< Batch: size = multiplier * batch size
  bool ambiguous = false;       ///< the evidence also fits another reading; see explain()
  SizeExpr size;                ///< in symbols
};

/// Range of one symbol over all observations.
struct SymbolRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
  friend bool operator==(const SymbolRange&, const SymbolRange&) = default;
};

/// Why an axis was classed as it was, and which sample would settle an ambiguity.
struct AxisExplanation {
  std::string reason;              ///< one sentence
  std::vector<Observation> decided_by;  ///< projected to (batch size, this axis)
  std::string settle;              ///< the sample that would settle it; empty when not ambiguous
};

/// Decides which axes are batch axes, which are dynamic, and which share a symbol.
///
/// It keeps the set of distinct observations, and all else is a pure function of that set: the order of samples
/// can never matter, and merging is set union. Rules:
///   static   one size only
///   batch    size = m * batch size for one integer m >= 1 in all observations that have a batch size, of which at least
///            two are different; an observation in which every batch axis agrees on a smaller batch than its label says is
///            a short last batch and counts with the batch that it has
///   dynamic  else
/// Symbols: `b` for the batch size; dynamic axes that are equal in all observations share one; a sum of two symbols,
/// an integer multiple of one or a fixed offset to one is used instead of a new symbol where at least three independent
/// observations prove it.
///
/// Beyond kMaxObservations distinct observations those with the smallest digests are kept (again a function of the set) and
/// the others only widen the ranges. Not synchronised.
class GRAPHTUNE_API ShapeLearner {
 public:
  static constexpr std::size_t kMaxObservations = 4096;

  explicit ShapeLearner(std::size_t axis_count = 0) : axis_count_(axis_count) {}

  [[nodiscard]] std::size_t axis_count() const noexcept { return axis_count_; }
  /// Adds one; false when it was known. Sizes must match axis_count() (ValueError), batch_size >= 0.
  bool observe(Observation observation);
  /// True if this very observation is known (no allocation).
  [[nodiscard]] bool knows(std::int64_t batch_size, std::span<const std::int64_t> sizes) const;
  void merge(const ShapeLearner& other);
  /// The learner of a part of the axes, with the same observations (batch sizes as repaired).
  [[nodiscard]] ShapeLearner project(std::size_t first, std::size_t count) const;

  [[nodiscard]] const std::vector<AxisFacts>& axes() const;
  /// Indexed by symbol; [0] is the batch size (0..0 when no observation has one).
  [[nodiscard]] const std::vector<SymbolRange>& symbols() const;
  [[nodiscard]] AxisExplanation explain(std::size_t axis) const;
  /// Smallest and largest batch size seen (after repair of short batches), if any.
  [[nodiscard]] std::optional<std::pair<std::int64_t, std::int64_t>> batch_range() const;
  [[nodiscard]] std::vector<Observation> observations() const;  ///< sorted

 private:
  // implementation's choice; derived facts are computed on demand and cached
  struct Derived;
  std::size_t axis_count_;
};

}  // namespace graphtune

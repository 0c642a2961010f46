#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/export.h"
#include "graphtune/observation_set.h"
#include "graphtune/size_expr.h"

namespace graphtune {

enum class AxisClass : std::uint8_t { Static, Batch, Dynamic };

/// What the observations say about one axis.
struct AxisFacts {
  AxisClass axis_class = AxisClass::Static;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::int64_t multiplier = 0;  ///< Batch: size = multiplier * batch size
  bool ambiguous = false;       ///< the evidence also fits another reading; see explain()
  SizeExpr size;                ///< in symbols
  friend bool operator==(const AxisFacts&, const AxisFacts&) = default;
};

/// Range of one symbol over all observations.
struct SymbolRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
  friend bool operator==(const SymbolRange&, const SymbolRange&) = default;
};

/// Why an axis was classed as it was, and which sample would settle an ambiguity.
struct AxisExplanation {
  std::string reason;                   ///< one sentence
  std::vector<Observation> decided_by;  ///< projected to (batch size, this axis)
  std::string settle;  ///< the sample that would settle it; empty when not ambiguous
};

/// Decides which axes are batch axes, which are dynamic, and which share a symbol.
///
/// It keeps the set of distinct observations, and all else is a pure function of that set: the
/// order of samples can never matter, and merging is set union. Rules:
///   static   one size only
///   batch    size = m * batch size for one integer m >= 1 in all observations
///   dynamic  else
/// At least two batch sizes must be met exactly, and half of all those stated. Where all batch axes
/// agree on a smaller batch than was stated, it is a short last batch and counts as what it is;
/// where they agree and no batch size was stated, it counts too. Axes that can't all be batch axes:
/// those that meet the stated batch size most often win, then those with the larger batches, then
/// the more numerous.
///
/// Ambiguous: a static axis that is a multiple of the only batch size seen; a batch axis with m > 1
/// that met only two batch sizes; all batch axes of one tensor but that with the smallest m.
///
/// Symbols: `b` for the batch size; dynamic axes that are equal in all observations share one; a
/// sum of two symbols, an integer multiple of one or a fixed offset to one is used instead of a new
/// symbol where at least three independent observations prove it (see symbol_search.h).
///
/// The number of observations kept is limited (see ObservationSet): more only widen the ranges.
/// Reading from several threads is safe; otherwise not synchronised.
class GRAPHTUNE_API ShapeLearner {
 public:
  static constexpr std::size_t kMaxObservations = ObservationSet::kMaxRows;

  /// All axes are those of one tensor.
  explicit ShapeLearner(std::size_t axis_count = 0) : observations_(axis_count) {}
  /// Axes of several tensors: `offsets` has the first axis of each tensor, then the number of all
  /// axes. Throws ValueError unless it begins with 0 and never falls.
  explicit ShapeLearner(std::vector<std::uint32_t> offsets);
  /// The same, shared with the caller.
  explicit ShapeLearner(std::shared_ptr<const std::vector<std::uint32_t>> offsets);
  /// Says which tensors the axes are of. Throws ValueError when it's another number of axes.
  void set_tensors(std::shared_ptr<const std::vector<std::uint32_t>> offsets);

  [[nodiscard]] std::size_t axis_count() const noexcept { return observations_.width(); }
  /// First axis of each tensor, then the number of all axes.
  [[nodiscard]] std::vector<std::uint32_t> tensor_offsets() const;
  /// Adds one; false when it taught nothing new. Sizes must match axis_count() and not be negative,
  /// batch_size >= 0 (ValueError).
  bool observe(const Observation& observation);
  bool observe(std::int64_t batch_size, std::span<const std::int64_t> sizes);
  /// True if observing this would change nothing (no allocation).
  [[nodiscard]] bool knows(std::int64_t batch_size,
                           std::span<const std::int64_t> sizes) const noexcept;
  /// Throws ValueError when the other's axes are not the same.
  void merge(const ShapeLearner& other);
  /// The learner of a part of the axes, with the same observations; batch sizes as found here
  /// (repaired, inferred) and certain. Its axes have the classes that they have here.
  [[nodiscard]] ShapeLearner project(std::size_t first, std::size_t count) const;

  /// Valid until the learner is changed.
  [[nodiscard]] const std::vector<AxisFacts>& axes() const&;
  const std::vector<AxisFacts>& axes() const&& = delete;
  /// Indexed by symbol; [0] is the batch size (0..0 when no observation has one).
  [[nodiscard]] const std::vector<SymbolRange>& symbols() const&;
  const std::vector<SymbolRange>& symbols() const&& = delete;
  [[nodiscard]] AxisExplanation explain(std::size_t axis) const;
  /// Smallest and largest batch size seen (as repaired and inferred), if any.
  [[nodiscard]] std::optional<std::pair<std::int64_t, std::int64_t>> batch_range() const;
  [[nodiscard]] std::vector<Observation> observations() const;  ///< sorted
  /// Same axes and same observations.
  friend GRAPHTUNE_API bool operator==(const ShapeLearner& a, const ShapeLearner& b) noexcept;

 private:
  friend struct ShapeLearnerJson;
  friend class AxisExplainer;
  struct Derived;
  class Derivation;
  /// Computed on demand; copies of a learner share it.
  class Cache {
   public:
    Cache() = default;
    ~Cache() = default;
    Cache(const Cache& other) noexcept : derived_(other.get()) {}
    Cache& operator=(const Cache& other);
    [[nodiscard]] std::shared_ptr<const Derived> get() const;
    /// The first value that was set since reset() stays: references into it are handed out.
    const Derived& set(std::shared_ptr<const Derived> derived) const;
    void reset();

   private:
    mutable std::mutex mutex_;
    mutable std::shared_ptr<const Derived> derived_;
  };

  bool observe(ObservationSet::Row row);
  [[nodiscard]] bool has_tensors_of(const ShapeLearner& other) const noexcept;
  [[nodiscard]] const Derived& derived() const;
  [[nodiscard]] Derived derive() const;

  ObservationSet observations_;
  std::shared_ptr<const std::vector<std::uint32_t>> offsets_;  // null: one tensor
  Cache cache_;
};

}  // namespace graphtune

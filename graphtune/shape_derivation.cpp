// From observations to facts: the rules are those of shape_learner.h.
#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "graphtune/mix.h"
#include "graphtune/shape_learner.h"
#include "graphtune/shape_learner_impl.h"
#include "graphtune/symbol_search.h"

namespace graphtune {
namespace {

__extension__ using Int128 = __int128;

/// Axes that have the same size in every observation, and the same range: what holds for one holds
/// for all. Most models have thousands of axes and a handful of these.
struct SizeClass {
  std::vector<std::size_t> axes;  // ascending
  std::int64_t multiplier = 0;    // as a batch axis
  bool is_batch = false;
};

/// Axes that imply the same batch size in every observation.
struct BatchGroup {
  std::vector<std::size_t> classes;
  std::size_t axis_count = 0;
  SizeColumn batches;        // implied batch size by row
  std::size_t met_rows = 0;  // rows whose stated batch size it is
  Int128 stated_total = 0;   // of the implied batches of rows with a stated batch size
  Int128 unstated_total = 0;
};

bool is_weaker(const BatchGroup& a, const BatchGroup& b) {
  const auto rank = [](const BatchGroup& group) {
    return std::tuple(group.met_rows, group.stated_total, group.axis_count, group.unstated_total);
  };
  return rank(a) != rank(b) ? rank(a) < rank(b) : a.batches < b.batches;
}

}  // namespace

/// One pass from the observations to all facts. Rows are read in the order of the set, which
/// depends on nothing else.
class ShapeLearner::Derivation {
 public:
  explicit Derivation(const ShapeLearner& learner)
      : rows_(learner.observations_), offsets_(learner.tensor_offsets()), axes_(rows_.width()) {}

  [[nodiscard]] Derived run() {
    find_ranges();
    find_classes();
    find_labels();
    if (labels_.size() >= 2) {
      find_batch_axes();
    }
    find_symbols();
    flag_ambiguities();
    Derived derived;
    derived.axes = std::move(axes_);
    derived.symbols = std::move(symbols_);
    derived.batch_range = batch_range_;
    derived.labels = std::move(labels_);
    derived.met_labels = std::move(met_labels_);
    derived.batches = std::move(batches_);
    return derived;
  }

 private:
  [[nodiscard]] bool is_evidence(const ObservationSet::Row& row) const {
    return row.batch_size > 0 && row.label != BatchLabel::Inferred;
  }

  void find_ranges() {
    if (rows_.empty()) {
      return;
    }
    for (AxisFacts& axis : axes_) {
      axis.min = std::numeric_limits<std::int64_t>::max();
      axis.max = -1;
    }
    const auto widen = [this](std::span<const std::int64_t> low,
                              std::span<const std::int64_t> high) {
      for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
        axes_[axis].min = std::min(axes_[axis].min, low[axis]);
        axes_[axis].max = std::max(axes_[axis].max, high[axis]);
      }
    };
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      widen(rows_[row].sizes, rows_[row].sizes);
    }
    if (rows_.dropped()) {
      widen(rows_.dropped()->min, rows_.dropped()->max);
    }
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      if (axes_[axis].min == axes_[axis].max) {
        axes_[axis].size = SizeExpr::constant(axes_[axis].min);
      } else {
        axes_[axis].axis_class = AxisClass::Dynamic;
        varying_.push_back(axis);
      }
    }
  }

  void find_classes() {
    std::vector<std::uint64_t> hashes(varying_.size(), 0);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::span<const std::int64_t> sizes = rows_[row].sizes;
      for (std::size_t i = 0; i < varying_.size(); ++i) {
        hashes[i] = mix64(hashes[i] ^ static_cast<std::uint64_t>(sizes[varying_[i]]));
      }
    }
    std::unordered_multimap<std::uint64_t, std::size_t> by_hash;
    for (std::size_t i = 0; i < varying_.size(); ++i) {
      const auto [first, last] = by_hash.equal_range(hashes[i]);
      const auto same = std::find_if(first, last, [&](const auto& entry) {
        return are_alike(classes_[entry.second].axes.front(), varying_[i]);
      });
      if (same != last) {
        classes_[same->second].axes.push_back(varying_[i]);
      } else {
        by_hash.emplace(hashes[i], classes_.size());
        classes_.push_back({{varying_[i]}});
      }
    }
  }

  /// Ranges are compared too: they know of observations that were not kept.
  [[nodiscard]] bool are_alike(std::size_t a, std::size_t b) const {
    if (axes_[a].min != axes_[b].min || axes_[a].max != axes_[b].max) {
      return false;
    }
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].sizes[a] != rows_[row].sizes[b]) {
        return false;
      }
    }
    return true;
  }

  void find_labels() {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const ObservationSet::Row observation = rows_[row];
      if (observation.batch_size > 0) {
        widen_batch_range(observation.batch_size, observation.batch_size);
        if (is_evidence(observation)) {
          labels_.push_back(observation.batch_size);
        }
      }
    }
    if (rows_.dropped() && rows_.dropped()->max_batch > 0) {
      widen_batch_range(rows_.dropped()->min_batch, rows_.dropped()->max_batch);
    }
    std::sort(labels_.begin(), labels_.end());
    labels_.erase(std::unique(labels_.begin(), labels_.end()), labels_.end());
  }

  void widen_batch_range(std::int64_t low, std::int64_t high) {
    batch_range_ = batch_range_ ? std::pair(std::min(batch_range_->first, low),
                                            std::max(batch_range_->second, high))
                                : std::pair(low, high);
  }

  // Batch axes
  // ------------------------------------------------------------------------------------------------------

  void find_batch_axes() {
    find_multipliers();
    std::vector<BatchGroup> groups;
    std::unordered_multimap<std::uint64_t, std::size_t> by_hash;
    SizeColumn batches;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (!implied_batches(classes_[i], batches)) {
        continue;
      }
      const std::uint64_t digest = hash(batches);
      const auto [first, last] = by_hash.equal_range(digest);
      const auto same = std::find_if(
          first, last, [&](const auto& entry) { return groups[entry.second].batches == batches; });
      const std::size_t index = same != last ? same->second : groups.size();
      if (same == last) {
        by_hash.emplace(digest, index);
        groups.push_back(group_of(batches));
      }
      groups[index].classes.push_back(i);
      groups[index].axis_count += classes_[i].axes.size();
    }
    if (!groups.empty()) {
      accept(*std::max_element(groups.begin(), groups.end(), is_weaker));
    }
  }

  /// For each class the smallest integer m with size <= m * batch size wherever there is one.
  void find_multipliers() {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const ObservationSet::Row observation = rows_[row];
      if (observation.batch_size == 0) {
        continue;
      }
      for (SizeClass& each : classes_) {
        const std::int64_t size = observation.sizes[each.axes.front()];
        const std::int64_t rounded_up =
            size / observation.batch_size +
            static_cast<std::int64_t>(size % observation.batch_size != 0);
        each.multiplier = std::max(each.multiplier, rounded_up);
      }
    }
  }

  /// Fills in the batch size that the axes imply in each row; false when they can't be batch axes
  /// at all.
  [[nodiscard]] bool implied_batches(const SizeClass& size_class, SizeColumn& batches) const {
    const std::size_t axis = size_class.axes.front();
    const std::int64_t multiplier = size_class.multiplier;
    if (multiplier == 0 || axes_[axis].min % multiplier != 0 || axes_[axis].max % multiplier != 0) {
      return false;
    }
    batches.resize(rows_.size());
    std::vector<bool> met(labels_.size(), false);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const ObservationSet::Row observation = rows_[row];
      const std::int64_t size = observation.sizes[axis];
      batches[row] = size / multiplier;
      const bool meets = batches[row] == observation.batch_size;
      const bool must_meet = observation.batch_size > 0 && observation.label != BatchLabel::Stated;
      if (size % multiplier != 0 || (must_meet && !meets)) {
        return false;
      }
      if (meets && is_evidence(observation)) {
        met[label_index(observation.batch_size)] = true;
      }
    }
    const auto met_count = static_cast<std::size_t>(std::count(met.begin(), met.end(), true));
    return met_count >= 2 && 2 * met_count >= labels_.size();
  }

  [[nodiscard]] std::size_t label_index(std::int64_t label) const {
    return static_cast<std::size_t>(std::lower_bound(labels_.begin(), labels_.end(), label) -
                                    labels_.begin());
  }

  [[nodiscard]] BatchGroup group_of(const SizeColumn& batches) const {
    BatchGroup group;
    group.batches = batches;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const ObservationSet::Row observation = rows_[row];
      group.met_rows += static_cast<std::size_t>(observation.batch_size > 0 &&
                                                 batches[row] == observation.batch_size);
      (observation.batch_size > 0 ? group.stated_total : group.unstated_total) += batches[row];
    }
    return group;
  }

  void accept(const BatchGroup& group) {
    batches_ = group.batches;
    // Stated batch sizes that turned out to be too large no longer count.
    const auto [low, high] = std::minmax_element(batches_.begin(), batches_.end());
    batch_range_ = std::pair(*low, *high);
    for (const std::size_t index : group.classes) {
      SizeClass& size_class = classes_[index];
      size_class.is_batch = true;
      const AxisFacts& first = axes_[size_class.axes.front()];
      widen_batch_range(first.min / size_class.multiplier, first.max / size_class.multiplier);
      for (const std::size_t axis : size_class.axes) {
        axes_[axis].axis_class = AxisClass::Batch;
        axes_[axis].multiplier = size_class.multiplier;
        axes_[axis].size = SizeExpr::symbol(0, size_class.multiplier);
      }
    }
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (is_evidence(rows_[row]) && rows_[row].batch_size == batches_[row]) {
        met_labels_.push_back(batches_[row]);
      }
    }
    std::sort(met_labels_.begin(), met_labels_.end());
    met_labels_.erase(std::unique(met_labels_.begin(), met_labels_.end()), met_labels_.end());
  }

  static std::uint64_t hash(const SizeColumn& column) {
    std::uint64_t hash = 0;
    for (const std::int64_t value : column) {
      hash = mix64(hash ^ static_cast<std::uint64_t>(value));
    }
    return hash;
  }

  // Symbols
  // ---------------------------------------------------------------------------------------------------------

  void find_symbols() {
    std::vector<SizeColumn> columns;
    std::vector<const SizeClass*> named;
    for (const SizeClass& size_class : classes_) {
      if (!size_class.is_batch) {
        columns.push_back(column_of(size_class.axes.front()));
        named.push_back(&size_class);
      }
    }
    name_classes(columns, named);
  }

  [[nodiscard]] SizeColumn column_of(std::size_t axis) const {
    SizeColumn column(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      column[row] = rows_[row].sizes[axis];
    }
    return column;
  }

  void name_classes(const std::vector<SizeColumn>& columns,
                    const std::vector<const SizeClass*>& classes) {
    symbols_.push_back(batch_range_ ? SymbolRange{batch_range_->first, batch_range_->second}
                                    : SymbolRange{});
    const std::vector<SizeExpr> names =
        name_columns(columns, batches_.empty() ? nullptr : &batches_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (const std::size_t axis : classes[i]->axes) {
        axes_[axis].size = names[i];
      }
      if (names[i].is_symbol() && names[i].terms[0].first == symbols_.size()) {
        const AxisFacts& first = axes_[classes[i]->axes.front()];
        symbols_.push_back({first.min, first.max});
      }
    }
  }

  void flag_ambiguities() {
    for (AxisFacts& axis : axes_) {
      if (axis.axis_class == AxisClass::Static) {
        axis.ambiguous = labels_.size() == 1 && axis.min > 0 && axis.min % labels_.front() == 0;
      } else if (axis.axis_class == AxisClass::Batch) {
        axis.ambiguous = axis.multiplier > 1 && met_labels_.size() == 2;
      }
    }
    for (std::size_t tensor = 0; tensor + 1 < offsets_.size(); ++tensor) {
      AxisFacts* primary = nullptr;
      for (std::size_t axis = offsets_[tensor]; axis < offsets_[tensor + 1]; ++axis) {
        if (axes_[axis].axis_class != AxisClass::Batch) {
          continue;
        }
        if (primary == nullptr) {
          primary = &axes_[axis];
        } else if (axes_[axis].multiplier < primary->multiplier) {
          primary->ambiguous = true;
          primary = &axes_[axis];
        } else {
          axes_[axis].ambiguous = true;
        }
      }
    }
  }

  const ObservationSet& rows_;
  std::vector<std::uint32_t> offsets_;
  std::vector<AxisFacts> axes_;
  std::vector<std::size_t> varying_;  // axes that are not static
  std::vector<SizeClass> classes_;    // of those, in the order of their first axes
  std::vector<std::int64_t> labels_;
  std::vector<std::int64_t> met_labels_;
  SizeColumn batches_;
  std::vector<SymbolRange> symbols_;
  std::optional<std::pair<std::int64_t, std::int64_t>> batch_range_;
};

ShapeLearner::Derived ShapeLearner::derive() const { return Derivation(*this).run(); }

}  // namespace graphtune

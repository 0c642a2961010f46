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

/// Axes that imply the same batch size in every observation.
struct BatchGroup {
  std::vector<std::size_t> axes;  // ascending
  SizeColumn batches;             // implied batch size by row
  std::size_t met_rows = 0;       // rows whose stated batch size it is
  Int128 stated_total = 0;        // of the implied batches of rows with a stated batch size
  Int128 unstated_total = 0;
};

bool is_weaker(const BatchGroup& a, const BatchGroup& b) {
  const auto rank = [](const BatchGroup& group) {
    return std::tuple(group.met_rows, group.stated_total, group.axes.size(), group.unstated_total);
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
    const std::vector<std::int64_t> multipliers = find_multipliers();
    std::vector<BatchGroup> groups;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_hash;
    SizeColumn batches;
    for (std::size_t i = 0; i < varying_.size(); ++i) {
      if (!implied_batches(varying_[i], multipliers[i], batches)) {
        continue;
      }
      std::vector<std::size_t>& alike = by_hash[hash(batches)];
      const auto same = std::find_if(alike.begin(), alike.end(), [&](std::size_t group) {
        return groups[group].batches == batches;
      });
      if (same != alike.end()) {
        groups[*same].axes.push_back(varying_[i]);
      } else {
        alike.push_back(groups.size());
        groups.push_back(make_group(varying_[i], batches));
      }
      axes_[varying_[i]].multiplier = multipliers[i];
    }
    if (groups.empty()) {
      return;
    }
    accept(*std::max_element(groups.begin(), groups.end(), is_weaker));
  }

  /// For each varying axis the smallest integer m with size <= m * batch size wherever there is
  /// one.
  [[nodiscard]] std::vector<std::int64_t> find_multipliers() const {
    std::vector<std::int64_t> multipliers(varying_.size(), 0);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const ObservationSet::Row observation = rows_[row];
      if (observation.batch_size == 0) {
        continue;
      }
      for (std::size_t i = 0; i < varying_.size(); ++i) {
        const std::int64_t size = observation.sizes[varying_[i]];
        const std::int64_t rounded_up =
            size / observation.batch_size +
            static_cast<std::int64_t>(size % observation.batch_size != 0);
        multipliers[i] = std::max(multipliers[i], rounded_up);
      }
    }
    return multipliers;
  }

  /// Fills in the batch size that the axis implies in each row; false when it can't be a batch axis
  /// at all.
  [[nodiscard]] bool implied_batches(std::size_t axis, std::int64_t multiplier,
                                     SizeColumn& batches) const {
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

  [[nodiscard]] BatchGroup make_group(std::size_t axis, const SizeColumn& batches) const {
    BatchGroup group;
    group.axes = {axis};
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
    for (const std::size_t axis : group.axes) {
      AxisFacts& facts = axes_[axis];
      facts.axis_class = AxisClass::Batch;
      facts.size = SizeExpr::symbol(0, facts.multiplier);
      widen_batch_range(facts.min / facts.multiplier, facts.max / facts.multiplier);
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
    std::vector<std::vector<std::size_t>> classes;  // axes of each column
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_hash;
    for (const std::size_t axis : varying_) {
      if (axes_[axis].axis_class != AxisClass::Dynamic) {
        continue;
      }
      axes_[axis].multiplier = 0;
      // Ranges are compared too: they know of observations that were not kept.
      SizeColumn column = column_of(axis);
      std::vector<std::size_t>& alike = by_hash[hash(column)];
      const auto same = std::find_if(alike.begin(), alike.end(), [&](std::size_t index) {
        const AxisFacts& other = axes_[classes[index].front()];
        return columns[index] == column && other.min == axes_[axis].min &&
               other.max == axes_[axis].max;
      });
      if (same != alike.end()) {
        classes[*same].push_back(axis);
      } else {
        alike.push_back(columns.size());
        columns.push_back(std::move(column));
        classes.push_back({axis});
      }
    }
    name_classes(columns, classes);
  }

  [[nodiscard]] SizeColumn column_of(std::size_t axis) const {
    SizeColumn column(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      column[row] = rows_[row].sizes[axis];
    }
    return column;
  }

  void name_classes(const std::vector<SizeColumn>& columns,
                    const std::vector<std::vector<std::size_t>>& classes) {
    symbols_.push_back(batch_range_ ? SymbolRange{batch_range_->first, batch_range_->second}
                                    : SymbolRange{});
    const std::vector<SizeExpr> names =
        name_columns(columns, batches_.empty() ? nullptr : &batches_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (const std::size_t axis : classes[i]) {
        axes_[axis].size = names[i];
      }
      if (names[i].is_symbol() && names[i].terms[0].first == symbols_.size()) {
        const AxisFacts& first = axes_[classes[i].front()];
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
  std::vector<std::int64_t> labels_;
  std::vector<std::int64_t> met_labels_;
  SizeColumn batches_;
  std::vector<SymbolRange> symbols_;
  std::optional<std::pair<std::int64_t, std::int64_t>> batch_range_;
};

ShapeLearner::Derived ShapeLearner::derive() const { return Derivation(*this).run(); }

}  // namespace graphtune

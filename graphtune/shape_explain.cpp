#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/shape_learner.h"
#include "graphtune/shape_learner_impl.h"

namespace graphtune {
namespace {

/// "1, 2 and 4"; the middle of a long list is left out.
std::string enumerate(const std::vector<std::int64_t>& values) {
  constexpr std::size_t kShown = 8;
  if (values.size() > kShown) {
    return fmt::format("{} … {}", fmt::join(values.begin(), values.begin() + kShown - 2, ", "),
                       values.back());
  }
  if (values.size() < 2) {
    return fmt::format("{}", fmt::join(values, ", "));
  }
  return fmt::format("{} and {}", fmt::join(values.begin(), values.end() - 1, ", "), values.back());
}

std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

std::string multiple_of_batch(std::int64_t multiplier) {
  return multiplier == 1 ? "the batch size" : fmt::format("{} times the batch size", multiplier);
}

}  // namespace

/// Puts one axis's class into words.
class AxisExplainer {
 public:
  AxisExplainer(const ShapeLearner& learner, std::size_t axis)
      : derived_(learner.derived()), facts_(derived_.axes[axis]) {
    const ObservationSet& rows = learner.observations_;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const ObservationSet::Row row = rows[i];
      const std::int64_t batch = derived_.batches.empty() ? row.batch_size : derived_.batches[i];
      pairs_.insert({row.batch_size, batch, row.sizes[axis]});
    }
  }

  [[nodiscard]] AxisExplanation explain() {
    explain_class();
    result_.reason += '.';
    return std::move(result_);
  }

 private:
  /// The axis in one sample. `batch` is the batch size as found, 0 when it isn't known.
  struct Pair {
    std::int64_t stated;
    std::int64_t batch;
    std::int64_t size;
    friend bool operator<(const Pair& a, const Pair& b) {
      return std::tie(a.stated, a.batch, a.size) < std::tie(b.stated, b.batch, b.size);
    }
  };

  void explain_class() {
    if (pairs_.empty()) {
      result_.reason = "no sample was seen yet";
      return;
    }
    switch (facts_.axis_class) {
      case AxisClass::Static:
        explain_static();
        break;
      case AxisClass::Batch:
        explain_batch();
        break;
      case AxisClass::Dynamic:
        explain_dynamic();
        break;
    }
  }

  void decide_by(const Pair& pair) {
    const Observation observation{pair.stated, {pair.size}};
    if (std::find(result_.decided_by.begin(), result_.decided_by.end(), observation) ==
        result_.decided_by.end()) {
      result_.decided_by.push_back(observation);
    }
  }

  void explain_static() {
    for (const Pair& pair : pairs_) {
      decide_by(pair);
    }
    const std::vector<std::int64_t>& labels = derived_.labels;
    result_.reason = fmt::format("size {} in all samples", facts_.min);
    if (labels.empty()) {
      result_.reason += ", none of which has a batch size";
    } else {
      result_.reason +=
          fmt::format(", at batch size{} {}", labels.size() > 1 ? "s" : "", enumerate(labels));
    }
    if (facts_.ambiguous) {
      const std::int64_t multiplier = facts_.min / labels.front();
      const std::int64_t other = saturated_product(2, labels.front());
      result_.reason += ", the only one: it may be " + multiple_of_batch(multiplier);
      result_.settle = fmt::format(
          "a sample with batch size {}: size {} on this axis would make it a batch axis, "
          "size {} would show that it does not follow the batch size",
          other, saturated_product(other, multiplier), facts_.min);
    }
  }

  void explain_batch() {
    std::string shorts;
    for (const Pair& pair : pairs_) {
      decide_by(pair);
      if (pair.stated != 0 && pair.stated != pair.batch && shorts.empty()) {
        shorts = fmt::format(
            "; size {} in a sample of stated batch size {} counts as a short batch of {}",
            pair.size, pair.stated, pair.batch);
      }
    }
    const std::vector<std::int64_t>& met = derived_.met_labels;
    result_.reason = fmt::format("the size is {} at batch sizes {}{}",
                                 multiple_of_batch(facts_.multiplier), enumerate(met), shorts);
    if (!facts_.ambiguous) {
      return;
    }
    result_.settle =
        fmt::format("a sample with batch size {} and {} on this axis would make it dynamic",
                    met.back(), saturated_product(facts_.multiplier, met.front()));
    if (facts_.multiplier > 1 && met.size() == 2) {
      const std::int64_t next = saturated_product(2, met.back());
      result_.reason += ", which two samples can show by chance";
      result_.settle += fmt::format(", one with batch size {} and {} would confirm it", next,
                                    saturated_product(facts_.multiplier, next));
    } else {
      result_.reason += "; but so is another axis of this tensor";
    }
  }

  void explain_dynamic() {
    if (explain_two_sizes() || explain_ratio() || explain_unlabelled()) {
      return;
    }
    // What tells against it lies in samples that were not kept, or in how seldom a stated batch
    // size was met.
    decide_by(*pairs_.begin());
    decide_by(*pairs_.rbegin());
    result_.reason = fmt::format("sizes {} to {}, which follow the batch size in too few samples",
                                 facts_.min, facts_.max);
  }

  /// Two sizes at one batch size, known or not.
  bool explain_two_sizes() {
    std::vector<Pair> by_batch(pairs_.begin(), pairs_.end());
    std::stable_sort(by_batch.begin(), by_batch.end(), [](const Pair& a, const Pair& b) {
      return std::pair(a.batch == 0, a.batch) < std::pair(b.batch == 0, b.batch);
    });
    const auto found = std::adjacent_find(
        by_batch.begin(), by_batch.end(),
        [](const Pair& a, const Pair& b) { return a.batch == b.batch && a.size != b.size; });
    if (found == by_batch.end() || (found->batch == 0 && !derived_.labels.empty())) {
      return false;
    }
    const Pair& other = *(found + 1);
    decide_by(*found);
    decide_by(other);
    const auto [low, high] = std::minmax(found->size, other.size);
    result_.reason =
        found->batch == 0
            ? fmt::format("sizes {} and {} were seen, and no sample has a batch size", low, high)
            : fmt::format("sizes {} and {} were both seen at batch size {}", low, high,
                          found->batch);
    return true;
  }

  /// Two batch sizes whose sizes are not the same whole multiple of them.
  bool explain_ratio() {
    const Pair* first = nullptr;
    for (const Pair& pair : pairs_) {
      if (pair.batch == 0) {
        continue;
      }
      if (first == nullptr) {
        first = &pair;
      } else if (pair.batch != first->batch &&
                 (pair.size % pair.batch != 0 || first->size % first->batch != 0 ||
                  pair.size / pair.batch != first->size / first->batch)) {
        decide_by(*first);
        decide_by(pair);
        result_.reason = fmt::format(
            "size {} at batch size {} and {} at {} are not one whole multiple of the batch size",
            first->size, first->batch, pair.size, pair.batch);
        return true;
      }
    }
    return false;
  }

  /// A sample without a batch size tells against what the others suggest.
  bool explain_unlabelled() {
    const auto known = std::find_if(pairs_.begin(), pairs_.end(),
                                    [](const Pair& pair) { return pair.batch != 0; });
    const auto other = std::find_if(pairs_.begin(), pairs_.end(), [&](const Pair& pair) {
      return pair.batch == 0 && known != pairs_.end() && pair.size != known->size;
    });
    if (known == pairs_.end() || other == pairs_.end()) {
      return false;
    }
    decide_by(*known);
    decide_by(*other);
    result_.reason = fmt::format("size {} at batch size {} and {} in a sample without a batch size",
                                 known->size, known->batch, other->size);
    return true;
  }

  const ShapeLearner::Derived& derived_;
  const AxisFacts& facts_;
  std::set<Pair> pairs_;
  AxisExplanation result_;
};

AxisExplanation ShapeLearner::explain(std::size_t axis) const {
  if (axis >= axis_count()) {
    throw ValueError(fmt::format("axis {} was asked for, there are {}", axis, axis_count()));
  }
  return AxisExplainer(*this, axis).explain();
}

}  // namespace graphtune

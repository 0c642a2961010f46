// Learning gives one result for every order of the samples, and however learned metadata are
// merged.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/sample_metadata.h"
#include "random_value.h"

namespace graphtune {
namespace {

using test::Call;

/// Samples of one random graph: each axis has a size that is fixed, of the batch, of one of two
/// lengths or of both, and some batches are shorter than their label.
class RandomSamples {
 public:
  explicit RandomSamples(std::uint32_t seed)
      : random_(seed), arguments_(RandomValue(seed).arguments(2)) {
    for (int axis = 0; axis < 100; ++axis) {
      kinds_.push_back(static_cast<int>(random_() % 7));
    }
  }

  SampleMetadata next() {
    const std::int64_t label = std::int64_t{1} << random_() % 4;
    batch_ = random_() % 5 == 0 ? 1 + static_cast<std::int64_t>(random_()) % label : label;
    for (std::int64_t& length : lengths_) {
      length = 1 + static_cast<std::int64_t>(random_() % 6);
    }
    axis_ = 0;
    Arguments call = arguments_;
    for (Value& value : call.positional) {
      value = with_sizes(value);
    }
    for (auto& [name, value] : call.named) {
      value = with_sizes(value);
    }
    const bool labelled = random_() % 6 != 0;
    return SampleMetadata(Call(call.positional, call.named).tree, true,
                          labelled ? std::optional(label) : std::nullopt);
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  Value with_sizes(const Value& value) {
    if (value.is_tensor()) {
      std::vector<std::int64_t> sizes;
      for (std::size_t i = value.tensor().sizes().size(); i > 0; --i) {
        const std::int64_t choices[] = {
            batch_,          2 * batch_, lengths_[0], lengths_[1], lengths_[0] + lengths_[1],
            3 * lengths_[0], 5};
        sizes.push_back(choices[kinds_[axis_++ % kinds_.size()]]);
      }
      return Tensor::zeros(value.tensor().dtype(), Dims(std::span<const std::int64_t>(sizes)));
    }
    if (!value.is_container()) {
      return value;
    }
    Container container = value.container();
    for (auto& [step, child] : container.children) {
      child = with_sizes(child);
    }
    return Value::container(std::move(container));
  }

  std::mt19937 random_;
  Arguments arguments_;
  std::vector<int> kinds_;
  std::int64_t batch_ = 1;
  std::int64_t lengths_[2] = {1, 1};
  std::size_t axis_ = 0;
};

/// All that was learned, as text.
std::string learned(const SampleMetadata& metadata) {
  std::string text = metadata.describe(InfoLevel::Full);
  for (const SampleMetadata::AxisReport& report : metadata.explain()) {
    text += "\n" + report.name + " " + report.facts.size.to_string() +
            (report.facts.ambiguous ? "? " : " ") + report.explanation.reason +
            report.explanation.settle;
  }
  for (const SymbolRange& range : metadata.learner().symbols()) {
    text += "\n" + std::to_string(range.min) + ".." + std::to_string(range.max);
  }
  return text;
}

TEST(LearningOrder, OneResultForEveryOrderAndEveryGrouping) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    RandomSamples samples(seed);
    std::vector<SampleMetadata> all;
    for (std::size_t i = 1 + samples.below(8); i > 0; --i) {
      all.push_back(samples.next());
    }
    SampleMetadata expected = all[0];
    for (const SampleMetadata& sample : all) {
      expected.update_shapes_seen(sample);
    }
    for (int round = 0; round < 5; ++round) {
      // Any two are merged, until one is left; now and then a sample comes once more.
      std::vector<SampleMetadata> parts = all;
      parts.push_back(all[samples.below(all.size())]);
      while (parts.size() > 1) {
        std::swap(parts[samples.below(parts.size())], parts.back());
        const SampleMetadata last = std::move(parts.back());
        parts.pop_back();
        SampleMetadata& into = parts[samples.below(parts.size())];
        (void)into.explain();  // what was derived in between must leave no trace
        into.update_shapes_seen(last);
      }
      ASSERT_EQ(parts[0].learner(), expected.learner()) << seed;
      ASSERT_EQ(learned(parts[0]), learned(expected)) << seed;
    }
  }
}

}  // namespace
}  // namespace graphtune

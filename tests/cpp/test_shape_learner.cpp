#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphtune/error.h"
#include "graphtune/shape_learner.h"

namespace graphtune {
namespace {

using ::testing::HasSubstr;
using Observations = std::vector<Observation>;

ShapeLearner learn(const Observations& observations) {
  ShapeLearner learner(observations.front().sizes.size());
  for (const Observation& observation : observations) {
    learner.observe(observation);
  }
  return learner;
}

/// Class, range, multiplier and symbols of every axis on one line: "batch 1..4 2*b | static 8 |
/// dynamic 3..9 s0".
std::string summary(const ShapeLearner& learner) {
  std::string out;
  for (const AxisFacts& axis : learner.axes()) {
    out += out.empty() ? "" : " | ";
    out += axis.axis_class == AxisClass::Static  ? "static"
           : axis.axis_class == AxisClass::Batch ? "batch"
                                                 : "dynamic";
    if (axis.axis_class != AxisClass::Static) {
      out += " " + std::to_string(axis.min) + ".." + std::to_string(axis.max);
    }
    out += " " + axis.size.to_string() + (axis.ambiguous ? "?" : "");
  }
  return out;
}

/// Expects the same summary in all orders of up to seven observations.
void expect_in_all_orders(Observations observations, const std::string& expected) {
  std::sort(observations.begin(), observations.end());
  ASSERT_LE(observations.size(), 7U);
  do {
    ASSERT_EQ(summary(learn(observations)), expected);
  } while (std::next_permutation(observations.begin(), observations.end()));
}

TEST(ShapeLearner, OneSampleIsStatic) {
  EXPECT_EQ(summary(learn({{0, {2, 3}}})), "static 2 | static 3");
  EXPECT_EQ(summary(ShapeLearner(2)), "static 0 | static 0");
  EXPECT_EQ(summary(ShapeLearner()), "");
}

TEST(ShapeLearner, BatchAxisFollowsTheBatchSize) {
  expect_in_all_orders({{1, {1, 5}}, {2, {2, 5}}, {4, {4, 5}}}, "batch 1..4 b | static 5");
  expect_in_all_orders({{1, {2, 5}}, {2, {4, 5}}, {4, {8, 5}}}, "batch 2..8 2*b | static 5");
}

TEST(ShapeLearner, AxisOutOfProportionIsDynamic) {
  expect_in_all_orders({{1, {1, 2, 5, 10}}, {2, {2, 5, 15, 25}}},
                       "batch 1..2 b | dynamic 2..5 s0 | dynamic 5..15 s1 | dynamic 10..25 s2");
}

TEST(ShapeLearner, HalfABatchIsNoMultiple) {
  expect_in_all_orders({{2, {1}}, {4, {2}}, {8, {4}}}, "dynamic 1..4 s0");
  expect_in_all_orders({{2, {3}}, {4, {6}}}, "dynamic 3..6 s0");
}

TEST(ShapeLearner, TwoSizesAtOneBatchSizeAreDynamic) {
  expect_in_all_orders({{2, {2, 8}}, {4, {4, 8}}, {4, {4, 16}}}, "batch 2..4 b | dynamic 8..16 s0");
}

TEST(ShapeLearner, ShortLastBatchLeavesTheBatchAxis) {
  expect_in_all_orders({{1, {1, 5}}, {2, {2, 5}}, {4, {4, 5}}, {4, {3, 5}}},
                       "batch 1..4 b | static 5");
  expect_in_all_orders({{2, {2, 6}}, {4, {4, 12}}, {4, {3, 9}}}, "batch 2..4 b | batch 6..12 3*b?");
  // A data set of 10 samples at batch sizes 2, 4, 8 and 16.
  expect_in_all_orders(
      {{2, {2, 7}}, {4, {4, 7}}, {4, {2, 7}}, {8, {8, 7}}, {8, {2, 9}}, {16, {10, 9}}},
      "batch 2..10 b | dynamic 7..9 s0");
}

TEST(ShapeLearner, ShortBatchNeedsAllBatchAxes) {
  // Axis 0 has the four rows that were stated: axis 1, with three, is no batch axis.
  expect_in_all_orders({{1, {1, 1}}, {2, {2, 2}}, {4, {4, 4}}, {4, {4, 3}}},
                       "batch 1..4 b | dynamic 1..4 s0");
  // Neither has four rows: the larger batch counts.
  expect_in_all_orders({{1, {1, 1}}, {2, {2, 2}}, {4, {3, 2}}}, "batch 1..3 b | dynamic 1..2 s0");
  // An axis that met the stated batch size once by chance does not outdo the real one.
  expect_in_all_orders(
      {{1, {1, 1}}, {2, {2, 2}}, {2, {2, 1}}, {4, {4, 2}}, {4, {3, 4}}, {8, {8, 5}}},
      "batch 1..8 b | dynamic 1..5 s0");
}

TEST(ShapeLearner, StatedBatchSizesThatAreSeldomMetMakeNoBatchAxis) {
  expect_in_all_orders({{1, {1}}, {2, {2}}, {4, {2}}, {8, {3}}, {16, {5}}}, "dynamic 1..5 s0");
}

TEST(ShapeLearner, CertainBatchSizesAreNeverShort) {
  expect_in_all_orders({{1, {1}}, {2, {2}}, {4, {4}}, {4, {3}, BatchLabel::Certain}},
                       "dynamic 1..4 s0");
}

TEST(ShapeLearner, EmptySizesAreLegal) {
  expect_in_all_orders({{0, {0, 3}}, {0, {2, 3}}}, "dynamic 0..2 s0 | static 3");
  expect_in_all_orders({{1, {1, 0}}, {2, {2, 0}}, {4, {0, 0}}}, "batch 0..2 b | static 0");
}

TEST(ShapeLearner, ProportionAtTwoBatchSizesIsAmbiguous) {
  expect_in_all_orders({{1, {1, 10}}, {2, {2, 20}}}, "batch 1..2 b | batch 10..20 10*b?");
  const ShapeLearner learner = learn({{1, {1, 10}}, {2, {2, 20}}});
  EXPECT_EQ(learner.axes()[1].multiplier, 10);
  EXPECT_EQ(learner.explain(0).settle, "");
  EXPECT_THAT(learner.explain(1).settle,
              HasSubstr("a sample with batch size 2 and 10 on this axis"));
  EXPECT_EQ(learner.explain(1).decided_by, (Observations{{1, {10}}, {2, {20}}}));
  // The sample asked for settles it, either way.
  expect_in_all_orders({{1, {1, 10}}, {2, {2, 20}}, {2, {2, 10}}},
                       "batch 1..2 b | dynamic 10..20 s0");
}

TEST(ShapeLearner, SecondBatchAxisOfATensorIsAmbiguous) {
  expect_in_all_orders({{1, {1, 1}}, {2, {2, 2}}, {4, {4, 4}}}, "batch 1..4 b | batch 1..4 b?");
  expect_in_all_orders({{1, {3, 1}}, {2, {6, 2}}, {4, {12, 4}}}, "batch 3..12 3*b? | batch 1..4 b");
  ShapeLearner two_tensors(std::vector<std::uint32_t>{0, 1, 2});
  for (const std::int64_t batch : {1, 2, 4}) {
    two_tensors.observe(batch, std::vector<std::int64_t>{batch, 3 * batch});
  }
  EXPECT_EQ(summary(two_tensors), "batch 1..4 b | batch 3..12 3*b");
}

TEST(ShapeLearner, OnlyBatchSizeIsAmbiguousWhereItDivides) {
  expect_in_all_orders({{4, {4, 6, 8, 0}}}, "static 4? | static 6 | static 8? | static 0");
  const AxisExplanation explanation = learn({{4, {4, 6, 8, 0}}}).explain(2);
  EXPECT_THAT(explanation.reason, HasSubstr("size 8 in all samples, at batch size 4"));
  EXPECT_THAT(explanation.settle, HasSubstr("a sample with batch size 8: size 16 on this axis"));
  expect_in_all_orders({{4, {4, 5}}, {4, {4, 9}}}, "static 4? | dynamic 5..9 s0");
}

TEST(ShapeLearner, SamplesWithoutBatchSizeWidenTheRanges) {
  expect_in_all_orders({{1, {1, 5}}, {2, {2, 5}}, {0, {7, 5}}}, "batch 1..7 b | static 5");
  // They must agree on a batch size, too.
  expect_in_all_orders({{1, {1, 2, 3}}, {2, {2, 4, 6}}, {4, {4, 8, 12}}, {0, {3, 6, 15}}},
                       "batch 1..4 b | batch 2..8 2*b? | dynamic 3..15 s0");
  expect_in_all_orders({{1, {2}}, {2, {4}}, {0, {5}}}, "dynamic 2..5 s0");
  expect_in_all_orders({{0, {5, 1}}, {0, {9, 1}}}, "dynamic 5..9 s0 | static 1");
}

TEST(ShapeLearner, BatchRangeIsWhatTheBatchesReallyHad) {
  EXPECT_EQ(learn({{0, {2}}}).batch_range(), std::nullopt);
  EXPECT_EQ(learn({{4, {2}}}).batch_range(), std::pair(4L, 4L));
  EXPECT_EQ(learn({{2, {2}}, {4, {4}}, {8, {6}}}).batch_range(), std::pair(2L, 6L));
  const ShapeLearner labelled = learn({{2, {2}}, {4, {4}}, {8, {6}}});
  EXPECT_EQ(labelled.symbols(), (std::vector<SymbolRange>{{2, 6}}));
  const ShapeLearner unlabelled = learn({{0, {2}}});
  EXPECT_EQ(unlabelled.symbols(), (std::vector<SymbolRange>{{0, 0}}));
}

TEST(ShapeLearner, EqualAxesShareASymbolAndOthersDoNot) {
  expect_in_all_orders(
      {{1, {1, 10, 1, 10, 7}}, {2, {2, 15, 2, 15, 9}}, {4, {4, 20, 4, 20, 8}}},
      "batch 1..4 b | dynamic 10..20 s0 | batch 1..4 b? | dynamic 10..20 s0 | dynamic 7..9 s1");
  const ShapeLearner learner = learn({{1, {1, 10, 7}}, {2, {2, 15, 9}}});
  EXPECT_EQ(learner.symbols(), (std::vector<SymbolRange>{{1, 2}, {10, 15}, {7, 9}}));
}

TEST(ShapeLearner, SumIsFoundWhenTheSamplesProveIt) {
  // mask = past + new, wherever the mask stands
  expect_in_all_orders({{0, {12, 5, 7}}, {0, {15, 6, 9}}, {0, {11, 8, 3}}},
                       "dynamic 11..15 s0+s1 | dynamic 5..8 s0 | dynamic 3..9 s1");
  // Two observations, or three on a line, prove nothing.
  expect_in_all_orders({{0, {12, 5, 7}}, {0, {15, 6, 9}}},
                       "dynamic 12..15 s0 | dynamic 5..6 s1 | dynamic 7..9 s2");
  expect_in_all_orders({{0, {5, 7, 12}}, {0, {5, 9, 14}}, {0, {5, 3, 8}}},
                       "static 5 | dynamic 3..9 s0 | dynamic 8..14 s0+5");
  // One observation against it is enough.
  expect_in_all_orders({{0, {12, 5, 7}}, {0, {15, 6, 9}}, {0, {11, 8, 3}}, {0, {11, 9, 3}}},
                       "dynamic 11..15 s0 | dynamic 5..9 s1 | dynamic 3..9 s2");
}

TEST(ShapeLearner, SumWithTheBatchSizeIsFound) {
  expect_in_all_orders({{1, {1, 5, 6}}, {2, {2, 9, 11}}, {4, {4, 6, 10}}, {4, {4, 9, 13}}},
                       "batch 1..4 b | dynamic 5..9 s0 | dynamic 6..13 b+s0");
}

TEST(ShapeLearner, MultiplesAndOffsetsAreFound) {
  expect_in_all_orders({{0, {8, 4, 5}}, {0, {12, 6, 7}}, {0, {18, 9, 10}}},
                       "dynamic 8..18 2*s0 | dynamic 4..9 s0 | dynamic 5..10 s0+1");
  // Two different values prove nothing, however often they were seen.
  expect_in_all_orders({{0, {8, 4, 1}}, {0, {12, 6, 2}}, {0, {8, 4, 3}}},
                       "dynamic 8..12 s0 | dynamic 4..6 s1 | dynamic 1..3 s2");
  // A multiple of an offset: 2 * (s0 + 1).
  expect_in_all_orders({{0, {4, 5, 10}}, {0, {6, 7, 14}}, {0, {9, 10, 20}}},
                       "dynamic 4..9 s0 | dynamic 5..10 s0+1 | dynamic 10..20 2*s0+2");
}

TEST(ShapeLearner, ManySymbolsAreNamedWithoutSums) {
  std::mt19937 random(7);
  Observations observations;
  for (int i = 0; i < 20; ++i) {
    Observation observation;
    for (int axis = 0; axis < 70; ++axis) {
      observation.sizes.push_back(static_cast<std::int64_t>(random() % 100000 + 1));
    }
    observation.sizes.push_back(observation.sizes[0] + observation.sizes[1]);
    observation.sizes.push_back(3 * observation.sizes[2]);
    observations.push_back(std::move(observation));
  }
  const ShapeLearner learner = learn(observations);
  const std::vector<AxisFacts>& axes = learner.axes();
  EXPECT_TRUE(axes[70].size.is_symbol());
  EXPECT_EQ(axes[71].size.to_string(), "3*s2");
}

TEST(ShapeLearner, KnowsWhatItObserved) {
  ShapeLearner learner(2);
  const std::vector<std::int64_t> sizes{2, 3};
  EXPECT_FALSE(learner.knows(1, sizes));
  EXPECT_TRUE(learner.observe(1, sizes));
  EXPECT_FALSE(learner.observe(1, sizes));
  EXPECT_TRUE(learner.knows(1, sizes));
  EXPECT_FALSE(learner.knows(2, sizes));
  EXPECT_FALSE(learner.knows(1, std::vector<std::int64_t>{2}));
  EXPECT_EQ(learner.observations(), (Observations{{1, {2, 3}}}));
}

TEST(ShapeLearner, BadObservationsAreRefused) {
  ShapeLearner learner(2);
  EXPECT_THROW(learner.observe({1, {1}}), ValueError);
  EXPECT_THROW(learner.observe({-1, {1, 2}}), ValueError);
  EXPECT_THROW(learner.observe({1, {1, -2}}), ValueError);
  EXPECT_TRUE(learner.observations().empty());
  EXPECT_THROW(learner.merge(ShapeLearner(3)), ValueError);
  EXPECT_THROW(learner.merge(ShapeLearner(std::vector<std::uint32_t>{0, 1, 2})), ValueError);
  EXPECT_THROW(ShapeLearner(std::vector<std::uint32_t>{0, 2, 1}), ValueError);
  EXPECT_THROW((void)learner.project(1, 2), ValueError);
  EXPECT_THROW((void)learner.explain(2), ValueError);
}

TEST(ShapeLearner, LargeSizesDoNotOverflow) {
  constexpr std::int64_t kHuge = INT64_MAX - 1;
  expect_in_all_orders({{1, {kHuge, 1}}, {kHuge, {kHuge - 2, kHuge}}, {3, {5, 3}}},
                       "dynamic 5..9223372036854775806 s0 | batch 1..9223372036854775806 b");
}

TEST(ShapeLearner, CopiesAreIndependent) {
  ShapeLearner a = learn({{1, {1}}, {2, {2}}});
  EXPECT_EQ(summary(a), "batch 1..2 b");
  ShapeLearner b = a;
  b.observe({2, {7}});
  EXPECT_EQ(summary(a), "batch 1..2 b");
  EXPECT_EQ(summary(b), "dynamic 1..7 s0");
  a = b;
  EXPECT_EQ(summary(a), "dynamic 1..7 s0");
  EXPECT_EQ(a, b);
}

TEST(ShapeLearner, ReasonsAreGiven) {
  const ShapeLearner learner =
      learn({{1, {1, 8, 5, 5}}, {2, {2, 8, 5, 12}}, {4, {4, 8, 9, 12}}, {4, {3, 8, 5, 12}}});
  EXPECT_EQ(learner.explain(0).reason,
            "the size is the batch size at batch sizes 1, 2 and 4; "
            "size 3 in a sample of stated batch size 4 counts as a short batch of 3.");
  EXPECT_EQ(learner.explain(1).reason, "size 8 in all samples, at batch sizes 1, 2 and 4.");
  EXPECT_EQ(learner.explain(2).reason,
            "size 5 at batch size 1 and 5 at 2 are not one whole multiple of the batch size.");
  EXPECT_EQ(learner.explain(2).decided_by, (Observations{{1, {5}}, {2, {5}}}));
  EXPECT_EQ(learn({{2, {5}}, {2, {9}}, {4, {7}}}).explain(0).reason,
            "sizes 5 and 9 were both seen at batch size 2.");
  EXPECT_EQ(learn({{0, {5}}, {0, {9}}}).explain(0).reason,
            "sizes 5 and 9 were seen, and no sample has a batch size.");
  EXPECT_EQ(learn({{0, {5}}, {3, {9}}}).explain(0).reason,
            "size 9 at batch size 3 and 5 in a sample without a batch size.");
  EXPECT_EQ(learn({{0, {5}}}).explain(0).reason,
            "size 5 in all samples, none of which has a batch size.");
  EXPECT_EQ(ShapeLearner(1).explain(0).reason, "no sample was seen yet.");
}

// Random sets of observations: batch axes, short batches, lengths that are shared, summed, or free.
Observations random_observations(std::mt19937& random) {
  const auto pick = [&](int low, int high) {
    return static_cast<std::int64_t>(
        low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  const std::int64_t axis_count = pick(1, 6);
  std::vector<std::int64_t> kinds;
  for (std::int64_t axis = 0; axis < axis_count; ++axis) {
    kinds.push_back(pick(0, 7));
  }
  Observations observations;
  const std::int64_t count = pick(1, 8);
  for (std::int64_t i = 0; i < count; ++i) {
    Observation observation;
    const std::int64_t batch = std::int64_t{1} << pick(0, 3);
    const std::int64_t rows = pick(0, 5) == 0 ? pick(0, static_cast<int>(batch)) : batch;
    const std::int64_t length = pick(1, 6);
    const std::int64_t other = pick(1, 6);
    observation.batch_size = pick(0, 6) == 0 ? 0 : batch;
    observation.label =
        observation.batch_size > 0 && pick(0, 9) == 0 ? BatchLabel::Certain : BatchLabel::Stated;
    for (const std::int64_t kind : kinds) {
      const std::int64_t sizes[] = {rows,           3 * rows,   length, other,
                                    length + other, 2 * length, 7,      pick(0, 4)};
      observation.sizes.push_back(sizes[kind]);
    }
    observations.push_back(std::move(observation));
  }
  return observations;
}

std::vector<std::uint32_t> random_tensors(std::mt19937& random, std::size_t axis_count) {
  std::vector<std::uint32_t> offsets{0};
  for (std::uint32_t axis = 1; axis < axis_count; ++axis) {
    if (random() % 2 == 0) {
      offsets.push_back(axis);
    }
  }
  offsets.push_back(static_cast<std::uint32_t>(axis_count));
  return offsets;
}

void expect_same(const ShapeLearner& a, const ShapeLearner& b) {
  ASSERT_EQ(a, b);
  ASSERT_EQ(a.axes(), b.axes());
  ASSERT_EQ(a.symbols(), b.symbols());
  ASSERT_EQ(a.batch_range(), b.batch_range());
  ASSERT_EQ(a.observations(), b.observations());
  for (std::size_t axis = 0; axis < a.axis_count(); ++axis) {
    const AxisExplanation x = a.explain(axis);
    const AxisExplanation y = b.explain(axis);
    ASSERT_EQ(x.reason, y.reason);
    ASSERT_EQ(x.settle, y.settle);
    ASSERT_EQ(x.decided_by, y.decided_by);
  }
}

TEST(ShapeLearnerProperty, EveryOrderAndEveryMergeGivesOneResult) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 2000; ++round) {
    Observations observations = random_observations(random);
    const std::vector<std::uint32_t> offsets =
        random_tensors(random, observations.front().sizes.size());
    ShapeLearner expected(offsets);
    for (const Observation& observation : observations) {
      expected.observe(observation);
    }
    for (int order = 0; order < 6; ++order) {
      std::shuffle(observations.begin(), observations.end(), random);
      ShapeLearner one(offsets);
      std::vector<ShapeLearner> parts(3, ShapeLearner(offsets));
      for (const Observation& observation : observations) {
        one.observe(observation);
        (void)one.axes();  // what was derived in between must leave no trace
        parts[random() % 3].observe(observation);
        parts[random() % 3].observe(observation);
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(one, expected));
      std::shuffle(parts.begin(), parts.end(), random);
      ShapeLearner merged = parts[0];
      merged.merge(parts[1]);
      merged.merge(parts[2]);
      merged.merge(merged);
      ASSERT_NO_FATAL_FAILURE(expect_same(merged, expected));
    }
  }
}

TEST(ShapeLearnerProperty, ExpressionsHoldInAllObservations) {
  std::mt19937 random(99);
  for (int round = 0; round < 2000; ++round) {
    const Observations observations = random_observations(random);
    const ShapeLearner learner = learn(observations);
    for (const Observation& observation : observations) {
      // Each symbol has the value of an axis that is this symbol (or, for the batch size, a
      // multiple of it).
      std::vector<std::int64_t> values(learner.symbols().size(), -1);
      for (std::size_t axis = 0; axis < learner.axis_count(); ++axis) {
        const SizeExpr& size = learner.axes()[axis].size;
        if (size.terms.size() == 1 && size.offset == 0) {
          const auto [symbol, coefficient] = size.terms[0];
          if (symbol == 0 || coefficient == 1) {
            values[symbol] = observation.sizes[axis] / coefficient;
          }
        }
      }
      for (std::size_t axis = 0; axis < learner.axis_count(); ++axis) {
        const SizeExpr& size = learner.axes()[axis].size;
        for (const auto& [symbol, coefficient] : size.terms) {
          ASSERT_GE(values[symbol], learner.symbols()[symbol].min);
          ASSERT_LE(values[symbol], learner.symbols()[symbol].max);
        }
        ASSERT_EQ(size.evaluate(values), observation.sizes[axis]) << size.to_string();
      }
    }
  }
}

TEST(ShapeLearnerProperty, ProjectionKeepsTheClasses) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    const Observations observations = random_observations(random);
    ShapeLearner learner(random_tensors(random, observations.front().sizes.size()));
    for (const Observation& observation : observations) {
      learner.observe(observation);
    }
    const std::vector<std::uint32_t> offsets = learner.tensor_offsets();
    for (std::size_t tensor = 0; tensor + 1 < offsets.size(); ++tensor) {
      const std::size_t first = offsets[tensor];
      const ShapeLearner part = learner.project(first, offsets[tensor + 1] - first);
      for (std::size_t axis = 0; axis < part.axis_count(); ++axis) {
        const AxisFacts& whole = learner.axes()[first + axis];
        const AxisFacts& own = part.axes()[axis];
        ASSERT_EQ(own.axis_class, whole.axis_class) << summary(learner) << "\n" << summary(part);
        ASSERT_EQ(own.min, whole.min);
        ASSERT_EQ(own.max, whole.max);
        ASSERT_EQ(own.multiplier, whole.multiplier);
        ASSERT_EQ(own.ambiguous, whole.ambiguous);
      }
    }
  }
}

// Beyond the limit: what is kept, and what is learned, still does not depend on the order.
TEST(ShapeLearnerProperty, OrderDoesNotMatterBeyondTheLimit) {
  Observations observations;
  for (std::int64_t i = 0; i < 5000; ++i) {
    const std::int64_t batch = 1 + i % 8;
    observations.push_back({batch, {batch, 1 + i, 1 + i / 2}});
  }
  std::mt19937 random(3);
  const ShapeLearner expected = learn(observations);
  EXPECT_EQ(expected.observations().size(), ShapeLearner::kMaxObservations);
  EXPECT_EQ(summary(expected), "batch 1..8 b | dynamic 1..5000 s0 | dynamic 1..2500 s1");
  std::shuffle(observations.begin(), observations.end(), random);
  ShapeLearner parts[] = {ShapeLearner(3), ShapeLearner(3)};
  for (const Observation& observation : observations) {
    parts[random() % 2].observe(observation);
  }
  parts[0].merge(parts[1]);
  ASSERT_NO_FATAL_FAILURE(expect_same(parts[0], expected));
  for (const Observation& observation : observations) {
    ASSERT_TRUE(expected.knows(observation.batch_size, observation.sizes));
  }
  EXPECT_FALSE(expected.knows(8, std::vector<std::int64_t>{8, 6000, 1}));
}

TEST(ShapeLearner, CanBeReadFromSeveralThreads) {
  const ShapeLearner learner = learn({{1, {1, 10}}, {2, {2, 15}}, {4, {4, 20}}});
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::string& text : found) {
    threads.emplace_back([&] {
      const ShapeLearner copy = learner;
      text = summary(learner) + learner.explain(0).reason + summary(learner.project(0, 1)) +
             summary(copy);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& text : found) {
    EXPECT_EQ(text, found[0]);
  }
}

TEST(ShapeLearner, ManyAxesLimitTheObservationsKept) {
  EXPECT_EQ(ObservationSet(4).capacity(), 4096U);
  EXPECT_EQ(ObservationSet(40'000).capacity(), 104U);
  EXPECT_EQ(ObservationSet(1'000'000).capacity(), 64U);
}

}  // namespace
}  // namespace graphtune

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/recorder.h"

namespace graphtune {
namespace {

using test::Call;
using test::ids;
using test::message_of;
using test::Named;
using test::Result;
using test::zeros;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Recorder::Recorded record(Recorder& recorder, const Call& call, const Value& result,
                          std::optional<std::int64_t> batch = std::nullopt) {
  return recorder.record(call.tree, Result(result).tree, batch);
}

TEST(Recorder, SortsCallsIntoGraphs) {
  Recorder recorder({});
  auto first = record(recorder, Call({zeros({1, 4})}), zeros({1}));
  EXPECT_EQ(first.graph, 0U);
  EXPECT_TRUE(first.new_graph && first.new_shapes && first.place == 0U);
  auto rank = record(recorder, Call({zeros({1, 4, 2})}), zeros({1}));
  EXPECT_EQ(rank.graph, 1U);
  EXPECT_TRUE(rank.new_graph);
  auto again = record(recorder, Call({zeros({1, 4})}), zeros({1}));
  EXPECT_EQ(again.graph, 0U);
  EXPECT_FALSE(again.new_graph || again.new_shapes || again.place);
  auto sizes = record(recorder, Call({zeros({2, 4})}), zeros({2}));
  EXPECT_EQ(sizes.graph, 0U);
  EXPECT_FALSE(sizes.new_graph);
  EXPECT_TRUE(sizes.new_shapes && sizes.place == 1U);

  ASSERT_EQ(recorder.graph_count(), 2U);
  EXPECT_EQ(recorder.graphs()[0].name(), "graph_0");
  EXPECT_EQ(recorder.graphs()[0].sample_count(), 3U);
  EXPECT_EQ(recorder.graphs()[1].name(), "graph_1");
}

TEST(Recorder, CountsTheCallsOfEachSize) {
  Recorder recorder({.strict = true, .max_samples_stored = 1, .max_graphs = 64});
  for (const std::int64_t size : {1, 4, 4, 2, 4}) {
    (void)record(recorder, Call({zeros({size, 4})}), zeros({size}));
  }
  const Traffic traffic = recorder.traffic(0);
  ASSERT_EQ(traffic.rows().size(), 3U);
  EXPECT_EQ(traffic.rows()[1], (Traffic::Row{{4, 4}, 3}));
  EXPECT_THROW((void)recorder.traffic(1), ValueError);
  recorder.clear();
  EXPECT_THROW((void)recorder.traffic(0), ValueError);
}

TEST(Recorder, ANewBatchSizeIsNews) {
  Recorder recorder({});
  (void)record(recorder, Call({zeros({2, 4})}), zeros({2}));
  EXPECT_TRUE(record(recorder, Call({zeros({2, 4})}), zeros({2}), 2).new_shapes);
  EXPECT_FALSE(record(recorder, Call({zeros({2, 4})}), zeros({2}), 2).new_shapes);
  EXPECT_TRUE(record(recorder, Call({zeros({2, 4})}), zeros({2}), 1).new_shapes);
  EXPECT_THROW((void)record(recorder, Call({zeros({2, 4})}), zeros({2}), 0), ValueError);
}

TEST(Recorder, StoresNoMoreSamplesThanAskedFor) {
  Recorder recorder({.strict = true, .max_samples_stored = 3, .max_graphs = 64});
  int stored = 0;
  for (std::int64_t size = 1; size <= 10; ++size) {
    const auto recorded = record(recorder, Call({zeros({size})}), zeros({size}));
    EXPECT_TRUE(recorded.new_shapes);
    stored += recorded.place ? 1 : 0;
  }
  EXPECT_EQ(stored, 3);
  EXPECT_EQ(recorder.graphs()[0].sample_count(), 10U);
}

TEST(Recorder, StrictnessDecidesAboutConstants) {
  for (const bool strict : {true, false}) {
    Recorder recorder({.strict = strict, .max_samples_stored = 4, .max_graphs = 8});
    for (const char* mode : {"train", "eval"}) {
      (void)record(recorder, Call({zeros({1})}, {{"mode", mode}}), zeros({1}));
    }
    EXPECT_EQ(recorder.graph_count(), strict ? 2U : 1U);
  }
}

TEST(Recorder, FindsAGraphByKey) {
  Recorder recorder({});
  (void)record(recorder, Call({zeros({1})}), zeros({1}));
  (void)record(recorder, Call({ids({1})}), zeros({1}));
  EXPECT_EQ(recorder.find(CallKey(Call({ids({7})}).tree, true)), 1U);
  EXPECT_EQ(recorder.find(CallKey(Call({ids({7, 7})}).tree, true)), std::nullopt);
}

TEST(Recorder, TooManyGraphsNameTheChangingConstant) {
  Recorder recorder({.strict = true, .max_samples_stored = 4, .max_graphs = 3});
  const auto step = [&](int value) {
    return record(recorder, Call({zeros({1})}, {{"step", value}, {"mode", "eval"}}), zeros({1}));
  };
  for (int i = 0; i < 3; ++i) {
    (void)step(i);
  }
  const std::string message = message_of<ValueError>([&] { (void)step(3); });
  EXPECT_THAT(message, AllOf(HasSubstr("more than 3 execution graphs"),
                             HasSubstr("['step'] (2, then 3)"), Not(HasSubstr("['mode']")),
                             HasSubstr("as a tensor or set config.strict_mode = False")));
  // What was recorded stays, and goes on.
  EXPECT_EQ(recorder.graph_count(), 3U);
  EXPECT_EQ(step(1).graph, 1U);
}

TEST(Recorder, TooManyGraphsOfOtherStructureSaySo) {
  Recorder recorder({.strict = true, .max_samples_stored = 4, .max_graphs = 2});
  const auto list = [&](std::size_t count) {
    return record(recorder, Call({Value::list(std::vector<Value>(count, Value(zeros({1}))))}),
                  zeros({1}));
  };
  (void)list(1);
  (void)list(2);
  EXPECT_THAT(message_of<ValueError>([&] { (void)list(3); }),
              AllOf(HasSubstr("The last two differ: "), Not(HasSubstr("strict_mode"))));
  Recorder none({.strict = true, .max_samples_stored = 4, .max_graphs = 0});
  EXPECT_THROW((void)record(none, Call({zeros({1})}), zeros({1})), ValueError);
}

TEST(Recorder, EagerReasonAndClear) {
  Recorder recorder({});
  (void)record(recorder, Call({zeros({1})}), zeros({1}));
  recorder.set_eager_reason(0, "writes its input");
  EXPECT_EQ(recorder.graphs()[0].eager_reason(), "writes its input");
  EXPECT_THROW(recorder.set_eager_reason(1, "x"), ValueError);
  recorder.clear();
  EXPECT_EQ(recorder.graph_count(), 0U);
  EXPECT_EQ(record(recorder, Call({ids({1})}), zeros({1})).graph, 0U);
}

TEST(Recorder, KeepsSamplesOfEveryBatchSize) {
  Recorder recorder({.strict = true, .max_samples_stored = 4, .max_graphs = 64});
  const auto place = [&](std::int64_t length, std::int64_t batch, bool can_store = true) {
    const Call call({zeros({batch, length})});
    const bool wanted = recorder.wants(CallKey(call.tree, true), batch);
    const auto recorded = recorder.record(call.tree, Result(zeros({batch})).tree, batch, can_store);
    EXPECT_EQ(recorded.place.has_value(), wanted && can_store);
    return recorded.place;
  };
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(place(i + 1, 1), i);
  }
  EXPECT_EQ(place(9, 1), std::nullopt);
  EXPECT_EQ(place(1, 2), 3U);
  EXPECT_EQ(place(2, 2, false), std::nullopt);
  EXPECT_EQ(place(3, 2), 2U);
  EXPECT_EQ(place(4, 2), std::nullopt);
}

TEST(Recorder, EveryCallCountsUnderThreads) {
  Recorder recorder({.strict = true, .max_samples_stored = 5, .max_graphs = 64});
  std::atomic<int> stored = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t i = 1; i <= 100; ++i) {
        const auto recorded = record(recorder, Call({zeros({i}), thread % 4}), zeros({i}), i);
        ASSERT_LT(recorded.place.value_or(0), 5U);
        stored += recorded.place == 4U ? 1 : 0;
        (void)recorder.find(CallKey(Call({zeros({i}), 0}).tree, true));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_EQ(recorder.graph_count(), 4U);
  for (const GraphSpec& graph : recorder.graphs()) {
    EXPECT_EQ(graph.sample_count(), 200U);
    EXPECT_EQ(graph.max_batch_size(), 100);
  }
  EXPECT_GE(stored, 4);
}

}  // namespace
}  // namespace graphtune

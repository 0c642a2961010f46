#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocation_count.h"
#include "calls.h"
#include "fake_backend.h"
#include "graphtune/error.h"
#include "graphtune/router.h"
#include "graphtune/sample_metadata.h"

namespace graphtune {
namespace {

using test::Call;
using test::FakeEngine;
using test::ids;
using test::message_of;
using test::Named;
using test::Result;
using test::zeros;
using ::testing::AllOf;
using ::testing::HasSubstr;

const SizeExpr kBatch{0, {{0, 1}}};
const SizeExpr kLength{0, {{1, 1}}};

CallTree detached(const CallTree& tree) {
  CallTree copy = tree;
  copy.detach();
  return copy;
}

Named text(std::int64_t batch, std::int64_t length) {
  return {{"input_ids", ids({batch, length})}, {"mask", ids({batch, length})}};
}

/// f(input_ids (b, s0), mask (b, s0)) with b 1…8, s0 3…64; "small" up to b = 2, "large" above.
RoutedGraph text_graph() {
  const Call call(text(1, 4));
  RoutedGraph graph;
  graph.name = "graph_0";
  graph.key = CallKey(call.tree, true);
  graph.input_tree = detached(call.tree);
  graph.output_tree = detached(Result(zeros({1, 4})).tree);
  graph.contract =
      Contract({{kBatch, kLength}, {kBatch, kLength}}, {{1, 8}, {3, 64}}, {{0, 0, 99}});
  graph.engines = {{"small", std::make_shared<FakeEngine>(1.0, std::vector<std::size_t>{0})},
                   {"large", std::make_shared<FakeEngine>(2.0, std::vector<std::size_t>{0})}};
  graph.plan.entries = {{"small", {{{0, {1, 2}}}}}, {"large", {}}};
  return graph;
}

RoutedGraph eager_graph() {
  const Call call({zeros({1})});
  RoutedGraph graph;
  graph.name = "graph_1";
  graph.key = CallKey(call.tree, true);
  graph.input_tree = detached(call.tree);
  graph.output_tree = detached(Result(zeros({1})).tree);
  graph.eager_reason = "the exporter said no";
  return graph;
}

Router text_router() { return Router({text_graph(), eager_graph()}, true); }

std::vector<RoutedGraph> graphs(RoutedGraph graph) {
  std::vector<RoutedGraph> list;
  list.push_back(std::move(graph));
  return list;
}

TEST(Router, ThePlanDecidesByRegion) {
  const Router router = text_router();
  for (std::int64_t batch = 1; batch <= 8; ++batch) {
    const Router::Decision decision = router.route(Call(text(batch, 10)).tree);
    ASSERT_FALSE(decision.miss) << decision.miss->message;
    ASSERT_EQ(decision.graph, &router.graphs()[0]);
    EXPECT_EQ(decision.engine_index, batch <= 2 ? 0 : 1);
    EXPECT_EQ(
        decision.engine,
        router.graphs()[0].engines[static_cast<std::size_t>(decision.engine_index)].engine.get());
  }
}

TEST(Router, MissesSayWhy) {
  const Router router = text_router();
  const auto miss = [&](const Call& call) {
    const Router::Decision decision = router.route(call.tree);
    EXPECT_EQ(decision.engine, nullptr);
    EXPECT_EQ(decision.engine_index, -1);
    return decision.miss.value_or(Miss{MissReason::EngineFailed, "no miss"});
  };
  EXPECT_EQ(miss(Call(text(9, 10))).reason, MissReason::Range);
  EXPECT_EQ(miss(Call(text(1, 65))).reason, MissReason::Range);
  EXPECT_EQ(miss(Call(Named{{"input_ids", ids({1, 4})}, {"mask", ids({1, 5})}})).reason,
            MissReason::Relation);
  const Miss untuned = miss(Call({zeros({1})}));
  EXPECT_EQ(untuned.reason, MissReason::NotTuned);
  EXPECT_EQ(untuned.message, "graph_1 was not tuned: the exporter said no");

  const Miss unknown = miss(Call(Named{{"input_ids", zeros({1, 4})}, {"mask", ids({1, 4})}}));
  EXPECT_EQ(unknown.reason, MissReason::UnknownGraph);
  EXPECT_THAT(unknown.message, AllOf(HasSubstr("none of the 2 known"), HasSubstr("graph_0"),
                                     HasSubstr("['input_ids']"), HasSubstr("float32")));
  EXPECT_EQ(miss(Call({zeros({1}), 5})).reason, MissReason::UnknownGraph);
}

TEST(Router, AnIndexOutOfRangeReachesNoEngine) {
  const Router router = text_router();
  std::vector<std::int64_t> values = {0, 99, 100, 5};
  const Tensor bad = Tensor::from(std::span<const std::int64_t>(values), {1, 4});
  const auto decision = router.route(Call(Named{{"input_ids", bad}, {"mask", ids({1, 4})}}).tree);
  ASSERT_TRUE(decision.miss);
  EXPECT_EQ(decision.engine, nullptr);
  EXPECT_EQ(decision.miss->reason, MissReason::IndexRange);
  EXPECT_THAT(decision.miss->message, HasSubstr("['input_ids'] has the value 100 at [0, 2]"));
}

TEST(Router, WithoutAnEntryACallIsEagerByPlan) {
  RoutedGraph graph = text_graph();
  graph.plan.entries = {{"small", {{{0, {1, 2}}}}}, {"eager", {{{0, {3, 4}}}}}};
  const Router router(graphs(std::move(graph)), true);
  for (const std::int64_t batch : {3, 4, 5}) {
    const auto decision = router.route(Call(text(batch, 10)).tree);
    EXPECT_FALSE(decision.miss);
    EXPECT_NE(decision.graph, nullptr);
    EXPECT_EQ(decision.engine, nullptr);
    EXPECT_EQ(decision.engine_index, -1);
  }
  RoutedGraph all_eager = text_graph();
  all_eager.plan.entries = {{"eager", {}}};
  all_eager.engines.clear();
  const Router eager(graphs(std::move(all_eager)), true);
  EXPECT_FALSE(eager.route(Call(text(1000, 10)).tree).miss);
}

TEST(Router, OtherDevicesOfTheKindAreAMiss) {
  std::int64_t data = 0;
  const auto on_gpu = [&](std::int8_t index) {
    return Tensor(&data, DType::Float32, {1}, {1}, nullptr, DeviceType::Cuda, index);
  };
  const Call call({on_gpu(1)});
  RoutedGraph graph;
  graph.name = "g";
  graph.key = CallKey(call.tree, true);
  graph.input_tree = detached(call.tree);
  graph.output_tree = detached(Result(zeros({1})).tree);
  graph.contract = Contract({{SizeExpr{1, {}}}}, {}, {});
  graph.engines = {{"e", std::make_shared<FakeEngine>(1.0, std::vector<std::size_t>{0})}};
  graph.plan.entries = {{"e", {}}};
  const Router router(graphs(std::move(graph)), true);
  EXPECT_FALSE(router.route(call.tree).miss);
  const auto decision = router.route(Call({on_gpu(0)}).tree);
  ASSERT_TRUE(decision.miss);
  EXPECT_EQ(decision.miss->reason, MissReason::Device);
  EXPECT_THAT(decision.miss->message, HasSubstr("[0] is on cuda:0, the engines are on cuda:1"));
}

TEST(Router, WithStrictModeOffTheConstantsThatEnginesHaveBuiltInAreChecked) {
  const auto call = [](double scale, const char* id) {
    return Call({zeros({1})}, {{"scale", scale}, {"id", std::string(id)}});
  };
  const Call recorded = call(2.0, "first");
  RoutedGraph graph;
  graph.name = "scaled";
  graph.input_tree = detached(recorded.tree);
  graph.key = CallKey(graph.input_tree, false);
  graph.output_tree = detached(Result(zeros({1})).tree);
  graph.contract = Contract({{SizeExpr{1, {}}}}, {}, {});
  graph.engines = {{"e", std::make_shared<FakeEngine>(1.0, std::vector<std::size_t>{0})}};
  graph.plan.entries = {{"e", {}}};
  const std::vector<std::uint32_t> unused{0};  // 'id' stands before 'scale'
  EXPECT_THROW(Router(graphs(RoutedGraph(graph)), false), ValueError);
  graph.fixed_constants = FixedConstants(recorded.tree, unused);
  const Router router(graphs(std::move(graph)), false);
  EXPECT_FALSE(router.route(recorded.tree).miss);
  EXPECT_FALSE(router.route(call(2.0, "another").tree).miss);
  const auto other = router.route(call(3.0, "first").tree);
  ASSERT_TRUE(other.miss);
  EXPECT_EQ(other.engine, nullptr);
  EXPECT_EQ(other.miss->reason, MissReason::Constant);
  EXPECT_THAT(other.miss->message,
              HasSubstr("['scale'] is 3.0 (float), the engines have 2.0 (float) built in"));
}

TEST(Router, AnyRequiresGrad) {
  const Tensor tensor = zeros({1});
  TensorView view = tensor.view();
  CallTree tree;
  for (const bool requires_grad : {false, true}) {
    tree.clear(CallTree::Kind::Inputs);
    view.requires_grad = requires_grad;
    tree.open(NodeKind::Tuple);
    tree.step_index(0);
    tree.add_tensor(view);
    tree.close();
    tree.open(NodeKind::Dict);
    tree.close();
    tree.finish();
    EXPECT_EQ(Router::any_requires_grad(tree.tensors()), requires_grad);
  }
}

TEST(Router, WhatDoesNotFitIsRefusedWhenItIsBuilt) {
  const auto error = [](auto change) {
    RoutedGraph graph = text_graph();
    change(graph);
    return message_of<ValueError>([&] { const Router router(graphs(std::move(graph)), true); });
  };
  EXPECT_THAT(error([](RoutedGraph& g) { g.plan.entries[0].engine = "aoti"; }),
              HasSubstr("names engine 'aoti', which it hasn't"));
  EXPECT_THAT(error([](RoutedGraph& g) { g.plan.entries[0].region.limits[0].symbol = 9; }),
              HasSubstr("no axis of the graph shows"));
  EXPECT_THAT(error([](RoutedGraph& g) { g.engines[0].engine = nullptr; }), HasSubstr("is null"));
  EXPECT_THAT(error([](RoutedGraph& g) {
                g.contract = Contract({{kBatch, kLength}}, {{1, 8}, {3, 64}}, {});
              }),
              HasSubstr("contract is of 1 tensors"));
  EXPECT_THAT(error([](RoutedGraph& g) {
                g.contract = Contract({{kBatch}, {kBatch}}, {{1, 8}}, {});
              }),
              HasSubstr("which has rank 2"));
  EXPECT_THAT(error([](RoutedGraph& g) { g.output_alias = {2}; }), HasSubstr("input 2 of 2"));
  EXPECT_THAT(error([](RoutedGraph& g) { g.output_alias = {-1, -1}; }), HasSubstr("2 aliases"));
  EXPECT_EQ(error([](RoutedGraph& g) { g.output_alias = {1}; }), "(nothing was thrown)");

  std::vector<RoutedGraph> twice;
  twice.push_back(text_graph());
  twice.push_back(text_graph());
  EXPECT_THAT(message_of<ValueError>([&] { const Router router(twice, true); }),
              HasSubstr("two graphs are named graph_0"));
  twice[1].name = "graph_1";
  EXPECT_THAT(message_of<ValueError>([&] { const Router router(twice, true); }),
              HasSubstr("graph_0 and graph_1 have the same key"));
}

TEST(Router, CountsCallsByGraphEngineAndReason) {
  const Router router = text_router();
  const RoutedGraph& graph = router.graphs()[0];
  router.count_served(graph, 0);
  router.count_served(graph, 0);
  router.count_served(graph, 1);
  router.count_served(graph, -1);
  EXPECT_TRUE(router.count_miss(&graph, MissReason::Range));
  EXPECT_FALSE(router.count_miss(&graph, MissReason::Range));
  EXPECT_TRUE(router.count_miss(&router.graphs()[1], MissReason::Range));
  EXPECT_TRUE(router.count_miss(nullptr, MissReason::UnknownGraph));
  const CallStats stats = router.stats();
  EXPECT_EQ(stats.calls, 8U);
  const std::map<std::string, std::uint64_t> served = {{"small", 2}, {"large", 1}, {"eager", 1}};
  EXPECT_EQ(stats.by_graph.at("graph_0"), served);
  EXPECT_TRUE(stats.by_graph.at("graph_1").empty());
  EXPECT_EQ(stats.misses.at("range"), 3U);
  EXPECT_EQ(stats.misses.at("unknown_graph"), 1U);
  EXPECT_EQ(stats.misses.size(), 2U);
}

TEST(Router, CountsAreExactUnderThreads) {
  const Router router = text_router();
  constexpr int kThreads = 8;
  constexpr int kCalls = 500;
  std::atomic<int> first_times = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        const std::int64_t batch = (i + thread) % 10;  // 0 and 9 are outside
        const auto decision = router.route(Call(text(batch, 10)).tree);
        if (decision.miss) {
          wrong += batch >= 1 && batch <= 8 ? 1 : 0;
          first_times += router.count_miss(decision.graph, decision.miss->reason) ? 1 : 0;
        } else {
          wrong += decision.engine_index == (batch <= 2 ? 0 : 1) ? 0 : 1;
          router.count_served(*decision.graph, decision.engine_index);
        }
        (void)router.stats();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const CallStats stats = router.stats();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(first_times, 1);
  EXPECT_EQ(stats.calls, static_cast<std::uint64_t>(kThreads * kCalls));
  EXPECT_EQ(stats.misses.at("range"), static_cast<std::uint64_t>(kThreads * kCalls / 10 * 2));
  EXPECT_EQ(stats.by_graph.at("graph_0").at("small"),
            static_cast<std::uint64_t>(kThreads * kCalls / 10 * 2));
}

TEST(Router, RoutingAllocatesNothing) {
  if (!test::counts_allocations()) {
    GTEST_SKIP() << "allocations can't be counted in this build";
  }
  const Router router = text_router();
  const Call call(text(2, 10));
  CallTree tree;
  flatten(call.arguments, tree);
  (void)router.route(tree);  // the thread's memory
  const std::uint64_t before = test::allocation_count();
  for (int i = 0; i < 10; ++i) {
    tree.clear(CallTree::Kind::Inputs);
    flatten(call.arguments, tree);
    const auto decision = router.route(tree);
    router.count_served(*decision.graph, decision.engine_index);
  }
  EXPECT_EQ(test::allocation_count() - before, 0U);
}

TEST(Router, AKnownFormIsRoutedAsItsTree) {
  const Router router = text_router();
  const auto route_form = [&](const Call& call) {
    CallForm form;
    take_form(call.arguments, form);
    return router.route(form);
  };
  // Nothing is known at first, and only what an engine may have is remembered.
  EXPECT_EQ(route_form(Call(text(2, 10))).engine, nullptr);
  for (const bool mask_first : {false, true}) {
    for (const bool good : {false, true}) {
      Named named = text(good ? 2 : 9, 10);
      if (mask_first) {
        std::swap(named[0], named[1]);
      }
      const Call call(named);
      CallForm form;
      take_form(call.arguments, form);
      router.remember(form, call.tree, router.route(call.tree));
      EXPECT_EQ(router.route(form).engine != nullptr, good);
    }
  }
  int served = 0;
  for (std::int64_t batch = 0; batch <= 10; ++batch) {
    for (const std::int64_t length : {1, 2, 3, 4, 5, 63, 64, 65}) {
      for (const std::int64_t mask_length : {length, length + 1}) {
        for (const std::int64_t value : {0, 99, 100, -1}) {
          const Tensor input = ids({batch, length});
          if (input.element_count() > 0) {
            input.data_as<std::int64_t>()[input.element_count() - 1] = value;
          }
          for (const Named& named :
               {Named{{"input_ids", input}, {"mask", ids({batch, mask_length})}},
                Named{{"mask", ids({batch, mask_length})}, {"input_ids", input}}}) {
            const Call call(named);
            const Router::Decision by_tree = router.route(call.tree);
            const Router::FormDecision by_form = route_form(call);
            ASSERT_EQ(by_form.engine, by_tree.engine);
            ASSERT_EQ(by_form.engine_index, by_tree.engine_index);
            if (by_form.engine != nullptr) {
              ++served;
              ASSERT_EQ(by_form.graph, by_tree.graph);
              ASSERT_TRUE(std::ranges::equal(by_form.order, call.tree.tensor_order()));
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(served, 8 * 5 * 2 * 2);
}

TEST(Router, RoutingByFormAllocatesNothing) {
  if (!test::counts_allocations()) {
    GTEST_SKIP() << "allocations can't be counted in this build";
  }
  const Router router = text_router();
  const Call call(text(2, 10));
  const auto route = [&] {
    CallForm form;
    take_form(call.arguments, form);
    router.remember(form, call.tree, router.route(call.tree));
    return router.route(form);
  };
  ASSERT_NE(route().engine, nullptr);
  const std::uint64_t before = test::allocation_count();
  for (int i = 0; i < 10; ++i) {
    CallForm form;
    take_form(call.arguments, form);
    (void)router.route(form);
  }
  EXPECT_EQ(test::allocation_count() - before, 0U);
}

}  // namespace
}  // namespace graphtune

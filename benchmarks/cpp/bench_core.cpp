// What the core costs by itself: no model, no Python, engines that do nothing.
#include <chrono>
#include <vector>

#include <benchmark/benchmark.h>

#include "graphtune/batch.h"
#include "workloads.h"

namespace graphtune::workloads {
namespace {

void flatten_and_key(benchmark::State& state) {
  const Arguments arguments = encoder_call(2);
  CallTree tree;
  CallKey key;
  for (auto _ : state) {
    flatten(arguments, tree);
    key.assign(tree, /*strict=*/true);
    benchmark::DoNotOptimize(key.hash());
  }
}
BENCHMARK(flatten_and_key);

void from_inputs(benchmark::State& state) {
  const Arguments arguments =
      state.range(0) == 5 ? encoder_call(2) : list_call(state.range(0), 2, kLength);
  CallTree tree;
  for (auto _ : state) {
    flatten(arguments, tree);
    benchmark::DoNotOptimize(SampleMetadata(tree, /*strict=*/false, 2));
  }
}
BENCHMARK(from_inputs)->ArgName("tensors")->Arg(5)->Arg(100);

/// Learning from a sample of new sizes, up to the facts on every axis. Each round starts from a
/// fresh copy, which is not timed.
void update_shapes_seen_new(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  const SampleMetadata first = metadata_of(list_call(state.range(0), 1, 8), 1);
  const SampleMetadata second = metadata_of(list_call(state.range(0), 2, 24), 2);
  for (auto _ : state) {
    SampleMetadata learned = first;
    const Clock::time_point start = Clock::now();
    learned.update_shapes_seen(second);
    benchmark::DoNotOptimize(learned.learner().axes().data());
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
}
BENCHMARK(update_shapes_seen_new)->ArgName("tensors")->Arg(100)->Arg(10'000)->UseManualTime();

/// The common case while recording: a sample that teaches nothing new.
void update_shapes_seen_known(benchmark::State& state) {
  SampleMetadata learned = metadata_of(list_call(state.range(0), 1, 8), 1);
  const SampleMetadata second = metadata_of(list_call(state.range(0), 2, 24), 2);
  learned.update_shapes_seen(second);
  for (auto _ : state) {
    learned.update_shapes_seen(second);
    benchmark::DoNotOptimize(learned.learner().axes().data());
  }
}
BENCHMARK(update_shapes_seen_known)->ArgName("tensors")->Arg(100)->Arg(10'000);

void plan_batch_only(benchmark::State& state) {
  const SampleMetadata metadata = learned_encoder();
  const Arguments arguments = encoder_call(2);
  const CallTree tree = flattened(arguments);
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan_batch(metadata, tree, state.range(0)));
  }
}
BENCHMARK(plan_batch_only)->ArgName("from_2_to")->Arg(2)->Arg(8);

void make_batch_whole(benchmark::State& state) {
  const SampleMetadata metadata = learned_encoder();
  const Arguments arguments = encoder_call(2);
  for (auto _ : state) {
    benchmark::DoNotOptimize(make_batch(metadata, arguments, state.range(0)));
  }
}
BENCHMARK(make_batch_whole)->ArgName("from_2_to")->Arg(2)->Arg(8);

void describe_full(benchmark::State& state) {
  SampleMetadata metadata = metadata_of(list_call(100, 1, 8), 1);
  metadata.update_shapes_seen(metadata_of(list_call(100, 2, 24), 2));
  for (auto _ : state) {
    benchmark::DoNotOptimize(metadata.describe(InfoLevel::Full));
  }
}
BENCHMARK(describe_full);

/// Times `engine_of(call)` while the graphs' calls take turns.
template <typename Function>
void take_turns(benchmark::State& state, const std::vector<Arguments>& calls,
                const Function& engine_of) {
  std::size_t next = 0;
  for (auto _ : state) {
    if (engine_of(calls[next]) == nullptr) {
      state.SkipWithError("a call missed its engine");
      break;
    }
    next = next + 1 == calls.size() ? 0 : next + 1;
  }
}

/// Flatten, key, look up, check the contract, choose the engine.
void route(benchmark::State& state) {
  const RoutedGraphs graphs(state.range(0));
  CallTree tree;
  take_turns(state, graphs.calls(), [&](const Arguments& call) {
    flatten(call, tree);
    return graphs.router().route(tree).engine;
  });
}
BENCHMARK(route)->ArgName("graphs")->Arg(1)->Arg(4)->Arg(16)->Arg(64);

/// The same for calls whose form was served before.
void route_known(benchmark::State& state) {
  const RoutedGraphs graphs(state.range(0));
  graphs.remember_forms();
  take_turns(state, graphs.calls(), [&](const Arguments& call) {
    CallForm form;
    take_form(call, form);
    return graphs.router().route(form).engine;
  });
}
BENCHMARK(route_known)->ArgName("graphs")->Arg(1)->Arg(4)->Arg(16)->Arg(64);

/// A whole call of a loaded module; with engine_alone the difference is what graphtune adds.
void module_call(benchmark::State& state) {
  static const IdleBundle bundle;
  const Arguments arguments = IdleBundle::call();
  for (auto _ : state) {
    benchmark::DoNotOptimize(bundle.module().call(arguments));
  }
}
BENCHMARK(module_call)->Threads(1)->Threads(2)->UseRealTime();

void engine_alone(benchmark::State& state) {
  IdleEngine engine;
  std::vector<Tensor> inputs;
  for (const auto& [name, value] : encoder_call(2).named) {
    inputs.push_back(value.tensor());
  }
  std::vector<Tensor> outputs;
  for (auto _ : state) {
    engine.run(inputs, outputs);
    benchmark::DoNotOptimize(outputs.data());
  }
}
BENCHMARK(engine_alone);

}  // namespace
}  // namespace graphtune::workloads

// What the core costs by itself: no model, no Python, engines that do nothing.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include "graphtune/batch.h"
#include "graphtune/bundle.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/graph_spec.h"
#include "graphtune/module.h"
#include "graphtune/router.h"
#include "graphtune/sample_metadata.h"

namespace graphtune {
namespace {

constexpr std::int64_t kLength = 16;

/// A call as an encoder gets it: 5 tensors of the batch size, given by name.
Arguments encoder_call(std::int64_t batch, std::int64_t length = kLength) {
  Arguments arguments;
  for (const char* name : {"input_ids", "attention_mask", "token_type_ids", "position_ids"}) {
    arguments.named.emplace_back(name, Tensor::zeros(DType::Int64, {batch, length}));
  }
  arguments.named.emplace_back("scale", Tensor::zeros(DType::Float32, {batch}));
  return arguments;
}

/// A call with a list of `count` tensors, as a decoder gets its cache.
Arguments list_call(std::int64_t count, std::int64_t batch, std::int64_t length) {
  std::vector<Value> items;
  for (std::int64_t i = 0; i < count; ++i) {
    items.emplace_back(Tensor::zeros(DType::Float32, {batch, length, 2}));
  }
  return {{Value::list(std::move(items))}, {}};
}

CallTree flattened(const Arguments& arguments) {
  CallTree tree;
  flatten(arguments, tree);
  return tree;
}

SampleMetadata metadata_of(const Arguments& arguments, std::int64_t batch) {
  return {flattened(arguments), /*strict=*/false, batch};
}

SampleMetadata learned_encoder() {
  SampleMetadata metadata = metadata_of(encoder_call(1, 8), 1);
  metadata.update_shapes_seen(metadata_of(encoder_call(8, 64), 8));
  metadata.update_shapes_seen(metadata_of(encoder_call(4, 32), 4));
  return metadata;
}

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

/// Gives the same tensor at every call.
class IdleEngine final : public Engine {
 public:
  [[nodiscard]] std::string_view backend() const noexcept override { return "idle"; }
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    benchmark::DoNotOptimize(inputs.data());
    outputs.clear();
    outputs.push_back(result_);
  }

 private:
  Tensor result_ = Tensor::zeros(DType::Float32, {2, kLength});
};

class IdleBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "idle"; }
  [[nodiscard]] std::string version() const override { return "idle 1"; }
  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                             const EngineOptions& options) override {
    if (!std::filesystem::exists(folder / "engine.json") || options.threads < 0) {
      throw EngineError("idle: " + folder.string() + " holds no engine.json");
    }
    return std::make_shared<IdleEngine>();
  }
};

/// The encoder's call with a mode that makes it a graph of its own.
Arguments call_of_graph(std::int64_t graph, std::int64_t batch, std::int64_t length = kLength) {
  Arguments arguments = encoder_call(batch, length);
  arguments.named.emplace_back("mode", graph);
  return arguments;
}

Value result(std::int64_t batch, std::int64_t length = kLength) {
  return Value::object("transformers.modeling_outputs.BaseModelOutput",
                       {{Step::of_key(Constant::string("last_hidden_state")),
                         Tensor::zeros(DType::Float32, {batch, length})}});
}

GraphSpec spec_of_graph(std::int64_t graph) {
  const auto input = [&](std::int64_t batch, std::int64_t length) {
    return SampleMetadata(flattened(call_of_graph(graph, batch, length)), /*strict=*/true, batch);
  };
  const auto output = [](std::int64_t batch, std::int64_t length) {
    CallTree tree(CallTree::Kind::Result);
    flatten(result(batch, length), tree);
    return SampleMetadata(tree, /*strict=*/true, batch);
  };
  GraphSpec spec("graph" + std::to_string(graph), input(1, 8), output(1, 8));
  spec.update(input(8, 64), output(8, 64));
  spec.update(input(4, 32), output(4, 32));
  return spec;
}

Plan idle_plan() {
  Plan plan;
  plan.entries.push_back({"idle", {}});
  return plan;
}

Router router_of(std::int64_t graph_count) {
  std::vector<RoutedGraph> graphs;
  for (std::int64_t i = 0; i < graph_count; ++i) {
    const GraphSpec spec = spec_of_graph(i);
    RoutedGraph graph;
    graph.name = spec.name();
    graph.key = spec.input_spec().key();
    graph.input_tree = spec.input_spec().tree();
    graph.output_tree = spec.output_spec().tree();
    graph.output_alias = {-1};
    graph.contract = spec.contract();
    graph.plan = idle_plan();
    graph.engines.push_back({"idle", std::make_shared<IdleEngine>()});
    graphs.push_back(std::move(graph));
  }
  return Router(std::move(graphs), /*strict=*/true);
}

/// Flatten, key, look up, check the contract, choose the engine; the graphs take turns.
void route(benchmark::State& state) {
  const std::int64_t graph_count = state.range(0);
  const Router router = router_of(graph_count);
  std::vector<Arguments> calls;
  for (std::int64_t i = 0; i < graph_count; ++i) {
    calls.push_back(call_of_graph(i, 2));
  }
  CallTree tree;
  std::size_t next = 0;
  for (auto _ : state) {
    flatten(calls[next], tree);
    const Router::Decision decision = router.route(tree);
    if (decision.engine == nullptr) {
      state.SkipWithError("a call missed its engine");
      break;
    }
    next = next + 1 == calls.size() ? 0 : next + 1;
  }
}
BENCHMARK(route)->ArgName("graphs")->Arg(1)->Arg(4)->Arg(16)->Arg(64);

/// The same for calls whose form was served before.
void route_known(benchmark::State& state) {
  const std::int64_t graph_count = state.range(0);
  const Router router = router_of(graph_count);
  std::vector<Arguments> calls;
  for (std::int64_t i = 0; i < graph_count; ++i) {
    calls.push_back(call_of_graph(i, 2));
    CallTree tree;
    flatten(calls.back(), tree);
    CallForm form;
    take_form(calls.back(), form);
    router.remember(form, tree, router.route(tree));
  }
  std::size_t next = 0;
  for (auto _ : state) {
    CallForm form;
    take_form(calls[next], form);
    const Router::FormDecision decision = router.route(form);
    if (decision.engine == nullptr) {
      state.SkipWithError("a call missed its engine");
      break;
    }
    next = next + 1 == calls.size() ? 0 : next + 1;
  }
}
BENCHMARK(route_known)->ArgName("graphs")->Arg(1)->Arg(4)->Arg(16)->Arg(64);

/// A bundle of one graph, written and loaded as any other; its folder goes when it does.
class IdleBundle {
 public:
  IdleBundle()
      : folder_(std::filesystem::temp_directory_path() /
                ("graphtune_bench_" + std::to_string(getpid()))) {
    register_backend(std::make_shared<IdleBackend>());
    std::filesystem::create_directories(folder_ / "source");
    std::ofstream(folder_ / "source" / "engine.json") << "{}\n";

    Bundle bundle;
    bundle.module_name = "encoder";
    bundle.versions = {{"graphtune", "0"}, {"weights", std::string(64, '0')}};  // of no model
    bundle.hardware = describe_hardware();
    bundle.signature =
        Signature({parameter("input_ids"), parameter("attention_mask"), parameter("token_type_ids"),
                   parameter("position_ids"), parameter("scale"), parameter("mode")});
    bundle.graphs.push_back(
        {spec_of_graph(0), idle_plan(), {{"idle", "idle", "graph0-idle"}}, {-1}, {}});
    write_bundle(bundle, {{"graph0-idle", folder_ / "source"}}, folder_ / "bundle");
    module_ = std::make_unique<Module>(Module::load(folder_ / "bundle"));
  }
  ~IdleBundle() {
    std::error_code ignored;  // a folder left in /tmp is no reason to end the process
    std::filesystem::remove_all(folder_, ignored);
  }
  IdleBundle(const IdleBundle&) = delete;
  IdleBundle& operator=(const IdleBundle&) = delete;

  [[nodiscard]] const Module& module() const { return *module_; }

 private:
  static Parameter parameter(std::string name) {
    Parameter result;
    result.name = std::move(name);
    return result;
  }
  std::filesystem::path folder_;
  std::unique_ptr<Module> module_;
};

/// A whole call of a loaded module; with engine_alone the difference is what graphtune adds.
void module_call(benchmark::State& state) {
  static const IdleBundle bundle;
  const Arguments arguments = call_of_graph(0, 2);
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
}  // namespace graphtune

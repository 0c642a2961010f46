#include "workloads.h"

#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "graphtune/bundle.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/graph_spec.h"

namespace graphtune::workloads {
namespace {

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

Value result(std::int64_t batch, std::int64_t length) {
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

RoutedGraph routed_graph(std::int64_t number) {
  const GraphSpec spec = spec_of_graph(number);
  RoutedGraph graph;
  graph.name = spec.name();
  graph.key = spec.input_spec().key();
  graph.input_tree = spec.input_spec().tree();
  graph.output_tree = spec.output_spec().tree();
  graph.output_alias = {-1};
  graph.contract = spec.contract();
  graph.plan = idle_plan();
  graph.engines.push_back({"idle", std::make_shared<IdleEngine>()});
  return graph;
}

Parameter parameter(std::string name) {
  Parameter made;
  made.name = std::move(name);
  return made;
}

}  // namespace

Arguments encoder_call(std::int64_t batch, std::int64_t length) {
  Arguments arguments;
  for (const char* name : {"input_ids", "attention_mask", "token_type_ids", "position_ids"}) {
    arguments.named.emplace_back(name, Tensor::zeros(DType::Int64, {batch, length}));
  }
  arguments.named.emplace_back("scale", Tensor::zeros(DType::Float32, {batch}));
  return arguments;
}

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

void IdleEngine::run(std::span<const Tensor> /*inputs*/, std::vector<Tensor>& outputs) {
  outputs.clear();
  outputs.push_back(result_);
}

RoutedGraphs::RoutedGraphs(std::int64_t graph_count) {
  std::vector<RoutedGraph> graphs;
  for (std::int64_t i = 0; i < graph_count; ++i) {
    graphs.push_back(routed_graph(i));
    calls_.push_back(call_of_graph(i, 2));
  }
  router_ = std::make_unique<Router>(std::move(graphs), /*strict=*/true);
}

void RoutedGraphs::remember_forms() const {
  for (const Arguments& call : calls_) {
    const CallTree tree = flattened(call);
    CallForm form;
    take_form(call, form);
    router_->remember(form, tree, router_->route(tree));
  }
}

IdleBundle::IdleBundle()
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

IdleBundle::~IdleBundle() {
  std::error_code ignored;  // a folder left in /tmp is no reason to end the process
  std::filesystem::remove_all(folder_, ignored);
}

Arguments IdleBundle::call() { return call_of_graph(0, 2); }

}  // namespace graphtune::workloads

#include "graphtune/module.h"

#include <algorithm>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

/// The tensors of a value in the caller's order, which is that of a tree's tensors. As deep as the
/// value, which flatten() has checked.
void collect_tensors(const Value& value, std::vector<const Tensor*>& tensors) {
  if (value.is_tensor()) {
    tensors.push_back(&value.tensor());
  } else if (value.is_container()) {
    for (const auto& [step, child] : value.container().children) {
      collect_tensors(child, tensors);
    }
  }
}

std::vector<Tensor> canonical_tensors(const Arguments& arguments, const CallTree& tree) {
  std::vector<const Tensor*> given;
  given.reserve(tree.tensors().size());
  for (const Value& value : arguments.positional) {
    collect_tensors(value, given);
  }
  for (const auto& [name, value] : arguments.named) {
    collect_tensors(value, given);
  }
  std::vector<Tensor> tensors;
  tensors.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    tensors.push_back(*given[tree.tensor_order().empty() ? i : tree.tensor_order()[i]]);
  }
  return tensors;
}

std::string engine_name(const Engine& engine, const RoutedGraph& graph) {
  const auto found =
      std::find_if(graph.engines.begin(), graph.engines.end(),
                   [&](const NamedEngine& named) { return named.engine.get() == &engine; });
  return found == graph.engines.end() ? std::string(engine.backend()) : found->name;
}

/// Values don't change: what forward does beside its result would be lost.
Miss changes_argument(const RoutedGraph& graph) {
  return {MissReason::NotTuned,
          fmt::format("{} changes its argument {}, which is no part of its result: only Python "
                      "objects can be changed; have forward return it to serve it here",
                      graph.name, graph.changes->not_in_result)};
}

Miss no_engine(const RoutedGraph& graph) {
  return {
      MissReason::NotTuned,
      fmt::format("{} runs eagerly for these sizes (plan: {}), and there is no model here to do so",
                  graph.name, to_string(graph.plan))};
}

}  // namespace

void run_engine(Engine& engine, const RoutedGraph& graph, std::span<const Tensor> canonical_inputs,
                std::vector<Tensor>& outputs) {
  const auto refuse = [&](std::string_view what) {
    throw EngineError(
        fmt::format("{}: engine {} failed: {}", graph.name, engine_name(engine, graph), what));
  };
  std::vector<Tensor> copies;
  std::span<const Tensor> inputs = canonical_inputs;
  if (!std::all_of(inputs.begin(), inputs.end(),
                   [](const Tensor& tensor) { return tensor.view().is_contiguous(); })) {
    copies.reserve(inputs.size());
    for (const Tensor& tensor : canonical_inputs) {
      copies.push_back(tensor.contiguous());
    }
    inputs = copies;
  }
  try {
    engine.run(inputs, outputs);
  } catch (const std::exception& error) {
    refuse(error.what());
  }
  const std::size_t expected = graph.engine_results();
  if (outputs.size() != expected) {
    refuse(fmt::format("it gave {} tensors, the result has {}", outputs.size(), expected));
  }
  for (std::size_t i = 0; i < graph.output_alias.size(); ++i) {
    if (graph.output_alias[i] >= 0) {
      outputs[i] = canonical_inputs[static_cast<std::size_t>(graph.output_alias[i])];
    }
  }
  outputs.resize(graph.output_tree.tensors().size());  // the others are for changed arguments
}

struct Module::State {
  Bundle bundle;
  std::shared_ptr<Router> router;
  std::vector<std::string> problems;

  /// `arguments` in normal form.
  [[nodiscard]] Value run(const Arguments& arguments) const {
    const RoutedGraph* graph = nullptr;
    Engine* engine = nullptr;
    std::int32_t engine_index = -1;
    std::vector<Tensor> inputs;
    {
      // Kept from call to call; not used beyond this block, since an engine may call modules
      // itself.
      thread_local CallTree tree;
      flatten(arguments, tree);
      const Router::Decision decision = route(tree);
      graph = decision.graph;
      engine = decision.engine;
      engine_index = decision.engine_index;
      inputs = canonical_tensors(arguments, tree);
    }
    std::vector<Tensor> outputs;
    try {
      run_engine(*engine, *graph, inputs, outputs);
    } catch (const EngineError&) {
      router->count_miss(graph, MissReason::EngineFailed);
      throw;
    }
    router->count_served(*graph, engine_index);
    return unflatten(graph->output_tree, std::move(outputs));
  }

  /// A decision for an engine; throws MissError, having counted, when there is none.
  [[nodiscard]] Router::Decision route(const CallTree& tree, bool count = true) const {
    Router::Decision decision = router->route(tree);
    if (!decision.miss && decision.engine == nullptr) {
      decision.miss = no_engine(*decision.graph);
    }
    if (!decision.miss && decision.graph->changes &&
        !decision.graph->changes->not_in_result.empty()) {
      decision.miss = changes_argument(*decision.graph);
    }
    if (decision.miss) {
      if (count) {
        router->count_miss(decision.graph, decision.miss->reason);
      }
      throw MissError(decision.miss->message);
    }
    return decision;
  }
};

Module::Module(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Module Module::load(const std::filesystem::path& path, const LoadOptions& options) {
  auto state = std::make_shared<State>();
  state->bundle = read_bundle(path, options);
  state->router = make_router(state->bundle, options, &state->problems);
  return Module(std::move(state));
}

Value Module::operator()(std::vector<Value> positional,
                         std::vector<std::pair<std::string, Value>> named) const {
  return state_->run(state_->bundle.signature.normalise({std::move(positional), std::move(named)}));
}

Value Module::call(const Arguments& arguments) const {
  const Signature& signature = state_->bundle.signature;
  return signature.is_normal(arguments) ? state_->run(arguments)
                                        : state_->run(signature.normalise(arguments));
}

Module::Served Module::explain(const Arguments& arguments) const {
  const Arguments normal = state_->bundle.signature.normalise(arguments);
  CallTree tree;
  flatten(normal, tree);
  const Router::Decision decision = state_->route(tree, false);
  return {decision.graph->name,
          decision.graph->engines[static_cast<std::size_t>(decision.engine_index)].name};
}

const Bundle& Module::bundle() const noexcept { return state_->bundle; }
const Router& Module::router() const noexcept { return *state_->router; }
const std::vector<std::string>& Module::problems() const noexcept { return state_->problems; }
CallStats Module::stats() const { return state_->router->stats(); }

}  // namespace graphtune

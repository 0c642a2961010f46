#include "graphtune/module.h"

#include <algorithm>

#include <fmt/format.h>

#include "graphtune/call_form.h"
#include "graphtune/error.h"
#include "graphtune/tensor_scratch.h"

namespace graphtune {
namespace {

/// Appends the tensors of a value in the caller's order, which is that of a tree's and a form's
/// tensors. As deep as the value, which flatten() or take_form() has been through.
void collect_tensors(const Value& value, std::vector<Tensor>& tensors) {
  if (value.is_tensor()) {
    tensors.push_back(value.tensor());
  } else if (value.is_container()) {
    for (const auto& [step, child] : value.container().children) {
      collect_tensors(child, tensors);
    }
  }
}

/// The tensors of a call in canonical order; `order` as of Router::FormDecision.
void collect_canonical(const Arguments& arguments, std::span<const std::uint32_t> order,
                       std::vector<Tensor>& tensors) {
  TensorScratch given;
  std::vector<Tensor>& target = order.empty() ? tensors : *given;
  for (const Value& value : arguments.positional) {
    collect_tensors(value, target);
  }
  for (const auto& [name, value] : arguments.named) {
    collect_tensors(value, target);
  }
  for (const std::uint32_t index : order) {
    tensors.push_back((*given)[index]);
  }
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
  TensorScratch copies;
  std::span<const Tensor> inputs = canonical_inputs;
  if (!std::all_of(inputs.begin(), inputs.end(),
                   [](const Tensor& tensor) { return tensor.view().is_contiguous(); })) {
    for (const Tensor& tensor : canonical_inputs) {
      copies->push_back(tensor.contiguous());
    }
    inputs = *copies;
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

  [[nodiscard]] Value call(const Arguments& arguments) const {
    CallForm form;
    take_form(arguments, form);
    TensorScratch inputs;
    Router::FormDecision decision = router->route(form);
    if (decision.engine != nullptr) {
      collect_canonical(arguments, decision.order, *inputs);
    } else if (bundle.signature.is_normal(arguments)) {
      decision = route_by_tree(arguments, form, *inputs);
    } else {
      decision = route_by_tree(bundle.signature.normalise(arguments), form, *inputs);
    }
    return serve(decision, *inputs);
  }

 private:
  /// `arguments` in normal form; `form` of the call as it was made. Fills `inputs`.
  [[nodiscard]] Router::FormDecision route_by_tree(const Arguments& arguments, const CallForm& form,
                                                   std::vector<Tensor>& inputs) const {
    // Kept from call to call; not used beyond this, since an engine may call modules itself.
    thread_local CallTree tree;
    flatten(arguments, tree);
    const Router::Decision decision = route(tree);
    router->remember(form, tree, decision);
    collect_canonical(arguments, tree.tensor_order(), inputs);
    return {decision.graph, decision.engine, decision.engine_index, {}};
  }

  [[nodiscard]] Value serve(const Router::FormDecision& decision,
                            std::span<const Tensor> inputs) const {
    std::vector<Tensor> outputs;
    try {
      run_engine(*decision.engine, *decision.graph, inputs, outputs);
    } catch (const EngineError&) {
      router->count_miss(decision.graph, MissReason::EngineFailed);
      throw;
    }
    router->count_served(*decision.graph, decision.engine_index);
    return unflatten(decision.graph->output_tree, std::move(outputs));
  }

 public:
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
  return state_->call({std::move(positional), std::move(named)});
}

Value Module::call(const Arguments& arguments) const { return state_->call(arguments); }

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

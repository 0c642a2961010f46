#include "bindings/tuned_router.h"

#include <chrono>
#include <utility>

#include <nanobind/nanobind.h>

#include "bindings/argument_change.h"
#include "bindings/formed_call.h"
#include "bindings/rebuild.h"
#include "bindings/tensor_access.h"
#include "bindings/walk.h"
#include "bindings/walker_lease.h"
#include "graphtune/error.h"
#include "graphtune/tensor_scratch.h"

namespace graphtune::python {
namespace {

std::vector<std::uint32_t> caller_to_canonical(const CallTree& tree) {
  std::vector<std::uint32_t> order(tree.tensors().size());
  for (std::uint32_t canonical = 0; canonical < order.size(); ++canonical) {
    order[tree.tensor_at(canonical)] = canonical;
  }
  return order;
}

/// An engine's result as torch has it.
Object result_of(const Tensor& tensor) {
  Object result = Object::steal(from_core(tensor));
  // An engine that gives an input back, though results are to be the caller's own.
  return is_lent(tensor) ? Object::steal(clone(result.get())) : result;
}

/// Whether a form, (result, changes), has any change.
bool changes_something(PyObject* form) {
  PyObject* result = nullptr;
  PyObject* changes = nullptr;
  if (PyArg_ParseTuple(form, "OO!", &result, &PyList_Type, &changes) == 0) {
    throw PythonError();
  }
  return PyList_GET_SIZE(changes) > 0;
}

}  // namespace

TunedRouter::TunedRouter(std::shared_ptr<Router> router, CallSignature signature,
                         std::vector<Object> templates, std::unique_ptr<WeightGuard> weights)
    : router_(std::move(router)), signature_(std::move(signature)), weights_(std::move(weights)) {
  const std::vector<RoutedGraph>& graphs = router_->graphs();
  if (templates.size() != graphs.size()) {
    throw ValueError("one template of a result is needed for each graph");
  }
  const WalkerLease walker;
  for (std::size_t graph = 0; graph < graphs.size(); ++graph) {
    Template form{std::move(templates[graph]), {}, false, false};
    if (graphs[graph].eager_reason.empty()) {
      walker->walk_result(form.object.get());
      const std::optional<ArgumentChanges>& changes = graphs[graph].changes;
      const CallTree& expected = changes ? changes->form : graphs[graph].output_tree;
      if (walker->tree().tensors().size() != expected.tensors().size()) {
        throw ValueError(graphs[graph].name +
                         ": the template's tensors are not those of the recorded results");
      }
      form.order = caller_to_canonical(walker->tree());
      if (changes) {
        form.changes = changes_something(form.object.get());
        keeps_containers_ = true;
      }
      form.is_tensor = is_tensor(form.object.get()) && form.order.size() == 1;
    }
    templates_.push_back(std::move(form));
  }
}

CallMiss TunedRouter::miss(const RoutedGraph* graph, MissReason reason, std::string message) const {
  return {reason, std::move(message), router_->count_miss(graph, reason)};
}

Outcome TunedRouter::call(PyObject* args, PyObject* kwargs, bool training,
                          bool grad_enabled) const {
  if (training) {
    return {{},
            miss(nullptr, MissReason::TrainMode,
                 "the module is in train mode; its engines were built in eval mode: call eval()")};
  }
  const WalkerLease walker;
  walker->keep_containers(keeps_containers_);
  walker->walk_inputs(args, kwargs, &signature_);
  if (walker->has_virtual_tensors()) {
    return {};
  }
  if (grad_enabled && Router::any_requires_grad(walker->tree().tensors())) {
    return {{},
            miss(nullptr, MissReason::RequiresGrad,
                 "an input requires gradients, which engines don't compute; call under "
                 "torch.no_grad() to be served "
                 "by one")};
  }
  Router::Decision decision = router_->route(walker->tree());
  if (decision.miss) {
    return {{}, miss(decision.graph, decision.miss->reason, std::move(decision.miss->message))};
  }
  if (decision.engine == nullptr) {
    router_->count_served(*decision.graph, decision.engine_index);
    return {};
  }
  if (weights_ != nullptr && weights_->changed()) {
    return {
        {},
        miss(
            decision.graph, MissReason::WeightsChanged,
            "the module's weights, parts, hooks or modes, or torch's default dtype or device, were "
            "changed since it was tuned: tune it again")};
  }
  const auto graph = static_cast<std::size_t>(decision.graph - router_->graphs().data());
  if (templates_[graph].changes) {
    const std::string places = find_shared_container(*walker);
    if (!places.empty()) {
      return {{},
              miss(decision.graph, MissReason::SharedArgument,
                   "forward changes containers among its arguments, and one is given at " + places +
                       ": give each its own")};
    }
  }
  router_->remember(FormedCall(args, kwargs).form(), walker->tree(), decision);
  std::vector<PyObject*> tensors;
  for (const Object& tensor : walker->tensors()) {
    tensors.push_back(tensor.get());
  }
  std::string failure;
  Object result =
      serve({decision.graph, decision.engine, decision.engine_index, walker->tree().tensor_order()},
            tensors, &*walker, failure);
  if (!result) {
    return {{},
            miss(decision.graph, MissReason::EngineFailed,
                 decision.graph->name + ": engine " + std::string(decision.engine->backend()) +
                     " failed: " + failure)};
  }
  return {std::move(result), std::nullopt};
}

Router::FormDecision TunedRouter::decide(const FormedCall& call, bool grad_enabled) const {
  Router::FormDecision decision = router_->route(call.form());
  if (decision.engine != nullptr &&
      ((grad_enabled && Router::any_requires_grad(call.form().tensors())) ||
       (weights_ != nullptr && weights_->changed()))) {
    decision.engine = nullptr;
  }
  return decision;
}

Object TunedRouter::serve_known(PyObject* args, PyObject* kwargs, bool grad_enabled) const {
  const FormedCall call(args, kwargs);
  const Router::FormDecision decision = decide(call, grad_enabled);
  if (decision.engine == nullptr) {
    return {};
  }
  std::string failure;
  return serve(decision, call.tensors(), nullptr, failure);
}

double TunedRouter::time_routing(PyObject* args, PyObject* kwargs, int count) const {
  bool served = true;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    const FormedCall call(args, kwargs);
    served = served && decide(call, false).engine != nullptr;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!served) {
    throw ValueError("time_routing: no engine serves this call at once");
  }
  return took.count();
}

Object TunedRouter::serve(const Router::FormDecision& decision, std::span<PyObject* const> tensors,
                          const Walker* call, std::string& failure) const {
  const auto input = [&](std::size_t canonical) {
    return tensors[decision.order.empty() ? canonical : decision.order[canonical]];
  };
  const bool may_lend = !decision.engine->keeps_inputs();
  TensorScratch inputs;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    // Engines were validated with contiguous tensors: any other form is copied into one.
    inputs->push_back(to_engine(input(i), may_lend));
  }
  TensorScratch outputs;
  {
    const nanobind::gil_scoped_release release;
    try {
      decision.engine->run(*inputs, *outputs);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  if (failure.empty() && outputs->size() != decision.graph->engine_results()) {
    failure = "it gave another number of tensors than the model";
  }
  if (!failure.empty()) {
    return {};
  }
  const std::vector<std::int32_t>& aliases = decision.graph->output_alias;
  std::vector<Object> results;
  results.reserve(outputs->size());
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    // Where the model returns an input itself, so does the tuned call.
    results.push_back(i < aliases.size() && aliases[i] >= 0
                          ? Object::borrow(input(static_cast<std::size_t>(aliases[i])))
                          : result_of((*outputs)[i]));
  }
  const auto graph = static_cast<std::size_t>(decision.graph - router_->graphs().data());
  Object result = decision.graph->changes ? carry_out(graph, results, *call)
                                          : build_result(templates_[graph], results);
  router_->count_served(*decision.graph, decision.engine_index);
  return result;
}

Object TunedRouter::build_result(const Template& form, const std::vector<Object>& canonical) {
  if (form.is_tensor) {
    return canonical.front();
  }
  std::vector<Object> tensors;
  tensors.reserve(canonical.size());
  for (const std::uint32_t index : form.order) {
    tensors.push_back(canonical[index]);
  }
  // Containers are copied: no two calls share one that the caller could change.
  Rebuilder rebuilder(tensors, true);
  Object result = rebuilder.rebuild(form.object.get());
  rebuilder.finish();
  return result;
}

/// Builds what the form of the graph's changes describes, and has it carried out on the caller's
/// containers. Gives the result.
Object TunedRouter::carry_out(std::size_t graph, const std::vector<Object>& canonical,
                              const Walker& call) const {
  const Template& form = templates_[graph];
  std::vector<Object> tensors;
  tensors.reserve(form.order.size());
  for (const std::uint32_t index : form.order) {
    const std::int32_t source = router_->graphs()[graph].changes->sources[index];
    if (source >= 0) {
      tensors.push_back(canonical[static_cast<std::size_t>(source)]);
    } else {
      tensors.push_back(
          call.tensors()[call.tree().tensor_at(static_cast<std::size_t>(-1 - source))]);
    }
  }
  Rebuilder rebuilder(tensors, true, &call);
  const Object built = rebuilder.rebuild(form.object.get());
  rebuilder.finish();
  static PyObject* function =
      Object::steal(PyObject_GetAttrString(changes_module(), "carry_out")).release();
  return Object::steal(PyObject_CallOneArg(function, built.get()));
}

}  // namespace graphtune::python

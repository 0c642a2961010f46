#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/call_signature.h"
#include "bindings/object.h"
#include "bindings/walk.h"
#include "bindings/weight_guard.h"
#include "graphtune/router.h"

namespace graphtune::python {

class FormedCall;

/// A call that no engine served.
struct CallMiss {
  MissReason reason;
  std::string message;
  bool first = false;  ///< the first of this reason for this graph: the caller warns
};

/// What became of a call: a result, a miss, or neither (to be run eagerly, by plan or because it is
/// traced).
struct Outcome {
  Object result;
  std::optional<CallMiss> miss;
};

/// A router for Python calls: walks the arguments once, asks the core's Router, runs the engine
/// without the GIL and builds the result in the image of a template. Immutable but for the router's
/// counters and the forms of calls that it knows; calls may come from several threads.
class TunedRouter {
 public:
  /// `templates[i]` is a result of graph i, as the module gave it; its tensors are placeholders. Of
  /// a graph with changes it is their form (graphtune.argument_changes).
  /// Throws ValueError when its structure is not the graph's output tree.
  TunedRouter(std::shared_ptr<Router> router, CallSignature signature,
              std::vector<Object> templates, std::unique_ptr<WeightGuard> weights);

  /// `args` a tuple, `kwargs` a dict or null. Throws as Walker does.
  [[nodiscard]] Outcome call(PyObject* args, PyObject* kwargs, bool training,
                             bool grad_enabled) const;

  /// Serves a call whose form is known; null, with nothing counted, where it isn't, and for all
  /// that needs a word said: then call() it. As call(), for a module in eval mode.
  [[nodiscard]] Object serve_known(PyObject* args, PyObject* kwargs, bool grad_enabled) const;

  /// Seconds that it takes to find the engine of a call `count` times, of which nothing is run or
  /// counted. Throws ValueError when serve_known() would not serve it.
  [[nodiscard]] double time_routing(PyObject* args, PyObject* kwargs, int count) const;

  /// Counts a miss that was found outside.
  [[nodiscard]] CallMiss miss(const RoutedGraph* graph, MissReason reason,
                              std::string message) const;
  [[nodiscard]] const Router& router() const noexcept { return *router_; }

 private:
  struct Template {
    Object object;
    std::vector<std::uint32_t> order;  // caller's index -> canonical index
    bool changes = false;              // some argument, besides what the result holds of them
    bool is_tensor = false;            // the result is a tensor, in no container
  };
  /// Without an engine where the form isn't known, or call() has to say a word.
  [[nodiscard]] Router::FormDecision decide(const FormedCall& call, bool grad_enabled) const;
  /// Null when the engine failed, and `failure` says why. `tensors` stand in the caller's order;
  /// `call` is needed where the graph has changes.
  [[nodiscard]] Object serve(const Router::FormDecision& decision,
                             std::span<PyObject* const> tensors, const Walker* call,
                             std::string& failure) const;
  [[nodiscard]] static Object build_result(const Template& form,
                                           const std::vector<Object>& canonical);
  [[nodiscard]] Object carry_out(std::size_t graph, const std::vector<Object>& canonical,
                                 const Walker& call) const;

  std::shared_ptr<Router> router_;
  CallSignature signature_;
  std::vector<Template> templates_;
  std::unique_ptr<WeightGuard> weights_;
  bool keeps_containers_ = false;  // some graph has changes
};

}  // namespace graphtune::python

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphtune/argument_changes.h"
#include "graphtune/call_form.h"
#include "graphtune/call_key.h"
#include "graphtune/contract.h"
#include "graphtune/engines/engine.h"
#include "graphtune/export.h"
#include "graphtune/fixed_constants.h"
#include "graphtune/known_forms.h"
#include "graphtune/miss.h"
#include "graphtune/plan.h"

namespace graphtune {

/// An engine of a graph with its name in the plan ("aoti", "openvino", …).
struct NamedEngine {
  std::string name;
  std::shared_ptr<Engine> engine;  ///< null for "eager"
};

/// One graph, ready to serve.
struct RoutedGraph {
  std::string name;
  CallKey key;
  CallTree input_tree;                           ///< detached: for messages
  CallTree output_tree{CallTree::Kind::Result};  ///< detached: the structure of results
  /// Result tensors that are inputs themselves: for each tensor that an engine gives (canonical),
  /// the input's canonical index or -1. Empty: none is.
  std::vector<std::int32_t> output_alias;
  /// Absent: calls change no container, and their result holds none of theirs.
  std::optional<ArgumentChanges> changes;
  Contract contract;
  /// Checked by a router that is not strict.
  FixedConstants fixed_constants;
  Plan plan;
  std::vector<NamedEngine> engines;
  std::string eager_reason;  ///< why nothing is tuned; empty when something is

  /// How many tensors an engine gives: those of the result, and extra ones.
  [[nodiscard]] std::size_t engine_results() const noexcept {
    return output_tree.tensors().size() + (changes ? changes->extra_results : 0);
  }
};

/// Counts of calls, exact under threads.
struct CallStats {
  std::uint64_t calls = 0;
  std::map<std::string, std::map<std::string, std::uint64_t>>
      by_graph;                                 ///< graph -> engine -> calls
  std::map<std::string, std::uint64_t> misses;  ///< reason -> calls
};

/// Sends each call to the engine of its graph. Immutable but for its counters and the
/// forms that it remembers: tuning again makes a new one. Thread safe, no lock on the way of a call
/// that is served.
class GRAPHTUNE_API Router {
 public:
  /// Throws ValueError when two graphs have one key or name, a plan names an engine that the graph
  /// hasn't or limits a symbol that can't be read, an alias is of no input, or a graph with engines
  /// takes tensors that no engine can (layouts other than strided).
  Router(std::vector<RoutedGraph> graphs, bool strict);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  [[nodiscard]] bool strict() const noexcept { return strict_; }
  [[nodiscard]] const std::vector<RoutedGraph>& graphs() const noexcept { return graphs_; }

  struct Decision {
    const RoutedGraph* graph = nullptr;  ///< null: unknown graph
    Engine* engine = nullptr;            ///< null: eager by plan, or a miss
    std::int32_t engine_index = -1;
    std::optional<Miss> miss;  ///< set: no engine may have this call
  };
  /// Finds the graph and the engine, checking everything that the engine relies on. Counts nothing.
  /// Whether an input requires gradients is for the caller to ask (any_requires_grad): it depends
  /// on the caller's grad mode.
  [[nodiscard]] Decision route(const CallTree& tree) const;

  /// What is known of a call by its form alone: only ever an engine that may have it.
  struct FormDecision {
    const RoutedGraph* graph = nullptr;
    Engine* engine = nullptr;  ///< null: no engine, or nothing is known: ask by the tree
    std::int32_t engine_index = -1;
    std::span<const std::uint32_t> order;  ///< canonical tensor -> the caller's; empty: the same
  };
  /// The same for a call whose form was remembered, with the same checks, without a tree.
  [[nodiscard]] FormDecision route(const CallForm& form) const;
  /// Knows calls of this form from now on. `decision` is that of `tree`, and `tree` of the same
  /// call, in normal form; nothing is remembered unless it names an engine, and nothing of a graph
  /// whose calls change their arguments: who carries that out needs the tree.
  void remember(const CallForm& form, const CallTree& tree, const Decision& decision) const;
  [[nodiscard]] static bool any_requires_grad(std::span<const TensorView> tensors) noexcept;

  /// `graph` must be one of graphs(), here and below.
  /// Counts a call that was served by engine `engine_index` of `graph` (-1: eager by plan).
  void count_served(const RoutedGraph& graph, std::int32_t engine_index) const noexcept;
  /// Counts a miss. True the first time that this reason occurs for this graph (null: unknown
  /// graph): the caller warns then.
  bool count_miss(const RoutedGraph* graph, MissReason reason) const noexcept;
  [[nodiscard]] CallStats stats() const;

 private:
  struct DeviceCheck;
  struct GraphRoute;
  struct Counters;
  static GraphRoute compile(const RoutedGraph& graph, bool strict);
  /// Gives `decision`, whose graph is found, the engine that may have a call of these tensors; with
  /// the call's tree, else the miss.
  void choose(const Contract::Tensors& tensors, const CallTree* tree, Decision& decision) const;
  /// The first tensor that is on another device of its kind than the engines.
  [[nodiscard]] static const DeviceCheck* first_on_wrong_device(const GraphRoute& route,
                                                                const Contract::Tensors& tensors);
  [[nodiscard]] Miss explain_unknown(const CallTree& tree, const CallKey& key) const;

  std::vector<RoutedGraph> graphs_;
  std::vector<GraphRoute> routes_;  // beside graphs_: what route() needs of each, compiled
  std::unordered_map<CallKey, std::uint32_t, CallKeyHash> by_key_;
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<KnownForms> forms_;
  bool strict_;
};

}  // namespace graphtune

#include "graphtune/router.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/sample_metadata.h"
#include "graphtune/striped_counters.h"

namespace graphtune {
namespace {

constexpr std::size_t kReasonCount = static_cast<std::size_t>(MissReason::EngineFailed) + 1;

using Counter = std::atomic<std::uint64_t>;
using ReasonCounters = std::array<Counter, kReasonCount>;

/// A device index as it counts: a device named without one is the first of its kind.
std::int8_t device_index(const TensorView& tensor) {
  return std::max<std::int8_t>(tensor.device_index, 0);
}

std::size_t common_prefix(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + std::ptrdiff_t(std::min(a.size(), b.size())), b.begin())
          .first -
      a.begin());
}

SampleMetadata metadata_of(const CallTree& detached, bool strict) {
  std::size_t axes = 0;
  for (const TensorView& tensor : detached.tensors()) {
    axes += static_cast<std::size_t>(tensor.rank);
  }
  return SampleMetadata(detached, strict, ShapeLearner(axes));
}

}  // namespace

/// A tensor on a device of which there can be several, in canonical order.
struct Router::DeviceCheck {
  std::uint32_t tensor = 0;
  std::int8_t index = 0;
};

struct Router::GraphRoute {
  struct Served {
    Engine* engine = nullptr;
    std::int32_t index = -1;  // -1: eager
  };
  struct Entry {
    Region region;
    Served by;
  };
  [[nodiscard]] Served at(std::span<const std::int64_t> symbols) const {
    if (has_all.engine != nullptr) {
      return has_all;
    }
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const Entry& each) {
      return each.region.contains(symbols);
    });
    return entry == entries.end() ? Served() : entry->by;
  }

  Served has_all;  // the one engine that has all sizes, as in most plans: nothing else is read then
  std::vector<Entry> entries;
  std::vector<DeviceCheck> devices;
  bool has_engine = false;  // else all is eager by plan, whatever the sizes
};

struct Router::Counters {
  // One counter for eager by plan, and one for each engine, after those of the graphs before.
  static std::vector<std::size_t> first_of(const std::vector<RoutedGraph>& graphs) {
    std::vector<std::size_t> first = {0};
    for (const RoutedGraph& graph : graphs) {
      first.push_back(first.back() + graph.engines.size() + 1);
    }
    return first;
  }
  explicit Counters(const std::vector<RoutedGraph>& graphs)
      : first_served(first_of(graphs)), served(first_served.back()), misses(graphs.size()) {}

  [[nodiscard]] std::size_t slot(std::size_t graph, std::int32_t engine_index) const noexcept {
    return first_served[graph] + static_cast<std::size_t>(engine_index + 1);
  }

  std::vector<std::size_t> first_served;
  StripedCounters served;
  std::vector<ReasonCounters> misses;
  ReasonCounters unknown{};
};

Router::Router(std::vector<RoutedGraph> graphs, bool strict)
    : graphs_(std::move(graphs)),
      counters_(std::make_unique<Counters>(graphs_)),
      forms_(std::make_unique<KnownForms>()),
      strict_(strict) {
  std::set<std::string_view> names;
  for (std::uint32_t i = 0; i < graphs_.size(); ++i) {
    const RoutedGraph& graph = graphs_[i];
    if (!names.insert(graph.name).second) {
      throw ValueError(fmt::format("router: two graphs are named {}", graph.name));
    }
    const auto [other, is_new] = by_key_.emplace(graph.key, i);
    if (!is_new) {
      throw ValueError(fmt::format("router: graphs {} and {} have the same key",
                                   graphs_[other->second].name, graph.name));
    }
    routes_.push_back(compile(graph, strict_));
  }
}

Router::~Router() = default;

Router::GraphRoute Router::compile(const RoutedGraph& graph, bool strict) {
  const auto refuse = [&](const std::string& what) {
    throw ValueError(fmt::format("router: graph {}: {}", graph.name, what));
  };
  GraphRoute route;
  for (const NamedEngine& engine : graph.engines) {
    if ((engine.engine == nullptr) != (engine.name == Plan::kEager)) {
      refuse(fmt::format("engine '{}' is {}", engine.name,
                         engine.engine == nullptr ? "null" : "no engine, but a word of the plan"));
    }
  }
  for (const Plan::Entry& entry : graph.plan.entries) {
    const auto found =
        std::find_if(graph.engines.begin(), graph.engines.end(),
                     [&](const NamedEngine& engine) { return engine.name == entry.engine; });
    if (found == graph.engines.end() && entry.engine != Plan::kEager) {
      refuse(fmt::format("its plan names engine '{}', which it hasn't", entry.engine));
    }
    GraphRoute::Served by;
    if (entry.engine != Plan::kEager) {
      by = {found->engine.get(), static_cast<std::int32_t>(found - graph.engines.begin())};
    }
    route.entries.push_back({entry.region, by});
  }
  if (!route.entries.empty() && route.entries.front().region.limits.empty()) {
    route.has_all = route.entries.front().by;
  }
  check_regions(graph.plan, graph.contract.used_symbols());

  const std::vector<TensorView>& inputs = graph.input_tree.tensors();
  route.has_engine =
      std::any_of(route.entries.begin(), route.entries.end(),
                  [](const GraphRoute::Entry& entry) { return entry.by.index >= 0; });
  if (route.has_engine) {
    if (graph.contract.sizes().size() != inputs.size()) {
      refuse(fmt::format("its contract is of {} tensors, its calls have {}",
                         graph.contract.sizes().size(), inputs.size()));
    }
    const std::size_t constants = graph.input_tree.constants().size();
    if (!strict && graph.fixed_constants.items().size() != constants) {
      refuse(fmt::format("{} fixed constants for calls with {}",
                         graph.fixed_constants.items().size(), constants));
    }
    for (std::uint32_t i = 0; i < inputs.size(); ++i) {
      const TensorView& tensor = inputs[graph.input_tree.tensor_at(i)];
      if (graph.contract.sizes()[i].size() != static_cast<std::size_t>(tensor.rank)) {
        refuse(fmt::format("its contract has {} sizes for tensor {}, which has rank {}",
                           graph.contract.sizes()[i].size(), i, tensor.rank));
      }
      if (tensor.layout != Layout::Strided) {
        refuse(fmt::format("tensor {} is {}: engines take strided tensors only", i,
                           to_string(tensor.layout)));
      }
      if (tensor.device != DeviceType::Cpu) {
        route.devices.push_back({i, device_index(tensor)});
      }
    }
  }
  const std::size_t output_count = graph.engine_results();
  if (!graph.output_alias.empty() && graph.output_alias.size() != output_count) {
    refuse(fmt::format("{} aliases for a result of {} tensors", graph.output_alias.size(),
                       output_count));
  }
  for (const std::int32_t alias : graph.output_alias) {
    if (alias < -1 || alias >= static_cast<std::int64_t>(inputs.size())) {
      refuse(
          fmt::format("a tensor of the result is said to be input {} of {}", alias, inputs.size()));
    }
  }
  if (graph.changes) {
    try {
      check_changes(*graph.changes, graph.output_tree.tensors().size(), inputs.size());
    } catch (const ValueError& error) {
      refuse(error.what());
    }
  }
  return route;
}

Router::Decision Router::route(const CallTree& tree) const {
  thread_local CallKey key;  // kept: routing allocates nothing

  key.assign(tree, strict_);
  Decision decision;
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    decision.miss = explain_unknown(tree, key);
    return decision;
  }
  const RoutedGraph& graph = graphs_[found->second];
  const GraphRoute& route = routes_[found->second];
  decision.graph = &graph;
  if (!graph.eager_reason.empty()) {
    decision.miss = Miss{MissReason::NotTuned,
                         fmt::format("{} was not tuned: {}", graph.name, graph.eager_reason)};
    return decision;
  }
  if (!route.has_engine) {
    return decision;
  }
  if (!strict_) {
    decision.miss = graph.fixed_constants.check(tree);
    if (decision.miss) {
      return decision;
    }
  }
  choose({tree.tensors(), tree.tensor_order()}, &tree, decision);
  return decision;
}

void Router::choose(const Contract::Tensors& tensors, const CallTree* tree,
                    Decision& decision) const {
  thread_local std::vector<std::int64_t> symbols;  // kept: routing allocates nothing
  const RoutedGraph& graph = *decision.graph;
  const GraphRoute& route = routes_[static_cast<std::size_t>(&graph - graphs_.data())];
  symbols.resize(graph.contract.symbols().size());
  if (!graph.contract.sizes_hold(tensors, symbols)) {
    if (tree != nullptr) {
      decision.miss = graph.contract.check_sizes(*tree, symbols);
    }
    return;
  }
  if (const DeviceCheck* wrong = first_on_wrong_device(route, tensors)) {
    if (tree != nullptr) {
      const std::size_t index = tree->tensor_at(wrong->tensor);
      const TensorView& tensor = tree->tensors()[index];
      decision.miss =
          Miss{MissReason::Device,
               fmt::format("{} is on {}:{}, the engines are on {}:{}. Move it there.",
                           tree->tensor_locators()[index].shown(), to_string(tensor.device),
                           device_index(tensor), to_string(tensor.device), wrong->index)};
    }
    return;
  }
  const GraphRoute::Served by = route.at(symbols);
  if (by.engine == nullptr) {
    return;
  }
  // Only engines rely on index values: eager checks them itself.
  if (!graph.contract.indices_hold(tensors)) {
    if (tree != nullptr) {
      decision.miss = graph.contract.check_indices(*tree);
    }
    return;
  }
  decision.engine_index = by.index;
  decision.engine = by.engine;
}

const Router::DeviceCheck* Router::first_on_wrong_device(const GraphRoute& route,
                                                         const Contract::Tensors& tensors) {
  const auto found = std::find_if(
      route.devices.begin(), route.devices.end(),
      [&](const DeviceCheck& check) { return device_index(tensors[check.tensor]) != check.index; });
  return found == route.devices.end() ? nullptr : &*found;
}

Router::FormDecision Router::route(const CallForm& form) const {
  const KnownForm* known = forms_->find(form);
  if (known == nullptr) {
    return {};
  }
  Decision decision;
  decision.graph = &graphs_[known->graph];
  choose({form.tensors(), known->order}, nullptr, decision);
  return {decision.graph, decision.engine, decision.engine_index, known->order};
}

void Router::remember(const CallForm& form, const CallTree& tree, const Decision& decision) const {
  if (decision.engine == nullptr || decision.miss || decision.graph->changes ||
      form.tensors().size() != tree.tensors().size()) {
    return;
  }
  forms_->add(form, static_cast<std::uint32_t>(decision.graph - graphs_.data()),
              tree.tensor_order());
}

Miss Router::explain_unknown(const CallTree& tree, const CallKey& key) const {
  Miss miss{MissReason::UnknownGraph, {}};
  if (graphs_.empty()) {
    miss.message = "no execution graph is known: record calls and tune";
    return miss;
  }
  // The nearest graph: keys are the calls' bytes in order, so the one that agrees longest.
  const RoutedGraph* nearest = &graphs_.front();
  std::size_t longest = 0;
  for (const RoutedGraph& graph : graphs_) {
    const std::size_t length = common_prefix(graph.key.bytes(), key.bytes());
    if (length > longest) {
      longest = length;
      nearest = &graph;
    }
  }
  CallTree given = tree;
  given.detach();
  miss.message = fmt::format(
      "the call is of none of the {} known execution graphs. It differs from {}: {}. Record such a "
      "call and tune again.",
      graphs_.size(), nearest->name,
      describe_difference(metadata_of(nearest->input_tree, strict_), metadata_of(given, strict_)));
  return miss;
}

bool Router::any_requires_grad(std::span<const TensorView> tensors) noexcept {
  return std::ranges::any_of(tensors, &TensorView::requires_grad);
}

void Router::count_served(const RoutedGraph& graph, std::int32_t engine_index) const noexcept {
  const auto index = static_cast<std::size_t>(&graph - graphs_.data());
  counters_->served.increment(counters_->slot(index, engine_index));
}

bool Router::count_miss(const RoutedGraph* graph, MissReason reason) const noexcept {
  ReasonCounters& counters =
      graph == nullptr ? counters_->unknown
                       : counters_->misses[static_cast<std::size_t>(graph - graphs_.data())];
  return counters[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed) == 0;
}

CallStats Router::stats() const {
  CallStats stats;
  const auto add_misses = [&](const ReasonCounters& counters) {
    for (std::size_t reason = 0; reason < kReasonCount; ++reason) {
      const std::uint64_t count = counters[reason].load(std::memory_order_relaxed);
      if (count > 0) {
        stats.misses[std::string(to_string(static_cast<MissReason>(reason)))] += count;
        stats.calls += count;
      }
    }
  };
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    auto& by_engine = stats.by_graph[graphs_[i].name];
    const auto engines = static_cast<std::int32_t>(graphs_[i].engines.size());
    for (std::int32_t engine = -1; engine < engines; ++engine) {
      const std::uint64_t count = counters_->served.total(counters_->slot(i, engine));
      if (count > 0) {
        by_engine[engine < 0 ? Plan::kEager
                             : graphs_[i].engines[static_cast<std::size_t>(engine)].name] += count;
        stats.calls += count;
      }
    }
    add_misses(counters_->misses[i]);
  }
  add_misses(counters_->unknown);
  return stats;
}

}  // namespace graphtune

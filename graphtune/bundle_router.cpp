// From a bundle to a router: loads the engines, and leaves out those that can't be loaded where the
// plan has others.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/module.h"

namespace graphtune {
namespace {

/// Why native code of a bundle may not be loaded; empty when it may.
std::string native_code_refusal(const Bundle& bundle, const LoadOptions& options) {
  if (options.allow_native_code.has_value()) {
    return *options.allow_native_code ? std::string() : "native code is not allowed by the caller";
  }
  const auto built_on = bundle.hardware.find("machine_id");
  const std::string here = describe_hardware().at("machine_id");
  if (built_on != bundle.hardware.end() && !here.empty() && built_on->second == here) {
    return {};
  }
  return "it is native code from another machine, which can do anything that this process can. If "
         "you trust whoever made the bundle, load it with allow_native_code (command line: "
         "--allow-native-code)";
}

struct Failure {
  std::string reason;
  bool is_permission = false;
};

/// Loads the engines of one graph, or says why not.
class GraphLoader {
 public:
  GraphLoader(const Bundle& bundle, const LoadOptions& options, const std::string& native_refusal,
              const std::string& native_obstacle)
      : bundle_(bundle),
        options_(options),
        native_refusal_(native_refusal),
        native_obstacle_(native_obstacle) {}

  RoutedGraph load(const StoredGraph& stored, std::vector<std::string>& problems) {
    RoutedGraph graph;
    graph.name = stored.spec.name();
    graph.key = stored.spec.input_spec().key();
    graph.input_tree = stored.spec.input_spec().tree();
    graph.output_tree = stored.spec.output_spec().tree();
    graph.output_alias = stored.output_alias;
    graph.changes = stored.changes;
    graph.eager_reason = stored.spec.eager_reason();
    if (!graph.eager_reason.empty()) {
      return graph;
    }
    graph.contract = stored.spec.contract();
    graph.fixed_constants = stored.spec.fixed_constants();
    graph.plan = stored.plan;
    std::map<std::string, Failure> failures;
    for (const StoredEngine& engine : stored.engines) {
      const bool is_planned =
          std::any_of(stored.plan.entries.begin(), stored.plan.entries.end(),
                      [&](const Plan::Entry& entry) { return entry.engine == engine.name; });
      if (is_planned) {
        load_engine(engine, graph, failures);
      }
    }
    leave_out(failures, graph, problems);
    return graph;
  }

 private:
  void load_engine(const StoredEngine& stored, RoutedGraph& graph,
                   std::map<std::string, Failure>& failures) {
    try {
      Backend& backend = find_backend(stored.backend);
      if (stored.native_code || backend.loads_native_code()) {
        if (!native_refusal_.empty()) {
          failures[stored.name] = {native_refusal_, true};
          return;
        }
        if (!backend.is_portable() && !native_obstacle_.empty()) {
          failures[stored.name] = {native_obstacle_, false};
          return;
        }
      }
      const std::string unavailable = backend.unavailable_reason();
      if (!unavailable.empty()) {
        failures[stored.name] = {unavailable, false};
        return;
      }
      std::shared_ptr<Engine> engine =
          backend.load(bundle_.folder / stored.folder, options_.engine);
      if (engine == nullptr) {
        failures[stored.name] = {"the backend gave no engine", false};
        return;
      }
      graph.engines.push_back({stored.name, std::move(engine)});
    } catch (const std::exception& error) {  // an engine's runtime may throw anything
      failures[stored.name] = {error.what(), false};
    }
  }

  /// Takes the engines that failed out of the plan; throws when nothing else serves their regions.
  void leave_out(const std::map<std::string, Failure>& failures, RoutedGraph& graph,
                 std::vector<std::string>& problems) const {
    if (failures.empty()) {
      return;
    }
    // A call is eager from the first entry on that says so: engines after it are not counted on.
    std::vector<Region> served;
    for (const Plan::Entry& entry : graph.plan.entries) {
      if (entry.engine == Plan::kEager) {
        break;
      }
      if (failures.count(entry.engine) == 0) {
        served.push_back(entry.region);
      }
    }
    for (const Plan::Entry& entry : graph.plan.entries) {
      const auto failure = failures.find(entry.engine);
      if (failure == failures.end() || options_.has_model ||
          is_covered(entry.region, served, graph.contract.symbols())) {
        continue;
      }
      const std::string message = fmt::format(
          "{}: engine {} can't be loaded, and the plan has no other for all of its region ({}): {}",
          graph.name, entry.engine, to_string(entry.region), failure->second.reason);
      if (failure->second.is_permission) {
        throw BundleError(message);
      }
      throw EngineError(message);
    }
    auto& entries = graph.plan.entries;
    entries.erase(
        std::remove_if(entries.begin(), entries.end(),
                       [&](const Plan::Entry& entry) { return failures.count(entry.engine) != 0; }),
        entries.end());
    std::string reasons;
    for (const auto& [name, failure] : failures) {
      const std::string problem = fmt::format("engine {} was left out: {}", name, failure.reason);
      problems.push_back(graph.name + ": " + problem);
      reasons += (reasons.empty() ? "" : "; ") + problem;
    }
    if (graph.engines.empty()) {
      graph.eager_reason = reasons;  // so that calls say why they run eagerly
    }
  }

  const Bundle& bundle_;
  const LoadOptions& options_;
  const std::string& native_refusal_;
  const std::string& native_obstacle_;
};

}  // namespace

std::shared_ptr<Router> make_router(const Bundle& bundle, const LoadOptions& options,
                                    std::vector<std::string>* problems) {
  const std::string refusal = native_code_refusal(bundle, options);
  const std::string obstacle = native_code_obstacle(bundle.hardware);
  GraphLoader loader(bundle, options, refusal, obstacle);
  std::vector<std::string> found;
  std::vector<RoutedGraph> graphs;
  for (const StoredGraph& stored : bundle.graphs) {
    graphs.push_back(loader.load(stored, found));
  }
  if (problems != nullptr) {
    problems->insert(problems->end(), found.begin(), found.end());
  }
  try {
    return std::make_shared<Router>(std::move(graphs), bundle.strict);
  } catch (const ValueError& error) {
    throw BundleError(fmt::format("bundle {}: {}", bundle.folder.string(), error.what()));
  }
}

}  // namespace graphtune

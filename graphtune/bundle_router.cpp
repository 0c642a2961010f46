// From a bundle to a router: loads the engines, and leaves out those that can't be loaded where the
// plan has others.
#include <algorithm>
#include <atomic>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graphtune/engines/lazy_engine.h"
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

/// One engine of a graph: to be loaded, then loaded or failed.
struct EngineJob {
  std::size_t graph = 0;
  const StoredEngine* stored = nullptr;
  std::shared_ptr<Engine> engine;
  Failure failure;
};

/// Loads engines, or finds out why they can't be. Thread safe.
class EngineLoader {
 public:
  EngineLoader(const Bundle& bundle, const LoadOptions& options)
      : folder_(bundle.folder),
        options_(options),
        native_refusal_(native_code_refusal(bundle, options)),
        native_obstacle_(native_code_obstacle(bundle.hardware)) {}

  void load(EngineJob& job) const {
    try {
      job.engine = load(*job.stored, job.failure);
    } catch (const std::exception& error) {
      job.failure.reason = error.what();
    }
  }

 private:
  /// Null where `failure` says why.
  std::shared_ptr<Engine> load(const StoredEngine& stored, Failure& failure) const {
    Backend& backend = find_backend(stored.backend);
    if (stored.native_code || backend.loads_native_code()) {
      if (!native_refusal_.empty()) {
        failure = {native_refusal_, true};
        return nullptr;
      }
      if (!backend.is_portable() && !native_obstacle_.empty()) {
        failure.reason = native_obstacle_;
        return nullptr;
      }
    }
    failure.reason = backend.unavailable_reason();
    if (!failure.reason.empty()) {
      return nullptr;
    }
    const std::filesystem::path folder = folder_ / stored.folder;
    if (options_.loading == EngineLoading::OnFirstCall) {
      return std::make_shared<LazyEngine>(backend, folder, options_.engine);
    }
    return load_engine(backend, folder, options_.engine);
  }

  std::filesystem::path folder_;
  const LoadOptions& options_;
  std::string native_refusal_;
  std::string native_obstacle_;
};

void load_in_parallel(const EngineLoader& loader, std::vector<EngineJob>& jobs) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      loader.load(jobs[i]);
    }
  };
  const std::size_t count =
      std::min<std::size_t>(jobs.size(), std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < count; ++i) {
    others.emplace_back(work);
  }
  work();
}

/// The engines that the plans of a bundle name, loaded as the options say.
std::vector<EngineJob> load_engines(const Bundle& bundle, const LoadOptions& options) {
  std::vector<EngineJob> jobs;
  for (std::size_t graph = 0; graph < bundle.graphs.size(); ++graph) {
    const StoredGraph& stored = bundle.graphs[graph];
    if (!stored.spec.eager_reason().empty()) {
      continue;
    }
    for (const StoredEngine& engine : stored.engines) {
      const bool is_planned =
          std::any_of(stored.plan.entries.begin(), stored.plan.entries.end(),
                      [&](const Plan::Entry& entry) { return entry.engine == engine.name; });
      if (is_planned) {
        jobs.push_back({graph, &engine, nullptr, {}});
      }
    }
  }
  const EngineLoader loader(bundle, options);
  if (options.loading == EngineLoading::InParallel) {
    load_in_parallel(loader, jobs);
  } else {
    for (EngineJob& job : jobs) {
      loader.load(job);
    }
  }
  return jobs;
}

/// Makes the routed graphs of a bundle, with the engines that could be loaded.
class GraphMaker {
 public:
  explicit GraphMaker(const LoadOptions& options) : options_(options) {}

  /// `jobs`: those of this graph.
  RoutedGraph make(const StoredGraph& stored, std::span<EngineJob> jobs,
                   std::vector<std::string>& problems) const {
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
    for (EngineJob& job : jobs) {
      if (job.engine != nullptr) {
        graph.engines.push_back({job.stored->name, std::move(job.engine)});
      } else {
        failures[job.stored->name] = job.failure;
      }
    }
    leave_out(failures, graph, problems);
    return graph;
  }

 private:
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

  const LoadOptions& options_;
};

}  // namespace

std::shared_ptr<Router> make_router(const Bundle& bundle, const LoadOptions& options,
                                    std::vector<std::string>* problems) {
  std::vector<EngineJob> jobs = load_engines(bundle, options);
  const GraphMaker maker(options);
  std::vector<std::string> found;
  std::vector<RoutedGraph> graphs;
  auto first = jobs.begin();
  for (std::size_t graph = 0; graph < bundle.graphs.size(); ++graph) {
    const auto last =
        std::find_if(first, jobs.end(), [&](const EngineJob& job) { return job.graph != graph; });
    graphs.push_back(maker.make(bundle.graphs[graph], {first, last}, found));
    first = last;
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

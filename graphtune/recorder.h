#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphtune/call_key.h"
#include "graphtune/graph_spec.h"
#include "graphtune/sample_shelf.h"
#include "graphtune/traffic.h"

namespace graphtune {

/// Collects the graphs of one module from its calls. Thread safe: one lock, held briefly, never
/// while a model runs.
class GRAPHTUNE_API Recorder {
 public:
  struct Options {
    bool strict = true;
    std::uint32_t max_samples_stored = 16;  ///< per graph
    std::uint32_t max_graphs = 64;          ///< more are refused: ValueError with advice
  };
  explicit Recorder(Options options) : options_(options) {}

  struct Recorded {
    std::uint32_t graph = 0;  ///< index into graphs()
    bool new_graph = false;
    bool new_shapes = false;  ///< sizes (or a batch size) that this graph had not seen
    /// Shapes are new, and the caller should keep this sample's tensors: at this place among the
    /// graph's samples, where it may replace another.
    std::optional<std::uint32_t> place;
  };
  /// Throws ValueError above max_graphs; what was recorded stays. `can_store` false: the caller
  /// doesn't have the sample's tensors, so that no place is given to it.
  Recorded record(const CallTree& input, const CallTree& output,
                  std::optional<std::int64_t> batch_size, bool can_store = true);
  /// The same for an input whose key, by options().strict, is known already.
  Recorded record(const CallKey& key, const CallTree& input, const CallTree& output,
                  std::optional<std::int64_t> batch_size, bool can_store = true);
  /// Whether a sample of new shapes would be given a place.
  [[nodiscard]] bool wants(const CallKey& key, std::optional<std::int64_t> batch_size) const;

  /// Index of the graph with this key, if recorded.
  [[nodiscard]] std::optional<std::uint32_t> find(const CallKey& key) const;
  [[nodiscard]] std::vector<GraphSpec> graphs() const;  ///< copies, in order of first call
  [[nodiscard]] std::size_t graph_count() const;
  /// How often a graph's calls had which sizes. Throws ValueError for a graph that there is not.
  [[nodiscard]] Traffic traffic(std::uint32_t graph) const;
  void set_eager_reason(std::uint32_t graph, std::string reason);
  void clear();
  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  void check_graph(std::uint32_t graph) const;

  Options options_;
  mutable std::mutex mutex_;
  std::vector<GraphSpec> graphs_;
  std::vector<SampleShelf> shelves_;
  std::vector<Traffic> traffic_;
  std::unordered_map<CallKey, std::uint32_t, CallKeyHash> by_key_;
};

}  // namespace graphtune

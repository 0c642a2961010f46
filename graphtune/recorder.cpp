#include "graphtune/recorder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

/// Constants of two calls that differ in nothing else, by place: "['step'] (7, then 8)".
std::string changed_constants(const CallTree& before, const CallTree& after) {
  // Canonical order: the caller may have given the arguments of one in another order.
  const auto by_place = [](const CallTree& tree) {
    std::vector<std::pair<std::string, const Constant*>> places;
    const std::vector<Locator> locators = tree.constant_locators();
    for (std::size_t i = 0; i < locators.size(); ++i) {
      places.emplace_back(locators[i].to_string(), &tree.constants()[i]);
    }
    std::sort(places.begin(), places.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return places;
  };
  const auto old_places = by_place(before);
  const auto new_places = by_place(after);
  std::string text;
  for (std::size_t i = 0; i < old_places.size() && i < new_places.size(); ++i) {
    if (!(*old_places[i].second == *new_places[i].second)) {
      text += fmt::format("{}{} ({}, then {})", text.empty() ? "" : ", ",
                          shorten_middle(new_places[i].first), old_places[i].second->display(),
                          new_places[i].second->display());
    }
  }
  return text;
}

std::string too_many_graphs(std::uint32_t max_graphs, const GraphSpec& last, const CallTree& given,
                            bool strict) {
  std::string text = fmt::format(
      "more than {} execution graphs (max_graphs) of one module; what was recorded stays. ",
      max_graphs);
  const CallTree& known = last.input_spec().tree();
  if (strict && CallKey(known, false) == CallKey(given, false)) {
    return text +
           fmt::format(
               "The last two differ in the value of {}: pass the changing value as a tensor or "
               "set config.strict_mode = False.",
               changed_constants(known, given));
  }
  return text + fmt::format(
                    "The last two differ: {}. Give the module calls of fewer forms, or raise "
                    "max_graphs.",
                    describe_difference(last.input_spec(), SampleMetadata(given, strict)));
}

}  // namespace

Recorder::Recorded Recorder::record(const CallTree& input, const CallTree& output,
                                    std::optional<std::int64_t> batch_size, bool can_store) {
  thread_local CallKey key;  // keeps its memory
  key.assign(input, options_.strict);
  return record(key, input, output, batch_size, can_store);
}

Recorder::Recorded Recorder::record(const CallKey& key, const CallTree& input,
                                    const CallTree& output, std::optional<std::int64_t> batch_size,
                                    bool can_store) {
  if (batch_size) {
    check_batch_size(*batch_size);
  }
  thread_local std::vector<std::int64_t> sizes;  // keeps its memory
  collect_sizes(input, sizes);

  const std::lock_guard lock(mutex_);
  Recorded recorded;
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    recorded.graph = found->second;
    recorded.new_shapes = graphs_[recorded.graph].observe(input, output, batch_size);
  } else {
    if (graphs_.size() >= options_.max_graphs) {
      throw ValueError(
          options_.max_graphs == 0
              ? "max_graphs is 0: no execution graph can be recorded"
              : too_many_graphs(options_.max_graphs, graphs_.back(), input, options_.strict));
    }
    recorded.graph = static_cast<std::uint32_t>(graphs_.size());
    recorded.new_graph = true;
    recorded.new_shapes = true;
    GraphSpec graph(fmt::format("graph_{}", recorded.graph),
                    SampleMetadata(input, options_.strict, batch_size),
                    SampleMetadata(output, true, batch_size));
    graphs_.reserve(graphs_.size() + 1);
    shelves_.reserve(shelves_.size() + 1);
    traffic_.reserve(traffic_.size() + 1);
    by_key_.emplace(key, recorded.graph);
    graphs_.push_back(std::move(graph));  // can't fail any more: the four stay in step
    shelves_.emplace_back(options_.max_samples_stored);
    traffic_.emplace_back();
  }
  traffic_[recorded.graph].count(sizes);
  if (recorded.new_shapes && can_store) {
    SampleShelf& shelf = shelves_[recorded.graph];
    recorded.place = shelf.place_for(batch_size);
    if (recorded.place) {
      shelf.put(*recorded.place, batch_size);
    }
  }
  return recorded;
}

bool Recorder::wants(const CallKey& key, std::optional<std::int64_t> batch_size) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? options_.max_samples_stored > 0
                                : shelves_[found->second].place_for(batch_size).has_value();
}

std::optional<std::uint32_t> Recorder::find(const CallKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<GraphSpec> Recorder::graphs() const {
  const std::lock_guard lock(mutex_);
  return graphs_;
}

std::size_t Recorder::graph_count() const {
  const std::lock_guard lock(mutex_);
  return graphs_.size();
}

Traffic Recorder::traffic(std::uint32_t graph) const {
  const std::lock_guard lock(mutex_);
  check_graph(graph);
  return traffic_[graph];
}

void Recorder::check_graph(std::uint32_t graph) const {
  if (graph >= graphs_.size()) {
    throw ValueError(fmt::format("there is no graph {}: {} were recorded", graph, graphs_.size()));
  }
}

void Recorder::set_eager_reason(std::uint32_t graph, std::string reason) {
  const std::lock_guard lock(mutex_);
  check_graph(graph);
  graphs_[graph].set_eager_reason(std::move(reason));
}

void Recorder::clear() {
  const std::lock_guard lock(mutex_);
  graphs_.clear();
  shelves_.clear();
  traffic_.clear();
  by_key_.clear();
}

}  // namespace graphtune

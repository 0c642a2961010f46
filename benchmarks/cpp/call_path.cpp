// Runs one path of the core a given number of times, for callgrind to count its instructions:
//   graphtune_call_path PATH COUNT
// benchmarks/check_instructions.py takes the difference of two counts, so that starting and setting
// up cancel out. Nothing of Google Benchmark is here: it calls a path as often as it likes.
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "graphtune/batch.h"
#include "graphtune/error.h"
#include "workloads.h"

namespace graphtune::workloads {
namespace {

void require(bool holds) {
  if (!holds) {
    throw EngineError("a call missed its engine");
  }
}

void flatten_and_key(long count) {
  const Arguments arguments = encoder_call(2);
  CallTree tree;
  CallKey key;
  for (long i = 0; i < count; ++i) {
    flatten(arguments, tree);
    key.assign(tree, /*strict=*/true);
  }
}

void from_inputs(long count) {
  const Arguments arguments = encoder_call(2);
  for (long i = 0; i < count; ++i) {
    const SampleMetadata metadata = metadata_of(arguments, 2);
  }
}

void update_shapes_seen(long count) {
  const SampleMetadata first = metadata_of(list_call(100, 1, 8), 1);
  const SampleMetadata second = metadata_of(list_call(100, 2, 24), 2);
  for (long i = 0; i < count; ++i) {
    SampleMetadata learned = first;
    learned.update_shapes_seen(second);
    require(!learned.learner().axes().empty());
  }
}

void plan_batch(long count) {
  const SampleMetadata metadata = learned_encoder();
  const CallTree tree = flattened(encoder_call(2));
  for (long i = 0; i < count; ++i) {
    const BatchPlan plan = graphtune::plan_batch(metadata, tree, 8);
  }
}

void route(long count) {
  const RoutedGraphs graphs(1);
  CallTree tree;
  for (long i = 0; i < count; ++i) {
    flatten(graphs.calls().front(), tree);
    require(graphs.router().route(tree).engine != nullptr);
  }
}

template <std::int64_t kGraphs>
void route_known(long count) {
  const RoutedGraphs graphs(kGraphs);
  graphs.remember_forms();
  for (long i = 0; i < count; ++i) {
    CallForm form;
    take_form(graphs.calls()[static_cast<std::size_t>(i) % kGraphs], form);
    require(graphs.router().route(form).engine != nullptr);
  }
}

void module_call(long count) {
  const IdleBundle bundle;
  const Arguments arguments = IdleBundle::call();
  for (long i = 0; i < count; ++i) {
    require(!bundle.module().call(arguments).is_none());
  }
}

const std::map<std::string, std::function<void(long)>> kPaths{
    {"flatten_and_key", flatten_and_key},
    {"from_inputs", from_inputs},
    {"module_call", module_call},
    {"plan_batch", plan_batch},
    {"route", route},
    {"route_known/graphs:1", route_known<1>},
    {"route_known/graphs:64", route_known<64>},
    {"update_shapes_seen", update_shapes_seen},
};

}  // namespace
}  // namespace graphtune::workloads

int main(int argc, char** argv) {
  using graphtune::workloads::kPaths;
  if (argc == 1) {
    for (const auto& [name, run] : kPaths) {
      std::cout << name << '\n';
    }
    return 0;
  }
  const auto found = kPaths.find(argv[1]);
  if (argc != 3 || found == kPaths.end()) {
    std::cerr << "usage: graphtune_call_path [PATH COUNT]; without arguments: lists the paths\n";
    return 2;
  }
  try {
    found->second(std::strtol(argv[2], nullptr, 10));
  } catch (const graphtune::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}

#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "calls.h"
#include "commands.h"
#include "graphtune/error.h"
#include "graphtune/text_table.h"
#include "made_up_calls.h"
#include "output.h"
#include "statistics.h"

namespace graphtune::tools {
namespace {

class Bench {
 public:
  Bench(const Module& module, double seconds) : module_(module), seconds_(seconds) {}

  /// Measures one call; a miss is a row too.
  void measure(const std::string& title, const Arguments& arguments) {
    Module::Served served;
    try {
      served = module_.explain(arguments);
    } catch (const MissError& miss) {
      rows_.push_back({"", title, "none", "", "", "", ""});
      fmt::print(stderr, "graphtune: {}: {}\n", title, miss.what());
      return;
    }
    fmt::print(stderr, "measuring {} {} ...\n", served.graph, title);
    constexpr std::size_t kAtLeast = 5;
    const auto call = [&] { (void)module_.call(arguments); };
    const double warm_up = seconds_ * 0.2;
    for (double spent = seconds_of(call); spent < warm_up;) {
      spent += seconds_of(call);
    }
    std::vector<double> times;
    for (double spent = 0; spent < seconds_ || times.size() < kAtLeast;) {
      times.push_back(seconds_of(call));
      spent += times.back();
    }
    rows_.push_back({served.graph, title, served.engine, std::to_string(times.size()),
                     milliseconds(times, 0.1), milliseconds(times, 0.5), milliseconds(times, 0.9)});
  }

  void print() const {
    const std::vector<std::string> header = {"Graph",  "Sizes",     "Engine", "Calls",
                                             "p10 ms", "Median ms", "p90 ms"};
    print_out("{}\n", format_table(header, rows_, TableStyle::Simple));
  }

 private:
  static std::string milliseconds(const std::vector<double>& times, double share) {
    return fmt::format("{:.3f}", quantile(times, share) * 1e3);
  }

  const Module& module_;
  double seconds_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace

void bench(const BenchOptions& options) {
  std::optional<NamedTensors> tensors;
  if (!options.input.empty()) {
    tensors = read_safetensors(options.input);
  }
  const Module module = load_module(choose_bundle(options.bundle, options.module), options.load);
  Bench measured(module, options.seconds);
  if (tensors) {
    for (const NamedCall& call : make_calls(*tensors, module.bundle())) {
      measured.measure((call.number.empty() ? "" : call.number + ": ") + shapes_text(call.inputs),
                       call.arguments);
    }
  } else {
    for (const StoredGraph& graph : module.bundle().graphs) {
      if (!graph.spec.eager_reason().empty()) {
        fmt::print(stderr, "graphtune: {} is left out: it was not tuned: {}\n", graph.spec.name(),
                   graph.spec.eager_reason());
        continue;
      }
      for (const MadeUpCall& call : make_up_calls(graph)) {
        measured.measure(call.sizes, call.arguments);
      }
    }
  }
  measured.print();
}

}  // namespace graphtune::tools

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calls.h"
#include "commands.h"
#include "graphtune/error.h"
#include "graphtune/file.h"
#include "graphtune/json_view.h"
#include "output.h"
#include "statistics.h"

namespace graphtune::tools {
namespace {

struct Measured {
  Module::Served served;
  double best = 0;
  double median = 0;
};

Json shapes_to_json(const NamedTensors& tensors) {
  Json json = Json::object();
  for (const auto& [name, tensor] : tensors) {
    json[name] = {
        {"dtype", to_string(tensor.dtype())},
        {"shape", std::vector<std::int64_t>(tensor.sizes().begin(), tensor.sizes().end())}};
  }
  return json;
}

Json report_of(const NamedCall& call, const NamedTensors& results, const Measured& measured) {
  return {{"call", call.number},
          {"graph", measured.served.graph},
          {"engine", measured.served.engine},
          {"best_seconds", measured.best},
          {"median_seconds", measured.median},
          {"inputs", shapes_to_json(call.inputs)},
          {"outputs", shapes_to_json(results)}};
}

void write_report(const RunOptions& options, const Module& module, Json calls) {
  const Json report = {{"bundle", options.bundle.string()},
                       {"module", module.bundle().module_name},
                       {"repeat", options.repeat},
                       {"calls", std::move(calls)}};
  OutputFile file(options.report);
  file.write(report.dump(1) + '\n');
  file.commit();
}

}  // namespace

Module load_module(const std::filesystem::path& bundle, const LoadOptions& options) {
  Module module = Module::load(bundle, options);
  for (const std::string& problem : module.problems()) {
    fmt::print(stderr, "graphtune: {}\n", problem);
  }
  return module;
}

namespace {

/// Runs one call as often as is wanted.
Measured measure(const Module& module, const NamedCall& call, int repeat, Value& result) {
  Measured measured;
  measured.served = module.explain(call.arguments);
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(repeat));
  if (repeat > 1) {
    result = module.call(call.arguments);  // warms up
  }
  for (int i = 0; i < repeat; ++i) {
    seconds.push_back(seconds_of([&] { result = module.call(call.arguments); }));
  }
  measured.best = quantile(seconds, 0);
  measured.median = quantile(seconds, 0.5);
  return measured;
}

}  // namespace

void run(const RunOptions& options) {
  const NamedTensors tensors = read_safetensors(options.input);
  const Module module = load_module(choose_bundle(options.bundle, options.module), options.load);
  NamedTensors written;
  std::vector<Value> results;  // keep the memory of what is written
  Json report = Json::array();
  double total = 0;
  const std::vector<NamedCall> calls = make_calls(tensors, module.bundle(), options.graph);
  for (const NamedCall& call : calls) {
    const std::string title = call.number.empty() ? "call" : "call " + call.number;
    Value result;
    Measured measured;
    try {
      measured = measure(module, call, options.repeat, result);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", title, error.what()));
    }
    total += measured.median;
    NamedTensors named = name_results(result);
    print_out("{}: {} -> {}\n", title, shapes_text(call.inputs), shapes_text(named));
    print_out("  {} {}: {:.3f} ms{}\n", measured.served.graph, measured.served.engine,
              measured.median * 1e3,
              options.repeat > 1 ? fmt::format(" median of {}, best {:.3f} ms", options.repeat,
                                               measured.best * 1e3)
                                 : "");
    flush_output();
    report.push_back(report_of(call, named, measured));
    for (auto& [name, tensor] : named) {
      written.emplace_back(call.number.empty() ? name : call.number + "/" + name,
                           std::move(tensor));
    }
    results.push_back(std::move(result));
  }
  print_out("{} {}, {:.3f} ms\n", calls.size(), calls.size() == 1 ? "call" : "calls", total * 1e3);
  if (!options.output.empty()) {
    write_safetensors(options.output, written);
    print_out("results written to {}\n", options.output.string());
  }
  if (!options.report.empty()) {
    write_report(options, module, std::move(report));
  }
}

}  // namespace graphtune::tools
